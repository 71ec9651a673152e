//! The one thread that writes, and how calls share its commits.
//!
//! A commit costs one sync of the disk, however much it holds. So the writer takes the next call and everything that
//! has arrived behind it (`call`), commits once, and then answers them all (`reply`).
//!
//! A call that cannot be done fails alone: the transaction is undone and the others are written again without it. Where
//! damage does not say whose it is, each is written by itself, so that one bad page is one operation's trouble. Damage
//! that only forgetting meets ends the forgetting, until the file is opened anew, and not the writing.
//!
//! When the disk is full, what is due is forgotten first, in a transaction of its own. If that made no room, submissions
//! fail and the rest is tried again without them, because what is recorded of accepted operations matters more than new
//! ones.
//!
//! Before each transaction the lock is looked at. Once another process may have the outbox, every call fails and nothing is
//! written.
//!
//! A caller that stops listening changes nothing: what has been handed over is written.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, Statement};
use tokio::sync::mpsc;

use super::call::{Answer, Call, GROUP_OPERATIONS_MAX, Group, Reply, gather};
use super::checkpoint::Checkpointer;
use super::fault::Fault;
use super::lock::Lock;
use super::options::SqliteOptions;
use super::purge::Purge;
use super::reply::Callers;
use super::write::Writes;
use crate::store::StoreError;

/// What a row is taken to cost in the write-ahead log.
const ROW_BYTES: usize = 2_048;
/// What a commit is taken to cost there, beside its rows: a page of every table and index.
const COMMIT_BYTES: usize = 12 * 4_096;

/// Why a transaction was undone.
enum Undone {
    /// The call at this place cannot be done; the others can.
    One(usize, StoreError),
    /// The store could not.
    All(Fault),
    /// A test ended the writer here.
    #[cfg(feature = "test-util")]
    Died,
}

/// Why the writer ended.
pub(super) enum End {
    /// Somebody closed the store, and waits for this.
    Closed(Reply<()>),
    /// Nobody is left who could call.
    Dropped,
    /// It is as after a crash.
    Died,
}

/// Whether the writer goes on.
#[derive(PartialEq, Eq)]
enum After {
    GoOn,
    Stop,
}

pub(super) struct Writer<'c> {
    file: &'c Path,
    connection: &'c Connection,
    lock: &'c Lock,
    begin: Statement<'c>,
    commit: Statement<'c>,
    writes: Writes<'c>,
    /// Forgets; not any more once it has met damage.
    purge: Option<Purge<'c>>,
    checkpointer: &'c Checkpointer,
    #[cfg(feature = "test-util")]
    probe: Option<super::probe::CommitProbe>,
    #[cfg(feature = "test-util")]
    commits: u64,
}

impl<'c> Writer<'c> {
    pub(super) fn new(
        file: &'c Path,
        (connection, lock): (&'c Connection, &'c Lock),
        checkpointer: &'c Checkpointer,
        options: &SqliteOptions,
    ) -> Result<Self, Fault> {
        Ok(Self {
            file,
            connection,
            lock,
            begin: connection.prepare("BEGIN IMMEDIATE")?,
            commit: connection.prepare("COMMIT")?,
            writes: Writes::new(connection, options)?,
            purge: Some(Purge::new(connection, options)?),
            checkpointer,
            #[cfg(feature = "test-util")]
            probe: options.commit_probe.clone(),
            #[cfg(feature = "test-util")]
            commits: 0,
        })
    }

    /// Writes until the last call.
    pub(super) fn run(mut self, calls: &mut mpsc::Receiver<Call>) -> End {
        let mut expected = 1;
        while let Some(first) = calls.blocking_recv() {
            let Group { calls: group, last } = gather(first, calls, expected);
            expected = group.len();
            if self.perform(group) == After::Stop {
                return End::Died;
            }
            if let Some(reply) = last {
                return End::Closed(reply);
            }
        }
        End::Dropped
    }

    fn perform(&mut self, mut group: Vec<Call>) -> After {
        let mut forgot = false;
        if let Err(error) = self.lock.check() {
            group.drain(..).for_each(|call| call.fail(error.clone()));
        }
        while !group.is_empty() {
            match self.transact(&group) {
                Ok(answers) => {
                    let wrote = group.iter().map(|call| call.bytes() + call.operations() * ROW_BYTES).sum::<usize>();
                    let callers = Arc::new(Callers::default());
                    group.into_iter().zip(answers).for_each(|(call, answer)| call.answer(answer, &callers));
                    callers.wake();
                    self.checkpointer.wrote(self.connection, wrote + COMMIT_BYTES);
                    break;
                }
                Err(Undone::One(place, error)) => group.remove(place).fail(error),
                Err(Undone::All(fault)) if fault.is_full() && !forgot => {
                    forgot = true;
                    if self.make_room(&group) == After::Stop {
                        return After::Stop;
                    }
                }
                Err(Undone::All(fault)) if group.len() > 1 && !fault.may_pass() => return self.one_by_one(group),
                Err(Undone::All(fault)) => group = self.lighten(group, fault),
                #[cfg(feature = "test-util")]
                Err(Undone::Died) => return After::Stop,
            }
        }
        After::GoOn
    }

    /// Nobody knows whose fault it was: each shows for itself.
    fn one_by_one(&mut self, group: Vec<Call>) -> After {
        for call in group {
            if self.perform(vec![call]) == After::Stop {
                return After::Stop;
            }
        }
        After::GoOn
    }

