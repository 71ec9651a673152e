//! A store that forgets everything with the process: for tests, demos, and senders whose emails can be made again.
//!
//! It keeps the promises of [`Store`] within one process: idempotent by id, attempt rows before sends, one state at a
//! time. Its futures are ready at their first poll, so the scheduler never leaves its thread for it. What it cannot do
//! is survive a crash. Operations that are over are kept up to a bound and then forgotten, oldest first: their ids can be
//! used again, and a mailbox rebuilt after a panic no longer counts their attempts. Raise the bound where that matters.
//! A query looks at every operation, under the lock that every other call takes.

mod row;

use std::collections::hash_map::{Entry, HashMap};
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, FutureExt, ready};

use self::row::{Places, Row};
use super::kept::Kept;
use super::note::NoteChange;
use super::rules::{ClaimRule, RecordRule, impossible, is_over, taken_key};
use super::{
    AttemptRecord, Claim, Inserted, NewOperation, OperationQuery, OperationRecord, Recovery, Store, StoreError,
};
use crate::email::Email;
use crate::engine::mailbox::Record;
use crate::engine::operation::KeyMap;
use crate::engine::{OperationKey, OperationState, Timestamp};

/// Operations that are live or quarantined, at most, unless said otherwise.
const LIVE_MAX: usize = 2_000_000;
/// Final operations kept, unless said otherwise.
const FINAL_MAX: usize = 200_000;

/// What a store held at one instant.
#[cfg(feature = "test-util")]
pub(super) struct Image(Rows);

/// A store in memory. Cheap to clone; clones share what is stored, so a second scheduler can be started over it.
#[derive(Clone)]
pub struct MemoryStore {
    rows: Arc<Mutex<Rows>>,
}

#[derive(Clone)]
struct Rows {
    /// Boxed: a table of rows would be twice its rows for a while at each growth, and every look-up a page of its own.
    by_key: KeyMap<Box<Row>>,
    by_id: HashMap<Arc<str>, OperationKey>,
    finals: VecDeque<OperationKey>,
    counts: [u64; 10],
    last_key: Option<OperationKey>,
    live_max: usize,
    final_max: usize,
    kept: Kept,
    places: Places,
}

impl MemoryStore {
    /// An empty store with the default bounds: two million live operations, 200,000 final ones.
    #[must_use]
    pub fn new() -> Self {
        Self::with_bounds(LIVE_MAX, FINAL_MAX)
    }

    /// An empty store that refuses more than `live_max` live operations and keeps `final_max` final ones.
    #[must_use]
    pub fn with_bounds(live_max: usize, final_max: usize) -> Self {
        let rows = Rows {
            by_key: KeyMap::default(),
            by_id: HashMap::new(),
            finals: VecDeque::new(),
            counts: [0; 10],
            last_key: None,
            live_max,
            final_max,
            kept: Kept::new(),
            places: Places::default(),
        };
        Self { rows: Arc::new(Mutex::new(rows)) }
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
        self.rows().kept.notes(None).into_iter().filter(|note| note.key.mailbox.is_none()).collect()
    }

    #[cfg(feature = "test-util")]
    pub(super) fn row(&self, key: OperationKey) -> Option<OperationRecord> {
        self.rows().by_key.get(&key).map(|row| row.record())
    }

    /// Mailboxes with operations that are not final.
    #[cfg(feature = "test-util")]
    pub(super) fn live_mailboxes(&self) -> std::collections::BTreeSet<Arc<str>> {
        let rows = self.rows();
        let live = rows.by_key.values().filter(|row| !row.state.is_final());
        live.map(|row| Arc::clone(row.mailbox())).collect()
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

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("operations", &self.rows().by_key.len()).finish()
    }
}

