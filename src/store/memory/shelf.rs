//! The shelves of a store in memory: every row in one run, and every run where a query looks for it.
//!
//! A row stands in the run of its place, lane and state. A query that names a mailbox, a tenant, a campaign, some of
//! them or none asks many runs at once, and there may be a million; so each run is known by its first key to each group
//! of places that a query can name, in order. Who reads a group in that order opens a run when its first row is next,
//! and never looks at the others. What it costs is one entry per run and group, which changes when the run's first row
//! does; an index per group, as a database has them, would cost one per row and group.
//!
//! What waits for its instant stands by that too, in blocks of keys: a campaign for tomorrow, or what an outage has
//! deferred, is leapt over block by block to find what may go today, oldest block first.

use std::collections::{BTreeSet, btree_set};

use super::places::{NameId, Names, Place, Places};
use super::row::Row;
use super::run::{self, Front, NIL};
use crate::engine::{Lane, OperationKey, OperationState, Timestamp};
use crate::store::{NewOperation, Slab};

/// A lane and a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shelf(u8);

impl Shelf {
    /// How many there are.
    pub(super) const COUNT: usize = Lane::ALL.len() * OperationState::ALL.len();

    pub(super) const fn new(lane: Lane, state: OperationState) -> Self {
        Self((lane.index() * OperationState::ALL.len() + state as usize) as u8) // below COUNT
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A run, as a group of places knows it: those with these names, where [`NIL`] is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    group: Names,
    shelf: Shelf,
    first: OperationKey,
}

type Waiting = BTreeSet<(u64, Timestamp, OperationKey)>;

/// Which block of 4,096 keys one belongs to.
pub(super) const fn block(key: OperationKey) -> u64 {
    key.0 >> 12
}

/// What may go, block by block; one whose first instant has not come is one step.
pub(super) struct Due<'a> {
    waiting: &'a Waiting,
    at: Timestamp,
    next_block: u64,
    of_block: Option<btree_set::Range<'a, (u64, Timestamp, OperationKey)>>,
}

impl Iterator for Due<'_> {
    type Item = OperationKey;

    fn next(&mut self) -> Option<OperationKey> {
        loop {
            if let Some((_, _, key)) = self.of_block.as_mut().and_then(Iterator::next) {
                return Some(*key);
            }
            let start = |block| (block, Timestamp::EPOCH, OperationKey(0));
            let (block, first, _) = *self.waiting.range(start(self.next_block)..).next()?;
            self.next_block = block + 1;
            let end = (block, self.at, OperationKey(u64::MAX));
            self.of_block = (first <= self.at).then(|| self.waiting.range(start(block)..=end));
        }
    }
}

/// Where every row stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Shelves {
    places: Places,
    heads: BTreeSet<Head>,
    /// Admitted rows by block and the instant that they wait for.
    admitted: Waiting,
    /// Deferred ones, likewise.
    deferred: Waiting,
}

impl Shelves {
    pub(super) const fn places(&self) -> &Places {
        &self.places
    }

    /// The place of a new row.
    pub(super) fn enter(&mut self, new: &NewOperation) -> u32 {
        self.places.enter([Some(&new.mailbox), new.tenant.as_ref(), new.campaign.as_ref()])
    }

    /// A row that stands nowhere any more is forgotten.
    pub(super) fn leave(&mut self, row: &Row) {
        self.places.leave(row.place);
    }

    /// Puts a row where its state says.
    pub(super) fn put(&mut self, rows: &mut Slab<Row>, slot: u32) {
        let row = rows.at(slot);
        let (key, place, shelf) = (row.key, row.place, Shelf::new(row.lane, row.state));
        if let (Some(until), Some(waiting)) = (row.waits_until(), self.waiting_mut(row.state)) {
            waiting.insert((block(key), until, key));
        }
        let root = &mut self.places.get_mut(place).roots[shelf.index()];
        if run::insert(rows, root, slot) == Front::Changed {
            let second = run::Cursor::new(rows, *root).nth(1).map(|row| row.key);
            self.lead(place, shelf, second, Some(key));
        }
    }

