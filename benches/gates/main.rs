//! The gates of the specification, by profile, on pairs of amount and window that no parameter was chosen on.
//!
//! Everything runs in virtual time on the engine; what is read is the upstream's log. Each cell is the worst of all
//! pairs and seeds. The specification's figures are for windows of a minute and an hour. Rows without a target are for
//! others: where the window is not much longer than a request takes, its latency is what is lost, and where a span of
//! minutes is less than a window, it is taken in windows.
//!
//! `cargo bench --no-default-features --features "sim test-util" --bench gates` prints the table as Markdown, and what is
//! missed below it.

mod campaigns;
mod fleet;
mod known;
mod trouble;
mod worst;

use std::collections::BTreeMap;

use mailweir::engine::{Limit, Unit};
use mailweir::upstream::Profile;

use worst::{Gate, Worst};

/// Amounts and windows in seconds; chosen on were 30/min, 120/min and 400/h.
const PAIRS: [(u64, u64); 13] = [
    (1, 1),
    (14, 1),
    (20, 10),
    (12, 30),
    (5, 60),
    (20, 60),
    (50, 60),
    (90, 60),
    (240, 60),
    (200, 300),
    (1_000, 600),
    (250, 3_600),
    (10_000, 86_400),
];

/// Pairs of windows that bind one after the other, as 120/min and 400/h do.
const TWO: [[(u64, u64); 2]; 6] = [
    [(14, 1), (10_000, 86_400)],
    [(100, 10), (3_000, 3_600)],
    [(50, 60), (200, 3_600)],
    [(90, 60), (500, 1_800)],
    [(20, 60), (900, 86_400)],
    [(200, 300), (1_500, 3_600)],
];

const SEEDS: u64 = 2;

fn limit((amount, seconds): (u64, u64)) -> Limit {
    Limit::new(amount, Unit::Requests, std::time::Duration::from_secs(seconds)).expect("a limit")
}

/// Every gate on one profile.
fn judged(profile: Profile) -> Vec<Worst> {
    gates().iter().map(|gate| (gate.judge)(profile)).collect()
}

fn main() {
    // A thread for each profile; a cell depends on nothing but its gate, its profile and the seeds.
    let columns: Vec<Vec<Worst>> = std::thread::scope(|scope| {
        let threads = Profile::ALL.map(|profile| scope.spawn(move || judged(profile)));
        threads.into_iter().map(|thread| thread.join().expect("no gate panics")).collect()
    });
    println!("| gate | pairs | target | A | B | C | D |");
    println!("|---|---|---|---|---|---|---|");
    let mut missed = Vec::new();
    for (number, gate) in gates().iter().enumerate() {
        let cells: Vec<&Worst> = columns.iter().filter_map(|column| column.get(number)).collect();
        let shown: Vec<String> = cells.iter().map(|worst| worst.shown(gate)).collect();
        let pairs = cells.iter().map(|worst| worst.pairs()).max().unwrap_or_default();
        println!("| {} | {pairs} | {} | {} |", gate.name, gate.target, shown.join(" | "));
        missed.extend(misses(gate, &cells));
    }
    for (name, what) in ELSEWHERE {
        println!("| {name} | | {what} | | | | |");
    }
    println!();
    match missed.as_slice() {
        [] => println!("Every gate that is judged here is met."),
        missed => println!("Missed, each pair with the worst of its figures:\n\n{}", missed.join("\n")),
    }
}

/// A line that names each pair that misses a gate, and on which profiles.
fn misses(gate: &Gate, cells: &[&Worst]) -> Option<String> {
    let mut pairs: BTreeMap<String, (Worst, String)> = BTreeMap::new();
    for (profile, worst) in Profile::ALL.iter().zip(cells) {
        for (at, value) in worst.missed(gate) {
            let (all, profiles) = pairs.entry(at.clone()).or_insert_with(|| (Worst::new(gate.good), String::new()));
            all.see(value, &at);
            profiles.push_str(&format!(" {profile:?}"));
        }
    }
    let one = |(at, (worst, profiles)): (String, (Worst, String))| {
        format!("{at} ({} on{profiles})", worst.value().map_or_else(String::new, |value| gate.figure(value)))
    };
    let pairs: Vec<String> = pairs.into_iter().map(one).collect();
    (!pairs.is_empty()).then(|| format!("- {}: {}", gate.name, pairs.join(", ")))
}

/// Gates that this bench cannot judge, and what does.
const ELSEWHERE: [(&str, &str); 2] = [
    ("G1 over 10⁶ mailbox-hours", "`tests/simulation`, see [verification.md](verification.md#the-long-run)"),
    ("G13 lost and doubled over crash points", "`tests/crash_points`: 0 and 0"),
];

fn gates() -> Vec<Gate> {
    let mut gates = campaigns::gates();
    gates.extend(trouble::gates());
    gates.extend(fleet::gates());
    gates
}
