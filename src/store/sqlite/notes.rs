//! Notes as rows.
//!
//! A body is JSON text: it is written and read whole, and the views look into it. The count of notes is kept beside
//! (`tally`), so that the bound costs no scan.

use std::collections::{BTreeMap, HashSet};

use rusqlite::{Connection, Statement};

use super::fault::Fault;
use super::names::{self, Names};
use super::options::SqliteOptions;
use super::row;
use super::tally::Tally;
use crate::engine::Timestamp;
use crate::store::{KeySecret, Note, NoteKey, NoteKind, StoreError};

/// The mailbox of notes that belong to none.
const NO_MAILBOX: i64 = 0;

#[derive(Debug)]
pub(super) struct Notes<'c> {
    max: u64,
    /// No note ends before this: a bound, learnt by looking and lowered by what is kept. The epoch: nobody has looked.
    first_end: Timestamp,
    replace: Statement<'c>,
    insert: Statement<'c>,
    remove: Statement<'c>,
    find: Statement<'c>,
    forget: Statement<'c>,
    find_first_end: Statement<'c>,
}

impl<'c> Notes<'c> {
    pub(super) fn new(connection: &'c Connection, options: &SqliteOptions) -> Result<Self, Fault> {
        Ok(Self {
            max: options.notes_max,
            first_end: Timestamp::EPOCH,
            replace: connection.prepare(
                "UPDATE note SET at = ?4, until = ?5, body = ?6 WHERE kind = ?1 AND mailbox = ?2 AND name = ?3",
            )?,
            insert: connection
                .prepare("INSERT INTO note (kind, mailbox, name, at, until, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?,
            remove: connection.prepare("DELETE FROM note WHERE kind = ?1 AND mailbox = ?2 AND name = ?3")?,
            find: connection.prepare("SELECT 1 FROM note WHERE kind = ?1 AND mailbox = ?2 AND name = ?3")?,
            forget: connection.prepare(
                "DELETE FROM note WHERE (kind, mailbox, name) IN
                 (SELECT kind, mailbox, name FROM note INDEXED BY note_by_end WHERE until <= ?1 LIMIT ?2)",
            )?,
            find_first_end: connection.prepare("SELECT min(until) FROM note INDEXED BY note_by_end")?,
        })
    }

    /// Forgets what is over at `now`, at most `count` notes; how many.
    pub(super) fn forget(&mut self, tally: &mut Tally<'_>, now: Timestamp, count: usize) -> Result<usize, Fault> {
        if self.first_end > now {
            return Ok(0);
        }
        let over = self.forget.execute((row::stamp(now), i64::try_from(count).unwrap_or(i64::MAX)))?;
        tally.notes_moved(-i64::try_from(over).unwrap_or(i64::MAX));
        let first: Option<i64> = self.find_first_end.query_row([], |found| found.get(0))?;
        self.first_end = first.map_or(Timestamp::NEVER, row::instant);
        Ok(over)
    }

    /// The transaction never was: what it forgot is there again.
    pub(super) const fn roll_back(&mut self) {
        self.first_end = Timestamp::EPOCH;
    }

    /// Whether there is room for all of `notes`; those that replace another need none, nor do orders and breakers.
    pub(super) fn room<'n>(
        &mut self,
        connection: &Connection,
        tally: &mut Tally<'_>,
        now: Timestamp,
        notes: impl Iterator<Item = &'n Note> + Clone,
    ) -> Result<Result<(), StoreError>, Fault> {
        let latest = notes.clone().map(|note| note.at).fold(now, Ord::max);
        let notes = notes.filter(|note| note.key.kind.needs_room());
        let count = notes.clone().count();
        if count as u64 <= self.max.saturating_sub(tally.notes()) {
            return Ok(Ok(()));
        }
        self.forget(tally, latest, count)?;
        let room = self.max.saturating_sub(tally.notes());
        let mut fresh = HashSet::new();
        for note in notes {
            let mailbox = match &note.key.mailbox {
                None => Some(NO_MAILBOX),
                Some(mailbox) => names::find(connection, mailbox)?,
            };
            let is_there = match mailbox {
                Some(mailbox) => self.find.exists((number(note.key.kind), mailbox, &*note.key.name))?,
                None => false,
            };
            if !is_there {
                fresh.insert(&note.key);
            }
        }
        if fresh.len() as u64 <= room {
            return Ok(Ok(()));
        }
        Ok(Err(StoreError::Full { bound: format!("notes_max = {} notes", self.max) }))
    }

