//! What a start reads, and a mailbox that is rebuilt.
//!
//! A start reads an outline: which mailboxes have something, and what the shared scopes have to know. Each mailbox's
//! rows are read when its actor starts, by the mailbox's indexes, so that a million rows are never in memory at once.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Rows, Statement};

use super::fault::Fault;
use super::names::{self, Names};
use super::notes;
use super::row;
use super::tally;
use crate::engine::{OperationKey, Timestamp};
use crate::store::{Apart, AttemptRecord, Horizons, OperationRecord, Outline, Pages, Recovery};

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
    let recovery = Recovery { operations: Pages::default(), attempts, last_key, notes, unreadable, secret };
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

/// What is not over, in order of key. An index tells one state and one lane in that order; such runs are read side by
/// side and merged, so that nothing is sorted and no row stands twice.
fn live(connection: &Connection, names: &mut Names, mailbox: Option<i64>) -> Result<Pages<OperationRecord>, Fault> {
    let counts = tally::counts(connection)?;
    let (live, all): (u64, u64) = (counts[..5].iter().sum(), counts.iter().sum());
    let by_index = |index, finds| {
        let run = move |at: usize| {
            format!("operation INDEXED BY {index} WHERE {finds} AND state = {} AND lane = {}", at / 2, at % 2)
        };
        (0..10).map(run).collect()
    };
    // Most are live: walk the table, which is in order. Few are: go by the index.
    let runs: Vec<String> = match mailbox {
        Some(_) => by_index("operation_by_mailbox", "mailbox = ?1"),
        None if live.saturating_mul(4) > all => {
            vec!["operation NOT INDEXED WHERE ?1 IS NULL AND state BETWEEN 0 AND 4".to_owned()]
        }
        None => by_index("operation_by_state", "?1 IS NULL"),
    };
    let prepare = |run: &String| connection.prepare(&format!("SELECT {} FROM {run} ORDER BY key", row::OPERATION));
    let mut statements = runs.iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
    let mut heads = Vec::with_capacity(statements.len());
    for statement in &mut statements {
        let mut rows = statement.query([mailbox])?;
        heads.extend(next(&mut rows, connection, names)?.map(|head| (head, rows)));
    }
    let mut found = Pages::default();
    while let Some(first) = (0..heads.len()).min_by_key(|at| heads[*at].0.key) {
        let (head, rows) = &mut heads[first];
        match next(rows, connection, names)? {
            Some(next) => found.push(std::mem::replace(head, next)),
            None => found.push(heads.swap_remove(first).0),
        }
    }
    Ok(found)
}

/// The next operation of a run.
fn next(rows: &mut Rows<'_>, connection: &Connection, names: &mut Names) -> Result<Option<OperationRecord>, Fault> {
    rows.next()?.map(|found| row::operation(found, connection, names)).transpose()
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
