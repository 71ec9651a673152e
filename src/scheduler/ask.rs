//! Asking: what is known of operations, mailboxes, breakers; and what happens.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use futures::future::join_all;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::oneshot;

use super::error::AskError;
use super::handle::SchedulerHandle;
use crate::actor::{ASKED_MAX, EndedFacts, Full, HoldFacts, Question, SHARED_NAME, SharedItem, Ticket, TripFacts};
use crate::engine::breaker::{BreakerFacts, BreakerState};
use crate::engine::mailbox::MailboxFacts;
use crate::engine::{Constraint, Cost, Lane, Scope, ScopeKind, Wall};
use crate::store::{OperationQuery, OperationRecord, Remaining};
use crate::telemetry::SchedulerEvent;

/// The shared scopes have too much to do.
pub(super) const SHARED_BUSY: AskError = AskError::Busy { what: "the queue of the shared scopes", max: ASKED_MAX };

impl SchedulerHandle {
    /// What the store knows of an operation; `None` when it knows none with this id.
    ///
    /// # Errors
    /// [`AskError::Store`].
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn operation(&self, id: &str) -> Result<Option<OperationRecord>, AskError> {
        self.world.store.operation(id).await.map_err(AskError::Store)
    }

    /// Operations by state, mailbox, lane, tenant, and whether they could go; oldest first.
    ///
    /// # Errors
    /// [`AskError::Store`].
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn operations(&self, query: OperationQuery) -> Result<Vec<OperationRecord>, AskError> {
        self.world.store.operations(query).await.map_err(AskError::Store)
    }

    /// The oldest eligible operation of a lane, by submission, over all mailboxes: admitted, queued or deferred, its
    /// `not_before` and its `next_at` come. Its record has the last status and the next attempt;
    /// [`SchedulerHandle::remaining`] tells what is left to it.
    ///
    /// Left out: what is being attempted, unknown or final, and what backs off or is not due yet. Not looked at:
    /// holds, breakers and budgets - what stands behind one shows here with its age, and [`SchedulerHandle::explain`]
    /// names it.
    ///
    /// # Errors
    /// [`AskError::Store`].
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn oldest(&self, lane: Lane) -> Result<Option<OperationRecord>, AskError> {
        self.oldest_among(lane, None).await
    }

    /// The same of one mailbox.
    ///
    /// # Errors
    /// [`AskError::Store`].
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn oldest_of(
        &self,
        mailbox: impl Into<Arc<str>>,
        lane: Lane,
    ) -> Result<Option<OperationRecord>, AskError> {
        self.oldest_among(lane, Some(mailbox.into())).await
    }

    async fn oldest_among(&self, lane: Lane, mailbox: Option<Arc<str>>) -> Result<Option<OperationRecord>, AskError> {
        let eligible_at = Some(self.world.clock.now());
        let query = OperationQuery { lane: Some(lane), mailbox, eligible_at, limit: 1, ..OperationQuery::default() };
        Ok(self.operations(query).await?.pop())
    }

    /// The attempts and the time that are left now to an operation that was answered, under the retry policy of its
    /// mailbox in force.
    #[must_use]
    pub fn remaining(&self, record: &OperationRecord) -> Remaining {
        let policy = self.world.settings.load().mailbox(&record.mailbox);
        record.remaining(&policy.retry, self.world.clock.now())
    }

    /// Operations per state, in the order of [`OperationState::ALL`](crate::engine::OperationState::ALL).
    ///
    /// # Errors
    /// [`AskError::Store`].
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn counts(&self) -> Result<[u64; 10], AskError> {
        self.world.store.counts().await.map_err(AskError::Store)
    }

    /// A new ticket for an operation whose first one is gone. If it has come to an end, the ticket is answered.
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn ticket(&self, id: &str) -> Result<Ticket, AskError> {
        let record = self.known(id).await?;
        self.ask(&record.mailbox, |answer| Question::Subscribe { record: Box::new(record.clone()), answer }).await
    }

