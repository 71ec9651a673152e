//! Crash points: every durable write of every scenario is an instant at which the process dies.
//!
//! A scenario is run once to count its durable writes. Then it is run once per write and killed there, just before the
//! write takes effect and just after, and started again over what the store then holds, against the same upstream. At
//! the end nothing may be lost, nothing sent twice but what the policy or a person allows after it was unknown, no window
//! exceeded, and what callers were told has to be so. What people ordered is looked for in each new process (`stands`) and
//! followed to the end (`obeyed`). A scenario says what it is to show (`sights`), and fails where that never happened.
//! Every fifth run dies a second time soon after its restart. The same with a store that fails, is slow, leaves its
//! caller in doubt or shows old rows (`faults`), and over SQLite files (`files`).
//!
//! What is under test is what a program has: the scheduler, its actors, their order of writes. `mortal` says how one dies.
//!
//! Not here: a commit that a disk loses after it said that it was synced, and power loss within a write.
//!
//! | variable | |
//! |---|---|
//! | `MAILWEIR_CRASH_STRIDE` | every how many points; 1: all of them |
//! | `MAILWEIR_CRASH_SEEDS` | seeds per scenario |
//! | `MAILWEIR_CRASH_POINT` | the one that `one_point` runs, as a failure prints it |
//! | `MAILWEIR_CRASH_TRACE` | an operation's id: everything that is written of it is printed |

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod acts;
mod book;
mod caller;
mod checks;
mod faults;
mod files;
mod mortal;
mod obeyed;
mod one;
mod orders;
mod people;
mod points;
mod scenarios;
mod shelf;
mod sights;
mod stands;
mod world;

use crate::points::{Point, enumerate};

/// One test per scenario, so that they share the cores.
macro_rules! every_point_of {
    ($($name:ident => $scenario:literal,)*) => {$(
        #[test]
        fn $name() {
            enumerate($scenario);
        }
    )*};
}

every_point_of! {
    a_campaign_survives_a_death_at_each_write => "campaign",
    throttles_survive_a_death_at_each_write => "throttled",
    unknowns_survive_a_death_at_each_write => "unknowns",
    unknowns_that_nobody_can_look_up_survive_a_death_at_each_write => "nobody_tells",
    cancels_and_holds_survive_a_death_at_each_write => "steered",
    deadlines_and_attempts_that_run_out_survive_a_death_at_each_write => "deadlines",
    two_mailboxes_under_one_limit_survive_a_death_at_each_write => "two_mailboxes",
    at_least_once_survives_a_death_at_each_write => "at_least_once",
    holds_that_are_lifted_in_part_survive_a_death_at_each_write => "widened",
    permits_survive_a_death_at_each_write => "permits",
    admission_keys_survive_a_death_at_each_write => "clicks",
    orders_about_operations_survive_a_death_at_each_write => "ordered",
    breakers_and_holds_by_hand_survive_a_death_at_each_write => "stopped",
    emails_that_crash_their_transport_survive_a_death_at_each_write => "poisoned",
    blind_repeats_survive_a_death_at_each_write => "remembered",
    a_limit_that_spans_a_day_survives_a_death_at_each_write => "days",
}

#[test]
fn every_scenario_is_enumerated() {
    let text = include_str!("main.rs");
    for scenario in scenarios::ALL {
        assert!(text.contains(&format!("=> \"{}\"", scenario.name)), "{} has no test", scenario.name);
    }
}

#[test]
fn one_point() {
    let text = std::env::var("MAILWEIR_CRASH_POINT").unwrap_or_else(|_| "steered:1:20:after".to_owned());
    let point: Point = text.parse().unwrap();
    drop(point.run().unwrap_or_else(|what| panic!("{what}")));
    println!("{point}: nothing wrong");
}
