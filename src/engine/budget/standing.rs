//! For how long an answer stands if nothing happens.

use super::{Budget, Row};
use crate::engine::constraint::{Certainty, Constraint, Wall};
use crate::engine::cost::Cost;
use crate::engine::lane::Lane;
use crate::engine::time::Timestamp;

/// The constraints of one answer, as far as its standing is concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// An instant of them is named as so long from now: the completion that it waits for has none.
    certainty: Certainty,
    soonest: Timestamp,
    /// When the last window that is full now has room.
    pub(super) full_until: Timestamp,
}

impl Seen {
    pub(super) const NONE: Self =
        Self { certainty: Certainty::Exact, soonest: Timestamp::NEVER, full_until: Timestamp::EPOCH };

    #[inline]
    pub(super) fn add(&mut self, constraint: &Constraint) {
        self.soonest = self.soonest.min(constraint.ready_at);
        if constraint.certainty == Certainty::AtMost {
            // A completion may be what it waits for.
            (self.certainty, self.full_until) = (Certainty::AtMost, Timestamp::NEVER);
        } else if !matches!(constraint.wall, Wall::Pace { .. }) {
            self.full_until = self.full_until.max(constraint.ready_at);
        }
    }
}

impl Budget {
    /// Works out what the lanes follow foreground by, where that is not known any more and a background send of this
    /// cost depends on it.
    pub(crate) fn look_ahead(&mut self, now: Timestamp, cost: &Cost) {
        for row in &mut self.rows {
            let units = row.takes(cost);
            if units > 0 && !row.steady.holds_at(now) && !row.is_open(now, units) {
                row.steady = row.share.steady(now, &row.terms);
            }
        }
    }

    /// Foreground could not go at once because of these windows, one bit each.
    pub(crate) fn mark_contended(&mut self, now: Timestamp, windows: u64) {
        for (index, row) in self.rows.iter_mut().enumerate() {
            if windows >> index & 1 == 1 {
                row.share.on_foreground_backlog(now);
            }
        }
    }

    /// The first instant at which an answer may be another one although nothing has happened; at one instant it is the
    /// same whatever binds. Foreground's tells which windows are full, so it ends with the first of them; background's
    /// ends with what binds it.
    pub(super) fn stands_until(
        &self,
        now: Timestamp,
        (lane, cost): (Lane, &Cost),
        seen: &Seen,
        close: u64,
        binding: Timestamp,
    ) -> Timestamp {
        let this_instant = Timestamp::from_micros(now.as_micros().saturating_add(1));
        if seen.certainty == Certainty::AtMost || !self.is_plain() {
            return this_instant;
        }
        let until = match lane {
            Lane::Foreground => seen.soonest,
            Lane::Background => {
                let known = |(index, row): (usize, &Row)| match close >> index & 1 {
                    // What is open stays open: uses end, debts are paid, reserves fall and, for so long, bursts grow.
                    0 if row.takes(cost) > 0 => row.steady.grows_until(),
                    0 => Timestamp::NEVER,
                    _ if row.steady.holds_at(now) => row.steady.until(),
                    _ => this_instant,
                };
                self.rows.iter().enumerate().map(known).fold(binding, Ord::min)
            }
        };
        until.max(this_instant)
    }

    /// Whether windows and pace are all that there is, and none has a bucket.
    fn is_plain(&self) -> bool {
        self.is_calm()
            && !self.concurrency.has_deadlines()
            && self.tenure.is_none()
            && self.rows.len() <= u64::BITS as usize
            && self.rows.iter().all(|row| !row.ledger.limit().has_bucket())
    }

    /// Whether an attempt of this cost that ends well only moves its charges from in flight to counting down: there is
    /// nothing but windows, and each has it in flight. One that was claimed under other limits may not be in all.
    pub(crate) fn has_charged(&self, lane: Lane, cost: &Cost) -> bool {
        self.is_plain() && self.rows.iter().all(|row| row.ledger.in_flight_of(lane) >= row.takes(cost))
    }

    /// Whether charges of this cost that were completed at `now` give their room back at `full_until` or later, and
    /// nothing else has come of them.
    pub(crate) fn counts_on(&self, now: Timestamp, cost: &Cost, full_until: Timestamp) -> bool {
        let counts_on = |row: &Row| row.takes(cost) == 0 || row.ledger.counts_on(now, full_until);
        full_until != Timestamp::NEVER && self.is_plain() && self.rows.iter().all(counts_on)
    }
}

impl Row {
    /// Whether so much fits at once without a closer look, whoever asks, as the window stands and whatever foreground's
    /// need has fallen to since it was last worked out. No for an answer means nothing.
    #[inline]
    pub(super) fn is_open(&self, now: Timestamp, units: u64) -> bool {
        let taken = self.ledger.at_most().saturating_add(units);
        taken <= self.terms.room_at_least()
            && !self.ledger.limit().has_bucket()
            && self.share.is_ahead(now, units, &self.steady)
            && self.share.shared(now, &self.terms).is_none_or(|share| taken <= share)
    }

    /// The same for foreground, which only the window binds.
    #[inline]
    pub(super) fn has_room(&self, units: u64) -> bool {
        self.ledger.at_most().saturating_add(units) <= self.terms.amount && !self.ledger.limit().has_bucket()
    }

    /// What a cost takes here.
    #[inline]
    pub(super) fn takes(&self, cost: &Cost) -> u64 {
        cost.of(self.ledger.limit().unit())
    }
}
