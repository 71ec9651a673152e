//! Forgetting names: mailboxes and tenants that nothing in the file bears any more.
//!
//! A name falls out of use when the last row that bears it is forgotten. So after that the names are walked, a few with
//! every transaction, until a whole round has passed in which nothing was forgotten; between rounds this costs nothing. A
//! look is a probe of one index after another, and the first row that is found ends it.
//!
//! The highest number stays until there is a higher one, so that none is given out twice: whatever remembers a number never
//! means another name by it. So it is looked at once more when there is one. A name that comes back gets a new one.

use rusqlite::{Connection, OptionalExtension, Statement};

use super::fault::Fault;
use super::write::Writes;

/// Names looked at per transaction, beside as many as it wrote rows: a few microseconds each.
const LOOKS: usize = 8;

const FORGET: &str = "
DELETE FROM name WHERE nr = ?1 AND nr < (SELECT max(nr) FROM name)
    AND NOT EXISTS (SELECT 1 FROM operation INDEXED BY operation_by_mailbox WHERE mailbox = ?1)
    AND NOT EXISTS (SELECT 1 FROM operation INDEXED BY operation_by_tenant WHERE tenant = ?1)
    AND NOT EXISTS (SELECT 1 FROM attempt INDEXED BY attempt_by_mailbox WHERE mailbox = ?1)
    AND NOT EXISTS (SELECT 1 FROM attempt INDEXED BY attempt_by_tenant WHERE tenant = ?1)
    AND NOT EXISTS (SELECT 1 FROM note INDEXED BY note_by_mailbox WHERE mailbox = ?1)
    AND NOT EXISTS (SELECT 1 FROM tally WHERE mailbox = ?1 AND operations <> 0)
RETURNING text";

/// How far the names have been looked at.
#[derive(Debug)]
pub(super) struct Walk {
    /// The last one looked at in this round; `None`: no round is under way.
    after: Option<i64>,
    /// A name may have fallen out of use behind it.
    again: bool,
}

impl Walk {
    /// Nobody has looked: a file that was just opened, or a transaction that never was.
    pub(super) const UNKNOWN: Self = Self { after: None, again: true };

    /// This number was given out: the one before it was the highest, and stayed for that alone.
    fn has_given(&mut self, number: i64) {
        let before = number.saturating_sub(2);
        if !self.again {
            self.after = Some(self.after.map_or(before, |after| after.min(before)));
        }
    }

    /// A row that may have borne a name is gone, so there has to be another round.
    pub(super) const fn is_owed(&mut self) {
        self.again = true;
    }
}

pub(super) struct Unused<'c> {
    next: Statement<'c>,
    forget: Statement<'c>,
    forget_counts: Statement<'c>,
}

impl<'c> Unused<'c> {
    pub(super) fn new(connection: &'c Connection) -> Result<Self, Fault> {
        Ok(Self {
            next: connection.prepare("SELECT nr FROM name WHERE nr > ?1 ORDER BY nr LIMIT ?2")?,
            forget: connection.prepare(FORGET)?,
            // Counts of zero: `FORGET` has seen that there are no others.
            forget_counts: connection.prepare("DELETE FROM tally WHERE mailbox = ?1")?,
        })
    }

    /// Looks at the next few names, and forgets those that nothing bears. Before this transaction forgets operations: they
    /// are counted until its end.
    pub(super) fn run(&mut self, writes: &mut Writes<'c>, written: usize) -> Result<(), Fault> {
        if let Some(number) = writes.names.take_given() {
            writes.walk.has_given(number);
        }
        let after = match writes.walk.after {
            Some(after) => after,
            None if writes.walk.again => {
                writes.walk.again = false;
                0
            }
            None => return Ok(()),
        };
        let count = written.saturating_add(LOOKS);
        let rows = self.next.query_map((after, i64::try_from(count).unwrap_or(i64::MAX)), |row| row.get(0))?;
        let numbers = rows.collect::<Result<Vec<i64>, _>>()?;
        for number in &numbers {
            let text: Option<String> = self.forget.query_row([number], |row| row.get(0)).optional()?;
            if let Some(text) = text {
                writes.names.drop(*number, &text);
                self.forget_counts.execute([number])?;
            }
        }
        writes.walk.after = numbers.last().copied().filter(|_| numbers.len() == count);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::schema;

    #[test]
    fn a_look_at_a_name_walks_no_table() {
        let connection = Connection::open_in_memory().expect("memory");
        schema::migrate(&connection, 0).expect("an empty file takes the schema");
        connection.execute_batch("PRAGMA foreign_keys = ON").expect("as every connection of ours");
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {FORGET}")).expect("sound");
        let plan = statement.query_map([1], |step| step.get(3)).expect("a plan");
        let plan = plan.collect::<Result<Vec<String>, _>>().expect("text");
        let probes = plan.iter().filter(|step| step.starts_with("SEARCH ")).count();
        assert!(plan.iter().all(|step| step.starts_with("SEARCH ") || step.starts_with("SCALAR ")), "{plan:#?}");
        assert_eq!(probes, 8 + 4, "the name, the highest, six looks, and SQLite's own four: {plan:#?}");
    }
}
