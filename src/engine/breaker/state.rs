//! What a breaker holds while it is not quiet, and the one answer that its parts give together.

use std::time::Duration;

use crate::engine::constraint::Wall;
use crate::engine::event::{Event, TripReason};
use crate::engine::limit::Limit;
use crate::engine::policy::BreakerPolicy;
use crate::engine::scope::Scope;
use crate::engine::time::Timestamp;

use super::ceiling::Ceiling;
use super::episode::{Episodes, Measured, Phase, Turn};
use super::health::Outage;
use super::probe::Probe;
use super::soft::Soft;
use super::{BreakerFacts, BreakerState, Gate};

/// Everything of a breaker that is not quiet.
#[derive(Clone, Debug)]
pub(super) struct Active {
    pub(super) episodes: Episodes,
    pub(super) probe: Option<Probe>,
    pub(super) outage: Option<Outage>,
    pub(super) soft: Soft,
    pub(super) ceilings: Vec<Ceiling>,
    pub(super) probe_timeout: Duration,
    pub(super) trips: u32,
}

impl Default for Active {
    fn default() -> Self {
        Self {
            episodes: Episodes::new(),
            probe: None,
            outage: None,
            soft: Soft::default(),
            ceilings: Vec::new(),
            probe_timeout: BreakerPolicy::default().probe_timeout,
            trips: 0,
        }
    }
}

impl Active {
    /// The strictest word of the parts.
    pub(super) fn gate(&self, now: Timestamp, in_flight: u32) -> Gate {
        if let Some((until, wall)) = self.blocked(now) {
            return Gate::Blocked { until, wall };
        }
        if let Some(since) = self.half_open_since(now) {
            return self.probe_gate(now, in_flight, since);
        }
        match self.episodes.ramp(now) {
            Some(ramp) if now < ramp.next_at => Gate::Paced { ready_at: ramp.next_at },
            _ => Gate::Pass,
        }
    }

    fn probe_gate(&self, now: Timestamp, in_flight: u32, since: Timestamp) -> Gate {
        match self.probe {
            Some(probe) if probe.is_live(now) => Gate::ProbeInFlight { until: probe.expires_at },
            Some(_) => Gate::Probe,
            None => {
                // Attempts from before the cooldown are waited for, but not longer than for a probe.
                let waited = Probe::take(since, self.probe_timeout);
                if in_flight > 0 && waited.is_live(now) {
                    Gate::ProbeInFlight { until: waited.expires_at }
                } else {
                    Gate::Probe
                }
            }
        }
    }

    fn blocked(&self, now: Timestamp) -> Option<(Timestamp, Wall)> {
        let cooldown = self.episodes.blocked_until(now).map(|until| (until, Wall::Cooldown));
        let outage = self.outage.filter(|outage| now < outage.until).map(|outage| (outage.until, Wall::Health));
        match (cooldown, outage) {
            (Some(cooldown), Some(outage)) if outage.0 > cooldown.0 => Some(outage),
            (Some(cooldown), _) => Some(cooldown),
            (None, outage) => outage,
        }
    }

    /// Since when a probe may go, while half-open for either reason.
    pub(super) fn half_open_since(&self, now: Timestamp) -> Option<Timestamp> {
        let cooldown = self.episodes.is_half_open(now).then_some(self.episodes.until);
        let outage = self.outage.filter(|outage| outage.is_half_open(now)).map(|outage| outage.until);
        cooldown.max(outage)
    }

    pub(super) fn on_start(&mut self, now: Timestamp, policy: &BreakerPolicy, limits: &[Limit]) {
        self.probe_timeout = policy.probe_timeout;
        if self.half_open_since(now).is_some() {
            self.probe = Some(Probe::take(now, policy.probe_timeout));
        } else if let Phase::Ramp(ramp) = &mut self.episodes.phase {
            let (ceilings, soft) = (&self.ceilings, &self.soft);
            ramp.on_start(now, limits, |index, declared| amount(ceilings, soft, now, index, declared));
        }
    }

    /// A ramp that begins anew: the last send of the life before is not known, so the first one waits a whole gap.
    pub(super) fn pace_ramp(&mut self, now: Timestamp, limits: &[Limit]) {
        if let Phase::Ramp(ramp) = &mut self.episodes.phase {
            let (ceilings, soft) = (&self.ceilings, &self.soft);
            ramp.on_start(now, limits, |index, declared| amount(ceilings, soft, now, index, declared));
        }
    }

    /// The attempt that started at `sent_at` has ended; its token comes back.
    pub(super) fn release_probe(&mut self, sent_at: Timestamp) {
        if self.probe.is_some_and(|probe| probe.is_of(sent_at)) {
            self.probe = None;
        }
    }

    /// A probe of an outage failed; whether the next one may go at once.
    pub(super) fn may_probe_again(&mut self, policy: &BreakerPolicy) -> bool {
        let again = self.outage.as_mut().is_some_and(|outage| outage.may_probe_again(policy));
        self.probe = self.probe.filter(|_| !again);
        again
    }

    pub(super) fn amount(&self, now: Timestamp, index: usize, declared: u64) -> u64 {
        amount(&self.ceilings, &self.soft, now, index, declared)
    }

    /// Learns a ceiling: the limit took no more than what was accepted in its last window.
    pub(super) fn learn(&mut self, now: Timestamp, measured: Measured, policy: &BreakerPolicy) {
        let (index, of) = (measured.index, measured.of);
        let declared = of.limit.amount();
        let w_max = self.amount(now, index, declared).min(of.accepted);
        self.ceilings.retain(|one| one.index != index);
        self.ceilings.push(Ceiling::learn(now, index, (declared, of.limit.window()), w_max, policy));
        self.trips = self.trips.saturating_add(1);
    }

