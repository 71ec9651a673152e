//! Mailboxes and tenants by number, and text that many rows share.
//!
//! A name is stored once, keeps its number while anything bears it, and is forgotten when nothing does (`unused`). Here each is one allocation however many rows name it: a
//! million operations of one mailbox share one string.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};

use super::fault::Fault;

/// Names remembered at most; above it they are looked up anew.
const NAMES_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct Names {
    by_text: HashMap<Arc<str>, i64>,
    by_number: HashMap<i64, Arc<str>>,
    texts: HashSet<Arc<str>>,
    /// The first number that was given out since anybody asked.
    given: Option<i64>,
}

impl Names {
    /// Forgets everything: after a rollback, numbers may mean something else.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets one that is no longer in the file: its number never means another name, but its text may get another one.
    pub(super) fn drop(&mut self, number: i64, text: &str) {
        self.by_number.remove(&number);
        self.by_text.remove(text);
    }

    fn keep(&mut self, text: Arc<str>, number: i64) {
        if self.by_number.len() >= NAMES_MAX {
            self.clear();
        }
        self.by_text.insert(Arc::clone(&text), number);
        self.by_number.insert(number, text);
    }

    /// The number of `text`, given out now if it has none.
    pub(super) fn number(&mut self, connection: &Connection, text: &Arc<str>) -> Result<i64, Fault> {
        if let Some(number) = self.by_text.get(text) {
            return Ok(*number);
        }
        if let Some(number) = find(connection, text)? {
            self.keep(Arc::clone(text), number);
            return Ok(number);
        }
        let insert = "INSERT INTO name (text) VALUES (?1) RETURNING nr";
        let number = connection.query_row(insert, [&**text], |row| row.get(0))?;
        self.keep(Arc::clone(text), number);
        self.given.get_or_insert(number);
        Ok(number)
    }

    /// The first number that was given out since this was asked last.
    pub(super) const fn take_given(&mut self) -> Option<i64> {
        self.given.take()
    }

    /// The name with this number.
    pub(super) fn text(&mut self, connection: &Connection, number: i64) -> Result<Arc<str>, Fault> {
        if let Some(text) = self.by_number.get(&number) {
            return Ok(Arc::clone(text));
        }
        let text: Option<String> =
            connection.query_row("SELECT text FROM name WHERE nr = ?1", [number], |row| row.get(0)).optional()?;
        let text: Arc<str> = text.ok_or_else(|| Fault::Row(format!("name {number} is missing")))?.into();
        self.keep(Arc::clone(&text), number);
        Ok(text)
    }

    /// `text` as one allocation for all who ask for the same.
    pub(super) fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(text) = self.texts.get(text) {
            return Arc::clone(text);
        }
        if self.texts.len() >= NAMES_MAX {
            self.texts.clear();
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }
}

/// The number of `text`, if it has one.
pub(super) fn find(connection: &Connection, text: &str) -> Result<Option<i64>, Fault> {
    Ok(connection.query_row("SELECT nr FROM name WHERE text = ?1", [text], |row| row.get(0)).optional()?)
}
