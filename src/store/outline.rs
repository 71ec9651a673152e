//! What a start reads first: little, however much waits.

use std::sync::Arc;

use super::Recovery;
use crate::engine::Timestamp;

/// How far back a start looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizons {
    /// Attempts claimed since then can count for their mailbox.
    pub mailboxes: Timestamp,
    /// Attempts claimed since then can count for a tenant or the application.
    pub shared: Timestamp,
}

/// What has to be known of a whole store before the first grant.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    /// Everything, as [`Store::recover`](super::Store::recover) tells it; or, where mailboxes are read one by one, all of
    /// it but the operations, and of the attempts only those that can count for a tenant or the application.
    pub recovery: Recovery,
    /// Which mailboxes have to be read one by one; `None`: everything is here.
    pub apart: Option<Apart>,
}

/// Mailboxes whose rows are read when their actors start, so that they are never all in memory at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Apart {
    /// Those with operations that are not final, in the order in which they begin.
    pub waiting: Vec<Arc<str>>,
    /// Those with attempts that can count, whether or not anything waits.
    pub charged: Vec<Arc<str>>,
}
