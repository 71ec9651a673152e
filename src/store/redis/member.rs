//! Several schedulers over one server: [`Fleet`].
//!
//! Claims and submissions take their turn among the store's other writes (`worker`); everything else is asked beside
//! them, like a read.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::{mpsc, oneshot};

use super::context::Context;
use super::news::Board;
use super::read::Read;
use super::worker::{Call, Reply};
use super::{lease, letters, link, read};
use crate::engine::{Scope, Timestamp};
use crate::store::fleet::{
    Acquired, Claimed, FencedClaim, Fleet, Joined, Lapsed, Lease, Letter, LetterName, MemberId, News, Order, Probe,
    Renewals, Terms,
};
use crate::store::{Inserted, NewOperation, Note, Recovery, StoreError};

/// What members ask.
pub(super) enum Ask {
    Join(Reply<Joined>),
    Acquire(MemberId, Terms, Lapsed, Arc<[Arc<str>]>, Reply<Vec<Acquired>>),
    Renew(MemberId, Terms, Arc<[Lease]>, Reply<Renewals>),
    Release(Arc<[Lease]>, Reply<()>),
    Post(Vec<Order>, Reply<()>),
    Inbox(Vec<(Lease, Vec<LetterName>)>, Reply<Vec<Vec<Letter>>>),
    Orphans(usize, Reply<Vec<Arc<str>>>),
    Notes(Reply<Vec<Note>>),
    Cool(Scope, Timestamp, Reply<Timestamp>),
    Probe(MemberId, Scope, Duration, Reply<Probe>),
    Publish(MemberId, Vec<News>, Reply<()>),
}

impl Ask {
    /// Answers it. Who has stopped listening is told nothing.
    pub(super) async fn answer(self, context: &Context) {
        match self {
            Self::Join(reply) => drop(reply.send(lease::join(context).await)),
            Self::Acquire(member, terms, lapsed, mailboxes, reply) => {
                drop(reply.send(lease::acquire(context, member, terms, lapsed, &mailboxes).await));
            }
            Self::Renew(member, terms, leases, reply) => {
                drop(reply.send(lease::renew(context, member, terms, &leases).await));
            }
            Self::Release(leases, reply) => drop(reply.send(lease::release(context, &leases).await)),
            Self::Post(orders, reply) => drop(reply.send(letters::post(context, &orders).await)),
            Self::Inbox(read, reply) => drop(reply.send(letters::inbox(context, &read).await)),
            Self::Orphans(limit, reply) => drop(reply.send(lease::orphans(context, limit).await)),
            Self::Notes(reply) => drop(reply.send(notes(context).await)),
            Self::Cool(scope, until, reply) => drop(reply.send(letters::cool(context, scope, until).await)),
            Self::Probe(member, scope, span, reply) => {
                drop(reply.send(letters::probe(context, member, &scope, span).await));
            }
            Self::Publish(member, news, reply) => drop(reply.send(letters::publish(context, member, &news).await)),
        }
    }

    pub(super) fn fail(self, error: &StoreError) {
        let error = error.clone();
        match self {
            Self::Join(reply) => drop(reply.send(Err(error))),
            Self::Acquire(.., reply) => drop(reply.send(Err(error))),
            Self::Renew(.., reply) => drop(reply.send(Err(error))),
            Self::Release(_, reply) | Self::Post(_, reply) | Self::Publish(.., reply) => drop(reply.send(Err(error))),
            Self::Inbox(_, reply) => drop(reply.send(Err(error))),
            Self::Orphans(_, reply) => drop(reply.send(Err(error))),
            Self::Notes(reply) => drop(reply.send(Err(error))),
            Self::Cool(.., reply) => drop(reply.send(Err(error))),
            Self::Probe(.., reply) => drop(reply.send(Err(error))),
        }
    }
}

async fn notes(context: &Context) -> Result<Vec<Note>, StoreError> {
    let mut found = Recovery::default();
    read::notes(context, None, &mut found).await?;
    found.notes.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    Ok(found.notes)
}

/// The way of one scheduler to the server.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) calls: mpsc::Sender<Call>,
    pub(super) board: Arc<Board>,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Member")
    }
}

impl Member {
    pub(super) async fn call<T>(&self, call: impl FnOnce(Reply<T>) -> Call) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.calls.send(call(reply)).await.map_err(|_| link::closed())?;
        answer.await.map_err(|_| link::closed())?
    }

    async fn ask<T>(&self, ask: impl FnOnce(Reply<T>) -> Ask) -> Result<T, StoreError> {
        self.call(|reply| Call::Read(Read::Ask(ask(reply)))).await
    }
}

impl Fleet for Member {
    fn join(&self) -> BoxFuture<'_, Result<Joined, StoreError>> {
        async move {
            let joined = self.ask(Ask::Join).await?;
            self.board.add(joined.member);
            Ok(joined)
        }
        .boxed()
    }

    fn acquire(
        &self,
        member: MemberId,
        terms: Terms,
        lapsed: Lapsed,
        mailboxes: Arc<[Arc<str>]>,
    ) -> BoxFuture<'_, Result<Vec<Acquired>, StoreError>> {
        self.ask(move |reply| Ask::Acquire(member, terms, lapsed, mailboxes, reply)).boxed()
    }

    fn renew(
        &self,
        member: MemberId,
        terms: Terms,
        leases: Arc<[Lease]>,
    ) -> BoxFuture<'_, Result<Renewals, StoreError>> {
        self.ask(move |reply| Ask::Renew(member, terms, leases, reply)).boxed()
    }

    fn release(&self, leases: Arc<[Lease]>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.ask(move |reply| Ask::Release(leases, reply)).boxed()
    }

    fn claim(&self, batch: Vec<FencedClaim>) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        self.call(move |reply| Call::Fenced(batch, reply)).boxed()
    }

    fn submit(&self, batch: Vec<NewOperation>) -> BoxFuture<'_, Result<Vec<Inserted>, StoreError>> {
        self.call(move |reply| Call::Submit(batch, reply)).boxed()
    }

    fn post(&self, orders: Vec<Order>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.ask(move |reply| Ask::Post(orders, reply)).boxed()
    }

    fn inbox(&self, read: Vec<(Lease, Vec<LetterName>)>) -> BoxFuture<'_, Result<Vec<Vec<Letter>>, StoreError>> {
        self.ask(move |reply| Ask::Inbox(read, reply)).boxed()
    }

    fn orphans(&self, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        self.ask(move |reply| Ask::Orphans(limit, reply)).boxed()
    }

    fn notes(&self) -> BoxFuture<'_, Result<Vec<Note>, StoreError>> {
        self.ask(Ask::Notes).boxed()
    }

    fn cool(&self, scope: Scope, until: Timestamp) -> BoxFuture<'_, Result<Timestamp, StoreError>> {
        self.ask(move |reply| Ask::Cool(scope, until, reply)).boxed()
    }

    fn probe(&self, member: MemberId, scope: Scope, span: Duration) -> BoxFuture<'_, Result<Probe, StoreError>> {
        self.ask(move |reply| Ask::Probe(member, scope, span, reply)).boxed()
    }

    fn publish(&self, member: MemberId, news: Vec<News>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.ask(move |reply| Ask::Publish(member, news, reply)).boxed()
    }

    fn news(&self, member: MemberId) -> BoxFuture<'_, Result<Vec<News>, StoreError>> {
        self.board.read(member).boxed()
    }
}
