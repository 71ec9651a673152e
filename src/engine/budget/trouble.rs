//! What stops a whole scope for a while, and how it goes on: holds, suspensions, cooldowns, waves.

use std::time::Duration;

use super::{Budget, Rules, Shut, Suspended};
use crate::engine::breaker::Gate;
use crate::engine::cost::CostSum;
use crate::engine::event::Event;
use crate::engine::lane::Lane;
use crate::engine::resume::{Pacer, Wave};
use crate::engine::time::Timestamp;

impl Budget {
    /// An operator stops or frees the whole scope.
    pub(crate) fn hold(&mut self, until: Timestamp) {
        self.hold_until = until;
    }

    /// Operations that were held one by one go on: a wave, as after a hold of the whole scope.
    pub(crate) fn was_held(&mut self) {
        self.was_shut = Shut::Yes;
    }

    /// Nothing passes until a person resumes it.
    pub(crate) fn suspend(&mut self) {
        self.suspended = Suspended::Yes;
    }

    /// A person lifts hold and suspension.
    pub(crate) fn resume(&mut self) {
        (self.hold_until, self.suspended) = (Timestamp::EPOCH, Suspended::No);
    }

    /// A person lifts the suspension alone.
    pub(crate) fn unsuspend(&mut self) {
        self.suspended = Suspended::No;
    }

    pub(crate) fn hold_until(&self, now: Timestamp) -> Option<Timestamp> {
        match self.suspended {
            Suspended::Yes => Some(Timestamp::NEVER),
            Suspended::No => (self.hold_until > now).then_some(self.hold_until),
        }
    }

    /// What waited through a cooldown or a hold goes on as a wave; a new cooldown ends it. `waiting` tells how many
    /// wait, of what cost, and in which lane the last of them is.
    pub(crate) fn plan_wave(
        &mut self,
        now: Timestamp,
        waiting: impl FnOnce() -> (u32, CostSum, Lane),
        unpaced: Option<Duration>,
        rules: Rules<'_>,
        events: &mut Vec<Event>,
    ) {
        if self.has_no_wave() {
            return;
        }
        let shut = if self.shut_until(now).is_some() { Shut::Yes } else { Shut::No };
        let was_shut = std::mem::replace(&mut self.was_shut, shut);
        if shut == Shut::Yes {
            self.wave = None;
        } else if was_shut == Shut::Yes {
            let (count, cost, lane) = waiting();
            let pacer = match unpaced.filter(|_| self.rate(now).is_none()) {
                Some(over) => Pacer::Wave { over },
                None => Pacer::Budget { last_at: self.last_of(now, lane, &cost, rules) },
            };
            self.wave = Wave::plan(self.scope(), now, count, pacer).map(|(wave, event)| {
                events.push(event);
                wave
            });
        }
    }

    /// Whether [`Budget::plan_wave`] has nothing to do.
    #[inline]
    pub(crate) fn has_no_wave(&self) -> bool {
        self.is_calm() && self.was_shut == Shut::No
    }

    /// Whether neither breaker nor hold nor wave says anything, at whatever instant.
    #[inline]
    pub(super) fn is_calm(&self) -> bool {
        !self.breaker.has_deadlines()
            && self.hold_until == Timestamp::EPOCH
            && self.suspended == Suspended::No
            && self.wave.is_none()
    }

    /// Until when nothing at all may leave, if so: an open breaker or an operator's hold.
    pub(crate) fn shut_until(&self, now: Timestamp) -> Option<Timestamp> {
        let breaker = match self.breaker.gate(now, self.in_flight) {
            Gate::Blocked { until, .. } => Some(until),
            _ => None,
        };
        breaker.max(self.hold_until(now))
    }

    pub(crate) fn trip(&mut self, now: Timestamp, until: Timestamp, waiting: u32, events: &mut Vec<Event>) {
        self.breaker.trip(now, until, waiting, events);
    }

    /// Another process met a cooldown of this scope.
    pub(crate) fn merge_cooldown(&mut self, now: Timestamp, until: Timestamp, waiting: u32, events: &mut Vec<Event>) {
        self.breaker.merge_cooldown(now, until, waiting, events);
    }

    /// Whether the next send would be the probe.
    pub(crate) fn is_probing(&self, now: Timestamp) -> bool {
        self.breaker.gate(now, self.in_flight) == Gate::Probe
    }

    /// Whether a probe may go, or is on its way.
    pub(crate) fn is_half_open(&self, now: Timestamp) -> bool {
        matches!(self.breaker.gate(now, self.in_flight), Gate::Probe | Gate::ProbeInFlight { .. })
    }

    /// When a learned ceiling is higher next.
    pub(crate) fn rises_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.breaker.rises_at(now)
    }

    /// Whether nothing leaves.
    pub(crate) fn is_shut(&self, now: Timestamp) -> bool {
        matches!(self.breaker.gate(now, self.in_flight), Gate::Blocked { .. })
    }

    pub(crate) fn close_breaker(&mut self, now: Timestamp, events: &mut Vec<Event>) {
        self.breaker.close(now, events);
    }

    /// The breaker's and the connections' own deadlines have come.
    pub(crate) fn wake(&mut self, now: Timestamp, rules: Rules<'_>, waiting: u32, events: &mut Vec<Event>) {
        if self.hold_until <= now {
            self.hold_until = Timestamp::EPOCH;
        }
        self.breaker.on_wake(now, rules.breaker, waiting, events);
        self.concurrency.on_wake(now, rules.breaker);
    }

    /// When to call [`Budget::wake`] by itself. Asked at every input.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        if self.is_calm() && !self.concurrency.has_deadlines() { None } else { self.trouble_deadline() }
    }

    fn trouble_deadline(&self) -> Option<Timestamp> {
        let hold =
            (self.hold_until != Timestamp::EPOCH && self.hold_until != Timestamp::NEVER).then_some(self.hold_until);
        [self.breaker.deadline(), self.concurrency.deadline(), hold].into_iter().flatten().min()
    }
}
