//! The budget of one scope: its windows, its connections, its breaker; one decision over all of them.
//!
//! A mailbox has one, the application has one, and each tenant has one. Admission asks every constraint and takes
//! the **latest**; the same walk answers `explain`, so what people are told is what was decided. The breaker lives
//! here, beside the windows, because a 429 and the next admission must not race: whoever owns the scope sees the
//! refusal before it can grant again.
//!
//! Rows are made when the scope is first used and dropped when nothing in them counts any more: an idle mailbox
//! owns no windows. An empty window admits everything that was not refused at the door, so their absence changes no
//! decision.

mod admit;
mod packed;
mod reload;
mod settle;
mod standing;
mod tenured;
#[cfg(test)]
mod tests;
mod trouble;

use std::time::Duration;

use super::breaker::{Breaker, BreakerFacts, BreakerMemory, Concurrency};
use super::cost::{Cost, Unit};
use super::lane::Lane;
use super::lanes::{Decay, Share, Steady, Terms};
use super::ledger::{Earliest, Ledger};
use super::limit::Limit;
use super::policy::{BreakerPolicy, FleetPolicy, GuardPolicy, LanesPolicy, MailboxPolicy, ScopePolicy, SharedPolicy};
use super::resume::Wave;
use super::scope::Scope;
use super::spread::Rate;
use super::tenure::Tenure;
use super::time::Timestamp;

pub(crate) use admit::{Grant, Wait, never};
pub(crate) use packed::Packed;
pub(crate) use settle::Blame;

/// The numbers a decision needs, borrowed from whichever policy holds them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'a> {
    pub(crate) guard: &'a GuardPolicy,
    pub(crate) lanes: &'a LanesPolicy,
    pub(crate) breaker: &'a BreakerPolicy,
    /// Only a mailbox is owned.
    pub(crate) fleet: Option<&'a FleetPolicy>,
}

impl Rules<'_> {
    fn terms(self, limit: &Limit, amount: u64) -> Terms {
        Terms::new(amount, limit, self.lanes, self.guard.clock_error)
    }
}

impl<'a> From<&'a MailboxPolicy> for Rules<'a> {
    fn from(policy: &'a MailboxPolicy) -> Self {
        Self { guard: &policy.guard, lanes: &policy.lanes, breaker: &policy.breaker, fleet: Some(&policy.fleet) }
    }
}

impl<'a> From<&'a SharedPolicy> for Rules<'a> {
    fn from(policy: &'a SharedPolicy) -> Self {
        Self { guard: &policy.guard, lanes: &policy.lanes, breaker: &policy.breaker, fleet: None }
    }
}

/// One limit: its record, how the lanes share it, and by which numbers.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) ledger: Ledger,
    pub(crate) share: Share,
    /// Those of the declared amount.
    terms: Terms,
    /// What foreground's need comes to at that amount, for a while.
    steady: Steady,
}

/// Whether the provider refused the scope itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspended {
    No,
    Yes,
}

/// Whether nothing at all may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shut {
    No,
    Yes,
}

#[derive(Clone, Debug)]
pub(crate) struct Budget {
    limits: Box<[Limit]>,
    rows: Vec<Row>,
    concurrency: Concurrency,
    breaker: Breaker,
    /// An operator's hold of the whole scope; [`Timestamp::EPOCH`] when there is none.
    hold_until: Timestamp,
    /// The provider refused the mailbox or the account itself. Apart from the hold, so that one that expires does not
    /// lift it.
    suspended: Suspended,
    /// No connection is tried before this: the provider refused one for concurrency, and said so or C was 1.
    connect_at: Timestamp,
    /// What this process may do while others share the mailbox; `None`: there are none.
    tenure: Option<Box<Tenure>>,
    /// Resumptions that are under way.
    wave: Option<Wave>,
    /// Whether nothing at all could pass when [`Budget::plan_wave`] last looked.
    was_shut: Shut,
    /// Since when foreground could have been seen here; outlives the rows.
    known_since: Timestamp,
    /// What was last told of the breaker's memory.
    remembered: Option<Box<BreakerMemory>>,
    /// Attempts and reservations not yet settled, lingering slots not counted.
    in_flight: u32,
}

