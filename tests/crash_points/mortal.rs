//! A process that can be killed at a durable write: its store and its transport, and what is left when it is dead.
//!
//! A dead process writes nothing, sends nothing and hears nothing. So every call of a dead life waits for ever, whatever
//! its actors still do while they are taken down. What had left the machine before goes on at the upstream, or is lost
//! on the way, as the plan says.
//!
//! To add a durable call to the store: one variant of `What`, and one method here that goes through `write`.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{pending, ready};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use mailweir::Email;
use mailweir::clock::{Clock, TokioClock};
use mailweir::engine::mailbox::Record;
use mailweir::engine::{OperationKey, Timestamp};
use mailweir::store::{
    Claim, Horizons, Inserted, NewOperation, NoteChange, OperationQuery, OperationRecord, Outline, Recovery, Store,
    StoreError,
};
use mailweir::transport::simulated::SimulatedTransport;
use mailweir::transport::{Answer, Attempt, Transport};
use tokio::sync::Notify;

use crate::acts::{POISON, POISONS};
use crate::book::{Book, Flight, What};

/// What becomes of one durable write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    GoOn,
    /// The process dies just before it takes effect.
    DieBefore,
    /// It takes effect, and the process dies before it hears of it.
    DieAfter,
    /// It is refused and has no effect.
    Fail,
    /// It takes effect, and the answer says that it failed.
    Doubt,
    /// It takes effect this much later.
    Slow(Duration),
    /// The answer says that it took effect, and it did not: no store may do that, and the checks have to see it.
    Lie,
}

/// Decides about each write by its number, from 0, and about each read.
pub(crate) trait Plan: fmt::Debug + Send + Sync {
    fn fate(&self, number: usize, what: What) -> Fate;

    /// Whether this read shows what was there before the last write.
    fn is_stale(&self, _read: u64) -> bool {
        false
    }

    /// Whether a restart is told nothing of the attempts before it: no store may do that either.
    fn forgets_attempts(&self) -> bool {
        false
    }
}

/// One process.
#[derive(Debug, Default)]
pub(crate) struct Life {
    dead: AtomicBool,
    died: Notify,
}

impl Life {
    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    fn die(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.died.notify_waiters();
    }

    /// Waits for its end.
    pub(crate) async fn died(&self) {
        let mut news = std::pin::pin!(self.died.notified());
        // Registered before the look, so that no death is missed.
        news.as_mut().enable();
        if !self.is_dead() {
            news.await;
        }
    }
}

/// What outlives a process, and how its writes go.
#[derive(Clone, Debug)]
pub(crate) struct Fabric {
    pub(crate) book: Arc<Mutex<Book>>,
    pub(crate) plan: Arc<dyn Plan>,
    /// How long a commit takes.
    pub(crate) commit: Duration,
    /// Rows as they were before they were last written, where a plan shows old ones.
    before: Arc<Mutex<BTreeMap<Arc<str>, Option<OperationRecord>>>>,
    reads: Arc<Mutex<u64>>,
}

impl Fabric {
    pub(crate) fn new(plan: Arc<dyn Plan>, commit: Duration) -> Self {
        Self { book: Arc::default(), plan, commit, before: Arc::default(), reads: Arc::default() }
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("not poisoned")
    }

    fn next(&self, what: What) -> Fate {
        let mut book = self.book();
        let number = book.writes.len();
        book.writes.push(what);
        self.plan.fate(number, what)
    }
}

/// The store of one life. Writes are done one after the other, like those of one writer.
#[derive(Debug)]
pub(crate) struct MortalStore {
    pub(crate) inner: Arc<dyn Store>,
    /// Told before a write that is a death, where the store itself can die.
    pub(crate) omen: Option<Omen>,
    pub(crate) life: Arc<Life>,
    pub(crate) fabric: Fabric,
    pub(crate) turn: tokio::sync::Mutex<()>,
}

/// Tells a store that it dies at its next commit: before it, or after it.
#[derive(Clone)]
pub(crate) struct Omen(pub(crate) Arc<dyn Fn(Fate) + Send + Sync>);

impl fmt::Debug for Omen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Omen")
    }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable { reason: "a test says so".to_owned() }
}