    pub(super) fn roll(&mut self, now: Timestamp, scope: &Scope, waiting: u32, events: &mut Vec<Event>) {
        let mut closed = self.soft.roll(now).then_some(TripReason::SoftPercentage);
        self.ceilings.retain(|one| now < one.ends_at);
        if self.probe.is_some_and(|probe| !probe.is_live(now)) {
            self.probe = None;
        }
        let (mut half_opened, reason) = (None, self.episodes.reason);
        match self.episodes.roll(now) {
            Turn::HalfOpened => half_opened = Some(reason),
            Turn::Closed => closed = Some(reason),
            Turn::None => {}
        }
        if let Some(outage) = &mut self.outage
            && outage.is_half_open(now)
            && !outage.half_open
        {
            outage.half_open = true;
            half_opened = Some(TripReason::Health);
        }
        if let Some(reason) = half_opened {
            events.push(Event::BreakerHalfOpened { scope: scope.clone(), reason, trips: self.trips, waiting });
        }
        if let Some(reason) = closed {
            self.tell_closed(now, scope, reason, events);
        }
    }

    pub(super) fn close(&mut self, now: Timestamp) {
        self.episodes.close(now);
        *self =
            Self { episodes: self.episodes, probe_timeout: self.probe_timeout, trips: self.trips, ..Self::default() };
    }

    pub(super) fn is_closed(&self, now: Timestamp) -> bool {
        self.episodes.is_closed(now) && self.outage.is_none() && !self.soft.is_paused(now)
    }

    /// Nothing of it matters any more.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.is_closed(now)
            && self.episodes.remembered_until().is_none_or(|until| now >= until)
            && self.soft.deadline().is_none_or(|until| now >= until)
            && self.ceilings.iter().all(|one| now >= one.ends_at)
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let outage = self.outage.filter(|outage| !outage.half_open).map(|outage| outage.until);
        let probe = self.probe.map(|probe| probe.expires_at);
        let ceilings = self.ceilings.iter().map(|one| one.ends_at);
        let others = [self.episodes.deadline(), outage, probe, self.soft.deadline()];
        others.into_iter().flatten().chain(ceilings).min().filter(|at| *at < Timestamp::NEVER)
    }

    pub(super) fn facts(&self, now: Timestamp) -> BreakerFacts {
        let blocked = self.blocked(now);
        let ramp = self.episodes.ramp(now);
        let state = if blocked.is_some() {
            BreakerState::Open
        } else if self.half_open_since(now).is_some() {
            BreakerState::HalfOpen
        } else if ramp.is_some() {
            BreakerState::Ramp
        } else {
            BreakerState::Closed
        };
        BreakerFacts {
            state,
            reason: self.reason(now),
            until: blocked.map(|(until, _)| until).or(ramp.map(|ramp| ramp.ends_at)),
            chain: self.episodes.chain,
            trips: self.trips,
            background_paused_until: self.soft.paused_until.filter(|until| now < *until),
        }
    }

    pub(super) fn reason(&self, now: Timestamp) -> Option<TripReason> {
        let health = self.outage.map(|_| TripReason::Health);
        let soft = self.soft.is_paused(now).then_some(TripReason::SoftPercentage);
        let cooldown = self.episodes.has_opened().then_some(self.episodes.reason);
        match self.blocked(now) {
            Some((_, Wall::Health)) => health,
            Some(_) => cooldown,
            None if self.episodes.is_closed(now) => health.or(soft).or(cooldown),
            None => cooldown,
        }
    }

    /// The event of a cooldown that began or grew.
    pub(super) fn held(&self, now: Timestamp, scope: &Scope, was_blocked: bool, waiting: u32) -> Event {
        let (reason, until) = (self.episodes.reason, self.episodes.until);
        if was_blocked {
            let (scope, cooldown, trips) = (scope.clone(), until.since(now), self.trips);
            Event::BreakerExtended { scope, reason, cooldown, until, trips, waiting }
        } else {
            self.opened(now, scope, reason, until, waiting)
        }
    }

    pub(super) fn opened(
        &self,
        now: Timestamp,
        scope: &Scope,
        reason: TripReason,
        until: Timestamp,
        waiting: u32,
    ) -> Event {
        let (scope, cooldown, trips) = (scope.clone(), until.since(now), self.trips);
        Event::BreakerOpened { scope, reason, cooldown, until, trips, waiting }
    }

    /// The provider accepted what was sent at `sent_at`.
    pub(super) fn on_success(
        &mut self,
        now: Timestamp,
        sent_at: Timestamp,
        policy: &BreakerPolicy,
        scope: &Scope,
        events: &mut Vec<Event>,
    ) {
        let reason = self.episodes.reason;
        if !self.episodes.is_of_running_episode(sent_at) && self.episodes.on_success(now, policy) == Turn::Closed {
            self.tell_closed(now, scope, reason, events);
        }
    }

    /// It is closed, unless something else keeps it open; `reason`: what came to its end.
    pub(super) fn tell_closed(&self, now: Timestamp, scope: &Scope, reason: TripReason, events: &mut Vec<Event>) {
        if self.is_closed(now) {
            events.push(Event::BreakerClosed { scope: scope.clone(), reason, trips: self.trips });
        }
    }
}

/// N′ of one limit.
fn amount(ceilings: &[Ceiling], soft: &Soft, now: Timestamp, index: usize, declared: u64) -> u64 {
    let ceiling = ceilings.iter().find(|one| one.index == index).map_or(u64::MAX, |one| one.at(now));
    let left = declared.saturating_sub(soft.foreign(now, index, declared));
    left.min(ceiling).max(1).min(declared)
}
