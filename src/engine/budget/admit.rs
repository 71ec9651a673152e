//! May it go now, and if not, what binds it and until when?

use super::standing::Seen;
use super::{Budget, Row, Rules};
use crate::engine::breaker::Gate;
use crate::engine::constraint::{Certainty, Constraint, Wall};
use crate::engine::cost::{Cost, CostSum, Unit};
use crate::engine::lane::Lane;
use crate::engine::ledger::{Earliest, capacity};
use crate::engine::limit::Limit;
use crate::engine::mailbox::Refusal;
use crate::engine::scope::ScopeKind;
use crate::engine::time::Timestamp;

/// By which rules a background operation is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// Its lane's own.
    Ordinary,
    /// The background floor is due: reserve, pace and share do not bind it this once.
    Floor,
}

/// The binding constraint of a send that may not go yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) until: Timestamp,
    pub(crate) constraint: Constraint,
    /// The limits whose windows are in its way, one bit each; all bits where there are more limits than bits.
    pub(crate) windows: u64,
    /// The first instant at which the answer may be another one although nothing has happened.
    pub(crate) stands_until: Timestamp,
    /// When the last window that is full now has room.
    pub(crate) full_until: Timestamp,
}

impl Budget {
    /// `None`: it may go now. Otherwise the latest of all its constraints.
    pub(crate) fn wait(&self, now: Timestamp, lane: Lane, cost: &Cost, grant: Grant, rules: Rules<'_>) -> Option<Wait> {
        let (mut latest, mut windows, mut seen): (Option<Constraint>, u64, Seen) = (None, 0, Seen::NONE);
        let close = self.judge(now, lane, cost, grant, rules, &mut |row, constraint| {
            seen.add(&constraint);
            if latest.is_none_or(|other| constraint.ready_at > other.ready_at) {
                latest = Some(constraint);
            }
            if let (Some(row), Wall::Window { .. }) = (row, constraint.wall) {
                windows |= bit(row).unwrap_or(u64::MAX);
            }
        });
        let constraint = latest?;
        let stands_until = self.stands_until(now, (lane, cost), &seen, close, constraint.ready_at);
        Some(Wait { until: constraint.ready_at, constraint, windows, stands_until, full_until: seen.full_until })
    }

    /// Every constraint that keeps such a send from going now, each with its own instant.
    pub(crate) fn constraints(
        &self,
        now: Timestamp,
        lane: Lane,
        cost: &Cost,
        grant: Grant,
        rules: Rules<'_>,
        each: &mut dyn FnMut(Constraint),
    ) {
        self.judge(now, lane, cost, grant, rules, &mut |_, constraint| each(constraint));
    }

    /// The same, with the row that each constraint is of, where it is of one. Answers which rows were looked at closely,
    /// one bit each.
    fn judge(
        &self,
        now: Timestamp,
        lane: Lane,
        cost: &Cost,
        grant: Grant,
        rules: Rules<'_>,
        each: &mut impl FnMut(Option<usize>, Constraint),
    ) -> u64 {
        let scope = self.scope().kind();
        let mut put =
            |wall, (ready_at, certainty)| each(None, Constraint { wall, scope, ready_at, certainty, binding: false });
        if !self.is_calm() {
            self.troubles(now, lane, &mut put);
        }
        if self.connect_at > now {
            put(Wall::InFlight, exactly(self.connect_at));
        }
        if !self.concurrency.may_start(lane, now) {
            // A completion frees a slot, which no timer can tell; this is the latest it can come.
            let latest = now.after(rules.guard.request_deadline_max);
            put(
                Wall::InFlight,
                at_most(self.concurrency.deadline().filter(|at| *at > now).map_or(latest, |at| at.min(latest))),
            );
        }
        if let Some(tenure) = &self.tenure {
            self.parts(tenure, now, (lane, cost), rules, &mut put);
        }
        let mut close = 0;
        for (index, row) in self.rows.iter().enumerate() {
            let units = row.takes(cost);
            let amount = self.breaker.amount(now, index, row.terms.amount);
            let is_open = amount == row.terms.amount
                && match (lane, grant) {
                    (Lane::Foreground, _) | (_, Grant::Floor) => row.has_room(units),
                    (Lane::Background, Grant::Ordinary) => row.is_open(now, units),
                };
            if units > 0 && !is_open {
                close |= bit(index).unwrap_or(0);
            }
            if units > 0 && (!is_open || cfg!(debug_assertions)) {
                let ask = Ask { now, units, amount, rules };
                let mut put = |wall, (ready_at, certainty)| {
                    debug_assert!(!is_open, "{wall:?} until {ready_at:?} in a window that is open: {row:?}");
                    each(Some(index), Constraint { wall, scope, ready_at, certainty, binding: false });
                };
                match (lane, grant) {
                    (Lane::Foreground, _) | (_, Grant::Floor) => row.window(&ask, &mut put),
                    (Lane::Background, Grant::Ordinary) => row.background(&ask, &mut put),
                }
            }
        }
        close
    }

