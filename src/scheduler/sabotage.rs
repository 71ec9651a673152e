//! What tests break on purpose.

use std::sync::Arc;

use super::ask::SHARED_BUSY;
use super::error::AskError;
use super::handle::SchedulerHandle;
use crate::actor::{Full, Question, SharedItem};

impl SchedulerHandle {
    /// Makes every engine step of the mailbox panic that is about this operation.
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Cancel safety
    /// The order stands once it is given.
    pub async fn sabotage_operation(&self, mailbox: impl Into<Arc<str>>, id: &str) -> Result<(), AskError> {
        self.ask(&mailbox.into(), |answer| Question::Poison { id: id.into(), answer }).await
    }

    /// Makes the mailbox's next engine step panic.
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Cancel safety
    /// The order stands once it is given.
    pub async fn sabotage(&self, mailbox: impl Into<Arc<str>>) -> Result<(), AskError> {
        self.ask(&mailbox.into(), |answer| Question::Panic { answer }).await
    }

    /// Makes the mailbox's actor panic outside its engine.
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Cancel safety
    /// The order stands once it is given.
    pub async fn sabotage_actor(&self, mailbox: impl Into<Arc<str>>) -> Result<(), AskError> {
        self.ask(&mailbox.into(), |answer| Question::Die { answer }).await
    }

    /// Makes the actor of the shared scopes panic outside its engine.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn sabotage_shared_actor(&self) -> Result<(), AskError> {
        self.world.shared.ask(SharedItem::Die).map_err(|Full| SHARED_BUSY)
    }

    /// Makes the next step of the shared scopes' engine panic.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn sabotage_shared(&self) -> Result<(), AskError> {
        self.world.shared.ask(SharedItem::Panic).map_err(|Full| SHARED_BUSY)
    }

    /// How often a timer woke an actor since the start.
    #[must_use]
    pub fn timer_wakes(&self) -> u64 {
        self.world.wakes()
    }
}
