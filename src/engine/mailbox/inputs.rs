//! Inputs that carry an operation forward: in at the door, past the shared scopes, past the outbox.

use std::time::Duration;

use super::entry::{Entry, Shared, Step, Wish};
use super::finish::Word;
use super::table::End;
use super::{Effect, Input, Mailbox, Outcome, Record, SharedWait};
use crate::engine::constraint::Constraint;
use crate::engine::event::Event;
use crate::engine::lane::Lane;
use crate::engine::leaves::Leaves;
use crate::engine::operation::{Operation, OperationKey, OperationKind, OperationState, Transition};
use crate::engine::settlement;
use crate::engine::time::Timestamp;
use crate::engine::verdict::{Sent, Subject, Verdict};

impl Mailbox {
    pub(super) fn take(&mut self, now: Timestamp, input: Input) {
        match input {
            Input::Enqueue(operation) => self.enqueue(now, operation),
            Input::Granted { key } => self.granted(now, key),
            Input::Waiting { key, until: _, constraint } => self.waiting(now, key, constraint),
            Input::Denied { key } => self.denied(now, key),
            Input::AskShared(ask) => self.ask = ask,
            Input::Claimed { key } => self.claimed(now, key),
            Input::ClaimFailed { key, failure } => self.claim_failed(now, key, failure),
            Input::Finished { key, answer } => self.finished(now, key, answer, Word::Upstream),
            Input::Unsent { key } => {
                let unsent = Verdict::Transient { sent: Sent::No, retry_after: None };
                self.finished(now, key, unsent.into(), Word::Ours);
            }
            Input::Abandoned { key } => self.finished(now, key, Verdict::Unknown.into(), Word::Ours),
            Input::Resolved { key, accepted } => self.resolved(now, key, accepted),
            Input::Crashed { key, crashes } => self.crashed(now, key, crashes),
            Input::Cancel { key } => self.stop(now, key, Wish::Cancel),
            Input::Quarantine { key } => self.stop(now, key, Wish::Quarantine),
            Input::Ruled { key, resolution } => self.ruled(now, key, resolution),
            Input::Release(restored) => self.release(now, *restored),
            Input::Discard(restored) => self.discard(now, *restored),
            Input::Hold(hold) => self.hold(hold),
            Input::Resume(target) => self.resume(&target),
            Input::Unsuspend => self.budget.unsuspend(),
            Input::Troubled { scope, reason } => {
                self.stop_passing(&scope, reason);
                self.note_trouble(now, scope, reason);
            }
            Input::Trip { until } => {
                let waiting = self.waiting_count();
                self.budget.trip(now, until, waiting, &mut self.events);
            }
            Input::Forget { key } => self.forget(key),
            Input::Own(tenure) => self.own(now, tenure),
            Input::CloseBreaker => self.budget.close_breaker(now, &mut self.events),
            Input::Reconfigure(policy) => {
                self.budget.reconfigure(now, &policy.scope, &self.live(), Self::rules(&policy));
                self.policy = policy;
                // What is left to another owner, and for how long, is the policy's too.
                self.tenure_at = now;
                self.end_hopeless(now);
            }
            // The only input that an idle mailbox gets.
            Input::Wake if self.table.is_empty() => self.rest(now),
            Input::Wake => self.stirred = false,
        }
    }

    fn enqueue(&mut self, now: Timestamp, operation: Operation) {
        let (key, lane) = (operation.key, operation.lane);
        if operation.lane == Lane::Foreground {
            self.budget.on_foreground_arrival(now, &operation.cost, Self::rules(&self.policy));
        }
        let not_before = operation.not_before;
        self.table.insert(&operation);
        if not_before > now {
            self.table.delay(key, Step::Delayed { due_at: not_before });
        } else {
            self.ready(now, key, End::Tail);
        }
        if self.table.get(key).is_some_and(|entry| self.is_hopeless(entry)) {
            // `check` let it in, and a limit was lowered while it was being stored.
            self.deadline_passed(now, key);
        }
        self.tell_full(lane);
        self.stirred = !self.joins_quietly(key);
    }

    /// Tells once when a lane fills up. It has to empty by a tenth before that is news again.
    fn tell_full(&mut self, lane: Lane) {
        let (depth_max, depth) = (self.depth_max(lane), self.table.live(lane));
        let full = &mut self.full[lane.index()];
        if depth >= depth_max && !*full {
            *full = true;
            let scope = self.budget.scope().clone();
            self.events.push(Event::QueueFull { scope, lane, depth: depth_max });
        } else if depth < depth_max - depth_max / 10 {
            *full = false;
        }
    }

    /// An operation's own instant has come: into its lane, unless somebody holds it.
    pub(super) fn ready(&mut self, now: Timestamp, key: OperationKey, end: End) {
        let Some(entry) = self.table.get_mut(key) else { return };
        if entry.state == OperationState::Admitted {
            entry.apply(Transition::Enqueue);
            self.record(now, key, Transition::Enqueue, None);
        }
        let Some(entry) = self.table.get(key) else { return };
        if (!self.holds.is_empty() || self.budget.is_tenured()) && self.is_held(entry) {
            self.table.delay(key, Step::Held);
        } else {
            let dominant = self.budget.dominant(&entry.cost());
            self.table.queue(key, dominant, end);
        }
    }

