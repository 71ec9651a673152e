//! Steering: cancel, hold and resume, trip and close, new limits.
//!
//! An order about a hold or a breaker is in the store before it is answered, and is given one at a time: the store, the
//! list that people see and the engines hear all of them in the same order.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::ask::SHARED_BUSY;
use super::error::AskError;
use super::handle::SchedulerHandle;
use super::order::{Order, Takes};
use crate::actor::{
    Full, HoldFacts, HoldScope, NOTES_MAX, OrderEnd, OrderFacts, OrderScope, Question, Settings, SharedItem, TooMany,
    TripFacts, Turn,
};
use crate::config::Config;
use crate::engine::mailbox::{Hold, HoldTarget, Input};
use crate::engine::shared::Input as SharedInput;
use crate::engine::{OperationKey, Scope, Timestamp};
use crate::store::{Note, NoteChange};
use crate::submission::{self, LABEL_BYTES_MAX, MAILBOX_ID_BYTES_MAX};

impl SchedulerHandle {
    /// Holds a scope: nothing more of it is sent until it is resumed or the hold ends. A later hold of the same scope
    /// replaces an earlier one. [`SchedulerHandle::holds`] shows it with its reason, [`SchedulerHandle::ended_orders`] how it
    /// ended.
    ///
    /// # Errors
    /// [`AskError`]: nothing is held then that was not held before.
    ///
    /// # Cancel safety
    /// Dropped half-way, the hold is noted and may not have reached every mailbox: hold or resume again.
    pub async fn hold(&self, scope: HoldScope, order: Order) -> Result<HoldFacts, AskError> {
        judge_hold(&scope)?;
        order.judge(Takes::Expiry)?;
        let operation = match &scope {
            HoldScope::Operation(id) => Some(self.known(id).await?),
            _ => None,
        };
        let operation = operation.map(|record| (record.mailbox, record.key));
        let _one = self.world.orders.lock().await;
        let (now, until) = (self.world.clock.now(), self.expiry(&order));
        let facts = HoldFacts { scope, reason: order.reason, by: order.by, since: now, until, widening: None };
        // Noted before it is told: an actor that starts in between reads the note.
        let earlier = self.world.holds.note(now, facts.clone());
        let earlier = earlier.map_err(|TooMany| AskError::Busy { what: "holds in force", max: NOTES_MAX })?;
        let part = earlier.as_ref().filter(|facts| facts.widening.is_some());
        let tell = async {
            unless_rebuilt(self.tell_hold(&facts, operation.as_ref()).await)?;
            // All of it is held, so what stays of a part need not be.
            if let Some(target) = part.and_then(|facts| whole(&facts.scope)) {
                self.command_all(&Input::Resume(target)).await?;
            }
            Ok(())
        };
        let turn = Turn {
            what: OrderScope::Hold(facts.scope.clone()),
            earlier: earlier.as_ref().map(HoldFacts::order),
            later: Some(facts.order()),
            end: earlier.as_ref().map(|_| replaced(&facts.reason, facts.by.as_ref())),
        };
        let change = NoteChange::Keep(facts.note());
        let told = self.give(change, earlier.as_ref().map(HoldFacts::note), turn, tell).await;
        if told.is_err() {
            let before = earlier.clone();
            self.world.holds.take_back(self.world.clock.now(), &facts.scope, earlier);
            // Those that have heard of it hear that it is not so.
            if let (HoldScope::Campaign(_), Some(target)) = (&facts.scope, facts.scope.target("")) {
                let back = before.and_then(|facts| facts.in_mailbox("")).map_or(Input::Resume(target), Input::Hold);
                let _ = self.command_all(&back).await;
            }
        }
        told.map(|()| facts)
    }

    async fn tell_hold(&self, facts: &HoldFacts, operation: Option<&(Arc<str>, OperationKey)>) -> Result<(), AskError> {
        let until = facts.until;
        let order = |target| Input::Hold(Hold::new(target, until));
        match (&facts.scope, operation) {
            (_, Some((mailbox, key))) => self.command(mailbox, order(HoldTarget::Operation(*key))).await,
            (HoldScope::Mailbox(mailbox), _) => self.command(mailbox, order(HoldTarget::Mailbox)).await,
            (HoldScope::Campaign(campaign), _) => {
                self.command_all(&order(HoldTarget::Campaign(Arc::clone(campaign)))).await
            }
            (HoldScope::Tenant(tenant), _) => {
                self.tell_shared(SharedInput::Hold { scope: Scope::Tenant(Arc::clone(tenant)), until })
            }
            (HoldScope::All | HoldScope::Operation(_), _) => {
                self.tell_shared(SharedInput::Hold { scope: Scope::Application, until })
            }
        }
    }

