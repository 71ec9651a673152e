//! Counts per mailbox and state, moved with what they count.
//!
//! Changes of one transaction are added up and written once at its end, so a batch of a thousand costs two rows.
//! Mailbox 0 is all of them.

use std::collections::BTreeMap;

use rusqlite::{Connection, Statement};

use super::fault::Fault;
use super::row;
use crate::engine::OperationState;

/// The row that counts every mailbox.
const ALL: i64 = 0;
/// In the row of all mailboxes: emails kept beyond the end of their operations. Stands after the states.
const KEPT: usize = OperationState::ALL.len();
/// In the row of all mailboxes: notes.
const NOTES: usize = KEPT + 1;
const PLACES: usize = NOTES + 1;

#[derive(Debug)]
pub(super) struct Tally<'c> {
    add: Statement<'c>,
    begin: Statement<'c>,
    /// By mailbox and state, since the transaction began.
    moved: BTreeMap<(i64, i64), i64>,
    /// The same of all mailboxes: every submission asks for these.
    all: [i64; PLACES],
    /// Of all mailboxes, as last committed.
    committed: [u64; PLACES],
}

impl<'c> Tally<'c> {
    pub(super) fn new(connection: &'c Connection) -> Result<Self, Fault> {
        let add =
            connection.prepare("UPDATE tally SET operations = operations + ?3 WHERE mailbox = ?1 AND state = ?2")?;
        let begin = connection.prepare("INSERT INTO tally (mailbox, state, operations) VALUES (?1, ?2, ?3)")?;
        Ok(Self { add, begin, moved: BTreeMap::new(), all: [0; PLACES], committed: read(connection)? })
    }

    /// One operation more, or one less, in `state`.
    fn shift(&mut self, mailbox: i64, state: OperationState, by: i64) {
        *self.moved.entry((mailbox, row::state_number(state))).or_default() += by;
        self.all[state as usize] += by;
    }

    pub(super) fn added(&mut self, mailbox: i64, state: OperationState) {
        self.shift(mailbox, state, 1);
    }

    pub(super) fn removed(&mut self, mailbox: i64, state: OperationState) {
        self.shift(mailbox, state, -1);
    }

    pub(super) fn moved(&mut self, mailbox: i64, from: OperationState, to: OperationState) {
        self.removed(mailbox, from);
        self.added(mailbox, to);
    }

    /// So many more kept emails.
    pub(super) fn kept_moved(&mut self, by: i64) {
        self.all[KEPT] += by;
    }

    /// Kept emails, those of this transaction included.
    pub(super) fn kept(&self) -> u64 {
        self.place(KEPT)
    }

    /// So many more notes.
    pub(super) fn notes_moved(&mut self, by: i64) {
        self.all[NOTES] += by;
    }

    /// Notes, those of this transaction included.
    pub(super) fn notes(&self) -> u64 {
        self.place(NOTES)
    }

    /// Writes what the transaction has moved. Nothing is added up afterwards but what comes after.
    pub(super) fn write(&mut self) -> Result<(), Fault> {
        let all = (0..).zip(self.all).map(|(place, by)| ((ALL, place), by));
        let moved = self.moved.iter().map(|(at, by)| (*at, *by)).chain(all);
        for ((mailbox, state), by) in moved.filter(|(_, by)| *by != 0) {
            if self.add.execute((mailbox, state, by))? == 0 {
                self.begin.execute((mailbox, state, by))?;
            }
        }
        Ok(())
    }

    /// The transaction is durable.
    pub(super) fn commit(&mut self) {
        for place in 0..PLACES {
            self.committed[place] = self.place(place);
        }
        self.clear();
    }

    /// The transaction never was.
    pub(super) fn roll_back(&mut self) {
        self.clear();
    }

    fn clear(&mut self) {
        self.moved.clear();
        self.all = [0; PLACES];
    }

    /// Operations in `state`, those of this transaction included.
    pub(super) fn count(&self, state: OperationState) -> u64 {
        self.place(state as usize)
    }

    fn place(&self, place: usize) -> u64 {
        self.committed[place].saturating_add_signed(self.all[place])
    }
}

/// Operations per state, in the order of [`OperationState::ALL`].
pub(super) fn counts(connection: &Connection) -> Result<[u64; 10], Fault> {
    let places = read(connection)?;
    Ok(std::array::from_fn(|state| places[state]))
}

fn read(connection: &Connection) -> Result<[u64; PLACES], Fault> {
    let mut counts = [0; PLACES];
    let mut statement = connection.prepare("SELECT state, operations FROM tally WHERE mailbox = ?1")?;
    let mut rows = statement.query([ALL])?;
    while let Some(found) = rows.next()? {
        let (place, operations): (i64, i64) = (found.get(0)?, found.get(1)?);
        let count = usize::try_from(place).ok().and_then(|place| counts.get_mut(place));
        *count.ok_or_else(|| Fault::Row(format!("a count of state {place}, which is none")))? =
            operations.unsigned_abs();
    }
    Ok(counts)
}
