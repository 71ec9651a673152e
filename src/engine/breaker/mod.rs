//! The circuit breaker of one scope: a throttle becomes one shared cooldown, one probe and a ramp.
//!
//! Generic breakers judge ratios over many calls. A mailbox makes thirty calls a minute, and a throttle is not noise
//! but information about a budget, so one is enough to open. What keeps a storm from forming is that everything that
//! waits shares the one cooldown and that one attempt, not every waiter, tests the provider afterwards.
//!
//! ```text
//!            throttle                 time              successes            time
//!  closed ─────────────▶ open (hold) ──────▶ half-open ───────────▶ ramp ─────────▶ closed
//!                          ▲                   │ throttle            │ throttle
//!                          └───────────────────┴─────────────────────┘
//! ```
//!
//! Beside it stand the health breaker (the provider fails, it does not throttle), the learned ceilings (how much less
//! than declared a limit holds for now) and the calibration by usage headers (how much of it others use).
//!
//! Only answers of the provider feed it; a local refusal never does. Times are arguments, and the end of every state
//! is a function of `now`: no answer depends on a timer having fired. Call [`Breaker::on_wake`] at
//! [`Breaker::deadline`] so that the events come in time and memory is given back.
//!
//! A quiet breaker is a few words without a heap block; all else lives in a box that goes when it is over.
//!
//! ```
//! use mailweir::engine::breaker::{Breaker, Gate};
//! use mailweir::engine::policy::BreakerPolicy;
//! use mailweir::engine::verdict::{Throttle, ThrottleKind, Verdict};
//! use mailweir::engine::{Scope, Timestamp};
//!
//! let (policy, now, mut events) = (BreakerPolicy::default(), Timestamp::from_micros(1_000_000), Vec::new());
//! let mut breaker = Breaker::new(Scope::Application);
//! let throttled = Verdict::Throttled(Throttle { retry_after: None, scope: None, kind: ThrottleKind::Rate });
//! breaker.on_answer(now, now, &throttled.into(), Vec::new, &policy, 0, &mut events);
//!
//! let Gate::Blocked { until, .. } = breaker.gate(now, 0) else { panic!("one throttle opens it") };
//! assert_eq!(breaker.gate(until, 0), Gate::Probe);
//! ```
//!
//! Not promised: a fair share among the scopes of one provider, or that a learned number is the provider's own.

mod ceiling;
mod concurrency;
mod cooldown;
mod episode;
mod facts;
mod gate;
mod health;
mod memory;
mod probe;
mod ramp;
mod soft;
mod state;
mod steer;

pub use concurrency::Concurrency;
pub use facts::{BreakerFacts, BreakerState};
pub use gate::{Gate, LimitUse};
pub use memory::{BreakerMemory, CeilingMemory, CooldownMemory, OutageMemory, PhaseMemory};

use crate::engine::event::{Event, TripReason};
use crate::engine::limit::Limit;
use crate::engine::policy::BreakerPolicy;
use crate::engine::scope::Scope;
use crate::engine::time::Timestamp;
use crate::engine::verdict::{Answer, Throttle, ThrottleKind, Verdict};

pub(crate) use health::Tally;

use health::Outage;
use state::Active;

/// The breaker of one scope.
#[derive(Clone, Debug)]
pub struct Breaker {
    scope: Scope,
    tally: Tally,
    active: Option<Box<Active>>,
}

impl Breaker {
    /// A closed breaker that has seen nothing.
    #[must_use]
    pub fn new(scope: Scope) -> Self {
        Self { scope, tally: Tally::default(), active: None }
    }

    /// Whose breaker it is.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// May the next attempt go? `in_flight` are the attempts of this scope without an outcome.
    ///
    /// Blocked or paced until exactly the instant that it names; changes nothing.
    pub fn gate(&self, now: Timestamp, in_flight: u32) -> Gate {
        self.active.as_ref().map_or(Gate::Pass, |active| active.gate(now, in_flight))
    }

    /// An attempt starts under the gate's word: it takes the probe token, or the ramp paces the next one.
    ///
    /// `windows` are the scope's limits in their declared order. The attempt's `sent_at` in [`Breaker::on_answer`]
    /// is this `now` or later.
    pub fn on_start(&mut self, now: Timestamp, policy: &BreakerPolicy, windows: &[Limit]) {
        if let Some(active) = &mut self.active {
            active.on_start(now, policy, windows);
        }
    }

    /// An attempt that [`Breaker::on_start`] announced at `started_at` never left: if it was the probe, its token comes back.
    pub fn on_never_sent(&mut self, now: Timestamp, started_at: Timestamp) {
        self.on_elsewhere(now, started_at);
    }