    /// Lifts a hold. Also brings back a mailbox that is held after repeated failures of its actor, or that the
    /// provider suspended; [`HoldScope::All`] brings back every mailbox that the provider suspended.
    /// [`SchedulerHandle::ended_orders`] shows it with its reason.
    ///
    /// # Errors
    /// [`AskError`]: what was held is held.
    ///
    /// # Cancel safety
    /// As [`SchedulerHandle::hold`].
    pub async fn resume(&self, scope: HoldScope, order: Order) -> Result<(), AskError> {
        judge_hold(&scope)?;
        order.judge(Takes::Nothing)?;
        let operation = match &scope {
            HoldScope::Operation(id) => Some(self.known(id).await?),
            _ => None,
        };
        let operation = operation.map(|record| (record.mailbox, record.key));
        let _one = self.world.orders.lock().await;
        let now = self.world.clock.now();
        let lifted = self.world.holds.lift(now, &scope);
        let turn = lift(OrderScope::Hold(scope.clone()), lifted.as_ref().map(HoldFacts::order), order);
        let change = NoteChange::Drop(HoldFacts::key(&scope));
        let part = lifted.as_ref().filter(|facts| facts.widening.is_some());
        let tell = async {
            if scope == HoldScope::All {
                self.command_all(&Input::Unsuspend).await?;
            }
            match part {
                Some(part) => self.tell_rest(part).await,
                None => unless_rebuilt(self.tell_resume(&scope, operation.as_ref()).await),
            }
        };
        let told = self.give(change, lifted.as_ref().map(HoldFacts::note), turn, tell).await;
        if told.is_err() {
            self.world.holds.take_back(self.world.clock.now(), &scope, lifted);
        }
        told
    }

    async fn tell_resume(
        &self,
        scope: &HoldScope,
        operation: Option<&(Arc<str>, OperationKey)>,
    ) -> Result<(), AskError> {
        let order = Input::Resume;
        match (scope, operation) {
            (_, Some((mailbox, key))) => self.command(mailbox, order(HoldTarget::Operation(*key))).await,
            (HoldScope::Mailbox(mailbox), _) => self.command(mailbox, order(HoldTarget::Mailbox)).await,
            (HoldScope::Campaign(campaign), _) => {
                self.command_all(&order(HoldTarget::Campaign(Arc::clone(campaign)))).await
            }
            (HoldScope::Tenant(tenant), _) => self.tell_shared(SharedInput::Resume(Scope::Tenant(Arc::clone(tenant)))),
            (HoldScope::All | HoldScope::Operation(_), _) => self.tell_shared(SharedInput::Resume(Scope::Application)),
        }
    }

    /// Opens a breaker by hand: nothing leaves its scope until that ends or it is closed. [`SchedulerHandle::trips`]
    /// shows it with its reason; the event says `manual`.
    ///
    /// # Errors
    /// [`AskError`]: the breaker is as it was.
    ///
    /// # Cancel safety
    /// As [`SchedulerHandle::hold`].
    pub async fn trip(&self, scope: Scope, order: Order) -> Result<TripFacts, AskError> {
        judge_scope(&scope)?;
        order.judge(Takes::Expiry)?;
        let _one = self.world.orders.lock().await;
        let (now, until) = (self.world.clock.now(), self.expiry(&order));
        let facts = TripFacts { scope, reason: order.reason, by: order.by, since: now, until };
        let earlier = self.world.trips.note(now, facts.clone());
        let earlier = earlier.map_err(|TooMany| AskError::Busy { what: "breakers open by hand", max: NOTES_MAX })?;
        let tell = async {
            match &facts.scope {
                Scope::Mailbox(mailbox) => unless_rebuilt(self.command(mailbox, Input::Trip { until }).await),
                shared => self.tell_shared(SharedInput::Trip { scope: shared.clone(), until }),
            }
        };
        let turn = Turn {
            what: OrderScope::Breaker(facts.scope.clone()),
            earlier: earlier.as_ref().map(TripFacts::order),
            later: Some(facts.order()),
            end: earlier.as_ref().map(|_| replaced(&facts.reason, facts.by.as_ref())),
        };
        let change = NoteChange::Keep(facts.note());
        let told = self.give(change, earlier.as_ref().map(TripFacts::note), turn, tell).await;
        if told.is_err() {
            self.world.trips.take_back(self.world.clock.now(), &facts.scope, earlier);
        }
        told.map(|()| facts)
    }

