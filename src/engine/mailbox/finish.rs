//! How an attempt ended, and what becomes of its operation.

use std::time::Duration;

use super::entry::{CancelRequest, Shared, Step};
use super::table::End;
use super::{AskShared, Effect, Mailbox, Outcome};
use crate::engine::budget::Blame;
use crate::engine::cost::Cost;
use crate::engine::event::Event;
use crate::engine::operation::{OperationKey, OperationKind, OperationState, Transition};
use crate::engine::policy::DuplicatePolicy;
use crate::engine::retry::backoff;
use crate::engine::scope::ScopeKind;
use crate::engine::spread::{offset, spread};
use crate::engine::time::Timestamp;
use crate::engine::verdict::{Answer, Sent, Subject, Verdict};

/// Look-ups of an unknown, counted from the moment it became one (algorithms 8).
const LOOK_UPS: [Duration; 3] = [Duration::from_secs(60), Duration::from_secs(300), Duration::from_secs(1_800)];

/// "Absent" has to be heard this often before it is believed (algorithms 5, transition 10).
const ABSENT_MIN: u8 = 2;

impl Mailbox {
    pub(super) fn finished(&mut self, now: Timestamp, key: OperationKey, answer: Answer) {
        let Some(entry) = self.table.get_mut(key) else { return };
        match entry.step {
            Step::Attempting { sent_at, shared } => {
                entry.status = answer.status.or(entry.status);
                self.settle(now, key, sent_at, shared, &answer);
                self.report(key, sent_at, &answer);
                self.conclude(now, key, answer);
            }
            // The answer of an attempt that was given up, or of an actor's earlier life, arrived after all.
            Step::Unknown { .. } if answer.verdict != Verdict::Unknown => {
                self.budget.late_answer(entry.operation.lane);
                if answer.verdict == Verdict::Accepted {
                    self.resolved(now, key, true);
                }
            }
            _ => {}
        }
    }

    fn settle(&mut self, now: Timestamp, key: OperationKey, sent_at: Timestamp, shared: Shared, answer: &Answer) {
        let waiting = self.waiting_count();
        let Some(entry) = self.table.get(key) else { return };
        let blame = match &answer.verdict {
            Verdict::Throttled(throttle) if !matches!(throttle.scope, None | Some(ScopeKind::Mailbox)) => {
                Blame::Elsewhere
            }
            _ => Blame::Here,
        };
        let operation = &entry.operation;
        self.budget.settle(
            now,
            operation.lane,
            &operation.cost,
            sent_at,
            answer,
            blame,
            Self::rules(&self.policy),
            waiting,
            &mut self.events,
        );
        let unreachable = matches!(answer.verdict, Verdict::Transient { sent: Sent::No, .. });
        if shared == Shared::Reserved || blame == Blame::Elsewhere || unreachable {
            let tenant = operation.tenant.clone();
            self.effects.push_back(Effect::Settle { key, tenant, sent_at, answer: answer.clone() });
        }
    }

    fn report(&mut self, key: OperationKey, sent_at: Timestamp, answer: &Answer) {
        let Some(entry) = self.table.get(key) else { return };
        self.events.push(Event::AttemptFinished {
            key,
            lane: entry.operation.lane,
            outcome: answer.verdict.as_str(),
            status: answer.status,
            attempt: entry.rows,
            waited: sent_at.since(entry.operation.submitted_at),
        });
        // Told before the outcome: after that, the shell no longer knows whose attempt it was.
        self.effects.extend(self.events.drain(..).map(Effect::Event));
    }

    fn conclude(&mut self, now: Timestamp, key: OperationKey, answer: Answer) {
        let Some(entry) = self.table.get_mut(key) else { return };
        if entry.operation.kind == OperationKind::Permit {
            // The caller sends by itself and decides what follows.
            self.record_permit(now, key, &answer.verdict);
            self.table.remove(key);
            return;
        }
        let (hash, status) = (entry.operation.id_hash, answer.status);
        match answer.verdict {
            Verdict::Accepted => self.accepted(now, key, Transition::Accept, answer.provider_id),
            Verdict::Throttled(throttle) => {
                entry.throttled = Some(throttle.kind);
                entry.apply(Transition::Throttle);
                let until = self.resumes_at(now, hash);
                self.record(now, key, Transition::Throttle, Some(until));
                if !matches!(throttle.scope, None | Some(ScopeKind::Mailbox)) {
                    // The cooldown is the shared scopes': from now on they are asked, whatever they announced before.
                    self.ask = AskShared::Always;
                }
                self.again(now, key, None);
            }
            Verdict::Transient { sent: Sent::No, retry_after } => {
                entry.voids = entry.voids.saturating_add(1);
                let pause = backoff(&self.policy.retry, hash, entry.voids).max(retry_after.unwrap_or_default());
                entry.apply(Transition::Void);
                self.record(now, key, Transition::Void, Some(now.after(pause)));
                self.again(now, key, Some(now.after(pause)));
            }
            Verdict::Transient { sent: Sent::Maybe, retry_after } => {
                self.retry(now, key, Transition::Retry, retry_after.unwrap_or_default());
            }
            Verdict::Permanent { of: Subject::Message } => {
                entry.apply(Transition::Reject);
                self.end(now, key, Transition::Reject, Outcome::Rejected { of: Subject::Message, status });
            }
            Verdict::Permanent { of } => {
                // The mailbox waits for a person; its operations stay where they are.
                entry.apply(Transition::Suspend);
                self.suspend(of, status);
                self.record(now, key, Transition::Suspend, None);
                self.again(now, key, None);
            }
            Verdict::Unknown => self.lost(now, key),
        }
    }

