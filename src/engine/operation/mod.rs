//! One logical send, through waits, retries and restarts.

mod index;
mod map;
mod order;
mod state;
mod transition;

use std::sync::Arc;

pub use order::{ExhaustCause, OrderWords, QuarantineCause, Requested, Resolution};
pub use state::OperationState;
pub use transition::{Budget, IllegalTransition, Transition};

pub(crate) use index::Index;
pub(crate) use map::KeyMap;

use super::cost::Cost;
use super::lane::Lane;
use super::time::Timestamp;

/// The order in which an operation was admitted: the engine's handle for it.
///
/// The caller's operation id stays in the shell; the engine needs only an order and the id's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct OperationKey(pub u64);

/// Who performs the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// The scheduler, through its transport; has an outbox row.
    Send,
    /// The caller, who holds a permit meanwhile; has none.
    Permit,
}

/// What the engine knows of one operation while it waits. Its payload stays in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its handle.
    pub key: OperationKey,
    /// FNV-1a of its id: the source of its spread and backoff draws.
    pub id_hash: u64,
    /// Its lane.
    pub lane: Lane,
    /// Who performs it.
    pub kind: OperationKind,
    /// Whose tenant budget and fair share it uses.
    pub tenant: Option<Arc<str>>,
    /// The campaign it belongs to, for holds.
    pub campaign: Option<Arc<str>>,
    /// What one attempt takes.
    pub cost: Cost,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// Not sent before this.
    pub not_before: Timestamp,
    /// Not sent after this.
    pub deadline: Timestamp,
    /// Attempts made so far that count (429s do not).
    pub attempts: u32,
}
