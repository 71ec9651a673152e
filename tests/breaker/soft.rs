//! Calibration by usage headers.

use super::*;

#[test]
fn a_usage_above_our_own_is_taken_off_a_third_at_a_time() {
    let mut rig = Rig::minute();
    rig.uses[0] = (15, 15); // half of it is ours
    let mut amounts = Vec::new();
    for second in 0..5 {
        rig.attempt(at(second), usage(90));
        amounts.push(rig.breaker.amount(at(second), 0, 30));
    }
    assert_eq!(amounts, [27, 24, 23, 21, 21], "towards 30 less 12 by others");
    assert_eq!(rig.gate(at(5)), Gate::Pass, "nothing is blocked");
}

#[test]
fn a_usage_that_is_all_our_own_changes_nothing() {
    let mut rig = Rig::minute();
    rig.uses[0] = (29, 29);
    for second in 0..20 {
        rig.attempt(at(second), usage(96));
    }
    assert_eq!(rig.breaker.amount(at(20), 0, 30), 30);
    assert!(rig.breaker.is_quiet(at(20)));
}

#[test]
fn successes_without_the_header_bring_it_back_to_what_would_not_be_reported() {
    let mut rig = Rig::minute();
    rig.uses[0] = (3, 3);
    for second in 0..20 {
        rig.attempt(at(second), usage(95));
    }
    let calibrated = rig.breaker.amount(at(20), 0, 30);
    rig.uses[0] = (24, 24); // 0.8 is all ours: nobody else can be using it
    for second in 20..40 {
        rig.attempt(at(second), Verdict::Accepted);
    }
    assert!(calibrated < 10, "{calibrated}");
    assert_eq!(rig.breaker.amount(at(40), 0, 30), 30);
}

#[test]
fn it_is_credited_to_the_limit_of_which_we_use_the_largest_part() {
    let mut rig = Rig::new(&[(120, 60), (400, 3_600)]);
    rig.uses = vec![(12, 12), (200, 200)];
    rig.attempt(at(0), usage(90));
    assert_eq!(rig.breaker.amount(at(0), 0, 120), 120);
    assert_eq!(rig.breaker.amount(at(0), 1, 400), 352);
}

#[test]
fn an_estimate_that_nobody_confirms_halves_with_each_window_and_ends() {
    let mut rig = Rig::minute();
    rig.uses[0] = (0, 0);
    for _ in 0..30 {
        rig.attempt(at(0), usage(99));
    }
    let amounts: Vec<u64> = [0, 60, 120, 180, 480].map(|s| rig.breaker.amount(at(s), 0, 30)).into();
    assert_eq!(amounts, [1, 16, 23, 27, 30]);
    assert_eq!(rig.breaker.deadline(), Some(at(480)));
    rig.wake(at(480));
    assert!(rig.breaker.is_quiet(at(480)));
}

#[test]
fn only_a_full_limit_pauses_background_and_only_for_a_window() {
    let mut rig = Rig::minute();
    rig.attempt(at(0), usage(99));
    assert_eq!(rig.breaker.background_paused(at(0)), None);
    rig.attempt(at(1), usage(100));
    assert_eq!(rig.breaker.background_paused(just_before(at(61))), Some(at(61)));
    assert_eq!(rig.gate(at(1)), Gate::Pass, "foreground goes on");
    assert_eq!(rig.breaker.background_paused(at(61)), None);
    rig.wake(at(61));
    assert_eq!(rig.reasons(), [TripReason::SoftPercentage; 2]);
    assert_eq!(rig.told(), ["opened", "closed"]);
}

#[test]
fn a_long_limit_pauses_background_no_longer_than_a_cooldown() {
    for (limits, seconds) in [(&[(1_000, 86_400)][..], 360), (&[(1_000, 86_400), (30, 60)], 60)] {
        let mut rig = Rig::new(limits);
        rig.attempt(at(0), usage(100));
        assert_eq!(rig.breaker.background_paused(at(0)), Some(at(seconds)), "{limits:?}");
    }
}

#[test]
fn a_lower_report_or_none_ends_the_pause() {
    for answer in [usage(85), Answer::from(Verdict::Accepted)] {
        let mut rig = Rig::minute();
        rig.attempt(at(0), usage(130));
        rig.attempt(at(1), usage(120));
        rig.attempt(at(2), answer);
        assert_eq!(rig.breaker.background_paused(at(2)), None);
        assert_eq!(rig.told(), ["opened", "closed"]);
    }
}

#[test]
fn without_limits_there_is_nothing_to_credit() {
    let mut rig = Rig::new(&[]);
    rig.attempt(at(0), usage(150));
    assert!(rig.breaker.is_quiet(at(0)) && rig.events.is_empty());
}
