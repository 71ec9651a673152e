//! What became of an operation that is not at the desk, for those who hold a record of it.
//!
//! A record is old as soon as it is read: the attempt under way may end before its reader gets here, and then the
//! desk knows nothing of the operation any more. Taking it up again from that record would undo its end. So its row is
//! read once more, behind every record that this actor has written, and that row decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::desk::Entry;
use super::entrance::{Handed, TurnedAway};
use super::mailbox::{MailboxActor, Mode};
use super::orders::PersonOrder;
use super::past;
use super::slip::Teller;
use super::ticket::Ticket;
use super::unfit::Unfit;
use crate::engine::OperationKey;
use crate::engine::mailbox::{Input, Outcome};
use crate::store::{OperationRecord, StoreError};

/// Those who wait for the outcome of an operation.
type Waiting = Vec<Teller>;

/// Why a row is read.
#[derive(Debug, Default)]
pub(crate) struct Lookup {
    pub(crate) waiting: Waiting,
    /// What persons order about the operation, in the order in which it came.
    pub(crate) orders: Vec<PersonOrder>,
    /// An insert under this number that may have been done: its admission key is taken until the row is known.
    pub(crate) doubt: Option<OperationKey>,
    /// Submissions under this id that are refused unless it is known.
    pub(crate) unfit: Vec<Unfit>,
}

/// What became of an insert that was in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    Stored,
    NotStored,
}

/// Ids of operations whose rows are to be read, one entry each however many ask.
pub(crate) type Lookups = BTreeMap<Arc<str>, Lookup>;

fn tell(waiting: Waiting, outcome: &Outcome) {
    waiting.into_iter().for_each(|listener| listener.send(outcome.clone()));
}

impl MailboxActor {
    /// A ticket for an operation that the store has: answered at once if it has come to an end.
    pub(super) fn ticket_of(&mut self, record: &OperationRecord) -> Ticket {
        if let Some(ticket) = self.desk.subscribe(record.key) {
            return ticket;
        }
        let (ticket, waiting) = Ticket::open(Arc::clone(&record.id));
        match past::outcome(record) {
            Some(outcome) => waiting.send(outcome),
            None => self.journal.look_up(Arc::clone(&record.id), vec![waiting]),
        }
        ticket
    }

    pub(super) fn on_found(&mut self, mut lookups: Lookups, answer: Result<Vec<Option<OperationRecord>>, StoreError>) {
        match answer {
            Ok(found) => {
                for (mut lookup, record) in lookups.into_values().zip(found) {
                    let unfit = std::mem::take(&mut lookup.unfit).into_iter();
                    match record {
                        Some(_) => unfit.for_each(|unfit| self.meet(unfit)),
                        None => unfit.for_each(Unfit::refuse),
                    }
                    // Without a row there is nothing to tell: dropping the senders says so. A row of another mailbox is
                    // what a submission that failed would have been in conflict with.
                    let record = record.filter(|record| record.mailbox == *self.seat.id());
                    let repeats = lookup.doubt.map(|doubted| self.end_doubt(doubted, record.as_ref()));
                    if let Some(record) = &record {
                        self.on_row(lookup, record);
                    }
                    repeats.into_iter().flatten().for_each(|repeat| self.answer_doubting(repeat, record.as_ref()));
                }
            }
            Err(error) => {
                lookups.values_mut().for_each(|lookup| lookup.unfit.drain(..).for_each(Unfit::refuse));
                let lasting = !error.is_retryable();
                self.store_degraded();
                if lasting {
                    let doubted = lookups.values().filter_map(|lookup| lookup.doubt);
                    let repeats: Vec<_> = doubted.flat_map(|key| self.admissions.give_up_waiting(key)).collect();
                    repeats.into_iter().for_each(|repeat| repeat.turn_away(TurnedAway::MailboxHeld));
                }
                self.journal.look_up_later(lookups, self.now);
                if lasting {
                    self.hold_for_store(&error);
                }
            }
        }
    }

    fn on_row(&mut self, lookup: Lookup, record: &OperationRecord) {
        if self.mode == Mode::Remote {
            return self.on_row_remote(lookup, record);
        }
        // Its insert was done and the answer lost, and nobody has submitted it again. Whoever orders something about one that
        // is not at the desk may be shown an old row: that is no reason to take it up.
        let is_orphan = lookup.doubt == Some(record.key) && record.rows == 0 && !record.state.is_final();
        if is_orphan || !lookup.waiting.is_empty() {
            self.tell_or_adopt(lookup.waiting, record);
        }
        for order in lookup.orders {
            self.order_stored(order, record);
        }
    }

    /// It is known now whether an insert was done whose answer was lost. If it was, its key admits what it stored; if
    /// not, the key is free. So it is where the id was another operation's: only the store can tell the same content
    /// from another. Returns those who repeated it, and whether they are to get what it stored.
    fn end_doubt(&mut self, doubted: OperationKey, record: Option<&OperationRecord>) -> Vec<(Handed, Doubt)> {
        let (repeats, doubt) = match record.filter(|record| record.key == doubted) {
            Some(record) => (self.admissions.stored(doubted, record.key, past::outcome(record)), Doubt::Stored),
            None => (self.admissions.failed(doubted), Doubt::NotStored),
        };
        repeats.into_iter().map(|repeat| (repeat, doubt)).collect()
    }

    /// Whoever repeated it gets its ticket, or the first of them takes its place.
    fn answer_doubting(&mut self, (repeat, doubt): (Handed, Doubt), record: Option<&OperationRecord>) {
        match record.filter(|_| doubt == Doubt::Stored) {
            Some(record) => {
                let ticket = self.ticket_of(record);
                repeat.reply.send(Ok(ticket));
            }
            None => self.take_in_repeat(repeat),
        }
    }

    fn tell_or_adopt(&mut self, waiting: Waiting, record: &OperationRecord) {
        if let Some(entry) = self.desk.get(record.key) {
            // Taken up again meanwhile, by a rebuild.
            return entry.listen(waiting);
        }
        match past::outcome(record) {
            Some(outcome) => {
                self.admissions.concluded(record.key, &outcome);
                tell(waiting, &outcome);
            }
            // Never attempted, so its insert was done and the answer lost. Without an engine, the next one takes up
            // every live operation of the store.
            None if record.rows == 0 || self.engine.is_none() => self.adopt(record, waiting),
            // It was attempted and this actor has done with it, yet the store took no record of its end.
            None => tell(waiting, &Outcome::Unknown),
        }
    }

    fn adopt(&mut self, record: &OperationRecord, waiting: Waiting) {
        let entry = Entry::recovered(record);
        entry.listen(waiting);
        self.desk.insert(record.key, entry);
        self.step(Input::Enqueue(past::operation(record)));
    }
}
