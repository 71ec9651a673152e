//! How an attempt ended, and what becomes of its operation.

use std::time::Duration;

use super::entry::{Entry, Shared, Step, Wish};
use super::table::End;
use super::{AskShared, Effect, Mailbox, Outcome};
use crate::engine::budget::Blame;
use crate::engine::event::Event;
use crate::engine::leaves::Leaves;
use crate::engine::operation::{
    ExhaustCause, OperationKey, OperationKind, OperationState, QuarantineCause, Transition,
};
use crate::engine::policy::DuplicatePolicy;
use crate::engine::retry::backoff;
use crate::engine::scope::ScopeKind;
use crate::engine::spread::{offset, spread};
use crate::engine::time::Timestamp;
use crate::engine::verdict::{Answer, Sent, Subject, Verdict};

/// Who says how an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// The provider, or the way to it: the breakers hear it.
    Upstream,
    /// We do. It settles the charge, and that is all.
    Ours,
}

impl Mailbox {
    pub(super) fn finished(&mut self, now: Timestamp, key: OperationKey, answer: Answer, word: Word) {
        let Some(entry) = self.table.get_mut(key) else { return };
        match entry.step {
            Step::Attempting { sent_at, shared } => {
                entry.set_status(answer.status);
                if answer.verdict == Verdict::Unknown {
                    entry.more_mut().maybe_sent_at.get_or_insert(sent_at);
                }
                let (lane, cost, accepted) = (entry.lane, entry.cost(), answer.verdict == Verdict::Accepted);
                let is_charged = self.table.standing().is_some() && self.budget.has_charged(lane, &cost);
                self.settle(now, key, (sent_at, shared), &answer, word);
                self.report(key, sent_at, &answer);
                self.leaves = Some(Leaves::of(&answer.verdict));
                self.conclude(now, key, sent_at, answer);
                self.stirred = !(accepted && is_charged && self.settles_quietly(now, &cost));
            }
            // The answer of an attempt that was given up, or of an actor's earlier life, arrived after all.
            Step::Unknown { .. } if answer.verdict != Verdict::Unknown => {
                self.budget.late_answer(entry.lane);
                if answer.verdict == Verdict::Accepted {
                    self.resolved(now, key, true);
                }
            }
            _ => {}
        }
    }

    fn settle(
        &mut self,
        now: Timestamp,
        key: OperationKey,
        (sent_at, shared): (Timestamp, Shared),
        answer: &Answer,
        word: Word,
    ) {
        let waiting = self.waiting_count();
        let Some(entry) = self.table.get(key) else { return };
        let blame = match &answer.verdict {
            _ if word == Word::Ours => Blame::Elsewhere,
            Verdict::Throttled(throttle) if !matches!(throttle.scope, None | Some(ScopeKind::Mailbox)) => {
                Blame::Elsewhere
            }
            _ => Blame::Here,
        };
        self.budget.settle(
            now,
            entry.lane,
            &entry.cost(),
            (sent_at, sent_at),
            answer,
            blame,
            Self::rules(&self.policy),
            waiting,
            &mut self.events,
        );
        self.watch(key, answer);
        let unsent = matches!(answer.verdict, Verdict::Transient { sent: Sent::No, .. });
        match (word, shared) {
            (Word::Ours, Shared::NotAsked) => {}
            (Word::Ours, Shared::Reserved) if unsent => self.give_back_shared(key),
            (Word::Ours | Word::Upstream, Shared::Reserved) => self.tell_shared(key, sent_at, answer),
            // Nobody had to ask, so the shared scopes hear of trouble alone, and of the success that ends it.
            (Word::Upstream, Shared::NotAsked) => {
                let ends_it = self.unreached && answer.verdict == Verdict::Accepted;
                if unsent || ends_it {
                    self.unreached = unsent;
                }
                if blame == Blame::Elsewhere || unsent || ends_it {
                    self.tell_shared(key, sent_at, answer);
                }
            }
        }
    }

    fn tell_shared(&mut self, key: OperationKey, sent_at: Timestamp, answer: &Answer) {
        let Some(entry) = self.table.get(key) else { return };
        let tenant = self.table.tenant(entry).cloned();
        self.effects.push_back(Effect::Settle { key, tenant, sent_at, answer: answer.clone() });
    }