    /// Takes a row from where it stood, in `state` and waiting `until` then.
    pub(super) fn take(&mut self, rows: &mut Slab<Row>, slot: u32, state: OperationState, until: Option<Timestamp>) {
        let row = rows.at(slot);
        let (key, place, shelf) = (row.key, row.place, Shelf::new(row.lane, state));
        if let (Some(until), Some(waiting)) = (until, self.waiting_mut(state)) {
            waiting.remove(&(block(key), until, key));
        }
        let root = &mut self.places.get_mut(place).roots[shelf.index()];
        if run::remove(rows, root, slot) == Front::Changed {
            let first = run::first(rows, *root);
            self.lead(place, shelf, Some(key), first);
        }
    }

    /// A run has another first row; `None`: it was empty, or is.
    fn lead(&mut self, place: u32, shelf: Shelf, before: Option<OperationKey>, after: Option<OperationKey>) {
        for group in groups(self.places.get(place).names) {
            if let Some(first) = before {
                self.heads.remove(&Head { group, shelf, first });
            }
            if let Some(first) = after {
                self.heads.insert(Head { group, shelf, first });
            }
        }
    }

    /// First rows of the runs that a group has on a shelf, in order of key.
    pub(super) fn firsts(&self, group: Names, shelf: Shelf) -> impl Iterator<Item = OperationKey> {
        let head = |first| Head { group, shelf, first };
        self.heads.range(head(OperationKey(0))..=head(OperationKey(u64::MAX))).map(|head| head.first)
    }

    /// Rows in a state whose instant has come, block by block; `None`: those in this state stand by their keys alone.
    pub(super) const fn due(&self, state: OperationState, at: Timestamp) -> Option<Due<'_>> {
        let waiting = match state {
            OperationState::Admitted => &self.admitted,
            OperationState::Deferred => &self.deferred,
            _ => return None,
        };
        Some(Due { waiting, at, next_block: 0, of_block: None })
    }

    const fn waiting_mut(&mut self, state: OperationState) -> Option<&mut Waiting> {
        match state {
            OperationState::Admitted => Some(&mut self.admitted),
            OperationState::Deferred => Some(&mut self.deferred),
            _ => None,
        }
    }

    /// The group of a query's names; `None`: no row has one of them.
    pub(super) fn group(&self, names: [Option<&str>; 3]) -> Option<Names> {
        let mut group = [NIL; 3];
        for (id, name) in group.iter_mut().zip(names) {
            if let Some(name) = name {
                *id = self.places.find(name)?;
            }
        }
        Some(group)
    }

    /// Whether it keeps no more than belongs to that many rows.
    #[cfg(test)]
    pub(super) fn is_slim(&self, rows: usize) -> bool {
        self.heads.len() <= 8 * rows
            && self.admitted.len() + self.deferred.len() <= rows
            && self.places.iter().count() <= rows + 1
    }

    /// Mailboxes with operations that are not final.
    #[cfg(feature = "test-util")]
    pub(super) fn live_mailboxes(&self) -> impl Iterator<Item = &std::sync::Arc<str>> {
        let states = OperationState::ALL.into_iter().filter(|state| !state.is_final());
        let live: Vec<Shelf> =
            states.flat_map(|state| Lane::ALL.into_iter().map(move |lane| Shelf::new(lane, state))).collect();
        let places = self.places.iter().filter(move |place| live.iter().any(|shelf| place.has(*shelf)));
        places.filter_map(|place| self.places.name(place.names[0]))
    }
}

impl Place {
    #[cfg(feature = "test-util")]
    fn has(&self, shelf: Shelf) -> bool {
        self.roots[shelf.index()] != NIL
    }
}

/// The groups that places with these names are in.
fn groups(names: Names) -> impl Iterator<Item = Names> {
    let either = |id: NameId| std::iter::once(NIL).chain((id != NIL).then_some(id));
    let [mailbox, tenant, campaign] = names;
    either(mailbox).flat_map(move |mailbox| {
        either(tenant).flat_map(move |tenant| either(campaign).map(move |campaign| [mailbox, tenant, campaign]))
    })
}
