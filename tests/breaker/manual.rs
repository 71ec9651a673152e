//! Operators, other processes, and hostile values.

use super::*;

#[test]
fn a_trip_holds_until_its_expiry_and_is_then_probed_like_any_cooldown() {
    let mut rig = Rig::minute();
    rig.breaker.trip(at(0), at(300), 7, &mut rig.events);
    assert_eq!(rig.facts(at(0)).reason, Some(TripReason::Manual));
    assert_eq!(rig.until(just_before(at(300))), at(300));
    assert_eq!(rig.breaker.deadline(), Some(at(300)));
    rig.wake(at(300));
    rig.recover(at(300));
    assert_eq!(rig.reasons(), [TripReason::Manual; 3]);
    assert_eq!(rig.told(), ["opened", "half-opened", "closed"]);
    assert_eq!(rig.facts(at(330)).trips, 0);
}

#[test]
fn a_trip_never_shortens_a_cooldown_and_one_in_the_past_does_nothing() {
    let mut rig = Rig::minute();
    rig.breaker.trip(at(10), at(10), 0, &mut rig.events);
    assert!(rig.breaker.is_quiet(at(10)) && rig.events.is_empty());
    rig.attempt(at(10), throttle(None));
    rig.breaker.trip(at(11), at(20), 0, &mut rig.events);
    assert_eq!(rig.until(at(11)), at(70));
    rig.breaker.trip(at(12), at(80), 0, &mut rig.events);
    assert_eq!((rig.until(at(12)), rig.told()), (at(80), vec!["opened", "extended", "extended"]));
}

#[test]
fn closing_ends_everything_and_forgives_what_was_in_flight() {
    let mut rig = Rig::minute();
    rig.attempt(at(0), throttle(None));
    for _ in 0..5 {
        rig.answer(at(0), at(0), failure());
    }
    rig.breaker.close(at(5), &mut rig.events);
    assert_eq!((rig.gate(at(5)), rig.state(at(5))), (Gate::Pass, BreakerState::Closed));
    rig.answer(at(6), at(0), throttle(Some(60)));
    assert_eq!(rig.gate(at(6)), Gate::Pass, "sent before it was closed");
    rig.answer(at(7), at(6), throttle(Some(60)));
    assert_eq!(rig.state(at(7)), BreakerState::Open, "sent afterwards");
    assert_eq!(rig.facts(at(7)).trips, 1, "a chain that an operator ended was one");
    assert_eq!(rig.told(), ["opened", "opened", "closed", "opened"]);
}

#[test]
fn closing_a_closed_breaker_tells_nothing() {
    let mut rig = Rig::minute();
    rig.breaker.close(at(0), &mut rig.events);
    assert!(rig.events.is_empty() && rig.breaker.is_quiet(at(0)));
}

#[test]
fn the_cooldown_of_another_process_is_merged_by_the_later_end() {
    let mut rig = Rig::minute();
    rig.breaker.merge_cooldown(at(0), at(30), 3, &mut rig.events);
    assert_eq!(rig.until(at(0)), at(30));
    for (other, expected) in [(20, 30), (30, 30), (50, 50), (40, 50)] {
        rig.breaker.merge_cooldown(at(1), at(other), 3, &mut rig.events);
        assert_eq!(rig.until(at(1)), at(expected));
    }
    assert!(
        matches!(rig.events[1], Event::BreakerExtended { cooldown, until, waiting: 3, .. } if cooldown == until.since(at(1)))
    );
    assert_eq!(rig.told(), ["opened", "extended"]);
    rig.breaker.merge_cooldown(at(60), at(59), 3, &mut rig.events);
    assert_eq!(rig.gate(at(60)), Gate::Probe);
    rig.start(at(60));
    rig.breaker.merge_cooldown(at(61), at(100), 3, &mut rig.events);
    assert_eq!(rig.until(at(61)), at(100), "half-open blocks again");
}

/// Everything as large as it can be.
fn wild() -> BreakerPolicy {
    BreakerPolicy {
        cooldown_first: Some(Duration::MAX),
        cooldown_growth: Ratio::ppm(u32::MAX),
        cooldown_short_max: Duration::MAX,
        cooldown_long_max: Duration::MAX,
        penalty: Duration::MAX,
        retry_after_margin: Duration::MAX,
        retry_after_spread: Ratio::ppm(u32::MAX),
        retry_after_max: Duration::MAX,
        trip_windows: u32::MAX,
        trip_chain: 1,
        ceiling: Ratio::ppm(u32::MAX),
        ceiling_recovery_min: Duration::MAX,
        ceiling_recovery_max: Duration::MAX,
        penalty_chain: 1,
        health_probes: u32::MAX,
        probe_timeout: Duration::MAX,
        ramp: Duration::MAX,
        ..BreakerPolicy::default()
    }
}

/// Everything as small.
fn nil() -> BreakerPolicy {
    BreakerPolicy {
        cooldown_growth: Ratio::ZERO,
        probe_successes: 0,
        probe_timeout: Duration::ZERO,
        ramp_start: Ratio::ZERO,
        health_failures: 0,
        health_calls_min: 0,
        trip_chain: 0,
        trip_windows: 0,
        ceiling: Ratio::ZERO,
        ceiling_recovery_min: Duration::ZERO,
        ceiling_recovery_max: Duration::ZERO,
        penalty_chain: 0,
        health_probes: 0,
        ..BreakerPolicy::default()
    }
}

#[test]
fn hostile_values_neither_panic_nor_block_without_an_end() {
    let instants = [Timestamp::EPOCH, at(0), Timestamp::NEVER];
    for policy in [wild(), nil()] {
        for limits in [&[][..], &[(1, 1)], &[(u64::from(u32::MAX), 86_400 * 7), (1, 1)]] {
            let mut rig = Rig::new(limits);
            rig.policy = policy.clone();
            rig.uses.iter_mut().for_each(|uses| *uses = (u64::MAX, u64::MAX));
            for now in instants {
                for sent_at in instants {
                    for retry_after in [None, Some(0), Some(u64::MAX)] {
                        rig.start(now);
                        rig.answer(now, sent_at, throttle(retry_after));
                        rig.answer(
                            now,
                            sent_at,
                            Answer { usage: Some(Ratio::ppm(u32::MAX)), ..Verdict::Accepted.into() },
                        );
                        rig.answer(
                            now,
                            sent_at,
                            Verdict::Transient { sent: Sent::Maybe, retry_after: Some(Duration::MAX) },
                        );
                        rig.wake(now);
                        let _ = (rig.breaker.gate(now, u32::MAX), rig.facts(now), rig.breaker.deadline());
                        assert!(rig.breaker.amount(now, 0, u64::MAX) >= 1);
                    }
                }
            }
        }
    }
}
