//! What a ledger answers, and how a charge that stays was answered.

use crate::engine::time::Timestamp;

/// When a cost may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Earliest {
    /// At once.
    Now,
    /// At this instant and not before, if nothing else happens.
    At(Timestamp),
    /// Not before something in flight completes, which no timer can tell.
    AfterCompletion {
        /// At the latest then, if everything in flight ends within the request deadline and nothing else happens.
        at_most: Timestamp,
    },
    /// At no instant while no more than this may be in use. Compare with [`capacity`](super::Ledger::capacity) to tell a cost that is
    /// above what the limit can ever hold from one that a reserve or a learned ceiling shuts out for now.
    Never {
        /// The most that one cost may be.
        capacity: u64,
    },
}

impl Earliest {
    /// When both allow it: the later of the two. Waiting for a completion is later than any instant, never is last.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Never { capacity: a }, Self::Never { capacity: b }) => Self::Never { capacity: a.min(b) },
            (never @ Self::Never { .. }, _) | (_, never @ Self::Never { .. }) => never,
            (Self::AfterCompletion { at_most: a }, Self::AfterCompletion { at_most: b } | Self::At(b))
            | (Self::At(b), Self::AfterCompletion { at_most: a }) => Self::AfterCompletion { at_most: a.max(b) },
            (Self::At(a), Self::At(b)) => Self::At(a.max(b)),
            (Self::Now, later) | (later, Self::Now) => later,
        }
    }
}

/// How the provider answered a charge that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// It took the send, or may have.
    Accepted,
    /// It refused the send, and may count it all the same.
    Refused,
}
