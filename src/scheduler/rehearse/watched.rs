//! The outbox and the wire of one process, with everything that passes them written down.
//!
//! A dead process writes nothing and hears nothing, whatever its actors still do while they are taken down: its calls wait for
//! ever. What had left it goes on at the upstream.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::locked;
use crate::email::Email;
use crate::engine::mailbox::{Outcome, Record};
use crate::engine::operation::Transition;
use crate::engine::{Event, OperationKey, OperationState, Timestamp, Verdict};
use crate::simulation::{Comes, Commits, StoreUse};
use crate::store::{
    Claim, Horizons, Inserted, MemoryStore, NewOperation, NoteChange, OperationQuery, OperationRecord, Outline,
    Recovery, Store, StoreError,
};
use crate::transport::simulated::SimulatedTransport;
use crate::transport::{Answer, Attempt, Transport};

/// What was seen, of all processes. Keys are those of the plan.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The plan's keys by the scheduler's.
    keys: BTreeMap<OperationKey, OperationKey>,
    /// Whose callers hold a ticket.
    pub(super) taken_in: BTreeSet<OperationKey>,
    ended: Vec<(OperationKey, Timestamp, Outcome)>,
    places: BTreeMap<OperationKey, usize>,
    pub(super) transitions: Vec<(OperationKey, Transition)>,
    pub(super) sends: Vec<(OperationKey, u32)>,
    pub(super) events: Vec<(Timestamp, Event)>,
    pub(super) events_lost: u64,
    pub(super) store: Asked,
}

/// What was asked of the store.
#[derive(Debug, Default)]
pub(super) struct Asked {
    calls: u64,
    commits: Commits,
    /// Stored at this instant: an attempt row of theirs comes in a later transaction.
    new: BTreeSet<OperationKey>,
    at: Option<Timestamp>,
}

impl Asked {
    pub(super) fn used(&self) -> StoreUse {
        self.commits.with_calls(self.calls)
    }

    fn read(&mut self) {
        self.calls += 1;
    }

    fn write(&mut self, now: Timestamp, comes: Comes) {
        self.calls += 1;
        self.commits.write(now, comes);
    }

    fn insert(&mut self, now: Timestamp, batch: &[NewOperation]) {
        if self.at.replace(now) != Some(now) {
            self.new.clear();
        }
        self.new.extend(batch.iter().map(|new| new.key));
        self.write(now, Comes::First);
    }

    fn claim(&mut self, now: Timestamp, keys: &[OperationKey]) {
        let is_new = self.at == Some(now) && keys.iter().any(|key| self.new.contains(key));
        self.write(now, if is_new { Comes::Second } else { Comes::First });
    }
}

impl Notes {
    /// Writes down how an operation ended; only the first word counts, unless it was that nobody knows.
    pub(super) fn end(&mut self, key: OperationKey, at: Timestamp, outcome: Outcome) {
        match self.places.get(&key).and_then(|place| self.ended.get_mut(*place)) {
            None => {
                self.places.insert(key, self.ended.len());
                self.ended.push((key, at, outcome));
            }
            Some(known) if known.2 == Outcome::Unknown && outcome != Outcome::Unknown => {
                (known.1, known.2) = (at, outcome);
            }
            Some(_) => {}
        }
    }

    pub(super) fn has_ended(&self, key: OperationKey) -> bool {
        self.places.contains_key(&key)
    }

    pub(super) fn ended(&self) -> usize {
        self.ended.len()
    }

    pub(super) fn take_ended(&mut self) -> Vec<(OperationKey, Timestamp, Outcome)> {
        let mut ended = std::mem::take(&mut self.ended);
        ended.sort_by_key(|(_, at, _)| *at);
        ended
    }

    fn transition(&mut self, key: OperationKey, transition: Transition) {
        if let Some(key) = self.keys.get(&key) {
            self.transitions.push((*key, transition));
        }
    }

    /// One whose end nobody knew is settled after all.
    fn settled(&mut self, record: &Record, now: Timestamp) {
        let Some(key) = self.keys.get(&record.key).copied().filter(|key| self.has_ended(*key)) else { return };
        let attempts = record.attempts;
        let outcome = match record.state {
            OperationState::Accepted => Outcome::Accepted { provider_id: record.provider_id.clone(), attempts },
            OperationState::Exhausted => {
                Outcome::Exhausted { attempts, throttled: None, maybe_sent: record.maybe_sent }
            }
            OperationState::Quarantined => Outcome::Quarantined,
            OperationState::Cancelled => Outcome::Cancelled { maybe_sent: record.maybe_sent },
            _ => return,
        };
        self.end(key, now, outcome);
    }
}

/// Whether a process is there.
#[derive(Debug, Default)]
pub(super) struct Life(AtomicBool);