    /// Everything that an operation waits for, each with its own instant; the latest binds. Empty: it waits for
    /// nothing, or has come to an end.
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn explain(&self, id: &str) -> Result<Vec<Constraint>, AskError> {
        let record = self.known(id).await?;
        if record.state.is_final() {
            return Ok(Vec::new());
        }
        let key = Some(record.key);
        let own = self.ask(&record.mailbox, |answer| Question::Explain { key, answer }).await?;
        if !own.asks_shared {
            return Ok(own.constraints);
        }
        let shared = self.explain_shared(record.lane, record.tenant.clone(), record.cost).await?;
        Ok(merged(own.constraints, shared))
    }

    /// Everything that the next send of a mailbox waits for. Empty: it may go now.
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn explain_mailbox(&self, mailbox: impl Into<Arc<str>>) -> Result<Vec<Constraint>, AskError> {
        let mailbox = mailbox.into();
        let own = self.ask(&mailbox, |answer| Question::Explain { key: None, answer }).await?;
        let tenant = self.world.settings.load().config.tenant_of(&mailbox).map(Arc::clone);
        let shared = self.explain_shared(Lane::Foreground, tenant, Cost::ONE_REQUEST).await?;
        Ok(merged(own.constraints, shared))
    }

    /// The facts of one mailbox: what waits, what is in flight, its windows, its breaker.
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn mailbox(&self, mailbox: impl Into<Arc<str>>) -> Result<MailboxFacts, AskError> {
        self.ask(&mailbox.into(), |answer| Question::Facts { answer }).await
    }

    /// The facts of every live mailbox, oldest actor first. Mailboxes that cannot answer now are left out, and so are those
    /// that the store is still being asked for since the start.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn mailboxes(&self) -> Vec<MailboxFacts> {
        let live = self.world.directory.all();
        let facts = live.iter().map(|seat| self.ask(seat.id(), |answer| Question::Survey { answer }));
        join_all(facts).await.into_iter().filter_map(Result::ok).collect()
    }

    /// Every breaker that is not closed: the shared scopes', then the mailboxes' that [`SchedulerHandle::mailboxes`] tells of.
    ///
    /// # Errors
    /// [`AskError::ShuttingDown`]; [`AskError::NotNow`] of `application` while the shared scopes have no engine.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn breakers(&self) -> Result<Vec<(Scope, BreakerFacts)>, AskError> {
        let mut breakers = self.ask_shared(SharedItem::Breakers).await?;
        let facts = self.mailboxes().await.into_iter().map(|facts| (facts.scope, facts.breaker));
        breakers.extend(facts.filter(|(_, breaker)| breaker.state != BreakerState::Closed));
        Ok(breakers)
    }

    /// The holds in force, oldest first.
    #[must_use]
    pub fn holds(&self) -> Vec<HoldFacts> {
        self.world.holds.all(self.world.clock.now())
    }

    /// The breakers that are open by hand, with the operators' reasons, oldest first.
    #[must_use]
    pub fn trips(&self) -> Vec<TripFacts> {
        self.world.trips.all(self.world.clock.now())
    }

    /// The orders that have ended (holds, and breakers opened by hand), in the order of their ends: who gave each, why, from
    /// when to when, and how it ended: lifted by whom, replaced by which, expired, passed in part. Whatever else was closed
    /// by an order is listed too, without one before it. Those of `orders.ended_for`, at most `orders.ended_max`, the latest.
    #[must_use]
    pub fn ended_orders(&self) -> Vec<EndedFacts> {
        self.world.ended.all(self.world.clock.now(), self.world.settings.load().config.orders.ended_max)
    }

    /// State changes and decisions, from now on. A reader that is slower than they come loses the oldest and is told
    /// how many.
    #[must_use]
    pub fn events(&self) -> Events {
        Events::of(self.world.reporter.subscribe())
    }

    /// The store's record of an operation.
    pub(super) async fn known(&self, id: &str) -> Result<OperationRecord, AskError> {
        self.operation(id).await?.ok_or_else(|| AskError::NoOperation { id: Arc::from(id) })
    }

    async fn explain_shared(
        &self,
        lane: Lane,
        tenant: Option<Arc<str>>,
        cost: Cost,
    ) -> Result<Vec<Constraint>, AskError> {
        self.ask_shared(|answer| SharedItem::Explain { lane, tenant, cost, answer }).await
    }

    pub(super) async fn ask_shared<T>(
        &self,
        item: impl FnOnce(oneshot::Sender<T>) -> SharedItem,
    ) -> Result<T, AskError> {
        let (sender, answer) = oneshot::channel();
        if self.world.is_closing() {
            return Err(AskError::ShuttingDown);
        }
        self.world.shared.ask(item(sender)).map_err(|Full| SHARED_BUSY)?;
        self.shared_answer(answer).await
    }

    /// What the shared scopes say.
    pub(super) async fn shared_answer<T>(&self, answer: oneshot::Receiver<T>) -> Result<T, AskError> {
        answer.await.map_err(|_| {
            if self.world.is_closing() {
                AskError::ShuttingDown
            } else {
                AskError::NotNow { mailbox: Arc::from(SHARED_NAME) }
            }
        })
    }
}

