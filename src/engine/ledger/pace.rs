//! The token bucket beside the window, for `bucket` and `paranoid`.
//!
//! A bucket that charges at the send instant is right only while arrivals keep the distance that the sends had: one
//! request held up for 30 s arrives together with later ones. So this bucket, like the window, charges at the
//! *completion*, and what is in flight fills it meanwhile: a send of cost c may go iff `level + in flight + c ≤ depth`,
//! where the level drains at the limit's rate.
//!
//! Why that is safe for every latency. Let an interval `[x, y]` of arrivals cost A, and let j be the one of them that
//! was sent last, at s. At s each of the others was in flight or had completed at or after x, since none arrived
//! before x. So `level(s) + in flight ≥ A − c_j − r·max(0, s − x)`, and the check at s gives
//! `A ≤ depth + r·(y − x)`: what a bucket of that depth takes. No jitter has to be known, and no depth is given up.
//!
//! `paranoid` runs it at `(N − D)/W` with depth D. For such arrivals a sliding-window counter never reads above N:
//! with `cur ≤ D + rWf` and `prev + cur ≤ D + rW(1+f)` it reads
//! `(1−f)(prev + cur) + f·cur ≤ (1−f)(D + rW(1+f)) + f(D + rWf) = D + rW = N`. Sends are also spaced evenly, for
//! providers with tiny burst limits.
//!
//! Instants are kept in microseconds times the rate's units, so a rate that does not divide never drifts.

use crate::engine::limit::{Limit, WindowKind};

/// Charges kept apart until their instant comes; the earliest beyond that is charged ahead, which over-counts.
const DUE_MAX: usize = 32;

/// The rate and depth of a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    /// So much drains ...
    units: u64,
    /// ... in so many microseconds.
    per: u64,
    depth: u64,
    spacing: Spacing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spacing {
    Free,
    Even,
}

impl Rate {
    /// The bucket that `limit` asks for, draining its amount in `span` microseconds; `None` if it asks for none.
    pub(super) fn of(limit: &Limit, span: u64) -> Option<Self> {
        let amount = limit.amount();
        match limit.kind() {
            WindowKind::Unknown | WindowKind::Rolling | WindowKind::Fixed => None,
            WindowKind::Bucket { depth } => {
                let depth = depth.get().min(amount);
                Some(Self { units: amount, per: span, depth, spacing: Spacing::Free })
            }
            WindowKind::Paranoid => {
                // 2 of 30, and the same share of larger amounts: the depth has to hold one whole cost and what is
                // in flight at that rate. `Limit` refuses amounts of 2 and less.
                let depth = amount.div_ceil(15).max(2);
                let units = amount.saturating_sub(depth).max(1);
                Some(Self { units, per: span, depth, spacing: Spacing::Even })
            }
        }
    }

    pub(super) fn depth(self) -> u64 {
        self.depth
    }

    fn scaled(self, micros: u64) -> u128 {
        u128::from(micros) * u128::from(self.units)
    }

    fn price(self, cost: u64) -> u128 {
        u128::from(cost) * u128::from(self.per)
    }

    /// The first microsecond that is not before `scaled`.
    fn micros(self, scaled: u128) -> u64 {
        u64::try_from(scaled.div_ceil(u128::from(self.units))).unwrap_or(u64::MAX)
    }
}

/// A charge whose instant is still to come.
#[derive(Clone, Copy, Debug)]
struct Due {
    at: u64,
    cost: u64,
}

/// The state of one bucket. The default is an empty one: everything may go.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    /// Scaled instant at which the level reaches zero.
    drained: u128,
    /// Charges of unknown outcome, keyed on an instant in the future; sorted. They fill the bucket undrained.
    due: Vec<Due>,
    /// Scaled instant before which evenly spaced sends do not go.
    next: u128,
    /// `next` as it was before the only reservation in flight.
    undo: Option<u128>,
}

