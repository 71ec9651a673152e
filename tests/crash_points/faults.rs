//! A store in trouble (F9): a write that fails, one whose answer is lost, one that is slow, a read that shows old rows;
//! and a death in the middle of it. And two stores that no one may have, so that the checks are seen to see.

use std::sync::Arc;
use std::time::Duration;

use mailweir::upstream::Random;

use crate::acts::Scenario;
use crate::book::What;
use crate::checks::check;
use crate::mortal::{Fate, Plan, UnderWay};
use crate::points::{self, number};
use crate::scenarios;
use crate::shelf::Shelf;
use crate::world::{Course, run};

/// Runs per scenario, unless said otherwise.
const RUNS: u64 = 6;

/// One write in eight is in trouble, one read in four is old; the process dies at one write.
#[derive(Debug)]
struct Trouble {
    seed: u64,
    dies_at: usize,
}

impl Plan for Trouble {
    fn fate(&self, number: usize, _: What) -> Fate {
        let mut random = Random::stream(self.seed, 0xF9_0000 + number as u64);
        if number == self.dies_at {
            return if random.below(2) == 0 { Fate::DieBefore } else { Fate::DieAfter };
        }
        match random.below(24) {
            0 => Fate::Fail,
            1 => Fate::Doubt,
            2 => Fate::Slow(Duration::from_millis(random.below(20_000))),
            _ => Fate::GoOn,
        }
    }

    fn is_stale(&self, read: u64) -> bool {
        Random::stream(self.seed, 0x01D_0000 + read).below(4) == 0
    }
}

fn trouble(scenario: &Scenario, seed: u64) -> Result<(), String> {
    let mut random = Random::stream(seed, 0xF9);
    let plan = Trouble { seed, dies_at: usize::try_from(random.below(220)).expect("small") };
    let course = Course {
        seed,
        plan: Arc::new(plan),
        under_way: if random.below(2) == 0 { UnderWay::Arrives } else { UnderWay::IsLost },
        downtime: Duration::from_secs(random.below(90)),
    };
    let run = run(scenario, &course, &Shelf::memory())?;
    check(scenario, &run).map(drop)
}

#[test]
fn a_store_in_trouble_loses_nothing_and_sends_nothing_twice() {
    let runs = number("MAILWEIR_CRASH_FAULT_RUNS").unwrap_or(RUNS);
    let only = number("MAILWEIR_CRASH_FAULT_SEED");
    for scenario in scenarios::ALL {
        for seed in (0..runs).filter(|seed| only.is_none_or(|only| only == *seed)) {
            trouble(&scenario, seed).unwrap_or_else(|what| {
                panic!(
                    "{} seed {seed}: {what}\nreplay: MAILWEIR_CRASH_FAULT_SEED={seed} MAILWEIR_CRASH_FAULT_RUNS={} \
                     cargo test --features \"sqlite test-util\" --test crash_points -- --nocapture a_store_in_trouble",
                    scenario.name,
                    seed + 1
                )
            });
        }
    }
    println!("{runs} runs of each of {} scenarios", scenarios::ALL.len());
}

/// Says of one write that it was done.
#[derive(Debug)]
struct Liar {
    about: What,
    nth: usize,
    seen: std::sync::atomic::AtomicUsize,
}

impl Plan for Liar {
    fn fate(&self, _: usize, what: What) -> Fate {
        use std::sync::atomic::Ordering::SeqCst;
        let is_it = what == self.about && self.seen.fetch_add(1, SeqCst) == self.nth;
        if is_it { Fate::Lie } else { Fate::GoOn }
    }
}

#[test]
fn a_store_that_did_not_write_what_it_said_is_found_out() {
    let scenario = points::scenario("campaign").unwrap();
    for about in [What::Insert, What::Claim, What::Record] {
        let plan = Arc::new(Liar { about, nth: 3, seen: 0.into() });
        let course = Course { plan, ..points::undisturbed(0) };
        let found = run(scenario, &course, &Shelf::memory()).and_then(|run| check(scenario, &run));
        println!("{about:?}: {}", found.expect_err("a lie that nobody noticed"));
    }
}

/// Dies once, and is told nothing of its past attempts afterwards.
#[derive(Debug)]
struct Amnesia {
    dies_at: usize,
}

impl Plan for Amnesia {
    fn fate(&self, number: usize, _: What) -> Fate {
        if number == self.dies_at { Fate::DieAfter } else { Fate::GoOn }
    }

    fn forgets_attempts(&self) -> bool {
        true
    }
}

#[test]
fn a_restart_that_forgets_its_attempts_is_found_out() {
    let scenario = points::scenario("campaign").unwrap();
    let course = Course { plan: Arc::new(Amnesia { dies_at: 80 }), ..points::undisturbed(0) };
    let found = run(scenario, &course, &Shelf::memory()).and_then(|run| check(scenario, &run));
    let found = found.expect_err("a fresh window after the restart");
    assert!(found.contains("L1") || found.contains("refused"), "{found}");
}
