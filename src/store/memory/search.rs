//! Questions to a store in memory: never more rows are looked at than are answered with, but for those that are passed
//! over because they may not go yet.
//!
//! Runs are merged by the key of their next row; a run is opened when its first row is the next of all.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::row::Row;
use super::run::Cursor;
use super::shelf::{Shelf, Shelves};
use crate::engine::{Lane, OperationKey, OperationState};
use crate::store::{OperationQuery, Slab};

/// Rows in order of key, and how many were looked at for them.
pub(super) struct Found<'a> {
    pub(super) rows: Vec<&'a Row>,
    pub(super) looked_at: usize,
}

/// The rows that `query` wants, oldest first.
pub(super) fn search<'a>(rows: &'a Slab<Row>, shelves: &'a Shelves, query: &OperationQuery) -> Found<'a> {
    let mut found = Found { rows: Vec::new(), looked_at: 0 };
    let names = [&query.mailbox, &query.tenant, &query.campaign].map(|name| name.as_deref());
    let Some(group) = shelves.group(names).filter(|_| query.limit > 0) else { return found };
    let states = OperationState::ALL.into_iter().filter(|state| query.state.is_none_or(|wanted| wanted == *state));
    // What waits for its instant is found by that.
    let by_instant = |state| query.eligible_at.is_some() && state == OperationState::Admitted;
    let walked: Vec<_> = states.clone().filter(|state| !by_instant(*state) && may_go(query, *state)).collect();
    let lanes = || Lane::ALL.into_iter().filter(|lane| query.lane.is_none_or(|wanted| wanted == *lane));
    let shelves_walked = lanes().flat_map(|lane| walked.iter().map(move |state| Shelf::new(lane, *state)));
    let sources = shelves_walked.map(|shelf| Box::new(shelves.firsts(group, shelf)) as Firsts<'a>).collect();
    let mut walk = Walk::new(rows, shelves, sources);
    while found.rows.len() < query.limit
        && let Some(row) = walk.next()
    {
        found.looked_at += 1;
        if row.is_eligible(query.eligible_at) {
            found.rows.push(row);
        }
    }
    if let Some(at) = query.eligible_at.filter(|_| states.clone().any(by_instant)) {
        let due = shelves.due(at).filter_map(|key| rows.get(key));
        let due = due.inspect(|_| found.looked_at += 1).filter(|row| row.is_wanted(query, group, shelves.places()));
        found.rows.extend(due);
        found.rows.sort_unstable_by_key(|row| row.key);
        found.rows.truncate(query.limit);
    }
    found
}

/// Whether what is in this state can be eligible, where that is asked.
fn may_go(query: &OperationQuery, state: OperationState) -> bool {
    query.eligible_at.is_none() || OperationQuery::ELIGIBLE.contains(&state)
}

/// The rows of a mailbox, oldest first.
pub(super) fn of_mailbox<'a>(rows: &'a Slab<Row>, shelves: &'a Shelves, mailbox: &str) -> Vec<&'a Row> {
    let query = OperationQuery { mailbox: Some(mailbox.into()), limit: usize::MAX, ..OperationQuery::default() };
    search(rows, shelves, &query).rows
}

/// First keys of runs, in order.
type Firsts<'a> = Box<dyn Iterator<Item = OperationKey> + 'a>;

/// Many runs as one.
struct Walk<'a> {
    rows: &'a Slab<Row>,
    shelves: &'a Shelves,
    sources: Vec<Firsts<'a>>,
    open: Vec<Cursor<'a>>,
    next: BinaryHeap<Reverse<(OperationKey, Whence)>>,
}

/// Where a next row comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whence {
    /// A run that is not open yet.
    Source(usize),
    Open(usize),
}

impl<'a> Walk<'a> {
    fn new(rows: &'a Slab<Row>, shelves: &'a Shelves, sources: Vec<Firsts<'a>>) -> Self {
        let mut walk = Self { rows, shelves, sources, open: Vec::new(), next: BinaryHeap::new() };
        (0..walk.sources.len()).for_each(|source| walk.await_source(source));
        walk
    }

    fn await_source(&mut self, source: usize) {
        if let Some(key) = self.sources[source].next() {
            self.next.push(Reverse((key, Whence::Source(source))));
        }
    }

    /// Opens the run that a row begins.
    fn open(&mut self, first: OperationKey) -> Option<usize> {
        let row = self.rows.get(first)?;
        let root = self.shelves.places().get(row.place).roots[Shelf::new(row.lane, row.state).index()];
        self.open.push(Cursor::new(self.rows, root));
        Some(self.open.len() - 1)
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = &'a Row;

    fn next(&mut self) -> Option<&'a Row> {
        let Reverse((key, from)) = self.next.pop()?;
        let run = match from {
            Whence::Open(run) => run,
            Whence::Source(source) => {
                self.await_source(source);
                self.open(key)?
            }
        };
        let row = self.open[run].next()?;
        if let Some(next) = self.open[run].peek() {
            self.next.push(Reverse((next, Whence::Open(run))));
        }
        Some(row)
    }
}
