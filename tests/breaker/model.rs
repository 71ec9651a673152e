//! Random lives of a breaker: what holds in every one of them.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Pass(u64),
    TryStart,
    Finish(usize, Verdict),
    NeverSent,
    Merge(u64),
    Trip(u64),
    Wake,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![4 => Just(ThrottleKind::Rate), 1 => Just(ThrottleKind::Quota), 1 => Just(ThrottleKind::Concurrency)];
    let verdict = prop_oneof![
        3 => Just(Verdict::Accepted),
        3 => (kind, prop::option::of(0..200u64)).prop_map(|(kind, retry_after)| throttle_of(kind, retry_after)),
        1 => Just(failure()),
        1 => Just(Verdict::Unknown),
    ];
    let step = prop_oneof![
        4 => prop_oneof![0..2_000u64, 0..70_000u64].prop_map(Step::Pass),
        5 => Just(Step::TryStart),
        5 => (any::<usize>(), verdict).prop_map(|(which, verdict)| Step::Finish(which, verdict)),
        1 => Just(Step::NeverSent),
        1 => (0..300_000u64).prop_map(Step::Merge),
        1 => (0..300_000u64).prop_map(Step::Trip),
        2 => Just(Step::Wake),
    ];
    prop::collection::vec(step, 0..120)
}

/// A breaker and the attempts in flight under it.
pub(super) struct Life {
    pub(super) rig: Rig,
    now_ms: u64,
    /// (start, whether it was let through as a probe).
    pub(super) flights: Vec<(Timestamp, bool)>,
}

impl Life {
    pub(super) fn new() -> Self {
        Self { rig: Rig::new(&[(30, 60), (400, 3_600)]), now_ms: 0, flights: Vec::new() }
    }

    pub(super) fn now(&self) -> Timestamp {
        ms(self.now_ms)
    }

    fn gate(&self, now: Timestamp) -> Gate {
        self.rig.breaker.gate(now, self.flights.len() as u32)
    }

    pub(super) fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        let now = self.now();
        match step {
            Step::Pass(millis) => self.now_ms += millis,
            Step::TryStart => self.try_start()?,
            Step::Finish(which, verdict) if !self.flights.is_empty() => {
                let (sent_at, _) = self.flights.remove(which % self.flights.len());
                self.rig.answer(now, sent_at, verdict);
            }
            // Only what has just started can still be taken back; what is older is on its way.
            Step::NeverSent if self.flights.last().is_some_and(|flight| flight.0 == now) => {
                self.flights.pop();
                self.rig.breaker.on_never_sent(now, now);
            }
            Step::Finish(..) | Step::NeverSent => {}
            Step::Merge(ahead) => {
                let until = ms(self.now_ms + ahead);
                self.rig.breaker.merge_cooldown(now, until, 0, &mut self.rig.events);
            }
            Step::Trip(ahead) => {
                let until = ms(self.now_ms + ahead);
                self.rig.breaker.trip(now, until, 0, &mut self.rig.events);
            }
            Step::Wake => self.rig.wake(now),
        }
        Ok(())
    }

    fn try_start(&mut self) -> Result<(), TestCaseError> {
        let (now, gate) = (self.now(), self.gate(self.now()));
        if !matches!(gate, Gate::Pass | Gate::Probe) || self.flights.len() >= 4 {
            return Ok(());
        }
        let timeout = self.rig.policy.probe_timeout;
        if gate == Gate::Probe {
            let live = self.flights.iter().filter(|(sent_at, probe)| *probe && now.since(*sent_at) < timeout).count();
            prop_assert!(live == 0, "a second probe at {} beside {:?}", now, self.flights);
        }
        self.rig.start(now);
        self.flights.push((now, gate == Gate::Probe));
        Ok(())
    }

    fn cooldown_end(&self) -> Option<Timestamp> {
        match self.gate(self.now()) {
            Gate::Blocked { until, wall: Wall::Cooldown } => Some(until),
            _ => None,
        }
    }
}

