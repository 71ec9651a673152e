//! What others post to a mailbox that we own: operations they stored, and orders.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::Membership;
use crate::actor::desk::Entry;
use crate::actor::journal::guard;
use crate::actor::mailbox::{MailboxActor, Mode};
use crate::actor::orders::{PersonOrder, Word};
use crate::actor::past;
use crate::actor::question::OrderAnswer;
use crate::actor::reply::Reply;
use crate::engine::mailbox::{Hold, HoldTarget, Input, Record, Refusal};
use crate::engine::operation::{Resolution, Transition};
use crate::engine::{Leaves, OperationKey, OperationState, Timestamp};
use crate::store::fleet::{Landing, Letter, LetterName, News, Obeyed, Order, OrderBody, OrderId, PersonWord, Posted};
use crate::store::{OperationRecord, StoreError};

/// Orders that are remembered, so that one that comes again is answered and not done again.
const OBEYED_MAX: usize = 256;
/// Arrivals that are remembered.
const ARRIVED_MAX: usize = 1_024;

/// Orders that were obeyed, and what was answered; `None`: not yet.
#[derive(Debug, Default)]
struct ObeyedOrders(VecDeque<(OrderId, Option<Obeyed>)>);

impl ObeyedOrders {
    fn find(&self, id: OrderId) -> Option<Option<Obeyed>> {
        self.0.iter().find(|(other, _)| *other == id).map(|(_, answer)| *answer)
    }

    fn begin(&mut self, id: OrderId) {
        if self.0.len() >= OBEYED_MAX {
            self.0.pop_front();
        }
        self.0.push_back((id, None));
    }

    fn end(&mut self, id: OrderId, answer: Obeyed) {
        if let Some(entry) = self.0.iter_mut().find(|(other, _)| *other == id) {
            entry.1 = Some(answer);
        }
    }
}

/// What is remembered of a mailbox's inbox.
#[derive(Debug, Default)]
pub(super) struct Mail {
    letters: ReadLetters,
    obeyed: ObeyedOrders,
}

/// Letters that were read.
#[derive(Debug, Default)]
struct ReadLetters {
    /// Those that are forgotten with the next reading.
    read: Vec<LetterName>,
    /// Operations that arrived, the last of them. One that comes again may have ended long ago, and after a failover its
    /// row may not say so.
    arrived: VecDeque<OperationKey>,
}

impl ReadLetters {
    fn is_new(&mut self, key: OperationKey) -> bool {
        if self.arrived.contains(&key) {
            return false;
        }
        if self.arrived.len() >= ARRIVED_MAX {
            self.arrived.pop_front();
        }
        self.arrived.push_back(key);
        true
    }
}

impl MailboxActor {
    /// Reads what was posted, if there is something and nobody reads already.
    pub(super) fn read_inbox(&mut self) {
        let (Some(fleet), Some(lease)) = (self.world.fleet.clone(), self.own.lease.clone()) else { return };
        if self.own.reading {
            return;
        }
        if !fleet.ask_letters(self.seat.id()) {
            return;
        }
        self.own.reading = true;
        let read = self.own.mail().letters.read.clone();
        let (world, seat) = (Arc::clone(&self.world), Arc::clone(&self.seat));
        self.world.host.spawn(async move {
            let letters = guard(|| fleet.api.inbox(vec![(lease, read)])).await;
            let letters = letters.map(|mut letters| letters.pop().unwrap_or_default());
            world.reply(&seat, Reply::Letters(letters));
        });
    }

    pub(in crate::actor) fn on_letters(&mut self, letters: Result<Vec<Letter>, StoreError>) {
        self.own.reading = false;
        let Some(fleet) = self.world.fleet.clone() else { return };
        let Ok(letters) = letters else { return fleet.has_not_read(self.seat.id()) };
        // What had been read before is forgotten there.
        self.own.mail().letters.read.clear();
        if self.mode != Mode::Live || self.own.lease.is_none() {
            return;
        }
        fleet.has_read(self.seat.id(), letters.last().map(|letter| letter.place));
        for letter in letters {
            self.own.mail().letters.read.push(letter.posted.name());
            match letter.posted {
                Posted::Arrived(record) if self.own.mail().letters.is_new(record.key) => self.on_arrived(&record),
                Posted::Arrived(_) => {}
                Posted::Order(order) => self.obey(&fleet, order),
            }
        }
    }

    /// An operation that another process stored.
    fn on_arrived(&mut self, record: &OperationRecord) {
        if self.desk.get(record.key).is_some() || record.rows > 0 || record.state.is_final() {
            return;
        }
        self.desk.insert(record.key, Entry::recovered(record));
        self.step(Input::Enqueue(past::operation(record)));
    }

    fn obey(&mut self, fleet: &Arc<Membership>, order: Order) {
        match self.own.mail().obeyed.find(order.id) {
            Some(Some(answer)) => return fleet.tell(News::Obeyed { order: order.id, answer }),
            Some(None) => return,
            None => self.own.mail().obeyed.begin(order.id),
        }
        let operation = |key: Option<OperationKey>| key.map_or(HoldTarget::Mailbox, HoldTarget::Operation);
        match order.body {
            OrderBody::Person { id, key, word, words } => {
                let (answer, answered) = oneshot::channel();
                let word = match word {
                    PersonWord::Cancel => Word::Cancel,
                    PersonWord::Quarantine => Word::Quarantine,
                    PersonWord::Release => Word::Release,
                    PersonWord::Resolve(resolution) => Word::Resolve(resolution),
                };
                self.on_order(PersonOrder { id, key, word, note: words, answer });
                return self.answer_later(order.id, answered);
            }
            OrderBody::Hold { operation: key, until } => self.step(Input::Hold(Hold::new(operation(key), until))),
            OrderBody::Resume { operation: key } => self.step(Input::Resume(operation(key))),
            OrderBody::Trip { until } => self.step(Input::Trip { until }),
            OrderBody::Close => self.step(Input::CloseBreaker),
            OrderBody::TakeUp { id } => self.journal.look_up(id, Vec::new()),
            OrderBody::Landed { key, attempt, landing } => self.on_landed(key, attempt, landing),
        }
        self.on_obeyed(order.id, Obeyed::Done(None));
    }

