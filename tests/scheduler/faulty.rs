//! A memory store whose answers come late, or say that it failed.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::BoxFuture;
use mailweir::Email;
use mailweir::engine::mailbox::Record;
use mailweir::engine::{OperationKey, Timestamp};
use mailweir::store::{
    Apart, Claim, Horizons, Inserted, MemoryStore, NewOperation, NoteChange, OperationQuery, OperationRecord, Outline,
    Recovery, Store, StoreError,
};

/// What goes wrong from now on.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Records are not written.
    pub(crate) record: Option<StoreError>,
    /// Records are written, and the answer says this. Once.
    pub(crate) recorded: Option<StoreError>,
    /// Operations are not stored. Once.
    pub(crate) insert: Option<StoreError>,
    /// Operations are stored, and the answer says this. Once.
    pub(crate) inserted: Option<StoreError>,
    /// Calls that begin now are answered this late.
    pub(crate) late: Option<Duration>,
    /// Notes are kept after so long, and not before.
    pub(crate) keeping: Option<Duration>,
    /// Notes are not kept.
    pub(crate) keep: Option<StoreError>,
    /// Claims are not written. Once.
    pub(crate) claim: Option<StoreError>,
    /// Claims are written, and the answer says this. Once.
    pub(crate) claimed: Option<StoreError>,
    /// Nothing can be read back.
    pub(crate) recover: Option<StoreError>,
    /// No operation is found by its id.
    pub(crate) operation: Option<StoreError>,
    /// This is found by its id, and forgotten at once. Once.
    pub(crate) forgets: Option<OperationRecord>,
}

/// Every call takes effect at once; its answer comes `late`. Clones are the same store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faulty {
    inner: MemoryStore,
    late: Duration,
    /// Mailboxes are read one by one.
    apart: bool,
    faults: Arc<Mutex<Faults>>,
    /// How many records each call brought.
    recorded: Arc<Mutex<Vec<usize>>>,
}

impl Faulty {
    pub(crate) fn late(late: Duration) -> Self {
        Self { late, ..Self::default() }
    }

    /// The same store, whose answers come `late`, and which has mailboxes read one by one.
    pub(crate) fn apart(&self, late: Duration) -> Self {
        Self { late, apart: true, ..self.clone() }
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().expect("not poisoned")
    }

    pub(crate) fn record_calls(&self) -> usize {
        self.recorded.lock().expect("not poisoned").len()
    }

    fn call<'a, T: Send + 'a>(
        &'a self,
        failed: Option<StoreError>,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        let late = self.faults().late.unwrap_or(self.late);
        Box::pin(async move {
            let answer = match failed {
                Some(error) => Err(error),
                None => call.await,
            };
            if !late.is_zero() {
                tokio::time::sleep(late).await;
            }
            answer
        })
    }
}

impl Store for Faulty {
    fn kind(&self) -> &'static str {
        "faulty"
    }

    fn recover(&self, since: Timestamp, mailbox: Option<Arc<str>>) -> BoxFuture<'_, Result<Recovery, StoreError>> {
        let failed = self.faults().recover.clone();
        self.call(failed, async move { self.inner.recover(since, mailbox).await })
    }

    fn outline(&self, since: Horizons) -> BoxFuture<'_, Result<Outline, StoreError>> {
        self.call(None, async move {
            let mut recovery = self.inner.recover(since.mailboxes, None).await?;
            if !self.apart {
                return Ok(Outline { recovery, apart: None });
            }
            let mut apart = Apart::default();
            for operation in std::mem::take(&mut recovery.operations) {
                if !apart.waiting.contains(&operation.mailbox) {
                    apart.waiting.push(operation.mailbox);
                }
            }
            apart.charged = recovery.attempts.iter().map(|attempt| Arc::clone(&attempt.mailbox)).collect();
            recovery.attempts.retain(|attempt| attempt.claimed_at >= since.shared);
            Ok(Outline { recovery, apart: Some(apart) })
        })
    }

    fn insert(&self, batch: Vec<NewOperation>) -> BoxFuture<'_, Result<Vec<Inserted>, StoreError>> {
        let failed = self.faults().insert.take();
        let said = self.faults().inserted.take();
        self.call(failed, async move {
            let inserted = self.inner.insert(batch).await;
            said.map_or(inserted, Err)
        })
    }

    fn claim(&self, batch: Vec<Claim>) -> BoxFuture<'_, Result<Vec<Option<Email>>, StoreError>> {
        let failed = self.faults().claim.take();
        let said = self.faults().claimed.take();
        self.call(failed, async move {
            let claimed = self.inner.claim(batch).await;
            said.map_or(claimed, Err)
        })
    }

    fn keep(&self, batch: Arc<[NoteChange]>) -> BoxFuture<'_, Result<(), StoreError>> {
        let failed = self.faults().keep.clone();
        let keeping = self.faults().keeping.unwrap_or_default();
        self.call(failed, async move {
            if !keeping.is_zero() {
                tokio::time::sleep(keeping).await;
            }
            self.inner.keep(batch).await
        })
    }

    fn record(&self, batch: Arc<[Record]>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.recorded.lock().expect("not poisoned").push(batch.len());
        let failed = self.faults().record.clone();
        let said = self.faults().recorded.take();
        self.call(failed, async move {
            let recorded = self.inner.record(batch).await;
            said.map_or(recorded, Err)
        })
    }

    fn email(&self, key: OperationKey) -> BoxFuture<'_, Result<Option<Email>, StoreError>> {
        self.inner.email(key)
    }

    fn operation(&self, id: &str) -> BoxFuture<'_, Result<Option<OperationRecord>, StoreError>> {
        let (id, failed) = (id.to_owned(), self.faults().operation.clone());
        let forgotten = self.faults().forgets.take_if(|record| *record.id == *id);
        self.call(failed, async move {
            match forgotten {
                Some(record) => Ok(Some(record)),
                None => self.inner.operation(&id).await,
            }
        })
    }

    fn operations(&self, query: OperationQuery) -> BoxFuture<'_, Result<Vec<OperationRecord>, StoreError>> {
        self.inner.operations(query)
    }

    fn counts(&self) -> BoxFuture<'_, Result<[u64; 10], StoreError>> {
        self.inner.counts()
    }
}

pub(crate) fn out_of_reach() -> StoreError {
    StoreError::Unavailable { reason: "out of reach".to_owned() }
}
