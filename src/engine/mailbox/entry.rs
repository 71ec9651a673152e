//! One operation inside the mailbox, and where it stands: 88 bytes, for a mailbox may have a million of them.
//!
//! What every operation has lies packed in the entry; what only some have (an odd cost, a later start, attempts that
//! failed) lies in a block of its own, made when it is first needed.

use std::num::NonZeroU16;

use super::names::NamesId;
use crate::engine::cost::Cost;
use crate::engine::invariants::operation;
use crate::engine::lane::Lane;
use crate::engine::lanes::{Link, NIL};
use crate::engine::operation::{Operation, OperationKey, OperationKind, OperationState, Requested, Transition};
use crate::engine::time::Timestamp;
use crate::engine::verdict::ThrottleKind;

/// One operation the mailbox is responsible for.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: OperationKey,
    pub(super) id_hash: u64,
    pub(super) submitted_at: Timestamp,
    pub(super) deadline: Timestamp,
    pub(super) step: Step,
    more: Option<Box<More>>,
    pub(super) names: NamesId,
    /// Its place in the heap of deadlines; [`NIL`] when it has none.
    pub(super) deadline_at: u32,
    /// Attempt rows written, 429s included.
    pub(super) rows: u32,
    /// Its cost, unless that is odd: one request, and these.
    bytes: u32,
    recipients: u8,
    external_recipients: u8,
    status: Option<NonZeroU16>,
    pub(super) lane: Lane,
    pub(super) kind: OperationKind,
    pub(super) state: OperationState,
    pub(super) wish: Wish,
}

/// What only some operations have.
#[derive(Clone, Debug)]
pub(super) struct More {
    /// A cost that does not fit the entry.
    cost: Option<Cost>,
    /// Not sent before this; [`Timestamp::EPOCH`]: from the start.
    not_before: Timestamp,
    /// Attempts that count.
    pub(super) attempts: u32,
    /// Attempts in a row that never left the machine: the exponent of their backoff.
    pub(super) voids: u32,
    pub(super) throttled: Option<ThrottleKind>,
    /// When the first attempt that may have been accepted was sent; `None`: none may have been. From then on the
    /// provider remembers the operation, for as long as it does.
    pub(super) maybe_sent_at: Option<Timestamp>,
    /// Whether an attempt may have been accepted before a person let it go on.
    pub(super) was_in_doubt: bool,
    /// Until when an attempt of an earlier life may still be on its way.
    pub(super) live_until: Option<Timestamp>,
    /// When the look-up of an unknown that is not answered yet was asked for.
    pub(super) asked_at: Option<Timestamp>,
}

impl More {
    const NONE: Self = Self {
        cost: None,
        not_before: Timestamp::EPOCH,
        attempts: 0,
        voids: 0,
        throttled: None,
        maybe_sent_at: None,
        was_in_doubt: false,
        live_until: None,
        asked_at: None,
    };
}

/// What somebody asked for while the operation's attempt was live: done when that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    Cancel,
    Quarantine,
}

impl From<Requested> for Wish {
    fn from(requested: Requested) -> Self {
        match requested {
            Requested::Cancel => Self::Cancel,
            Requested::Quarantine => Self::Quarantine,
        }
    }
}

/// Where an operation stands between two inputs. Finer than its durable state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nowhere: a slot without an operation, and the next such slot.
    Free { next: u32 },
    /// Waits for its own instant: not-before or backoff. In the `due` table, unless that instant is
    /// [`Timestamp::NEVER`].
    Delayed { due_at: Timestamp },
    /// In its lane's queue.
    Queued(Link),
    /// Stopped by an operator's hold on it, its tenant or its campaign.
    Held,
    /// Charged here; the shared scopes were asked.
    Reserving { since: Timestamp },
    /// Not charged here; the shared scopes grant it when they have room.
    Waiting,
    /// Charged everywhere; the attempt row is being written.
    Claiming { shared: Shared, since: Timestamp },
    /// The attempt is live, or the permit is out.
    Attempting { sent_at: Timestamp, shared: Shared },
    /// It may have been accepted. In the `due` table for its next look-up.
    Unknown {
        since: Timestamp,
        due_at: Timestamp,
        looks: u8,
        /// Times that it was found absent, of those that count.
        absent: u8,
    },
}

/// Whether the shared scopes hold a reservation for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shared {
    Reserved,
    NotAsked,
}

impl Step {
    /// When it was charged, if it is not charged at `now`.
    pub(super) fn charged_at(&self, now: Timestamp) -> Timestamp {
        match self {
            Self::Reserving { since } | Self::Claiming { since, .. } => *since,
            Self::Attempting { sent_at, .. } => *sent_at,
            Self::Free { .. }
            | Self::Delayed { .. }
            | Self::Queued(_)
            | Self::Held
            | Self::Waiting
            | Self::Unknown { .. } => now,
        }
    }

    /// Its place in the `due` table, if it has one.
    pub(super) fn due_at(&self) -> Option<Timestamp> {
        match self {
            Self::Delayed { due_at } | Self::Unknown { due_at, .. } => {
                Some(*due_at).filter(|due_at| *due_at != Timestamp::NEVER)
            }
            _ => None,
        }
    }

