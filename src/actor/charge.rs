//! What permits take, written down: before one is handed over, and when it has ended.
//!
//! A permit is an attempt of no operation. Its charge is a note of its own, durable before the caller may send, so that
//! a restart grants no free window to those who send by themselves either. It shares its commit with whatever else the
//! turn writes.

use std::time::Duration;

use super::desk::Flight;
use super::kept;
use super::mailbox::MailboxActor;
use super::past;
use crate::engine::mailbox::{ClaimFailure, Input, Record};
use crate::engine::operation::Transition;
use crate::engine::{OperationKey, Timestamp};
use crate::store::{Note, NoteBody, NoteChange, PermitNote, StoreError};

/// How long a permit that is out is written down for: a month, so that what was forgotten in the end ends. When it is
/// settled, its charge counts from there.
const OUT_MAX: Duration = Duration::from_secs(30 * 86_400);

impl MailboxActor {
    pub(super) fn is_permit(&self, key: OperationKey) -> bool {
        self.desk.get(key).is_some_and(|entry| !entry.is_operation())
    }

    /// Writes the charge; the permit waits for that.
    pub(super) fn charge_permit(&mut self, key: OperationKey) {
        let now = self.now;
        let until = self.counts_until().after(OUT_MAX);
        let Some(entry) = self.desk.get_mut(key) else { return };
        entry.flight = Flight::Claiming;
        if let Some(asked) = self.desk.permit_mut(key) {
            asked.claimed_at = now;
        }
        let Some(note) = self.desk.permit_note(key, None) else { return };
        self.journal.permit(key, kept::permit(self.seat.id(), note, now, until));
    }

    /// What became of the charge.
    pub(super) fn note_permit(&mut self, record: &Record) {
        match record.transition {
            Transition::Void => self.uncharge_permit(record.key),
            _ => {
                let Some(note) = self.desk.permit_note(record.key, Some(record.at)) else { return };
                let note = PermitNote { leaves: record.leaves, ..note };
                self.journal.note(kept::permit(self.seat.id(), note, self.now, self.counts_until()));
            }
        }
    }

    /// Permits of an earlier life are out no longer: how long they count is settled now, and not at each restart anew.
    pub(super) fn end_earlier_permits(&mut self, notes: &[Note]) {
        let linger = self.policy.guard.request_deadline_max;
        let permits = notes.iter().filter_map(|note| match &note.body {
            NoteBody::Permit(permit) if permit.finished_at.is_none() => Some(permit),
            _ => None,
        });
        for permit in permits.filter(|permit| self.desk.get(permit.key).is_none()) {
            let finished_at = Some(past::permit(permit).counts_until(self.now, linger));
            let ended = PermitNote { finished_at, ..permit.clone() };
            self.journal.note(kept::permit(self.seat.id(), ended, self.now, self.counts_until()));
        }
    }

    fn uncharge_permit(&mut self, key: OperationKey) {
        self.journal.note(NoteChange::Drop(kept::permit_key(self.seat.id(), key)));
    }

    /// Charges of permits have been written, or not.
    pub(super) fn on_charged(&mut self, permits: Vec<OperationKey>, charged: &Result<(), StoreError>) {
        for key in permits {
            if charged.is_ok() {
                self.on_charge_written(key);
            } else {
                // It may have been written all the same.
                self.uncharge_permit(key);
                self.step(Input::ClaimFailed { key, failure: ClaimFailure::Transient });
            }
            if let Some(entry) = self.desk.get_mut(key).filter(|entry| entry.flight == Flight::Claiming) {
                entry.flight = Flight::Grounded;
                self.defer_if_impatient(key);
            }
        }
    }

    /// Charges that were being written for permits that nobody gets any more.
    pub(super) fn uncharge_waiting(&mut self) {
        for key in self.desk.waiting_permits() {
            if self.desk.get(key).is_some_and(|entry| entry.flight == Flight::Claiming) {
                self.uncharge_permit(key);
            }
        }
    }

    /// Until when a charge of now can count anywhere.
    fn counts_until(&self) -> Timestamp {
        let horizon = self.world.settings.load().horizon(self.now).min(self.horizon());
        self.now.after(self.now.since(horizon))
    }
}
