//! What a start reads, and a mailbox that is rebuilt.
//!
//! A start reads an outline: which mailboxes have something, and what the shared scopes have to know. Each mailbox's
//! rows are read when its actor starts, by the mailbox's indexes, so that a million rows are never in memory at once.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Statement};

use super::fault::Fault;
use super::names::{self, Names};
use super::notes;
use super::row;
use super::tally;
use crate::engine::{OperationKey, Timestamp};
use crate::store::{Apart, AttemptRecord, Horizons, OperationRecord, Outline, Recovery};

/// What is not over, and what budgets are rebuilt from, all as of one instant.
pub(super) fn of(connection: &Connection, since: Timestamp, mailbox: Option<&str>) -> Result<Recovery, Fault> {
    let transaction = connection.unchecked_transaction()?;
    let mut names = Names::default();
    let last_key = last_key(connection)?;
    let number = match mailbox {
        None => None,
        Some(mailbox) => match names::find(connection, mailbox)? {
            None => return Ok(Recovery { last_key, secret: notes::secret(connection)?, ..Recovery::default() }),
            found => found,
        },
    };
    let operations = live(connection, &mut names, number)?;
    let attempts = attempts(connection, &mut names, since, number)?;
    let ((notes, unreadable), secret) = (notes::read(connection, &mut names, number)?, notes::secret(connection)?);
    transaction.finish()?;
    Ok(Recovery { operations, attempts, last_key, notes, unreadable, secret })
}

/// What a start has to know of all mailboxes, all as of one instant.
pub(super) fn outline(connection: &Connection, since: Horizons) -> Result<Outline, Fault> {
    let transaction = connection.unchecked_transaction()?;
    let mut names = Names::default();
    let last_key = last_key(connection)?;
    let attempts = attempts(connection, &mut names, since.shared, None)?;
    let ((notes, unreadable), secret) = (notes::read(connection, &mut names, None)?, notes::secret(connection)?);
    let waiting = named(connection, &mut names, waiting(connection)?)?;
    let charged = named(connection, &mut names, charged(connection, since.mailboxes)?)?;
    transaction.finish()?;
    let recovery = Recovery { operations: Vec::new(), attempts, last_key, notes, unreadable, secret };
    Ok(Outline { recovery, apart: Some(Apart { waiting, charged }) })
}

fn last_key(connection: &Connection) -> Result<Option<OperationKey>, Fault> {
    let last: Option<i64> = connection.query_row("SELECT max(key) FROM operation", [], |found| found.get(0))?;
    Ok(last.map(|key| OperationKey(key.unsigned_abs())))
}

fn named(connection: &Connection, names: &mut Names, numbers: Vec<i64>) -> Result<Vec<Arc<str>>, Fault> {
    numbers.into_iter().map(|number| names.text(connection, number)).collect()
}

/// The mailboxes with operations that are not final: two look-ups for each that has any. The rows tell, not the counts
/// beside them, because an operation that is missed here is never sent.
fn waiting(connection: &Connection) -> Result<Vec<i64>, Fault> {
    let mut next = connection.prepare(
        "SELECT mailbox FROM operation INDEXED BY operation_by_mailbox WHERE mailbox > ?1 ORDER BY mailbox LIMIT 1",
    )?;
    let mut live = connection.prepare(
        "SELECT 1 FROM operation INDEXED BY operation_by_mailbox WHERE mailbox = ?1 AND state BETWEEN 0 AND 4 LIMIT 1",
    )?;
    each(&mut next, |mailbox| live.exists([mailbox]))
}

/// The mailboxes with an attempt claimed since then, likewise.
fn charged(connection: &Connection, since: Timestamp) -> Result<Vec<i64>, Fault> {
    let mut next = connection.prepare(
        "SELECT mailbox FROM attempt INDEXED BY attempt_by_mailbox WHERE mailbox > ?1 ORDER BY mailbox LIMIT 1",
    )?;
    let mut counts = connection.prepare(
        "SELECT 1 FROM attempt INDEXED BY attempt_by_mailbox WHERE mailbox = ?1 AND claimed_at >= ?2 LIMIT 1",
    )?;
    each(&mut next, |mailbox| counts.exists((mailbox, row::stamp(since))))
}

/// Every mailbox that `next` leads to from the one before, as far as it is wanted.
fn each(next: &mut Statement<'_>, mut wanted: impl FnMut(i64) -> rusqlite::Result<bool>) -> Result<Vec<i64>, Fault> {
    let (mut found, mut after) = (Vec::new(), 0_i64);
    while let Some(mailbox) = next.query_row([after], |row| row.get(0)).optional()? {
        if wanted(mailbox)? {
            found.push(mailbox);
        }
        after = mailbox;
    }
    Ok(found)
}

fn live(connection: &Connection, names: &mut Names, mailbox: Option<i64>) -> Result<Vec<OperationRecord>, Fault> {
    let counts = tally::counts(connection)?;
    let (live, all): (u64, u64) = (counts[..5].iter().sum(), counts.iter().sum());
    // Most are live: walk the table. Few are: go by the index.
    let source = match mailbox {
        Some(_) => "operation INDEXED BY operation_by_mailbox WHERE mailbox = ?1 AND state BETWEEN 0 AND 4",
        None if live.saturating_mul(4) > all => "operation NOT INDEXED WHERE ?1 IS NULL AND state BETWEEN 0 AND 4",
        None => "operation INDEXED BY operation_by_state WHERE ?1 IS NULL AND state BETWEEN 0 AND 4",
    };
    let mut statement = connection.prepare(&format!("SELECT {} FROM {source}", row::OPERATION))?;
    let room = if mailbox.is_none() { usize::try_from(live).unwrap_or(0) } else { 0 };
    let mut found = Vec::with_capacity(room);
    let mut rows = statement.query([mailbox])?;
    while let Some(operation) = rows.next()? {
        found.push(row::operation(operation, connection, names)?);
    }
    found.sort_unstable_by_key(|operation| operation.key);
    Ok(found)
}

fn attempts(
    connection: &Connection,
    names: &mut Names,
    since: Timestamp,
    mailbox: Option<i64>,
) -> Result<Vec<AttemptRecord>, Fault> {
    let source = match mailbox {
        Some(_) => "attempt INDEXED BY attempt_by_mailbox WHERE mailbox = ?2",
        None => "attempt INDEXED BY attempt_by_claim WHERE ?2 IS NULL",
    };
    // A void one never left the machine.
    let mut statement = connection.prepare(&format!(
        "SELECT {} FROM {source} AND claimed_at >= ?1 AND ended IS NOT 'void' ORDER BY claimed_at, operation, number",
        row::ATTEMPT
    ))?;
    let mut rows = statement.query((row::stamp(since), mailbox))?;
    let mut found = Vec::new();
    while let Some(attempt) = rows.next()? {
        found.push(row::attempt(attempt, connection, names)?);
    }
    Ok(found)
}