    /// Keeps a note, in place of one with the same key.
    pub(super) fn keep(
        &mut self,
        connection: &Connection,
        names: &mut Names,
        tally: &mut Tally<'_>,
        note: &Note,
    ) -> Result<(), Fault> {
        let body = serde_json::to_string(&note.body).map_err(|error| Fault::Row(format!("a note: {error}")))?;
        let mailbox = match &note.key.mailbox {
            None => NO_MAILBOX,
            Some(mailbox) => names.number(connection, mailbox)?,
        };
        let (kind, name) = (number(note.key.kind), &*note.key.name);
        let (at, until) = (row::stamp(note.at), row::stamp(note.until));
        if self.replace.execute((kind, mailbox, name, at, until, &body))? == 0 {
            self.insert.execute((kind, mailbox, name, at, until, &body))?;
            tally.notes_moved(1);
        }
        self.first_end = self.first_end.min(note.until);
        Ok(())
    }

    /// Forgets the note with this key, if there is one; how many that were.
    pub(super) fn drop(
        &mut self,
        connection: &Connection,
        tally: &mut Tally<'_>,
        key: &NoteKey,
    ) -> Result<usize, Fault> {
        let mailbox = match &key.mailbox {
            None => Some(NO_MAILBOX),
            Some(mailbox) => names::find(connection, mailbox)?,
        };
        let Some(mailbox) = mailbox else { return Ok(0) };
        let removed = self.remove.execute((number(key.kind), mailbox, &*key.name))?;
        tally.notes_moved(-i64::try_from(removed).unwrap_or(i64::MAX));
        Ok(removed)
    }
}

/// Notes, and how many of each kind could not be read.
type Found = (Vec<Note>, BTreeMap<NoteKind, u64>);

/// The place of a kind in [`NoteKind::ALL`].
const fn number(kind: NoteKind) -> i64 {
    kind as i64
}

/// Notes of one mailbox, or all, in order of their keys, and how many were passed over. One of a kind that only a newer
/// program knows is left alone; one whose body this version cannot read is counted: nothing hangs on one sentence.
pub(super) fn read(connection: &Connection, names: &mut Names, mailbox: Option<i64>) -> Result<Found, Fault> {
    let source = match mailbox {
        Some(_) => "note INDEXED BY note_by_mailbox WHERE mailbox = ?1",
        None => "note WHERE ?1 IS NULL",
    };
    let mut statement = connection.prepare(&format!("SELECT kind, mailbox, name, at, until, body FROM {source}"))?;
    let mut rows = statement.query([mailbox])?;
    let (mut notes, mut unreadable) = (Vec::new(), BTreeMap::new());
    while let Some(found) = rows.next()? {
        let kind = usize::try_from(found.get::<_, i64>(0)?).ok().and_then(|place| NoteKind::ALL.get(place));
        let Some(kind) = kind else { continue };
        let Some(body) = found.get_ref(5)?.as_str().ok().and_then(|body| serde_json::from_str(body).ok()) else {
            *unreadable.entry(*kind).or_default() += 1;
            continue;
        };
        let mailbox = match found.get(1)? {
            NO_MAILBOX => None,
            mailbox => Some(names.text(connection, mailbox)?),
        };
        let key = NoteKey { kind: *kind, mailbox, name: found.get::<_, String>(2)?.into() };
        notes.push(Note { key, at: row::instant(found.get(3)?), until: row::instant(found.get(4)?), body });
    }
    notes.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    Ok((notes, unreadable))
}

/// The secret under which this file's admission keys are hashed.
pub(super) fn secret(connection: &Connection) -> Result<KeySecret, Fault> {
    let bytes: [u8; 32] = connection.query_row("SELECT bytes FROM secret", [], |found| found.get(0))?;
    Ok(KeySecret::new(bytes))
}
