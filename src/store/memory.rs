//! A store that forgets everything with the process: for tests, demos, and senders whose emails can be made again.
//!
//! It keeps the promises of [`Store`] within one process: idempotent by id, attempt rows before sends, one state at a
//! time. Its futures are ready at their first poll, so the scheduler never leaves its thread for it. What it cannot do
//! is survive a crash. Operations that are over are kept up to a bound and then forgotten, oldest first: their ids can be
//! used again, and a mailbox rebuilt after a panic no longer counts their attempts. Raise the bound where that matters.
//!
//! One lock, and no call holds it for long: a query looks at about as many rows as it answers with, however many there
//! are, and so does every other call but a recovery, which tells what there is. A mailbox's recovery reads its own rows.

mod places;
mod row;
mod run;
mod search;
mod shelf;
#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, FutureExt, ready};
use hashbrown::HashTable;

use self::row::Row;
use self::shelf::Shelves;
use super::attachment::Place;
use super::kept::Kept;
use super::note::NoteChange;
use super::rules::{ClaimRule, RecordRule, impossible, is_over, taken_key};
use super::{
    Attachment, AttemptRecord, Claim, IdView, Inserted, NewOperation, OperationQuery, OperationRecord, Recovery, Slab,
    Store, StoreError,
};
use crate::config::MemoryStoreConfig;
use crate::email::Email;
use crate::engine::mailbox::Record;
use crate::engine::{OperationKey, OperationState, Timestamp};

/// What a store held at one instant.
#[cfg(feature = "test-util")]
pub(super) struct Image(Rows);

/// A store in memory. Cheap to clone; clones share what is stored, so a
/// scheduler can be started over what an earlier one left; one at a time.
#[derive(Clone)]
pub struct MemoryStore {
    rows: Arc<Mutex<Rows>>,
    place: Place,
}

#[derive(Clone)]
struct Rows {
    rows: Slab<Row>,
    /// Slots by id. Callers choose ids, so the hash is one that nobody can aim at.
    by_id: HashTable<u32>,
    hash: RandomState,
    shelves: Shelves,
    finals: VecDeque<OperationKey>,
    counts: [u64; 10],
    last_key: Option<OperationKey>,
    live_max: usize,
    final_max: usize,
    kept: Kept,
}

impl MemoryStore {
    /// An empty store with the default bounds: two million live operations, 200,000 final ones.
    #[must_use]
    pub fn new() -> Self {
        Self::from(&MemoryStoreConfig::default())
    }

    /// An empty store that refuses more than `live_max` live operations and keeps `final_max` final ones.
    #[must_use]
    pub fn with_bounds(live_max: usize, final_max: usize) -> Self {
        let rows = Rows {
            rows: Slab::default(),
            by_id: HashTable::new(),
            hash: RandomState::new(),
            shelves: Shelves::default(),
            finals: VecDeque::new(),
            counts: [0; 10],
            last_key: None,
            live_max,
            final_max,
            kept: Kept::new(),
        };
        Self { rows: Arc::new(Mutex::new(rows)), place: Place::default() }
    }

    /// With another bound on notes than a million. What is kept stays.
    #[must_use]
    pub fn notes_max(self, notes_max: usize) -> Self {
        self.rows().kept.max = notes_max;
        self
    }

    /// Everything as it stands.
    #[cfg(feature = "test-util")]
    pub(super) fn image(&self) -> Image {
        Image(self.rows().clone())
    }

    /// Everything as it was.
    #[cfg(feature = "test-util")]
    pub(super) fn put_back(&self, image: Image) {
        *self.rows() = image.0;
    }

    #[cfg(feature = "test-util")]
    pub(super) fn secret(&self) -> super::KeySecret {
        self.rows().kept.secret().clone()
    }

    /// The notes of no mailbox.
    #[cfg(feature = "test-util")]
    pub(super) fn shared_notes(&self) -> Vec<super::Note> {
        self.rows().kept.notes_of(None)
    }

    #[cfg(feature = "test-util")]
    pub(super) fn row(&self, key: OperationKey) -> Option<OperationRecord> {
        let rows = self.rows();
        rows.rows.get(key).map(|row| row.record(rows.shelves.places()))
    }

