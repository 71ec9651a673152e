//! News for the engine: ended attempts, settled permits, the store's answers, the shared scopes' word.

use std::sync::Arc;

use super::callers::Fate;
use super::desk::Entry;
use super::entrance::{Handed, PermitReply, TurnedAway};
use super::journal::{Newcomer, Written};
use super::mailbox::{MailboxActor, Mode};
use super::past;
use super::permit::TryAcquire;
use super::reply::Reply;
use super::ticket::Ticket;
use crate::email::Email;
use crate::engine::mailbox::{ClaimFailure, Input, Record};
use crate::engine::policy::CutOff;
use crate::engine::{Answer, OperationKey, Sent, Timestamp, Verdict};
use crate::store::{Claim, DamagedEmail, Inserted, NoteChange, StoreError};
use crate::submission::SubmitError;
use crate::telemetry::{EventKind, StorePolicy};

/// What is counted of an attempt that was not made.
const UNSENT: Verdict = Verdict::Transient { sent: Sent::No, retry_after: None };

impl MailboxActor {
    pub(super) fn on_reply(&mut self, reply: Reply) {
        if self.mode == Mode::Remote && reply.needs_engine() {
            return self.on_remote_reply(reply);
        }
        if self.engine.is_none() && reply.needs_engine() {
            // Never more than attempts under way: they are heard when there is an engine again.
            self.overhear(&reply);
            return self.postponed.push(reply);
        }
        match reply {
            Reply::Shared(input) => self.on_shared(input),
            Reply::Finished { key, attempt, answer } => self.on_finished(key, attempt, answer),
            Reply::Unsent { key, attempt } => self.on_unsent(key, attempt),
            Reply::Crashed { key, attempt } => self.on_crashed(key, attempt),
            Reply::Settled { key, answer } => {
                let verdict = answer.verdict.clone();
                self.on_settled(key, &verdict, Input::Finished { key, answer });
            }
            Reply::Returned { key } => self.on_settled(key, &UNSENT, Input::Unsent { key }),
            Reply::Abandoned { key } => {
                let mailbox = Arc::clone(self.seat.id());
                self.world.reporter.report(self.now, EventKind::PermitAbandoned { mailbox });
                self.on_settled(key, &Verdict::Unknown, Input::Abandoned { key });
            }
            Reply::Withdrawn { key } => self.step(Input::Cancel { key }),
            Reply::Resolved { key, accepted } => self.step(Input::Resolved { key, accepted }),
            Reply::Alone { key } => self.step(Input::ClaimFailed { key, failure: ClaimFailure::Transient }),
            Reply::Look => {}
            Reply::Acquire => self.acquire(),
            Reply::Acquired { asked_at, answer } => self.on_acquired(asked_at, answer),
            Reply::Letters(letters) => self.on_letters(letters),
            Reply::Obeyed { order, answer } => self.on_obeyed(order, answer),
            Reply::Row(record) => self.on_read_row(&record),
            Reply::Late(written) => self.on_late(written),
            Reply::Written(written) => {
                self.journal.landed();
                self.on_written(*written);
                self.own.overtaken = false;
            }
            Reply::Recovered(reading) => self.on_recovered(*reading),
        }
    }

    fn on_shared(&mut self, input: Input) {
        let waits = match &input {
            Input::Waiting { key, .. } => Some(*key),
            _ => None,
        };
        self.step(input);
        if let Some(key) = waits {
            self.defer_if_impatient(key);
        }
    }

    pub(super) fn on_finished(&mut self, key: OperationKey, attempt: u32, answer: Answer) {
        if self.lands(key, attempt, &answer.verdict) {
            self.has_survived(key);
            self.step(Input::Finished { key, answer });
            self.desk.pay_unknown(key);
        }
    }

    /// It was not made, for a reason of our own.
    fn on_unsent(&mut self, key: OperationKey, attempt: u32) {
        if self.lands(key, attempt, &UNSENT) {
            self.has_survived(key);
            self.step(Input::Unsent { key });
            self.desk.pay_unknown(key);
        }
    }

    /// The transport panicked on it, so nobody knows what was sent.
    fn on_crashed(&mut self, key: OperationKey, attempt: u32) {
        if self.lands(key, attempt, &Verdict::Unknown) {
            let crashes = self.count_panic(Some(key));
            self.world.crashes().landed(key);
            self.step(Input::Crashed { key, crashes });
            self.desk.pay_unknown(key);
        }
    }

    /// Takes note of the attempt's end; an answer to one that is not under way is one too many.
    fn lands(&mut self, key: OperationKey, attempt: u32, verdict: &Verdict) -> bool {
        let lands = self.desk.land(key, attempt).is_some();
        if lands {
            self.count_drained(verdict);
            if let Some(drain) = self.drain.as_mut().filter(|_| *verdict == Verdict::Unknown) {
                drain.unknown.push(key);
            }
        }
        lands
    }

    fn on_settled(&mut self, key: OperationKey, verdict: &Verdict, input: Input) {
        if self.desk.land(key, 0).is_none() {
            return;
        }
        self.count_drained(verdict);
        self.step(input);
        self.desk.remove(key);
    }

