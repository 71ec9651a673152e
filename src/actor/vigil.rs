//! A mailbox without an engine, and the deadlines that pass meanwhile.
//!
//! Its store may be away for hours. Whoever waits for an operation learns at its deadline what is true of it then; the
//! store learns it when it is back, from the next engine, which ends what is out of time before it sends anything.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::desk::Flight;
use super::mailbox::MailboxActor;
use super::reply::Reply;
use crate::engine::mailbox::{Outcome, Vigil};
use crate::engine::{Answer, OperationKey, OperationState, Timestamp, Verdict};
use crate::store::Recovery;

#[derive(Debug, Default)]
pub(super) struct Watch {
    vigil: Vigil,
    /// Out of time while their attempts were out: told when those have landed.
    overdue: BTreeMap<OperationKey, Outcome>,
}

impl Watch {
    /// The next deadline.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.vigil.next_at()
    }
}

impl MailboxActor {
    /// The engine goes. What it knew of deadlines stays; says what it was dealing with.
    pub(super) fn lose_engine(&mut self) -> Option<OperationKey> {
        let engine = self.engine.take()?;
        // One that has panicked may do so again.
        let vigil = catch_unwind(AssertUnwindSafe(|| engine.vigil())).unwrap_or_default();
        self.watch.vigil = vigil.after(std::mem::take(&mut self.watch.vigil));
        engine.at_work()
    }

    /// There is an engine again, or the deadlines are another process's.
    pub(super) fn end_vigil(&mut self) {
        self.watch = Watch::default();
    }

    /// Tells those whose operation's deadline has passed.
    pub(super) fn keep_vigil(&mut self) {
        while let Some((key, outcome)) = self.watch.vigil.pop(self.now) {
            let Some(entry) = self.desk.get(key) else { continue };
            let attempt = (key, entry.attempt);
            let heard = self.postponed.iter().find(|reply| attempt_of(reply) == Some(attempt));
            if entry.flight == Flight::Airborne && heard.is_none() {
                self.watch.overdue.insert(key, outcome);
            } else {
                let outcome = heard.and_then(acceptance).unwrap_or(outcome);
                self.desk.tell(key, &outcome);
            }
        }
    }

    /// An attempt has ended that no engine hears of yet. That the provider took it is true whatever becomes of this
    /// process.
    pub(super) fn overhear(&mut self, reply: &Reply) {
        let Some((key, attempt)) = attempt_of(reply) else { return };
        if !self.desk.is_out(key, attempt) {
            return;
        }
        let overdue = self.watch.overdue.remove(&key);
        if let Some(outcome) = acceptance(reply).or(overdue) {
            self.desk.tell(key, &outcome);
        }
    }

    /// Answers of attempts that the provider took while there was no engine: the next one hears them before it looks at
    /// deadlines.
    pub(super) fn take_acceptances(&mut self, recovery: &Recovery) -> BTreeMap<OperationKey, Answer> {
        let mut taken = BTreeMap::new();
        if self.postponed.is_empty() {
            return taken;
        }
        for record in recovery.operations.iter().filter(|record| record.state == OperationState::Attempting) {
            let attempt = (record.key, record.rows);
            let heard = |reply: &Reply| attempt_of(reply) == Some(attempt) && acceptance(reply).is_some();
            let at = self.postponed.iter().position(heard).filter(|_| self.desk.is_out(record.key, record.rows));
            if let Some(Reply::Finished { key, attempt, answer }) = at.map(|at| self.postponed.remove(at)) {
                self.desk.land(key, attempt);
                self.count_drained(&answer.verdict);
                taken.insert(key, answer);
            }
        }
        taken
    }
}

/// Which attempt of which operation has ended.
fn attempt_of(reply: &Reply) -> Option<(OperationKey, u32)> {
    match reply {
        Reply::Finished { key, attempt, .. } | Reply::Unsent { key, attempt } | Reply::Crashed { key, attempt } => {
            Some((*key, *attempt))
        }
        _ => None,
    }
}

/// What the provider has taken, if it has.
fn acceptance(reply: &Reply) -> Option<Outcome> {
    match reply {
        Reply::Finished { attempt, answer, .. } if answer.verdict == Verdict::Accepted => {
            Some(Outcome::Accepted { provider_id: answer.provider_id.clone(), attempts: *attempt })
        }
        _ => None,
    }
}
