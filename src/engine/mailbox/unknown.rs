//! What becomes of an operation that may have been accepted.
//!
//! It is looked up, and a look-up can lie in one direction: an email that was taken shows only after a while. So
//! "found" is believed at once, and "absent" only if it was asked for after the provider's visibility delay, and twice,
//! the two so far apart that no request of the lost attempt can still have been on its way at the first.
//!
//! Where duplicates are allowed and the provider drops them for a while, it may also be sent again blindly, as long as
//! the provider is sure to remember (the horizon rule, O9). That is judged when it is decided, and again when its turn
//! has come: it may have waited in its lane until the provider has forgotten. Then it is unknown once more, and only a
//! look-up or a person moves it on.

use super::entry::{Entry, Shared, Step, Wish};
use super::{Effect, Mailbox, Outcome, PastAttempt};
use crate::engine::invariants::operation::repeat_is_deduplicated;
use crate::engine::operation::{ExhaustCause, KeyMap, OperationKey, OperationState, QuarantineCause, Transition};
use crate::engine::policy::{DuplicatePolicy, LOOK_UPS, clock_slack, look_up_gap};
use crate::engine::retry::backoff;
use crate::engine::time::Timestamp;

/// "Absent" has to be heard this often before it is believed (algorithms 5, transition 10).
const ABSENT_MIN: u8 = 2;

/// In place of the number of look-ups: the one at the limit was made, and nothing but its answer is waited for.
const LAST_LOOK: u8 = u8::MAX;

impl Step {
    /// An unknown that was not looked up yet.
    pub(super) const fn unknown(since: Timestamp) -> Self {
        Self::Unknown { since, due_at: Timestamp::NEVER, looks: 0, absent: 0 }
    }
}

impl Mailbox {
    /// It may have been accepted. The ticket says so at once and the look-ups begin, unless it may go again.
    pub(super) fn lost(&mut self, now: Timestamp, key: OperationKey) {
        let again_at = self.blind_repeat_at(now, key);
        let Some(entry) = self.table.get_mut(key) else { return };
        entry.apply(Transition::Lose);
        let Some(at) = again_at else { return self.doubt(now, key) };
        self.record(now, key, Transition::Lose, Some(at));
        self.send_again(now, key, at);
    }

    /// The look-ups of an operation that has just become unknown begin, unless its deadline has passed by then and
    /// nothing may follow.
    pub(super) fn doubt(&mut self, now: Timestamp, key: OperationKey) {
        let is_late = self.table.get(key).is_some_and(|entry| entry.deadline <= now && self.ends_unknown(entry));
        if !is_late {
            self.effects.push_back(Effect::Outcome { key, outcome: Outcome::Unknown, tell_by: now });
        }
        if let Some(more) = self.table.get_mut(key).and_then(|entry| entry.if_more_mut()) {
            more.asked_at = None;
        }
        self.await_look_up(key, Step::unknown(now), now);
        let next = self.table.get(key).and_then(|entry| entry.step.due_at());
        self.record(now, key, Transition::Lose, next);
        if self.table.get(key).is_some_and(|entry| entry.wish == Wish::Quarantine) {
            self.set_aside(now, key, QuarantineCause::Operator);
        }
        if is_late {
            self.deadline_passed(now, key);
        }
    }

    /// Whether its deadline ends an unknown: nothing may follow, since duplicates are forbidden or it was to be cancelled.
    fn ends_unknown(&self, entry: &Entry) -> bool {
        match entry.wish {
            Wish::Cancel => true,
            Wish::Quarantine => false,
            Wish::Nothing => self.policy.retry.duplicates == DuplicatePolicy::AtMostOnce,
        }
    }

    /// Arms the next look-up, the last one at the limit, or the instant at which the unknown is given up; none before
    /// `earliest`.
    pub(super) fn await_look_up(&mut self, key: OperationKey, mut step: Step, earliest: Timestamp) {
        let Step::Unknown { since, looks, .. } = step else { return };
        let last_look = since.after(self.policy.retry.unknown_max);
        let delay = self.policy.provider.visibility_delay;
        let next = match LOOK_UPS.get(usize::from(looks)) {
            Some(after) => since.after(delay.max(*after)).min(last_look),
            None => last_look,
        };
        step.set_due(next.max(earliest));
        self.table.delay(key, step);
    }

