//! What a claim and a record mean to a row, the same in every store.
//!
//! A call whose answer was lost is made again, so a store meets the same claim and the same record twice and has to
//! tell a repetition from news. It does so by the attempt's number and by the instant of the last change, never by
//! remembering calls. What is neither a repetition nor a listed transition is an error: a state is never assigned.
//!
//! Not promised: a record repeated after a *newer* record of the same operation at the same microsecond may be taken
//! for news if it is listed from the state it finds. The scheduler never does that: it repeats before it goes on.

use super::StoreError;
use crate::engine::mailbox::Record;
use crate::engine::operation::{IllegalTransition, Transition};
use crate::engine::{OperationKey, OperationState, Timestamp};

/// What to do about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimRule {
    /// Write the attempt row, and answer with the email.
    Write,
    /// The row is there and its attempt is live: answer with the email again.
    Repeat,
    /// Nothing may be sent.
    Refuse,
}

/// What to do about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordRule {
    /// Move the row.
    Apply,
    /// The row has been moved by it, or beyond it.
    Skip,
}

/// What a row says of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) state: OperationState,
    pub(super) changed_at: Timestamp,
    /// Attempts that count.
    pub(super) attempts: u32,
    /// The highest number of an attempt row.
    pub(super) rows: u32,
}

impl Seen {
    /// Judges the claim of attempt number `attempt`.
    ///
    /// A claim with a higher number finds the operation attempting when the answer to the claim before was lost: its
    /// row stays and keeps its charge, and nothing was sent on it.
    pub(super) const fn claim(&self, attempt: u32) -> ClaimRule {
        use OperationState::{Admitted, Attempting, Deferred, Queued};
        match self.state {
            Attempting if attempt == self.rows => ClaimRule::Repeat,
            Admitted | Queued | Deferred | Attempting if attempt > self.rows => ClaimRule::Write,
            _ => ClaimRule::Refuse,
        }
    }

    /// Judges a record.
    ///
    /// # Errors
    /// It is not listed from this state, and cannot have been applied before.
    pub(super) fn record(&self, record: &Record) -> Result<RecordRule, IllegalTransition> {
        let same = record.state == self.state && record.attempts == self.attempts;
        if same && record.at == self.changed_at {
            return Ok(RecordRule::Skip);
        }
        match record.transition.apply(self.state) {
            Ok(to) if to == record.state && !self.is_superseded(record) => Ok(RecordRule::Apply),
            Ok(to) if to == record.state => Ok(RecordRule::Skip),
            Err(_) if record.at <= self.changed_at => Ok(RecordRule::Skip),
            // The claim that it takes back was never written.
            Err(_) if record.transition == Transition::Void && self.is_waiting() => Ok(RecordRule::Skip),
            Ok(_) => Err(IllegalTransition { transition: record.transition, from: self.state }),
            Err(illegal) => Err(illegal),
        }
    }

    const fn is_waiting(&self) -> bool {
        matches!(self.state, OperationState::Admitted | OperationState::Queued | OperationState::Deferred)
    }

    /// Whether it speaks of an attempt before the live one. A loss is believed whenever it says it was: after a
    /// restart the clock may have been set back, and taking a live attempt for unknown sends nothing twice.
    fn is_superseded(&self, record: &Record) -> bool {
        self.state == OperationState::Attempting && record.transition != Transition::Lose && record.at < self.changed_at
    }
}

/// A record that tells an impossible story.
pub(super) fn impossible(key: OperationKey, illegal: IllegalTransition) -> StoreError {
    StoreError::Contradiction { reason: format!("operation {}: {illegal}", key.0) }
}

/// A new operation under the key of another one.
pub(super) fn taken_key(key: OperationKey) -> StoreError {
    StoreError::Contradiction {
        reason: format!("operation {}: its key belongs to an operation with another id", key.0),
    }
}

/// Whether nobody will send it any more. A quarantined one may be released.
pub(super) const fn is_over(state: OperationState) -> bool {
    state.is_final() && !matches!(state, OperationState::Quarantined)
}
