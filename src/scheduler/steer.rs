//! Steering: cancel, hold and resume, trip and close, new limits.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use super::ask::SHARED_BUSY;
use super::error::AskError;
use super::handle::SchedulerHandle;
use crate::actor::{Cancellation, Full, HOLDS_MAX, HoldFacts, HoldScope, Question, Settings, SharedItem};
use crate::config::Config;
use crate::engine::mailbox::{Hold, HoldTarget, Input};
use crate::engine::shared::Input as SharedInput;
use crate::engine::{Scope, Timestamp};

impl SchedulerHandle {
    /// Stops an operation. One whose attempt is live stops when that has ended, unless it was accepted.
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Cancel safety
    /// Once the operation was found the order stands, whether or not its answer is waited for.
    pub async fn cancel(&self, id: &str) -> Result<Cancellation, AskError> {
        let record = self.known(id).await?;
        if record.state.is_final() {
            return Ok(Cancellation::TooLate);
        }
        let key = record.key;
        self.ask(&record.mailbox, |answer| Question::Cancel { key, answer }).await
    }

    /// Holds a scope: nothing more of it is sent until it is resumed or the hold ends. Without an expiry it ends
    /// after `breaker.manual_expiry`. A later hold of the same scope replaces an earlier one.
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Cancel safety
    /// Dropped half-way, the hold is noted and may not have reached every mailbox: hold or resume again.
    pub async fn hold(
        &self,
        scope: HoldScope,
        reason: impl Into<Arc<str>>,
        expiry: Option<Duration>,
    ) -> Result<HoldFacts, AskError> {
        let until = self.expiry(expiry);
        let facts = HoldFacts { scope, reason: reason.into(), until };
        if !self.world.holds.note(self.world.clock.now(), facts.clone()) {
            return Err(AskError::Busy { what: "holds in force", max: HOLDS_MAX });
        }
        let order = |target| Input::Hold(Hold { target, until });
        match &facts.scope {
            HoldScope::All => self.tell_shared(SharedInput::Hold { scope: Scope::Application, until })?,
            HoldScope::Tenant(tenant) => {
                self.tell_shared(SharedInput::Hold { scope: Scope::Tenant(Arc::clone(tenant)), until })?;
            }
            HoldScope::Mailbox(mailbox) => self.command(mailbox, order(HoldTarget::Mailbox)).await?,
            HoldScope::Campaign(campaign) => {
                self.command_all(&order(HoldTarget::Campaign(Arc::clone(campaign)))).await;
            }
            HoldScope::Operation(id) => {
                let record = self.known(id).await?;
                self.command(&record.mailbox, order(HoldTarget::Operation(record.key))).await?;
            }
        }
        Ok(facts)
    }

    /// Lifts a hold. Also brings back a mailbox that is held after repeated failures of its actor, or that the
    /// provider suspended.
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Cancel safety
    /// As [`SchedulerHandle::hold`].
    pub async fn resume(&self, scope: HoldScope) -> Result<(), AskError> {
        self.world.holds.lift(self.world.clock.now(), &scope);
        match &scope {
            HoldScope::All => self.tell_shared(SharedInput::Resume(Scope::Application))?,
            HoldScope::Tenant(tenant) => self.tell_shared(SharedInput::Resume(Scope::Tenant(Arc::clone(tenant))))?,
            HoldScope::Mailbox(mailbox) => self.command(mailbox, Input::Resume(HoldTarget::Mailbox)).await?,
            HoldScope::Campaign(campaign) => {
                self.command_all(&Input::Resume(HoldTarget::Campaign(Arc::clone(campaign)))).await;
            }
            HoldScope::Operation(id) => {
                let record = self.known(id).await?;
                self.command(&record.mailbox, Input::Resume(HoldTarget::Operation(record.key))).await?;
            }
        }
        Ok(())
    }

    /// Opens a breaker by hand: nothing leaves its scope until it ends, is closed, or `breaker.manual_expiry` has
    /// passed.
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Cancel safety
    /// The order stands once it is given.
    pub async fn trip(&self, scope: Scope, expiry: Option<Duration>) -> Result<(), AskError> {
        let until = self.expiry(expiry);
        match scope {
            Scope::Mailbox(mailbox) => self.command(&mailbox, Input::Trip { until }).await,
            shared => self.tell_shared(SharedInput::Trip { scope: shared, until }),
        }
    }

    /// Closes a breaker by hand.
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Cancel safety
    /// The order stands once it is given.
    pub async fn close(&self, scope: Scope) -> Result<(), AskError> {
        match scope {
            Scope::Mailbox(mailbox) => self.command(&mailbox, Input::CloseBreaker).await,
            shared => self.tell_shared(SharedInput::CloseBreaker(shared)),
        }
    }

    /// Puts a new configuration in force. A lowered limit counts from now; a raised one grants no free window. The
    /// bounds of the actors themselves (`actors`), the store and the transport stay as they were started.
    ///
    /// # Errors
    /// [`AskError::Config`]: the old configuration stays in force.
    ///
    /// # Cancel safety
    /// Dropped half-way, the new configuration is in force for mailboxes that start from now on and may not have
    /// reached every live one: give it again.
    pub async fn reconfigure(&self, config: Config) -> Result<(), AskError> {
        let settings = Arc::new(Settings::new(config).map_err(AskError::Config)?);
        self.world.settings.store(Arc::clone(&settings));
        self.tell_shared(SharedInput::Reconfigure(settings.shared()))?;
        let live = self.world.directory.all();
        let told = live.iter().map(|seat| self.command(seat.id(), Input::Reconfigure(settings.mailbox(seat.id()))));
        // A mailbox that is not live any more, or not yet again, starts with the new policy.
        drop(join_all(told).await);
        Ok(())
    }

    /// Makes the mailbox's next engine step panic.
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Cancel safety
    /// The order stands once it is given.
    #[cfg(feature = "test-util")]
    pub async fn sabotage(&self, mailbox: impl Into<Arc<str>>) -> Result<(), AskError> {
        self.ask(&mailbox.into(), |answer| Question::Panic { answer }).await
    }

    /// Makes the next step of the shared scopes' engine panic.
    ///
    /// # Errors
    /// [`AskError`].
    #[cfg(feature = "test-util")]
    pub fn sabotage_shared(&self) -> Result<(), AskError> {
        self.world.shared.ask(SharedItem::Panic).map_err(|Full| SHARED_BUSY)
    }

    /// How often a timer woke an actor since the start.
    #[cfg(feature = "test-util")]
    #[must_use]
    pub fn timer_wakes(&self) -> u64 {
        self.world.wakes()
    }

    fn expiry(&self, expiry: Option<Duration>) -> Timestamp {
        let after = expiry.unwrap_or_else(|| self.world.settings.load().config.breaker.manual_expiry);
        self.world.clock.now().after(after)
    }

    async fn command(&self, mailbox: &Arc<str>, input: Input) -> Result<(), AskError> {
        self.ask(mailbox, |answer| Question::Command { input: input.clone(), answer }).await
    }

    async fn command_all(&self, input: &Input) {
        let live = self.world.directory.all();
        // A mailbox that cannot be told now is told when its engine is there again.
        drop(join_all(live.iter().map(|seat| self.command(seat.id(), input.clone()))).await);
    }

    fn tell_shared(&self, input: SharedInput) -> Result<(), AskError> {
        if self.world.is_closing() {
            return Err(AskError::ShuttingDown);
        }
        self.world.shared.ask(SharedItem::Input(input)).map_err(|Full| SHARED_BUSY)
    }
}
