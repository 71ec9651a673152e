//! The store as one mailbox's actor sees it: its claims carry its lease, and what it stores without one goes to the owner.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::email::Email;
use crate::engine::mailbox::Record;
use crate::engine::{OperationKey, OperationState, Timestamp};
use crate::store::fleet::{Claimed, FencedClaim, Lease};
use crate::store::{
    Claim, Fleet, Inserted, NewOperation, NoteChange, OperationQuery, OperationRecord, Recovery, Store, StoreError,
};

#[derive(Debug)]
pub(super) struct Route {
    store: Arc<dyn Store>,
    api: Arc<dyn Fleet>,
    /// `None`: the mailbox is another one's.
    lease: Option<Lease>,
    /// The store has told that the lease does not hold.
    fenced: Arc<AtomicBool>,
}

impl Route {
    pub(super) fn new(
        store: &Arc<dyn Store>,
        api: &Arc<dyn Fleet>,
        lease: Option<Lease>,
        fenced: &Arc<AtomicBool>,
    ) -> Self {
        fenced.store(false, Ordering::Release);
        Self { store: Arc::clone(store), api: Arc::clone(api), lease, fenced: Arc::clone(fenced) }
    }

    async fn claim_fenced(&self, lease: &Lease, batch: Vec<Claim>) -> Result<Vec<Option<Email>>, StoreError> {
        let fence = |claim| FencedClaim { claim, lease: lease.clone() };
        let claimed = self.api.claim(batch.into_iter().map(fence).collect()).await?;
        let email = |claimed| match claimed {
            Claimed::Written(email) => Some(*email),
            Claimed::Gone => None,
            Claimed::Fenced => {
                self.fenced.store(true, Ordering::Release);
                None
            }
        };
        Ok(claimed.into_iter().map(email).collect())
    }
}

impl Store for Route {
    fn kind(&self) -> &'static str {
        self.store.kind()
    }

    fn recover(&self, since: Timestamp, mailbox: Option<Arc<str>>) -> BoxFuture<'_, Result<Recovery, StoreError>> {
        self.store.recover(since, mailbox)
    }

    fn insert(&self, batch: Vec<NewOperation>) -> BoxFuture<'_, Result<Vec<Inserted>, StoreError>> {
        match &self.lease {
            Some(_) => self.store.insert(batch),
            None => self.api.submit(batch),
        }
    }

    fn claim(&self, batch: Vec<Claim>) -> BoxFuture<'_, Result<Vec<Option<Email>>, StoreError>> {
        match &self.lease {
            Some(lease) => self.claim_fenced(lease, batch).boxed(),
            // Nobody claims what is not its own.
            None => futures::future::ready(Ok(batch.iter().map(|_| None).collect())).boxed(),
        }
    }

    fn keep(&self, batch: Arc<[NoteChange]>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.keep(batch)
    }

    fn record(&self, batch: Arc<[Record]>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.record(batch)
    }

    fn email(&self, key: OperationKey) -> BoxFuture<'_, Result<Option<Email>, StoreError>> {
        self.store.email(key)
    }

    fn operation(&self, id: &str) -> BoxFuture<'_, Result<Option<OperationRecord>, StoreError>> {
        self.store.operation(id)
    }

    fn operations(&self, query: OperationQuery) -> BoxFuture<'_, Result<Vec<OperationRecord>, StoreError>> {
        self.store.operations(query)
    }

    fn counts(&self) -> BoxFuture<'_, Result<[u64; OperationState::ALL.len()], StoreError>> {
        self.store.counts()
    }
}
