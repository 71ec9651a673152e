//! Half-open and the ramp.

use super::*;

fn half_open() -> Rig {
    let mut rig = Rig::minute();
    rig.attempt(at(0), throttle(None));
    rig.wake(at(60));
    rig
}

#[test]
fn one_probe_goes_and_the_next_waits_for_its_outcome() {
    let mut rig = half_open();
    assert_eq!(rig.gate(at(60)), Gate::Probe);
    rig.start(at(60));
    assert_eq!(rig.breaker.gate(at(60), 1), Gate::ProbeInFlight { until: at(90) });
    rig.answer(at(61), at(60), Verdict::Accepted);
    assert_eq!((rig.gate(at(61)), rig.facts(at(61)).chain), (Gate::Probe, 0));
    rig.attempt(at(61), Verdict::Accepted);
    assert_eq!(rig.state(at(61)), BreakerState::Ramp);
}

#[test]
fn a_throttle_fails_the_probe_and_the_chain_goes_on() {
    let mut rig = half_open();
    rig.start(at(60));
    rig.answer(at(61), at(60), throttle(None));
    assert_eq!((rig.facts(at(61)).chain, rig.until(at(61))), (2, at(61 + 120)));
    assert_eq!(rig.told(), ["opened", "half-opened", "opened"]);
}

#[test]
fn a_probe_that_never_ends_does_not_wedge_half_open() {
    let mut rig = half_open();
    rig.start(at(60));
    assert_eq!(rig.breaker.deadline(), Some(at(90)));
    assert_eq!(rig.breaker.gate(just_before(at(90)), 1), Gate::ProbeInFlight { until: at(90) });
    assert_eq!(rig.breaker.gate(at(90), 1), Gate::Probe, "without a wake-up");
    rig.wake(at(90));
    assert_eq!(rig.breaker.gate(at(90), 1), Gate::Probe, "and with it");
    rig.start(at(90));
    assert_eq!(rig.breaker.gate(at(91), 2), Gate::ProbeInFlight { until: at(120) });
}

#[test]
fn the_late_outcome_of_an_expired_probe_counts_but_frees_no_token() {
    let mut rig = half_open();
    rig.start(at(60));
    rig.start(at(90));
    rig.answer(at(95), at(60), Verdict::Accepted);
    assert_eq!(rig.facts(at(95)).chain, 0);
    assert_eq!(rig.breaker.gate(at(95), 1), Gate::ProbeInFlight { until: at(120) });
    rig.answer(at(96), at(90), Verdict::Accepted);
    assert_eq!(rig.state(at(96)), BreakerState::Ramp);
}

#[test]
fn attempts_from_before_the_cooldown_are_waited_for_as_long_as_a_probe_and_no_longer() {
    let rig = half_open();
    assert_eq!(rig.breaker.gate(at(60), 2), Gate::ProbeInFlight { until: at(90) });
    assert_eq!(rig.breaker.gate(just_before(at(90)), 1), Gate::ProbeInFlight { until: at(90) });
    assert_eq!(rig.breaker.gate(at(90), 2), Gate::Probe);
}

#[test]
fn the_token_comes_back_when_nothing_was_sent_or_the_answer_is_about_another_scope() {
    let mut rig = half_open();
    rig.start(at(60));
    rig.breaker.on_never_sent(at(61), at(60));
    assert_eq!(rig.gate(at(61)), Gate::Probe);
    rig.start(at(61));
    rig.breaker.on_elsewhere(at(62), at(61));
    assert_eq!((rig.gate(at(62)), rig.facts(at(62)).chain), (Gate::Probe, 1));
}

#[test]
fn what_started_before_the_probe_and_never_left_does_not_free_its_token() {
    let mut rig = half_open();
    rig.start(at(90));
    rig.breaker.on_never_sent(at(91), at(0));
    assert_eq!(rig.breaker.gate(at(91), 1), Gate::ProbeInFlight { until: at(120) });
    rig.breaker.on_never_sent(at(92), at(90));
    assert_eq!(rig.gate(at(92)), Gate::Probe);
}

