//! Admission keys: one operation per key and cooldown, however often the button is pressed.
//!
//! A repeat gets the ticket of the operation that came first, as if it had been that one: whoever repeats learns
//! nothing, and nothing is stored. Keys are here and in the store as keyed hashes only. They live with the mailbox's
//! actor, which stays while one of them counts; each is stored with its operation, and read back at the start. Above the
//! bound (`submit.admission_keys_max`) a key that does not count yet is refused: to forget one that does would send its
//! email a second time.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use fnv::FnvHashMap;

use super::entrance::Handed;
use crate::engine::mailbox::Outcome;
use crate::engine::{OperationKey, Timestamp};
use crate::store::KeyHash;

/// Repeats that wait at once in one mailbox until the store has answered for the first, at most.
pub(crate) const REPEATS_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub(crate) struct Admissions {
    by_key: HashMap<KeyHash, Admission>,
    by_operation: FnvHashMap<OperationKey, KeyHash>,
    ends: BTreeSet<(Timestamp, KeyHash)>,
    released: Vec<Handed>,
    /// Repeats that wait, and released ones.
    waiting: usize,
}

/// The operation that a key has admitted.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) id: Arc<str>,
    /// Its number, unless only its row tells.
    pub(crate) operation: Option<OperationKey>,
    pub(crate) stage: Stage,
    until: Timestamp,
}

/// A key that an earlier life of this mailbox has stored.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) hash: KeyHash,
    /// The operation it admitted.
    pub(crate) id: Arc<str>,
    pub(crate) until: Timestamp,
}

#[derive(Debug)]
pub(crate) enum Stage {
    /// It is being stored; these repeats wait for that.
    Storing(Vec<Handed>),
    /// It is live.
    Live,
    /// An earlier life admitted it, and it was not live at the start: its row tells.
    Past,
    /// It has come to an end.
    Over(Outcome),
}

impl Admissions {
    /// What a key has admitted, while it counts.
    pub(crate) fn find(&mut self, now: Timestamp, key: KeyHash) -> Option<&mut Admission> {
        self.expire(now);
        self.by_key.get_mut(&key)
    }

    /// Has a repeat wait until what its key has admitted is stored; gives it back when too many wait.
    pub(crate) fn wait(&mut self, repeat: Box<Handed>, key: KeyHash) -> Result<(), Box<Handed>> {
        match self.by_key.get_mut(&key).map(|admission| &mut admission.stage) {
            Some(Stage::Storing(waiting)) if self.waiting < REPEATS_MAX => {
                self.waiting += 1;
                waiting.push(*repeat);
                Ok(())
            }
            _ => Err(repeat),
        }
    }

    /// Whether no key counts.
    pub(crate) fn is_empty(&mut self, now: Timestamp) -> bool {
        self.expire(now);
        self.by_key.is_empty()
    }

    /// When there is room for a key that does not count yet: `None`, now; else after this, when the first one ends.
    pub(crate) fn full_for(&mut self, now: Timestamp, keys_max: usize) -> Option<Duration> {
        self.expire(now);
        let first = self.ends.first().filter(|_| self.by_key.len() >= keys_max);
        first.map(|(until, _)| until.since(now))
    }

    /// A key admits an operation, which is to be stored. Whoever opens it has asked for [room](Self::full_for).
    pub(crate) fn open(&mut self, key: KeyHash, until: Timestamp, operation: OperationKey, id: Arc<str>) {
        self.insert(key, Admission { id, operation: Some(operation), stage: Stage::Storing(Vec::new()), until });
        self.by_operation.insert(operation, key);
    }

    /// Takes up the keys of an earlier life that are not here, all of them; `live` tells which of their operations are.
    pub(crate) fn restore(
        &mut self,
        now: Timestamp,
        kept: impl Iterator<Item = Kept>,
        live: impl Fn(&str) -> Option<OperationKey>,
    ) {
        for Kept { hash, id, until } in kept {
            if until <= now || self.by_key.contains_key(&hash) {
                continue;
            }
            let operation = live(&id);
            let stage = if operation.is_some() { Stage::Live } else { Stage::Past };
            self.insert(hash, Admission { id, operation, stage, until });
            self.by_operation.extend(operation.map(|operation| (operation, hash)));
        }
    }

    fn insert(&mut self, key: KeyHash, admission: Admission) {
        self.ends.insert((admission.until, key));
        self.by_key.insert(key, admission);
    }

    /// The operation is stored, as `stored` where its id was known before. Returns the repeats that waited.
    pub(crate) fn stored(
        &mut self,
        operation: OperationKey,
        stored: OperationKey,
        outcome: Option<Outcome>,
    ) -> Vec<Handed> {
        let Some(key) = self.by_operation.remove(&operation) else { return Vec::new() };
        let Some(admission) = self.by_key.get_mut(&key) else { return Vec::new() };
        self.by_operation.insert(stored, key);
        admission.operation = Some(stored);
        let stage = outcome.map_or(Stage::Live, Stage::Over);
        let before = std::mem::replace(&mut admission.stage, stage);
        self.waited(before)
    }

    /// It was not stored: the key is free. Returns the repeats that waited.
    pub(crate) fn failed(&mut self, operation: OperationKey) -> Vec<Handed> {
        let Some(key) = self.by_operation.remove(&operation) else { return Vec::new() };
        let Some(admission) = self.by_key.remove(&key) else { return Vec::new() };
        self.ends.remove(&(admission.until, key));
        self.waited(admission.stage)
    }

    /// Nobody will tell soon whether it was stored: the key stays taken. Returns the repeats that waited.
    pub(crate) fn give_up_waiting(&mut self, operation: OperationKey) -> Vec<Handed> {
        let key = self.by_operation.get(&operation);
        match key.and_then(|key| self.by_key.get_mut(key)).map(|admission| &mut admission.stage) {
            Some(Stage::Storing(waiting)) => {
                self.waiting -= waiting.len();
                std::mem::take(waiting)
            }
            _ => Vec::new(),
        }
    }

    /// Repeats whose key ended while they waited.
    pub(crate) fn take_released(&mut self) -> Vec<Handed> {
        self.waiting -= self.released.len();
        std::mem::take(&mut self.released)
    }

    /// Those who waited in a stage that is over.
    fn waited(&mut self, stage: Stage) -> Vec<Handed> {
        let Stage::Storing(waiting) = stage else { return Vec::new() };
        self.waiting -= waiting.len();
        waiting
    }

    /// An operation came to an end.
    pub(crate) fn concluded(&mut self, operation: OperationKey, outcome: &Outcome) {
        let key = self.by_operation.get(&operation);
        if let Some(admission) = key.and_then(|key| self.by_key.get_mut(key)) {
            admission.stage = Stage::Over(outcome.clone());
        }
    }

    fn expire(&mut self, now: Timestamp) {
        while self.ends.first().is_some_and(|(until, _)| *until <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((_, key)) = self.ends.pop_first() else { return };
        let Some(admission) = self.by_key.remove(&key) else { return };
        if let Some(operation) = admission.operation {
            self.by_operation.remove(&operation);
        }
        if let Stage::Storing(waiting) = admission.stage {
            // A cooldown shorter than a write to the store: the repeats are submissions like any other then.
            self.released.extend(waiting);
        }
    }
}
