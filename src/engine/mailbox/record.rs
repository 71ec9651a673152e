//! What an outbox is told of each step that must outlive the process.

use std::sync::Arc;

use crate::engine::leaves::Leaves;
use crate::engine::operation::{OperationKey, OperationState, OrderWords, Transition};
use crate::engine::time::Timestamp;

/// One durable transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Whose.
    pub key: OperationKey,
    /// Which.
    pub transition: Transition,
    /// The state it is in from now on.
    pub state: OperationState,
    /// When.
    pub at: Timestamp,
    /// Earliest next attempt, where there is one.
    pub next_at: Option<Timestamp>,
    /// Attempts that count, so far.
    pub attempts: u32,
    /// HTTP status or SMTP code of the last attempt.
    pub status: Option<u16>,
    /// The provider's id, where it gave one.
    pub provider_id: Option<String>,
    /// It ends here, or is set aside, and an attempt of it may have been accepted without anybody knowing.
    pub maybe_sent: bool,
    /// What the attempt that it ends leaves charged.
    pub leaves: Leaves,
    /// What a person said who ordered it: the shell knows. Or what is damaged, and how to go on.
    pub order: Option<Arc<OrderWords>>,
}
