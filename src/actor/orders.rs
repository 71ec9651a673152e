//! What a person orders about one operation: cancel, set aside, release, settle.
//!
//! The engine knows the operation while it is live, and there the order goes straight. One that has come to an end is
//! in the store alone. Whoever gave the order has read its row, but a row is old as soon as it is read, so it is read
//! once more, behind every record that this actor has written, and that row decides.
//!
//! What an order says goes into the store with the record of what it did. An order that has to wait for the end of an
//! attempt is a note in the store before it is answered, and is given again to whatever engine comes next: one that is
//! rebuilt, that of the next process, that of another process that takes the mailbox over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::desk::{Entry, Flight};
use super::kept;
use super::mailbox::MailboxActor;
use super::news::News;
use super::past;
use super::question::OrderAnswer;
use crate::engine::mailbox::{HoldTarget, Input, Record, Refusal};
use crate::engine::operation::{OrderWords, Requested, Resolution, Transition};
use crate::engine::{OperationKey, OperationState};
use crate::store::{NoteChange, OperationRecord, Recovery, RequestNote};

/// An order about one operation.
#[derive(Debug)]
pub(crate) struct PersonOrder {
    pub(crate) id: Arc<str>,
    pub(crate) key: OperationKey,
    pub(crate) word: Word,
    pub(crate) note: Arc<OrderWords>,
    /// Dropped unanswered, there is no engine that could obey.
    pub(crate) answer: oneshot::Sender<Result<OrderAnswer, Refusal>>,
}

/// What is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Cancel,
    Quarantine,
    Release,
    Resolve(Resolution),
}

impl Word {
    /// What it asks for where it has to wait for the end of an attempt.
    const fn requested(self) -> Option<Requested> {
        match self {
            Self::Cancel => Some(Requested::Cancel),
            Self::Quarantine => Some(Requested::Quarantine),
            Self::Release | Self::Resolve(_) => None,
        }
    }

    const fn of(requested: Requested) -> Self {
        match requested {
            Requested::Cancel => Self::Cancel,
            Requested::Quarantine => Self::Quarantine,
        }
    }
}

/// An order that was given to the engine and whose record has not come yet.
#[derive(Debug)]
pub(crate) struct Given {
    word: Word,
    note: Arc<OrderWords>,
    /// An order about its operation waits in the store: this one, or the one that it replaces.
    stored: bool,
}

impl MailboxActor {
    pub(super) fn on_order(&mut self, order: PersonOrder) {
        if self.engine.is_none() {
            return;
        }
        if self.desk.get(order.key).is_some() {
            self.order_live(order);
        } else {
            self.journal.look_up_for(order);
        }
    }

    /// The operation is at the desk: the engine has it.
    fn order_live(&mut self, order: PersonOrder) {
        let Some(state) = self.engine.as_ref().and_then(|engine| engine.state(order.key)) else { return };
        let flight = self.desk.get(order.key).map_or(Flight::Grounded, |entry| entry.flight);
        let fits = match order.word {
            Word::Cancel => Ok(Input::Cancel { key: order.key }),
            // A rebuilt engine takes an attempt that is still out for unknown: its answer may come any moment.
            Word::Quarantine | Word::Resolve(_)
                if state == OperationState::Unknown && matches!(flight, Flight::Airborne) =>
            {
                Err(OperationState::Attempting)
            }
            Word::Quarantine => Ok(Input::Quarantine { key: order.key }),
            Word::Resolve(resolution) if state == OperationState::Unknown => {
                Ok(Input::Ruled { key: order.key, resolution })
            }
            Word::Resolve(_) | Word::Release => Err(state),
        };
        match fits {
            Ok(input) => self.give(order, input),
            Err(state) => drop(order.answer.send(Ok(OrderAnswer::NotInState { state }))),
        }
    }

    /// Hands an order to the engine, and answers with what came of it; not at all when the engine broke on it, unless
    /// what it was to do is on its way to the store.
    fn give(&mut self, order: PersonOrder, input: Input) {
        let PersonOrder { key, word, note, answer, .. } = order;
        let stored = self.given.get(&key).is_some_and(|given| given.stored);
        self.given.insert(key, Given { word, note, stored });
        self.moved = None;
        self.step(input);
        let live = self.engine.as_ref().and_then(|engine| engine.state(key));
        let done = !self.given.contains_key(&key);
        let answered = match (done, live) {
            (true, _) => live.or(self.moved).map(|state| OrderAnswer::Done { state }),
            (false, Some(state)) if word != Word::Release => Some(OrderAnswer::Requested { state }),
            (false, _) => None,
        };
        if answered.is_none() || self.engine.is_none() {
            self.given.remove(&key);
        }
        match answered {
            // Whoever hears that may send something else instead: not before a crash cannot undo it.
            Some(done @ OrderAnswer::Done { .. }) => self.journal.tell_when_written(News::Ordered(answer, done)),
            Some(requested) => {
                // Nor may a crash forget what was promised.
                self.request(key);
                self.journal.tell_when_written(News::Ordered(answer, requested));
            }
            None => {}
        }
    }