/// The constraints of all scopes together; one of them binds. What the shared scopes said before gives way to what they
/// say now, but for a place in their queue where they name nothing else.
fn merged(mut own: Vec<Constraint>, shared: Vec<Constraint>) -> Vec<Constraint> {
    let queued = |wall| shared.is_empty() && wall == Wall::Queue;
    own.retain(|constraint| constraint.scope == ScopeKind::Mailbox || queued(constraint.wall));
    own.extend(shared);
    Constraint::mark_binding(&mut own);
    own
}

/// What happens, as it happens. Ends when the last handle is gone.
pub struct Events {
    next: Pin<Box<dyn Stream<Item = Result<SchedulerEvent, Missed>> + Send>>,
}

/// So many events were lost, because the reader was slower than they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed(pub u64);

impl Events {
    fn of(events: broadcast::Receiver<SchedulerEvent>) -> Self {
        let next = futures::stream::unfold(events, |mut events| async move {
            match events.recv().await {
                Ok(event) => Some((Ok(event), events)),
                Err(RecvError::Lagged(count)) => Some((Err(Missed(count)), events)),
                Err(RecvError::Closed) => None,
            }
        });
        Self { next: Box::pin(next) }
    }

    /// The next event, or how many were lost before it; `None` when the last handle is gone.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<SchedulerEvent, Missed>> {
        futures::StreamExt::next(&mut self.next).await
    }
}

impl Stream for Events {
    type Item = Result<SchedulerEvent, Missed>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.next.as_mut().poll_next(cx)
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events")
    }
}

#[cfg(all(test, feature = "test-util"))]
mod tests {
    use std::time::Duration;

    use futures::future::BoxFuture;

    use super::*;
    use crate::config::Config;
    use crate::scheduler::Scheduler;
    use crate::transport::{Answer, Attempt, Transport, Verdict};

    #[derive(Debug)]
    struct Accepting;

    impl Transport for Accepting {
        fn send(&self, _: Attempt) -> BoxFuture<'_, Answer> {
            Box::pin(async { Verdict::Accepted.into() })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_asked_of_the_shared_scopes_after_their_actor_has_gone_is_not_waited_for() {
        let test = async {
            let built = Scheduler::builder(Config::default(), Accepting);
            let scheduler = built.start_on_current_thread().await.expect("starts");
            let handle = scheduler.handle();
            assert!(handle.breakers().await.expect("an answer").is_empty());
            drop(scheduler);
            tokio::time::sleep(Duration::from_secs(1)).await;
            // As by one who had looked whether the scheduler runs before it stopped.
            let (sender, answer) = oneshot::channel();
            handle.world.shared.ask(SharedItem::Breakers(sender)).expect("there is room");
            let answer = tokio::time::timeout(Duration::from_secs(60), handle.shared_answer(answer)).await;
            assert!(matches!(answer, Ok(Err(AskError::ShuttingDown))), "{answer:?}");
        };
        tokio::task::LocalSet::new().run_until(test).await;
    }
}
