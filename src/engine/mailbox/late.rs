//! Grants of the shared scopes that come after all, for operations that hold nothing here meanwhile.
//!
//! Such a grant may find its mailbox's slot held by another operation that is still being asked for there. To give the
//! grant back would let both go round for ever: what is given back is granted to the other one, which has to wait by
//! then and has given its slot to the first. So the grant is kept until everything that is being asked for has its
//! answer, and nothing new is asked for before. After that the slot is free, or an attempt has it: each grant that is
//! given back has one that was used before it, and an instant has an end.

use super::Mailbox;
use super::entry::{Shared, Step};
use crate::engine::budget::Grant;
use crate::engine::lane::Lane;
use crate::engine::operation::OperationKey;
use crate::engine::time::Timestamp;

impl Mailbox {
    /// The shared scopes have room for an operation that waited for them.
    pub(super) fn granted_late(&mut self, key: OperationKey) {
        if !self.late.contains(&key) {
            self.late.push(key);
        }
    }

    /// Uses the late grants that have their slot here, and gives those back that will not have one.
    pub(super) fn use_late_grants(&mut self, now: Timestamp) {
        if self.late.is_empty() {
            return;
        }
        self.stirred = true;
        if cfg!(debug_assertions) {
            let reserving = self.table.entries().filter(|entry| matches!(entry.step, Step::Reserving { .. })).count();
            debug_assert_eq!(reserving, self.reserving as usize, "operations that the shared scopes are asked for");
        }
        for lane in Lane::ALL {
            for key in self.late.clone() {
                if self.table.get(key).is_some_and(|entry| entry.lane == lane) {
                    self.use_late_grant(now, key, lane);
                }
            }
        }
    }

    fn use_late_grant(&mut self, now: Timestamp, key: OperationKey, lane: Lane) {
        let Some(cost) = self.table.get(key).map(|entry| entry.cost()) else { return };
        // Only if it is still the one this mailbox would send now (L3).
        let overtakes = lane == Lane::Background && self.peek(Lane::Foreground).is_some();
        let waits = self.budget.wait(now, lane, &cost, Grant::Ordinary, Self::rules(&self.policy)).is_some();
        if !overtakes && !waits {
            self.stop_waiting(key);
            if cfg!(debug_assertions) {
                self.assert_order(now, key, Grant::Ordinary);
            }
            self.budget.reserve(now, lane, &cost, Self::rules(&self.policy), &mut self.events);
            self.on_start(now, lane, Grant::Ordinary);
            self.claim(now, key, Shared::Reserved);
        } else if overtakes || self.reserving == 0 {
            self.give_back_shared(key);
            let dominant = self.budget.dominant(&cost);
            self.table.requeue_unsent(key, dominant);
        }
    }

    /// It waits at the shared scopes no longer.
    pub(super) fn stop_waiting(&mut self, key: OperationKey) {
        self.shared_waits.remove(&key);
        self.late.retain(|late| *late != key);
    }

    /// Whether a grant that is kept has to be used or given back before anything else starts.
    pub(super) fn awaits_answers(&self) -> bool {
        !self.late.is_empty()
    }
}