    pub(super) fn count_drained(&mut self, verdict: &Verdict) {
        if let Some(drain) = &mut self.drain {
            match verdict {
                Verdict::Accepted => drain.so_far.accepted += 1,
                Verdict::Unknown => drain.so_far.unknown += 1,
                _ => {}
            }
        }
    }

    /// A caller who wants to know now is told so when there is no permit now.
    pub(super) fn defer_if_impatient(&mut self, key: OperationKey) {
        let Some(asked) = self.desk.permit_mut(key) else { return };
        if !matches!(asked.reply, Some(PermitReply::Try(_))) {
            return;
        }
        let reply = asked.reply.take();
        let constraints = self.engine.as_ref().map(|engine| engine.explain(self.now, Some(key))).unwrap_or_default();
        let binding = constraints.iter().find(|constraint| constraint.binding);
        let until = binding.map_or(self.now, |constraint| constraint.ready_at);
        if let Some(PermitReply::Try(sender)) = reply {
            drop(sender.send(Ok(TryAcquire::Deferred { until, constraints })));
        }
        self.step(Input::Cancel { key });
    }

    pub(super) fn on_written(&mut self, written: Written) {
        let kept = written.notes.as_ref().is_none_or(|(_, result)| result.is_ok());
        if let Some((notes, result)) = written.notes {
            self.on_kept(&notes, written.permits, &result);
        }
        match written.records {
            Some((records, Err(error))) => self.on_not_recorded(records, &error),
            // Some of what is to be told speaks of a note.
            _ if !kept => {}
            Some((_, Ok(()))) => {
                self.store_recovered();
                self.journal.tell();
            }
            None => self.journal.tell(),
        }
        if let Some((claims, answer)) = written.claims {
            self.on_claimed(claims, answer);
        }
        for (newcomers, answer) in written.inserts {
            self.on_inserted(newcomers, answer);
        }
        if let Some((lookups, answer)) = written.lookups {
            self.on_found(lookups, answer);
        }
    }

    fn on_kept(&mut self, notes: &[NoteChange], permits: Vec<OperationKey>, result: &Result<(), StoreError>) {
        self.on_charged(permits, result);
        let Err(error) = result else { return };
        self.store_degraded();
        match error {
            // The rest is kept; new permits are not, and whoever asked for them is told.
            StoreError::Full { .. } => {}
            error if error.is_retryable() => self.journal.keep_notes(notes, self.now),
            _ => {
                self.journal.keep_notes_until_told(notes, self.now);
                self.hold_for_store(error);
            }
        }
    }

    fn on_not_recorded(&mut self, records: Arc<[Record]>, error: &StoreError) {
        if error.is_contradiction() {
            // The others are written, and this one would be refused as often as it came.
            self.journal.tell();
            let (store, mailbox, error) =
                (self.world.store.kind(), Arc::clone(self.seat.id()), error.to_string().into());
            return self.world.reporter.report(self.now, EventKind::StoreContradicted { store, mailbox, error });
        }
        self.store_degraded();
        if error.is_retryable() {
            return self.journal.keep(records, self.now);
        }
        self.journal.keep_until_told(records);
        self.hold_for_store(error);
    }

    pub(super) fn store_degraded(&mut self) {
        if !std::mem::replace(&mut self.degraded, true) {
            let (store, policy) = (self.world.store.kind(), self.store_policy());
            self.world.reporter.report(self.now, EventKind::StoreDegraded { store, policy });
        }
    }

    /// What foreground does meanwhile.
    fn store_policy(&self) -> StorePolicy {
        match self.policy.fleet.foreground {
            _ if self.own.lease.is_none() => StorePolicy::Pause,
            CutOff::Pause => StorePolicy::Pause,
            CutOff::Half => StorePolicy::Half,
            CutOff::Trickle => StorePolicy::Trickle,
        }
    }

    pub(super) fn store_recovered(&mut self) {
        if std::mem::take(&mut self.degraded) {
            let (store, policy) = (self.world.store.kind(), self.store_policy());
            self.world.reporter.report(self.now, EventKind::StoreRecovered { store, policy });
        }
    }

    fn on_claimed(&mut self, claims: Vec<Claim>, answer: Result<Vec<Option<Email>>, StoreError>) {
        if self.is_fenced() {
            return self.on_fenced(claims, answer);
        }
        let emails = match answer {
            Ok(emails) => emails,
            Err(StoreError::EmailDamaged { emails }) => return self.on_damaged(claims, &emails),
            Err(_) => {
                self.store_degraded();
                if let Some(fleet) = &self.world.fleet {
                    fleet.suspect();
                }
                for claim in claims {
                    // Whatever the store's trouble is, the operation is still in it.
                    self.world.crashes().landed(claim.key);
                    self.step(Input::ClaimFailed { key: claim.key, failure: ClaimFailure::Transient });
                }
                return;
            }
        };
        let mut emails = emails.into_iter();
        for Claim { key, .. } in claims {
            let email = emails.next().flatten();
            match email.filter(|_| self.desk.get(key).is_some()) {
                Some(email) => {
                    self.desk.keep_email(key, email);
                    self.on_charge_written(key);
                }
                None => self.step(Input::ClaimFailed { key, failure: ClaimFailure::Gone }),
            }
        }
    }