    /// What keeps a send from going for other reasons than its cost.
    fn troubles(&self, now: Timestamp, lane: Lane, put: &mut impl FnMut(Wall, ReadyAt)) {
        if let Some(until) = self.hold_until(now) {
            put(Wall::Hold, exactly(until));
        }
        match self.breaker.gate(now, self.in_flight) {
            Gate::Pass | Gate::Probe => {}
            Gate::Paced { ready_at } if ready_at <= now => {}
            Gate::Paced { ready_at } => put(Wall::Ramp, exactly(ready_at)),
            // Its answer comes before its token ends, as a rule.
            Gate::ProbeInFlight { until } => put(Wall::Probe, at_most(until)),
            Gate::Blocked { until, wall } => put(wall, exactly(until)),
        }
        if lane == Lane::Background
            && let Some(until) = self.breaker.background_paused(now)
        {
            put(Wall::Cooldown, exactly(until));
        }
        if let Some(at) = self.wave.and_then(|wave| wave.wait(now)) {
            put(Wall::Ramp, exactly(at));
        }
    }

    /// Whether foreground's own use alone leaves no room for background to send `cost`, however little background uses.
    pub(crate) fn is_foregrounds(&self, now: Timestamp, cost: &Cost, rules: Rules<'_>) -> bool {
        self.rows.iter().enumerate().any(|(index, row)| {
            let limit = row.ledger.limit();
            let (units, amount) = (cost.of(limit.unit()), self.amount(now, index));
            let room = || amount.saturating_sub(row.share.reserve(now, amount, &limit, rules.lanes));
            units > 0 && row.ledger.used_by(Lane::Foreground, now).saturating_add(units) > room()
        })
    }

    /// What a lane may have in use of a limit.
    fn amount_for(&self, now: Timestamp, lane: Lane, index: usize, rules: Rules<'_>) -> u64 {
        let amount = self.amount(now, index);
        match (lane, self.rows.get(index), self.limits().get(index)) {
            (Lane::Background, Some(row), Some(limit)) => {
                amount.saturating_sub(row.share.reserve(now, amount, limit, rules.lanes))
            }
            _ => amount,
        }
    }

    /// When everything ahead of a send can have gone and it can go too, at the earliest: a lower bound, since what is
    /// ahead beyond one window's worth needs that many whole windows.
    pub(crate) fn behind(
        &self,
        now: Timestamp,
        lane: Lane,
        ahead: &CostSum,
        cost: &Cost,
        rules: Rules<'_>,
        each: &mut dyn FnMut(Constraint),
    ) {
        let mut latest = now;
        for (index, limit) in self.limits().iter().enumerate() {
            let (units, amount) = (cost.of(limit.unit()), self.amount_for(now, lane, index, rules));
            let (amount, total) = (amount.max(units).max(1), ahead.of(limit.unit()).saturating_add(units));
            if total == 0 {
                continue;
            }
            let (windows, rest) = ((total - 1) / amount, (total - 1) % amount + 1);
            let start = self.rows.get(index).map_or(now, |row| row.not_before(now, rest, amount));
            let span = limit.window().saturating_mul(u32::try_from(windows).unwrap_or(u32::MAX));
            latest = latest.max(start.after(span));
        }
        if latest > now {
            each(Constraint::exact(Wall::Queue, self.scope().kind(), latest));
        }
    }

