//! The breaker of one scope: episodes, cooldowns, probes, ramp, ceilings, health, calibration; and concurrency.

mod ceiling;
mod concurrency;
mod cooldown;
mod health;
mod manual;
mod memory;
mod model;
mod probe;
mod soft;

use std::time::Duration;

use mailweir::engine::breaker::{Breaker, BreakerFacts, BreakerState, Gate, LimitUse};
use mailweir::engine::constraint::Wall;
use mailweir::engine::cost::Unit;
use mailweir::engine::event::{Event, TripReason};
use mailweir::engine::limit::Limit;
use mailweir::engine::policy::BreakerPolicy;
use mailweir::engine::ratio::Ratio;
use mailweir::engine::scope::Scope;
use mailweir::engine::time::Timestamp;
use mailweir::engine::verdict::{Answer, Sent, Throttle, ThrottleKind, Verdict};

/// A breaker with what surrounds it: limits, their use, and the events it told.
struct Rig {
    breaker: Breaker,
    policy: BreakerPolicy,
    limits: Vec<Limit>,
    /// (used, accepted) of each limit.
    uses: Vec<(u64, u64)>,
    events: Vec<Event>,
}

impl Rig {
    /// A mailbox with these limits in requests: (amount, window in seconds).
    fn new(limits: &[(u64, u64)]) -> Self {
        let limits: Vec<Limit> = limits.iter().map(|(amount, window)| limit(*amount, *window)).collect();
        let uses = limits.iter().map(|limit| (limit.amount(), limit.amount())).collect();
        let breaker = Breaker::new(Scope::Mailbox("a@b.example".into()));
        Self { breaker, policy: BreakerPolicy::default(), limits, uses, events: Vec::new() }
    }

    /// 30 per minute.
    fn minute() -> Self {
        Self::new(&[(30, 60)])
    }

    fn answer(&mut self, now: Timestamp, sent_at: Timestamp, answer: impl Into<Answer>) {
        let uses = || {
            let with = |(limit, (used, accepted)): (&Limit, &(u64, u64))| LimitUse {
                limit: *limit,
                used: *used,
                accepted: *accepted,
            };
            self.limits.iter().zip(&self.uses).map(with).collect()
        };
        self.breaker.on_answer(now, sent_at, &answer.into(), uses, &self.policy, 3, &mut self.events);
    }

    /// An attempt that starts and ends at `now`.
    fn attempt(&mut self, now: Timestamp, answer: impl Into<Answer>) {
        self.start(now);
        self.answer(now, now, answer);
    }

    fn start(&mut self, now: Timestamp) {
        self.breaker.on_start(now, &self.policy, &self.limits);
    }

    fn wake(&mut self, now: Timestamp) {
        self.breaker.on_wake(now, &self.policy, 3, &mut self.events);
    }

    fn gate(&self, now: Timestamp) -> Gate {
        self.breaker.gate(now, 0)
    }

    fn facts(&self, now: Timestamp) -> BreakerFacts {
        self.breaker.facts(now)
    }

    fn state(&self, now: Timestamp) -> BreakerState {
        self.facts(now).state
    }

    /// The end of the cooldown.
    fn until(&self, now: Timestamp) -> Timestamp {
        match self.gate(now) {
            Gate::Blocked { until, .. } => until,
            other => panic!("expected a cooldown at {now}, found {other:?}"),
        }
    }

    /// Two successful probes, then the ramp to its end. Answers the instant at which it is closed.
    fn recover(&mut self, now: Timestamp) -> Timestamp {
        self.attempt(now, Verdict::Accepted);
        self.attempt(now, Verdict::Accepted);
        let closed = now.after(self.policy.ramp);
        self.wake(closed);
        assert_eq!(self.state(closed), BreakerState::Closed);
        closed
    }

    /// Why it was open, of each event told so far.
    fn reasons(&self) -> Vec<TripReason> {
        let reason = |event: &Event| match event {
            Event::BreakerOpened { reason, .. }
            | Event::BreakerExtended { reason, .. }
            | Event::BreakerHalfOpened { reason, .. }
            | Event::BreakerClosed { reason, .. } => *reason,
            other => panic!("a breaker told {other:?}"),
        };
        self.events.iter().map(reason).collect()
    }

