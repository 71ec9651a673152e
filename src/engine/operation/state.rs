//! The ten states of an operation.

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