    /// Mailboxes with operations that are not final.
    #[cfg(feature = "test-util")]
    pub(super) fn live_mailboxes(&self) -> std::collections::BTreeSet<Arc<str>> {
        self.rows().shelves.live_mailboxes().cloned().collect()
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        // Every method leaves the rows consistent before it can panic, so a poisoned lock is still good.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

/// What `[store.memory]` says.
impl From<&MemoryStoreConfig> for MemoryStore {
    fn from(config: &MemoryStoreConfig) -> Self {
        Self::with_bounds(config.live_max, config.ended_max).notes_max(config.notes_max)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("operations", &self.rows().rows.len()).finish()
    }
}

impl Rows {
    /// Stores the whole batch or, when there is no room for all of it, nothing.
    fn insert_all(&mut self, batch: Vec<NewOperation>) -> Result<Vec<Inserted>, StoreError> {
        let live = self.rows.len() - self.finals.len();
        // Which of them are new matters near the bound and for a key that is taken: hardly ever, and it hashes each id.
        let close = live + batch.len() > self.live_max;
        if (close || batch.iter().any(|new| self.rows.find(new.key).is_some()))
            && live + self.fresh(&batch)? > self.live_max
        {
            return Err(StoreError::Full { bound: format!("{} live operations", self.live_max) });
        }
        self.kept.make_room_for(&batch)?;
        Ok(batch.into_iter().map(|new| self.insert_noted(new)).collect())
    }

    /// How many of a batch are new; an error when one of them has another's key.
    fn fresh(&self, batch: &[NewOperation]) -> Result<usize, StoreError> {
        let mut fresh = HashSet::new();
        for new in batch {
            let is_new = self.by_id(&new.id).is_none() && fresh.insert(&*new.id);
            if is_new && self.rows.find(new.key).is_some() {
                return Err(taken_key(new.key));
            }
        }
        Ok(fresh.len())
    }

    fn by_id(&self, id: &str) -> Option<&Row> {
        let id = IdView::of(id);
        let found = self.by_id.find(self.hash.hash_one(id), |slot| self.rows.at(*slot).id.view() == id);
        found.map(|slot| self.rows.at(*slot))
    }

    fn insert_noted(&mut self, mut new: NewOperation) -> Inserted {
        let note = new.note.take();
        let inserted = self.insert(new);
        if let Some(note) = note.filter(|_| inserted != Inserted::Conflict) {
            self.kept.change(NoteChange::Keep(note));
        }
        inserted
    }

    fn insert(&mut self, new: NewOperation) -> Inserted {
        match self.by_id(&new.id) {
            Some(row) if row.fingerprint == new.fingerprint => {
                return Inserted::Existing(Box::new(row.record(self.shelves.places())));
            }
            Some(_) => return Inserted::Conflict,
            None => {}
        }
        self.last_key = self.last_key.max(Some(new.key));
        let row = Row::new(new, &mut self.shelves);
        self.counts[slot(row.state)] += 1;
        let (hash, at) = (self.hash.hash_one(&row.id), self.rows.insert(row));
        self.by_id.insert_unique(hash, at, |at| self.hash.hash_one(&self.rows.at(*at).id));
        self.shelves.put(&mut self.rows, at);
        Inserted::New
    }

    fn claim(&mut self, claim: Claim) -> Option<Email> {
        let at = self.rows.find(claim.key)?;
        match self.rows.at(at).seen().claim(claim.attempt) {
            ClaimRule::Refuse => return None,
            ClaimRule::Repeat => {}
            ClaimRule::Write => self.change(at, |row| row.claim(&claim)),
        }
        self.rows.at(at).email.clone()
    }

    fn record(&mut self, record: &Record) -> Result<(), StoreError> {
        let Some(at) = self.rows.find(record.key) else { return Ok(()) };
        let before = self.rows.at(at).state;
        match self.rows.at(at).seen().record(record).map_err(|illegal| impossible(record.key, illegal))? {
            RecordRule::Skip => return Ok(()),
            RecordRule::Apply => self.change(at, |row| row.apply(record)),
        }
        if is_over(record.state) && !is_over(before) {
            self.retire(record.key);
        }
        Ok(())
    }

    /// Changes a row, counts that, and puts it where it belongs from then on.
    fn change(&mut self, at: u32, change: impl FnOnce(&mut Row)) {
        let row = self.rows.at_mut(at);
        let (before, until) = (row.state, row.waits_until());
        change(row);
        let after = row.state;
        if before != after || until != row.waits_until() {
            self.shelves.take(&mut self.rows, at, before, until);
            self.shelves.put(&mut self.rows, at);
            self.counts[slot(before)] = self.counts[slot(before)].saturating_sub(1);
            self.counts[slot(after)] += 1;
        }
    }

    /// Takes a final operation's email off it, and forgets the oldest final one above the bound.
    fn retire(&mut self, key: OperationKey) {
        if let Some(row) = self.rows.get_mut(key) {
            row.email = None;
        }
        self.finals.push_back(key);
        while self.finals.len() > self.final_max {
            let Some(oldest) = self.finals.pop_front() else { return };
            self.forget(oldest);
        }
    }

    fn forget(&mut self, key: OperationKey) {
        let Some(at) = self.rows.find(key) else { return };
        let (state, until) = (self.rows.at(at).state, self.rows.at(at).waits_until());
        self.shelves.take(&mut self.rows, at, state, until);
        let hash = self.hash.hash_one(&self.rows.at(at).id);
        if let Ok(found) = self.by_id.find_entry(hash, |slot| *slot == at) {
            found.remove();
        }
        if let Some(row) = self.rows.remove(key) {
            self.shelves.leave(&row);
        }
        self.rows.shrink();
        self.counts[slot(state)] = self.counts[slot(state)].saturating_sub(1);
    }

    fn recover(&self, since: Timestamp, mailbox: Option<&str>) -> Recovery {
        let places = self.shelves.places();
        let rows = match mailbox {
            Some(mailbox) => search::of_mailbox(&self.rows, &self.shelves, mailbox),
            None => {
                let mut rows: Vec<&Row> = self.rows.iter().collect();
                rows.sort_unstable_by_key(|row| row.key);
                rows
            }
        };
        let mut attempts: Vec<AttemptRecord> =
            rows.iter().flat_map(|row| row.tried(places)).filter(|attempt| attempt.claimed_at >= since).collect();
        attempts.sort_by_key(|attempt| (attempt.claimed_at, attempt.key, attempt.attempt));
        let operations = rows.iter().filter(|row| !row.state.is_final()).map(|row| row.record(places)).collect();
        let notes = mailbox.map_or_else(|| self.kept.notes(), |mailbox| self.kept.notes_of(Some(mailbox)));
        let secret = self.kept.secret().clone();
        Recovery { operations, attempts, last_key: self.last_key, notes, secret, ..Recovery::default() }
    }

    fn query(&self, query: &OperationQuery) -> Vec<OperationRecord> {
        let found = search::search(&self.rows, &self.shelves, query).rows;
        found.into_iter().map(|row| row.record(self.shelves.places())).collect()
    }
}

/// The place of a state in [`OperationState::ALL`].
const fn slot(state: OperationState) -> usize {
    state as usize
}

impl Store for MemoryStore {
    fn kind(&self) -> &'static str {
        "memory"
    }

    fn attach(&self) -> Result<Attachment, StoreError> {
        self.place.take().ok_or_else(|| StoreError::Unusable {
            reason: "a scheduler runs over this store in memory: drop that one or await its shutdown first, or make a \
                store per scheduler"
                .to_owned(),
        })
    }

    fn recover(&self, since: Timestamp, mailbox: Option<Arc<str>>) -> BoxFuture<'_, Result<Recovery, StoreError>> {
        ready(Ok(self.rows().recover(since, mailbox.as_deref()))).boxed()
    }

