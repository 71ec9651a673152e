//! What operators and callers ask for about one operation: cancel, set aside, release, discard.

use std::sync::Arc;

use super::entry::{Step, Wish};
use super::restore::rebased;
use super::table::End;
use super::{Effect, Mailbox, Outcome, RestoredOperation};
use crate::engine::event::Event;
use crate::engine::operation::{OperationKey, OperationKind, OperationState, QuarantineCause, Resolution, Transition};
use crate::engine::policy::DuplicatePolicy;
use crate::engine::time::Timestamp;

impl Mailbox {
    /// Takes an operation out, one way or the other. The latest wish counts.
    pub(super) fn stop(&mut self, now: Timestamp, key: OperationKey, wish: Wish) {
        let Some(entry) = self.table.get_mut(key) else { return };
        match entry.step {
            Step::Delayed { .. } | Step::Queued(_) | Step::Held | Step::Waiting => {
                if entry.kind == OperationKind::Permit {
                    self.end_permit(key);
                } else {
                    entry.wish = wish;
                    self.grant_wish(now, key);
                }
            }
            Step::Reserving { .. } => {
                self.unreserve(now, key);
                self.table.delay(key, Step::Held);
                self.stop(now, key, wish);
            }
            // Nobody has to wait any longer for what became of it: a person will see to it.
            Step::Unknown { .. } if wish == Wish::Quarantine => {
                entry.wish = wish;
                self.set_aside(now, key, QuarantineCause::Operator);
            }
            // Never directly (transition 17): applied when the attempt has ended.
            Step::Free { .. } | Step::Claiming { .. } | Step::Attempting { .. } | Step::Unknown { .. } => {
                entry.wish = wish;
            }
        }
    }

    /// Does what was asked for while the attempt was live. False: nothing was.
    pub(super) fn grant_wish(&mut self, now: Timestamp, key: OperationKey) -> bool {
        match self.table.get(key).map_or(Wish::Nothing, |entry| entry.wish) {
            Wish::Nothing => return false,
            Wish::Cancel => self.end_cancelled(now, key),
            Wish::Quarantine => self.set_aside(now, key, QuarantineCause::Operator),
        }
        true
    }

    /// Sets an operation aside for a person, by the transition that leads there from its state; one that was to be
    /// cancelled goes on to that.
    pub(super) fn set_aside(&mut self, now: Timestamp, key: OperationKey, cause: QuarantineCause) {
        if self.table.get(key).is_some_and(|entry| entry.step == Step::Waiting) {
            self.give_back_shared(key);
        }
        let Some(entry) = self.table.get_mut(key) else { return };
        let transition = match entry.state {
            OperationState::Attempting => Transition::Poison,
            OperationState::Unknown => Transition::GiveUp,
            _ => Transition::Quarantine,
        };
        entry.apply(transition);
        if entry.wish == Wish::Cancel {
            // A person said already what is to become of it.
            entry.set_in_doubt(entry.is_in_doubt(transition));
            self.record(now, key, transition, None);
            return self.never_send(now, key);
        }
        let (lane, live_until) = (entry.lane, entry.more().live_until);
        self.tell_of(Event::OperationQuarantined { key, lane, cause });
        self.record(now, key, transition, live_until.filter(|until| *until > now));
        self.leave_table(now, key, Outcome::Quarantined);
    }

    /// Tells at once: after the outcome, the shell no longer knows whose operation it was.
    pub(super) fn tell_of(&mut self, event: Event) {
        self.events.push(event);
        self.tell_events();
    }

    /// A person's word on an unknown needs no second look; whether it may be repeated is the policy's all the same.
    pub(super) fn ruled(&mut self, now: Timestamp, key: OperationKey, resolution: Resolution) {
        if !self.table.get(key).is_some_and(|entry| matches!(entry.step, Step::Unknown { .. })) {
            return;
        }
        match (resolution, self.policy.retry.duplicates) {
            (Resolution::Accepted, _) => self.resolved(now, key, true),
            (Resolution::Absent, DuplicatePolicy::AtLeastOnce) => {
                self.table.unqueue(key);
                self.repeat(now, key);
            }
            (Resolution::Absent, DuplicatePolicy::AtMostOnce) => self.set_aside(now, key, QuarantineCause::Operator),
        }
    }

    /// Back into its lane, behind what waits there, once no earlier attempt can be on its way. Ask [`Mailbox::check`] before.
    pub(super) fn release(&mut self, now: Timestamp, restored: RestoredOperation) {
        let attempts_max = self.policy.retry.attempts_max.get();
        let mut restored = restored;
        restored.operation.attempts = restored.operation.attempts.min(attempts_max.saturating_sub(1));
        let lane = restored.operation.lane;
        let live_until = restored.next_at.map(|until| rebased(now, restored.changed_at, until));
        let not_before = restored.operation.not_before.max(live_until.unwrap_or(Timestamp::EPOCH));
        let Some(key) = self.take_up(&restored) else { return };
        if let Some(entry) = self.table.get_mut(key) {
            entry.apply(Transition::Release);
        }
        self.record(now, key, Transition::Release, (not_before > now).then_some(not_before));
        self.tell_of(Event::OperationReleased { key, lane });
        if not_before > now {
            self.table.delay(key, Step::Delayed { due_at: not_before });
        } else {
            self.ready(now, key, End::Tail);
        }
    }

    pub(super) fn discard(&mut self, now: Timestamp, restored: RestoredOperation) {
        let Some(key) = self.take_up(&restored) else { return };
        self.never_send(now, key);
    }

    /// Ends a quarantined operation for good.
    fn never_send(&mut self, now: Timestamp, key: OperationKey) {
        self.end_unwanted(now, key, Transition::Discard);
    }

    /// Takes a quarantined operation in again as it was; `None` when it is not one, or is here already.
    fn take_up(&mut self, restored: &RestoredOperation) -> Option<OperationKey> {
        let key = restored.operation.key;
        if restored.state != OperationState::Quarantined || self.table.get(key).is_some() {
            return None;
        }
        self.table.insert(&restored.operation);
        if let Some(entry) = self.table.get_mut(key) {
            (entry.state, entry.rows) = (restored.state, restored.rows);
            entry.set_in_doubt(restored.maybe_sent);
        }
        Some(key)
    }

    fn end_permit(&mut self, key: OperationKey) {
        if self.table.get(key).is_some_and(|entry| entry.step == Step::Waiting) {
            self.give_back_shared(key);
        }
        self.table.remove(key);
        let outcome = Outcome::Cancelled { maybe_sent: false };
        self.effects.push_back(Effect::Outcome { key, outcome, tell_by: self.now });
    }

    /// On whose behalf a live operation is sent.
    #[must_use]
    pub fn tenant(&self, key: OperationKey) -> Option<&Arc<str>> {
        self.table.get(key).and_then(|entry| self.table.tenant(entry))
    }

    /// A final state that a person may lift is not held here: the shell reads it from the store and enqueues it
    /// anew. This answers whether an operation is live here at all.
    #[must_use]
    pub fn state(&self, key: OperationKey) -> Option<OperationState> {
        self.table.get(key).map(|entry| entry.state)
    }
}