impl MortalStore {
    /// One durable write of `ids`; `note` writes down what it did.
    async fn write<'a, T>(
        &'a self,
        what: What,
        keys: Vec<OperationKey>,
        call: impl FnOnce() -> BoxFuture<'a, Result<T, StoreError>>,
        lie: impl FnOnce() -> BoxFuture<'a, T>,
        note: impl FnOnce(&mut Book),
    ) -> Result<T, StoreError> {
        let turn = self.turn.lock().await;
        if self.life.is_dead() {
            pending::<()>().await;
        }
        let fate = self.fabric.next(what);
        keys.iter().for_each(|key| self.fabric.book().trace(*key, &(what, fate)));
        let slow = if let Fate::Slow(by) = fate { by } else { Duration::ZERO };
        let takes = self.fabric.commit + slow;
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        if fate == Fate::DieBefore && self.omen.is_none() {
            self.dies().await;
        }
        if fate == Fate::Fail {
            return Err(unavailable());
        }
        if fate == Fate::Lie {
            note(&mut self.fabric.book());
            return Ok(lie().await);
        }
        self.remember(&keys).await;
        if let (Fate::DieBefore | Fate::DieAfter, Some(Omen(tell))) = (fate, &self.omen) {
            tell(fate);
        }
        let answer = call().await;
        if fate == Fate::DieBefore {
            self.dies().await;
        }
        let is_done = !matches!(&answer, Err(error) if !matches!(error, StoreError::Contradiction { .. }));
        if is_done || fate == Fate::DieAfter {
            note(&mut self.fabric.book());
        }
        if let Err(StoreError::Contradiction { reason }) = &answer {
            self.fabric.book().wrong.push(format!("the store was asked for something impossible: {reason}"));
        }
        if fate == Fate::DieAfter {
            self.dies().await;
        }
        drop(turn);
        if fate == Fate::Doubt { Err(unavailable()) } else { answer }
    }

    /// Nothing comes after it.
    async fn dies(&self) {
        self.life.die();
        pending().await
    }

    /// Keeps the rows as they are, for reads that show old ones.
    async fn remember(&self, keys: &[OperationKey]) {
        for key in keys {
            let id = self.fabric.book().id(*key).cloned();
            if let Some(id) = id {
                let row = self.inner.operation(&id).await.ok().flatten();
                self.fabric.before.lock().expect("not poisoned").insert(id, row);
            }
        }
    }

    fn reads_old(&self) -> bool {
        let mut reads = self.fabric.reads.lock().expect("not poisoned");
        *reads += 1;
        self.fabric.plan.is_stale(*reads)
    }

    fn old(&self, row: OperationRecord) -> Option<OperationRecord> {
        let before = self.fabric.before.lock().expect("not poisoned");
        before.get(&row.id).cloned().unwrap_or(Some(row))
    }

    /// Answers a read, unless nobody is there to hear it.
    fn read<'a, T: Send + 'a>(
        &'a self,
        call: impl FnOnce() -> BoxFuture<'a, Result<T, StoreError>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        if self.life.is_dead() { pending().boxed() } else { call() }
    }
}