impl Life {
    pub(super) fn end(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// What a call of a dead process comes to: nothing.
fn while_alive<'a, T: Send + 'a>(life: &'a Life, call: BoxFuture<'a, T>) -> BoxFuture<'a, T> {
    async move {
        if life.is_over() {
            return pending().await;
        }
        let answer = call.await;
        if life.is_over() { pending().await } else { answer }
    }
    .boxed()
}

/// The outbox as one process sees it.
#[derive(Debug)]
pub(super) struct WatchedStore {
    pub(super) inner: Arc<MemoryStore>,
    pub(super) life: Arc<Life>,
    pub(super) notes: Arc<Mutex<Notes>>,
    pub(super) truth: Arc<dyn crate::clock::Clock>,
}

impl WatchedStore {
    /// Counts a call of a process that lives.
    fn asked(&self, count: impl FnOnce(&mut Asked, Timestamp)) {
        if !self.life.is_over() {
            count(&mut locked(&self.notes).store, self.truth.now());
        }
    }

    fn read(&self) {
        self.asked(|asked, _| asked.read());
    }

    fn write(&self) {
        self.asked(|asked, now| asked.write(now, Comes::First));
    }
}

impl Store for WatchedStore {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn recover(&self, since: Timestamp, mailbox: Option<Arc<str>>) -> BoxFuture<'_, Result<Recovery, StoreError>> {
        self.read();
        while_alive(&self.life, self.inner.recover(since, mailbox))
    }

    fn outline(&self, since: Horizons) -> BoxFuture<'_, Result<Outline, StoreError>> {
        self.read();
        while_alive(&self.life, self.inner.outline(since))
    }

    fn insert(&self, batch: Vec<NewOperation>) -> BoxFuture<'_, Result<Vec<Inserted>, StoreError>> {
        let ids: Vec<_> = batch.iter().map(|new| (new.key, Arc::clone(&new.id))).collect();
        self.asked(|asked, now| asked.insert(now, &batch));
        let call = async move {
            let inserted = self.inner.insert(batch).await?;
            let mut notes = locked(&self.notes);
            for ((key, id), inserted) in ids.into_iter().zip(&inserted) {
                if let (Ok(planned), Inserted::New) = (id.parse(), inserted) {
                    notes.keys.insert(key, OperationKey(planned));
                }
            }
            drop(notes);
            Ok(inserted)
        };
        while_alive(&self.life, call.boxed())
    }

    fn claim(&self, batch: Vec<Claim>) -> BoxFuture<'_, Result<Vec<Option<Email>>, StoreError>> {
        let keys: Vec<_> = batch.iter().map(|claim| claim.key).collect();
        self.asked(|asked, now| asked.claim(now, &keys));
        let call = async move {
            let claimed = self.inner.claim(batch).await?;
            let mut notes = locked(&self.notes);
            let there = keys.into_iter().zip(&claimed).filter(|(_, email)| email.is_some());
            there.for_each(|(key, _)| notes.transition(key, Transition::Claim));
            drop(notes);
            Ok(claimed)
        };
        while_alive(&self.life, call.boxed())
    }

    fn keep(&self, batch: Arc<[NoteChange]>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write();
        while_alive(&self.life, self.inner.keep(batch))
    }

    fn record(&self, batch: Arc<[Record]>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write();
        let call = async move {
            self.inner.record(Arc::clone(&batch)).await?;
            let (now, mut notes) = (self.truth.now(), locked(&self.notes));
            for record in batch.iter() {
                notes.transition(record.key, record.transition);
                notes.settled(record, now);
            }
            drop(notes);
            Ok(())
        };
        while_alive(&self.life, call.boxed())
    }

    fn email(&self, key: OperationKey) -> BoxFuture<'_, Result<Option<Email>, StoreError>> {
        self.read();
        while_alive(&self.life, self.inner.email(key))
    }

    fn operation(&self, id: &str) -> BoxFuture<'_, Result<Option<OperationRecord>, StoreError>> {
        self.read();
        while_alive(&self.life, self.inner.operation(id))
    }

    fn operations(&self, query: OperationQuery) -> BoxFuture<'_, Result<Vec<OperationRecord>, StoreError>> {
        self.read();
        while_alive(&self.life, self.inner.operations(query))
    }

    fn counts(&self) -> BoxFuture<'_, Result<[u64; 10], StoreError>> {
        self.read();
        while_alive(&self.life, self.inner.counts())
    }

    fn attempts_for(&self) -> Duration {
        self.inner.attempts_for()
    }
}

/// The wire as one process sees it.
#[derive(Clone, Debug)]
pub(super) struct WatchedTransport {
    pub(super) inner: Arc<SimulatedTransport>,
    pub(super) life: Arc<Life>,
    pub(super) notes: Arc<Mutex<Notes>>,
}

impl Transport for WatchedTransport {
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Answer> {
        if self.life.is_over() {
            return pending().boxed();
        }
        if let Ok(key) = attempt.operation_id.parse() {
            locked(&self.notes).sends.push((OperationKey(key), attempt.number));
        }
        // What has left goes on, whether or not somebody still waits for the answer.
        let inner = Arc::clone(&self.inner);
        let wire = tokio::spawn(async move { inner.send(attempt).await });
        while_alive(&self.life, wire.map(|answer| answer.unwrap_or_else(|_| Verdict::Unknown.into())).boxed())
    }

    fn reconcile(&self, attempt: Attempt) -> BoxFuture<'_, Option<bool>> {
        while_alive(&self.life, self.inner.reconcile(attempt))
    }
}
