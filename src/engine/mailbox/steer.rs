//! What operators and callers ask for: cancel, set aside, release, hold, resume.

use super::entry::{Entry, Step, Wish};
use super::table::{End, Table};
use super::{Effect, Hold, HoldTarget, Mailbox, Outcome, RestoredOperation};
use crate::engine::event::Event;
use crate::engine::operation::{OperationKey, OperationKind, OperationState, QuarantineCause, Resolution, Transition};
use crate::engine::policy::DuplicatePolicy;
use crate::engine::time::Timestamp;

impl HoldTarget {
    /// Whether a hold of this target stops an operation of `table`. The whole mailbox's hold is the budget's and
    /// stops sends, not single operations.
    pub(super) fn covers(&self, table: &Table, entry: &Entry) -> bool {
        match self {
            Self::Mailbox => false,
            Self::Tenant(tenant) => table.tenant(entry) == Some(tenant),
            Self::Campaign(campaign) => table.campaign(entry) == Some(campaign),
            Self::Operation(key) => entry.key == *key,
        }
    }
}

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
            Step::Reserving => {
                self.unreserve(now, key);
                self.table.delay(key, Step::Held);
                self.stop(now, key, wish);
            }
            // Nobody has to wait any longer for what became of it: a person will see to it.
            Step::Unknown { .. } if wish == Wish::Quarantine => self.set_aside(now, key, QuarantineCause::Operator),
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

    /// Sets an operation aside for a person, by the transition that leads there from its state.
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
        let lane = entry.lane;
        self.tell_of(Event::OperationQuarantined { key, lane, cause });
        self.end(now, key, transition, Outcome::Quarantined);
    }

    /// Tells at once: after the outcome, the shell no longer knows whose operation it was.
    fn tell_of(&mut self, event: Event) {
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

    /// Back into its lane, behind what waits there. Ask [`Mailbox::check`] before.
    pub(super) fn release(&mut self, now: Timestamp, restored: RestoredOperation) {
        let attempts_max = self.policy.retry.attempts_max.get();
        let mut restored = restored;
        restored.operation.attempts = restored.operation.attempts.min(attempts_max.saturating_sub(1));
        let (lane, not_before) = (restored.operation.lane, restored.operation.not_before);
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
        if let Some(entry) = self.table.get_mut(key) {
            entry.apply(Transition::Discard);
        }
        self.end(now, key, Transition::Discard, Outcome::Cancelled);
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
        }
        Some(key)
    }

    fn end_permit(&mut self, key: OperationKey) {
        if self.table.get(key).is_some_and(|entry| entry.step == Step::Waiting) {
            self.give_back_shared(key);
        }
        self.table.remove(key);
        self.effects.push_back(Effect::Outcome { key, outcome: Outcome::Cancelled });
    }

    pub(super) fn hold(&mut self, _now: Timestamp, hold: Hold) {
        if hold.target == HoldTarget::Mailbox {
            self.budget.hold(hold.until);
            return;
        }
        for key in self.table.keys() {
            let Some(entry) = self.table.get(key) else { continue };
            if !hold.target.covers(&self.table, entry) {
                continue;
            }
            match entry.step {
                Step::Queued(_) => self.table.delay(key, Step::Held),
                Step::Waiting => {
                    self.give_back_shared(key);
                    self.table.delay(key, Step::Held);
                }
                // Delayed ones meet the hold when they are due; live attempts end by themselves.
                _ => {}
            }
        }
        self.holds.retain(|other| other.target != hold.target);
        self.holds.push(hold);
    }

    pub(super) fn resume(&mut self, now: Timestamp, target: &HoldTarget) {
        if *target == HoldTarget::Mailbox {
            self.budget.resume();
            return;
        }
        self.holds.retain(|hold| hold.target != *target);
        self.free_held(now);
    }

    pub(super) fn expire_holds(&mut self, now: Timestamp) {
        if self.holds.iter().any(|hold| hold.until <= now) {
            self.holds.retain(|hold| hold.until > now);
            self.free_held(now);
        }
    }

    /// Whether some hold covers it.
    pub(super) fn is_held(&self, entry: &Entry) -> bool {
        self.holds.iter().any(|hold| hold.target.covers(&self.table, entry))
            || self.withheld_until(self.now, entry).is_some()
    }

    /// Operations that no hold covers any more go back to their places in order of admission.
    pub(super) fn free_held(&mut self, _now: Timestamp) {
        let is_free = |key: &OperationKey| {
            self.table.get(*key).is_some_and(|entry| entry.step == Step::Held && !self.is_held(entry))
        };
        let freed: Vec<_> = self.table.keys().into_iter().filter(is_free).collect();
        if freed.is_empty() {
            return;
        }
        let budget = &self.budget;
        self.table.requeue_in_order(&freed, |entry| budget.dominant(&entry.cost()));
    }

    /// A final state that a person may lift is not held here: the shell reads it from the store and enqueues it
    /// anew. This answers whether an operation is live here at all.
    #[must_use]
    pub fn state(&self, key: OperationKey) -> Option<OperationState> {
        self.table.get(key).map(|entry| entry.state)
    }
}
