//! Orders that lifted something, for people: why, by whom, and what it was.
//!
//! What was lifted is gone, and words are in no event, so this is where the question "who let that go, and why?" is
//! answered, also after a restart. It decides nothing and no engine reads it. What ended by itself is not in it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::holds::HoldScope;
use crate::engine::{Scope, Timestamp};
use crate::store::{LiftedHow, LiftedNote, Note, NoteBody, NoteChange, NoteKey, NoteKind, OrderNote};

/// How long a lifted order can be asked for: a day, so that each shift can ask what the one before it did.
pub const LIFTED_FOR: Duration = Duration::from_secs(24 * 3_600);

/// Lifted orders kept at once, at most; the oldest gives way. A tenth of the holds that can be in force: at 1.5 kB with
/// the longest words a list of 1.5 MB at worst.
pub const LIFTED_MAX: usize = 1_000;

/// What was lifted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lifted {
    /// A hold.
    Hold(HoldScope),
    /// An open breaker.
    Breaker(Scope),
}

/// Somebody's words: why, and who.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// Why, in the operator's words.
    pub reason: Arc<str>,
    /// Who ordered it, if they said.
    pub by: Option<Arc<str>>,
}

/// One order that lifted a hold or closed a breaker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiftedFacts {
    /// What was lifted.
    pub what: Lifted,
    /// The order that was in force until then; `None`: no person's (a provider's cooldown or suspension, an actor
    /// that failed again and again), or nothing.
    pub ordered: Option<Words>,
    /// Why, in the operator's words.
    pub reason: Arc<str>,
    /// Who lifted it, if they said.
    pub by: Option<Arc<str>>,
    /// When.
    pub at: Timestamp,
    /// How it ended.
    pub how: LiftedHow,
}

impl LiftedFacts {
    fn key(&self) -> NoteKey {
        let scope = match &self.what {
            Lifted::Hold(scope) => format!("hold:{scope}"),
            Lifted::Breaker(scope) => format!("trip:{scope}"),
        };
        let name = format!("{}:{scope}", self.at.as_micros());
        NoteKey { kind: NoteKind::Lifted, mailbox: None, name: name.into() }
    }

    fn until(&self) -> Timestamp {
        self.at.after(LIFTED_FOR)
    }

    fn note(&self) -> Note {
        let order = |reason: &Arc<str>, by: &Option<Arc<str>>| OrderNote {
            reason: Arc::clone(reason),
            by: by.clone(),
            widening: None,
        };
        let ordered = self.ordered.as_ref().map(|words| order(&words.reason, &words.by));
        let lifted = LiftedNote { ordered, lifted: order(&self.reason, &self.by), how: self.how };
        Note { key: self.key(), at: self.at, until: self.until(), body: NoteBody::Lifted(Box::new(lifted)) }
    }

    fn read(note: &Note) -> Option<Self> {
        let (NoteKind::Lifted, NoteBody::Lifted(said)) = (note.key.kind, &note.body) else { return None };
        let what = match note.key.name.split_once(':')?.1.split_once(':')? {
            ("hold", scope) => Lifted::Hold(HoldScope::parse(scope)?),
            ("trip", scope) => Lifted::Breaker(breaker(scope)?),
            _ => return None,
        };
        let OrderNote { reason, by, .. } = said.lifted.clone();
        let ordered = said.ordered.clone().map(|order| Words { reason: order.reason, by: order.by });
        Some(Self { what, ordered, reason, by, at: note.at, how: said.how })
    }
}

/// The scope that is printed as `text`.
fn breaker(text: &str) -> Option<Scope> {
    match text.split_once(':') {
        None if text == "application" => Some(Scope::Application),
        Some(("mailbox", id)) => Some(Scope::Mailbox(id.into())),
        Some(("tenant", id)) => Some(Scope::Tenant(id.into())),
        _ => None,
    }
}

/// Those that can be asked for, oldest first.
#[derive(Debug, Default)]
pub(crate) struct LiftedBook {
    inner: Mutex<VecDeque<LiftedFacts>>,
}

/// What one more entry changes in the store, and what takes it back.
#[derive(Debug)]
pub(crate) struct Entered {
    facts: LiftedFacts,
    displaced: Vec<LiftedFacts>,
}

impl LiftedBook {
    /// Those that the store has.
    pub(crate) fn of(notes: &[Note]) -> Self {
        let book = Self::default();
        book.learn(Timestamp::EPOCH, notes);
        book
    }

