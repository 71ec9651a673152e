//! The notes of a store in memory.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::note::{KeySecret, Note, NoteChange, NoteKey, NoteKind};
use super::{NewOperation, StoreError};
use crate::engine::Timestamp;

/// Notes kept, unless said otherwise.
pub(super) const NOTES_MAX: usize = 1_000_000;

#[derive(Clone)]
pub(super) struct Kept {
    by_key: BTreeMap<NoteKey, Note>,
    by_end: BTreeSet<(Timestamp, NoteKey)>,
    /// The latest instant that a note has named.
    latest: Timestamp,
    pub(super) max: usize,
    secret: KeySecret,
}

impl Kept {
    pub(super) fn new() -> Self {
        let (by_key, by_end) = (BTreeMap::new(), BTreeSet::new());
        Self {
            by_key,
            by_end,
            latest: Timestamp::EPOCH,
            max: NOTES_MAX,
            secret: KeySecret::new(KeySecret::random_bytes()),
        }
    }

    pub(super) const fn secret(&self) -> &KeySecret {
        &self.secret
    }

    /// Keeps and forgets the whole batch or, when there is no room for it, nothing.
    pub(super) fn keep(&mut self, batch: &[NoteChange]) -> Result<(), StoreError> {
        let kept = batch.iter().filter_map(|change| match change {
            NoteChange::Keep(note) => Some(note),
            NoteChange::Drop(_) => None,
        });
        self.make_room(kept)?;
        batch.iter().cloned().for_each(|change| self.change(change));
        Ok(())
    }

    /// Forgets what is over; an error when the notes of a batch do not fit all the same.
    fn make_room<'a>(&mut self, notes: impl Iterator<Item = &'a Note> + Clone) -> Result<(), StoreError> {
        self.latest = notes.clone().map(|note| note.at).fold(self.latest, Ord::max);
        while self.by_end.first().is_some_and(|(until, _)| *until <= self.latest) {
            let Some((_, key)) = self.by_end.pop_first() else { break };
            self.by_key.remove(&key);
        }
        let keys = notes.map(|note| &note.key).filter(|key| key.kind.needs_room());
        let fresh: HashSet<&NoteKey> = keys.filter(|key| !self.by_key.contains_key(*key)).collect();
        if !fresh.is_empty() && self.by_key.len() + fresh.len() > self.max {
            return Err(StoreError::Full { bound: format!("{} notes", self.max) });
        }
        Ok(())
    }

    /// Room for the notes that come with operations.
    pub(super) fn make_room_for(&mut self, batch: &[NewOperation]) -> Result<(), StoreError> {
        if batch.iter().all(|new| new.note.is_none()) {
            return Ok(());
        }
        self.make_room(batch.iter().filter_map(|new| new.note.as_ref()))
    }

    pub(super) fn change(&mut self, change: NoteChange) {
        if let Some(before) = self.by_key.remove(change.key()) {
            self.by_end.remove(&(before.until, before.key));
        }
        if let NoteChange::Keep(note) = change {
            self.by_end.insert((note.until, note.key.clone()));
            self.by_key.insert(note.key.clone(), note);
        }
    }

    /// Every note, in order of their keys.
    pub(super) fn notes(&self) -> Vec<Note> {
        self.by_key.values().cloned().collect()
    }

    /// The notes of one mailbox, or those of none.
    pub(super) fn notes_of(&self, mailbox: Option<&str>) -> Vec<Note> {
        let mailbox: Option<Arc<str>> = mailbox.map(Into::into);
        let of = |kind| {
            let first = NoteKey { kind, mailbox: mailbox.clone(), name: Arc::default() };
            let rest = self.by_key.range(first..).map(|(_, note)| note);
            rest.take_while(move |note| note.key.kind == kind).take_while(|note| note.key.mailbox == mailbox)
        };
        NoteKind::ALL.into_iter().flat_map(of).cloned().collect()
    }
}