impl Pace {
    pub(super) fn is_idle(&self, rate: Rate, now: u64) -> bool {
        let now = rate.scaled(now);
        self.due.is_empty() && self.drained <= now && self.next <= now
    }

    /// Spaces the next send; `in_flight` is what was in flight before this reservation.
    pub(super) fn reserve(&mut self, rate: Rate, now: u64, cost: u64, in_flight: u64) {
        if rate.spacing == Spacing::Even {
            self.undo = (in_flight == 0).then_some(self.next);
            self.next = self.next.max(rate.scaled(now)).saturating_add(rate.price(cost));
        }
    }

    /// Takes a reservation's spacing back, but only when it was alone: else the one that did go may be later.
    pub(super) fn release(&mut self) {
        if let Some(next) = self.undo.take() {
            self.next = next;
        }
    }

    /// Charges `cost` at `at`, or once `at` has come.
    pub(super) fn complete(&mut self, rate: Rate, at: u64, cost: u64) {
        self.undo = None;
        let place = self.due.partition_point(|due| due.at < at);
        match self.due.get_mut(place).filter(|due| due.at == at) {
            Some(due) => due.cost = due.cost.saturating_add(cost),
            None => self.due.insert(place, Due { at, cost }),
        }
        if self.due.len() > DUE_MAX {
            let due = self.due.remove(0);
            self.drained = charged(rate, self.drained, due);
        }
    }

    /// Charges what has come due.
    pub(super) fn settle(&mut self, rate: Rate, now: u64) {
        let come = self.due.partition_point(|due| due.at <= now);
        for due in self.due.drain(..come) {
            self.drained = charged(rate, self.drained, due);
        }
    }

    /// The first instant, at or after `now`, at which `cost` may go while `in_flight` stays in flight; `None` if it
    /// cannot until some of that completes.
    pub(super) fn earliest(&self, rate: Rate, now: u64, cost: u64, in_flight: u64) -> Option<u64> {
        let room = rate.price(rate.depth.checked_sub(in_flight)?.checked_sub(cost)?);
        let mut drained = self.drained;
        let mut waiting = self.due.iter().fold(0, |sum: u128, due| sum.saturating_add(rate.price(due.cost)));
        let mut due = self.due.iter();
        loop {
            let next = due.next();
            if waiting <= room {
                // level + waiting ≤ room, where the level is what `drained` is ahead of the instant.
                let at = rate.micros(drained.saturating_add(waiting).saturating_sub(room)).max(now);
                if next.is_none_or(|due| at <= due.at) {
                    return Some(at.max(rate.micros(self.next)));
                }
            }
            let next = next?; // after the last nothing waits, and the answer was given above
            drained = charged(rate, drained, *next);
            waiting = waiting.saturating_sub(rate.price(next.cost));
        }
    }

    /// An instant by which everything has drained if all that is in flight ends by `ends_at`.
    pub(super) fn drained_by(&self, rate: Rate, ends_at: u64, in_flight: u64) -> u64 {
        let drained = self.due.iter().fold(self.drained, |drained, due| charged(rate, drained, *due));
        let drained = charged(rate, drained, Due { at: ends_at, cost: in_flight });
        rate.micros(drained.max(self.next))
    }

    /// The same state under another rate, rounded so that nothing comes sooner.
    pub(super) fn converted(self, from: Rate, to: Rate, now: u64) -> Self {
        let level = self.drained.saturating_sub(from.scaled(now)).div_ceil(u128::from(from.per.max(1)));
        let level = u64::try_from(level).unwrap_or(u64::MAX);
        let drained = to.scaled(now).saturating_add(to.price(level));
        let next = to.scaled(from.micros(self.next));
        Self { drained, due: self.due, next, undo: None }
    }
}

/// `drained` after one more charge. Charges out of order over-count: an older one is charged on top of all.
fn charged(rate: Rate, drained: u128, due: Due) -> u128 {
    drained.max(rate.scaled(due.at)).saturating_add(rate.price(due.cost))
}
