//! Lives of one outbox on disk, each ended as a kill ends it, under one paused clock.
//!
//! The next life begins with a copy of the file and its log, taken while the one before still had both open. The store
//! does its work while the clock stands.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::{BoxFuture, ready};
use mailweir::Email;
use mailweir::clock::{Clock, TokioClock};
use mailweir::config::Config;
use mailweir::engine::mailbox::Record;
use mailweir::engine::{OperationKey, Timestamp};
use mailweir::scheduler::{Scheduler, SchedulerHandle};
use mailweir::store::{
    Claim, Horizons, Inserted, NewOperation, NoteChange, OperationQuery, OperationRecord, Outline, Recovery,
    SqliteStore, Store, StoreError,
};
use mailweir::transport::Transport;

use crate::support::*;

/// A store on disk whose every call is done when it is first polled, so that paused time does not run on meanwhile.
#[derive(Debug)]
pub(crate) struct Prompt(SqliteStore);

fn prompt<T: Send + 'static>(call: BoxFuture<'_, T>) -> BoxFuture<'_, T> {
    let done = std::thread::scope(|scope| {
        let run = || tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(call);
        scope.spawn(run).join().expect("the call ends")
    });
    Box::pin(ready(done))
}

impl Store for Prompt {
    fn kind(&self) -> &'static str {
        self.0.kind()
    }

    fn recover(&self, since: Timestamp, mailbox: Option<Arc<str>>) -> BoxFuture<'_, Result<Recovery, StoreError>> {
        prompt(self.0.recover(since, mailbox))
    }

    fn outline(&self, since: Horizons) -> BoxFuture<'_, Result<Outline, StoreError>> {
        prompt(self.0.outline(since))
    }

    fn insert(&self, batch: Vec<NewOperation>) -> BoxFuture<'_, Result<Vec<Inserted>, StoreError>> {
        prompt(self.0.insert(batch))
    }

    fn claim(&self, batch: Vec<Claim>) -> BoxFuture<'_, Result<Vec<Option<Email>>, StoreError>> {
        prompt(self.0.claim(batch))
    }

    fn keep(&self, batch: Arc<[NoteChange]>) -> BoxFuture<'_, Result<(), StoreError>> {
        prompt(self.0.keep(batch))
    }

    fn record(&self, batch: Arc<[Record]>) -> BoxFuture<'_, Result<(), StoreError>> {
        prompt(self.0.record(batch))
    }

    fn email(&self, key: OperationKey) -> BoxFuture<'_, Result<Option<Email>, StoreError>> {
        prompt(self.0.email(key))
    }

    fn operation(&self, id: &str) -> BoxFuture<'_, Result<Option<OperationRecord>, StoreError>> {
        prompt(self.0.operation(id))
    }

    fn operations(&self, query: OperationQuery) -> BoxFuture<'_, Result<Vec<OperationRecord>, StoreError>> {
        prompt(self.0.operations(query))
    }

    fn counts(&self) -> BoxFuture<'_, Result<[u64; 10], StoreError>> {
        prompt(self.0.counts())
    }
}

/// One outbox and its lives, under one clock.
pub(crate) struct Lives {
    pub(crate) folder: tempfile::TempDir,
    clock: Arc<TokioClock>,
    count: u32,
    life: Option<Scheduler>,
    store: Option<Arc<Prompt>>,
}

impl Lives {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(TokioClock::starting_at(START));
        Self { folder: tempfile::tempdir().expect("a folder"), clock, count: 0, life: None, store: None }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join(format!("life-{}.db", self.count))
    }

    /// Ends the life before as a kill would, and begins the next.
    pub(crate) async fn begin(&mut self, config: Config, transport: &Scripted) -> SchedulerHandle {
        self.begin_with(config, transport.clone()).await
    }

    /// The same, with any transport.
    pub(crate) async fn begin_with(&mut self, config: Config, transport: impl Transport) -> SchedulerHandle {
        let before = self.file();
        self.count += 1;
        if before.exists() {
            let log = |file: &PathBuf| PathBuf::from(format!("{}-wal", file.display()));
            fs::copy(&before, self.file()).expect("copied");
            fs::copy(log(&before), log(&self.file())).expect("copied");
        }
        (self.life, self.store) = (None, None);
        let store = Arc::new(Prompt(SqliteStore::open(self.file()).expect("an outbox")));
        self.store = Some(Arc::clone(&store));
        let clock: Arc<dyn Clock> = self.clock.clone();
        let built = Scheduler::builder(config, transport).clock(clock).store(store);
        let scheduler = built.start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        self.life = Some(scheduler);
        handle
    }

    /// What the life under way writes.
    pub(crate) fn store(&self) -> &Prompt {
        self.store.as_ref().expect("a life")
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) async fn sleep_until(&self, at: Timestamp) {
        tokio::time::sleep(at.since(self.now())).await;
    }
}