impl Store for MortalStore {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    /// Never old: a restart that does not see what was written has nothing to go by.
    fn recover(&self, since: Timestamp, mailbox: Option<Arc<str>>) -> BoxFuture<'_, Result<Recovery, StoreError>> {
        let forgets = self.fabric.plan.forgets_attempts();
        self.read(move || {
            async move {
                let recovery = self.inner.recover(since, mailbox).await?;
                Ok(if forgets { Recovery { attempts: Vec::new(), ..recovery } } else { recovery })
            }
            .boxed()
        })
    }

    fn outline(&self, since: Horizons) -> BoxFuture<'_, Result<Outline, StoreError>> {
        let forgets = self.fabric.plan.forgets_attempts();
        self.read(move || {
            async move {
                let mut outline = self.inner.outline(since).await?;
                if forgets {
                    outline.recovery.attempts.clear();
                }
                Ok(outline)
            }
            .boxed()
        })
    }

    fn insert(&self, batch: Vec<NewOperation>) -> BoxFuture<'_, Result<Vec<Inserted>, StoreError>> {
        let (told, count) = (batch.clone(), batch.len());
        let note = move |book: &mut Book| told.iter().for_each(|new| book.inserted(new));
        let lie = move || ready(vec![Inserted::New; count]).boxed();
        self.write(What::Insert, Vec::new(), move || self.inner.insert(batch), lie, note).boxed()
    }

    fn claim(&self, batch: Vec<Claim>) -> BoxFuture<'_, Result<Vec<Option<Email>>, StoreError>> {
        let (told, keys) = (batch.clone(), batch.iter().map(|claim| claim.key).collect());
        let unclaimed = batch.clone();
        let note = move |book: &mut Book| told.iter().for_each(|claim| book.claimed(claim));
        let lie = move || {
            join_all(unclaimed.into_iter().map(|claim| self.inner.email(claim.key).map(|email| email.ok().flatten())))
                .boxed()
        };
        self.write(What::Claim, keys, move || self.inner.claim(batch), lie, note).boxed()
    }

    fn record(&self, batch: Arc<[Record]>) -> BoxFuture<'_, Result<(), StoreError>> {
        let (told, keys) = (Arc::clone(&batch), batch.iter().map(|record| record.key).collect());
        let note = move |book: &mut Book| told.iter().for_each(|record| book.recorded(record));
        self.write(What::Record, keys, move || self.inner.record(batch), || ready(()).boxed(), note).boxed()
    }

    fn keep(&self, batch: Arc<[NoteChange]>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write(What::Keep, Vec::new(), move || self.inner.keep(batch), || ready(()).boxed(), |_| ()).boxed()
    }

    fn email(&self, key: OperationKey) -> BoxFuture<'_, Result<Option<Email>, StoreError>> {
        self.read(move || self.inner.email(key))
    }

    fn operation(&self, id: &str) -> BoxFuture<'_, Result<Option<OperationRecord>, StoreError>> {
        let (id, is_old) = (id.to_owned(), self.reads_old());
        self.read(move || {
            async move {
                let row = self.inner.operation(&id).await?;
                Ok(if is_old { row.and_then(|row| self.old(row)) } else { row })
            }
            .boxed()
        })
    }

    fn operations(&self, query: OperationQuery) -> BoxFuture<'_, Result<Vec<OperationRecord>, StoreError>> {
        self.read(move || self.inner.operations(query))
    }

    fn counts(&self) -> BoxFuture<'_, Result<[u64; 10], StoreError>> {
        self.read(|| self.inner.counts())
    }
}

/// What becomes of requests that are on their way when their process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnderWay {
    /// They arrive, and nobody hears the answer.
    Arrives,
    /// Those that have not arrived are lost.
    IsLost,
}

/// The transport of one life.
#[derive(Debug)]
pub(crate) struct MortalTransport {
    pub(crate) inner: Arc<SimulatedTransport>,
    pub(crate) life: Arc<Life>,
    pub(crate) fabric: Fabric,
    pub(crate) clock: Arc<TokioClock>,
    pub(crate) under_way: UnderWay,
}

impl Transport for MortalTransport {
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Answer> {
        async move {
            if self.life.is_dead() {
                pending::<()>().await;
            }
            let mut hasher = DefaultHasher::new();
            (attempt.email.sender(), attempt.email.mime()).hash(&mut hasher);
            let flight = Flight {
                id: Arc::clone(&attempt.operation_id),
                fingerprint: hasher.finish(),
                started: self.clock.now(),
                ended: None,
            };
            let place = self.fabric.book().took_off(flight);
            if attempt.operation_id.starts_with(POISON) && attempt.number <= POISONS {
                self.fabric.book().flights[place].ended = Some(self.clock.now());
                // A panic without a word: there are hundreds of them.
                std::panic::resume_unwind(Box::new("an email that its transport cannot bear"));
            }
            let answer = self.make(attempt).await;
            if self.life.is_dead() {
                pending::<()>().await;
            }
            self.fabric.book().flights[place].ended = Some(self.clock.now());
            answer
        }
        .boxed()
    }

    fn reconcile(&self, attempt: Attempt) -> BoxFuture<'_, Option<bool>> {
        if self.life.is_dead() { pending().boxed() } else { self.inner.reconcile(attempt) }
    }
}

impl MortalTransport {
    async fn make(&self, attempt: Attempt) -> Answer {
        let mut call = self.inner.send(attempt);
        if self.under_way == UnderWay::Arrives {
            // Its own timeout ends with its process; the request goes on by itself.
            return call.await;
        }
        tokio::select! {
            answer = &mut call => answer,
            () = self.life.died() => pending().await,
        }
    }
}
