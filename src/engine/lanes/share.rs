//! The lane arithmetic of one limit at one scope.
//!
//! Two meters. The *need* meter watches what foreground asks for: the depth of the token bucket its arrivals would
//! need at the limit's own rate, which is exactly the burst a reserve has to absorb, because what exceeds it comes
//! back at background's pace. The *debt* meter is a leaky bucket that paces background, so that in saturation one
//! slot returns every `W/(N'−R)` and a waiting foreground takes each of them.
//!
//! Why a debt in units and not the usual "theoretical arrival time": the rate changes while a debt runs (the reserve
//! follows foreground, a ceiling is learned, an operator edits the limit). Units drain at whatever rate holds; an
//! instant computed at the old rate would stand. It also makes undoing a grant exact.
//!
//! All numbers are integers with 16 binary places and saturate. A cost above the whole amount counts as the amount:
//! no window could hold it. Time that steps back counts as no time.
//!
//! Before there is a history, foreground is taken to want its whole share. A background burst of 1 until then, the
//! cautious other way, made 1,000 sends under 30/min and 10,000 recipients/24 h take 2.17 h instead of 0.68 h, and
//! protected little: foreground's p99 under 120/min and 400/h was the same at 20 and 60 an hour, and at 100 an hour one run
//! of eight went from 1.2 s to 179 s.
//!
//! Not promised: exact integrals while the reserve moves. A drain since the last grant is taken at the rate that
//! holds when it is asked for.

use crate::engine::lanes::decay::{Decay, ONE, decayed, factor};
use crate::engine::lanes::meter::{PLACES, clamp, divided, fixed, needed, scaled};
use crate::engine::lanes::steady::Steady;
use crate::engine::lanes::terms::Terms;
use crate::engine::limit::Limit;
use crate::engine::policy::{GuardPolicy, LanesMode, LanesPolicy};
use crate::engine::ratio::Ratio;
use crate::engine::time::{Timestamp, micros};

/// Demand is taken half again as large as it was measured (algorithms 2.2); a declared one is taken at its word.
const DEMAND_FACTOR: Ratio = Ratio::percent(150);
/// ln 2 with 32 binary places.
const LN_2: u128 = 2_977_044_472;

/// What the lanes remember about one limit: 72 bytes, no heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Bucket level that foreground needs, as of `arrived_at`.
    need: u64,
    /// Deepest such level, decaying from `depth_at`.
    pub(super) depth: u64,
    pub(super) depth_at: Timestamp,
    /// Decayed sum of foreground costs, as of `arrived_at`.
    load: u64,
    arrived_at: Timestamp,
    /// What background has taken ahead of its pace, as of `debt_at`.
    debt: u64,
    debt_at: Timestamp,
    /// Last instant with a foreground backlog; `NEVER`: none yet.
    backlog_at: Timestamp,
    /// First instant anything was seen; `NEVER`: nothing yet.
    started_at: Timestamp,
}

impl Default for Share {
    fn default() -> Self {
        Self::new()
    }
}