    fn report(&mut self, key: OperationKey, sent_at: Timestamp, answer: &Answer) {
        let Some(entry) = self.table.get(key) else { return };
        // Told before the outcome: after that, the shell no longer knows whose attempt it was.
        let told = Event::AttemptFinished {
            key,
            lane: entry.lane,
            outcome: answer.verdict.as_str(),
            status: answer.status,
            attempt: entry.rows,
            waited: sent_at.since(entry.submitted_at),
        };
        self.tell_events();
        self.effects.push_back(Effect::Event(told));
    }

    fn conclude(&mut self, now: Timestamp, key: OperationKey, sent_at: Timestamp, answer: Answer) {
        let Some(entry) = self.table.get_mut(key) else { return };
        if entry.kind == OperationKind::Permit {
            // The caller sends by itself and decides what follows.
            self.record_permit(now, key, sent_at, &answer.verdict);
            self.table.remove(key);
            return;
        }
        let (hash, status) = (entry.id_hash, answer.status);
        match answer.verdict {
            Verdict::Accepted => self.accepted(now, key, Transition::Accept, answer.provider_id),
            Verdict::Throttled(throttle) => {
                entry.more_mut().throttled = Some(throttle.kind);
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
                let voids = entry.more().voids.saturating_add(1);
                entry.more_mut().voids = voids;
                let pause = backoff(&self.policy.retry, hash, voids).max(retry_after.unwrap_or_default());
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
                let transition = match of {
                    Subject::Credentials => Transition::Void, // nothing left, and its row says so
                    Subject::Message | Subject::Mailbox | Subject::Account => Transition::Suspend,
                };
                entry.apply(transition);
                self.suspend(of, status);
                self.record(now, key, transition, None);
                self.again(now, key, None);
            }
            Verdict::Unknown => self.lost(now, key),
        }
    }

    /// When an operation that was throttled goes on, as far as the outbox is told: after the cooldown, at an instant
    /// of its own. While this process lives the pacer decides; after a restart these instants keep those that were under
    /// way together from waking at once. The rest of the backlog is behind them and has no such instants.
    fn resumes_at(&self, now: Timestamp, id_hash: u64) -> Timestamp {
        let until = self.budget.shut_until(now).unwrap_or(now);
        let [foreground, background] = self.budget.in_flight_per_lane();
        let together = u64::from(foreground) + u64::from(background) + 1;
        let over = match self.budget.rate(now) {
            Some(rate) => spread(together, Duration::ZERO, rate),
            None => self.policy.resume.spread,
        };
        until.after(offset(id_hash, over))
    }

    /// Nothing leaves this mailbox until a person resumes it.
    fn suspend(&mut self, of: Subject, status: Option<u16>) {
        self.budget.suspend();
        self.events.push(Event::MailboxSuspended { scope: self.budget.scope().clone(), of, status });
    }

    pub(super) fn accepted(
        &mut self,
        now: Timestamp,
        key: OperationKey,
        transition: Transition,
        provider_id: Option<String>,
    ) {
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
        let attempts = entry.attempts();
        let at = now.after(backoff(policy, entry.id_hash, attempts).max(at_least));
        let left = attempts < policy.attempts_max.get() && at < entry.deadline;
        let spent = !left && entry.wish == Wish::Nothing;
        // Recorded even if it is the last: a store that checks transitions sees every one of them.
        self.record(now, key, transition, left.then_some(at));
        if spent {
            self.exhaust(now, key, Transition::Exhaust);
        } else {
            self.again(now, key, Some(at));
        }
    }

    /// A live operation goes on: at `at`, or from the head of its lane.
    pub(super) fn again(&mut self, now: Timestamp, key: OperationKey, at: Option<Timestamp>) {
        let Some(entry) = self.table.get(key) else { return };
        if entry.wish != Wish::Nothing {
            self.grant_wish(now, key);
        } else if entry.deadline <= now || self.is_hopeless(entry) {
            self.exhaust(now, key, Transition::Exhaust);
        } else if let Some(at) = at.filter(|at| *at > now) {
            self.table.delay(key, Step::Delayed { due_at: at });
        } else {
            self.ready(now, key, End::Head);
        }
    }

    /// Whether a limit was lowered below its cost, or below the attempts it has used, since it was admitted.
    pub(super) fn is_hopeless(&self, entry: &Entry) -> bool {
        self.budget.never(&entry.cost()).is_some() || entry.attempts() >= self.policy.retry.attempts_max.get()
    }

