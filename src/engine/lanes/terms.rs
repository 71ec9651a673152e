//! What one limit and a policy come to for the lanes: worked out once, and not at every decision.

use crate::engine::lanes::meter::{capacity_of, clamp_of, declared, divided, fixed, share_of, window};
use crate::engine::limit::Limit;
use crate::engine::policy::{LanesMode, LanesPolicy};
use crate::engine::ratio::Ratio;
use crate::engine::time::micros;

/// Demand is never taken below this part of the amount (algorithms 2.2).
const DEMAND_MIN: Ratio = Ratio::percent(5);
/// Windows up to this long take their background burst from the policy; longer ones from the formula (algorithms 2.2).
const SHORT_WINDOW_US: u64 = 60_000_000;

/// A burst is worth at least this much of the pace, else each late timer would cost throughput: a pace of one send per
/// 60 ms whose timer fires 1 ms late loses 1.7 %. At a pace slower than this the loss is below half a per cent.
const PACE_SLACK_US: u64 = 250_000;

/// The numbers of one limit at one effective amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// N', which all the others are of.
    pub(crate) amount: u64,
    /// The clamp of the reserve.
    pub(super) low: u64,
    pub(super) high: u64,
    /// What background may use while foreground wants the rest.
    pub(super) share: u64,
    /// W in microseconds.
    pub(super) window: u64,
    /// W(1+ρ).
    pub(super) guarded: u64,
    /// Background's burst by the policy, where the window is short.
    pub(super) burst: u64,
    /// D̂ while nothing is known of foreground; `None`: its load is declared.
    pub(super) demand_unknown: Option<u64>,
    /// D̂ at the least.
    pub(super) demand_least: u64,
    pub(super) half_life: u64,
    pub(super) history_min: u64,
    pub(super) reserve_factor: Ratio,
    pub(super) mode: LanesMode,
}

impl Terms {
    pub(crate) fn new(amount: u64, limit: &Limit, policy: &LanesPolicy, clock_error: Ratio) -> Self {
        let (low, high) = clamp_of(amount, policy);
        let (window, share) = (window(limit), share_of(amount, policy));
        let expected = policy.foreground_expected_per_hour;
        let declared = expected.map_or(0, |operations| declared(operations, limit));
        Self {
            amount,
            low,
            high,
            share,
            window,
            guarded: window.saturating_add(clock_error.ceil_of(window)),
            burst: policy.background_burst.floor_of(amount),
            demand_unknown: expected.is_none().then(|| fixed(amount - share.min(amount))),
            demand_least: declared.max(fixed(DEMAND_MIN.ceil_of(amount))),
            half_life: micros(policy.half_life),
            history_min: micros(policy.history_min),
            reserve_factor: policy.reserve_factor,
            mode: policy.mode,
        }
    }

    #[inline]
    pub(super) fn has_short_window(&self) -> bool {
        self.window <= SHORT_WINDOW_US
    }

    /// R, for so many slots that foreground is known to need.
    #[inline]
    pub(super) fn reserve_of(&self, need: u64) -> u64 {
        match self.mode {
            LanesMode::HardCap => 0,
            LanesMode::ReservedWindow => need.max(self.low).min(self.high),
        }
    }

    /// What every reserve leaves of the window.
    #[inline]
    pub(crate) fn room_at_least(&self) -> u64 {
        self.amount.saturating_sub(self.high)
    }

    /// A burst that is wanted, within what the pace needs and what its rate allows.
    pub(super) fn burst_within(&self, rate: u64, wanted: u64) -> u64 {
        let slack = divided(u128::from(rate) * u128::from(PACE_SLACK_US), u128::from(self.window));
        wanted.max(slack.saturating_add(1)).min(rate)
    }

    /// What is kept back beside a rate and not known to be needed.
    pub(super) fn spare(&self, rate: u64, need: u64) -> u64 {
        self.amount.saturating_sub(rate).saturating_sub(need)
    }

    /// What a reserve leaves to background.
    #[inline]
    pub(crate) fn capacity(&self, reserve: u64) -> u64 {
        capacity_of(self.amount, reserve, self.mode, self.share)
    }
}
