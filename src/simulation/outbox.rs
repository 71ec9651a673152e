//! What survives the end of the process, and the end itself.
//!
//! The engines are dropped, with every wait in them; what was on the wire goes on without us. When the process is back,
//! engines are built from the operations, the attempt log and what the breakers remembered, as the actors do it after
//! a restart. Nothing here is a rule: the rules are `Mailbox::restore` and `Shared::restore`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::World;
use super::agenda::Happening;
use super::load::Traced;
use super::step::Work;
use crate::engine::breaker::BreakerMemory;
use crate::engine::mailbox::{Input, PastAttempt, Record, RestoredOperation};
use crate::engine::operation::{OperationKind, Transition};
use crate::engine::shared::{self, MailboxKey};
use crate::engine::{Leaves, OperationKey, OperationState, Scope, ScopeKind, Timestamp};

/// Whether the world writes down what a restart needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeepOutbox {
    /// It does not: [`World::crash`] loses everything that was submitted.
    #[default]
    No,
    /// It does.
    Yes,
}

/// The attempt log.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    keep: KeepOutbox,
    attempts: Vec<(OperationKey, Past)>,
    /// What the breakers of each scope remember.
    breakers: BTreeMap<Scope, BreakerMemory>,
}

/// One row of it.
#[derive(Clone, Copy, Debug)]
struct Past {
    claimed_at: Timestamp,
    finished_at: Option<Timestamp>,
    left: Left,
    leaves: Leaves,
}

/// Whether a byte of an attempt may have left the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Maybe,
    No,
}

/// What the outbox has of one operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    state: OperationState,
    next_at: Option<Timestamp>,
    attempts: u32,
    rows: u32,
    changed_at: Timestamp,
    /// Its last attempt in the log.
    last: Option<usize>,
}

impl Row {
    pub(super) const fn new(at: Timestamp) -> Self {
        Self { state: OperationState::Queued, next_at: None, attempts: 0, rows: 0, changed_at: at, last: None }
    }
}

impl World {
    /// Writes down, from now on, what a restart needs.
    #[must_use]
    pub fn keep_outbox(mut self, keep: KeepOutbox) -> Self {
        self.outbox.keep = keep;
        self
    }

    /// The claim of an attempt whose row was not written.
    pub(super) fn on_no_claim(&mut self, key: OperationKey) {
        if let Some(traced) = self.get_mut(key) {
            traced.row_in_outbox.last = None;
        }
    }

    /// Lets the process die at `at` and be back `down` later, with engines rebuilt from the outbox. What is submitted
    /// meanwhile waits until then; answers that arrive meanwhile are not heard.
    pub fn crash(&mut self, at: Timestamp, down: Duration) {
        self.put(at, Happening::Crash(at.after(down)));
    }

    pub(super) fn on_claim(&mut self, key: OperationKey, row: u32) {
        if self.outbox.keep == KeepOutbox::No {
            return;
        }
        let now = self.local(self.now);
        self.outbox
            .attempts
            .push((key, Past { claimed_at: now, finished_at: None, left: Left::Maybe, leaves: Leaves::All }));
        let last = Some(self.outbox.attempts.len() - 1);
        let Some(traced) = self.get_mut(key) else { return };
        let attempts = traced.row_in_outbox.attempts;
        traced.row_in_outbox =
            Row { state: OperationState::Attempting, next_at: None, attempts, rows: row, changed_at: now, last };
    }

    pub(super) fn on_breaker(&mut self, scope: Scope, memory: Option<Box<BreakerMemory>>) {
        match memory {
            Some(memory) => self.outbox.breakers.insert(scope, *memory),
            None => self.outbox.breakers.remove(&scope),
        };
    }

    pub(super) fn on_record(&mut self, record: &Record) {
        if self.outbox.keep == KeepOutbox::No {
            return;
        }
        let Some(traced) = self.get_mut(record.key) else { return };
        let row = &mut traced.row_in_outbox;
        (row.state, row.next_at, row.attempts, row.changed_at) =
            (record.state, record.next_at, record.attempts, record.at);
        let last = row.last;
        let Some((_, past)) = last.and_then(|last| self.outbox.attempts.get_mut(last)) else { return };
        match record.transition {
            Transition::Void => past.left = Left::No,
            Transition::Lose => {}
            _ if past.finished_at.is_none() => (past.finished_at, past.leaves) = (Some(record.at), record.leaves),
            _ => {}
        }
    }

    /// Whether the outbox has an operation as one that goes on.
    pub(super) fn is_in_outbox(&self, traced: &Traced) -> bool {
        self.outbox.keep == KeepOutbox::Yes && traced.submitted && !traced.row_in_outbox.state.is_final()
    }

