//! An actor whose mailbox another process owns: it stores what is submitted, hands orders on, and decides nothing.
//!
//! Permits, admission keys and known waits are the owner's to judge, at the moment at which they are asked for: here they
//! are refused with an error that says so. So is the bound on a lane's queue: what is submitted here is in the store, and
//! the owner takes it up however much waits.

use std::sync::Arc;

use crate::actor::callers::Fate;
use crate::actor::entrance::{Admit, Handed};
use crate::actor::journal::Newcomer;
use crate::actor::lookup::Lookup;
use crate::actor::mailbox::MailboxActor;
use crate::actor::orders::{PersonOrder, Word};
use crate::actor::past;
use crate::actor::permit::PermitError;
use crate::actor::question::OrderAnswer;
use crate::actor::reply::Reply;
use crate::actor::ticket::Ticket;
use crate::engine::mailbox::{HoldTarget, Input, check_cost};
use crate::engine::shared;
use crate::engine::{OperationKey, Sent, Verdict};
use crate::store::fleet::{Landing, Obeyed, OrderBody, PersonWord};
use crate::store::{Inserted, OperationRecord};
use crate::submission::SubmitError;

impl MailboxActor {
    pub(in crate::actor) fn admit_remote(&mut self, admit: Admit) {
        match admit {
            Admit::Permit(request) => request.reply.fail(PermitError::Elsewhere),
            Admit::Send(handed) if handed.submission.admission.is_some() || handed.submission.wait_max.is_some() => {
                handed.refuse(|submission| SubmitError::Elsewhere { submission });
            }
            Admit::Send(handed) if handed.reply.is_withdrawn() => {}
            Admit::Send(handed) => self.store_for_owner(handed),
        }
    }

    fn store_for_owner(&mut self, handed: Box<Handed>) {
        let operation = self.operation_of(&handed);
        let shared = shared::check(&self.world.settings.load().shared(), operation.tenant.as_ref(), &operation.cost);
        // What no limit can hold is no matter of the moment.
        if let Err(refusal) = shared.and_then(|()| check_cost(&self.policy, &operation.cost)) {
            return handed.refuse(|submission| SubmitError::Refused { refusal, submission });
        }
        match self.charge_caller(&handed) {
            Ok(charge) => {
                let new = self.new_operation(&handed, &operation, None);
                self.journal.insert(Newcomer { handed, operation, charge }, new);
            }
            Err(refusal) => handed.refuse(|submission| SubmitError::Caller { refusal, submission }),
        }
    }

    /// Something was stored while the mailbox is another one's.
    pub(in crate::actor) fn on_stored_remote(&mut self, newcomer: Newcomer, inserted: Inserted) {
        let Newcomer { handed, operation, mut charge } = newcomer;
        self.journal.arrived(operation.lane, &operation.cost);
        charge.set(if inserted == Inserted::New { Fate::Stored } else { Fate::NotStored });
        drop(charge);
        let id = Arc::clone(&handed.id);
        match inserted {
            Inserted::New => {
                let (ticket, waiting) = Ticket::open(Arc::clone(&id));
                if let Some(fleet) = &self.world.fleet {
                    fleet.wait_for(&id, waiting);
                }
                if self.own.overtaken {
                    // The owner to be may have looked before it was there.
                    self.hand_on(OrderBody::TakeUp { id });
                }
                handed.reply.send(Ok(ticket));
            }
            Inserted::Existing(record) => {
                let ticket = self.remote_ticket(&record);
                handed.reply.send(Ok(ticket));
            }
            Inserted::Conflict => handed.refuse(|submission| SubmitError::Conflict { id, submission }),
        }
    }

    /// The row of an operation that somebody asked for.
    pub(in crate::actor) fn on_row_remote(&mut self, lookup: Lookup, record: &OperationRecord) {
        let Some(fleet) = self.world.fleet.clone() else { return };
        for listener in lookup.waiting {
            match past::outcome(record) {
                Some(outcome) => listener.send(outcome),
                None => fleet.wait_for(&record.id, listener),
            }
        }
        lookup.orders.into_iter().for_each(|order| self.order_remote(order));
    }

    pub(in crate::actor) fn remote_ticket(&self, record: &OperationRecord) -> Ticket {
        let (ticket, waiting) = Ticket::open(Arc::clone(&record.id));
        match (past::outcome(record), &self.world.fleet) {
            (Some(outcome), _) => waiting.send(outcome),
            (None, Some(fleet)) => fleet.wait_for(&record.id, waiting),
            (None, None) => {}
        }
        ticket
    }

