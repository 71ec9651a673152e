//! The health breaker.

use super::*;

fn fail(rig: &mut Rig, now: Timestamp, times: u32) {
    for _ in 0..times {
        rig.attempt(now, failure());
    }
}

#[test]
fn five_failures_in_a_row_open_it_and_four_do_not() {
    let mut rig = Rig::minute();
    fail(&mut rig, at(0), 4);
    rig.attempt(at(1), Verdict::Accepted);
    fail(&mut rig, at(2), 3);
    assert_eq!(rig.gate(at(2)), Gate::Pass);
    let mut rig = Rig::minute();
    fail(&mut rig, at(0), 4);
    assert_eq!(rig.gate(at(0)), Gate::Pass);
    rig.attempt(at(1), Verdict::Unknown);
    assert_eq!(rig.gate(at(1)), Gate::Blocked { until: at(31), wall: Wall::Health });
    assert_eq!(rig.told(), ["opened"]);
}

#[test]
fn half_of_ten_calls_in_a_minute_open_it() {
    for (calls, opened) in [(9, false), (10, true)] {
        let mut rig = Rig::minute();
        for call in 0..calls {
            let verdict = if call % 2 == 0 { Verdict::Accepted } else { failure() };
            rig.attempt(at(call * 3), verdict);
        }
        assert_eq!(rig.state(at(30)) == BreakerState::Open, opened, "{calls} calls");
    }
}

#[test]
fn failures_of_more_than_a_minute_ago_do_not_count() {
    let mut rig = Rig::minute();
    for call in 0..100 {
        let verdict = if call % 2 == 0 { Verdict::Accepted } else { failure() };
        rig.attempt(at(call * 7), verdict); // nine in a minute at most
    }
    assert!(rig.breaker.is_quiet(at(700)));
}

#[test]
fn each_failed_probe_doubles_the_cooldown_up_to_its_cap_and_a_success_closes_at_once() {
    let mut rig = Rig::minute();
    fail(&mut rig, at(0), 5);
    let (mut now, mut lengths) = (at(0), Vec::new());
    for _ in 0..6 {
        let until = rig.until(now);
        lengths.push(until.since(now).as_secs());
        for _ in 0..3 {
            assert_eq!(rig.gate(until), Gate::Probe, "three have to fail");
            rig.attempt(until, failure());
        }
        now = until;
    }
    assert_eq!(lengths, [30, 60, 120, 240, 300, 300]);
    let until = rig.until(now);
    rig.wake(until);
    rig.events.clear();
    rig.attempt(until, Verdict::Accepted);
    assert_eq!(rig.reasons(), [TripReason::Health]);
    assert_eq!((rig.gate(until), rig.told()), (Gate::Pass, vec!["closed"]));
    fail(&mut rig, until, 4);
    assert_eq!(rig.gate(until), Gate::Pass, "the count begins anew");
}

#[test]
fn a_probe_that_succeeds_after_two_that_failed_closes_it() {
    let mut rig = Rig::minute();
    fail(&mut rig, at(0), 5);
    rig.wake(at(30));
    fail(&mut rig, at(30), 2);
    assert_eq!(rig.gate(at(30)), Gate::Probe);
    rig.attempt(at(31), Verdict::Accepted);
    assert_eq!(rig.gate(at(31)), Gate::Pass);
    // A hint is believed at once.
    fail(&mut rig, at(40), 5);
    rig.wake(at(70));
    rig.attempt(at(70), Verdict::Transient { sent: Sent::Maybe, retry_after: Some(Duration::from_secs(200)) });
    assert!(rig.until(at(70)) >= at(270));
}

#[test]
fn failures_of_attempts_in_flight_when_it_opened_are_the_same_outage() {
    let mut rig = Rig::minute();
    fail(&mut rig, at(0), 5);
    for _ in 0..4 {
        rig.answer(at(20), at(0), failure());
    }
    assert_eq!(rig.until(at(20)), at(30));
    rig.answer(at(31), at(0), failure());
    assert_eq!(rig.gate(at(31)), Gate::Probe);
}

#[test]
fn throttles_and_permanent_refusals_are_answers_and_no_failures() {
    let mut rig = Rig::minute();
    for second in 0..20 {
        rig.attempt(at(second), Verdict::Permanent { of: mailweir::engine::verdict::Subject::Message });
        rig.attempt(at(second), throttle_of(ThrottleKind::Concurrency, None));
    }
    assert!(rig.breaker.is_quiet(at(20)));
}

#[test]
fn a_failure_with_a_retry_after_opens_it_at_once_for_that_long() {
    let mut rig = Rig::minute();
    let hinted = Verdict::Transient { sent: Sent::Maybe, retry_after: Some(Duration::from_secs(100)) };
    rig.attempt(at(0), hinted);
    match rig.gate(at(0)) {
        Gate::Blocked { until, wall: Wall::Health } => {
            assert!((at(100)..=ms(105_200)).contains(&until), "{until}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(rig.facts(at(0)).chain, 0, "it is no throttle");
}

#[test]
fn a_throttled_probe_ends_the_outage_and_begins_a_cooldown() {
    let mut rig = Rig::minute();
    fail(&mut rig, at(0), 5);
    rig.wake(at(30));
    rig.attempt(at(30), throttle(None));
    assert_eq!(rig.gate(at(30)), Gate::Blocked { until: at(90), wall: Wall::Cooldown });
}

#[test]
fn its_events_name_health_as_the_reason() {
    let mut rig = Rig::minute();
    fail(&mut rig, at(0), 5);
    let reason = rig.facts(at(0)).reason.expect("it is open");
    assert_eq!(reason.as_str(), "health");
    assert!(matches!(rig.events[0], Event::BreakerOpened { reason: told, .. } if told == reason));
}
