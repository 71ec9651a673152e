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
use crate::engine::lanes::meter::{
    PLACES, capacity_of, clamp, clamp_of, declared, divided, fixed, guarded, needed, scaled, share_of, window,
};
use crate::engine::limit::Limit;
use crate::engine::policy::{GuardPolicy, LanesMode, LanesPolicy};
use crate::engine::ratio::Ratio;
use crate::engine::time::{Timestamp, micros};

/// Windows up to this long take their background burst from the policy; longer ones from the formula (algorithms 2.2).
const SHORT_WINDOW_US: u64 = 60_000_000;
/// A burst is worth at least this much of the pace, else each late timer would cost throughput: a pace of one send per
/// 60 ms whose timer fires 1 ms late loses 1.7 %. At a pace slower than this the loss is below half a per cent.
const PACE_SLACK_US: u64 = 250_000;
/// Demand is taken half again as large as it was measured (algorithms 2.2); a declared one is taken at its word.
const DEMAND_FACTOR: Ratio = Ratio::percent(150);
/// And never below this part of the amount (algorithms 2.2).
const DEMAND_MIN: Ratio = Ratio::percent(5);
/// ln 2 with 32 binary places.
const LN_2: u128 = 2_977_044_472;

/// What the lanes remember about one limit: 72 bytes, no heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Bucket level that foreground needs, as of `arrived_at`.
    need: u64,
    /// Deepest such level, decaying from `depth_at`.
    depth: u64,
    depth_at: Timestamp,
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
        self.depth_now(now, policy) < least
            && decayed(self.load, now.micros_since(self.arrived_at), half_life) < least
            && over(self.debt_at)
            && over(self.backlog_at)
    }

    /// A foreground operation that costs `cost` here was submitted. Not for one that comes back from a throttle.
    pub fn on_foreground_arrival(&mut self, now: Timestamp, cost: u64, limit: &Limit, policy: &LanesPolicy) {
        self.arrive(now, cost, limit, policy, &mut Decay::default());
    }

    /// The same where the other limits of its scope are told, too.
    pub(crate) fn arrive(&mut self, now: Timestamp, cost: u64, limit: &Limit, policy: &LanesPolicy, decay: &mut Decay) {
        self.start(now);
        let elapsed = now.micros_since(self.arrived_at);
        let half_life = micros(policy.half_life);
        let cost = fixed(cost.min(limit.amount()));
        let drained = scaled(elapsed, limit.amount(), window(limit));
        self.need = self.need.saturating_sub(drained).saturating_add(cost);
        self.load = decay.of(self.load, elapsed, half_life).saturating_add(cost);
        self.arrived_at = self.arrived_at.max(now);
        // Rebased only when exceeded: the decay is always computed from the peak, so rounding does not add up.
        let need = self.need.min(fixed(limit.amount()));
        if need >= self.depth || need >= self.depth_now(now, policy) {
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
    pub fn reserve(&self, now: Timestamp, amount: u64, _limit: &Limit, policy: &LanesPolicy) -> u64 {
        match policy.mode {
            LanesMode::HardCap => 0,
            LanesMode::ReservedWindow => {
                let (low, high) = clamp_of(amount, policy);
                self.need_above(low, now, policy).max(low).min(high)
            }
        }
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
        self.paced_at(now, cost, amount, self.capacity(now, amount, limit, policy), limit, policy, guard)
    }

    /// The same where the rate that the reserve leaves is known.
    #[expect(clippy::too_many_arguments, reason = "what background_earliest was called with, and what it found")]
    pub(crate) fn paced_at(
        &self,
        now: Timestamp,
        cost: u64,
        amount: u64,
        rate: u64,
        limit: &Limit,
        policy: &LanesPolicy,
        guard: &GuardPolicy,
    ) -> Option<Timestamp> {
        if rate == 0 {
            return Some(Timestamp::NEVER);
        }
        let window = guarded(limit, guard);
        // Nothing owed: spares the burst, which takes most of the arithmetic.
        self.drained_at(now, self.debt, rate, window)?;
        let burst = self.burst_of(rate, now, amount, limit, policy);
        self.drained_at(now, self.debt.saturating_sub(fixed(burst - cost.min(burst))), rate, window)
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
        self.start(now);
        let left = self.debt_now(now, amount, limit, policy, guard);
        // More than one window's worth means nothing: by then every entry of the window has left it.
        self.debt = left.saturating_add(fixed(cost)).min(fixed(amount));
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
        self.debt = self.debt_now(now, amount, limit, policy, guard).saturating_sub(fixed(cost));
        self.debt_at = self.debt_at.max(now);
    }

    /// The most background may use of `amount`: while foreground wants the rest, or always under a hard cap.
    /// At least 1 where the share is not zero, for a share nobody can use is a stop.
    #[must_use]
    pub fn share_amount(&self, now: Timestamp, amount: u64, limit: &Limit, policy: &LanesPolicy) -> Option<u64> {
        let bound = match policy.mode {
            LanesMode::HardCap => true,
            LanesMode::ReservedWindow => self.contended_until(limit).is_some_and(|until| now < until),
        };
        bound.then(|| share_of(amount, policy))
    }

    /// When the last foreground backlog is a window old, so that [`Share::share_amount`] no longer binds; `None`:
    /// there was none.
    #[must_use]
    pub fn contended_until(&self, limit: &Limit) -> Option<Timestamp> {
        (self.backlog_at != Timestamp::NEVER).then(|| self.backlog_at.after(limit.window()))
    }

    /// β: how much background may take at once after a pause. At least 1, unless nothing is left to it.
    #[must_use]
    pub fn burst(&self, now: Timestamp, amount: u64, limit: &Limit, policy: &LanesPolicy) -> u64 {
        self.burst_of(self.capacity(now, amount, limit, policy), now, amount, limit, policy)
    }

    fn burst_of(&self, rate: u64, now: Timestamp, amount: u64, limit: &Limit, policy: &LanesPolicy) -> u64 {
        let window = window(limit);
        let slack = divided(u128::from(rate) * u128::from(PACE_SLACK_US), u128::from(window));
        let wanted = if window <= SHORT_WINDOW_US {
            policy.background_burst.floor_of(amount)
        } else {
            self.long_burst(now, amount, rate, limit, policy)
        };
        wanted.max(slack.saturating_add(1)).min(rate)
    }

    /// The formula for windows above 60 s: over the worst gap without a returning slot, `W·β/(N'−R)`, foreground may
    /// want half of the reserve it is not known to need. While nothing is known, it may want its whole share.
    fn long_burst(&self, now: Timestamp, amount: u64, rate: u64, limit: &Limit, policy: &LanesPolicy) -> u64 {
        let kept = amount.saturating_sub(rate);
        let spare = kept.saturating_sub(self.need_above(0, now, policy));
        let demand = self.demand(now, amount, limit, policy).max(1);
        let product = (u128::from(spare) * u128::from(rate)).saturating_mul(1 << PLACES);
        divided(product, 2 * u128::from(demand))
    }

    /// D̂: what foreground may want in one window.
    fn demand(&self, now: Timestamp, amount: u64, limit: &Limit, policy: &LanesPolicy) -> u64 {
        if policy.foreground_expected_per_hour.is_none() && !self.has_history(now, policy) {
            return fixed(amount - share_of(amount, policy));
        }
        let declared = policy.foreground_expected_per_hour.map_or(0, |operations| declared(operations, limit));
        let measured = DEMAND_FACTOR.ceil_of(self.measured(now, limit, policy));
        measured.max(declared).max(fixed(DEMAND_MIN.ceil_of(amount)))
    }

    /// λ̂·W: foreground cost expected in one window, from a decayed sum corrected for how short the history is.
    fn measured(&self, now: Timestamp, limit: &Limit, policy: &LanesPolicy) -> u64 {
        let half_life = micros(policy.half_life);
        let load = decayed(self.load, now.micros_since(self.arrived_at), half_life);
        if load == 0 {
            return 0;
        }
        let age = now.micros_since(self.started_at).max(micros(policy.history_min));
        let seen = (ONE - factor(age, half_life)) >> 32;
        let per_half_life =
            (u128::from(load) << PLACES).saturating_mul(u128::from(window(limit))) / u128::from(half_life.max(1));
        let rate = per_half_life.saturating_mul(LN_2) / seen.max(1); // both with 32 binary places
        clamp(rate >> PLACES)
    }

    fn has_history(&self, now: Timestamp, policy: &LanesPolicy) -> bool {
        self.started_at != Timestamp::NEVER && now.since(self.started_at) >= policy.history_min
    }

    /// `⌈reserve_factor · b̂⌉`, or anything up to `low` when it is not above `low`: spares the decay in the quiet case.
    fn need_above(&self, low: u64, now: Timestamp, policy: &LanesPolicy) -> u64 {
        let peak = needed(self.depth, policy);
        if peak <= low { peak } else { needed(self.depth_now(now, policy), policy) }
    }

    fn depth_now(&self, now: Timestamp, policy: &LanesPolicy) -> u64 {
        decayed(self.depth, now.micros_since(self.depth_at), micros(policy.half_life))
    }

    /// When `debt` has drained at `rate` per `window`; `None`: it has.
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

    /// What background may use in the long run, per window.
    fn capacity(&self, now: Timestamp, amount: u64, limit: &Limit, policy: &LanesPolicy) -> u64 {
        capacity_of(amount, self.reserve(now, amount, limit, policy), policy)
    }

    fn debt_now(&self, now: Timestamp, amount: u64, limit: &Limit, policy: &LanesPolicy, guard: &GuardPolicy) -> u64 {
        if self.debt == 0 {
            return 0;
        }
        let rate = self.capacity(now, amount, limit, policy);
        self.debt.saturating_sub(scaled(now.micros_since(self.debt_at), rate, guarded(limit, guard)))
    }

    fn start(&mut self, now: Timestamp) {
        self.started_at = self.started_at.min(now);
    }
}
