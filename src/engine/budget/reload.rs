//! New limits over an old record.

use std::cmp::Reverse;

use super::{Budget, Row, Rules, Steady};
use crate::engine::cost::Cost;
use crate::engine::lane::Lane;
use crate::engine::limit::Limit;
use crate::engine::policy::ScopePolicy;
use crate::engine::time::Timestamp;

impl Budget {
    /// New limits. What was counted stays counted: each new limit takes over the record of the same unit and window, or
    /// else that of the next longer window of its unit, which counts at least as much; of the longest where none is longer.
    /// Of a record that a window in force keeps it takes only what its own length covers.
    ///
    /// `live` is what is in flight here, by lane: a limit of a new unit counts it. What ended earlier is not known to it, nor
    /// is what a limit that was removed and comes back had counted.
    pub(crate) fn reconfigure(
        &mut self,
        now: Timestamp,
        policy: &ScopePolicy,
        live: &[(Lane, Cost)],
        rules: Rules<'_>,
    ) {
        self.concurrency.set_limit(policy.concurrency);
        if *self.limits != *policy.limits {
            self.breaker.forget_limits();
        }
        if self.rows.is_empty() {
            self.limits = policy.limits.clone().into_boxed_slice();
            if !live.is_empty() {
                self.make_rows(rules);
                self.rows.iter_mut().for_each(|row| row.adopt(now, live));
            }
            return;
        }
        let old = std::mem::take(&mut self.rows);
        for limit in &policy.limits {
            let of_unit = || old.iter().filter(|row| row.ledger.limit().unit() == limit.unit());
            let window = |row: &Row| row.ledger.limit().window();
            // Of several with one window, itself; or else the one whose bucket, if it has one, drains slowest.
            let unlike = |row: &Row| (row.ledger.limit() != *limit, row.ledger.limit().amount());
            let longer = of_unit().filter(|row| window(row) >= limit.window());
            let longer = longer.min_by_key(|row| (window(row), unlike(row)));
            let mut row = match longer.or_else(|| of_unit().max_by_key(|row| (window(row), Reverse(unlike(row))))) {
                None => Row::new(*limit, rules, self.known_since).with(now, live),
                Some(before) => before.clone(),
            };
            let (before, span) = (row.ledger.limit(), row.ledger.span());
            let stays = |other: &Limit| other.unit() == before.unit() && other.window() == before.window();
            row.ledger.set_limit(now, *limit, rules.guard);
            if before.window() > limit.window() && policy.limits.iter().any(stays) {
                row.ledger.shorten(now, span);
            }
            (row.terms, row.steady) = (rules.terms(limit, limit.amount()), Steady::UNKNOWN);
            self.rows.push(row);
        }
        self.limits = policy.limits.clone().into_boxed_slice();
    }

    /// An attempt that went through here before the scope had a budget, and is in flight.
    pub(crate) fn adopt(&mut self, now: Timestamp, lane: Lane, cost: &Cost, rules: Rules<'_>) {
        self.make_rows(rules);
        self.in_flight = self.in_flight.saturating_add(1);
        self.concurrency.on_start(lane);
        self.rows.iter_mut().for_each(|row| row.adopt(now, &[(lane, *cost)]));
    }
}

impl Row {
    /// The same with what is in flight.
    fn with(mut self, now: Timestamp, live: &[(Lane, Cost)]) -> Self {
        self.adopt(now, live);
        self
    }

    /// Charges what is in flight and was not charged here.
    fn adopt(&mut self, now: Timestamp, live: &[(Lane, Cost)]) {
        let unit = self.ledger.limit().unit();
        for (lane, cost) in live {
            let units = cost.of(unit);
            self.ledger.reserve(now, *lane, units);
            if *lane == Lane::Background && units > 0 {
                self.share.grant(now, units, &self.terms);
            }
        }
    }
}