    fn answer_later(&self, order: OrderId, answered: oneshot::Receiver<Result<OrderAnswer, Refusal>>) {
        let (world, seat) = (Arc::clone(&self.world), Arc::clone(&self.seat));
        self.world.host.spawn(async move {
            let answer = match answered.await {
                Ok(Ok(OrderAnswer::Done { state })) => Obeyed::Done(Some(state)),
                Ok(Ok(OrderAnswer::Requested { state })) => Obeyed::Requested(state),
                Ok(Ok(OrderAnswer::TooLate { state })) => Obeyed::TooLate(state),
                Ok(Ok(OrderAnswer::NotInState { state })) => Obeyed::NotInState(state),
                Ok(Err(_)) | Err(_) => Obeyed::NotNow,
            };
            world.reply(&seat, Reply::Obeyed { order, answer });
        });
    }

    pub(in crate::actor) fn on_obeyed(&mut self, order: OrderId, answer: Obeyed) {
        self.own.mail().obeyed.end(order, answer);
        if let Some(fleet) = &self.world.fleet {
            fleet.on_answer(order, answer); // it may have been given here
            fleet.tell(News::Obeyed { order, answer });
        }
    }

    /// A former owner tells how an attempt ended.
    fn on_landed(&mut self, key: OperationKey, attempt: u32, landing: Landing) {
        let state = self.engine.as_ref().and_then(|engine| engine.state(key));
        match (state, landing) {
            (Some(OperationState::Unknown), Landing::Accepted) => self.step(Input::Resolved { key, accepted: true }),
            // Of the attempt in doubt, and of no earlier one: a later attempt may have been accepted.
            (Some(OperationState::Unknown), Landing::Absent) if self.desk.last_attempt(key) == Some(attempt) => {
                self.step(Input::Ruled { key, resolution: Resolution::Absent });
            }
            (Some(state), Landing::Accepted) if state != OperationState::Attempting => self.read_row(key),
            (Some(_) | None, _) => {}
        }
    }

    /// Its row may say more than we know.
    fn read_row(&self, key: OperationKey) {
        let Some(id) = self.desk.id(key) else { return };
        let (world, seat) = (Arc::clone(&self.world), Arc::clone(&self.seat));
        self.world.host.spawn(async move {
            // What cannot be read now is found out with the next claim.
            if let Ok(Some(record)) = guard(|| world.store.operation(&id)).await {
                world.reply(&seat, Reply::Row(Box::new(record)));
            }
        });
    }

    pub(in crate::actor) fn on_read_row(&mut self, record: &OperationRecord) {
        if self.own.lease.is_none() {
            return;
        }
        let mut record = record.clone();
        if record.state == OperationState::Attempting {
            // Its former owner wrote the row, and could not write its end any more.
            self.journal.record(accepted(&record, self.now));
            record.state = OperationState::Accepted;
        }
        let Some(outcome) = past::outcome(&record) else { return };
        self.step(Input::Forget { key: record.key });
        if self.engine.as_ref().is_some_and(|engine| engine.state(record.key).is_none()) {
            if let Some(mut waiting) = self.desk.resolve(record.key, &outcome) {
                waiting.tell(&outcome);
            }
            if let Some(fleet) = &self.world.fleet {
                fleet.ended(Arc::clone(&record.id), &outcome);
            }
        }
    }
}

/// The record of an attempt that the provider took, in its former owner's place.
fn accepted(of: &OperationRecord, at: Timestamp) -> Record {
    Record {
        key: of.key,
        transition: Transition::Accept,
        state: OperationState::Accepted,
        at,
        next_at: None,
        attempts: of.attempts,
        status: None,
        provider_id: None,
        maybe_sent: false,
        leaves: Leaves::All,
        order: None,
    }
}

impl Membership {
    /// Whether something may have been posted that has not been read; if so, it is being asked for from now on.
    pub(super) fn ask_letters(&self, mailbox: &str) -> bool {
        let mut state = self.state();
        let Some(inbox) = state.leases.get_mut(mailbox).map(|held| &mut held.inbox) else { return false };
        let unread = inbox.is_unread();
        if unread {
            (inbox.told, inbox.asked) = (false, inbox.posted);
        }
        unread
    }

    /// What was read reaches up to there; `None`: there was nothing, so what had been posted by then is over.
    pub(super) fn has_read(&self, mailbox: &str, to: Option<crate::store::fleet::Place>) {
        if let Some(inbox) = self.state().leases.get_mut(mailbox).map(|held| &mut held.inbox) {
            inbox.read = to.unwrap_or(inbox.asked).max(inbox.asked);
        }
    }

    /// It was asked for, and not answered: the next renewal has it asked for again.
    pub(super) fn has_not_read(&self, mailbox: &str) {
        if let Some(held) = self.state().leases.get_mut(mailbox) {
            held.inbox.failed = true;
        }
    }

    /// Something was posted; false when that is no concern of ours.
    pub(super) fn on_posted(&self, mailbox: &str) -> bool {
        match self.state().leases.get_mut(mailbox) {
            Some(held) => {
                held.inbox.told = true;
                true
            }
            None => false,
        }
    }
}