    /// Out of the `due` table, or into it at another instant.
    pub(super) fn set_due(&mut self, at: Timestamp) {
        if let Self::Delayed { due_at } | Self::Unknown { due_at, .. } = self {
            *due_at = at;
        }
    }
}

impl Entry {
    /// An operation that stands nowhere yet; its `names` are the table's.
    pub(super) fn new(operation: &Operation, names: NamesId) -> Self {
        let delayed = operation.not_before > operation.submitted_at;
        let mut entry = Self {
            key: operation.key,
            id_hash: operation.id_hash,
            submitted_at: operation.submitted_at,
            deadline: operation.deadline,
            step: Step::Delayed { due_at: Timestamp::NEVER },
            more: None,
            names,
            deadline_at: NIL,
            rows: 0,
            bytes: 0,
            recipients: 0,
            external_recipients: 0,
            status: None,
            lane: operation.lane,
            kind: operation.kind,
            state: if delayed { OperationState::Admitted } else { OperationState::Queued },
            wish: Wish::Nothing,
        };
        if !entry.pack(&operation.cost) {
            entry.more_mut().cost = Some(operation.cost);
        }
        if delayed {
            entry.more_mut().not_before = operation.not_before;
        }
        if operation.attempts > 0 {
            entry.more_mut().attempts = operation.attempts;
        }
        entry
    }

    /// Keeps `cost` in the entry, if it fits.
    fn pack(&mut self, cost: &Cost) -> bool {
        let (Ok(bytes), Ok(recipients), Ok(external), 0, 1) = (
            u32::try_from(cost.bytes),
            u8::try_from(cost.recipients),
            u8::try_from(cost.external_recipients),
            cost.quota_units,
            cost.requests,
        ) else {
            return false;
        };
        (self.bytes, self.recipients, self.external_recipients) = (bytes, recipients, external);
        true
    }

    pub(super) fn cost(&self) -> Cost {
        if let Some(cost) = self.more.as_deref().and_then(|more| more.cost) {
            return cost;
        }
        Cost {
            requests: 1,
            recipients: u32::from(self.recipients),
            external_recipients: u32::from(self.external_recipients),
            quota_units: 0,
            bytes: u64::from(self.bytes),
        }
    }

    /// Gives its block back; the slot is free.
    pub(super) fn clear(&mut self) {
        self.more = None;
    }

    pub(super) fn more(&self) -> &More {
        self.more.as_deref().unwrap_or(&More::NONE)
    }

    pub(super) fn more_mut(&mut self) -> &mut More {
        self.more.get_or_insert_with(|| Box::new(More::NONE))
    }

    /// What it has of that, if anything.
    pub(super) fn if_more_mut(&mut self) -> Option<&mut More> {
        self.more.as_deref_mut()
    }

    /// Attempts that count.
    pub(super) fn attempts(&self) -> u32 {
        self.more().attempts
    }

    /// Not sent before this.
    pub(super) fn not_before(&self) -> Timestamp {
        self.more().not_before
    }

    /// Remembers that an attempt may have been accepted before it came here.
    pub(super) fn set_in_doubt(&mut self, maybe_sent: bool) {
        if maybe_sent {
            self.more_mut().was_in_doubt = true;
        }
    }

    /// Whether an attempt of it may have been accepted, where it ends by `transition`.
    pub(super) fn is_in_doubt(&self, transition: Transition) -> bool {
        match transition {
            Transition::GiveUp | Transition::Poison => true,
            Transition::Accept | Transition::Find => false,
            _ => self.more().maybe_sent_at.is_some() || self.more().was_in_doubt,
        }
    }

    /// HTTP status or SMTP code of the last attempt.
    pub(super) fn status(&self) -> Option<u16> {
        self.status.map(NonZeroU16::get)
    }

    /// Keeps the code of an attempt that had one; no protocol has a code of zero.
    pub(super) fn set_status(&mut self, status: Option<u16>) {
        self.status = status.and_then(NonZeroU16::new).or(self.status);
    }

    /// Moves the state along `transition`.
    pub(super) fn apply(&mut self, transition: Transition) {
        match transition.apply(self.state) {
            Ok(state) => {
                if cfg!(debug_assertions)
                    && let Err(violation) = operation::accepted_stays(self.key, self.state, state)
                {
                    debug_assert!(false, "{violation}");
                }
                self.state = state;
                let (before, after) = (self.attempts(), transition.attempts_after(self.attempts()));
                if after != before {
                    self.more_mut().attempts = after;
                }
            }
            // A transition that is not listed (O1) is a bug of this engine; the state it left stays, so nothing is
            // lost.
            Err(illegal) => debug_assert!(false, "{illegal}"),
        }
    }

    /// O7 and O2, at every claim of a debug build.
    pub(super) fn assert_claim(&self, attempts_max: u32) {
        let bounded = operation::attempts_are_bounded(self.key, self.attempts().saturating_add(1), attempts_max);
        if let Err(violation) = bounded {
            debug_assert!(false, "{violation}");
        }
        debug_assert!(!matches!(self.step, Step::Attempting { .. } | Step::Claiming { .. }), "O2: two live attempts");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_takes_eighty_eight_bytes() {
        assert_eq!(size_of::<Entry>(), 88);
    }
}