    /// An attempt ended with an answer about *another* scope: it says nothing here, but its probe token comes back.
    pub fn on_elsewhere(&mut self, now: Timestamp, sent_at: Timestamp) {
        let _ = now;
        if let Some(active) = &mut self.active {
            active.release_probe(sent_at);
        }
    }

    /// What follows is an answer to an attempt that this scope did not grant, so it does not hear of every success: failures
    /// in a row count while they are of the last minute.
    pub(crate) fn on_hearsay(&mut self, now: Timestamp) {
        self.tally.forget_old(now);
    }

    /// An attempt that started at `sent_at` ended with an answer about this scope.
    ///
    /// The caller routes a throttle to the scope that it names and gives the others [`Breaker::on_elsewhere`].
    /// `uses` is asked at most once, and only for what needs it: a new episode, or a calibration. `waiting` is the
    /// number of operations that share a cooldown that begins here, for its event. A throttle of
    /// [`ThrottleKind::Concurrency`] holds nothing: it is [`Concurrency`]'s.
    #[expect(
        clippy::too_many_arguments,
        reason = "one call per answer; a struct for it would be built at every success"
    )]
    pub fn on_answer(
        &mut self,
        now: Timestamp,
        sent_at: Timestamp,
        answer: &Answer,
        uses: impl FnOnce() -> Vec<LimitUse>,
        policy: &BreakerPolicy,
        waiting: u32,
        events: &mut Vec<Event>,
    ) {
        self.roll(now, policy, waiting, events);
        self.on_elsewhere(now, sent_at);
        match &answer.verdict {
            Verdict::Transient { .. } | Verdict::Unknown => {
                self.on_failure(now, sent_at, answer, policy, waiting, events);
            }
            Verdict::Throttled(throttle) => {
                self.on_answered(now, sent_at, events);
                if throttle.kind != ThrottleKind::Concurrency {
                    self.on_throttle(now, sent_at, throttle, uses, policy, waiting, events);
                }
            }
            Verdict::Accepted => {
                self.on_answered(now, sent_at, events);
                self.on_success(now, sent_at, answer, uses, policy, waiting, events);
            }
            Verdict::Permanent { .. } => self.on_answered(now, sent_at, events),
        }
        self.tidy(now);
    }

    /// N′: what limit `index`, declared as `declared`, may hold now: its learned ceiling, less what others use.
    ///
    /// At least 1 of a limit that is not zero, so that no estimate locks a scope for good.
    #[must_use]
    #[inline]
    pub fn amount(&self, now: Timestamp, index: usize, declared: u64) -> u64 {
        self.active.as_ref().map_or(declared, |active| active.amount(now, index, declared))
    }

    /// Until when background stays out, because the provider reported a limit as used up (usage of 100 % or more).
    #[must_use]
    pub fn background_paused(&self, now: Timestamp) -> Option<Timestamp> {
        self.active.as_ref()?.soft.paused_until.filter(|until| now < *until)
    }

    /// A deadline has come (or any other instant): writes down what time has changed and tells of it.
    ///
    /// Afterwards [`Breaker::deadline`] is later than `now`, or `None`. `waiting` is the number of operations that share
    /// this wait.
    pub fn on_wake(&mut self, now: Timestamp, policy: &BreakerPolicy, waiting: u32, events: &mut Vec<Event>) {
        self.roll(now, policy, waiting, events);
        self.tidy(now);
    }

    /// Whether anything may change by time alone.
    #[inline]
    pub(crate) fn has_deadlines(&self) -> bool {
        self.active.is_some()
    }

    /// When time alone changes something next; `None` for a quiet breaker.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        self.active.as_ref().and_then(|active| active.deadline())
    }

    /// What people see of it.
    #[must_use]
    pub fn facts(&self, now: Timestamp) -> BreakerFacts {
        self.active.as_ref().map_or_else(BreakerFacts::default, |active| active.facts(now))
    }

    /// Whether it neither restrains the next send nor remembers anything that would matter to the next throttle.
    #[must_use]
    pub fn is_quiet(&self, now: Timestamp) -> bool {
        self.active.as_ref().is_none_or(|active| active.is_over(now))
    }

    /// Whether it remembers nothing at all.
    pub(crate) fn is_unmarked(&self) -> bool {
        self.active.is_none()
    }

    /// What it counted, if that is all it knows.
    pub(crate) fn quiet_tally(&self) -> Option<Tally> {
        self.active.is_none().then_some(self.tally)
    }

    /// A breaker that knows nothing but what it counted.
    pub(crate) fn set_tally(&mut self, tally: Tally) {
        self.tally = tally;
    }

    fn roll(&mut self, now: Timestamp, policy: &BreakerPolicy, waiting: u32, events: &mut Vec<Event>) {
        if let Some(active) = &mut self.active {
            active.probe_timeout = policy.probe_timeout;
            active.roll(now, &self.scope, waiting, events);
        }
    }

    fn tidy(&mut self, now: Timestamp) {
        if self.is_quiet(now) {
            self.active = None;
        }
    }

    fn on_answered(&mut self, now: Timestamp, sent_at: Timestamp, events: &mut Vec<Event>) {
        self.tally.on_answered(now);
        let Some(active) = &mut self.active else { return };
        if active.outage.is_some_and(|outage| sent_at > outage.set_at) {
            active.outage = None;
            self.tally = Tally::default();
            active.tell_closed(now, &self.scope, TripReason::Health, events);
        }
    }

    fn on_failure(
        &mut self,
        now: Timestamp,
        sent_at: Timestamp,
        answer: &Answer,
        policy: &BreakerPolicy,
        waiting: u32,
        events: &mut Vec<Event>,
    ) {
        let before = self.active.as_ref().and_then(|active| active.outage);
        if before.is_some_and(|outage| sent_at <= outage.set_at) {
            return; // in flight when it opened: the same outage
        }
        self.tally.on_failure(now);
        let retry_after = match answer.verdict {
            Verdict::Transient { retry_after, .. } => retry_after,
            _ => None,
        };
        if before.is_none() && retry_after.is_none() && !self.tally.is_bad(policy) {
            return;
        }
        if retry_after.is_none() && self.active.as_mut().is_some_and(|active| active.may_probe_again(policy)) {
            return;
        }
        let hint = retry_after.map(|retry_after| cooldown::hinted(&self.scope, retry_after, 0, policy));
        let outage = Outage::open(now, before, hint, policy);
        self.tally = Tally::default();
        let active = self.active.get_or_insert_default();
        (active.outage, active.probe) = (Some(outage), None);
        events.push(active.opened(now, &self.scope, TripReason::Health, outage.until, waiting));
    }

    #[expect(clippy::too_many_arguments, reason = "what on_answer was called with")]
    fn on_throttle(
        &mut self,
        now: Timestamp,
        sent_at: Timestamp,
        throttle: &Throttle,
        uses: impl FnOnce() -> Vec<LimitUse>,
        policy: &BreakerPolicy,
        waiting: u32,
        events: &mut Vec<Event>,
    ) {
        let active = self.active.get_or_insert_default();
        let was_blocked = active.episodes.blocked_until(now);
        if active.episodes.is_of_running_episode(sent_at) {
            if active.episodes.extend(now, throttle, policy) {
                active.probe = None;
                events.push(active.held(now, &self.scope, was_blocked.is_some(), waiting));
            }
            return;
        }
        active.probe_timeout = policy.probe_timeout;
        let measured = active.episodes.open(now, (&self.scope, throttle), &uses(), &active.ceilings, policy);
        if let Some(measured) = measured {
            active.learn(now, measured, policy);
        }
        active.probe = None;
        if was_blocked != active.episodes.blocked_until(now) {
            events.push(active.held(now, &self.scope, was_blocked.is_some(), waiting));
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what on_answer was called with")]
    fn on_success(
        &mut self,
        now: Timestamp,
        sent_at: Timestamp,
        answer: &Answer,
        uses: impl FnOnce() -> Vec<LimitUse>,
        policy: &BreakerPolicy,
        waiting: u32,
        events: &mut Vec<Event>,
    ) {
        if let Some(active) = &mut self.active {
            active.on_success(now, sent_at, policy, &self.scope, events);
        }
        let teaches = self.active.as_ref().is_some_and(|active| !active.soft.is_empty());
        if answer.usage.is_none() && !teaches {
            return;
        }
        let active = self.active.get_or_insert_default();
        let was_paused = active.soft.is_paused(now);
        match answer.usage {
            Some(usage) => {
                if let Some(until) = active.soft.on_usage(now, usage, &uses(), policy.cooldown_long_max) {
                    events.push(active.opened(now, &self.scope, TripReason::SoftPercentage, until, waiting));
                }
            }
            None => active.soft.on_silence(now, &uses()),
        }
        if was_paused && !active.soft.is_paused(now) {
            active.tell_closed(now, &self.scope, TripReason::SoftPercentage, events);
        }
    }
}