    /// Gives an order that nobody here waits for.
    pub(super) fn hand_on(&self, body: OrderBody) {
        if let Some(fleet) = &self.world.fleet {
            fleet.hand_on(Arc::clone(self.seat.id()), body);
        }
    }

    /// A person's order goes to the owner. Dropped unanswered when nobody obeys in time.
    pub(in crate::actor) fn order_remote(&self, order: PersonOrder) {
        let (Some(fleet), mailbox) = (self.world.fleet.clone(), Arc::clone(self.seat.id())) else { return };
        let PersonOrder { id, key, word, note: words, answer } = order;
        let word = match word {
            Word::Cancel => PersonWord::Cancel,
            Word::Quarantine => PersonWord::Quarantine,
            Word::Release => PersonWord::Release,
            Word::Resolve(resolution) => PersonWord::Resolve(resolution),
        };
        self.world.host.spawn(async move {
            let obeyed = fleet.give(&mailbox, OrderBody::Person { id, key, word, words }).await;
            let told = match obeyed {
                Some(Obeyed::Done(Some(state))) => Some(OrderAnswer::Done { state }),
                Some(Obeyed::Requested(state)) => Some(OrderAnswer::Requested { state }),
                Some(Obeyed::TooLate(state)) => Some(OrderAnswer::TooLate { state }),
                Some(Obeyed::NotInState(state)) => Some(OrderAnswer::NotInState { state }),
                Some(Obeyed::Done(None) | Obeyed::NotNow) | None => None,
            };
            if let Some(told) = told {
                drop(answer.send(Ok(told)));
            }
        });
    }

    /// An operator's word for the engine goes to the owner's. A new policy is for the day when the mailbox is ours.
    pub(in crate::actor) fn command_remote(&mut self, input: Input, answer: tokio::sync::oneshot::Sender<()>) {
        let operation = |target: &HoldTarget| match target {
            HoldTarget::Operation(key) => Some(Some(*key)),
            HoldTarget::Mailbox => Some(None),
            HoldTarget::All | HoldTarget::Tenant(_) | HoldTarget::Campaign(_) => None,
        };
        let body = match &input {
            Input::Hold(hold) => {
                operation(&hold.target).map(|operation| OrderBody::Hold { operation, until: hold.until })
            }
            Input::Resume(target) => operation(target).map(|operation| OrderBody::Resume { operation }),
            Input::Trip { until } => Some(OrderBody::Trip { until: *until }),
            Input::CloseBreaker => Some(OrderBody::Close),
            _ => None,
        };
        if let Input::Reconfigure(policy) = input {
            self.policy = policy;
        }
        let (Some(body), Some(fleet)) = (body, self.world.fleet.clone()) else {
            let _ = answer.send(());
            return;
        };
        let mailbox = Arc::clone(self.seat.id());
        self.world.host.spawn(async move {
            if let Some(Obeyed::Done(_)) = fleet.give(&mailbox, body).await {
                let _ = answer.send(());
            }
        });
    }

    /// Something that was under way when the mailbox was lost has ended.
    pub(in crate::actor) fn on_remote_reply(&mut self, reply: Reply) {
        match reply {
            Reply::Finished { key, attempt, answer } => self.land_remote(key, attempt, &answer.verdict),
            Reply::Unsent { key, attempt } => {
                let unsent = Verdict::Transient { sent: Sent::No, retry_after: None };
                self.land_remote(key, attempt, &unsent);
            }
            Reply::Crashed { key, attempt } => self.land_remote(key, attempt, &Verdict::Unknown),
            Reply::Settled { key, .. } | Reply::Returned { key } | Reply::Abandoned { key } => {
                self.desk.land(key, 0);
                drop(self.desk.remove(key));
            }
            _ => {}
        }
    }

    fn land_remote(&mut self, key: OperationKey, attempt: u32, verdict: &Verdict) {
        if self.desk.land(key, attempt).is_none() {
            return;
        }
        drop(self.desk.remove(key));
        let landing = match verdict {
            Verdict::Accepted => Landing::Accepted,
            Verdict::Unknown => return,
            _ => Landing::Absent,
        };
        self.hand_on(OrderBody::Landed { key, attempt, landing });
    }
}
