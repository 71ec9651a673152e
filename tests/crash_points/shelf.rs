//! Where the rows lie while processes come and go: in memory, or in an SQLite file that is opened anew by each.
//!
//! SQLite has threads of its own, and paused time would run away while one of them works. So its calls are waited for
//! where they stand: the scheduler sees a store that answers at its first poll.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use mailweir::Email;
use mailweir::engine::mailbox::Record;
use mailweir::engine::{OperationKey, Timestamp};
use mailweir::store::{
    Claim, CommitPoint, CommitProbe, Fate as CommitFate, Horizons, Inserted, MemoryStore, NewOperation, NoteChange,
    OperationQuery, OperationRecord, Outline, Recovery, SqliteOptions, SqliteStore, Store, StoreError,
};
use tempfile::TempDir;

use crate::mortal::{Fate, Omen};

#[derive(Debug)]
pub(crate) enum Shelf {
    Memory(MemoryStore),
    File(TempDir),
}

impl Shelf {
    pub(crate) fn memory() -> Self {
        Self::Memory(MemoryStore::new())
    }

    pub(crate) fn file() -> Self {
        // Crash points are about the order of commits, not about the disk: where there is one, a disk of memory.
        let memory = std::path::Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Self::File(folder.expect("a scratch folder"))
    }

    /// What a new process finds.
    pub(crate) fn open(&self) -> (Arc<dyn Store>, Option<Omen>) {
        match self {
            Self::Memory(store) => (Arc::new(store.clone()), None),
            Self::File(folder) => {
                let next: Arc<Mutex<Option<Fate>>> = Arc::default();
                let told = Arc::clone(&next);
                let probe = CommitProbe::new(move |point| match (*next.lock().expect("not poisoned"), point) {
                    (Some(Fate::DieBefore), CommitPoint::Before(_)) => CommitFate::Die,
                    (Some(Fate::DieAfter), CommitPoint::After(_)) => CommitFate::Die,
                    _ => CommitFate::GoOn,
                });
                let options = SqliteOptions::new().commit_probe(probe).lock_wait(Duration::from_secs(10));
                let store = SqliteStore::open_with(folder.path().join("outbox.db"), options).expect("it opens again");
                let tell = move |fate| *told.lock().expect("not poisoned") = Some(fate);
                (Arc::new(AtOnce(store)), Some(Omen(Arc::new(tell))))
            }
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for what another thread does.
fn wait<T>(future: impl Future<Output = T>) -> T {
    // Without a task's budget: nobody would fill it up again.
    let mut future = pin!(tokio::task::unconstrained(future));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
        thread::park();
    }
}

#[derive(Debug)]
struct AtOnce(SqliteStore);

impl Store for AtOnce {
    fn kind(&self) -> &'static str {
        self.0.kind()
    }

    fn recover(&self, since: Timestamp, mailbox: Option<Arc<str>>) -> BoxFuture<'_, Result<Recovery, StoreError>> {
        ready(wait(self.0.recover(since, mailbox))).boxed()
    }

    fn outline(&self, since: Horizons) -> BoxFuture<'_, Result<Outline, StoreError>> {
        ready(wait(self.0.outline(since))).boxed()
    }

    fn insert(&self, batch: Vec<NewOperation>) -> BoxFuture<'_, Result<Vec<Inserted>, StoreError>> {
        ready(wait(self.0.insert(batch))).boxed()
    }

    fn claim(&self, batch: Vec<Claim>) -> BoxFuture<'_, Result<Vec<Option<Email>>, StoreError>> {
        ready(wait(self.0.claim(batch))).boxed()
    }

    fn record(&self, batch: Arc<[Record]>) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(wait(self.0.record(batch))).boxed()
    }

    fn keep(&self, batch: Arc<[NoteChange]>) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(wait(self.0.keep(batch))).boxed()
    }

    fn email(&self, key: OperationKey) -> BoxFuture<'_, Result<Option<Email>, StoreError>> {
        ready(wait(self.0.email(key))).boxed()
    }

    fn operation(&self, id: &str) -> BoxFuture<'_, Result<Option<OperationRecord>, StoreError>> {
        ready(wait(self.0.operation(id))).boxed()
    }

    fn operations(&self, query: OperationQuery) -> BoxFuture<'_, Result<Vec<OperationRecord>, StoreError>> {
        ready(wait(self.0.operations(query))).boxed()
    }

    fn counts(&self) -> BoxFuture<'_, Result<[u64; 10], StoreError>> {
        ready(wait(self.0.counts())).boxed()
    }
}
