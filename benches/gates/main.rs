//! The gates of the specification, by profile, on pairs of amount and window that no parameter was chosen on.
//!
//! Everything runs in virtual time on the engine; what is read is the upstream's log. Each cell is the worst of all
//! pairs and seeds. The specification's figures are for windows of a minute and an hour. Rows without a target are for
//! others: where the window is not much longer than a request takes, its latency is what is lost, and where a span of
//! minutes is less than a window, it is taken in windows.
//!
//! `cargo bench --no-default-features --features sim --bench gates` prints the table as Markdown, and what is missed below it.

mod campaigns;
mod trouble;
mod worst;

use mailweir::engine::{Limit, Unit};
use mailweir::upstream::Profile;

use worst::{Gate, Worst};

/// Amounts and windows in seconds; chosen on were 30/min, 120/min and 400/h.
const PAIRS: [(u64, u64); 10] =
    [(1, 1), (14, 1), (20, 10), (5, 60), (50, 60), (90, 60), (200, 300), (1_000, 600), (250, 3_600), (10_000, 86_400)];

/// Pairs of windows that bind one after the other, as 120/min and 400/h do.
const TWO: [[(u64, u64); 2]; 3] = [[(50, 60), (200, 3_600)], [(90, 60), (500, 1_800)], [(20, 60), (900, 86_400)]];

const SEEDS: u64 = 2;

fn limit((amount, seconds): (u64, u64)) -> Limit {
    Limit::new(amount, Unit::Requests, std::time::Duration::from_secs(seconds)).expect("a limit")
}

fn main() {
    println!("| gate | target | A | B | C | D |");
    println!("|---|---|---|---|---|---|");
    let mut missed = Vec::new();
    for gate in &gates() {
        let cells: Vec<Worst> = Profile::ALL.iter().map(|profile| (gate.judge)(*profile)).collect();
        let shown: Vec<String> = cells.iter().map(|worst| worst.shown(gate)).collect();
        println!("| {} | {} | {} |", gate.name, gate.target, shown.join(" | "));
        let short: Vec<&Worst> = cells.iter().filter(|worst| !worst.met(gate)).collect();
        if let Some(one) = short.first() {
            missed.push(format!("{} ({} of 4 profiles, by {})", gate.name, short.len(), one.at));
        }
    }
    for (name, what) in ELSEWHERE {
        println!("| {name} | {what} | | | | |");
    }
    println!();
    match missed.as_slice() {
        [] => println!("Every gate that is judged here is met."),
        missed => println!("Missed: {}.", missed.join("; ")),
    }
}

/// Gates that this bench cannot judge, and what does.
const ELSEWHERE: [(&str, &str); 4] = [
    ("G1 over 10⁶ mailbox-hours", "`tests/simulation`, see [verification.md](verification.md#the-long-run)"),
    ("G9 Redis gone for ten minutes", "not judged here; `tests/fleet`, over a store in memory: ten minutes away"),
    ("G10 1 to 16 processes", "not judged here; `tests/fleet`, over a store in memory: 1, 2 and 4"),
    ("G13 lost and doubled over crash points", "`tests/crash_points`: 0 and 0"),
];

fn gates() -> Vec<Gate> {
    let mut gates = campaigns::gates();
    gates.extend(trouble::gates());
    gates
}