    /// Ends what can never go any more, so that it does not block what can.
    pub(super) fn end_hopeless(&mut self, now: Timestamp) {
        for key in self.table.keys() {
            let Some(entry) = self.table.get(key) else { continue };
            // An attempt under way is judged when it has ended, an unknown by its look-ups.
            let waits = matches!(
                entry.step,
                Step::Delayed { .. } | Step::Queued(_) | Step::Held | Step::Waiting | Step::Reserving { .. }
            );
            if waits && self.is_hopeless(entry) {
                self.deadline_passed(now, key);
            }
        }
    }

    pub(super) fn exhaust(&mut self, now: Timestamp, key: OperationKey, transition: Transition) {
        let Some(entry) = self.table.get_mut(key) else { return };
        let (attempts, cost, deadline) = (transition.attempts_after(entry.attempts()), entry.cost(), entry.deadline);
        // The next attempt would have come after its deadline, or it cannot be made at all.
        let cause = if attempts >= self.policy.retry.attempts_max.get() {
            ExhaustCause::Attempts
        } else if deadline > now && self.budget.never(&cost).is_some() {
            ExhaustCause::Limit
        } else {
            ExhaustCause::Deadline
        };
        self.exhaust_because(now, key, transition, cause);
    }

    /// The same where the cause is known.
    pub(super) fn exhaust_because(
        &mut self,
        now: Timestamp,
        key: OperationKey,
        transition: Transition,
        cause: ExhaustCause,
    ) {
        let Some(entry) = self.table.get_mut(key) else { return };
        entry.apply(transition);
        let (lane, attempts, maybe_sent) = (entry.lane, entry.attempts(), entry.is_in_doubt(transition));
        let outcome = Outcome::Exhausted { attempts, throttled: entry.more().throttled, maybe_sent };
        self.tell_of(Event::OperationExhausted { key, lane, cause, attempts, maybe_sent });
        self.end(now, key, transition, outcome);
    }

    /// An attempt crashed its worker. Once is an unknown like any other; an operation that does so again and again is
    /// set aside before it takes its mailbox along.
    pub(super) fn crashed(&mut self, now: Timestamp, key: OperationKey, crashes: u32) {
        let Some(entry) = self.table.get(key) else { return };
        match entry.step {
            Step::Attempting { sent_at, shared } if self.is_poison(crashes) => {
                let answer = Verdict::Unknown.into();
                self.settle(now, key, (sent_at, shared), &answer, Word::Upstream);
                self.report(key, sent_at, &answer);
                self.set_aside(now, key, QuarantineCause::Poison);
            }
            _ => self.finished(now, key, Verdict::Unknown.into(), Word::Upstream),
        }
    }

    /// Whether an operation that crashed its worker this often is not to be touched any more.
    pub(super) fn is_poison(&self, crashes: u32) -> bool {
        crashes >= self.policy.retry.crashes_max.get()
    }

    pub(super) fn deadline_passed(&mut self, now: Timestamp, key: OperationKey) {
        let Some(entry) = self.table.get(key) else { return };
        match entry.step {
            Step::Delayed { .. } | Step::Queued(_) | Step::Held => self.leave(now, key),
            Step::Waiting => {
                self.give_back_shared(key);
                self.leave(now, key);
            }
            // Nothing follows: what a person asked for is what it ends with.
            Step::Unknown { .. } if entry.wish == Wish::Cancel => self.set_aside(now, key, QuarantineCause::Unknown),
            // Duplicates forbidden: nothing may follow, and it says so. Else the look-ups decide.
            Step::Unknown { .. } if self.policy.retry.duplicates == DuplicatePolicy::AtMostOnce => {
                self.exhaust(now, key, Transition::Expire);
            }
            Step::Unknown { .. } => {}
            Step::Reserving { .. } => {
                self.unreserve(now, key);
                self.leave(now, key);
            }
            // Judged when the step that is under way has ended.
            Step::Free { .. } | Step::Claiming { .. } | Step::Attempting { .. } => {}
        }
    }

    /// Out of time before it was sent.
    fn leave(&mut self, now: Timestamp, key: OperationKey) {
        if self.table.get(key).is_some_and(|entry| entry.kind == OperationKind::Permit) {
            self.table.remove(key);
            self.effects.push_back(Effect::Outcome {
                key,
                outcome: Outcome::Exhausted { attempts: 0, throttled: None, maybe_sent: false },
                tell_by: now,
            });
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
