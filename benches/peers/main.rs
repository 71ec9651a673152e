//! The same upstream, the same load, one run: mailweir beside what people build today.
//!
//! Everything runs in virtual time against the model of `mailweir::upstream`, whose log alone is read. Each peer is a
//! re-implementation of a design from its public description, except where its real library can be driven by a fake
//! clock (`governor`); its authors may hold guards that are not described. Peers over real HTTP are not there yet.
//!
//! `cargo bench --features sim --bench peers` prints Markdown; `-- --json FILE` writes one JSON line per cell,
//! `-- --pictures FOLDER` one SVG per scenario, `-- --runs N` changes how many seeds a cell is the mean of, `-- --only
//! TEXT` runs the scenarios whose name has it.

mod arena;
mod ours;
mod picture;
mod policy;
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
    let mut json = arguments.json.as_ref().map(|path| std::fs::File::create(path).expect("--json FILE is writable"));
    for scenario in Scenario::all() {
        if arguments.only.as_ref().is_some_and(|only| !scenario.name.contains(only.as_str())) {
            continue;
        }
        let rows = |profile| (profile, compare(&scenario, profile, arguments.runs));
        let profiles: Vec<(Profile, Vec<Row>)> = Profile::ALL.into_iter().map(rows).collect();
        println!("### {}\n\n{}\n\n{}", scenario.name, scenario.about, report::table(&profiles));
        if let Some(file) = &mut json {
            for (profile, row) in profiles.iter().flat_map(|(profile, rows)| rows.iter().map(move |row| (profile, row)))
            {
                writeln!(file, "{}", row.json(scenario.name, *profile)).expect("the file takes a line");
            }
        }
        let on_a = profiles.iter().find(|(profile, _)| *profile == Profile::A);
        if let (Some(folder), Some((_, rows))) = (&arguments.pictures, on_a) {
            let short = scenario.name.split(':').next().unwrap_or_default().to_lowercase();
            let picture = picture::draw(scenario.name, rows);
            std::fs::write(folder.join(format!("{short}.svg")), picture).expect("--pictures FOLDER is writable");
            println!("![{}](benchmarks/{short}.svg)\n", scenario.name);
        }
    }
}

/// Every policy on one scenario and profile, each the mean of `runs` seeds.
fn compare(scenario: &Scenario, profile: Profile, runs: u64) -> Vec<Row> {
    let seeds = || 0..runs;
    let mut rows: Vec<Row> = policy::ALL
        .iter()
        .map(|peer| Row::mean(peer.name, seeds().map(|seed| arena::run(scenario, profile, seed, peer)).collect()))
        .collect();
    let own = |mode, name| {
        let cells: Vec<Cell> = seeds().map(|seed| ours::run(scenario, profile, seed, mode)).collect();
        Row::mean(name, cells)
    };
    rows.push(own(LanesMode::HardCap, "mailweir, hard 50 % cap"));
    rows.push(own(LanesMode::ReservedWindow, "**mailweir**"));
    rows
}