    /// An unknown's instant has come: look it up once more, or give it up.
    pub(super) fn look_up(&mut self, now: Timestamp, key: OperationKey) {
        let Some(entry) = self.table.get_mut(key) else { return };
        let Step::Unknown { since, due_at, looks, absent } = entry.step else { return };
        if looks == LAST_LOOK {
            return self.set_aside(now, key, QuarantineCause::Unknown);
        }
        // What shows late is still seen: once more at the limit, and only then it is given up.
        let is_last = now >= since.after(self.policy.retry.unknown_max);
        let looks = if is_last { LAST_LOOK } else { looks.saturating_add(1) };
        entry.more_mut().asked_at = Some(now);
        self.effects.push_back(Effect::Reconcile { key });
        // After a downtime several instants of the schedule may have passed: two answers of one moment are one, and
        // the answer to this look-up has to be able to come before the unknown is given up.
        let gap = look_up_gap(&self.policy.guard);
        let step = Step::Unknown { since, due_at, looks, absent };
        self.await_look_up(key, step, now.after(gap));
    }

    /// What became of an unknown.
    pub(super) fn resolved(&mut self, now: Timestamp, key: OperationKey, accepted: bool) {
        let visibility_delay = self.policy.provider.visibility_delay;
        let Some(entry) = self.table.get_mut(key) else { return };
        let Step::Unknown { since, due_at, looks, absent } = entry.step else { return };
        if accepted {
            return self.accepted(now, key, Transition::Find, None);
        }
        // One answer per look-up, and none to a look that came too early to see it.
        let asked_at = entry.if_more_mut().and_then(|more| more.asked_at.take());
        let counts = asked_at.is_some_and(|asked_at| asked_at >= since.after(visibility_delay));
        let absent = absent.saturating_add(u8::from(counts));
        entry.step = Step::Unknown { since, due_at, looks, absent };
        let may_repeat = self.policy.retry.duplicates == DuplicatePolicy::AtLeastOnce;
        if may_repeat && absent >= ABSENT_MIN {
            self.table.unqueue(key);
            self.repeat(now, key);
        }
    }

    /// Known absent: it may be sent again, with the same key and the same bytes.
    pub(super) fn repeat(&mut self, now: Timestamp, key: OperationKey) {
        let policy = &self.policy.retry;
        let Some(entry) = self.table.get_mut(key) else { return };
        if let Some(more) = entry.if_more_mut() {
            (more.maybe_sent_at, more.was_in_doubt) = (None, false);
        }
        let attempts = Transition::Repeat.attempts_after(entry.attempts());
        // A person may say so while an earlier life's attempt is still on its way: two at once are one too many (O2).
        let live_until = entry.more().live_until.unwrap_or(now);
        let at = now.after(backoff(policy, entry.id_hash, attempts)).max(live_until);
        let cause = match attempts >= policy.attempts_max.get() {
            true => Some(ExhaustCause::Attempts),
            false => (at >= entry.deadline).then_some(ExhaustCause::Deadline),
        };
        if let Some(cause) = cause.filter(|_| entry.wish == Wish::Nothing) {
            self.exhaust_because(now, key, Transition::Expire, cause);
            return;
        }
        self.send_again(now, key, at);
    }

    fn send_again(&mut self, now: Timestamp, key: OperationKey, at: Timestamp) {
        if let Some(entry) = self.table.get_mut(key) {
            entry.apply(Transition::Repeat);
        }
        self.record(now, key, Transition::Repeat, Some(at));
        self.again(now, key, Some(at));
    }

    /// When an operation whose attempt was just lost may be sent again although nobody can say what became of it.
    fn blind_repeat_at(&self, now: Timestamp, key: OperationKey) -> Option<Timestamp> {
        let retry = &self.policy.retry;
        let entry = self.table.get(key).filter(|entry| entry.wish == Wish::Nothing)?;
        let Step::Attempting { sent_at, .. } = entry.step else { return None };
        let attempts = Transition::Repeat.attempts_after(entry.attempts());
        // Until its deadline the lost attempt is live, and two at once are one too many (O2).
        let over_at = sent_at.after(self.policy.guard.request_deadline_max);
        let at = now.after(backoff(retry, entry.id_hash, attempts)).max(over_at);
        let left = attempts < retry.attempts_max.get() && at < entry.deadline;
        (left && self.may_repeat_blindly(key, at)).then_some(at)
    }