    /// Closes a breaker, by whatever it was opened. [`SchedulerHandle::ended_orders`] shows it with its reason.
    ///
    /// # Errors
    /// [`AskError`]: the breaker is as it was, or will be after a restart: close it again. [`AskError::NotNow`] while the
    /// scope's engine is being rebuilt, or while the store does not take what it is to remember.
    ///
    /// # Cancel safety
    /// As [`SchedulerHandle::hold`].
    pub async fn close(&self, scope: Scope, order: Order) -> Result<(), AskError> {
        judge_scope(&scope)?;
        order.judge(Takes::Nothing)?;
        let _one = self.world.orders.lock().await;
        let now = self.world.clock.now();
        let lifted = self.world.trips.lift(now, &scope);
        let turn = lift(OrderScope::Breaker(scope.clone()), lifted.as_ref().map(TripFacts::order), order);
        let change = NoteChange::Drop(TripFacts::key(&scope));
        let earlier = lifted.as_ref().map(TripFacts::note);
        let told = self.give(change, earlier, turn, self.tell_close(&scope)).await;
        if told.is_err() {
            self.world.trips.take_back(self.world.clock.now(), &scope, lifted);
        }
        told
    }

    /// What the breaker remembers is the engine's to change, and it is written when this returns. An engine that is being
    /// rebuilt from that, or cannot write, cannot be told: the order fails then, and nothing of a cooldown is lost.
    async fn tell_close(&self, scope: &Scope) -> Result<(), AskError> {
        if let Scope::Mailbox(mailbox) = scope {
            return self.command(mailbox, Input::CloseBreaker).await;
        }
        let (answer, told) = oneshot::channel();
        self.order_shared(SharedItem::Close { scope: scope.clone(), answer })?;
        self.shared_answer(told).await
    }

    /// Puts a new configuration in force. A lowered limit counts from now; a raised one grants no free window. All or
    /// nothing: one key that changes only with a restart (those marked so in `config/default.toml`) refuses the whole. Of several
    /// at once the last one given is in force everywhere.
    ///
    /// # Errors
    /// [`AskError::Config`]: the old configuration stays in force. Its source names the keys. [`AskError::Busy`]: the same
    /// where it is the shared scopes that have too much to do; a mailbox that has keeps its old limits until the
    /// new ones are given again.
    ///
    /// # Cancel safety
    /// Dropped half-way, the new configuration is in force for mailboxes that start from now on and may not have
    /// reached every live one: give it again.
    pub async fn reconfigure(&self, config: Config) -> Result<(), AskError> {
        let _one = self.world.orders.lock().await;
        self.world.settings.load().config.reload(&config).map_err(AskError::Config)?;
        let mut settings = Settings::new(config).map_err(AskError::Config)?;
        settings.judge_store(&*self.world.store).map_err(AskError::Retention)?;
        if self.world.fleet.is_some() {
            settings = settings.in_parts().map_err(AskError::SharedLimit)?;
        }
        let settings = Arc::new(settings);
        // What can fail comes first: nothing is in force that somebody else was refused.
        self.tell_shared(SharedInput::Reconfigure(settings.shared()))?;
        self.world.settings.store(Arc::clone(&settings));
        self.world.reporter.redact(settings.config.telemetry.mailbox_redaction);
        self.tell_live(|seat| Input::Reconfigure(settings.mailbox(seat.id()))).await
    }

    fn expiry(&self, order: &Order) -> Timestamp {
        let after = order.expires_in.unwrap_or_else(|| self.world.settings.load().config.breaker.manual_expiry);
        self.world.clock.now().after(after)
    }

    /// Has the store keep or forget notes, durably.
    pub(super) async fn keep(&self, changes: impl Into<Arc<[NoteChange]>>) -> Result<(), AskError> {
        self.world.store.keep(changes.into()).await.map_err(AskError::Store)
    }