    /// When a send can go, if all that is in flight keeps its charge: that and everything `ahead` take their whole windows
    /// from now on. `None`: there is room beside them.
    pub(crate) fn after_in_flight(
        &self,
        now: Timestamp,
        lane: Lane,
        ahead: &CostSum,
        cost: &Cost,
        rules: Rules<'_>,
    ) -> Option<Constraint> {
        let after = |(index, limit): (usize, &Limit)| {
            let row = self.rows.get(index)?;
            let (units, amount) = (cost.of(limit.unit()), self.amount_for(now, lane, index, rules));
            let total = row.ledger.in_flight().saturating_add(ahead.of(limit.unit())).saturating_add(units);
            let windows = total.saturating_sub(1) / amount.max(units).max(1);
            let at = now.after(limit.window().saturating_mul(u32::try_from(windows).unwrap_or(u32::MAX)));
            (units > 0 && windows > 0).then(|| Constraint::exact(Wall::Queue, self.scope().kind(), at))
        };
        self.limits().iter().enumerate().filter_map(after).max_by_key(|constraint| constraint.ready_at)
    }

    /// When the last of everything that waits can have gone, at the earliest.
    pub(crate) fn last_of(&self, now: Timestamp, lane: Lane, waiting: &CostSum, rules: Rules<'_>) -> Timestamp {
        let none = Cost { requests: 0, recipients: 0, external_recipients: 0, quota_units: 0, bytes: 0 };
        let mut last_at = now;
        self.behind(now, lane, waiting, &none, rules, &mut |constraint| last_at = last_at.max(constraint.ready_at));
        last_at
    }

    /// Whether a later, lighter operation may pass a blocked head without postponing it: with both charged, the head
    /// must still fit at the instant it fits alone.
    pub(crate) fn keeps_instant(
        &self,
        now: Timestamp,
        lane: Lane,
        head: &Cost,
        passing: &Cost,
        at: Timestamp,
        rules: Rules<'_>,
    ) -> bool {
        if self.tenure.as_ref().is_some_and(|tenure| self.is_capped(tenure, now, lane, rules)) {
            return false; // for a while, and not worth a second reckoning
        }
        let mut both = *head;
        both.requests = both.requests.saturating_add(passing.requests);
        both.recipients = both.recipients.saturating_add(passing.recipients);
        both.external_recipients = both.external_recipients.saturating_add(passing.external_recipients);
        both.quota_units = both.quota_units.saturating_add(passing.quota_units);
        both.bytes = both.bytes.saturating_add(passing.bytes);
        let mut connections = self.concurrency.clone();
        connections.on_start(lane);
        let mut kept = connections.may_start(lane, now);
        for (index, row) in self.rows.iter().enumerate() {
            let limit = row.ledger.limit();
            let amount = self.breaker.amount(now, index, limit.amount());
            let units = both.of(limit.unit());
            if passing.of(limit.unit()) > 0 && units <= limit.amount() {
                let ask = Ask { now, units, amount, rules };
                let mut put = |_wall, (ready_at, _): ReadyAt| kept &= ready_at <= at;
                match lane {
                    Lane::Foreground => row.window(&ask, &mut put),
                    Lane::Background => row.background(&ask, &mut put),
                }
            } else if passing.of(limit.unit()) > 0 {
                kept = false;
            }
        }
        kept
    }

    /// The limit that can never hold `cost`, if there is one.
    pub(crate) fn never(&self, cost: &Cost) -> Option<Never> {
        never(self.limits(), cost)
    }
}

/// A limit that can never hold a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Never {
    pub(crate) limit: Limit,
    /// What it costs there.
    pub(crate) cost: u64,
    /// The most that fits.
    pub(crate) capacity: u64,
}

impl Never {
    /// In the words of the door.
    pub(crate) fn refusal(self, scope: ScopeKind) -> Refusal {
        let seconds = u32::try_from(self.limit.window().as_secs()).unwrap_or(u32::MAX);
        let wall = Wall::Window { unit: self.limit.unit(), seconds };
        let constraint = Constraint::exact(wall, scope, Timestamp::NEVER).as_binding();
        Refusal::CostAboveCapacity { constraint, cost: self.cost, capacity: self.capacity }
    }
}

/// The first of `limits` that can never hold `cost`.
pub(crate) fn never(limits: &[Limit], cost: &Cost) -> Option<Never> {
    limits.iter().find_map(|limit| {
        let (units, capacity) = (cost.of(limit.unit()), capacity(limit));
        (units > capacity).then_some(Never { limit: *limit, cost: units, capacity })
    })
}

