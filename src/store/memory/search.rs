//! Questions to a store in memory: never more rows are looked at than are answered with, but for those that are passed
//! over because they may not go yet.
//!
//! Runs are merged by the key of their next row; a run is opened when its first row is the next of all. What waits for
//! its instant is looked for among those of all mailboxes whose instant has come, block by block of their keys, and
//! beside that in the runs that were asked for, a row of each in turn, until one has the answer.
//! Queued rows that may not go yet are passed over: they are few, because their attempt failed a moment ago.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::places::Names;
use super::row::Row;
use super::run::Cursor;
use super::shelf::{Shelf, Shelves, block};
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
    let states = OperationState::ALL.into_iter().filter(|state| {
        query.state.is_none_or(|wanted| wanted == *state)
            && (query.eligible_at.is_none() || OperationQuery::ELIGIBLE.contains(state))
    });
    let mut walked = Vec::new();
    for state in states {
        match query.eligible_at.and_then(|at| shelves.due(state, at)) {
            None => walked.push(state),
            Some(due) => {
                let due = due.filter_map(|key| rows.get(key));
                let walk = Walk::along(rows, shelves, group, query, &[state]);
                side_by_side(due, walk, query.limit, &mut found, |row| row.is_wanted(query, group, shelves.places()));
            }
        }
    }
    let mut walk = Walk::along(rows, shelves, group, query, &walked);
    let most = found.rows.len().saturating_add(query.limit);
    while found.rows.len() < most
        && let Some(row) = walk.next()
    {
        found.looked_at += 1;
        if row.is_eligible(query.eligible_at) {
            found.rows.push(row);
        }
    }
    found.rows.sort_unstable_by_key(|row| row.key);
    found.rows.truncate(query.limit);
    found
}

/// The first rows that are wanted, by whichever way is shorter: `walk` is in order of key, `due` block by block.
fn side_by_side<'a>(
    due: impl Iterator<Item = &'a Row>,
    mut walk: Walk<'a>,
    limit: usize,
    found: &mut Found<'a>,
    is_wanted: impl Fn(&Row) -> bool,
) {
    let (mut by_instant, mut by_key, mut last) = (Vec::new(), Vec::new(), 0);
    for row in due {
        if block(row.key) != last && by_instant.len() >= limit {
            break;
        }
        last = block(row.key);
        found.looked_at += 1;
        by_instant.extend(is_wanted(row).then_some(row));
        let Some(row) = walk.next() else { return found.rows.append(&mut by_key) };
        found.looked_at += 1;
        by_key.extend(is_wanted(row).then_some(row));
        if by_key.len() == limit {
            return found.rows.append(&mut by_key);
        }
    }
    found.rows.append(&mut by_instant);
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
    /// Along the runs of a group in these states and the query's lanes.
    fn along(
        rows: &'a Slab<Row>,
        shelves: &'a Shelves,
        group: Names,
        query: &OperationQuery,
        states: &[OperationState],
    ) -> Self {
        let lanes = Lane::ALL.into_iter().filter(|lane| query.lane.is_none_or(|wanted| wanted == *lane));
        let along = lanes.flat_map(|lane| states.iter().map(move |state| Shelf::new(lane, *state)));
        Self::new(rows, shelves, along.map(|shelf| Box::new(shelves.firsts(group, shelf)) as Firsts<'a>).collect())
    }

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