    /// The process dies.
    pub(super) fn die(&mut self, back_at: Timestamp) {
        for traced in &mut self.traced {
            traced.live = false;
        }
        self.armed.fill(None);
        self.armed_shared = None;
        self.busy.clear();
        self.store.forget();
        self.down_until = Some(back_at);
        self.put(back_at, Happening::Restart);
        self.catch_up();
    }

    /// The process is back.
    pub(super) fn come_back(&mut self) {
        self.down_until = None;
        self.wall.read();
        self.make_engines();
        let now = self.local(self.now);
        let operations = self.operations_in_outbox();
        let mut attempts: Vec<Vec<PastAttempt>> = vec![Vec::new(); self.names.len()];
        let mut shared = Vec::new();
        for (mailbox, tenant, attempt) in self.attempts_in_outbox() {
            attempts[mailbox].push(attempt);
            shared.push((tenant, attempt));
        }
        if let Some(engine) = &mut self.shared {
            let breakers = self.outbox.breakers.iter().filter(|(scope, _)| scope.kind() != ScopeKind::Mailbox);
            breakers.for_each(|(scope, memory)| engine.restore_breaker(now, scope, memory));
            engine.restore(now, shared);
        }
        for (number, operations) in operations.into_iter().enumerate() {
            self.fill(number, operations, &attempts[number]);
        }
    }

    /// Gives an empty engine what the outbox has of its mailbox.
    fn fill(&mut self, number: usize, operations: Vec<RestoredOperation>, attempts: &[PastAttempt]) {
        let (now, ask) = (self.local(self.now), self.asks());
        let own = Scope::Mailbox(Arc::clone(&self.names[number]));
        if let Some(memory) = self.outbox.breakers.get(&own) {
            self.mailboxes[number].restore_breaker(now, memory);
        }
        self.mailboxes[number].restore(now, operations, attempts);
        self.run(Work::Mailbox(number, Input::AskShared(ask)));
    }

    fn operations_in_outbox(&self) -> Vec<Vec<RestoredOperation>> {
        let mut operations: Vec<Vec<RestoredOperation>> = vec![Vec::new(); self.names.len()];
        for (place, traced) in self.traced.iter().enumerate() {
            let row = traced.row_in_outbox;
            if self.is_in_outbox(traced) {
                let mut operation = self.operation(OperationKey(place as u64 + 1), traced);
                operation.attempts = row.attempts;
                let (state, next_at, rows, changed_at) = (row.state, row.next_at, row.rows, row.changed_at);
                operations[traced.mailbox].push(RestoredOperation {
                    operation,
                    state,
                    next_at,
                    rows,
                    changed_at,
                    maybe_sent: false,
                    crashes: 0,
                    requested: None,
                    accepted: None,
                });
            }
        }
        operations
    }

    /// Every attempt that may have reached the provider, with its mailbox and its tenant.
    fn attempts_in_outbox(&self) -> impl Iterator<Item = (usize, Option<Arc<str>>, PastAttempt)> + '_ {
        let rows = self.outbox.attempts.iter().filter(|(_, past)| past.left == Left::Maybe);
        rows.filter_map(|(key, past)| {
            let traced = self.get(*key)?;
            let Past { claimed_at, finished_at, leaves, .. } = *past;
            let (key, lane, cost) = (*key, traced.lane, traced.cost);
            let attempt = PastAttempt { key, lane, cost, claimed_at, finished_at, kind: OperationKind::Send, leaves };
            Some((traced.mailbox, traced.tenant.clone(), attempt))
        })
    }

    /// One mailbox's actor is lost with its engine, and another one made over the outbox. Answers to what the first one sent are
    /// not heard.
    pub(super) fn lose(&mut self, number: usize) {
        if self.down_until.is_some() {
            return;
        }
        let theirs = |traced: &&mut Traced| traced.mailbox == number;
        self.traced.iter_mut().filter(theirs).for_each(|traced| traced.live = false);
        (self.armed[number], self.mailboxes[number]) = (None, self.make_engine(number));
        self.busy.lose(number);
        self.store.forget_of(number);
        let gone = MailboxKey(u32::try_from(number).unwrap_or(u32::MAX));
        self.run(Work::Shared(shared::Input::MailboxGone(gone)));
        let operations = std::mem::take(&mut self.operations_in_outbox()[number]);
        let attempts: Vec<_> =
            self.attempts_in_outbox().filter(|(mailbox, ..)| *mailbox == number).map(|(.., attempt)| attempt).collect();
        self.fill(number, operations, &attempts);
    }
}