    /// When an operation that was throttled goes on, as far as the outbox is told: after the cooldown, at an instant
    /// of its own. While this process lives the pacer decides; after a restart these instants keep the backlog from
    /// waking at once.
    fn resumes_at(&self, now: Timestamp, id_hash: u64) -> Timestamp {
        let until = self.budget.shut_until(now).unwrap_or(now);
        let backlog = u64::from(self.waiting_count()) + 1;
        let over = match self.budget.rate(now) {
            Some(rate) => spread(backlog, Duration::ZERO, rate),
            None => self.policy.resume.spread,
        };
        until.after(offset(id_hash, over))
    }

    /// Nothing leaves this mailbox until a person resumes it.
    fn suspend(&mut self, of: Subject, status: Option<u16>) {
        self.budget.suspend();
        self.events.push(Event::MailboxSuspended { scope: self.budget.scope().clone(), of, status });
    }

    fn accepted(&mut self, now: Timestamp, key: OperationKey, transition: Transition, provider_id: Option<String>) {
        let Some(entry) = self.table.get_mut(key) else { return };
        entry.apply(transition);
        let outcome = Outcome::Accepted { provider_id, attempts: entry.rows };
        self.end(now, key, transition, outcome);
    }

    /// One attempt is used up. The next one comes after its backoff, if attempts and time are left.
    fn retry(&mut self, now: Timestamp, key: OperationKey, transition: Transition, at_least: Duration) {
        let policy = &self.policy.retry;
        let Some(entry) = self.table.get_mut(key) else { return };
        entry.apply(transition);
        let operation = &entry.operation;
        let at = now.after(backoff(policy, operation.id_hash, operation.attempts).max(at_least));
        let spent = operation.attempts >= policy.attempts_max.get() || at >= operation.deadline;
        // Recorded even if it is the last: a store that checks transitions sees every one of them.
        self.record(now, key, transition, (!spent).then_some(at));
        if spent {
            self.exhaust(now, key, Transition::Exhaust);
        } else {
            self.again(now, key, Some(at));
        }
    }

    /// A live operation goes on: at `at`, or from the head of its lane.
    pub(super) fn again(&mut self, now: Timestamp, key: OperationKey, at: Option<Timestamp>) {
        let Some(entry) = self.table.get(key) else { return };
        if entry.cancel == CancelRequest::Requested {
            self.end_cancelled(now, key);
        } else if entry.operation.deadline <= now || self.never_fits(&entry.cost()) {
            self.exhaust(now, key, Transition::Exhaust);
        } else if let Some(at) = at.filter(|at| *at > now) {
            self.table.delay(key, at, Step::Delayed);
        } else {
            self.ready(now, key, End::Head);
        }
    }

    /// Whether a limit was lowered below this cost since it was admitted.
    pub(super) fn never_fits(&self, cost: &Cost) -> bool {
        self.budget.never(cost, Self::rules(&self.policy)).is_some()
    }

    /// Ends what can never go any more, so that it does not block what can.
    pub(super) fn end_hopeless(&mut self, now: Timestamp) {
        for key in self.table.keys() {
            let Some(entry) = self.table.get(key) else { continue };
            let waits = matches!(entry.step, Step::Delayed | Step::Queued | Step::Held | Step::Waiting);
            if waits && self.never_fits(&entry.cost()) {
                self.deadline_passed(now, key);
            }
        }
    }

    pub(super) fn exhaust(&mut self, now: Timestamp, key: OperationKey, transition: Transition) {
        let Some(entry) = self.table.get_mut(key) else { return };
        entry.apply(transition);
        let outcome = Outcome::Exhausted { attempts: entry.operation.attempts, throttled: entry.throttled };
        self.end(now, key, transition, outcome);
    }

