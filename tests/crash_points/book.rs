//! What is written down of a run, by the store and the transport, across all its lives.
//!
//! The checks read this and the upstream's log. It mirrors what the store was asked to do, with the transitions of the
//! specification and nothing else, so that at the end the mirror and the rows can be held against each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use mailweir::engine::mailbox::Record;
use mailweir::engine::operation::Transition;
use mailweir::engine::{OperationKey, OperationState, Timestamp};
use mailweir::store::{Claim, NewOperation};

/// A durable write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Insert,
    Claim,
    Record,
    Keep,
}

/// One operation, as its writes tell it.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) id: Arc<str>,
    pub(crate) state: OperationState,
    /// From admission.
    pub(crate) steps: Vec<Transition>,
    /// Attempt rows written.
    pub(crate) rows: u32,
    changed_at: Timestamp,
    last: Option<(Transition, Timestamp)>,
}

/// One attempt as the transport saw it.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) id: Arc<str>,
    /// The email's bytes, as a number.
    pub(crate) fingerprint: u64,
    pub(crate) started: Timestamp,
    pub(crate) ended: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub(crate) struct Book {
    /// Every durable write, in order.
    pub(crate) writes: Vec<What>,
    pub(crate) histories: BTreeMap<OperationKey, History>,
    pub(crate) flights: Vec<Flight>,
    keys: BTreeMap<Arc<str>, OperationKey>,
    /// What should not have happened.
    pub(crate) wrong: Vec<String>,
}

impl Book {
    pub(crate) fn inserted(&mut self, new: &NewOperation) {
        if self.keys.contains_key(&new.id) {
            return;
        }
        self.keys.insert(Arc::clone(&new.id), new.key);
        let state = new.first_row().state;
        let steps = if state == OperationState::Admitted { Vec::new() } else { vec![Transition::Enqueue] };
        let (id, changed_at) = (Arc::clone(&new.id), new.submitted_at);
        let history = History { id, state, steps, rows: 0, changed_at, last: None };
        self.histories.insert(new.key, history);
    }

    pub(crate) fn claimed(&mut self, claim: &Claim) {
        self.trace(claim.key, claim);
        let Some(history) = self.histories.get_mut(&claim.key) else { return };
        if claim.attempt <= history.rows {
            return;
        }
        match Transition::Claim.apply(history.state) {
            Ok(state) => {
                history.state = state;
                history.steps.push(Transition::Claim);
            }
            // The answer to the claim before was lost: nothing was sent on it.
            Err(_) if history.state == OperationState::Attempting => {}
            // An operation that is admitted is claimed as if it were queued.
            Err(_) if history.state == OperationState::Admitted => {
                history.state = OperationState::Attempting;
                history.steps.extend([Transition::Enqueue, Transition::Claim]);
            }
            // Refused.
            Err(_) => return,
        }
        (history.rows, history.changed_at) = (claim.attempt, claim.at);
    }

    pub(crate) fn recorded(&mut self, record: &Record) {
        self.trace(record.key, record);
        let Some(history) = self.histories.get_mut(&record.key) else { return };
        let this = (record.transition, record.at);
        // Written again because its answer was lost.
        if history.last == Some(this) {
            return;
        }
        // The claim of the next attempt was written before the end of this one, which had failed to be.
        let is_live = history.state == OperationState::Attempting && record.transition != Transition::Lose;
        if is_live && record.at < history.changed_at {
            return;
        }
        if let Ok(state) = record.transition.apply(history.state) {
            (history.state, history.changed_at) = (state, record.at);
            history.steps.push(record.transition);
            history.last = Some(this);
        }
    }

    /// Prints what is written of one operation, where somebody looks for a fault.
    pub(crate) fn trace(&self, key: OperationKey, what: &dyn std::fmt::Debug) {
        let id = self.id(key);
        if id.is_some_and(|id| std::env::var("MAILWEIR_CRASH_TRACE").is_ok_and(|traced| traced == **id)) {
            println!("write {}: {what:?}", self.writes.len());
        }
    }

    /// The id of an operation.
    pub(crate) fn id(&self, key: OperationKey) -> Option<&Arc<str>> {
        self.histories.get(&key).map(|history| &history.id)
    }

    /// An attempt begins; its place among the flights.
    pub(crate) fn took_off(&mut self, flight: Flight) -> usize {
        self.flights.push(flight);
        self.flights.len() - 1
    }
}
