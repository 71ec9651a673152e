//! What operators have ordered and is in force, each with its end: for people, and for engines built later.
//!
//! The engines obey; this remembers, because an engine that is rebuilt knows nothing of what a person said, and because
//! reasons are for people: they are in no event and in no engine. Each is in the store before its order
//! is answered, and is read back at the start.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::engine::Timestamp;

/// Notes of one kind in force at once, at most.
pub(crate) const NOTES_MAX: usize = 10_000;

/// An order about a scope that ends by itself.
pub(crate) trait Note: Clone {
    type Scope: PartialEq;

    fn scope(&self) -> &Self::Scope;
    fn until(&self) -> Timestamp;
}

#[derive(Debug)]
pub(crate) struct Notes<N> {
    inner: Mutex<Vec<N>>,
}

/// As many are in force as are allowed.
#[derive(Debug)]
pub(crate) struct TooMany;

impl<N> Default for Notes<N> {
    fn default() -> Self {
        Self { inner: Mutex::default() }
    }
}

impl<N: Note> Notes<N> {
    pub(super) fn lock(&self, now: Timestamp) -> MutexGuard<'_, Vec<N>> {
        let mut notes = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        notes.retain(|note| note.until() > now);
        notes
    }

    /// Those that an earlier process left.
    pub(crate) fn seed(&self, notes: impl Iterator<Item = N>) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).extend(notes.take(NOTES_MAX));
    }

    /// Takes a note in place of an earlier one of the same scope, and returns that.
    pub(crate) fn note(&self, now: Timestamp, note: N) -> Result<Option<N>, TooMany> {
        let mut notes = self.lock(now);
        let earlier = notes.iter().position(|other| other.scope() == note.scope());
        if earlier.is_none() && notes.len() >= NOTES_MAX {
            return Err(TooMany);
        }
        let earlier = earlier.map(|at| notes.remove(at));
        notes.push(note);
        Ok(earlier)
    }

    /// The order of the last note was not given: what was noted before it holds again.
    pub(crate) fn take_back(&self, now: Timestamp, scope: &N::Scope, earlier: Option<N>) {
        let mut notes = self.lock(now);
        notes.retain(|note| note.scope() != scope);
        notes.extend(earlier);
    }

    /// Lifts a note, and returns it.
    pub(crate) fn lift(&self, now: Timestamp, scope: &N::Scope) -> Option<N> {
        let mut notes = self.lock(now);
        let at = notes.iter().position(|note| note.scope() == scope);
        at.map(|at| notes.remove(at))
    }

    /// Every one in force, oldest first.
    pub(crate) fn all(&self, now: Timestamp) -> Vec<N> {
        self.lock(now).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Word(usize, Timestamp);

    impl Note for Word {
        type Scope = usize;

        fn scope(&self) -> &usize {
            &self.0
        }

        fn until(&self) -> Timestamp {
            self.1
        }
    }

    const NOW: Timestamp = Timestamp::from_micros(1_000);
    const LATER: Timestamp = Timestamp::from_micros(2_000);

    #[test]
    fn a_note_replaces_the_earlier_one_of_its_scope_even_when_there_is_no_room_for_another() {
        let notes = Notes::default();
        for scope in 0..NOTES_MAX {
            assert_eq!(notes.note(NOW, Word(scope, LATER)).expect("room"), None);
        }
        assert!(notes.note(NOW, Word(NOTES_MAX, LATER)).is_err(), "one above the bound");
        let until = Timestamp::from_micros(3_000);
        assert_eq!(notes.note(NOW, Word(7, until)).expect("in its place"), Some(Word(7, LATER)));
        assert_eq!(notes.all(LATER), [Word(7, until)], "a note ends at its instant");
    }

    #[test]
    fn a_note_that_is_taken_back_leaves_what_was_noted_before_it() {
        let notes = Notes::default();
        let first = Word(1, LATER);
        assert!(notes.note(NOW, first.clone()).expect("room").is_none());
        let earlier = notes.note(NOW, Word(1, Timestamp::NEVER)).expect("room");
        notes.take_back(NOW, &1, earlier);
        assert_eq!(notes.all(NOW), [first]);
        notes.take_back(NOW, &1, None);
        assert!(notes.all(NOW).is_empty());
    }
}
