//! Charging a budget, and what becomes of the charge (the release table).

use std::time::Duration;

use super::{Budget, Rules};
use crate::engine::breaker::LimitUse;
use crate::engine::cost::Cost;
use crate::engine::event::Event;
use crate::engine::invariants::lanes;
use crate::engine::lane::Lane;
use crate::engine::lanes::clamp_of;
use crate::engine::ledger::Counted;
use crate::engine::policy::LanesMode;
use crate::engine::settlement::{self, Charge, Slot};
use crate::engine::time::Timestamp;
use crate::engine::verdict::{Answer, ThrottleKind, Verdict};

/// Between two attempts at the only connection that is left, where the provider says nothing: Outlook's usual hint.
const CONNECT_PAUSE: Duration = Duration::from_secs(1);

/// Whether an answer is about this scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// It feeds this scope's breaker.
    Here,
    /// It only settles the charge.
    Elsewhere,
}

impl Budget {
    /// Charges every window and takes a connection. The caller has asked [`Budget::wait`] at the same instant.
    pub(crate) fn reserve(
        &mut self,
        now: Timestamp,
        lane: Lane,
        cost: &Cost,
        rules: Rules<'_>,
        events: &mut Vec<Event>,
    ) {
        self.make_rows(rules);
        if let Some(wave) = &mut self.wave {
            events.extend(wave.on_start(self.breaker.scope(), now));
            self.wave = self.wave.filter(|wave| !wave.is_over());
        }
        self.in_flight = self.in_flight.saturating_add(1);
        self.concurrency.on_start(lane);
        self.breaker.on_start(now, rules.breaker, &self.limits);
        for (index, row) in self.rows.iter_mut().enumerate() {
            let limit = row.ledger.limit();
            let units = cost.of(limit.unit());
            row.ledger.reserve(now, lane, units);
            if lane == Lane::Background && units > 0 {
                let (amount, mut other) = (self.breaker.amount(now, index, limit.amount()), None);
                let by = *row.terms(amount, rules, &mut other);
                row.share.grant(now, units, &by);
            }
        }
    }

    /// L2, L6 and L7, right after an ordinary background grant of a debug build.
    pub(crate) fn assert_reserve(&self, now: Timestamp, cost: &Cost, rules: Rules<'_>) {
        for (index, row) in self.rows.iter().enumerate() {
            let limit = row.ledger.limit();
            let (units, amount) = (cost.of(limit.unit()), self.amount(now, index));
            let reserve = row.share.reserve(now, amount, &limit, rules.lanes);
            let mut kept = match rules.lanes.mode {
                LanesMode::HardCap => Ok(()),
                LanesMode::ReservedWindow => {
                    let (least, most) = clamp_of(amount, rules.lanes);
                    lanes::reserve_is_clamped(reserve, least, most)
                }
            };
            if units > 0 {
                kept = kept.and(lanes::reserve_is_kept(amount, row.ledger.used(now), reserve, units));
                if let Some(share) = row.share.share_amount(now, amount, &limit, rules.lanes) {
                    kept = kept.and(lanes::share_is_kept(row.ledger.used_by(Lane::Background, now), share, units));
                }
            }
            if let Err(violation) = kept {
                debug_assert!(false, "{violation}");
            }
        }
    }

    /// Nothing was sent of what was charged at `since`: everything comes back.
    pub(crate) fn release(&mut self, now: Timestamp, since: Timestamp, lane: Lane, cost: &Cost, rules: Rules<'_>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.concurrency.on_finish(lane);
        self.breaker.on_never_sent(now, since);
        for index in 0..self.rows.len() {
            self.give_back(now, lane, cost, index, rules);
        }
    }