impl Share {
    /// No history, no debt.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            need: 0,
            depth: 0,
            depth_at: Timestamp::EPOCH,
            load: 0,
            arrived_at: Timestamp::EPOCH,
            debt: 0,
            debt_at: Timestamp::EPOCH,
            backlog_at: Timestamp::NEVER,
            started_at: Timestamp::NEVER,
        }
    }

    /// No debt, and a history that began at `started_at` with nothing in it that still matters.
    #[must_use]
    pub const fn since(started_at: Timestamp) -> Self {
        Self { started_at, ..Self::new() }
    }

    /// When the history began; [`Timestamp::NEVER`]: it has not.
    #[must_use]
    pub const fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// Whether [`Share::since`] would answer everything that is asked from `now` on as this one does: foreground's
    /// need has decayed away, nothing is owed, nothing was contended within a window.
    #[must_use]
    pub fn is_quiet(&self, now: Timestamp, limit: &Limit, policy: &LanesPolicy) -> bool {
        let half_life = micros(policy.half_life);
        let least = fixed(1);
        let over = |at: Timestamp| at == Timestamp::NEVER || at.after(limit.window().saturating_mul(2)) <= now;
        over(self.debt_at)
            && over(self.backlog_at)
            && self.depth_now(now, half_life) < least
            && decayed(self.load, now.micros_since(self.arrived_at), half_life) < least
    }

    /// A foreground operation that costs `cost` here was submitted. Not for one that comes back from a throttle.
    pub fn on_foreground_arrival(&mut self, now: Timestamp, cost: u64, limit: &Limit, policy: &LanesPolicy) {
        self.arrive(now, cost, &Terms::new(limit.amount(), limit, policy, Ratio::ZERO), &mut Decay::default());
    }

    /// The same under known terms, of the declared amount, where the other limits of its scope are told, too.
    pub(crate) fn arrive(&mut self, now: Timestamp, cost: u64, by: &Terms, decay: &mut Decay) {
        self.start(now);
        let elapsed = now.micros_since(self.arrived_at);
        let cost = fixed(cost.min(by.amount));
        let drained = scaled(elapsed, by.amount, by.window);
        self.need = self.need.saturating_sub(drained).saturating_add(cost);
        self.load = decay.of(self.load, elapsed, by.half_life).saturating_add(cost);
        self.arrived_at = self.arrived_at.max(now);
        // Rebased only when exceeded: the decay is always computed from the peak, so rounding does not add up.
        let need = self.need.min(fixed(by.amount));
        if need >= self.depth || need >= self.depth_now(now, by.half_life) {
            self.depth = need;
            self.depth_at = now;
        }
    }

    /// Foreground could not go at once because of *this* limit. Marking limits that were not in its way would halve
    /// background's day because of a busy minute.
    pub fn on_foreground_backlog(&mut self, now: Timestamp) {
        self.start(now);
        self.backlog_at = if self.backlog_at == Timestamp::NEVER { now } else { self.backlog_at.max(now) };
    }

    /// R: how much of `amount` (N') is kept back from background.
    ///
    /// At most `reserve_max` and `1 − background_share` of it, at least `reserve_min`; where rounding makes these
    /// meet the wrong way round (N' = 1), background keeps its slot. Zero under a hard cap, which needs none.
    #[must_use]
    pub fn reserve(&self, now: Timestamp, amount: u64, limit: &Limit, policy: &LanesPolicy) -> u64 {
        self.kept(now, &Terms::new(amount, limit, policy, Ratio::ZERO))
    }

    /// The same under known terms.
    #[inline]
    pub(crate) fn kept(&self, now: Timestamp, by: &Terms) -> u64 {
        by.reserve_of(self.need_above(by.low, now, by))
    }

    /// When the pace lets background take `cost`; `None`: now. [`Timestamp::NEVER`] when nothing is left to it.
    ///
    /// A cost above the burst goes when the bucket is full and then owes the rest: in any span t background gets at
    /// most `max(burst, cost) + t·(N'−R)/W(1+ρ)`.
    #[must_use]
    pub fn background_earliest(
        &self,
        now: Timestamp,
        cost: u64,
        amount: u64,
        limit: &Limit,
        policy: &LanesPolicy,
        guard: &GuardPolicy,
    ) -> Option<Timestamp> {
        let by = Terms::new(amount, limit, policy, guard.clock_error);
        self.paced(now, cost, self.kept(now, &by), &by)
    }

    /// The same under known terms.
    pub(crate) fn paced(&self, now: Timestamp, cost: u64, reserve: u64, by: &Terms) -> Option<Timestamp> {
        let rate = by.capacity(reserve);
        if rate == 0 {
            return Some(Timestamp::NEVER);
        }
        // Nothing owed: spares the burst, which takes most of the arithmetic.
        self.drained_at(now, self.debt, rate, by.guarded)?;
        self.behind_burst(now, cost, self.burst_of(rate, now, by), rate, by)
    }

    /// The same where reserve and burst are known.
    #[inline]
    pub(crate) fn paced_by(&self, now: Timestamp, cost: u64, steady: &Steady, by: &Terms) -> Option<Timestamp> {
        match by.capacity(steady.reserve) {
            0 => Some(Timestamp::NEVER),
            rate => self.behind_burst(now, cost, steady.burst, rate, by),
        }
    }

    /// Whether the pace lets background take `cost` for certain: it owes less than a burst that can only have grown.
    #[inline]
    pub(crate) fn is_ahead(&self, now: Timestamp, cost: u64, steady: &Steady) -> bool {
        steady.grows_at(now) && self.debt.saturating_add(fixed(cost)) <= fixed(steady.burst)
    }

    #[inline]
    fn behind_burst(&self, now: Timestamp, cost: u64, burst: u64, rate: u64, by: &Terms) -> Option<Timestamp> {
        self.drained_at(now, self.debt.saturating_sub(fixed(burst - cost.min(burst))), rate, by.guarded)
    }

    /// Background took `cost`.
    pub fn on_background_grant(
        &mut self,
        now: Timestamp,
        cost: u64,
        amount: u64,
        limit: &Limit,
        policy: &LanesPolicy,
        guard: &GuardPolicy,
    ) {
        self.grant(now, cost, &Terms::new(amount, limit, policy, guard.clock_error));
    }

    /// The same under known terms.
    pub(crate) fn grant(&mut self, now: Timestamp, cost: u64, by: &Terms) {
        self.start(now);
        let left = self.debt_now(now, by);
        // More than one window's worth means nothing: by then every entry of the window has left it.
        self.debt = left.saturating_add(fixed(cost)).min(fixed(by.amount));
        self.debt_at = self.debt_at.max(now);
    }

    /// Nothing was sent on a grant of `cost`: it is no longer owed. What had drained meanwhile is not given back too.
    pub fn undo_background_grant(
        &mut self,
        now: Timestamp,
        cost: u64,
        amount: u64,
        limit: &Limit,
        policy: &LanesPolicy,
        guard: &GuardPolicy,
    ) {
        self.undo(now, cost, &Terms::new(amount, limit, policy, guard.clock_error));
    }

    /// The same under known terms.
    pub(crate) fn undo(&mut self, now: Timestamp, cost: u64, by: &Terms) {
        self.debt = self.debt_now(now, by).saturating_sub(fixed(cost));
        self.debt_at = self.debt_at.max(now);
    }

    /// The most background may use of `amount`: while foreground wants the rest, or always under a hard cap.
    /// At least 1 where the share is not zero, for a share nobody can use is a stop.
    #[must_use]
    pub fn share_amount(&self, now: Timestamp, amount: u64, limit: &Limit, policy: &LanesPolicy) -> Option<u64> {
        self.shared(now, &Terms::new(amount, limit, policy, Ratio::ZERO))
    }

    /// The same under known terms.
    #[inline]
    pub(crate) fn shared(&self, now: Timestamp, by: &Terms) -> Option<u64> {
        let bound = match by.mode {
            LanesMode::HardCap => true,
            LanesMode::ReservedWindow => now < self.contended_by(by).unwrap_or(Timestamp::EPOCH),
        };
        bound.then_some(by.share)
    }

    /// When the last foreground backlog is a window old, so that [`Share::share_amount`] no longer binds; `None`:
    /// there was none.
    #[must_use]
    pub fn contended_until(&self, limit: &Limit) -> Option<Timestamp> {
        (self.backlog_at != Timestamp::NEVER).then(|| self.backlog_at.after(limit.window()))
    }

    /// The same, never under a hard cap.
    #[inline]
    pub(crate) fn contended_by(&self, by: &Terms) -> Option<Timestamp> {
        let until = Timestamp::from_micros(self.backlog_at.as_micros().saturating_add(by.window));
        (self.backlog_at != Timestamp::NEVER && by.mode == LanesMode::ReservedWindow).then_some(until)
    }

    /// β: how much background may take at once after a pause. At least 1, unless nothing is left to it.
    #[must_use]
    pub fn burst(&self, now: Timestamp, amount: u64, limit: &Limit, policy: &LanesPolicy) -> u64 {
        let by = Terms::new(amount, limit, policy, Ratio::ZERO);
        self.burst_of(by.capacity(self.kept(now, &by)), now, &by)
    }

    pub(super) fn burst_of(&self, rate: u64, now: Timestamp, by: &Terms) -> u64 {
        let wanted = if by.has_short_window() {
            by.burst
        } else {
            long_burst(by.spare(rate, self.need_above(0, now, by)), rate, self.demand(now, by))
        };
        by.burst_within(rate, wanted)
    }

    /// D̂: what foreground may want in one window.
    pub(super) fn demand(&self, now: Timestamp, by: &Terms) -> u64 {
        if let Some(unknown) = by.demand_unknown
            && !self.has_history(now, by)
        {
            return unknown;
        }
        DEMAND_FACTOR.ceil_of(self.measured(now, by)).max(by.demand_least)
    }

    /// λ̂·W: foreground cost expected in one window, from a decayed sum corrected for how short the history is.
    fn measured(&self, now: Timestamp, by: &Terms) -> u64 {
        let load = decayed(self.load, now.micros_since(self.arrived_at), by.half_life);
        if load == 0 {
            return 0;
        }
        let age = now.micros_since(self.started_at).max(by.history_min);
        let seen = (ONE - factor(age, by.half_life)) >> 32;
        let per_half_life =
            (u128::from(load) << PLACES).saturating_mul(u128::from(by.window)) / u128::from(by.half_life.max(1));
        let rate = per_half_life.saturating_mul(LN_2) / seen.max(1); // both with 32 binary places
        clamp(rate >> PLACES)
    }

    pub(super) fn has_history(&self, now: Timestamp, by: &Terms) -> bool {
        self.started_at != Timestamp::NEVER && now.micros_since(self.started_at) >= by.history_min
    }

    /// `⌈reserve_factor · b̂⌉`, or anything up to `low` when it is not above `low`: spares the decay in the quiet case.
    #[inline]
    fn need_above(&self, low: u64, now: Timestamp, by: &Terms) -> u64 {
        let peak = needed(self.depth, by.reserve_factor);
        if peak <= low { peak } else { needed(self.depth_now(now, by.half_life), by.reserve_factor) }
    }

    pub(super) fn depth_now(&self, now: Timestamp, half_life: u64) -> u64 {
        decayed(self.depth, now.micros_since(self.depth_at), half_life)
    }

    /// When `debt` has drained at `rate` per `window`; `None`: it has.
    #[inline]
    fn drained_at(&self, now: Timestamp, debt: u64, rate: u64, window: u64) -> Option<Timestamp> {
        // Whether it has takes a product, when it will have takes a division: the first is asked more often.
        let (owed, drain) = (u128::from(debt) * u128::from(window), u128::from(rate) << PLACES);
        let elapsed = now.as_micros().checked_sub(self.debt_at.as_micros());
        if elapsed.is_some_and(|elapsed| owed <= u128::from(elapsed).saturating_mul(drain)) {
            return None;
        }
        let wait = match (u64::try_from(owed), u64::try_from(drain)) {
            (Ok(owed), Ok(drain)) => owed.div_ceil(drain),
            _ => clamp(owed.div_ceil(drain)),
        };
        let at = Timestamp::from_micros(self.debt_at.as_micros().saturating_add(wait));
        (at > now).then_some(at)
    }

    fn debt_now(&self, now: Timestamp, by: &Terms) -> u64 {
        if self.debt == 0 {
            return 0;
        }
        let rate = by.capacity(self.kept(now, by));
        self.debt.saturating_sub(scaled(now.micros_since(self.debt_at), rate, by.guarded))
    }

    fn start(&mut self, now: Timestamp) {
        self.started_at = self.started_at.min(now);
    }
}

/// The formula for windows above 60 s: over the worst gap without a returning slot, `W·β/(N'−R)`, foreground may
/// want half of the reserve it is not known to need. While nothing is known, it may want its whole share.
pub(super) fn long_burst(spare: u64, rate: u64, demand: u64) -> u64 {
    let product = (u128::from(spare) * u128::from(rate)).saturating_mul(1 << PLACES);
    divided(product, 2 * u128::from(demand.max(1)))
}
