//! Orders that have ended, for people: who gave them, why, from when to when, and how each came to its end.
//!
//! What has ended is gone, and words are in no event, so this is where the question "who held that, and who let it go?"
//! is answered, also after a restart. It decides nothing and no engine reads it.
//!
//! An order that is in force ends by itself, whether a process is there or not. So that end is written down together with
//! the order, as the entry that it will be, and gives way to another when somebody lifts or replaces the order before. An
//! entry counts as one when its instant has come.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::holds::{HoldFacts, HoldScope, TripFacts, WideningFacts};
use crate::config::OrdersConfig;
use crate::engine::{Scope, Timestamp};
use crate::store::{EndedHow, EndedNote, Note, NoteBody, NoteChange, NoteKey, NoteKind, OrderNote, WideningNote};
use crate::telemetry::{HoldEvent, system_time};

/// What an order stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderScope {
    /// A hold.
    Hold(HoldScope),
    /// An open breaker.
    Breaker(Scope),
}

/// An order that was in force.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OrderFacts {
    /// Why, in the operator's words.
    pub reason: Arc<str>,
    /// Who gave it, if they said.
    pub by: Option<Arc<str>>,
    /// When it was given.
    pub since: Timestamp,
    /// When it would have ended by itself.
    pub until: Timestamp,
    /// Of a hold that was lifted in part: by whom, how many went first, what stopped it.
    pub part: Option<Box<WideningNote>>,
}

/// How an order came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderEnd {
    /// Somebody lifted all of it.
    Lifted {
        /// Why, in the operator's words.
        reason: Arc<str>,
        /// Who, if they said.
        by: Option<Arc<str>>,
    },
    /// Somebody lifted a part of it, which went well; then the rest went by itself.
    InPart {
        /// Why, in the operator's words.
        reason: Arc<str>,
        /// Who, if they said.
        by: Option<Arc<str>>,
    },
    /// A later order took its place.
    Replaced {
        /// Why, in the words of the later one.
        reason: Arc<str>,
        /// Who gave that, if they said.
        by: Option<Arc<str>>,
    },
    /// Its time was over.
    Expired,
}

/// One order that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndedFacts {
    /// What it stopped.
    pub what: OrderScope,
    /// The order; `None`: what was lifted was no person's (a provider's cooldown or suspension, an actor that failed again
    /// and again), or nothing.
    pub order: Option<OrderFacts>,
    /// How it ended.
    pub end: OrderEnd,
    /// When.
    pub ended_at: Timestamp,
    /// When it is forgotten.
    kept_until: Timestamp,
}

/// What happens to the order about a scope.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) what: OrderScope,
    /// In force until now.
    pub(crate) earlier: Option<OrderFacts>,
    /// In force from now on.
    pub(crate) later: Option<OrderFacts>,
    /// How the earlier one ends; `None`: it goes on, as the later one says.
    pub(crate) end: Option<OrderEnd>,
}

/// Where an entry stands: when it ended, and what it was.
type Place = (Timestamp, Arc<str>);

#[derive(Debug)]
struct Pages {
    entries: BTreeMap<Place, EndedFacts>,
    /// What expired until then was told.
    told: Timestamp,
}

/// Those that can be asked for, and the ends to come of those that are in force.
#[derive(Debug)]
pub(crate) struct EndedBook(Mutex<Pages>);

/// What one turn changes in the store, and what takes it back.
#[derive(Debug)]
pub(crate) struct Entered {
    at: Timestamp,
    added: Vec<EndedFacts>,
    removed: Vec<EndedFacts>,
}

impl HoldFacts {
    pub(crate) fn order(&self) -> OrderFacts {
        let part = self.widening.as_ref().map(WideningFacts::note);
        OrderFacts { reason: Arc::clone(&self.reason), by: self.by.clone(), since: self.since, until: self.until, part }
    }
}

impl TripFacts {
    pub(crate) fn order(&self) -> OrderFacts {
        let (reason, by) = (Arc::clone(&self.reason), self.by.clone());
        OrderFacts { reason, by, since: self.since, until: self.until, part: None }
    }
}

impl Turn {
    /// What events say of it: the end of a hold.
    pub(crate) fn told(&self) -> Option<HoldEvent> {
        match (&self.what, &self.earlier, &self.end) {
            (OrderScope::Hold(scope), Some(order), Some(end)) => Some(ended(scope, order, end)),
            _ => None,
        }
    }
}