impl Budget {
    pub(crate) fn new(scope: Scope, policy: &ScopePolicy) -> Self {
        Self {
            breaker: Breaker::new(scope),
            limits: policy.limits.clone().into_boxed_slice(),
            rows: Vec::new(),
            concurrency: Concurrency::new(policy.concurrency),
            hold_until: Timestamp::EPOCH,
            suspended: Suspended::No,
            connect_at: Timestamp::EPOCH,
            tenure: None,
            wave: None,
            was_shut: Shut::No,
            known_since: Timestamp::NEVER,
            remembered: None,
            in_flight: 0,
        }
    }

    pub(crate) fn scope(&self) -> &Scope {
        self.breaker.scope()
    }

    pub(crate) fn limits(&self) -> &[Limit] {
        &self.limits
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// A foreground operation of this cost was submitted: the reserve learns what foreground needs.
    pub(crate) fn on_foreground_arrival(&mut self, now: Timestamp, cost: &Cost, rules: Rules<'_>) {
        self.make_rows(rules);
        let mut decay = Decay::default();
        for (row, limit) in self.rows.iter_mut().zip(&self.limits) {
            row.share.arrive(now, cost.of(limit.unit()), &row.terms, &mut decay);
            row.steady = Steady::UNKNOWN;
        }
    }

    /// A foreground operation is ready and could not go: the limits in its way are contended.
    pub(crate) fn on_foreground_backlog(&mut self, now: Timestamp, cost: &Cost) {
        for index in 0..self.rows.len() {
            let amount = self.amount(now, index);
            let row = &mut self.rows[index];
            let units = cost.of(row.ledger.limit().unit());
            if units > 0 && row.ledger.earliest(now, units, amount.max(units)) != Earliest::Now {
                row.share.on_foreground_backlog(now);
            }
        }
    }

    /// The same where [`Budget::wait`] has told at this instant which windows are in its way.
    pub(crate) fn on_foreground_wait(&mut self, now: Timestamp, cost: &Cost, wait: &Wait) {
        if self.rows.len() > u64::BITS as usize {
            return self.on_foreground_backlog(now, cost);
        }
        self.mark_contended(now, wait.windows);
    }

    /// The dominant share of a cost: the largest part of any window that it takes, in parts per million, at least 1.
    pub(crate) fn dominant(&self, cost: &Cost) -> u64 {
        let part = |limit: &Limit| {
            let (units, amount) = (cost.of(limit.unit()), limit.amount());
            match units.checked_mul(1_000_000) {
                Some(millionths) => millionths / amount,
                None => u64::try_from(u128::from(units) * 1_000_000 / u128::from(amount)).unwrap_or(u64::MAX),
            }
        };
        self.limits.iter().map(part).max().unwrap_or(1).max(1)
    }

    /// Drops rows in which nothing counts any more.
    pub(crate) fn shrink(&mut self, now: Timestamp, rules: Rules<'_>) {
        for row in &mut self.rows {
            row.ledger.expire(now);
        }
        let quiet = |row: &Row| row.ledger.used(now) == 0 && row.share.is_quiet(now, &row.ledger.limit(), rules.lanes);
        if self.rows.iter().all(quiet) {
            self.known_since = self.rows.iter().map(|row| row.share.started_at()).fold(self.known_since, Ord::min);
            self.rows = Vec::new();
        }
    }

    /// Whether nothing here would be lost with the scope: no charge counts, no breaker remembers, nobody holds it.
    pub(crate) fn is_blank(&self, now: Timestamp) -> bool {
        self.rows.iter().all(|row| row.ledger.used(now) == 0)
            && self.breaker.is_quiet(now)
            && self.concurrency.is_quiet(now)
            && self.in_flight == 0
            && self.hold_until(now).is_none()
    }

    pub(crate) fn breaker_facts(&self, now: Timestamp) -> BreakerFacts {
        self.breaker.facts(now)
    }

    pub(crate) fn is_troubled(&self, now: Timestamp) -> bool {
        !self.breaker.is_quiet(now) || self.hold_until(now).is_some()
    }

    /// The shortest window declared; zero where there is none.
    pub(crate) fn window_min(&self) -> Duration {
        self.limits.iter().map(Limit::window).min().unwrap_or(Duration::ZERO)
    }

    /// The admitted rate: that of the slowest limit on requests. `None`: there is no such limit.
    pub(crate) fn rate(&self, now: Timestamp) -> Option<Rate> {
        let rate = |(index, limit): (usize, &Limit)| {
            let rate = Rate { amount: self.amount(now, index).max(1), window: limit.window() };
            (limit.unit() == Unit::Requests).then_some(rate)
        };
        let slowness = |rate: &Rate| rate.window.as_nanos() / u128::from(rate.amount);
        self.limits.iter().enumerate().filter_map(rate).max_by_key(slowness)
    }

    /// The span between two sends at that rate.
    pub(crate) fn gap(&self, now: Timestamp) -> Duration {
        let gap = |rate: Rate| rate.window / u32::try_from(rate.amount).unwrap_or(u32::MAX);
        self.rate(now).map(gap).unwrap_or_default()
    }

    /// Attempts in flight per lane, foreground first.
    pub(crate) fn in_flight_per_lane(&self) -> [u32; 2] {
        self.concurrency.in_flight()
    }

    /// C: most attempts in flight now.
    pub(crate) fn concurrency(&self) -> Option<u32> {
        self.concurrency.limit()
    }

    /// Puts a charge back that an earlier life of this scope made.
    pub(crate) fn restore(&mut self, lane: Lane, cost: &Cost, counts_until: Timestamp, rules: Rules<'_>) {
        self.known_since = self.known_since.min(counts_until);
        self.make_rows(rules);
        for (row, limit) in self.rows.iter_mut().zip(&self.limits) {
            row.ledger.restore(lane, cost.of(limit.unit()), counts_until);
        }
    }

    /// Puts the breaker back that an earlier life of this scope had: call it before anything else.
    pub(crate) fn restore_breaker(&mut self, now: Timestamp, memory: &BreakerMemory, rules: Rules<'_>) {
        self.breaker = Breaker::new(self.scope().clone()).restored(now, memory, &self.limits, rules.breaker);
        self.remembered = Some(Box::new(memory.clone()));
    }

    /// What the breaker has to remember beyond the process, if that has changed since this was last asked.
    #[inline]
    pub(crate) fn memory_news(&mut self, now: Timestamp) -> Option<Option<Box<BreakerMemory>>> {
        if self.remembered.is_none() && self.breaker.is_unmarked() { None } else { self.changed_memory(now) }
    }

    fn changed_memory(&mut self, now: Timestamp) -> Option<Option<Box<BreakerMemory>>> {
        let memory = self.breaker.memory(now, &self.limits).map(Box::new);
        if memory == self.remembered {
            return None;
        }
        let before = std::mem::replace(&mut self.remembered, memory.clone());
        // What has ended by itself is forgotten by itself.
        let ended = memory.is_none() && before.is_some_and(|before| before.ends_at() <= now);
        (!ended).then_some(memory)
    }

    /// An attempt of an earlier life may still be executed: its connection stays taken until then.
    pub(crate) fn restore_live(
        &mut self,
        now: Timestamp,
        (lane, claimed_at): (Lane, Timestamp),
        until: Timestamp,
        rules: Rules<'_>,
    ) {
        self.breaker.restored_live(now, claimed_at, rules.breaker);
        self.concurrency.on_start(lane);
        self.concurrency.on_linger(lane, now, until);
    }

    /// One row per limit, for facts; empty when nothing was ever used.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// N': what is in force of a declared amount.
    pub(crate) fn amount(&self, now: Timestamp, index: usize) -> u64 {
        self.limits.get(index).map_or(0, |limit| self.breaker.amount(now, index, limit.amount()))
    }

    fn make_rows(&mut self, rules: Rules<'_>) {
        if self.rows.is_empty() {
            self.rows = self.limits.iter().map(|limit| Row::new(*limit, rules, self.known_since)).collect();
        }
    }
}

impl Row {
    fn new(limit: Limit, rules: Rules<'_>, known_since: Timestamp) -> Self {
        let ledger = Ledger::new(limit, rules.guard);
        let terms = rules.terms(&limit, limit.amount());
        Self { ledger, share: Share::since(known_since), terms, steady: Steady::UNKNOWN }
    }

    /// The numbers at an effective amount: those that are at hand, or others, made for once.
    fn terms<'a>(&'a self, amount: u64, rules: Rules<'_>, other: &'a mut Option<Terms>) -> &'a Terms {
        debug_assert_eq!(self.terms, rules.terms(&self.ledger.limit(), self.terms.amount), "numbers of another policy");
        if amount == self.terms.amount {
            return &self.terms;
        }
        other.insert(rules.terms(&self.ledger.limit(), amount))
    }
}
