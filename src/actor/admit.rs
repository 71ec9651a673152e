//! What comes in through the lanes.

use std::sync::Arc;
use std::time::Duration;

use super::admissions::{REPEATS_MAX, Stage};
use super::callers::CallerCharge;
use super::desk::Flight;
use super::entrance::{Admit, Handed, PermitReply, PermitRequest, TurnedAway};
use super::journal::Newcomer;
use super::kept;
use super::mailbox::{MailboxActor, Mode};
use super::permit::{PermitError, TryAcquire};
use super::ticket::Ticket;
use super::unfit::{KeysFull, Why};
use crate::engine::callers::CallerRefusal;
use crate::engine::mailbox::{Input, Refusal};
use crate::engine::operation::OperationKind;
use crate::engine::shared;
use crate::engine::spread::fnv1a;
use crate::engine::{Operation, OperationKey};
use crate::store::{KeyHash, NewOperation, Note};
use crate::submission::SubmitError;

/// When to repeat again after too many waited: a store that works has answered by then.
const REPEATS_RETRY_AFTER: Duration = Duration::from_secs(1);

impl MailboxActor {
    pub(super) fn on_admit(&mut self, admit: Admit) {
        if self.drain.is_some() || self.world.is_closing() {
            return self.hand_back(admit);
        }
        if let Some(fleet) = self.world.fleet.as_ref().filter(|fleet| fleet.is_cut_off()) {
            return fleet.turn_away(admit);
        }
        if self.mode == Mode::Remote {
            return self.admit_remote(admit);
        }
        if self.mode != Mode::Live || self.engine.is_none() {
            return admit.turn_away(TurnedAway::MailboxHeld);
        }
        match admit {
            Admit::Send(handed) if !handed.reply.is_withdrawn() => self.take_in(handed),
            Admit::Permit(request) if !request.reply.is_withdrawn() => self.ask_permit(*request),
            // Whoever handed it over has gone: nothing happened.
            Admit::Send(_) | Admit::Permit(_) => {}
        }
    }

    pub(super) fn hand_back(&mut self, admit: Admit) {
        self.handed_back += u64::from(matches!(admit, Admit::Send(_)));
        admit.turn_away(TurnedAway::ShuttingDown);
    }

    pub(super) fn take_in(&mut self, handed: Box<Handed>) {
        let (admission, tenant) = (handed.submission.admission.as_ref(), handed.submission.tenant.as_deref());
        let key = admission.map(|admission| self.world.secret.hash(self.seat.id(), tenant, &admission.key));
        let Some(handed) = self.unless_repeated(handed, key) else { return };
        let operation = self.operation_of(&handed);
        if let Err(refusal) = self.judge(&operation, handed.submission.wait_max) {
            return self.refuse_unless_known(handed, Why::Engine(refusal));
        }
        if let Some(full) = key.and_then(|_| self.admission_keys_full()) {
            return self.refuse_unless_known(handed, Why::Keys(full));
        }
        let charge = match self.charge_caller(&handed) {
            Ok(charge) => charge,
            Err(refusal) => return self.refuse_unless_known(handed, Why::Caller(refusal)),
        };
        let note = key.zip(handed.submission.admission.as_ref()).map(|(key, admission)| {
            let until = self.now.after(admission.cooldown);
            self.admissions.open(key, until, operation.key, Arc::clone(&handed.id));
            kept::admission(self.seat.id(), key, &handed.id, (self.now, until))
        });
        let new = self.new_operation(&handed, &operation, note);
        self.journal.insert(Newcomer { handed, operation, charge }, new);
    }

    /// The bound on admission keys, where it is met.
    fn admission_keys_full(&mut self) -> Option<KeysFull> {
        let keys_max = self.world.settings.load().config.submit.admission_keys_max;
        let retry_after = self.admissions.full_for(self.now, keys_max)?;
        Some(KeysFull { keys_max, retry_after })
    }

    /// Whether it can be taken in, by the shared scopes and by the mailbox.
    pub(super) fn judge(&self, operation: &Operation, most: Option<Duration>) -> Result<(), Refusal> {
        let (lane, tenant, cost) = (operation.lane, operation.tenant.as_ref(), &operation.cost);
        shared::check(&self.world.settings.load().shared(), tenant, cost)?;
        let Some(engine) = &self.engine else { return Ok(()) };
        let shared = self.world.standing.load().of(lane, tenant, cost);
        engine.check_behind(self.now, operation, most, self.journal.coming(), &shared)
    }

    /// What goes into the store.
    pub(super) fn new_operation(&self, handed: &Handed, operation: &Operation, note: Option<Note>) -> NewOperation {
        NewOperation {
            key: operation.key,
            id: Arc::clone(&handed.id),
            fingerprint: handed.fingerprint,
            mailbox: Arc::clone(self.seat.id()),
            lane: operation.lane,
            tenant: operation.tenant.clone(),
            campaign: operation.campaign.clone(),
            cost: operation.cost,
            submitted_at: operation.submitted_at,
            not_before: operation.not_before,
            deadline: operation.deadline,
            email: handed.submission.email.clone(),
            note,
        }
    }

