//! What mailboxes and operators bring to the shared scopes.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::journal::Written;
use crate::engine::breaker::BreakerFacts;
use crate::engine::shared::{Input, Shared};
use crate::engine::{Constraint, Cost, Lane, Scope};
use crate::store::{Recovery, StoreError};

/// What the shared scopes are called where a mailbox is named.
pub(crate) const NAME: &str = "application";

/// One thing that is brought.
#[derive(Debug)]
pub(crate) enum SharedItem {
    Input(Input),
    Breakers(oneshot::Sender<Vec<(Scope, BreakerFacts)>>),
    /// Closes a breaker. Answered when that is written; dropped unanswered, it was not.
    Close {
        scope: Scope,
        answer: oneshot::Sender<()>,
    },
    Explain {
        lane: Lane,
        tenant: Option<Arc<str>>,
        cost: Cost,
        answer: oneshot::Sender<Vec<Constraint>>,
    },
    /// Answered when what was brought before it is written, as far as the store takes it.
    Settle(oneshot::Sender<()>),
    /// How do they stand, for a plan?
    Snapshot(oneshot::Sender<Box<Shared>>),
    /// What the engine is rebuilt from.
    Recovered(Box<Result<Recovery, StoreError>>),
    /// The store has answered.
    Written(Box<Written>),
    /// Panic at the next engine step.
    #[cfg(feature = "test-util")]
    Panic,
    /// Panic outside the engine.
    #[cfg(feature = "test-util")]
    Die,
}