    /// The horizon rule at `at`: the provider is sure to remember whatever earlier attempt it may have taken.
    fn may_repeat_blindly(&self, key: OperationKey, at: Timestamp) -> bool {
        let (retry, guard) = (&self.policy.retry, &self.policy.guard);
        let Some(first) = self.table.get(key).and_then(|entry| entry.more().maybe_sent_at) else { return true };
        let window = self.policy.provider.dedupe_window;
        let margins = (guard.request_deadline_max, clock_slack(guard, window));
        retry.duplicates == DuplicatePolicy::AtLeastOnce
            && at.since(first) <= retry.horizon
            && repeat_is_deduplicated(key, (first, at), margins, window).is_ok()
    }

    /// Whether the turn of an operation that may have been accepted before came too late for a blind repeat.
    pub(super) fn is_forgotten(&self, now: Timestamp, key: OperationKey) -> bool {
        !self.may_repeat_blindly(key, now)
    }

    /// Its turn came too late: nothing is sent, and what was charged comes back. It is unknown, as before its repeat.
    pub(super) fn forgotten(&mut self, now: Timestamp, key: OperationKey, shared: Shared) {
        self.unclaim(now, key, shared);
        if let Some(entry) = self.table.get_mut(key) {
            entry.apply(Transition::Lose);
        }
        self.doubt(now, key);
    }

    /// What the log says of the attempts of each operation, under a policy of blind repeats.
    pub(super) fn tried(&self, attempts: &[PastAttempt]) -> KeyMap<Tried> {
        let mut tried = KeyMap::<Tried>::default();
        if self.repeats_blindly() {
            for attempt in attempts {
                tried.entry(attempt.key).or_default().add(attempt);
            }
        }
        tried
    }

    /// An operation that an earlier life left waiting, under a policy of blind repeats: an attempt of which no end is
    /// known may be the one it repeats. Refusals are no such attempts, and only they use none up. Where the log is no
    /// longer whole, its submission is the earliest that an attempt can have been sent.
    pub(super) fn assume_sent(&mut self, now: Timestamp, key: OperationKey, tried: Option<&Tried>) {
        let blind = self.repeats_blindly();
        let Some(entry) = self.table.get_mut(key) else { return };
        let waits = matches!(entry.state, OperationState::Queued | OperationState::Deferred);
        if !blind || !waits || entry.rows == 0 {
            return;
        }
        let Tried { rows, open, first_open } = tried.copied().unwrap_or_default();
        let is_whole = rows >= entry.rows || open >= entry.attempts();
        let first = if is_whole { first_open.map(|at| at.min(now)) } else { Some(entry.submitted_at) };
        if let Some(first) = first {
            entry.more_mut().maybe_sent_at = Some(first);
        }
    }

    /// An operation that an earlier life left attempting or unknown may have been accepted, since its submission at the
    /// earliest.
    pub(super) fn presume_sent(&mut self, key: OperationKey) {
        if let Some(entry) = self.table.get_mut(key) {
            let submitted_at = entry.submitted_at;
            entry.more_mut().maybe_sent_at.get_or_insert(submitted_at);
        }
    }

    fn repeats_blindly(&self) -> bool {
        self.policy.retry.duplicates == DuplicatePolicy::AtLeastOnce && !self.policy.retry.horizon.is_zero()
    }
}

/// What the log has of one operation's attempts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tried {
    rows: u32,
    /// Those that were lost, or are not known to have ended.
    open: u32,
    first_open: Option<Timestamp>,
}

impl Tried {
    fn add(&mut self, attempt: &PastAttempt) {
        self.rows = self.rows.saturating_add(1);
        if attempt.finished_at.is_none() {
            self.open = self.open.saturating_add(1);
            let earlier = self.first_open.unwrap_or(Timestamp::NEVER);
            self.first_open = Some(attempt.claimed_at.min(earlier));
        }
    }
}