    /// What was charged is in the store. A hold of everything or of a tenant is in force since it was answered, whether or not
    /// the shared scopes have told of it.
    pub(super) fn on_charge_written(&mut self, key: OperationKey) {
        let tenant = self.engine.as_ref().and_then(|engine| engine.tenant(key));
        if self.world.holds.stop_shared(self.now, tenant) {
            self.world.crashes().landed(key);
            return self.step(Input::ClaimFailed { key, failure: ClaimFailure::Transient });
        }
        self.step(Input::Claimed { key });
    }

    /// Nothing of the batch was written. What is damaged is a person's affair; the others are claimed again.
    fn on_damaged(&mut self, claims: Vec<Claim>, damaged: &[DamagedEmail]) {
        for claim in claims {
            match damaged.iter().find(|email| email.key == claim.key) {
                Some(email) => {
                    let failure = ClaimFailure::Damaged(Arc::clone(&email.reason));
                    self.world.crashes().landed(claim.key);
                    self.step(Input::ClaimFailed { key: claim.key, failure });
                }
                None if damaged.is_empty() => {
                    self.world.crashes().landed(claim.key);
                    self.step(Input::ClaimFailed { key: claim.key, failure: ClaimFailure::Transient });
                }
                None => self.journal.claim(claim),
            }
        }
    }

    fn on_inserted(&mut self, newcomers: Vec<Newcomer>, answer: Result<Vec<Inserted>, StoreError>) {
        match answer {
            Ok(inserted) => {
                for (newcomer, inserted) in newcomers.into_iter().zip(inserted) {
                    self.on_stored(newcomer, inserted);
                }
            }
            Err(error) => {
                self.store_degraded();
                for mut newcomer in newcomers {
                    if stored_nothing(&error) {
                        newcomer.charge.set(Fate::NotStored);
                    }
                    self.journal.arrived(newcomer.operation.lane, &newcomer.operation.cost);
                    let key = newcomer.operation.key;
                    if matches!(error, StoreError::Unavailable { .. }) {
                        // It may be stored all the same: then it has to come to an end, whether or not it is submitted
                        // again, and its admission key is taken.
                        self.journal.look_up_doubt(Arc::clone(&newcomer.handed.id), key);
                    } else {
                        for repeat in self.admissions.failed(key) {
                            repeat.not_stored(error.clone());
                        }
                    }
                    newcomer.handed.not_stored(error.clone());
                }
            }
        }
    }

    fn on_stored(&mut self, newcomer: Newcomer, inserted: Inserted) {
        if self.mode == Mode::Remote {
            return self.on_stored_remote(newcomer, inserted);
        }
        let Newcomer { handed, operation, mut charge } = newcomer;
        self.journal.arrived(operation.lane, &operation.cost);
        charge.set(if inserted == Inserted::New { Fate::Stored } else { Fate::NotStored });
        drop(charge);
        match inserted {
            Inserted::New => {
                let (ticket, teller) = Ticket::open(handed.id);
                if self.world.fleet.is_some() && self.policy.fleet.cut_off(operation.lane) != CutOff::Pause {
                    // It is to go although the store may be out of reach when its turn comes.
                    self.desk.keep_email(operation.key, handed.submission.email);
                }
                self.desk.insert(operation.key, Entry::stored(teller, operation.lane));
                handed.reply.send(Ok(ticket));
                let repeats = self.admissions.stored(operation.key, operation.key, None);
                self.answer_repeats(repeats, operation.key);
                self.step(Input::Enqueue(operation));
            }
            Inserted::Existing(record) => {
                let ticket = self.ticket_of(&record);
                handed.reply.send(Ok(ticket));
                for repeat in self.admissions.stored(operation.key, record.key, past::outcome(&record)) {
                    let ticket = self.ticket_of(&record);
                    repeat.reply.send(Ok(ticket));
                }
            }
            Inserted::Conflict => {
                let id = Arc::clone(&handed.id);
                handed.refuse(|submission| SubmitError::Conflict { id, submission });
                // The first of those that waited for it takes its place.
                self.admissions.failed(operation.key).into_iter().for_each(|repeat| self.take_in_repeat(repeat));
            }
        }
    }

    fn answer_repeats(&mut self, repeats: Vec<Handed>, of: OperationKey) {
        for repeat in repeats {
            match self.desk.subscribe(of) {
                Some(ticket) => repeat.reply.send(Ok(ticket)),
                None => repeat.turn_away(TurnedAway::MailboxHeld),
            }
        }
    }

    /// How far back charges can count.
    pub(super) fn horizon(&self) -> Timestamp {
        past::horizon(self.now, &self.policy.scope, &self.policy.guard)
    }
}

/// Whether an insert that failed so certainly stored nothing. A store out of reach may have done it all the same.
const fn stored_nothing(error: &StoreError) -> bool {
    matches!(error, StoreError::Full { .. } | StoreError::Unusable { .. })
}