/// What events say of the end of a hold.
pub(crate) fn ended(scope: &HoldScope, order: &OrderFacts, end: &OrderEnd) -> HoldEvent {
    let (since, until) = (system_time(order.since), system_time(order.until));
    HoldEvent::Ended { scope: scope.shown(), how: end.how().as_str(), since, until }
}

impl OrderScope {
    fn printed(&self) -> Arc<str> {
        match self {
            Self::Hold(scope) => format!("hold:{scope}").into(),
            Self::Breaker(scope) => format!("trip:{scope}").into(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text.split_once(':')? {
            ("hold", scope) => HoldScope::parse(scope).map(Self::Hold),
            ("trip", scope) => breaker(scope).map(Self::Breaker),
            _ => None,
        }
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

impl OrderEnd {
    const fn how(&self) -> EndedHow {
        match self {
            Self::Lifted { .. } => EndedHow::Lifted,
            Self::InPart { .. } => EndedHow::Part,
            Self::Replaced { .. } => EndedHow::Replaced,
            Self::Expired => EndedHow::Expired,
        }
    }

    /// The words of the order that ended it.
    fn words(&self) -> Option<OrderNote> {
        let (Self::Lifted { reason, by } | Self::InPart { reason, by } | Self::Replaced { reason, by }) = self else {
            return None;
        };
        Some(OrderNote { reason: Arc::clone(reason), by: by.clone(), widening: None })
    }

    fn read(note: &EndedNote) -> Option<Self> {
        let OrderNote { reason, by, .. } = note.lifted.clone().unwrap_or_default();
        Some(match note.how {
            EndedHow::Lifted => Self::Lifted { reason, by },
            EndedHow::Part => Self::InPart { reason, by },
            EndedHow::Replaced => Self::Replaced { reason, by },
            EndedHow::Expired => Self::Expired,
        })
    }
}

impl EndedFacts {
    fn place(&self) -> Place {
        (self.ended_at, self.what.printed())
    }

    fn key(&self) -> NoteKey {
        let name = format!("{}:{}", self.ended_at.as_micros(), self.what.printed());
        NoteKey { kind: NoteKind::Ended, mailbox: None, name: name.into() }
    }

    /// As it is written at an instant: its own may still be to come.
    fn note(&self, at: Timestamp) -> Note {
        let order = self.order.as_ref();
        let body = EndedNote {
            ordered: order.map(|order| OrderNote {
                reason: Arc::clone(&order.reason),
                by: order.by.clone(),
                widening: order.part.clone(),
            }),
            lifted: self.end.words(),
            how: self.end.how(),
            since: order.map(|order| order.since),
            until: order.map(|order| order.until),
            ended_at: Some(self.ended_at),
        };
        Note { key: self.key(), at, until: self.kept_until, body: NoteBody::Ended(Box::new(body)) }
    }

    fn read(note: &Note) -> Option<Self> {
        let (NoteKind::Ended, NoteBody::Ended(said)) = (note.key.kind, &note.body) else { return None };
        let what = OrderScope::parse(note.key.name.split_once(':')?.1)?;
        let ended_at = said.ended_at.unwrap_or(note.at);
        let order = said.ordered.clone().map(|order| OrderFacts {
            reason: order.reason,
            by: order.by,
            since: said.since.unwrap_or(note.at),
            until: said.until.unwrap_or(ended_at),
            part: order.widening,
        });
        Some(Self { what, order, end: OrderEnd::read(said)?, ended_at, kept_until: note.until })
    }
}

impl EndedBook {
    /// Those that the store has.
    pub(crate) fn of(now: Timestamp, notes: &[Note]) -> Self {
        let book = Self(Mutex::new(Pages { entries: BTreeMap::new(), told: now }));
        book.learn(now, notes);
        book
    }

    fn lock(&self, now: Timestamp) -> MutexGuard<'_, Pages> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.entries.retain(|_, facts| facts.kept_until > now);
        pages
    }

    /// Takes in what others have written: what they ended before its time is in it as it ended.
    pub(crate) fn learn(&self, now: Timestamp, notes: &[Note]) {
        let mut pages = self.lock(now);
        let read = notes.iter().filter_map(EndedFacts::read).filter(|facts| facts.kept_until > now);
        let read: BTreeMap<Place, EndedFacts> = read.map(|facts| (facts.place(), facts)).collect();
        pages.entries.retain(|place, _| place.0 <= now || read.contains_key(place));
        pages.entries.extend(read);
    }

    /// Enters what becomes of an order; the oldest give way above the bound.
    pub(crate) fn enter(&self, now: Timestamp, bounds: &OrdersConfig, turn: Turn) -> Entered {
        let mut pages = self.lock(now);
        let Turn { what, earlier, later, end } = turn;
        let mut removed = Vec::new();
        if let Some(order) = &earlier {
            removed.extend(pages.entries.remove(&(order.until, what.printed())));
        }
        let mut added = Vec::new();
        let mut add = |pages: &mut Pages, order: Option<OrderFacts>, end: OrderEnd, mut ended_at: Timestamp| {
            // Several in one microsecond stand behind each other.
            while pages.entries.contains_key(&(ended_at, what.printed())) {
                ended_at = Timestamp::from_micros(ended_at.as_micros().saturating_add(1));
            }
            let kept_until = ended_at.after(bounds.ended_for);
            let facts = EndedFacts { what: what.clone(), order, end, ended_at, kept_until };
            pages.entries.insert(facts.place(), facts.clone());
            added.push(facts);
        };
        if let Some(end) = end {
            add(&mut pages, earlier, end, now);
        }
        // What never ends by itself has no end to write down.
        if let Some(order) = later.filter(|order| order.until < Timestamp::NEVER) {
            let until = order.until;
            add(&mut pages, Some(order), OrderEnd::Expired, until);
        }
        let ended = pages.entries.keys().take_while(|place| place.0 <= now).count();
        for _ in 0..ended.saturating_sub(bounds.ended_max) {
            removed.extend(pages.entries.pop_first().map(|(_, facts)| facts));
        }
        Entered { at: now, added, removed }
    }

    /// The order was not given.
    pub(crate) fn take_back(&self, now: Timestamp, entered: Entered) {
        let mut pages = self.lock(now);
        for facts in &entered.added {
            pages.entries.remove(&facts.place());
        }
        pages.entries.extend(entered.removed.into_iter().map(|facts| (facts.place(), facts)));
    }

    /// The latest that can be asked for, at most so many, in the order of their ends.
    pub(crate) fn all(&self, now: Timestamp, count_max: usize) -> Vec<EndedFacts> {
        let pages = self.lock(now);
        let mut ended: Vec<_> = pages.entries.values().take_while(|facts| facts.ended_at <= now).cloned().collect();
        ended.drain(..ended.len().saturating_sub(count_max));
        ended
    }

    /// The holds whose time was over since this was last asked, and when to ask again.
    pub(crate) fn expired(&self, now: Timestamp) -> (Vec<(HoldScope, OrderFacts)>, Option<Timestamp>) {
        let mut pages = self.lock(now);
        let told = std::mem::replace(&mut pages.told, now);
        let since_then = pages.entries.values().filter(|facts| facts.ended_at > told && facts.end == OrderEnd::Expired);
        let (mut over, mut next) = (Vec::new(), None);
        for facts in since_then {
            let (OrderScope::Hold(scope), Some(order)) = (&facts.what, &facts.order) else { continue };
            if facts.ended_at > now {
                next = Some(facts.ended_at);
                break;
            }
            over.push((scope.clone(), order.clone()));
        }
        (over, next)
    }
}

impl Entered {
    /// What the store has to keep and forget.
    pub(crate) fn changes(&self) -> impl Iterator<Item = NoteChange> {
        swap(self.at, &self.removed, &self.added)
    }

    /// What undoes that.
    pub(crate) fn back(&self) -> impl Iterator<Item = NoteChange> {
        swap(self.at, &self.added, &self.removed)
    }
}

fn swap(at: Timestamp, gone: &[EndedFacts], there: &[EndedFacts]) -> impl Iterator<Item = NoteChange> {
    let gone = gone.iter().filter(|gone| there.iter().all(|facts| facts.place() != gone.place()));
    let drop = gone.map(|facts| NoteChange::Drop(facts.key()));
    drop.chain(there.iter().map(move |facts| NoteChange::Keep(facts.note(at))))
}

#[cfg(test)]
mod tests;
