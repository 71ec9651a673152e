//! The life of an operation: ten states and the listed transitions between them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where an operation is. It is in exactly one state, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OperationState {
    /// Durable, not yet in its lane.
    Admitted,
    /// In its lane.
    Queued,
    /// One attempt is live.
    Attempting,
    /// Not before an instant, because of a named constraint or backoff.
    Deferred,
    /// It may have been accepted.
    Unknown,
    /// The provider took it.
    Accepted,
    /// The provider refused it for good.
    Rejected,
    /// Attempts or time used up.
    Exhausted,
    /// Cancelled.
    Cancelled,
    /// Set aside for a person.
    Quarantined,
}

impl OperationState {
    /// Every state.
    pub const ALL: [Self; 10] = [
        Self::Admitted,
        Self::Queued,
        Self::Attempting,
        Self::Deferred,
        Self::Unknown,
        Self::Accepted,
        Self::Rejected,
        Self::Exhausted,
        Self::Cancelled,
        Self::Quarantined,
    ];

    /// Whether nothing happens to it any more by itself.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Accepted | Self::Rejected | Self::Exhausted | Self::Cancelled | Self::Quarantined)
    }

    /// The name in answers, events and the store.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Queued => "queued",
            Self::Attempting => "attempting",
            Self::Deferred => "deferred",
            Self::Unknown => "unknown",
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::Exhausted => "exhausted",
            Self::Cancelled => "cancelled",
            Self::Quarantined => "quarantined",
        }
    }
}

impl fmt::Display for OperationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One listed transition, by its number in ARCHITECTURE.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Transition {
    /// 2: admitted → queued.
    Enqueue,
    /// 3: queued or deferred → attempting. The attempt row is written before the first byte leaves.
    Claim,
    /// 4: attempting → accepted.
    Accept,
    /// 5: attempting → deferred by a throttle; the attempt number does not move.
    Throttle,
    /// 6: attempting → deferred by a transient failure; the attempt number moves.
    Retry,
    /// 7: attempting → queued: no byte left the machine.
    Void,
    /// 8: attempting → unknown.
    Lose,
    /// 9: unknown → accepted.
    Find,
    /// 10: unknown → deferred: known absent, or the provider dedupes.
    Repeat,
    /// 11: unknown → quarantined.
    GiveUp,
    /// 12: attempting → rejected.
    Reject,
    /// 12: attempting → quarantined: it crashed its worker too often.
    Poison,
    /// 13: attempting → deferred, and the mailbox waits for a person.
    Suspend,
    /// 14: queued or deferred → exhausted.
    Exhaust,
    /// 15: unknown → exhausted: it may have been sent, and may not be sent twice.
    Expire,
    /// 16: admitted, queued or deferred → cancelled.
    Cancel,
    /// 18: quarantined → queued.
    Release,
    /// 18: quarantined → cancelled.
    Discard,
}