    fn granted(&mut self, now: Timestamp, key: OperationKey) {
        match self.table.get(key).map(|entry| entry.step) {
            // Nobody is left to use it.
            None => self.effects.push_back(Effect::Return { key, tenant: None }),
            Some(Step::Reserving { .. }) if self.is_key_held(key) => {
                self.unreserve(now, key);
                self.table.delay(key, Step::Held);
            }
            Some(Step::Reserving { .. }) => {
                self.reserving = self.reserving.saturating_sub(1);
                self.claim(now, key, Shared::Reserved);
                let is_claimed = |entry: &Entry| matches!(entry.step, Step::Claiming { .. });
                self.stirred = !self.table.get(key).is_some_and(is_claimed);
            }
            Some(Step::Waiting) => self.granted_late(key),
            Some(Step::Delayed { .. } | Step::Queued(_) | Step::Held | Step::Unknown { .. }) => {
                self.give_back_shared(key);
            }
            // What is under way settles it.
            Some(Step::Free { .. } | Step::Claiming { .. } | Step::Attempting { .. }) => {}
        }
    }

    fn waiting(&mut self, now: Timestamp, key: OperationKey, constraint: Constraint) {
        let Some(entry) = self.table.get_mut(key) else { return };
        let Step::Reserving { since } = entry.step else { return };
        entry.step = Step::Waiting;
        self.reserving = self.reserving.saturating_sub(1);
        let (lane, cost) = (entry.lane, entry.cost());
        self.budget.release(now, since, lane, &cost, Self::rules(&self.policy));
        let queue = (lane, self.table.get(key).and_then(|entry| self.table.tenant(entry)).cloned());
        self.shared_waits.insert(key, SharedWait { queue, constraint });
        if self.is_key_held(key) {
            self.give_back_shared(key);
            self.table.delay(key, Step::Held);
        }
    }

    /// A limit of a shared scope was lowered below its cost since it was admitted: it ends as one that its own mailbox's
    /// limits can never hold.
    fn denied(&mut self, now: Timestamp, key: OperationKey) {
        if matches!(self.table.get(key).map(|entry| entry.step), Some(Step::Reserving { .. } | Step::Waiting)) {
            self.deadline_passed(now, key);
        }
    }

    /// Nobody waits any more for what the shared scopes were asked for.
    pub(super) fn unreserve(&mut self, now: Timestamp, key: OperationKey) {
        let Some(entry) = self.table.get(key) else { return };
        self.reserving = self.reserving.saturating_sub(1);
        let (since, lane, cost) = (entry.step.charged_at(now), entry.lane, entry.cost());
        self.budget.release(now, since, lane, &cost, Self::rules(&self.policy));
        self.give_back_shared(key);
    }

    /// Everything is charged: write that down. Only then is anything sent, or a permit handed over.
    pub(super) fn claim(&mut self, now: Timestamp, key: OperationKey, shared: Shared) {
        let Some(entry) = self.table.get_mut(key) else { return };
        if entry.wish != Wish::Nothing || entry.deadline <= now {
            self.unclaim(now, key, shared);
            self.again(now, key, None);
            return;
        }
        if cfg!(debug_assertions) {
            entry.assert_claim(self.policy.retry.attempts_max.get());
        }
        entry.rows = entry.rows.saturating_add(1);
        entry.apply(Transition::Claim);
        entry.step = Step::Claiming { shared, since: now };
        self.effects.push_back(Effect::Claim { key, attempt: entry.rows, cost: entry.cost() });
    }

    fn claimed(&mut self, now: Timestamp, key: OperationKey) {
        let Some(entry) = self.table.get_mut(key) else { return };
        let Step::Claiming { shared, since } = entry.step else { return };
        let (unwanted, kind) = (entry.wish != Wish::Nothing || entry.deadline <= now, entry.kind);
        let (timeout, arrives_by) = self.may_take(since);
        // A row that took too long to write leaves no time to send.
        let late = kind == OperationKind::Send && arrives_by.since(now) < timeout / 2;
        let stopped = self.is_overtaken(key, since)
            || self.budget.shut_until(now).is_some()
            || self.is_key_held(key)
            || self.is_unowned(now, key);
        if unwanted || late || stopped {
            // The breaker opened, or somebody changed their mind, while the row was written: no byte has left.
            self.void(now, key, shared, now);
            return;
        }
        if self.is_forgotten(now, key) {
            return self.forgotten(now, key, shared);
        }
        let Some(entry) = self.table.get_mut(key) else { return };
        entry.step = Step::Attempting { sent_at: now, shared };
        let effect = match entry.kind {
            OperationKind::Send => {
                Effect::Send { key, attempt: entry.rows, deadline: now.after(timeout).min(arrives_by) }
            }
            OperationKind::Permit => Effect::Grant { key },
        };
        self.effects.push_back(effect);
        self.stirred = false;
    }

