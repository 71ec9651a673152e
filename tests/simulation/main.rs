//! Random worlds, each from one number: every upstream kind at random phase, latency, clock rate, faults and load; some
//! stand still for minutes, some are slow, in some the limits change while they run, the process dies, rows are not
//! written, mail is cancelled, the upstream blocks or halves its limits or serves others.
//!
//! *Safety* (here): nothing that must not happen happens. *Liveness* (`liveness`): the faults end, and then everything goes on.
//!
//! The checkers read the upstream's log. A failure names its seed and the command that replays it.
//! `MAILWEIR_MAILBOX_HOURS=1000000 cargo test --release --features sim --test simulation no_upstream` is the long run,
//! `MAILWEIR_LIVENESS_RUNS=10000` the same for `liveness`; `MAILWEIR_SEED_BASE` says with which seed either begins.
#![cfg(feature = "sim")]

mod checks;
mod course;
mod liveness;
#[path = "../replay/mod.rs"]
mod replay;
mod shared;
mod troubles;
mod worlds;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use mailweir::engine::ScopeKind;
use mailweir::upstream::check;

use checks::Expected;
use replay::{Replay, number};

const SAFETY: Replay = Replay { features: "sim", test: "simulation", name: "one_seed" };

/// Runs one seed for `hours` and answers how many sends arrived.
fn run(seed: u64, hours: u64) -> Result<u64, String> {
    let mut run = worlds::plan(seed, hours);
    run.world.run_until(run.end);
    let (world, limits, shared) =
        (&run.world, &run.limits, run.kept.iter().filter(|it| it.scope != ScopeKind::Mailbox));
    let named = |what: String| format!("limits {limits:?}, shared {:?}: {what}", shared.clone().collect::<Vec<_>>());
    let fail = |what: String| Err(named(what));

    let log = world.upstream().log();
    if log.dropped() > 0 {
        return fail("the log overflowed".to_owned());
    }
    let counts = check::counts(log.client());
    if counts.refused > 0 && !run.disturbed {
        return fail(format!("{} refusals of {} arrivals", counts.refused, counts.arrivals));
    }
    if counts.duplicates > 0 {
        return fail(format!("{} duplicates under at-most-once", counts.duplicates));
    }
    checks::windows(world, &run.kept).map_err(named)?;
    checks::epochs(world, &run.declared).map_err(named)?;
    checks::accepted_means_taken(world).map_err(named)?;
    checks::nothing_is_lost(world).map_err(named)?;
    if !run.weighted && !run.faulty && !run.disturbed && !run.cancelled {
        checks::order(world).map_err(|violation| named(violation.to_string()))?;
    }
    let unknown = run.faulty || run.disturbed;
    checks::outcomes(world, Expected { unknown, cancelled: run.cancelled }).map_err(named)?;
    checks::operations(world).map_err(|violation| named(violation.to_string()))?;
    Ok(counts.arrivals)
}

/// Runs `seeds` on two cores, until one of them fails, and adds up what they come to.
fn sum(replay: Replay, seeds: Range<u64>, one: impl Fn(u64) -> Result<u64, String> + Sync) -> u64 {
    let broken = AtomicBool::new(false);
    let seed = |seed| {
        let came_to =
            std::panic::AssertUnwindSafe(|| replay.run(seed, |seed| one(seed).unwrap_or_else(|what| panic!("{what}"))));
        std::panic::catch_unwind(came_to).unwrap_or_else(|panic| {
            broken.store(true, Ordering::Relaxed);
            std::panic::resume_unwind(panic)
        })
    };
    let half = |odd| {
        let mine = seeds.clone().filter(|seed| seed % 2 == odd);
        mine.take_while(|_| !broken.load(Ordering::Relaxed)).map(seed).sum::<u64>()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        half(0) + other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

const HOURS_PER_RUN: u64 = 5;

#[test]
fn no_upstream_ever_refuses_a_send_of_ours() {
    let hours = number("MAILWEIR_MAILBOX_HOURS").unwrap_or(10_000);
    let base = number("MAILWEIR_SEED_BASE").unwrap_or(0);
    let runs = hours.div_ceil(HOURS_PER_RUN);
    let arrivals = sum(SAFETY, base..base + runs, |seed| run(seed, HOURS_PER_RUN));
    println!("{} mailbox-hours, {runs} runs, {arrivals} arrivals: 0 refusals, 0 violations", runs * HOURS_PER_RUN);
    assert!(arrivals > runs, "the runs send something");
}

#[test]
fn one_seed() {
    // Without a seed to replay, one that is known to be faulty and weighted.
    let seed = number("MAILWEIR_SEED").unwrap_or(3);
    let arrivals = SAFETY.run(seed, |seed| run(seed, HOURS_PER_RUN).unwrap_or_else(|what| panic!("{what}")));
    println!("seed {seed}: {arrivals} arrivals, nothing wrong");
}