proptest! {
    #[test]
    fn the_end_of_a_cooldown_never_moves_back_and_holds_until_exactly_then(steps in steps()) {
        let mut life = Life::new();
        let mut latest = Timestamp::EPOCH;
        for step in steps {
            life.take(step)?;
            if let Some(until) = life.cooldown_end() {
                prop_assert!(until >= latest, "{} after {}", until, latest);
                latest = until;
                prop_assert_eq!(life.gate(just_before(until)), Gate::Blocked { until, wall: Wall::Cooldown });
                let blocked = matches!(life.gate(until), Gate::Blocked { .. });
                prop_assert!(!blocked, "the later of two cooldowns is the one named");
            } else if life.now() < latest {
                let health = matches!(life.gate(life.now()), Gate::Blocked { wall: Wall::Health, .. });
                prop_assert!(health, "open before {}", latest);
            }
        }
    }

    #[test]
    fn after_a_wake_the_next_deadline_is_ahead_and_waking_is_idempotent(steps in steps()) {
        let mut life = Life::new();
        for step in steps {
            life.take(step)?;
            let (now, before) = (life.now(), life.gate(life.now()));
            life.rig.wake(now);
            prop_assert_eq!(life.gate(now), before, "the gate does not depend on the timer");
            prop_assert!(life.rig.breaker.deadline().is_none_or(|deadline| deadline > now));
            let told = life.rig.events.len();
            life.rig.wake(now);
            prop_assert_eq!(life.rig.events.len(), told);
        }
    }

    #[test]
    fn a_cooldown_is_told_exactly_when_it_begins_and_ends(steps in steps()) {
        let mut life = Life::new();
        for step in steps {
            life.take(step)?;
            let now = life.now();
            life.rig.wake(now);
            let open = life.rig.state(now) != BreakerState::Closed;
            let last = life.rig.events.iter().rev().find(|event| !matches!(event, Event::BreakerExtended { .. }));
            let told_open = last.is_some_and(|event| !matches!(event, Event::BreakerClosed { .. }));
            prop_assert_eq!(open, told_open, "{:?} at {}: {:?}", life.rig.facts(now), now, last);
        }
    }

    #[test]
    fn once_faults_stop_it_is_closed_within_a_bound(steps in steps()) {
        let mut life = Life::new();
        for step in steps {
            life.take(step)?;
        }
        // Whatever is in flight is never heard of again; every new attempt is accepted in 300 ms.
        let stop = life.now();
        let held = match life.gate(stop) {
            Gate::Blocked { until, .. } => until,
            _ => stop,
        };
        let bound = held.after(Duration::from_secs(30 + 1 + 30 + 1));
        let mut rounds = 0;
        while life.rig.state(life.now()) != BreakerState::Closed {
            rounds += 1;
            prop_assert!(rounds < 1_000, "no progress at {}", life.now());
            let now = life.now();
            life.rig.wake(now);
            let next = match life.gate(now) {
                Gate::Pass | Gate::Probe => {
                    life.rig.start(now);
                    let answered = now.after(Duration::from_millis(300));
                    life.rig.answer(answered, now, Verdict::Accepted);
                    answered
                }
                Gate::Paced { ready_at } => ready_at,
                Gate::ProbeInFlight { until } | Gate::Blocked { until, .. } => until,
            };
            life.now_ms = (next.as_micros() - ms(0).as_micros()).div_ceil(1_000);
        }
        prop_assert!(life.now() <= bound, "closed at {}, bound {}", life.now(), bound);
    }

    #[test]
    fn a_learned_amount_is_never_zero_nor_above_what_is_declared(
        steps in steps(), uses in prop::collection::vec((0..500u64, 0..500u64), 2..3), reported in 0..300u32,
    ) {
        let mut life = Life::new();
        life.rig.uses = uses;
        for step in steps {
            life.take(step)?;
            let now = life.now();
            life.rig.answer(now, now, usage(reported));
            for (index, limit) in life.rig.limits.iter().enumerate() {
                let amount = life.rig.breaker.amount(now, index, limit.amount());
                prop_assert!((1..=limit.amount()).contains(&amount));
            }
        }
    }
}
