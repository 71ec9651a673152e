//! Operations that crash their worker: counted, kept, sent one at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use super::kept;
use super::mailbox::{MailboxActor, Mode};
use super::news::News;
use super::reply::Reply;
use crate::engine::{OperationKey, OperationState};
use crate::store::{NoteChange, Recovery};

/// How long a process that is to end by a panic waits for its count to be written.
const ABORT_AFTER: Duration = Duration::from_secs(2);

impl MailboxActor {
    /// Counts a panic, if anybody knows whose, and says how many crashes that operation has.
    pub(super) fn count_panic(&mut self, culprit: Option<OperationKey>) -> u32 {
        let attempt = culprit.and_then(|key| self.desk.attempt_under_way(key));
        let crashes = self.world.crashes().count(culprit, attempt);
        if let Some(key) = culprit {
            self.keep_crashes(key);
        }
        crashes
    }

    /// Has the count of an operation outlive the process.
    pub(super) fn keep_crashes(&mut self, key: OperationKey) {
        if self.is_permit(key) {
            return;
        }
        let mailbox = self.seat.id();
        self.journal.note(match self.world.crashes().kept(key) {
            Some(count) => kept::crash(mailbox, key, count, self.now),
            None => NoteChange::Drop(kept::crash_key(mailbox, key)),
        });
    }

    /// What earlier processes counted; and what was on its way when the last one died. Where several processes share a
    /// store nobody knows of another one that it has died.
    pub(super) fn count_deaths(&mut self, recovery: &Recovery) {
        for (key, count) in kept::crashes(&recovery.notes) {
            self.world.crashes().restore(key, count);
        }
        let out = recovery.operations.iter().filter(|record| record.state == OperationState::Attempting);
        let unheard: Vec<_> = out.filter(|record| self.desk.get(record.key).is_none()).collect();
        if unheard.is_empty() || self.world.fleet.is_some() {
            return;
        }
        // An actor of this process may have been lost, and its attempts may still be under way.
        let born = self.world.crashes().born();
        let ours = recovery.attempts.iter().filter(|attempt| attempt.claimed_at >= born);
        let ours: BTreeSet<_> = ours.map(|attempt| (attempt.key, attempt.attempt)).collect();
        for record in unheard.into_iter().filter(|record| !ours.contains(&(record.key, record.rows))) {
            if self.world.crashes().died(record.key, record.rows) {
                self.keep_crashes(record.key);
            }
        }
    }

    /// An attempt has ended, and the process with it has not.
    pub(super) fn has_survived(&mut self, key: OperationKey) {
        self.world.crashes().landed(key);
        if self.world.crashes().survived(key) {
            self.keep_crashes(key);
        }
    }

    /// Whether an operation may be claimed. One that a process may have died of waits until no other such is on its way:
    /// its claim fails, and comes again.
    pub(super) fn may_claim(&self, key: OperationKey) -> bool {
        let until = self.now.after(self.policy.guard.request_deadline_max);
        let may = self.world.crashes().may_go(key, self.now, until);
        if !may {
            self.world.reply(&self.seat, Reply::Alone { key });
        }
        may
    }

    /// Ends the process as configured, when the count of what it ends by is written, or soon all the same.
    pub(super) fn abort(&mut self) {
        self.mode = Mode::Held;
        self.journal.tell_when_written(News::Abort);
        self.world.host.spawn(async {
            // A bound: a store that does not answer keeps no process alive that is to end.
            tokio::time::sleep(ABORT_AFTER).await;
            std::process::abort();
        });
    }
}
