//! New limits over an old record.

use std::time::Duration;

use super::*;
use crate::engine::ratio::Ratio;
use crate::engine::verdict::Verdict;

const T0: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

fn at(seconds: u64) -> Timestamp {
    T0.after(Duration::from_secs(seconds))
}

fn scope(limits: &[&str]) -> ScopePolicy {
    ScopePolicy { limits: limits.iter().map(|text| text.parse().expect("a limit")).collect(), concurrency: None }
}

fn budget(limits: &[&str]) -> Budget {
    Budget::new(Scope::Application, &scope(limits))
}

/// One send every `gap` seconds, from T0 up to and including `last`.
fn sent(budget: &mut Budget, gap: u64, last: u64) {
    let policy = SharedPolicy::default();
    let rules = Rules::from(&policy);
    for now in (0..=last / gap).map(|step| at(step * gap)) {
        budget.reserve(now, Lane::Foreground, &Cost::ONE_REQUEST, rules, &mut Vec::new());
        let (answer, blame) = (Verdict::Accepted.into(), Blame::Here);
        let cost = Cost::ONE_REQUEST;
        budget.settle(now, Lane::Foreground, &cost, (now, now), &answer, blame, rules, 0, &mut Vec::new());
    }
}

fn used(budget: &Budget, now: Timestamp) -> Vec<u64> {
    budget.rows().iter().map(|row| row.ledger.used(now)).collect()
}

fn until(budget: &Budget, now: Timestamp) -> Option<Timestamp> {
    let policy = SharedPolicy::default();
    let wait = budget.wait(now, Lane::Foreground, &Cost::ONE_REQUEST, Grant::Ordinary, Rules::from(&policy));
    wait.map(|wait| wait.until)
}

#[test]
fn a_new_window_begins_with_the_record_of_the_next_longer_one() {
    let mut budget = budget(&["30 requests / 1m", "10000 requests / 10m"]);
    sent(&mut budget, 2, 598);
    assert_eq!(used(&budget, at(599)), [30, 300]);
    budget.reconfigure(
        at(599),
        &scope(&["25 requests / 59s", "10000 requests / 10m"]),
        &[],
        Rules::from(&SharedPolicy::default()),
    );
    assert_eq!(used(&budget, at(599)), [30, 300], "the minute's, not the ten minutes'");
    let next = until(&budget, at(599)).expect("30 of 25");
    assert!(next <= at(611), "{next:?}: six of the minute have to go");
}

#[test]
fn of_a_record_that_is_kept_a_new_window_takes_what_it_covers() {
    let mut budget = budget(&["30 requests / 1m", "4000 requests / 10m"]);
    sent(&mut budget, 2, 598);
    let policy = scope(&["100 requests / 2m", "4000 requests / 10m"]);
    budget.reconfigure(at(599), &policy, &[], Rules::from(&SharedPolicy::default()));
    assert_eq!(used(&budget, at(599)), [60, 300], "those of the last two minutes");
    assert_eq!(until(&budget, at(599)), None);
    // What it covers counts as long as it would have, had the window been there.
    assert_eq!(used(&budget, at(599 + 119)), [1, 241]);
    assert_eq!(used(&budget, at(599 + 121)), [0, 240]);
}

#[test]
fn a_record_that_nothing_else_keeps_is_kept_whole() {
    let mut budget = budget(&["10 requests / 10m"]);
    sent(&mut budget, 60, 540);
    budget.reconfigure(at(540), &scope(&["10 requests / 1m"]), &[], Rules::from(&SharedPolicy::default()));
    assert_eq!(used(&budget, at(540)), [10], "raising grants no free window");
    budget.reconfigure(
        at(540),
        &scope(&["10 requests / 1h", "5 bytes / 1h"]),
        &[],
        Rules::from(&SharedPolicy::default()),
    );
    assert_eq!(used(&budget, at(540)), [10, 0]);
    assert_eq!(used(&budget, at(3_600)), [10, 0], "and counts as long as the longer one says");
}

#[test]
fn other_margins_hold_from_the_reload_on_for_limits_that_stay() {
    let mut budget = budget(&["1 requests / 1m"]);
    sent(&mut budget, 1, 0);
    let guard = GuardPolicy { clock_error: Ratio::percent(50), ..GuardPolicy::default() };
    let policy = SharedPolicy { guard, ..SharedPolicy::default() };
    budget.reconfigure(T0, &scope(&["1 requests / 1m"]), &[], Rules::from(&policy));
    assert_eq!(until(&budget, T0), Some(at(120)), "a minute may be two by the provider's clock");
}

#[test]
fn a_limit_of_a_new_unit_counts_what_is_in_flight() {
    for limits in [&["1000 requests / 1h"][..], &[]] {
        let (policy, mut events) = (SharedPolicy::default(), Vec::new());
        let (rules, mut budget) = (Rules::from(&policy), budget(limits));
        let (a, b) = (Cost::email(50, 1_000), Cost::email(60, 1_000));
        budget.reserve(T0, Lane::Foreground, &a, rules, &mut events);
        let with = [limits, &["100 recipients / 1h"]].concat();
        budget.reconfigure(at(1), &scope(&with), &[(Lane::Foreground, a)], rules);
        let wait = |budget: &Budget, now, cost| budget.wait(now, Lane::Foreground, cost, Grant::Ordinary, rules);
        assert!(wait(&budget, at(1), &b).is_some(), "50 are on their way");
        // Refused for good: its recipients come back, and nobody else's.
        let refused = Verdict::Permanent { of: crate::engine::verdict::Subject::Message }.into();
        budget.settle(at(2), Lane::Foreground, &a, (T0, T0), &refused, Blame::Here, rules, 0, &mut events);
        assert_eq!(wait(&budget, at(2), &b), None);
        budget.reserve(at(2), Lane::Foreground, &b, rules, &mut events);
        assert!(wait(&budget, at(3), &b).is_some(), "60 and 60 are more than 100");
    }
}

#[test]
fn a_larger_margin_and_a_short_window_beside_a_kept_one_free_nothing_early() {
    let mut budget = budget(&["10 requests / 24h"]);
    sent(&mut budget, 1, 0);
    let guard = GuardPolicy { clock_error: Ratio::percent(1), ..GuardPolicy::default() };
    let policy = SharedPolicy { guard, ..SharedPolicy::default() };
    budget.reconfigure(T0, &scope(&["10 requests / 24h", "1 requests / 1h"]), &[], Rules::from(&policy));
    let free = (1..4_500).find(|second| used(&budget, at(*second))[1] == 0).expect("an hour and its margin");
    assert!(free >= 3_636, "free after {free} s: an hour may be 3,637 by the provider's clock");
}
