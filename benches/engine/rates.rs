//! Decisions a second of processor time, as a table: what a core comes to, whatever else the machine does beside it.

use crate::replay::REPLAYS;

/// Each takes its turn so often; the fastest turn counts, for others can only slow it down.
const TURNS: usize = 5;
/// Decisions of one turn, at least.
const DECISIONS: u64 = 3_000_000;

/// Processor time of this thread so far, in nanoseconds. `None` where there is no `/proc`.
fn processor_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().next()?.parse().ok()
}

/// Prints a row for each replay.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub(crate) fn print() {
    println!("| replay | decisions a second of processor time | ns each |");
    println!("|---|---|---|");
    for (name, record) in REPLAYS {
        let recording = record();
        let mut best = f64::INFINITY;
        for _ in 0..TURNS {
            let (Some(before), mut decided) = (processor_ns(), 0) else { break };
            while decided < DECISIONS {
                decided += recording.play(usize::MAX).decisions;
            }
            let Some(after) = processor_ns() else { break };
            best = best.min((after - before) as f64 / decided as f64);
        }
        match best.is_finite() {
            true => println!("| {name} | {:.1} M | {best:.0} |", 1_000.0 / best),
            false => println!("| {name} | not measured: no /proc | |"),
        }
    }
}