/// What is asked of one row.
struct Ask<'a> {
    now: Timestamp,
    units: u64,
    /// N', the effective amount.
    amount: u64,
    rules: Rules<'a>,
}

impl Row {
    /// The window alone: what foreground is judged by.
    fn window(&self, ask: &Ask<'_>, put: &mut impl FnMut(Wall, ReadyAt)) {
        let (unit, seconds) = self.label();
        // A cost above a lowered ceiling goes when the window is empty: it would starve otherwise.
        let earliest = self.ledger.earliest(ask.now, ask.units, ask.amount.max(ask.units));
        if let Some(ready_at) = instant(earliest) {
            put(Wall::Window { unit, seconds }, ready_at);
        }
    }

    /// The window less the reserve, the pace and, while foreground wants the rest, the share.
    fn background(&self, ask: &Ask<'_>, put: &mut impl FnMut(Wall, ReadyAt)) {
        let (unit, seconds) = self.label();
        let mut other = None;
        let by = self.terms(ask.amount, ask.rules, &mut other);
        let steady = Some(&self.steady).filter(|steady| ask.amount == self.terms.amount && steady.holds_at(ask.now));
        let reserve = steady.map_or_else(|| self.share.kept(ask.now, by), |steady| steady.reserve);
        // A cost above what the reserve leaves goes when the window is otherwise empty: it would starve otherwise.
        let room = ask.amount.saturating_sub(reserve).max(ask.units);
        let earliest = self.ledger.earliest(ask.now, ask.units, room);
        if let Some(ready_at) = instant(earliest) {
            self.window(ask, put);
            put(Wall::Reserve { unit, seconds }, ready_at);
        }
        let paced = match steady {
            Some(steady) => self.share.paced_by(ask.now, ask.units, steady, by),
            None => self.share.paced(ask.now, ask.units, reserve, by),
        };
        if let Some(ready_at) = paced.filter(|ready_at| *ready_at > ask.now) {
            put(Wall::Pace { unit, seconds }, exactly(ready_at));
        }
        if let Some(share) = self.share.shared(ask.now, by) {
            let earliest = self.ledger.earliest_of(Lane::Background, ask.now, ask.units, share.max(ask.units));
            if let Some((ready_at, certainty)) = instant(earliest) {
                let over = self.share.contended_by(by).unwrap_or(Timestamp::NEVER);
                put(Wall::Share { unit, seconds }, if over < ready_at { exactly(over) } else { (ready_at, certainty) });
            }
        }
    }

    /// Before this `cost` cannot go, however soon what is in flight ends: a lower bound.
    fn not_before(&self, now: Timestamp, cost: u64, amount: u64) -> Timestamp {
        // What is ahead goes one after the other: together it may be more than a bucket ever holds.
        let cost = cost.min(self.ledger.capacity());
        let earliest = match self.ledger.earliest(now, cost, amount) {
            // As if all that is in flight came back at once.
            Earliest::AfterCompletion { .. } => {
                self.ledger.earliest(now, cost.saturating_sub(self.ledger.in_flight()), amount)
            }
            known => known,
        };
        instant(earliest).map_or(now, |(at, certainty)| if certainty == Certainty::Exact { at } else { now })
    }

    fn label(&self) -> (Unit, u32) {
        let limit = self.ledger.limit();
        (limit.unit(), u32::try_from(limit.window().as_secs()).unwrap_or(u32::MAX))
    }
}

/// The bit of a row; `None`: it has none.
#[inline]
fn bit(row: usize) -> Option<u64> {
    u32::try_from(row).ok().and_then(|row| 1_u64.checked_shl(row))
}

/// An instant, and how far it can be relied on.
pub(super) type ReadyAt = (Timestamp, Certainty);

pub(super) const fn exactly(at: Timestamp) -> ReadyAt {
    (at, Certainty::Exact)
}

pub(super) const fn at_most(at: Timestamp) -> ReadyAt {
    (at, Certainty::AtMost)
}

pub(super) fn instant(earliest: Earliest) -> Option<ReadyAt> {
    match earliest {
        Earliest::Now => None,
        Earliest::At(at) => Some(exactly(at)),
        Earliest::AfterCompletion { at_most: at } => Some(at_most(at)),
        Earliest::Never { .. } => Some(exactly(Timestamp::NEVER)),
    }
}
