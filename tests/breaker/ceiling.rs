//! What a trip learns.

use super::*;

/// One chain of one episode, refused while `accepted` of the first limit had been accepted, and its recovery.
fn blip(rig: &mut Rig, now: Timestamp, accepted: u64) -> Timestamp {
    rig.uses[0] = (accepted, accepted);
    rig.attempt(now, throttle(Some(10)));
    let end = rig.until(now);
    rig.wake(end);
    rig.recover(end)
}

#[test]
fn a_second_chain_within_ten_windows_trips_and_a_later_one_does_not() {
    for (gap_s, trips) in [(60, 1), (569, 1), (571, 0)] {
        let mut rig = Rig::minute();
        let closed = blip(&mut rig, at(0), 30); // its chain ended 30 s before, with the first probe
        let again = closed.after(Duration::from_secs(gap_s));
        rig.uses[0] = (20, 20);
        rig.attempt(again, throttle(Some(10)));
        assert_eq!(rig.facts(again).trips, trips, "{gap_s} s after");
        assert_eq!(rig.breaker.amount(again, 0, 30), if trips == 1 { 14 } else { 30 });
    }
}

#[test]
fn a_chain_of_three_trips_once_and_learns_from_what_was_accepted_before_the_silence() {
    let mut rig = Rig::minute();
    rig.uses[0] = (20, 20);
    let mut now = at(0);
    for episode in 1..=5 {
        rig.attempt(now, throttle(None));
        rig.uses[0] = (0, 0); // probes alone measure nothing
        assert_eq!(rig.facts(now).trips, u32::from(episode >= 3), "episode {episode}");
        now = rig.until(now);
    }
}

#[test]
fn a_block_that_accepted_nothing_teaches_no_rate() {
    let mut rig = Rig::minute();
    rig.uses[0] = (30, 0);
    let mut now = at(0);
    for _ in 0..5 {
        rig.attempt(now, throttle(None));
        now = rig.until(now);
    }
    assert_eq!((rig.facts(now).trips, rig.breaker.amount(now, 0, 30)), (0, 30));
}

#[test]
fn the_limit_with_the_highest_used_part_is_the_one_that_learns() {
    let mut rig = Rig::new(&[(120, 60), (400, 3_600)]);
    let end = blip(&mut rig, at(0), 120);
    rig.uses = vec![(60, 60), (390, 380)];
    rig.attempt(end, throttle(Some(10)));
    assert_eq!(rig.breaker.amount(end, 0, 120), 120);
    assert_eq!(rig.breaker.amount(end, 1, 400), 266);
}

#[test]
fn the_ceiling_returns_to_the_declared_amount_and_is_then_forgotten() {
    let mut rig = Rig::minute();
    let again = blip(&mut rig, at(0), 30);
    rig.uses[0] = (15, 15);
    rig.attempt(again, throttle(Some(10)));
    let amount = |rig: &Rig, s: u64| rig.breaker.amount(again.after(Duration::from_secs(s)), 0, 30);
    let table: Vec<u64> = [0, 180, 360, 405, 420].map(|s| amount(&rig, s)).into();
    assert_eq!(table, [10, 14, 15, 19, 25]);
    let end = rig.until(again);
    let mut now = rig.recover(end);
    while let Some(next) = rig.breaker.deadline() {
        assert!(next > now, "a deadline in the past");
        now = next;
        rig.wake(now);
    }
    assert_eq!(rig.breaker.amount(now, 0, 30), 30);
    assert!(rig.breaker.is_quiet(now) && now < again.after(Duration::from_secs(16 * 300)));
}

#[test]
fn a_lasting_cut_lowers_the_ceiling_again() {
    let mut rig = Rig::minute();
    let mut now = blip(&mut rig, at(0), 30);
    let mut last = 30;
    for accepted in [20, 12, 8] {
        rig.uses[0] = (accepted, accepted);
        rig.attempt(now, throttle(Some(1)));
        let amount = rig.breaker.amount(now, 0, 30);
        assert!(amount < last, "{amount} after {last}");
        last = amount;
        let end = rig.until(now);
        now = rig.recover(end);
    }
}

#[test]
fn a_wall_that_is_met_again_under_a_ceiling_lowers_it_however_long_ago_the_last_chain_was() {
    let mut rig = Rig::new(&[(30, 10)]);
    let again = blip(&mut rig, at(0), 15);
    let closed = blip(&mut rig, again, 15);
    // Ten windows of ten seconds are long over, the ceiling is not.
    let late = closed.after(Duration::from_secs(300));
    assert!(rig.breaker.amount(late, 0, 30) < 30);
    rig.uses[0] = (12, 12);
    rig.attempt(late, throttle(Some(1)));
    assert_eq!((rig.facts(late).trips, rig.breaker.amount(late, 0, 30)), (2, 8));
}

#[test]
fn no_ceiling_is_ever_zero_and_none_is_above_what_is_declared() {
    let mut rig = Rig::minute();
    let again = blip(&mut rig, at(0), 1);
    rig.attempt(again, throttle(Some(10)));
    assert_eq!((rig.facts(again).trips, rig.breaker.amount(again, 0, 30)), (1, 1));
    assert_eq!(rig.breaker.amount(again, 0, 0), 0);
    assert_eq!(rig.breaker.amount(again, 99, 30), 30, "another limit");
}

#[test]
fn new_limits_forget_what_the_old_ones_taught_and_keep_the_cooldown() {
    let mut rig = Rig::minute();
    let again = blip(&mut rig, at(0), 30);
    rig.attempt(again, throttle(Some(10)));
    let until = rig.until(again);
    rig.breaker.forget_limits();
    assert_eq!((rig.breaker.amount(again, 0, 30), rig.until(again)), (30, until));
}

#[test]
fn a_ramp_that_outlasts_the_memory_of_its_cooldown_leaves_no_instant_that_has_passed() {
    let mut rig = Rig::minute();
    let again = blip(&mut rig, at(0), 30).after(Duration::from_secs(60));
    rig.policy.ceiling_recovery_min = Duration::from_secs(900);
    rig.policy.ramp = Duration::from_secs(650); // the memory is ten windows of a minute
    let closed = blip(&mut rig, again, 5);
    assert!(rig.breaker.amount(closed, 0, 30) < 30, "the ceiling is still there");
    let next = rig.breaker.deadline().expect("the end of the ceiling");
    assert!(next > closed, "{next} of {closed}");
}
