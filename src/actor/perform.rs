//! What the engine says, done.

use std::sync::Arc;

use super::desk::Flight;
use super::entrance::PermitReply;
use super::kept;
use super::mailbox::MailboxActor;
use super::news::{News, PATIENCE};
use super::outlet::{Describe, Job, Work};
use super::permit::{Permit, PermitError, TryAcquire};
use super::shared_item::SharedItem;
use crate::engine::mailbox::{Effect, Input, Outcome};
use crate::engine::shared::{Asker, Input as SharedInput};
use crate::engine::{Cost, Event, Lane, OperationKey, Scope, Timestamp};
use crate::store::Claim;
use crate::telemetry::Context;

impl MailboxActor {
    pub(super) fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Reserve { key, lane, tenant, cost } => {
                self.desk.set_flight(key, Flight::Claiming);
                let asker = self.asker(key);
                self.to_shared.push(SharedItem::Input(SharedInput::Reserve { asker, lane, tenant, cost }));
            }
            Effect::Return { key, .. } => {
                let asker = self.asker(key);
                self.to_shared.push(SharedItem::Input(SharedInput::Return { asker }));
            }
            Effect::Settle { key, tenant, sent_at, answer } => {
                let asker = self.asker(key);
                self.to_shared.push(SharedItem::Input(SharedInput::Settle { asker, tenant, sent_at, answer }));
            }
            Effect::Claim { key, attempt, cost } => self.claim(key, attempt, cost),
            Effect::Send { key, attempt, deadline } => self.send(key, attempt, deadline),
            Effect::Grant { key } => self.grant(key),
            Effect::Reconcile { key } => self.reconcile(key),
            Effect::Record(record) if self.is_permit(record.key) => self.note_permit(&record),
            Effect::Record(mut record) => {
                self.sign(&mut record);
                self.journal.record(record);
            }
            Effect::Remember(memory) => {
                let scope = Scope::Mailbox(Arc::clone(self.seat.id()));
                self.journal.note(kept::breaker(self.now, &scope, memory));
            }
            Effect::Passing { target, through, left } => self.on_passing(target, through, left),
            Effect::Failed { target, through, key } => self.on_failed(target, through, key),
            Effect::Troubled { target, through, scope, reason } => self.on_troubled(target, through, scope, reason),
            Effect::Outcome { key, outcome, tell_by } => self.conclude(key, outcome, tell_by),
            Effect::Event(event) => self.tell(&event),
        }
    }

    fn asker(&self, key: OperationKey) -> Asker {
        Asker { mailbox: self.seat.key(), key }
    }

    fn claim(&mut self, key: OperationKey, attempt: u32, cost: Cost) {
        let at = self.now;
        if self.is_permit(key) {
            return self.charge_permit(key);
        }
        if !self.may_claim(key) {
            return;
        }
        if let Some(entry) = self.desk.get_mut(key) {
            entry.attempt = attempt;
            self.desk.set_flight(key, Flight::Claiming);
            let claim = Claim { key, attempt, at, cost };
            if !self.claim_late(claim) {
                self.journal.claim(claim);
            }
        }
    }

    fn send(&mut self, key: OperationKey, attempt: u32, deadline: Timestamp) {
        let Some(entry) = self.desk.take_off(key, attempt) else { return };
        let describe = Describe { operation_id: entry.id(), lane: entry.lane, number: attempt };
        let Some(email) = self.desk.email(key).cloned() else { return };
        let attempt = describe.attempt(&self.seat, email);
        let work = Work::Send { attempt, deadline };
        self.jobs.push(Job { seat: Arc::clone(&self.seat), key, work });
    }

    fn reconcile(&mut self, key: OperationKey) {
        let Some(entry) = self.desk.get(key) else { return };
        let describe = Describe { operation_id: entry.id(), lane: entry.lane, number: entry.attempt };
        let attempt = self.desk.email(key).cloned().map(|email| describe.attempt(&self.seat, email));
        let work = Work::Reconcile { attempt, describe };
        self.jobs.push(Job { seat: Arc::clone(&self.seat), key, work });
    }

    /// Hands the permit over, or gives it back when nobody waits for it any more.
    fn grant(&mut self, key: OperationKey) {
        if self.desk.take_off(key, 0).is_none() {
            return;
        }
        let Some(reply) = self.desk.permit_mut(key).and_then(|asked| asked.reply.take()) else { return };
        let permit = Permit::new(Arc::clone(&self.world), Arc::clone(&self.seat), key);
        let returned = match reply {
            PermitReply::Wait(sender) => sender.send(Ok(permit)).err().and_then(Result::ok),
            PermitReply::Try(sender) => match sender.send(Ok(TryAcquire::Granted(permit))) {
                Err(Ok(TryAcquire::Granted(permit))) => Some(permit),
                _ => None,
            },
        };
        if let Some(permit) = returned {
            permit.revoke();
            self.desk.land(key, 0);
            self.step(Input::Unsent { key });
            self.desk.remove(key);
        }
    }

    fn conclude(&mut self, key: OperationKey, outcome: Outcome, tell_by: Timestamp) {
        if self.world.crashes().concluded(key, &outcome) {
            self.keep_crashes(key);
        }
        match self.desk.get(key) {
            Some(entry) if !entry.is_operation() => {
                let Some(asked) = self.desk.remove_permit(key) else { return };
                if let Some(reply) = asked.reply {
                    reply.fail(match outcome {
                        Outcome::Exhausted { .. } => PermitError::Expired,
                        _ => PermitError::ShuttingDown,
                    });
                }
            }
            Some(_) => {
                self.admissions.concluded(key, &outcome);
                if let (Some(fleet), Some(id)) = (&self.world.fleet, self.desk.id(key)) {
                    let (fleet, id, outcome) = (Arc::clone(fleet), id, outcome.clone());
                    self.journal.tell_when_written(News::Ended { fleet, id, outcome });
                }
                if let Some(waiting) = self.desk.resolve(key, &outcome) {
                    let tell_by = tell_by.max(self.now.after(PATIENCE));
                    self.journal.tell_when_written(News::Outcome { waiting, outcome, tell_by });
                }
            }
            None => {}
        }
    }

    fn tell(&self, event: &Event) {
        let operation_id = match event {
            Event::OperationDeferred { key, .. }
            | Event::OperationQuarantined { key, .. }
            | Event::OperationExhausted { key, .. }
            | Event::OperationReleased { key, .. }
            | Event::AttemptFinished { key, .. } => self.desk.id(*key),
            _ => None,
        };
        let lane = match event {
            Event::QueueFull { lane, .. } => Some(*lane),
            Event::BackgroundCapped { .. } => Some(Lane::Background),
            _ => None,
        };
        let engine = self.engine.as_ref();
        let oldest_age = lane.and_then(|lane| engine.and_then(|engine| engine.oldest_age(self.now, lane)));
        let context = Context { mailbox: Some(self.seat.id()), operation_id: operation_id.as_ref(), oldest_age };
        self.world.reporter.emit(self.now, event, &context);
    }
}