    fn insert(&self, batch: Vec<NewOperation>) -> BoxFuture<'_, Result<Vec<Inserted>, StoreError>> {
        ready(self.rows().insert_all(batch)).boxed()
    }

    fn claim(&self, batch: Vec<Claim>) -> BoxFuture<'_, Result<Vec<Option<Email>>, StoreError>> {
        let mut rows = self.rows();
        ready(Ok(batch.into_iter().map(|claim| rows.claim(claim)).collect())).boxed()
    }

    fn keep(&self, batch: Arc<[NoteChange]>) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(self.rows().kept.keep(&batch)).boxed()
    }

    fn record(&self, batch: Arc<[Record]>) -> BoxFuture<'_, Result<(), StoreError>> {
        let mut rows = self.rows();
        // The others are done; the first that contradicts is told.
        let told: Vec<_> = batch.iter().map(|record| rows.record(record)).collect();
        ready(told.into_iter().collect()).boxed()
    }

    fn email(&self, key: OperationKey) -> BoxFuture<'_, Result<Option<Email>, StoreError>> {
        ready(Ok(self.rows().rows.get(key).and_then(|row| row.email.clone()))).boxed()
    }

    fn operation(&self, id: &str) -> BoxFuture<'_, Result<Option<OperationRecord>, StoreError>> {
        let rows = self.rows();
        ready(Ok(rows.by_id(id).map(|row| row.record(rows.shelves.places())))).boxed()
    }

    fn operations(&self, query: OperationQuery) -> BoxFuture<'_, Result<Vec<OperationRecord>, StoreError>> {
        ready(Ok(self.rows().query(&query))).boxed()
    }

    fn counts(&self) -> BoxFuture<'_, Result<[u64; 10], StoreError>> {
        ready(Ok(self.rows().counts)).boxed()
    }
}
