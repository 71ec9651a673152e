//! A mailbox that several processes share: what its owner may send, and which operations it leaves to another one.

use super::Mailbox;
use super::entry::{Entry, Step};
use crate::engine::operation::{OperationKey, OperationKind};
use crate::engine::tenure::Tenure;
use crate::engine::time::Timestamp;

impl Mailbox {
    /// Says what this process may do: call it before [`Mailbox::restore`], so that what is restored is bound by it.
    pub fn begin_tenure(&mut self, now: Timestamp, tenure: Tenure) {
        self.now = self.now.max(now);
        self.table.set_standing(None);
        self.own(self.now, tenure);
    }

    pub(super) fn own(&mut self, now: Timestamp, tenure: Tenure) {
        let before = self.budget.set_tenure(tenure);
        let doubts = |tenure: &Tenure| (tenure.reach, tenure.unclean_at, tenure.failover_at);
        let is_renewal = before.is_some_and(|before| doubts(&before) == doubts(&tenure));
        if is_renewal && self.tenure_at > now {
            // Most are. One that comes when a review is due must not put it off: nothing else would catch up on it.
            self.tenure_at = self.next_review(now);
        } else {
            self.review(now);
        }
    }

    fn next_review(&self, now: Timestamp) -> Timestamp {
        self.budget.tenure_deadline(now, Self::rules(&self.policy)).unwrap_or(Timestamp::NEVER)
    }

    /// Works off an instant at which the tenure changes by itself.
    pub(super) fn review_if_due(&mut self, now: Timestamp) {
        if self.tenure_at <= now {
            self.stirred = true;
            self.review(now);
        }
    }

    /// Sorts what waits into what is sent here and what is left to another owner.
    fn review(&mut self, now: Timestamp) {
        self.tenure_at = self.next_review(now);
        let withholds = self.budget.withholds(now, Self::rules(&self.policy));
        if !withholds && !std::mem::replace(&mut self.withholds, withholds) {
            return; // everything is ours, as it was
        }
        self.withholds = withholds;
        for key in self.table.keys() {
            let Some(entry) = self.table.get(key) else { continue };
            if self.withheld_until(now, entry).is_some() {
                self.stand_aside(key);
            }
        }
        self.free_held();
    }

    /// What another process has brought to its end waits here no longer. What is under way here ends here.
    pub(super) fn forget(&mut self, key: OperationKey) {
        match self.table.get(key).map(|entry| entry.step) {
            Some(Step::Waiting) => {
                self.give_back_shared(key);
                self.table.remove(key);
            }
            Some(Step::Delayed { .. } | Step::Queued(_) | Step::Held | Step::Unknown { .. }) => self.table.remove(key),
            Some(Step::Free { .. } | Step::Reserving { .. } | Step::Claiming { .. } | Step::Attempting { .. })
            | None => {}
        }
    }

    /// Until when it is left to another owner, if it is. A permit is nobody else's.
    pub(super) fn withheld_until(&self, now: Timestamp, entry: &Entry) -> Option<Timestamp> {
        if !self.budget.is_tenured() || entry.kind == OperationKind::Permit {
            return None;
        }
        let which = (entry.key, entry.lane, entry.submitted_at);
        self.budget.withheld_until(now, which, Self::rules(&self.policy))
    }

    /// Whether an attempt whose row has just been written may still leave.
    pub(super) fn is_unowned(&self, now: Timestamp, key: OperationKey) -> bool {
        let lane = self.table.get(key).map(|entry| entry.lane);
        lane.is_some_and(|lane| self.budget.unowned_until(now, lane, Self::rules(&self.policy)).is_some())
    }
}
