//! A mailbox from what the outbox still knows: after a restart, or after its actor was lost.
//!
//! Charges come back from the attempt log, so a restart grants no free day. An attempt that was live is `unknown`
//! from now on: its request may have reached the provider.

use std::time::Duration;

use super::Mailbox;
use super::entry::{Step, Wish};
use super::table::End;
use super::unknown::Tried;
use crate::engine::breaker::BreakerMemory;
use crate::engine::cost::Cost;
use crate::engine::lane::Lane;
use crate::engine::leaves::Leaves;
use crate::engine::operation::{
    KeyMap, Operation, OperationKey, OperationKind, OperationState, QuarantineCause, Requested, Transition,
};
use crate::engine::scope::ScopeKind;
use crate::engine::time::Timestamp;
use crate::engine::verdict::Answer;

/// A live operation as the outbox has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredOperation {
    /// What it is.
    pub operation: Operation,
    /// Where it was.
    pub state: OperationState,
    /// Its earliest next attempt, where it had one.
    pub next_at: Option<Timestamp>,
    /// Attempt rows written so far.
    pub rows: u32,
    /// When its state last changed.
    pub changed_at: Timestamp,
    /// Whether an attempt may have been accepted, as its row says.
    pub maybe_sent: bool,
    /// How often it crashed its worker, as far as that is known.
    pub crashes: u32,
    /// What a person asked for while its attempt was live.
    pub requested: Option<Requested>,
    /// The answer of its attempt, where the provider took it and no engine was there to hear it.
    pub accepted: Option<Answer>,
}

/// An attempt as the log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastAttempt {
    /// Whose.
    pub key: OperationKey,
    /// The lane it was charged to.
    pub lane: Lane,
    /// What it took.
    pub cost: Cost,
    /// When its row was written.
    pub claimed_at: Timestamp,
    /// When it ended, or could arrive at the latest; `None`: not known to have ended.
    pub finished_at: Option<Timestamp>,
    /// Whose it was to send.
    pub kind: OperationKind,
    /// What of its cost counts on.
    pub leaves: Leaves,
}

impl PastAttempt {
    /// From which instant on it leaves each window one window later, where an attempt can arrive for `linger`.
    ///
    /// An end that is ahead is the latest possible arrival of one whose end nobody knows, and stays; one that is
    /// further ahead is of a clock that was set back. Who had a permit may have sent until the process ended, and that may
    /// have been just now.
    #[must_use]
    pub fn counts_until(&self, now: Timestamp, linger: Duration) -> Timestamp {
        let lingers = self.claimed_at.min(now).after(linger);
        match (self.finished_at, self.kind) {
            (Some(at), _) => at.min(now.after(linger)),
            (None, OperationKind::Send) => lingers,
            (None, OperationKind::Permit) => lingers.max(now),
        }
    }

    /// Whether the provider may still be executing it.
    pub(in crate::engine) fn may_be_live(&self, now: Timestamp) -> bool {
        self.finished_at.is_none_or(|at| at > now)
    }
}

/// An instant that was named at `said_at`, where the clock was set back since: as far ahead as it was then.
pub(super) fn rebased(now: Timestamp, said_at: Timestamp, at: Timestamp) -> Timestamp {
    if said_at > now { now.after(at.since(said_at)) } else { at }
}

impl Mailbox {
    /// Puts the breaker back that an earlier life of this mailbox had: call it before [`Mailbox::restore`].
    pub fn restore_breaker(&mut self, now: Timestamp, memory: &BreakerMemory) {
        self.now = self.now.max(now);
        self.table.set_standing(None);
        self.budget.restore_breaker(self.now, memory, Self::rules(&self.policy));
    }

    /// Puts back what an earlier life of this mailbox left: call once, before any input.
    ///
    /// Claims after `now` (the clock was set back between two lives) are taken as of `now`: charges then count
    /// longer than they must, never shorter.
    ///
    /// `operations` come in order of key, which is their order in their lanes. They are taken in one by one: there may be
    /// a million.
    pub fn restore(
        &mut self,
        now: Timestamp,
        operations: impl IntoIterator<Item = RestoredOperation>,
        attempts: &[PastAttempt],
    ) {
        self.now = self.now.max(now);
        self.table.set_standing(None);
        let linger = self.policy.guard.request_deadline_max;
        for attempt in attempts {
            let (claimed_at, until) = (attempt.claimed_at.min(now), attempt.counts_until(now, linger));
            let kept = attempt.leaves.kept(attempt.cost, ScopeKind::Mailbox);
            self.budget.restore(attempt.lane, &kept, until, Self::rules(&self.policy));
            if attempt.may_be_live(now) {
                self.budget.restore_live(now, (attempt.lane, claimed_at), until, Self::rules(&self.policy));
            }
        }
        let tried = self.tried(attempts);
        for restored in operations {
            self.at_work = Some(restored.operation.key);
            self.restore_one(now, restored, &tried);
        }
        self.at_work = None;
        self.recount_passing();
        self.end_hopeless(now);
        self.sweep(now);
        self.pump(now);
        self.remember(now);
        self.tell_passing();
        self.tell_events();
    }

    fn restore_one(&mut self, now: Timestamp, restored: RestoredOperation, tried: &KeyMap<Tried>) {
        if restored.state.is_final() {
            return;
        }
        let key = restored.operation.key;
        let not_before = restored.operation.not_before;
        self.table.insert(&restored.operation);
        if let Some(entry) = self.table.get_mut(key) {
            (entry.state, entry.rows) = (restored.state, restored.rows);
            entry.wish = restored.requested.map_or(Wish::Nothing, Wish::from);
            entry.set_in_doubt(restored.maybe_sent);
        }
        if let Some(answer) = restored.accepted.filter(|_| restored.state == OperationState::Attempting) {
            if let Some(entry) = self.table.get_mut(key) {
                entry.set_status(answer.status);
            }
            return self.accepted(now, key, Transition::Accept, answer.provider_id);
        }
        if matches!(restored.state, OperationState::Attempting | OperationState::Unknown) {
            // Nobody heard how it ended. Until its deadline it is live, and a person is no reason for two (O2).
            let live_until = restored.changed_at.after(self.policy.guard.request_deadline_max);
            let live_until = rebased(now, restored.changed_at, live_until);
            if let Some(entry) = self.table.get_mut(key).filter(|_| live_until > now) {
                entry.more_mut().live_until = Some(live_until);
            }
        }
        if self.is_poison(restored.crashes) {
            return self.set_aside(now, key, QuarantineCause::Poison);
        }
        match restored.state {
            OperationState::Attempting => {
                self.presume_sent(key);
                if let Some(entry) = self.table.get_mut(key) {
                    entry.apply(Transition::Lose);
                }
                self.doubt(now, key);
            }
            OperationState::Unknown => {
                self.presume_sent(key);
                let since = restored.changed_at.min(now);
                self.await_look_up(key, Step::unknown(since), now);
            }
            _ => {
                self.assume_sent(now, key, tried.get(&key));
                let at =
                    restored.next_at.map_or(not_before, |next| rebased(now, restored.changed_at, next).max(not_before));
                if at > now {
                    self.table.delay(key, Step::Delayed { due_at: at });
                } else {
                    self.ready(now, key, End::Tail);
                }
            }
        }
    }
}
