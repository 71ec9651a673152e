//! Why a store did not do it.

use std::sync::Arc;

use crate::engine::OperationKey;

/// An email that can no longer be read back as it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedEmail {
    /// Whose.
    pub key: OperationKey,
    /// What is wrong with it; nothing of its content.
    pub reason: Arc<str>,
}

/// Why the store did not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// It may work later: busy, out of reach, timed out. It may also have been executed.
    #[error("the store is not available: {reason}")]
    Unavailable {
        /// What it said.
        reason: String,
    },
    /// Out of room; what was accepted stays.
    #[error("the store is full ({bound})")]
    Full {
        /// The bound that was met.
        bound: String,
    },
    /// It will not work until a person mends it.
    #[error("the store is damaged or not ours: {reason}")]
    Damaged {
        /// What is wrong.
        reason: String,
    },
    /// It is sound and cannot be used as it is: read-only, or written by a newer version.
    #[error("the store cannot be used: {reason}")]
    Unusable {
        /// Why, and the way out.
        reason: String,
    },
    /// What is to be sent for some of the claims is damaged. The store is well, and nothing of the batch was written: claim
    /// the others again.
    #[error("damaged: the emails of {} operations, the first of them operation {}: {}", emails.len(),
        emails.first().map_or(0, |email| email.key.0), emails.first().map_or("", |email| &*email.reason))]
    EmailDamaged {
        /// All of the batch that are, at least one.
        emails: Arc<[DamagedEmail]>,
    },
    /// What was asked contradicts what is stored. Everything else of the batch is done.
    #[error("the store holds something else: {reason}")]
    Contradiction {
        /// What contradicts what.
        reason: String,
    },
}

impl StoreError {
    /// Whether the same call may work later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Full { .. })
    }

    /// Whether only what was asked is at fault, and everything else of the batch is done.
    pub(crate) const fn is_contradiction(&self) -> bool {
        matches!(self, Self::Contradiction { .. })
    }
}