    /// Has an order that waits for the end of an attempt outlive the process.
    fn request(&mut self, key: OperationKey) {
        let Some(given) = self.given.get_mut(&key) else { return };
        let Some(wants) = given.word.requested() else { return };
        given.stored = true;
        let request = RequestNote { wants, order: Arc::clone(&given.note) };
        self.journal.note(kept::request(self.seat.id(), key, request, self.now));
    }

    /// An order that waited has been obeyed, or there is nothing left to obey it.
    fn take_given(&mut self, key: OperationKey) -> Option<Arc<OrderWords>> {
        let given = self.given.remove(&key)?;
        if given.stored {
            self.journal.note(NoteChange::Drop(kept::request_key(self.seat.id(), key)));
        }
        Some(given.note)
    }

    /// Orders of an earlier life that waited for the end of an attempt, as far as there is still something to obey them.
    pub(super) fn restore_given(&mut self, recovery: &Recovery) {
        for (key, RequestNote { wants, order }) in kept::requests(&recovery.notes) {
            let (word, note) = (Word::of(*wants), Arc::clone(order));
            self.given.entry(key).or_insert(Given { word, note, stored: true }).stored = true;
        }
        if self.given.is_empty() {
            return;
        }
        let mut over: BTreeSet<OperationKey> = self.given.keys().copied().collect();
        for record in &recovery.operations {
            over.remove(&record.key);
        }
        for key in over {
            drop(self.take_given(key));
        }
    }

    /// The row of an operation that was not at the desk, as the store has it now.
    pub(super) fn order_stored(&mut self, order: PersonOrder, record: &OperationRecord) {
        if self.desk.get(order.key).is_some() {
            // Taken up again meanwhile, by an order before this one.
            return self.order_live(order);
        }
        match (order.word, record.state) {
            (Word::Cancel, OperationState::Quarantined) => {
                let restored = Box::new(past::restored(record));
                self.give(order, Input::Discard(restored));
            }
            (Word::Release, OperationState::Quarantined) => self.release(order, record),
            (_, state) if state.is_final() => drop(order.answer.send(Ok(OrderAnswer::TooLate { state }))),
            (_, state) => drop(order.answer.send(Ok(OrderAnswer::NotInState { state }))),
        }
    }

    fn release(&mut self, order: PersonOrder, record: &OperationRecord) {
        if self.engine.is_none() {
            return;
        }
        let mut restored = Box::new(past::restored(record));
        let operation = &mut restored.operation;
        operation.deadline = order.note.deadline.unwrap_or(operation.deadline);
        if let Err(refusal) = self.judge(operation, None) {
            return drop(order.answer.send(Err(refusal)));
        }
        let key = order.key;
        self.desk.insert(key, Entry::recovered(record));
        self.moved = None;
        // What holds it was not told to an engine that had nothing of it.
        for hold in self
            .desk
            .holds(&self.world.holds.of_operations(self.now))
            .into_iter()
            .filter(|hold| hold.target == HoldTarget::Operation(key))
        {
            self.step(Input::Hold(hold));
        }
        self.give(order, Input::Release(restored));
        let crashes_max = self.policy.retry.crashes_max.get();
        if self.engine.as_ref().is_some_and(|engine| engine.state(key).is_some())
            && self.world.crashes().pardon(key, crashes_max)
        {
            // A restart before its attempt must not set it aside again.
            self.keep_crashes(key);
        }
        if self.engine.is_none() && self.moved.is_none() {
            // The engine broke before it had released it.
            self.desk.remove(key);
        }
    }

    /// Puts a person's words to the record of what they did.
    pub(super) fn sign(&mut self, record: &mut Record) {
        self.moved = Some(record.state);
        let Some(given) = self.given.get(&record.key) else { return };
        let to_follow = given.word == Word::Cancel && record.state == OperationState::Quarantined;
        let signed = match given.word {
            Word::Cancel => matches!(record.transition, Transition::Cancel | Transition::Discard),
            Word::Quarantine => matches!(record.transition, Transition::Quarantine | Transition::GiveUp),
            Word::Release => record.transition == Transition::Release,
            Word::Resolve(_) => true,
        };
        if signed {
            record.order = self.take_given(record.key);
        } else if record.state.is_final() && !to_follow {
            drop(self.take_given(record.key));
        }
    }

    /// What is still to be done, by operation.
    pub(super) fn all_requested(&self) -> BTreeMap<OperationKey, Requested> {
        self.given.iter().filter_map(|(key, given)| Some((*key, given.word.requested()?))).collect()
    }

    /// A rebuilt engine knows nothing of orders that wait for the end of an attempt.
    pub(super) fn give_again(&mut self) {
        let waiting: Vec<_> = self.given.iter().map(|(key, given)| (*key, given.word)).collect();
        for (key, word) in waiting {
            match word {
                Word::Cancel => self.step(Input::Cancel { key }),
                Word::Quarantine => self.step(Input::Quarantine { key }),
                Word::Release | Word::Resolve(_) => {}
            }
        }
    }
}
