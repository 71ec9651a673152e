//! What comes back to a mailbox's actor for something it started.

use tokio::sync::OwnedSemaphorePermit;

use super::journal::Written;
use crate::engine::mailbox::Input;
use crate::engine::{Answer, OperationKey, Timestamp};
use crate::store::fleet::{Acquired, Letter, Obeyed, OrderId};
use crate::store::{OperationRecord, Recovery, StoreError};

#[derive(Debug)]
pub(crate) enum Reply {
    /// The shared scopes' word.
    Shared(Input),
    /// An attempt ended.
    Finished { key: OperationKey, attempt: u32, answer: Answer },
    /// An attempt was not made, for want of time or of the mailbox.
    Unsent { key: OperationKey, attempt: u32 },
    /// The transport panicked on an attempt.
    Crashed { key: OperationKey, attempt: u32 },
    /// A permit was settled.
    Settled { key: OperationKey, answer: Answer },
    /// A permit was given back unused.
    Returned { key: OperationKey },
    /// A permit was dropped unsettled.
    Abandoned { key: OperationKey },
    /// A caller gave up waiting for a permit.
    Withdrawn { key: OperationKey },
    /// What became of an unknown.
    Resolved { key: OperationKey, accepted: bool },
    /// An operation that crashed its worker cannot be claimed while another such is on its way.
    Alone { key: OperationKey },
    /// Look at what this process may do: something has changed.
    Look,
    /// Ask for the mailbox: it may be nobody's.
    Acquire,
    /// Whose the mailbox is.
    Acquired { asked_at: Timestamp, answer: Result<Acquired, StoreError> },
    /// What was posted to the mailbox.
    Letters(Result<Vec<Letter>, StoreError>),
    /// What became of an order that was posted.
    Obeyed { order: OrderId, answer: Obeyed },
    /// A row that another process may have brought to its end.
    Row(Box<OperationRecord>),
    /// So many attempts made without the store are written, or none.
    Late(Result<usize, StoreError>),
    /// The store has answered.
    Written(Box<Written>),
    /// What the engine is rebuilt from.
    Recovered(Box<Reading>),
}

/// What was read back of a mailbox, and the place it was read in: another is read when this one has been taken in.
#[derive(Debug)]
pub(crate) struct Reading {
    /// Which it is; an earlier one than the last is not heard.
    pub(super) number: u64,
    pub(super) recovery: Result<Recovery, StoreError>,
    pub(super) _place: Option<OwnedSemaphorePermit>,
}

impl Reply {
    /// Whether it tells how something ended that the engine has to hear of.
    pub(crate) const fn needs_engine(&self) -> bool {
        matches!(
            self,
            Self::Finished { .. }
                | Self::Unsent { .. }
                | Self::Crashed { .. }
                | Self::Settled { .. }
                | Self::Returned { .. }
                | Self::Abandoned { .. }
                | Self::Resolved { .. }
        )
    }
}