    /// An attempt ended that was granted and sent at these two instants. The breaker judges it by the first: what was granted
    /// before a cooldown knew nothing of it, however late it left. What it counts goes by the second.
    #[expect(clippy::too_many_arguments, reason = "one call settles every part of one attempt")]
    pub(crate) fn settle(
        &mut self,
        now: Timestamp,
        lane: Lane,
        cost: &Cost,
        (granted_at, sent_at): (Timestamp, Timestamp),
        answer: &Answer,
        blame: Blame,
        rules: Rules<'_>,
        waiting: u32,
        events: &mut Vec<Event>,
    ) {
        let at = self.scope().kind();
        let settlement = settlement::settle(answer, at, sent_at, now, rules.guard.request_deadline_max);
        let counted = match answer.verdict {
            Verdict::Accepted => Counted::Accepted,
            _ => Counted::Refused,
        };
        // Asked first: without a declared limit the breaker learns C from what is in flight.
        match blame {
            Blame::Here => self.learn(now, granted_at, answer, rules, waiting, events),
            Blame::Elsewhere => self.breaker.on_elsewhere(now, granted_at),
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        match settlement.slot {
            Slot::Free => self.concurrency.on_finish(lane),
            Slot::Linger(until) => self.concurrency.on_linger(lane, now, until),
        }
        for index in 0..self.rows.len() {
            let unit = self.limits[index].unit();
            match settlement.of(unit) {
                Charge::Release => self.give_back(now, lane, cost, index, rules),
                Charge::CountUntil(until) => {
                    self.rows[index].ledger.complete(now, lane, cost.of(unit), sent_at, until, counted);
                }
            }
        }
    }

    /// What an answer teaches the breaker of this scope, whether or not a charge stands behind it.
    pub(crate) fn learn(
        &mut self,
        now: Timestamp,
        sent_at: Timestamp,
        answer: &Answer,
        rules: Rules<'_>,
        waiting: u32,
        events: &mut Vec<Event>,
    ) {
        if let Verdict::Throttled(throttle) = &answer.verdict
            && throttle.kind == ThrottleKind::Concurrency
        {
            // With nothing left to lower, the only slower way is to wait.
            let alone = self.concurrency.limit() == Some(1);
            let least = if alone { CONNECT_PAUSE } else { Duration::ZERO };
            let pause = throttle.retry_after.unwrap_or_default().clamp(least, rules.breaker.retry_after_max.max(least));
            self.connect_at = self.connect_at.max(now.after(pause));
            self.concurrency.on_concurrency_throttle(now, sent_at, rules.breaker);
        }
        let rows = &self.rows;
        let uses = || {
            let one = |row: &super::Row| LimitUse {
                limit: row.ledger.limit(),
                used: row.ledger.used(now),
                accepted: row.ledger.accepted(now),
            };
            rows.iter().map(one).collect()
        };
        self.breaker.on_answer(now, sent_at, answer, uses, rules.breaker, waiting, events);
    }

    /// The same of an attempt that was sent while nobody had to ask here.
    pub(crate) fn overhear(
        &mut self,
        now: Timestamp,
        sent_at: Timestamp,
        answer: &Answer,
        rules: Rules<'_>,
        waiting: u32,
        events: &mut Vec<Event>,
    ) {
        self.breaker.on_hearsay(now);
        self.learn(now, sent_at, answer, rules, waiting, events);
    }

    /// An attempt that had been given up was answered after all: its connection is free. Its charge stays.
    pub(crate) fn late_answer(&mut self, lane: Lane) {
        self.concurrency.on_late_answer(lane);
    }

    fn give_back(&mut self, now: Timestamp, lane: Lane, cost: &Cost, index: usize, rules: Rules<'_>) {
        let limit = self.limits[index];
        let units = cost.of(limit.unit());
        let amount = self.breaker.amount(now, index, limit.amount());
        let row = &mut self.rows[index];
        row.ledger.release(now, lane, units);
        if lane == Lane::Background && units > 0 {
            let by = *row.terms(amount, rules, &mut None);
            row.share.undo(now, units, &by);
        }
    }
}