    /// The names of the events told so far, which are then forgotten.
    fn told(&mut self) -> Vec<&'static str> {
        let name = |event: Event| match event {
            Event::BreakerOpened { .. } => "opened",
            Event::BreakerExtended { .. } => "extended",
            Event::BreakerHalfOpened { .. } => "half-opened",
            Event::BreakerClosed { .. } => "closed",
            other => panic!("a breaker told {other:?}"),
        };
        self.events.drain(..).map(name).collect()
    }
}

fn limit(amount: u64, window_s: u64) -> Limit {
    Limit::new(amount, Unit::Requests, Duration::from_secs(window_s)).expect("the limits of these tests are valid")
}

/// An instant in seconds after the first of these tests, which is not the epoch.
fn at(seconds: u64) -> Timestamp {
    ms(seconds * 1_000)
}

fn ms(millis: u64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000 + millis * 1_000)
}

fn just_before(instant: Timestamp) -> Timestamp {
    Timestamp::from_micros(instant.as_micros() - 1)
}

fn throttle(retry_after_s: Option<u64>) -> Verdict {
    throttle_of(ThrottleKind::Rate, retry_after_s)
}

fn throttle_of(kind: ThrottleKind, retry_after_s: Option<u64>) -> Verdict {
    Verdict::Throttled(Throttle { retry_after: retry_after_s.map(Duration::from_secs), scope: None, kind })
}

fn failure() -> Verdict {
    Verdict::Transient { sent: Sent::Maybe, retry_after: None }
}

fn usage(percent: u32) -> Answer {
    Answer { usage: Some(Ratio::percent(percent)), ..Answer::from(Verdict::Accepted) }
}

#[test]
fn a_quiet_breaker_is_small_and_a_success_leaves_it_so() {
    assert!(std::mem::size_of::<Breaker>() <= 64);
    let mut rig = Rig::minute();
    for second in 0..1_000 {
        let unasked = || panic!("a plain success asks for nothing");
        let accepted = Answer::from(Verdict::Accepted);
        let now = at(second);
        rig.breaker.on_answer(now, now, &accepted, unasked, &rig.policy, 0, &mut rig.events);
    }
    assert!(rig.breaker.is_quiet(at(1_000)) && rig.events.is_empty());
    assert_eq!((rig.breaker.deadline(), rig.gate(at(1_000))), (None, Gate::Pass));
    assert_eq!(rig.breaker.amount(at(1_000), 0, 30), 30);
}

#[test]
fn a_recovered_breaker_is_quiet_again_once_it_has_nothing_to_remember() {
    let mut rig = Rig::minute();
    rig.attempt(at(0), throttle(None));
    let end = rig.until(at(0));
    let closed = rig.recover(end);
    assert!(!rig.breaker.is_quiet(closed), "a second chain soon after would trip");
    let forgotten = rig.breaker.deadline().expect("memory has an end");
    assert_eq!(forgotten, end.after(Duration::from_secs(600)));
    assert!(!rig.breaker.is_quiet(just_before(forgotten)));
    rig.wake(forgotten);
    assert!(rig.breaker.is_quiet(forgotten));
    assert_eq!(rig.breaker.deadline(), None);
}

#[test]
fn one_episode_tells_its_life_in_order() {
    let mut rig = Rig::minute();
    rig.attempt(at(0), throttle(Some(10)));
    let end = rig.until(at(0));
    match rig.events.as_slice() {
        [Event::BreakerOpened { cooldown, until, waiting, trips, .. }] => {
            assert_eq!((*cooldown, *until, *waiting, *trips), (end.since(at(0)), end, 3, 0));
        }
        other => panic!("{other:?}"),
    }
    rig.wake(end);
    assert!(matches!(rig.events[1], Event::BreakerHalfOpened { waiting: 3, .. }), "{:?}", rig.events);
    rig.recover(end);
    assert_eq!(rig.reasons(), [TripReason::Sustained429; 3]);
    assert_eq!(rig.told(), ["opened", "half-opened", "closed"]);
}

#[test]
fn the_wall_is_that_of_the_longer_of_two_cooldowns() {
    let mut rig = Rig::minute();
    for _ in 0..5 {
        rig.answer(at(0), at(0), failure());
    }
    assert_eq!(rig.gate(at(0)), Gate::Blocked { until: at(30), wall: Wall::Health });
    rig.answer(at(1), at(0), throttle(None));
    assert_eq!(rig.gate(at(1)), Gate::Blocked { until: at(61), wall: Wall::Cooldown });
}
