//! The release table: what an ended attempt leaves charged, and whether its slot is free.
//!
//! One line: **a charge comes back only if it is certain that no byte left the machine.** Giving one back on a 5xx or
//! a timeout turns a brown-out into an outage that outlives it: the slots are spent again while the provider still
//! counts them.
//!
//! It is one function and not a rule per caller, so that every scope settles the same outcome in the same way. What comes
//! back is `Leaves`, which an outbox keeps.

use std::time::Duration;

use super::cost::Unit;
use super::leaves::Leaves;
use super::scope::ScopeKind;
use super::time::Timestamp;
use super::verdict::{Answer, Sent, Verdict};

/// HTTP "Request Timeout": answered, but what the provider does with the request is not over.
const REQUEST_TIMEOUT: u16 = 408;

/// What becomes of one part of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Charge {
    /// It comes back now.
    Release,
    /// It counts as in flight until this instant and leaves each window that window's length later.
    CountUntil(Timestamp),
}

/// What becomes of the concurrency slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Slot {
    /// It is free.
    Free,
    /// The provider may still be executing the request: it is free at this instant.
    Linger(Timestamp),
}

/// How a reservation is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct Settlement {
    /// Calls to the provider, and the provider's own units.
    pub requests: Charge,
    /// Recipients, external ones included.
    pub recipients: Charge,
    /// Bytes.
    pub bytes: Charge,
    /// The concurrency slot.
    pub slot: Slot,
}

impl Settlement {
    /// Nothing left the machine: a local error before the first byte, or another scope denied after this one reserved.
    pub const NOTHING_SENT: Self =
        Self { requests: Charge::Release, recipients: Charge::Release, bytes: Charge::Release, slot: Slot::Free };

    /// What becomes of the part of the cost that a limit in `unit` counts.
    pub const fn of(&self, unit: Unit) -> Charge {
        match unit {
            Unit::Requests | Unit::QuotaUnits => self.requests,
            Unit::Recipients | Unit::ExternalRecipients => self.recipients,
            Unit::Bytes => self.bytes,
        }
    }

    /// Everything counts until `at`.
    const fn held(at: Timestamp, slot: Slot) -> Self {
        let charge = Charge::CountUntil(at);
        Self { requests: charge, recipients: charge, bytes: charge, slot }
    }

    /// An attempt without a recorded end: its process stopped after it was claimed at `claimed_at`.
    ///
    /// The slot lingers until `lease_until`, when whoever made the attempt can no longer be sending, or until the
    /// provider must be done, whichever is later.
    pub fn after_crash(claimed_at: Timestamp, request_deadline_max: Duration, lease_until: Timestamp) -> Self {
        let done_at = claimed_at.after(request_deadline_max);
        Self::held(done_at, Slot::Linger(done_at.max(lease_until)))
    }
}

/// When an attempt of which nobody knows the end can arrive at the latest: D_max after it was sent, or when whoever had
/// it let go of it.
pub(in crate::engine) fn latest_arrival(
    sent_at: Timestamp,
    ended_at: Timestamp,
    request_deadline_max: Duration,
) -> Timestamp {
    sent_at.after(request_deadline_max).max(ended_at)
}

/// Settles the reservation that scope kind `at` holds for an attempt from `sent_at` to `ended_at`.
///
/// `request_deadline_max` is D_max: after `sent_at + D_max` the attempt can no longer reach the provider. The kind of
/// scope matters for a throttle alone: one that names another resource keeps the request charged here, since refusals
/// count, but not the recipients and bytes of an email that was refused elsewhere.
pub fn settle(
    answer: &Answer,
    at: ScopeKind,
    sent_at: Timestamp,
    ended_at: Timestamp,
    request_deadline_max: Duration,
) -> Settlement {
    let done_at = latest_arrival(sent_at, ended_at, request_deadline_max);
    let (until, slot) = match &answer.verdict {
        Verdict::Unknown => (done_at, Slot::Linger(done_at)),
        Verdict::Transient { sent: Sent::Maybe, .. } if answer.status == Some(REQUEST_TIMEOUT) => {
            (ended_at, Slot::Linger(done_at))
        }
        Verdict::Accepted | Verdict::Throttled(_) | Verdict::Permanent { .. } | Verdict::Transient { .. } => {
            (ended_at, Slot::Free)
        }
    };
    let leaves = Leaves::of(&answer.verdict);
    let charge = |unit| if leaves.counts(at, unit) { Charge::CountUntil(until) } else { Charge::Release };
    Settlement {
        requests: charge(Unit::Requests),
        recipients: charge(Unit::Recipients),
        bytes: charge(Unit::Bytes),
        slot,
    }
}