#[test]
fn an_answer_that_is_no_throttle_and_no_success_proves_nothing_and_gives_the_token_back() {
    let permanent = Verdict::Permanent { of: mailweir::engine::verdict::Subject::Message };
    for verdict in [failure(), Verdict::Unknown, permanent, throttle_of(ThrottleKind::Concurrency, None)] {
        let mut rig = half_open();
        rig.start(at(60));
        rig.answer(at(61), at(60), verdict);
        assert_eq!((rig.gate(at(61)), rig.state(at(61))), (Gate::Probe, BreakerState::HalfOpen));
    }
}

#[test]
fn the_configured_number_of_probes_has_to_succeed() {
    let mut rig = half_open();
    rig.policy.probe_successes = 3;
    for second in 60..62 {
        rig.attempt(at(second), Verdict::Accepted);
        assert_eq!(rig.state(at(second)), BreakerState::HalfOpen);
    }
    rig.attempt(at(62), Verdict::Accepted);
    assert_eq!(rig.state(at(62)), BreakerState::Ramp);
}

#[test]
fn the_ramp_paces_from_a_quarter_of_the_rate_to_all_of_it() {
    let mut rig = half_open();
    rig.attempt(at(60), Verdict::Accepted);
    rig.attempt(at(60), Verdict::Accepted);
    let (mut now, mut sent_at) = (at(60), Vec::new());
    while rig.state(now) == BreakerState::Ramp {
        match rig.gate(now) {
            Gate::Pass => {
                sent_at.push(now.since(at(60)).as_millis());
                rig.attempt(now, Verdict::Accepted);
            }
            Gate::Paced { ready_at } => {
                assert_eq!(rig.gate(just_before(ready_at)), Gate::Paced { ready_at });
                now = ready_at;
            }
            other => panic!("{other:?}"),
        }
    }
    // 2 s apart at the full rate of 30/min: first 8 s, less each time.
    assert_eq!(sent_at, [0, 8_000, 13_217, 17_470, 20_904, 23_774, 26_298, 28_579]);
    assert_eq!((now, rig.gate(now)), (at(90), Gate::Pass));
}

#[test]
fn the_ramp_follows_the_slowest_limit_in_requests() {
    let mut rig = Rig::new(&[(120, 60), (400, 3_600)]);
    let recipients = Limit::new(10_000, Unit::Recipients, Duration::from_secs(86_400)).unwrap();
    rig.limits.push(recipients);
    rig.uses.push((0, 0));
    rig.attempt(at(0), throttle(Some(10)));
    let end = rig.until(at(0));
    rig.attempt(end, Verdict::Accepted);
    rig.attempt(end, Verdict::Accepted);
    rig.start(end);
    // A quarter of 400/h is one per 36 s, which is after the ramp: its end counts.
    assert_eq!(rig.gate(end), Gate::Paced { ready_at: end.after(rig.policy.ramp) });
}

#[test]
fn a_throttle_during_the_ramp_opens_a_new_chain() {
    let mut rig = half_open();
    rig.attempt(at(60), Verdict::Accepted);
    rig.attempt(at(60), Verdict::Accepted);
    rig.attempt(at(70), throttle(None));
    assert_eq!((rig.state(at(70)), rig.facts(at(70)).chain), (BreakerState::Open, 1));
    assert_eq!(rig.facts(at(70)).trips, 1, "soon after the last one: it trips");
}

#[test]
fn without_a_ramp_the_last_probe_closes() {
    let mut rig = half_open();
    rig.policy.ramp = Duration::ZERO;
    rig.attempt(at(60), Verdict::Accepted);
    rig.attempt(at(60), Verdict::Accepted);
    assert_eq!((rig.state(at(60)), rig.gate(at(60))), (BreakerState::Closed, Gate::Pass));
    assert_eq!(rig.told(), ["opened", "half-opened", "closed"]);
}