impl Rows {
    /// Stores the whole batch or, when there is no room for all of it, nothing.
    fn insert_all(&mut self, batch: Vec<NewOperation>) -> Result<Vec<Inserted>, StoreError> {
        let live = self.by_key.len() - self.finals.len();
        // Which of them are new matters near the bound and for a key that is taken: hardly ever, and it hashes each id.
        let close = live + batch.len() > self.live_max;
        if (close || batch.iter().any(|new| self.by_key.contains_key(&new.key)))
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
            let is_new = !self.by_id.contains_key(&new.id) && fresh.insert(&*new.id);
            if is_new && self.by_key.contains_key(&new.key) {
                return Err(taken_key(new.key));
            }
        }
        Ok(fresh.len())
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
        let place = match self.by_id.entry(Arc::clone(&new.id)) {
            Entry::Vacant(place) => place,
            Entry::Occupied(found) => {
                return match self.by_key.get(found.get()) {
                    Some(row) if row.fingerprint == new.fingerprint => Inserted::Existing(Box::new(row.record())),
                    _ => Inserted::Conflict,
                };
            }
        };
        place.insert(new.key);
        self.last_key = self.last_key.max(Some(new.key));
        let row = Box::new(Row::new(new, &mut self.places));
        self.counts[slot(row.state)] += 1;
        self.by_key.insert(row.key, row);
        Inserted::New
    }

    fn claim(&mut self, claim: Claim) -> Option<Email> {
        let row = self.by_key.get_mut(&claim.key)?;
        let before = row.state;
        match row.seen().claim(claim.attempt) {
            ClaimRule::Refuse => return None,
            ClaimRule::Repeat => {}
            ClaimRule::Write => row.claim(&claim),
        }
        let email = row.email.clone();
        self.moved(before, OperationState::Attempting);
        email
    }

    fn record(&mut self, record: &Record) -> Result<(), StoreError> {
        let Some(row) = self.by_key.get_mut(&record.key) else { return Ok(()) };
        let before = row.state;
        match row.seen().record(record).map_err(|illegal| impossible(record.key, illegal))? {
            RecordRule::Skip => return Ok(()),
            RecordRule::Apply => row.apply(record),
        }
        self.moved(before, record.state);
        if is_over(record.state) && !is_over(before) {
            self.retire(record.key);
        }
        Ok(())
    }

    /// Counts one change of state.
    fn moved(&mut self, from: OperationState, to: OperationState) {
        self.counts[slot(from)] = self.counts[slot(from)].saturating_sub(1);
        self.counts[slot(to)] += 1;
    }

    /// Takes a final operation's email off it, and forgets the oldest final one above the bound.
    fn retire(&mut self, key: OperationKey) {
        if let Some(row) = self.by_key.get_mut(&key) {
            row.email = None;
        }
        self.finals.push_back(key);
        while self.finals.len() > self.final_max {
            let Some(row) = self.finals.pop_front().and_then(|oldest| self.by_key.remove(&oldest)) else { continue };
            self.by_id.remove(&row.id);
            let slot = slot(row.state);
            self.counts[slot] = self.counts[slot].saturating_sub(1);
        }
    }

    fn recover(&self, since: Timestamp, mailbox: Option<&str>) -> Recovery {
        let mut rows: Vec<&Row> = self
            .by_key
            .values()
            .map(|row| &**row)
            .filter(|row| mailbox.is_none_or(|mailbox| row.is_of(mailbox)))
            .collect();
        rows.sort_unstable_by_key(|row| row.key);
        let mut attempts: Vec<AttemptRecord> = rows.iter().flat_map(|row| row.tried()).collect();
        attempts.retain(|attempt| attempt.claimed_at >= since);
        attempts.sort_by_key(|attempt| (attempt.claimed_at, attempt.key, attempt.attempt));
        let operations = rows.iter().filter(|row| !row.state.is_final()).map(|row| row.record()).collect();
        let (notes, secret) = (self.kept.notes(mailbox), self.kept.secret().clone());
        Recovery { operations, attempts, last_key: self.last_key, notes, secret, ..Recovery::default() }
    }

    /// Looks at every row: nothing here is in order of key.
    fn query(&self, query: &OperationQuery) -> Vec<OperationRecord> {
        let mut found: Vec<&Row> = self.by_key.values().map(|row| &**row).filter(|row| row.is_wanted(query)).collect();
        found.sort_unstable_by_key(|row| row.key);
        found.into_iter().take(query.limit).map(Row::record).collect()
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
        ready(Ok(self.rows().by_key.get(&key).and_then(|row| row.email.clone()))).boxed()
    }

    fn operation(&self, id: &str) -> BoxFuture<'_, Result<Option<OperationRecord>, StoreError>> {
        let rows = self.rows();
        let row = rows.by_id.get(id).and_then(|key| rows.by_key.get(key));
        ready(Ok(row.map(|row| row.record()))).boxed()
    }

    fn operations(&self, query: OperationQuery) -> BoxFuture<'_, Result<Vec<OperationRecord>, StoreError>> {
        ready(Ok(self.rows().query(&query))).boxed()
    }

    fn counts(&self) -> BoxFuture<'_, Result<[u64; 10], StoreError>> {
        ready(Ok(self.rows().counts)).boxed()
    }
}
