//! The same upstream, the same load, one run: mailweir beside what people build today.
//!
//! Everything runs in virtual time against the model of `mailweir::upstream`, whose log alone is read. Each peer is a
//! re-implementation of a design from its public description, except where its real library can be driven by a fake
//! clock (`governor`), or its real server by keys (Redis: a `redis-server` of the bench's own, on a free port); authors may
//! hold guards that are not described. Peers over real HTTP are in `benches/node.rs`.
//!
//! `cargo bench --features "redis sim" --bench peers` prints Markdown; `-- --json FILE` writes one JSON line per cell,
//! `-- --pictures FOLDER` one SVG per scenario, `-- --runs N` changes how many seeds a cell is the mean of, `-- --only
//! TEXT` runs the scenarios whose name has it.

mod ahead;
mod arena;
mod ours;
mod picture;
mod policy;
#[allow(clippy::unwrap_used, reason = "a server that does not start ends the bench")]
#[path = "../../tests/redis_server/mod.rs"]
mod redis_server;
mod report;
mod scenario;

use std::io::Write as _;

use mailweir::engine::policy::LanesMode;
use mailweir::upstream::Profile;
use report::{Cell, Row};
use scenario::Scenario;

const RUNS: u64 = 4;

struct Arguments {
    runs: u64,
    json: Option<String>,
    only: Option<String>,
    pictures: Option<std::path::PathBuf>,
}

fn arguments() -> Arguments {
    let mut arguments = Arguments { runs: RUNS, json: None, only: None, pictures: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        match word.as_str() {
            "--runs" => arguments.runs = value().parse().expect("--runs takes a number"),
            "--json" => arguments.json = Some(value()),
            "--pictures" => arguments.pictures = Some(value().into()),
            "--only" => arguments.only = Some(value()),
            // What cargo bench adds.
            _ => {}
        }
    }
    arguments
}

fn main() {
    let arguments = arguments();
    let databases = policy::DATABASES.to_string();
    let server = redis_server::RedisServer::with(&["--appendonly", "no", "--databases", &databases]);
    let mut json = arguments.json.as_ref().map(|path| std::fs::File::create(path).expect("--json FILE is writable"));
    let mut all = Vec::new();
    for scenario in Scenario::all() {
        if arguments.only.as_ref().is_some_and(|only| !scenario.name.contains(only.as_str())) {
            continue;
        }
        let profiles = on_every_profile(&scenario, arguments.runs, &server.url());
        println!("### {}\n\n{}\n\n{}", scenario.name, scenario.about, report::table(&profiles));
        if let Some(file) = &mut json {
            for (profile, row) in profiles.iter().flat_map(|(profile, rows)| rows.iter().map(move |row| (profile, row)))
            {
                writeln!(file, "{}", row.json(scenario.name, *profile)).expect("the file takes a line");
            }
        }
        if let Some(folder) = &arguments.pictures {
            draw(folder, scenario.name, &profiles);
        }
        all.push((scenario.name, profiles));
    }
    println!("{}", ahead::tables(&all));
}

/// A thread for each profile: a cell depends on nothing but its policy, its profile and the seeds.
fn on_every_profile(scenario: &Scenario, runs: u64, redis: &str) -> ahead::Profiles {
    std::thread::scope(|scope| {
        let threads =
            Profile::ALL.map(|profile| scope.spawn(move || (profile, compare(scenario, profile, runs, redis))));
        threads.into_iter().map(|thread| thread.join().expect("no policy panics")).collect()
    })
}

/// Profile A, and where a naive sender is first, that as well: S0 on fixed windows.
fn draw(folder: &std::path::Path, name: &str, profiles: &[(Profile, Vec<Row>)]) {
    let short = name.split(':').next().unwrap_or_default().to_lowercase();
    for (profile, rows) in profiles {
        let file = match profile {
            Profile::A => format!("{short}.svg"),
            Profile::C if short == "s0" => format!("{short}-c.svg"),
            _ => continue,
        };
        let picture = picture::draw(name, *profile, rows);
        std::fs::write(folder.join(&file), picture).expect("--pictures FOLDER is writable");
        println!("![{name}, profile {profile:?}](benchmarks/{file})\n");
    }
}

/// Every policy on one scenario and profile, each the mean of `runs` seeds.
fn compare(scenario: &Scenario, profile: Profile, runs: u64, redis: &str) -> Vec<Row> {
    let seeds = || 0..runs;
    let mut rows: Vec<Row> = policy::ALL
        .iter()
        .map(|peer| {
            Row::mean(peer.name, seeds().map(|seed| arena::run(scenario, profile, seed, peer, redis)).collect())
        })
        .collect();
    let own = |mode, name| {
        let cells: Vec<Cell> = seeds().map(|seed| ours::run(scenario, profile, seed, mode)).collect();
        Row::mean(name, cells)
    };
    rows.push(own(LanesMode::HardCap, "mailweir, hard 50 % cap"));
    rows.push(own(LanesMode::ReservedWindow, "**mailweir**"));
    rows
}
