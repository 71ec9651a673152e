//! What a breaker remembers beyond its process, and how the next one begins with it.

use mailweir::engine::breaker::BreakerMemory;
use proptest::prelude::*;

use super::model::{Life, steps};
use super::*;

/// As strict as each other, or the second stricter.
fn is_at_least_as_strict(before: Gate, after: Gate) -> bool {
    match (before, after) {
        (Gate::Blocked { until, .. }, Gate::Blocked { until: later, .. }) => later >= until,
        (Gate::Blocked { .. }, _) => false,
        (_, Gate::Blocked { .. }) => true,
        (Gate::ProbeInFlight { until }, Gate::ProbeInFlight { until: later }) => later >= until,
        (Gate::ProbeInFlight { .. }, _) => false,
        (Gate::Probe, after) => matches!(after, Gate::Probe | Gate::ProbeInFlight { .. }),
        (Gate::Paced { ready_at }, Gate::Paced { ready_at: later }) => later >= ready_at,
        (Gate::Paced { .. }, after) => after != Gate::Pass,
        (Gate::Pass, _) => true,
    }
}

fn restored(rig: &Rig, now: Timestamp, memory: &BreakerMemory) -> Breaker {
    Breaker::new(rig.breaker.scope().clone()).restored(now, memory, &rig.limits, &rig.policy)
}

/// Through the form in which it is kept.
fn kept(memory: &BreakerMemory) -> BreakerMemory {
    let text = serde_json::to_string(memory).expect("it can be written");
    serde_json::from_str(&text).expect("what was written can be read")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_restored_breaker_stops_whatever_the_one_before_would_have_stopped(steps in steps()) {
        let mut life = Life::new();
        for step in steps {
            life.take(step)?;
        }
        let now = life.now();
        life.rig.wake(now);
        let memory = life.rig.breaker.memory(now, &life.rig.limits);
        let memory = memory.as_ref().map(kept);
        prop_assert_eq!(&memory, &life.rig.breaker.memory(now, &life.rig.limits));
        let mut after = memory.as_ref().map_or_else(
            || Breaker::new(life.rig.breaker.scope().clone()),
            |memory| restored(&life.rig, now, memory),
        );
        for (claimed_at, _) in &life.flights {
            after.restored_live(now, *claimed_at, &life.rig.policy);
        }
        for second in [0, 1, 5, 20, 29, 30, 31, 60, 90, 119, 120, 200, 400, 1_000, 4_000, 20_000] {
            let then = now.after(Duration::from_secs(second));
            let (was, is) = (life.rig.breaker.gate(then, 0), after.gate(then, 0));
            prop_assert!(is_at_least_as_strict(was, is), "after {} s: {:?} became {:?}", second, was, is);
            for (index, limit) in life.rig.limits.iter().enumerate() {
                let amount = |breaker: &Breaker| breaker.amount(then, index, limit.amount());
                prop_assert_eq!(amount(&after), amount(&life.rig.breaker), "limit {} after {} s", index, second);
            }
        }
        let mut events = Vec::new();
        after.on_wake(now, &life.rig.policy, 0, &mut events);
        prop_assert!(after.deadline().is_none_or(|at| at > now), "a deadline that has passed is still named");
    }

    #[test]
    fn a_clock_that_was_set_back_neither_shortens_a_cooldown_nor_makes_it_last_for_ever(
        retry_after in 1..600_u64, back in 1..100_000_000_u64, later in 0..500_u64,
    ) {
        let mut rig = Rig::minute();
        let begun = at(200_000_000);
        rig.attempt(begun, throttle(Some(retry_after)));
        let now = begun.after(Duration::from_secs(later.min(retry_after)));
        let (until, memory) = (rig.until(begun), rig.breaker.memory(now, &rig.limits).expect("it is open"));
        let earlier = begun.before(Duration::from_secs(back));
        let after = restored(&rig, earlier, &memory);
        let Gate::Blocked { until: then, .. } = after.gate(earlier, 0) else { panic!("it was open") };
        prop_assert_eq!(then.since(earlier), until.since(begun));
    }
}