    /// Has the store keep what an order changes, with what becomes of the order before it, and tells whom it concerns. When
    /// either fails the order was not given: what was kept before it is kept again, as far as the store goes along.
    pub(super) async fn give(
        &self,
        change: NoteChange,
        earlier: Option<Note>,
        turn: Turn,
        tell: impl Future<Output = Result<(), AskError>>,
    ) -> Result<(), AskError> {
        let now = self.world.clock.now();
        let ended = turn.told();
        let entered = self.world.ended.enter(now, &self.world.settings.load().config.orders, turn);
        let back: Vec<_> = [back(&change, earlier)].into_iter().chain(entered.back()).collect();
        let changes: Vec<_> = [change].into_iter().chain(entered.changes()).collect();
        let mut told = self.keep(changes).await;
        if told.is_ok() {
            told = tell.await;
        }
        if told.is_err() {
            drop(self.keep(back).await);
            self.world.ended.take_back(now, entered);
        } else {
            ended.into_iter().for_each(|event| self.world.reporter.report(now, event.into()));
            self.world.widened.notify_one();
        }
        if let Some(fleet) = &self.world.fleet {
            fleet.ordered();
        }
        told
    }

    pub(super) async fn command(&self, mailbox: &Arc<str>, input: Input) -> Result<(), AskError> {
        self.ask(mailbox, |answer| Question::Command { input: input.clone(), answer }).await
    }

    pub(super) async fn command_all(&self, input: &Input) -> Result<(), AskError> {
        self.tell_live(|_| input.clone()).await
    }

    pub(super) fn tell_shared(&self, input: SharedInput) -> Result<(), AskError> {
        self.order_shared(SharedItem::Input(input))
    }

    fn order_shared(&self, item: SharedItem) -> Result<(), AskError> {
        if self.world.is_closing() {
            return Err(AskError::ShuttingDown);
        }
        self.world.shared.order(item).map_err(|Full| SHARED_BUSY)
    }
}

/// What undoes a change.
fn back(change: &NoteChange, earlier: Option<Note>) -> NoteChange {
    earlier.map_or_else(|| NoteChange::Drop(change.key().clone()), NoteChange::Keep)
}

/// An order that lifts what is in force, whoever ordered that.
fn lift(what: OrderScope, earlier: Option<OrderFacts>, order: Order) -> Turn {
    Turn { what, earlier, later: None, end: Some(OrderEnd::Lifted { reason: order.reason, by: order.by }) }
}

pub(super) fn replaced(reason: &Arc<str>, by: Option<&Arc<str>>) -> OrderEnd {
    OrderEnd::Replaced { reason: Arc::clone(reason), by: by.cloned() }
}

/// What of a scope that the shared scopes hold is held in the mailboxes while a part of it goes.
fn whole(scope: &HoldScope) -> Option<HoldTarget> {
    matches!(scope, HoldScope::All | HoldScope::Tenant(_)).then(|| scope.target("")).flatten()
}

/// An engine that is being rebuilt cannot be told, and need not be: it begins with what is noted.
pub(super) fn unless_rebuilt(told: Result<(), AskError>) -> Result<(), AskError> {
    match told {
        Err(AskError::NotNow { .. }) => Ok(()),
        told => told,
    }
}

pub(super) fn judge_hold(scope: &HoldScope) -> Result<(), AskError> {
    let judged = match scope {
        HoldScope::Mailbox(id) => submission::id("mailbox", id, MAILBOX_ID_BYTES_MAX),
        HoldScope::Tenant(id) => submission::id("tenant", id, LABEL_BYTES_MAX),
        HoldScope::Campaign(id) => submission::id("campaign", id, LABEL_BYTES_MAX),
        // An operation is looked up by its id before anything else.
        HoldScope::All | HoldScope::Operation(_) => Ok(()),
    };
    judged.map_err(AskError::Invalid)
}

fn judge_scope(scope: &Scope) -> Result<(), AskError> {
    let judged = match scope {
        Scope::Mailbox(id) => submission::id("mailbox", id, MAILBOX_ID_BYTES_MAX),
        Scope::Tenant(id) => submission::id("tenant", id, LABEL_BYTES_MAX),
        Scope::Application => Ok(()),
    };
    judged.map_err(AskError::Invalid)
}