    pub(super) fn charge_caller(&self, handed: &Handed) -> Result<CallerCharge, CallerRefusal> {
        let submission = &handed.submission;
        let settings = self.world.settings.load();
        let operation = (Arc::clone(self.seat.id()), Arc::clone(&handed.id));
        let recipients = submission.email.recipients().len();
        let policy = &settings.config.callers;
        self.world.callers.charge(self.now, policy, submission.caller.as_ref(), operation, recipients)
    }

    /// Takes in what had waited under an admission key that is free again: a submission like any other.
    pub(super) fn take_in_repeat(&mut self, repeat: Handed) {
        self.on_admit(Admit::Send(Box::new(repeat)));
    }

    /// Leaves out of the next store call what nobody waits for any more. The first of those that waited for it under its
    /// admission key takes its place.
    pub(super) fn leave_out_withdrawn(&mut self) {
        for newcomer in self.journal.drain_withdrawn(self.now) {
            let repeats = self.admissions.failed(newcomer.operation.key);
            repeats.into_iter().for_each(|repeat| self.take_in_repeat(repeat));
        }
    }

    /// Answers a repeat under an admission key that counts; gives any other submission back.
    fn unless_repeated(&mut self, handed: Box<Handed>, key: Option<KeyHash>) -> Option<Box<Handed>> {
        let Some(key) = key else { return Some(handed) };
        let Some(admission) = self.admissions.find(self.now, key) else { return Some(handed) };
        if matches!(admission.stage, Stage::Storing(_)) {
            if let Err(handed) = self.admissions.wait(handed, key) {
                too_many(handed);
            }
            return None;
        }
        if matches!(admission.stage, Stage::Past) && self.journal.looking_up(&admission.id) >= REPEATS_MAX {
            too_many(handed);
            return None;
        }
        let ticket = admission.operation.and_then(|operation| self.desk.subscribe(operation)).unwrap_or_else(|| {
            let (ticket, outcome) = Ticket::open(Arc::clone(&admission.id));
            match &admission.stage {
                Stage::Over(over) => outcome.send(over.clone()),
                // Its row tells, unless that has been forgotten.
                Stage::Past => self.journal.look_up(Arc::clone(&admission.id), vec![outcome]),
                Stage::Storing(_) | Stage::Live => {}
            }
            ticket
        });
        handed.reply.send(Ok(ticket));
        None
    }

    pub(super) fn operation_of(&self, handed: &Handed) -> Operation {
        let submission = &handed.submission;
        let deadline = submission
            .deadline
            .map_or_else(|| self.now.after(self.policy.retry.deadline), |deadline| deadline.resolve(self.now));
        Operation {
            key: self.world.next_key(),
            id_hash: fnv1a(handed.id.as_bytes()),
            lane: submission.lane,
            kind: OperationKind::Send,
            tenant: submission.tenant.clone(),
            campaign: submission.campaign.clone(),
            cost: handed.cost,
            submitted_at: self.now,
            not_before: submission.not_before.unwrap_or(self.now),
            deadline,
            attempts: 0,
        }
    }

    fn ask_permit(&mut self, request: PermitRequest) {
        let operation = self.permit_operation(&request);
        let wait_max = request.wait_max.filter(|_| matches!(request.reply, PermitReply::Wait(_)));
        if let Err(refusal) = self.judge(&operation, wait_max) {
            return refuse(request.reply, refusal);
        }
        let key = operation.key;
        let id = Arc::from(format!("permit-{}", key.0));
        self.desk.insert_permit(id, &operation, request.reply);
        self.step(Input::Enqueue(operation));
        // A reservation under way at the shared scopes is answered at once, and decides then.
        if self.desk.get(key).is_some_and(|entry| entry.flight == Flight::Grounded) {
            self.defer_if_impatient(key);
        }
    }

    fn permit_operation(&self, request: &PermitRequest) -> Operation {
        let within = request.wait_max.unwrap_or(self.policy.retry.deadline);
        Operation {
            key: request.key,
            id_hash: permit_hash(request.key),
            lane: request.lane,
            kind: OperationKind::Permit,
            tenant: request.tenant.clone(),
            campaign: None,
            cost: request.cost,
            submitted_at: self.now,
            not_before: self.now,
            deadline: self.now.after(within),
            attempts: 0,
        }
    }
}

fn too_many(repeat: Box<Handed>) {
    let (lane, depth_max, retry_after) = (repeat.submission.lane, REPEATS_MAX, REPEATS_RETRY_AFTER);
    repeat.refuse(|submission| SubmitError::QueueFull { lane, depth_max, retry_after, submission });
}

fn refuse(reply: PermitReply, refusal: Refusal) {
    match reply {
        PermitReply::Wait(sender) => drop(sender.send(Err(PermitError::Refused(refusal)))),
        // Room comes with the next send of the lane; what is refused as it stands is refused for good.
        PermitReply::Try(sender) => drop(sender.send(match refusal {
            Refusal::QueueFull { depth_max, retry_after } => {
                Err(PermitError::QueueFull { depth_max: depth_max as usize, retry_after })
            }
            refusal => Ok(TryAcquire::Refused(refusal)),
        })),
    }
}

fn permit_hash(key: OperationKey) -> u64 {
    fnv1a(&key.0.to_le_bytes())
}
