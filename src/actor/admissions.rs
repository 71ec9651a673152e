//! Admission keys: one operation per key and cooldown, however often the button is pressed.
//!
//! A repeat gets the ticket of the operation that came first, as if it had been that one: whoever repeats learns
//! nothing, and nothing is stored. The keys live with the mailbox's actor, which stays while one of them counts; a
//! restart of the process forgets them, and above the bound the one that ends first is forgotten.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use fnv::FnvHashMap;

use super::entrance::Handed;
use crate::engine::mailbox::Outcome;
use crate::engine::{OperationKey, Timestamp};
use crate::submission::AdmissionKey;

/// Keys that count at once in one mailbox, at most.
const KEYS_MAX: usize = 100_000;
/// Repeats that wait at once in one mailbox until the store has answered for the first, at most.
pub(crate) const REPEATS_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub(crate) struct Admissions {
    by_key: HashMap<Arc<str>, Admission>,
    by_operation: FnvHashMap<OperationKey, Arc<str>>,
    ends: BTreeMap<(Timestamp, OperationKey), Arc<str>>,
    released: Vec<Handed>,
    /// Repeats that wait, and released ones.
    waiting: usize,
}

/// The operation that a key has admitted.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) operation: OperationKey,
    pub(crate) id: Arc<str>,
    pub(crate) stage: Stage,
    end: (Timestamp, OperationKey),
}

#[derive(Debug)]
pub(crate) enum Stage {
    /// It is being stored; these repeats wait for that.
    Storing(Vec<Handed>),
    /// It is live.
    Live,
    /// It has come to an end.
    Over(Outcome),
}

impl Admissions {
    /// What a key has admitted, while it counts.
    pub(crate) fn find(&mut self, now: Timestamp, key: &str) -> Option<&mut Admission> {
        self.expire(now);
        self.by_key.get_mut(key)
    }

    /// Has a repeat wait until what its key has admitted is stored; gives it back when too many wait.
    pub(crate) fn wait(&mut self, repeat: Box<Handed>, key: &str) -> Result<(), Box<Handed>> {
        match self.by_key.get_mut(key).map(|admission| &mut admission.stage) {
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

    /// A key admits an operation, which is to be stored.
    pub(crate) fn open(&mut self, now: Timestamp, admission: &AdmissionKey, operation: OperationKey, id: Arc<str>) {
        if self.by_key.len() >= KEYS_MAX {
            self.forget_first();
        }
        let (key, end) = (&admission.key, (now.after(admission.cooldown), operation));
        self.by_key.insert(Arc::clone(key), Admission { operation, id, stage: Stage::Storing(Vec::new()), end });
        self.by_operation.insert(operation, Arc::clone(key));
        self.ends.insert(end, Arc::clone(key));
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
        admission.operation = stored;
        let stage = outcome.map_or(Stage::Live, Stage::Over);
        let before = std::mem::replace(&mut admission.stage, stage);
        self.waited(before)
    }

    /// It was not stored: the key is free. Returns the repeats that waited.
    pub(crate) fn failed(&mut self, operation: OperationKey) -> Vec<Handed> {
        let admission = self.by_operation.remove(&operation).and_then(|key| self.by_key.remove(&key));
        let Some(admission) = admission else { return Vec::new() };
        self.ends.remove(&admission.end);
        self.waited(admission.stage)
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
        while self.ends.first_key_value().is_some_and(|((until, _), _)| *until <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((_, key)) = self.ends.pop_first() else { return };
        let Some(admission) = self.by_key.remove(&key) else { return };
        self.by_operation.remove(&admission.operation);
        if let Stage::Storing(waiting) = admission.stage {
            // A cooldown shorter than a write to the store: the repeats are submissions like any other then.
            self.released.extend(waiting);
        }
    }
}