    /// How long an attempt may take, and until when one of that claim may reach the provider: who rebuilds budgets from the
    /// attempt log knows nothing but when the row was claimed.
    fn may_take(&self, claimed_at: Timestamp) -> (Duration, Timestamp) {
        let longest = self.policy.guard.request_deadline_max;
        (self.policy.retry.attempt_timeout.min(longest), claimed_at.after(longest))
    }

    /// The attempt row is void: no byte left the machine. The operation goes on at `at`.
    pub(super) fn void(&mut self, now: Timestamp, key: OperationKey, shared: Shared, at: Timestamp) {
        let Some(entry) = self.table.get_mut(key) else { return };
        entry.apply(Transition::Void);
        self.unclaim(now, key, shared);
        self.record(now, key, Transition::Void, (at > now).then_some(at));
        self.again(now, key, Some(at));
    }

    /// Gives back what was charged, here and at the shared scopes.
    pub(super) fn unclaim(&mut self, now: Timestamp, key: OperationKey, shared: Shared) {
        let Some(entry) = self.table.get(key) else { return };
        let (since, lane, cost) = (entry.step.charged_at(now), entry.lane, entry.cost());
        self.budget.release(now, since, lane, &cost, Self::rules(&self.policy));
        if shared == Shared::Reserved {
            self.give_back_shared(key);
        }
    }

    pub(super) fn give_back_shared(&mut self, key: OperationKey) {
        self.stop_waiting(key);
        if let Some(entry) = self.table.get(key) {
            let tenant = self.table.tenant(entry).cloned();
            self.effects.push_back(Effect::Return { key, tenant });
        }
    }

    /// The operation has ended as cancelled.
    pub(super) fn end_cancelled(&mut self, now: Timestamp, key: OperationKey) {
        if self.table.get(key).is_some_and(|entry| entry.step == Step::Waiting) {
            self.give_back_shared(key);
        }
        self.end_unwanted(now, key, Transition::Cancel);
    }

    /// Ends as cancelled by `transition`, and says whether it may have been sent.
    pub(super) fn end_unwanted(&mut self, now: Timestamp, key: OperationKey, transition: Transition) {
        let Some(entry) = self.table.get_mut(key) else { return };
        entry.apply(transition);
        let maybe_sent = entry.is_in_doubt(transition);
        self.end(now, key, transition, Outcome::Cancelled { maybe_sent });
    }

    /// Records a final transition, answers the ticket, and forgets the operation.
    pub(super) fn end(&mut self, now: Timestamp, key: OperationKey, transition: Transition, outcome: Outcome) {
        self.record(now, key, transition, None);
        if let (Some(Effect::Record(record)), Outcome::Accepted { provider_id, .. }) =
            (self.effects.back_mut(), &outcome)
        {
            record.provider_id.clone_from(provider_id);
        }
        self.leave_table(now, key, outcome);
    }

    /// Tells how it ended, and forgets it.
    pub(super) fn leave_table(&mut self, now: Timestamp, key: OperationKey, outcome: Outcome) {
        let tell_by = self.table.get(key).map_or(now, |entry| entry.deadline);
        self.effects.push_back(Effect::Outcome { key, outcome, tell_by });
        self.table.remove(key);
        if self.table.is_empty() {
            self.budget.shrink(now, Self::rules(&self.policy));
        }
    }

    pub(super) fn record(&mut self, at: Timestamp, key: OperationKey, transition: Transition, next: Option<Timestamp>) {
        let Some(entry) = self.table.get(key) else { return };
        if entry.kind == OperationKind::Permit && transition != Transition::Void {
            return;
        }
        self.push_record(at, key, transition, next);
        self.tell_failed(key, transition);
    }

    /// What became of the charge of a permit that was handed over.
    pub(super) fn record_permit(&mut self, now: Timestamp, key: OperationKey, sent_at: Timestamp, verdict: &Verdict) {
        let transition = match verdict {
            Verdict::Transient { sent: Sent::No, .. } | Verdict::Permanent { of: Subject::Credentials } => {
                Transition::Void
            }
            Verdict::Unknown => Transition::Lose,
            _ => Transition::Accept,
        };
        // As long as it counts here it counts after a restart.
        let at = match verdict {
            Verdict::Unknown => settlement::latest_arrival(sent_at, now, self.policy.guard.request_deadline_max),
            _ => now,
        };
        self.push_record(at, key, transition, None);
    }

    fn push_record(&mut self, at: Timestamp, key: OperationKey, transition: Transition, next: Option<Timestamp>) {
        let leaves = self.leaves.take().unwrap_or(Leaves::after(transition));
        let Some(entry) = self.table.get(key) else { return };
        self.effects.push_back(Effect::Record(Record {
            key,
            transition,
            state: entry.state,
            at,
            next_at: next,
            attempts: entry.attempts(),
            status: entry.status(),
            provider_id: None,
            maybe_sent: entry.state.is_final() && entry.is_in_doubt(transition),
            leaves,
            order: None,
        }));
    }
}
