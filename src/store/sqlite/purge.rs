//! Forgetting: what has ended, its attempts and its emails, when their time or their room is used up; and then the names
//! that nothing bears any more (`unused`).
//!
//! A little with every transaction, oldest first, so that nothing ever stops to clean up: each one forgets at most a
//! few more rows than it wrote. What the oldest row is, is remembered, so that a commit in which nothing is due asks
//! nothing. The clock is the latest instant a call has named; a store that nobody writes to
//! forgets nothing.

use std::time::Duration;

use rusqlite::{Connection, Statement};

use super::fault::Fault;
use super::options::{PayloadRetention, SqliteOptions};
use super::row;
use super::unused::Unused;
use super::write::Writes;
use crate::engine::{OperationState, Timestamp};
use crate::store::rules::is_over;

/// No row is older than this: a bound, learnt by looking and lowered by what is written. The epoch: nobody has looked.
#[derive(Debug)]
pub(super) struct Oldest {
    pub(super) attempt: Timestamp,
    pub(super) ended: Timestamp,
}

impl Oldest {
    pub(super) const UNKNOWN: Self = Self { attempt: Timestamp::EPOCH, ended: Timestamp::EPOCH };
}

/// Rows forgotten per transaction, beside as many as it wrote.
const SPARE: usize = 32;

pub(super) struct Purge<'c> {
    ended_max: u64,
    ended_for: Duration,
    attempts_for: Duration,
    payloads_for: Duration,
    payloads_max: u64,
    oldest_ended: Statement<'c>,
    forget: Statement<'c>,
    forget_attempts: Statement<'c>,
    oldest_attempt: Statement<'c>,
    first_ended: Statement<'c>,
    oldest_kept: Statement<'c>,
    forget_kept: Statement<'c>,
    drop_payload: Statement<'c>,
    unused: Unused<'c>,
}

impl<'c> Purge<'c> {
    pub(super) fn new(connection: &'c Connection, options: &SqliteOptions) -> Result<Self, Fault> {
        let (payloads_for, payloads_max) = match options.payloads {
            PayloadRetention::Remove => (Duration::ZERO, 0),
            PayloadRetention::Keep { span, count_max } => (span, count_max),
        };
        Ok(Self {
            ended_max: options.ended_max,
            ended_for: options.ended_for,
            attempts_for: options.attempts_for,
            payloads_for,
            payloads_max,
            // The newest key stays, so that no key is given out twice.
            oldest_ended: connection.prepare(
                "SELECT key, mailbox, state, changed_at FROM operation INDEXED BY operation_ended
                 WHERE state BETWEEN 5 AND 8 AND key < (SELECT max(key) FROM operation) ORDER BY changed_at LIMIT ?1",
            )?,
            forget: connection.prepare("DELETE FROM operation WHERE key = ?1")?,
            forget_attempts: connection.prepare(
                "DELETE FROM attempt WHERE (operation, number) IN
                 (SELECT operation, number FROM attempt INDEXED BY attempt_by_claim WHERE claimed_at < ?1 LIMIT ?2)",
            )?,
            oldest_attempt: connection.prepare("SELECT min(claimed_at) FROM attempt INDEXED BY attempt_by_claim")?,
            first_ended: connection.prepare(
                "SELECT min(changed_at) FROM operation INDEXED BY operation_ended WHERE state BETWEEN 5 AND 8",
            )?,
            oldest_kept: connection
                .prepare("SELECT ended_at, key FROM kept_payload ORDER BY ended_at, key LIMIT ?1")?,
            forget_kept: connection.prepare("DELETE FROM kept_payload WHERE ended_at = ?1 AND key = ?2")?,
            drop_payload: connection.prepare("DELETE FROM payload WHERE key = ?1")?,
            unused: Unused::new(connection)?,
        })
    }

    /// Forgets what is due, in the transaction that has just written `written` rows.
    pub(super) fn run(&mut self, writes: &mut Writes<'c>, written: usize) -> Result<(), Fault> {
        let room = written.saturating_add(SPARE);
        let now = writes.latest;
        // First: the counts of what is forgotten below are written after this.
        self.unused.run(writes, written)?;
        self.attempts(writes, now, room)?;
        writes.forget_notes(room)?;
        self.payloads(writes, now, room)?;
        self.operations(writes, now, room)
    }

    fn attempts(&mut self, writes: &mut Writes<'c>, now: Timestamp, room: usize) -> Result<(), Fault> {
        let cutoff = now.before(self.attempts_for);
        if writes.oldest.attempt < cutoff {
            if self.forget_attempts.execute((row::stamp(cutoff), limit(room)))? > 0 {
                writes.walk.is_owed();
            }
            writes.oldest.attempt = oldest(&mut self.oldest_attempt)?;
        }
        Ok(())
    }

    fn operations(&mut self, writes: &mut Writes<'c>, now: Timestamp, room: usize) -> Result<(), Fault> {
        let over = OperationState::ALL.into_iter().filter(|state| is_over(*state));
        let ended: u64 = over.map(|state| writes.tally.count(state)).sum();
        let mut surplus = ended.saturating_sub(self.ended_max);
        let cutoff = now.before(self.ended_for);
        if surplus == 0 && writes.oldest.ended >= cutoff {
            return Ok(());
        }
        let mut rows = self.oldest_ended.query([limit(room)])?;
        let mut doomed = Vec::new();
        while let Some(found) = rows.next()? {
            if surplus == 0 && row::instant(found.get(3)?) >= cutoff {
                break;
            }
            surplus = surplus.saturating_sub(1);
            doomed.push((found.get::<_, i64>(0)?, found.get::<_, i64>(1)?, row::state(found.get(2)?)?));
        }
        drop(rows);
        for (key, mailbox, state) in doomed {
            self.forget.execute([key])?;
            writes.tally.removed(mailbox, state);
            writes.walk.is_owed();
        }
        writes.oldest.ended = oldest(&mut self.first_ended)?;
        Ok(())
    }

    fn payloads(&mut self, writes: &mut Writes<'c>, now: Timestamp, room: usize) -> Result<(), Fault> {
        let kept = writes.tally.kept();
        if kept == 0 {
            return Ok(());
        }
        let mut surplus = kept.saturating_sub(self.payloads_max);
        let cutoff = row::stamp(now.before(self.payloads_for));
        let mut rows = self.oldest_kept.query([limit(room)])?;
        let mut doomed = Vec::new();
        while let Some(found) = rows.next()? {
            let (ended_at, key): (i64, i64) = (found.get(0)?, found.get(1)?);
            if surplus == 0 && ended_at >= cutoff {
                break;
            }
            surplus = surplus.saturating_sub(1);
            doomed.push((ended_at, key));
        }
        drop(rows);
        for (ended_at, key) in doomed {
            self.drop_payload.execute([key])?;
            self.forget_kept.execute((ended_at, key))?;
            writes.tally.kept_moved(-1);
        }
        Ok(())
    }
}

/// The instant that `first` finds; never, where there is no row.
fn oldest(first: &mut Statement<'_>) -> Result<Timestamp, Fault> {
    let found: Option<i64> = first.query_row([], |row| row.get(0))?;
    Ok(found.map_or(Timestamp::NEVER, row::instant))
}

fn limit(room: usize) -> i64 {
    i64::try_from(room).unwrap_or(i64::MAX)
}
