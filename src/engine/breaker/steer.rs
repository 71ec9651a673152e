//! What others than the provider say of a scope: an operator, another process, a reload.

use super::{Breaker, Tally, soft};
use crate::engine::event::{Event, TripReason};
use crate::engine::time::Timestamp;

impl Breaker {
    /// An operator opens it until `until`; a longer cooldown stays, and a running one is extended. Afterwards it is half-open like after any other.
    pub fn trip(&mut self, now: Timestamp, until: Timestamp, waiting: u32, events: &mut Vec<Event>) {
        if until <= now {
            return;
        }
        let active = self.active.get_or_insert_default();
        let was_blocked = active.episodes.blocked_until(now).is_some();
        active.episodes.hold(now, until, TripReason::Manual);
        active.probe = None;
        events.push(active.held(now, &self.scope, was_blocked, waiting));
    }

    /// An operator closes it: cooldown, probe, ramp, health, ceilings and calibration are forgotten.
    ///
    /// Throttles of attempts that were in flight are forgiven; the next one of a later attempt opens it again.
    pub fn close(&mut self, now: Timestamp, events: &mut Vec<Event>) {
        self.tally = Tally::default();
        let Some(active) = &mut self.active else { return };
        let (was_closed, reason) = (active.is_closed(now), active.reason(now).unwrap_or(TripReason::Manual));
        active.close(now);
        if !was_closed {
            events.push(Event::BreakerClosed { scope: self.scope.clone(), reason, trips: active.trips });
        }
        self.tidy(now);
    }

    /// Another process of ours met a cooldown of this scope: the later end wins.
    pub fn merge_cooldown(&mut self, now: Timestamp, until: Timestamp, waiting: u32, events: &mut Vec<Event>) {
        if until <= now {
            return;
        }
        let active = self.active.get_or_insert_default();
        let was_blocked = active.episodes.blocked_until(now).is_some();
        if active.episodes.merge(now, until) {
            active.probe = None;
            events.push(active.held(now, &self.scope, was_blocked, waiting));
        }
    }

    /// The declared limits changed: what was learned about the old ones is dropped, a cooldown stays.
    pub fn forget_limits(&mut self) {
        if let Some(active) = &mut self.active {
            active.ceilings.clear();
            active.soft = soft::Soft::default();
            active.episodes.forget_measured();
        }
    }
}