    /// Forgets what is due by the clock of these calls, so that a full store that holds only what is over goes on. If it
    /// cannot, the next try is as full.
    fn make_room(&mut self, group: &[Call]) -> After {
        // The log's room can be used again once it has been taken over.
        self.checkpointer.take_over(self.connection);
        self.writes.latest = group.iter().map(Call::latest).fold(self.writes.latest, Ord::max);
        let done = self.forget_due();
        match self.undo_if_failed(done) {
            #[cfg(feature = "test-util")]
            Err(Undone::Died) => After::Stop,
            _ => After::GoOn,
        }
    }

    fn forget_due(&mut self) -> Result<(), Undone> {
        let Some(purge) = &mut self.purge else { return Ok(()) };
        self.begin.execute([]).map_err(|error| Undone::All(error.into()))?;
        purge.run(&mut self.writes, GROUP_OPERATIONS_MAX).map_err(Undone::All)?;
        self.writes.tally.write().map_err(Undone::All)?;
        self.commit()?;
        self.writes.tally.commit();
        Ok(())
    }

    /// What is worth another try after the store could not: without the submissions, if it was full.
    fn lighten(&mut self, group: Vec<Call>, fault: Fault) -> Vec<Call> {
        let is_full = fault.is_full();
        let error = fault.at(self.file);
        if is_full {
            // The log's room can be used again once it has been taken over.
            self.checkpointer.take_over(self.connection);
        }
        let (inserts, rest): (Vec<_>, Vec<_>) = group.into_iter().partition(|call| matches!(call, Call::Insert(..)));
        let again = is_full && !inserts.is_empty();
        inserts.into_iter().for_each(|call| call.fail(error.clone()));
        if again {
            return rest;
        }
        rest.into_iter().for_each(|call| call.fail(error.clone()));
        Vec::new()
    }

    /// One transaction for the whole group, durable when it returns the answers.
    fn transact(&mut self, group: &[Call]) -> Result<Vec<Answer>, Undone> {
        let done = self.write(group);
        self.undo_if_failed(done)
    }

    fn undo_if_failed<T>(&mut self, done: Result<T, Undone>) -> Result<T, Undone> {
        if done.is_err() {
            self.writes.roll_back();
            if !self.connection.is_autocommit() {
                // It fails only where SQLite has rolled back by itself.
                drop(self.connection.execute_batch("ROLLBACK"));
            }
        }
        done
    }

    fn write(&mut self, group: &[Call]) -> Result<Vec<Answer>, Undone> {
        let operations: usize = group.iter().map(Call::operations).sum();
        if group.iter().all(|call| matches!(call, Call::Settle(_))) {
            return Ok(group.iter().map(|_| Answer::Recorded(Ok(()))).collect());
        }
        let all = |error: rusqlite::Error| Undone::All(error.into());
        self.begin.execute([]).map_err(all)?;
        let mut answers = Vec::with_capacity(group.len());
        for (place, call) in group.iter().enumerate() {
            answers.push(self.write_one(call).map_err(|fault| match fault {
                Fault::Answer(error) => Undone::One(place, error),
                Fault::Row(_) => Undone::One(place, fault.at(self.file)),
                Fault::Sql(_) => Undone::All(fault),
            })?);
        }
        self.forget(operations)?;
        self.writes.tally.write().map_err(Undone::All)?;
        self.commit()?;
        self.writes.tally.commit();
        Ok(answers)
    }

    fn forget(&mut self, written: usize) -> Result<(), Undone> {
        let Some(purge) = &mut self.purge else { return Ok(()) };
        match purge.run(&mut self.writes, written) {
            Err(fault) if !fault.may_pass() => self.purge = None,
            done => done.map_err(Undone::All)?,
        }
        Ok(())
    }

    fn write_one(&mut self, call: &Call) -> Result<Answer, Fault> {
        let writes = &mut self.writes;
        Ok(match call {
            Call::Insert(batch, _) => Answer::Inserted(writes.insert_all(batch)?),
            Call::Claim(batch, _) => Answer::Claimed(writes.claim_all(batch)?),
            Call::Record(batch, _) => {
                // The others are done; what contradicts is left out and told.
                let told = batch.iter().map(|record| writes.record(record)).collect::<Result<Vec<_>, _>>()?;
                Answer::Recorded(told.into_iter().collect())
            }
            Call::Keep(batch, _) => Answer::Recorded(writes.keep(batch)?),
            Call::Settle(_) | Call::Close(_) => Answer::Recorded(Ok(())),
        })
    }

    #[cfg(not(feature = "test-util"))]
    fn commit(&mut self) -> Result<(), Undone> {
        self.commit.execute([]).map(drop).map_err(|error| Undone::All(error.into()))
    }

    #[cfg(feature = "test-util")]
    fn commit(&mut self) -> Result<(), Undone> {
        use super::probe::{CommitPoint, Fate};
        self.commits += 1;
        let look = |point| self.probe.as_ref().map_or(Fate::GoOn, |probe| probe.look(point));
        if look(CommitPoint::Before(self.commits)) == Fate::Die {
            return Err(Undone::Died);
        }
        self.commit.execute([]).map_err(|error| Undone::All(error.into()))?;
        if look(CommitPoint::After(self.commits)) == Fate::Die {
            return Err(Undone::Died);
        }
        Ok(())
    }
}