    /// It may have been accepted: the ticket says so at once, and the look-ups begin.
    fn lost(&mut self, now: Timestamp, key: OperationKey) {
        let Some(entry) = self.table.get_mut(key) else { return };
        entry.apply(Transition::Lose);
        self.effects.push_back(Effect::Outcome { key, outcome: Outcome::Unknown });
        self.await_look_up(key, Step::Unknown { since: now, looks: 0, absent: 0 }, now);
        let next = self.table.get(key).map(|entry| entry.due_at);
        self.record(now, key, Transition::Lose, next);
    }

    /// Arms the next look-up, or the instant at which the unknown is given up; neither before `earliest`.
    pub(super) fn await_look_up(&mut self, key: OperationKey, step: Step, earliest: Timestamp) {
        let Step::Unknown { since, looks, .. } = step else { return };
        let give_up = since.after(self.policy.retry.unknown_max);
        let next = LOOK_UPS.get(usize::from(looks)).map_or(give_up, |after| since.after(*after).min(give_up));
        self.table.delay(key, next.max(earliest), step);
    }

    /// An unknown's instant has come: look it up once more, or give it up.
    pub(super) fn look_up(&mut self, now: Timestamp, key: OperationKey) {
        let Some(entry) = self.table.get_mut(key) else { return };
        let Step::Unknown { since, looks, absent } = entry.step else { return };
        if now >= since.after(self.policy.retry.unknown_max) && usize::from(looks) >= 1 {
            entry.apply(Transition::GiveUp);
            self.end(now, key, Transition::GiveUp, Outcome::Quarantined);
            return;
        }
        self.effects.push_back(Effect::Reconcile { key });
        // After a downtime several instants of the schedule may have passed: two answers of one moment are one, and
        // the answer to this look-up has to be able to come before the unknown is given up.
        let step = Step::Unknown { since, looks: looks.saturating_add(1), absent };
        self.await_look_up(key, step, now.after(LOOK_UPS[0]));
    }

    /// What became of an unknown.
    pub(super) fn resolved(&mut self, now: Timestamp, key: OperationKey, accepted: bool) {
        let Some(entry) = self.table.get_mut(key) else { return };
        let Step::Unknown { since, looks, absent } = entry.step else { return };
        if accepted {
            return self.accepted(now, key, Transition::Find, None);
        }
        let absent = absent.saturating_add(1);
        entry.step = Step::Unknown { since, looks, absent };
        let may_repeat = self.policy.retry.duplicates == DuplicatePolicy::AtLeastOnce;
        if may_repeat && absent >= ABSENT_MIN && now >= since.after(LOOK_UPS[0]) {
            self.table.unqueue(key);
            self.repeat(now, key);
        }
    }

    /// Known absent: it may be sent again, with the same key and the same bytes.
    fn repeat(&mut self, now: Timestamp, key: OperationKey) {
        let policy = &self.policy.retry;
        let Some(entry) = self.table.get_mut(key) else { return };
        let operation = &entry.operation;
        let attempts = Transition::Repeat.attempts_after(operation.attempts);
        let at = now.after(backoff(policy, operation.id_hash, attempts));
        if attempts >= policy.attempts_max.get() || at >= operation.deadline {
            self.exhaust(now, key, Transition::Expire);
            return;
        }
        entry.apply(Transition::Repeat);
        self.record(now, key, Transition::Repeat, Some(at));
        self.again(now, key, Some(at));
    }

    pub(super) fn deadline_passed(&mut self, now: Timestamp, key: OperationKey) {
        let Some(entry) = self.table.get(key) else { return };
        match entry.step {
            Step::Delayed | Step::Queued | Step::Held => self.leave(now, key),
            Step::Waiting => {
                self.give_back_shared(key);
                self.leave(now, key);
            }
            // Duplicates forbidden: nothing may follow, and it says so. Else the look-ups decide.
            Step::Unknown { .. } if self.policy.retry.duplicates == DuplicatePolicy::AtMostOnce => {
                self.exhaust(now, key, Transition::Expire);
            }
            Step::Unknown { .. } => {}
            Step::Reserving => {
                self.unreserve(now, key);
                self.leave(now, key);
            }
            // Judged when the step that is under way has ended.
            Step::Claiming { .. } | Step::Attempting { .. } => {}
        }
    }

    /// Out of time before it was sent.
    fn leave(&mut self, now: Timestamp, key: OperationKey) {
        if self.table.get(key).is_some_and(|entry| entry.operation.kind == OperationKind::Permit) {
            self.table.remove(key);
            self.effects
                .push_back(Effect::Outcome { key, outcome: Outcome::Exhausted { attempts: 0, throttled: None } });
            return;
        }
        if self.table.get(key).is_some_and(|entry| entry.state == OperationState::Admitted) {
            self.table.unqueue(key);
            if let Some(entry) = self.table.get_mut(key) {
                entry.apply(Transition::Enqueue);
            }
            self.record(now, key, Transition::Enqueue, None);
        }
        self.exhaust(now, key, Transition::Exhaust);
    }
}