#[test]
fn a_plain_life_leaves_nothing_to_remember() {
    let mut rig = Rig::minute();
    for second in 0..100 {
        rig.attempt(at(second), usage(90));
    }
    assert_eq!(rig.breaker.memory(at(100), &rig.limits), None, "a calibration is learned anew");
}

#[test]
fn a_cooldown_is_remembered_until_a_day_after_its_end_and_a_recovered_one_as_long_as_it_matters() {
    let mut rig = Rig::minute();
    rig.attempt(at(0), throttle(Some(10)));
    let end = rig.until(at(0));
    let memory = rig.breaker.memory(at(0), &rig.limits).expect("open");
    assert_eq!(memory.ends_at(), end.after(Duration::from_secs(86_400)));
    let after = restored(&rig, end.after(Duration::from_secs(86_399)), &memory);
    assert_eq!(after.gate(end.after(Duration::from_secs(86_399)), 0), Gate::Probe);
    assert!(restored(&rig, memory.ends_at(), &memory).is_quiet(memory.ends_at()));
    let closed = rig.recover(end);
    let memory = rig.breaker.memory(closed, &rig.limits).expect("a second chain soon after would trip");
    assert_eq!(Some(memory.ends_at()), rig.breaker.deadline());
}

#[test]
fn a_learned_ceiling_goes_on_along_its_curve_and_falls_with_its_limit() {
    let mut rig = Rig::minute();
    for second in [0, 200] {
        rig.attempt(at(second), throttle(Some(1)));
        rig.recover(rig.until(at(second)));
    }
    let now = at(300);
    let memory = rig.breaker.memory(now, &rig.limits).expect("a ceiling");
    assert_eq!((memory.trips, memory.ceilings.len()), (1, 1));
    let after = restored(&rig, now, &memory);
    for second in [300, 350, 400, 500, 800, 1_200] {
        let amount = |breaker: &Breaker| breaker.amount(at(second), 0, 30);
        assert_eq!(amount(&after), amount(&rig.breaker), "at {second} s");
    }
    assert!(after.amount(now, 0, 30) < 30);
    assert_eq!(after.facts(now).trips, 1);
    rig.limits = vec![limit(31, 60)];
    assert_eq!(restored(&rig, now, &memory).amount(now, 0, 31), 31, "it was learned of another limit");
}

#[test]
fn a_chain_goes_on_where_it_was() {
    let mut rig = Rig::minute();
    rig.attempt(at(0), throttle(None));
    rig.attempt(at(60), throttle(None));
    let memory = rig.breaker.memory(at(60), &rig.limits).expect("open");
    let end = rig.until(at(60));
    let mut before = rig.breaker.clone();
    let mut after = restored(&rig, at(61), &memory);
    for breaker in [&mut before, &mut after] {
        std::mem::swap(&mut rig.breaker, breaker);
        rig.attempt(end, throttle(None));
        std::mem::swap(&mut rig.breaker, breaker);
    }
    assert_eq!(after.gate(end, 0), before.gate(end, 0));
    assert_eq!(after.facts(end).chain, 3);
}

#[test]
fn a_probe_that_was_out_at_the_end_is_waited_for() {
    let mut rig = Rig::minute();
    rig.attempt(at(0), throttle(Some(10)));
    let end = rig.until(at(0));
    let memory = rig.breaker.memory(at(0), &rig.limits).expect("open");
    let now = end.after(Duration::from_secs(5));
    let mut after = restored(&rig, now, &memory);
    after.restored_live(now, at(0), &rig.policy);
    assert_eq!(after.gate(now, 0), Gate::Probe, "one from before the cooldown is no probe");
    after.restored_live(now, end, &rig.policy);
    assert_eq!(after.gate(now, 0), Gate::ProbeInFlight { until: end.after(rig.policy.probe_timeout) });
}
