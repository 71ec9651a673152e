//! The protocol by which many processes share one mailbox's budget, every state of it, before anybody builds it.
//!
//! An owner holds a lease with a fencing token, claims each slot in a shared ledger, goes on at half the rate when it
//! does not reach it, and a successor keeps to half until the other must be silent. The checker tries every order of
//! calls, lost replies, crashes, arrivals and failovers that forget the last writes. The table in docs/verification.md
//! is what it prints:
//!
//! `cargo test --no-default-features --features sim --test lease_model -- --nocapture`; with `MAILWEIR_LEASE_MODEL=all`
//! also the larger sizes, which take minutes and gigabytes. A rule that is left out must break the bound; its trace is printed.
//!
//! What is not in it: clocks of different rates (the margin of the lease), a pause longer than D between the claim and
//! the first byte (bounded by argument), several limits at once (each has a ledger of its own, and a grant needs all).

mod cases;
mod chunks;
mod ledger;
mod process;
mod protocol;
mod rules;
mod state;

use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};

use stateright::{Checker, HasDiscoveries, Model};

use cases::{ChunkCase, LeaseCase};
use chunks::ChunkModel;
use protocol::{Protocol, REACHED, WITHIN};

/// What is expected of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Every state was seen; some window holds N and none more.
    Holds,
    /// Some window holds more than N.
    Breaks,
}

/// Checks one model and prints its row.
#[track_caller]
fn check<M>(name: &str, model: M, limit: u8, expected: Expected, most: impl Fn(&M) -> usize)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + PartialEq + std::hash::Hash + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let checker = model.checker();
    let checker = match expected {
        Expected::Holds => checker,
        Expected::Breaks => checker.finish_when(HasDiscoveries::AllOf([WITHIN].into())),
    };
    let done = checker.spawn_bfs().join();
    let found = done.discoveries();
    println!("| {name} | {} | **{}** | {limit} |", done.unique_state_count(), most(done.model()));
    let trace = found.get(WITHIN).map(|path| path.clone().into_actions());
    match expected {
        Expected::Holds => {
            assert_eq!(trace, None, "{name}: too much in one window");
            assert!(found.contains_key(REACHED), "{name}: no window is ever full, so the bound shows nothing");
        }
        Expected::Breaks => {
            let trace = trace.unwrap_or_else(|| panic!("{name}: nothing breaks, so the rule is not needed"));
            println!("  {trace:?}");
        }
    }
}

#[track_caller]
fn check_leases(cases: Vec<LeaseCase>, expected: Expected) {
    for (name, rules) in cases {
        let limit = rules.limit;
        let model = Protocol { rules, most: AtomicUsize::new(0) };
        check(&name, model, limit, expected, |model: &Protocol| model.most.load(Ordering::Relaxed));
    }
}

#[track_caller]
fn check_chunks(cases: Vec<ChunkCase>, expected: Expected) {
    for (name, rules) in cases {
        let limit = rules.limit;
        let model = ChunkModel { rules, most: AtomicUsize::new(0) };
        check(&name, model, limit, expected, |model: &ChunkModel| model.most.load(Ordering::Relaxed));
    }
}

#[test]
fn no_window_holds_more_than_the_limit() {
    check_leases(cases::whole(), Expected::Holds);
}

#[test]
fn nor_after_failovers_that_forget_the_last_writes() {
    check_leases(cases::whole_with_failovers(), Expected::Holds);
}

#[test]
fn every_rule_is_needed() {
    check_leases(cases::one_rule_less(), Expected::Breaks);
}

#[test]
fn chunks_of_an_application_stay_within_its_limit() {
    check_chunks(cases::chunks(), Expected::Holds);
    check_chunks(cases::chunks_with_one_rule_less(), Expected::Breaks);
}

#[test]
fn larger_sizes_on_request() {
    let all = std::env::var("MAILWEIR_LEASE_MODEL").is_ok_and(|value| value == "all");
    let cases = cases::larger();
    if !all {
        println!("{} larger models: MAILWEIR_LEASE_MODEL=all checks them", cases.len());
        return;
    }
    check_leases(cases, Expected::Holds);
}
