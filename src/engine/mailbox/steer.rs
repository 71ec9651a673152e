//! What operators and callers ask for: cancel, hold, resume.

use super::entry::{CancelRequest, Entry, Step};
use super::table::Table;
use super::{Hold, HoldTarget, Mailbox, Outcome};
use crate::engine::operation::{OperationKey, OperationKind, OperationState};
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
    pub(super) fn cancel(&mut self, now: Timestamp, key: OperationKey) {
        let Some(entry) = self.table.get_mut(key) else { return };
        match entry.step {
            Step::Delayed { .. } | Step::Queued(_) | Step::Held | Step::Waiting => {
                if entry.kind == OperationKind::Permit {
                    self.end_permit(key);
                } else {
                    self.end_cancelled(now, key);
                }
            }
            Step::Reserving => {
                self.unreserve(now, key);
                self.table.delay(key, Step::Held);
                self.cancel(now, key);
            }
            // Never directly (transition 17): applied when the attempt has ended.
            Step::Free { .. } | Step::Claiming { .. } | Step::Attempting { .. } | Step::Unknown { .. } => {
                entry.cancel = CancelRequest::Requested;
            }
        }
    }

    fn end_permit(&mut self, key: OperationKey) {
        if self.table.get(key).is_some_and(|entry| entry.step == Step::Waiting) {
            self.give_back_shared(key);
        }
        self.table.remove(key);
        self.effects.push_back(super::Effect::Outcome { key, outcome: Outcome::Cancelled });
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
    }

    /// Operations that no hold covers any more go back to their places in order of admission.
    fn free_held(&mut self, _now: Timestamp) {
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
