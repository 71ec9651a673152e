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
    /// When each of them was.
    pub(crate) times: Vec<Timestamp>,
    /// When each attempt was granted, and which of the steps it was.
    pub(crate) claims: Vec<(Timestamp, usize)>,
    /// Attempt rows written.
    pub(crate) rows: u32,
    pub(crate) mailbox: Arc<str>,
    pub(crate) campaign: Option<Arc<str>>,
    pub(crate) deadline: Timestamp,
    changed_at: Timestamp,
    last: Option<(Transition, Timestamp)>,
}

impl History {
    fn step(&mut self, step: Transition, state: OperationState, at: Timestamp) {
        self.steps.push(step);
        self.times.push(at);
        (self.state, self.changed_at) = (state, at);
    }

    /// Whether the step at `place` repeats what was lost at the same instant, so that nobody can have looked.
    pub(crate) fn is_blind(&self, place: usize) -> bool {
        let lost = place.checked_sub(1).filter(|before| self.steps[*before] == Transition::Lose);
        self.steps[place] == Transition::Repeat && lost.is_some_and(|before| self.times[before] == self.times[place])
    }
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
        let mut history = History {
            id: Arc::clone(&new.id),
            state,
            steps: Vec::new(),
            times: Vec::new(),
            claims: Vec::new(),
            rows: 0,
            mailbox: Arc::clone(&new.mailbox),
            campaign: new.campaign.clone(),
            deadline: new.deadline,
            changed_at: new.submitted_at,
            last: None,
        };
        if state != OperationState::Admitted {
            history.step(Transition::Enqueue, state, new.submitted_at);
        }
        self.histories.insert(new.key, history);
    }

    pub(crate) fn claimed(&mut self, claim: &Claim) {
        self.trace(claim.key, claim);
        let Some(history) = self.histories.get_mut(&claim.key) else { return };
        if claim.attempt <= history.rows {
            return;
        }
        match Transition::Claim.apply(history.state) {
            Ok(state) => history.step(Transition::Claim, state, claim.at),
            // The answer to the claim before was lost: nothing was sent on it.
            Err(_) if history.state == OperationState::Attempting => {}
            // An operation that is admitted is claimed as if it were queued.
            Err(_) if history.state == OperationState::Admitted => {
                history.step(Transition::Enqueue, OperationState::Queued, claim.at);
                history.step(Transition::Claim, OperationState::Attempting, claim.at);
            }
            // Refused.
            Err(_) => return,
        }
        (history.rows, history.changed_at) = (claim.attempt, claim.at);
        history.claims.push((claim.at, history.steps.len() - 1));
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
            history.step(record.transition, state, record.at);
            history.last = Some(this);
            history.deadline = record.order.as_ref().and_then(|order| order.deadline).unwrap_or(history.deadline);
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

    fn history(&self, id: &str) -> Option<&History> {
        self.histories.get(self.keys.get(id)?)
    }

    /// The state of an operation, and whether an attempt of it is under way.
    pub(crate) fn state_in_flight(&self, id: &str) -> Option<(OperationState, bool)> {
        let state = self.history(id)?.state;
        Some((state, self.flights.iter().rev().any(|flight| *flight.id == *id && flight.ended.is_none())))
    }

    /// An attempt begins; its place among the flights.
    pub(crate) fn took_off(&mut self, flight: Flight) -> usize {
        let deadline = self.history(&flight.id).map(|history| history.deadline);
        if let Some(deadline) = deadline.filter(|deadline| flight.started > *deadline) {
            self.wrong.push(format!("{} was sent at {}, after its deadline {deadline}", flight.id, flight.started));
        }
        self.flights.push(flight);
        self.flights.len() - 1
    }
}