    /// Takes in what others have written.
    pub(crate) fn learn(&self, now: Timestamp, notes: &[Note]) {
        let mut book = self.lock(now);
        for facts in notes.iter().filter_map(LiftedFacts::read).filter(|facts| facts.until() > now) {
            if !book.contains(&facts) {
                book.push_back(facts);
            }
        }
        book.make_contiguous().sort_by_key(|facts| facts.at);
        let surplus = book.len().saturating_sub(LIFTED_MAX);
        drop(book.drain(..surplus));
    }

    fn lock(&self, now: Timestamp) -> MutexGuard<'_, VecDeque<LiftedFacts>> {
        let mut book = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        book.retain(|facts| facts.until() > now);
        book
    }

    /// Enters an order; the oldest gives way when there is no room.
    pub(crate) fn enter(&self, now: Timestamp, facts: LiftedFacts) -> Entered {
        let mut book = self.lock(now);
        let key = facts.key();
        // Two in one microsecond have one name: the later counts.
        let same = book.iter().position(|other| other.key() == key);
        let mut displaced: Vec<_> = same.and_then(|at| book.remove(at)).into_iter().collect();
        if book.len() >= LIFTED_MAX {
            displaced.extend(book.pop_front());
        }
        book.push_back(facts.clone());
        Entered { facts, displaced }
    }

    /// The order was not given.
    pub(crate) fn take_back(&self, now: Timestamp, entered: Entered) {
        let mut book = self.lock(now);
        book.retain(|facts| *facts != entered.facts);
        book.extend(entered.displaced);
        book.make_contiguous().sort_by_key(|facts| facts.at);
    }

    /// Every one that can be asked for, oldest first.
    pub(crate) fn all(&self, now: Timestamp) -> Vec<LiftedFacts> {
        self.lock(now).iter().cloned().collect()
    }
}

impl Entered {
    /// What the store has to keep and forget.
    pub(crate) fn changes(&self) -> impl Iterator<Item = NoteChange> {
        let displaced = self.displaced.iter().map(|facts| NoteChange::Drop(facts.key()));
        displaced.chain([NoteChange::Keep(self.facts.note())])
    }

    /// What undoes that.
    pub(crate) fn back(&self) -> impl Iterator<Item = NoteChange> {
        let displaced = self.displaced.iter().map(|facts| NoteChange::Keep(facts.note()));
        [NoteChange::Drop(self.facts.key())].into_iter().chain(displaced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifted(second: u64, what: Lifted) -> LiftedFacts {
        LiftedFacts {
            what,
            ordered: Some(Words { reason: "a look".into(), by: None }),
            reason: "done".into(),
            by: Some("kim".into()),
            at: Timestamp::from_micros(second * 1_000_000),
            how: LiftedHow::Order,
        }
    }

    fn everywhere() -> Vec<Lifted> {
        let mut all = vec![Lifted::Hold(HoldScope::All)];
        all.push(Lifted::Hold(HoldScope::Mailbox("a:b@contoso.example".into())));
        all.push(Lifted::Hold(HoldScope::Operation("1".into())));
        all.push(Lifted::Hold(HoldScope::Tenant("hold:all".into())));
        all.push(Lifted::Hold(HoldScope::Campaign("spring".into())));
        all.push(Lifted::Breaker(Scope::Application));
        all.push(Lifted::Breaker(Scope::Tenant("acme".into())));
        all.push(Lifted::Breaker(Scope::Mailbox("a@contoso.example".into())));
        all
    }

    #[test]
    fn what_is_written_is_read_back_whatever_was_lifted() {
        for facts in everywhere().into_iter().map(|what| lifted(5, what)) {
            assert_eq!(LiftedFacts::read(&facts.note()), Some(facts));
        }
    }

    #[test]
    fn the_oldest_gives_way_and_comes_back_when_the_order_fails() {
        let (book, now) = (LiftedBook::default(), Timestamp::from_micros(1));
        for second in 0..1_000 {
            assert!(book.enter(now, lifted(second, Lifted::Hold(HoldScope::All))).displaced.is_empty());
        }
        let before = book.all(now);
        let entered = book.enter(now, lifted(1_000, Lifted::Breaker(Scope::Application)));
        let after = book.all(now);
        assert_eq!((after.len(), &after[..999]), (LIFTED_MAX, &before[1..]));
        assert_eq!(entered.changes().next(), Some(NoteChange::Drop(before[0].key())));
        assert_eq!(entered.back().last(), Some(NoteChange::Keep(before[0].note())));
        book.take_back(now, entered);
        assert_eq!(book.all(now), before);
        assert!(book.all(before[999].until()).is_empty(), "a day later it is forgotten");
        let mut notes: Vec<_> = after.iter().chain(&before[..1]).map(LiftedFacts::note).collect();
        notes.sort_by(|one, other| one.key.cmp(&other.key));
        assert_eq!(LiftedBook::of(&notes).all(now), after, "also when a crash left one too many");
    }
}
