//! What has become of a campaign so far, and what becomes of the rest at the same rate.

use std::time::Duration;

use super::{Bound, STEPS_MAX};
use crate::engine::constraint::Constraint;
use crate::engine::time::{Timestamp, micros};

pub(super) struct Tally {
    /// What of the campaign is to be sent.
    pub(super) unsent: u64,
    /// What of it is to be accepted.
    pub(super) left: u64,
    /// What of it was sent too late, or not yet.
    past: u64,
    /// Everything that was sent, whose ever it is.
    pub(super) sent: u64,
    pub(super) first_send: Option<Timestamp>,
    /// The latest acceptance.
    last: Timestamp,
    /// An acceptance near half of the steps, and how many were left then.
    half: Option<(Timestamp, u64)>,
    bounds: Vec<Bound>,
}

impl Tally {
    pub(super) fn new(count: u64, start: Timestamp) -> Self {
        let (first_send, half, bounds) = (None, None, Vec::new());
        Self { unsent: count, left: count, past: count, sent: 0, first_send, last: start, half, bounds }
    }

    /// One of the campaign is sent.
    pub(super) fn send(&mut self, now: Timestamp, deadline: Timestamp) {
        self.first_send.get_or_insert(now);
        if now < deadline {
            self.past -= 1;
        }
    }

    /// One of the campaign is accepted.
    pub(super) fn accept(&mut self, now: Timestamp) {
        self.left = self.left.saturating_sub(1);
        self.last = now;
        if self.sent >= STEPS_MAX / 2 && self.half.is_none() {
            self.half = Some((now, self.left));
        }
    }

    /// Whether the rest is to be taken at the rate of the last half.
    pub(super) fn is_enough(&self) -> bool {
        self.sent >= STEPS_MAX && self.half.is_some_and(|(_, then)| self.left < then)
    }

    /// Time passes, and whatever binds a mailbox now has bound for so long.
    pub(super) fn pass(&mut self, from: Timestamp, next: Timestamp, binding: impl Iterator<Item = Constraint>) {
        let span = next.since(from);
        if span.is_zero() {
            return;
        }
        for Constraint { wall, scope, .. } in binding {
            match self.bounds.iter_mut().find(|bound| bound.wall == wall && bound.scope == scope) {
                Some(bound) if bound.until == next => {} // another mailbox waits for the same
                Some(bound) => (bound.total, bound.until) = (bound.total + span, next),
                None => self.bounds.push(Bound { wall, scope, total: span, from, until: next }),
            }
        }
    }

    /// What was waited for, longest first.
    pub(super) fn bounds(&self) -> Vec<Bound> {
        let mut bounds = self.bounds.clone();
        bounds.sort_by_key(|bound| (std::cmp::Reverse(bound.total), bound.from));
        bounds
    }

    /// When the last one is accepted; those that are still to come are taken at the rate of the last half.
    pub(super) fn finish(&self) -> Timestamp {
        let Some((since, then)) = self.half.filter(|_| self.left > 0) else { return self.last };
        let done = then.saturating_sub(self.left).max(1);
        self.last.after(Duration::from_micros(part(micros(self.last.since(since)), self.left, done)))
    }

    /// How many are not sent before their deadline. Of those that were not stepped through a part is, at their rate.
    pub(super) fn past(&self, deadline: Timestamp, finish: Option<Timestamp>) -> u64 {
        let span = finish.map_or(0, |finish| micros(finish.since(self.last)));
        let until = micros(deadline.since(self.last)).min(span);
        self.past - part(self.unsent, until, span.max(1))
    }

    /// What each mailbox sends, when it has sent this of what was stepped through and the rest goes on like that.
    pub(super) fn with_rest(&self, stepped: &[u64]) -> Vec<u64> {
        let total: u64 = stepped.iter().sum();
        let mut counts: Vec<u64> =
            stepped.iter().map(|count| count + part(self.unsent, *count, total.max(1))).collect();
        let told: u64 = counts.iter().sum();
        if let Some(first) = counts.first_mut() {
            *first += (total + self.unsent).saturating_sub(told);
        }
        counts
    }
}

/// `of × numerator / denominator`, rounded down.
fn part(of: u64, numerator: u64, denominator: u64) -> u64 {
    let part = u128::from(of) * u128::from(numerator) / u128::from(denominator);
    u64::try_from(part).unwrap_or(u64::MAX)
}
