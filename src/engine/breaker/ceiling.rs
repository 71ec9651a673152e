//! The learned ceiling of one limit: after a trip, less than declared, then back on a cubic curve.
//!
//! A chain of refusals says that the declared number is wrong for now. The ceiling starts at a part of what was
//! accepted in the last window, stays flat near that amount while it tests it, and then rises ever faster, so a
//! lasting cut is respected and a past one forgotten. All integer: `x` is a fixed-point number in millionths.
//!
//! Not promised: that the ceiling is the provider's number. It only bounds how often we are wrong.

use std::time::Duration;

use crate::engine::limit::Limit;
use crate::engine::policy::BreakerPolicy;
use crate::engine::time::{Timestamp, micros};

use super::Breaker;
use super::memory::{CeilingMemory, rebased};

/// One, in millionths.
const UNIT: i128 = 1_000_000;

/// Past K the curve runs so many times as fast: the old amount was taken, so a cut that has ended shows within a sixth of K. It was
/// once, as CUBIC has it: then 2.5 K pass until twice the amount is tried, and a past cut is felt for twice as long (docs/decisions.md).
const PAST_K: i128 = 8;

/// A ceiling ends after this many K, whatever is declared: at 16 K the curve stands at a thousand times its start.
const LIFE_IN_K: u64 = 16;

/// One limit's learned ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ceiling {
    /// Which limit of the scope.
    pub(super) index: usize,
    /// When it was learned.
    learned_at: Timestamp,
    /// When it has no effect any more.
    pub(super) ends_at: Timestamp,
    /// What the last window took.
    w_max: u64,
    /// What is taken off at the start, in millionths of `w_max`.
    drop_ppm: u32,
    /// K in microseconds: when the curve is back at `w_max`.
    k: u64,
}

impl Ceiling {
    /// Learns that limit `index`, declared as `declared` per `window`, took `w_max`.
    pub(super) fn learn(
        now: Timestamp,
        index: usize,
        (declared, window): (u64, Duration),
        w_max: u64,
        policy: &BreakerPolicy,
    ) -> Self {
        let (least, most) = (policy.ceiling_recovery_min, policy.ceiling_recovery_max);
        let k = micros(window.saturating_mul(5).max(least).min(most)).max(1);
        let kept = policy.ceiling.as_ppm().min(1_000_000);
        let mut ceiling = Self {
            index,
            learned_at: now,
            ends_at: Timestamp::NEVER,
            w_max: w_max.max(1),
            drop_ppm: 1_000_000 - kept,
            k,
        };
        ceiling.ends_at = now.after(Duration::from_micros(ceiling.regained_after(declared)));
        ceiling
    }

    /// What of it outlives the process; `None` when its limit is not among `limits`.
    pub(super) fn memory(&self, limits: &[Limit]) -> Option<CeilingMemory> {
        let Self { learned_at, ends_at, w_max, drop_ppm, k, .. } = *self;
        limits.get(self.index).map(|limit| CeilingMemory { limit: *limit, learned_at, ends_at, w_max, drop_ppm, k })
    }

    /// The ceiling of an earlier life, if its limit is still declared. It goes on from its own start.
    pub(super) fn restored(now: Timestamp, of: &CeilingMemory, limits: &[Limit]) -> Option<Self> {
        let index = limits.iter().position(|limit| *limit == of.limit)?;
        Some(Self {
            index,
            learned_at: of.learned_at.min(now),
            ends_at: rebased(now, of.learned_at, of.ends_at),
            w_max: of.w_max.max(1),
            drop_ppm: of.drop_ppm.min(1_000_000),
            k: of.k.max(1),
        })
    }

    /// The most that the limit may hold at `now`; at least 1, so that the limit is always tried again.
    pub(super) fn at(&self, now: Timestamp) -> u64 {
        if now >= self.ends_at {
            return u64::MAX;
        }
        self.after(micros(now.since(self.learned_at)))
    }

    /// The first instant after `now` at which it is higher; `None` once it has ended.
    fn rises_at(&self, now: Timestamp) -> Option<Timestamp> {
        let current = self.at(now);
        let (mut low, mut high) = (micros(now.since(self.learned_at)), micros(self.ends_at.since(self.learned_at)));
        if now >= self.ends_at {
            return None;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.after(middle) > current {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Some(self.learned_at.after(Duration::from_micros(high)))
    }

    fn after(&self, elapsed: u64) -> u64 {
        let (k, w_max) = (i128::from(self.k), i128::from(self.w_max));
        let elapsed = i128::from(elapsed).min(k * i128::from(LIFE_IN_K));
        let x = (elapsed - k) * UNIT / k;
        let x = if x > 0 { x * PAST_K } else { x };
        let cube = x * x * x / (UNIT * UNIT);
        let moved = (w_max * i128::from(self.drop_ppm) * cube).div_euclid(UNIT * UNIT);
        u64::try_from((w_max + moved).max(1)).unwrap_or(u64::MAX)
    }

    /// Microseconds until the curve has regained `declared`, at most the ceiling's life. The curve only rises.
    fn regained_after(&self, declared: u64) -> u64 {
        let (mut low, mut high) = (0, self.k.saturating_mul(LIFE_IN_K));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.after(middle) >= declared {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

impl Breaker {
    /// When a learned ceiling is higher next: what was named by it until then comes sooner.
    pub(crate) fn rises_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.active.as_ref()?.ceilings.iter().filter_map(|one| one.rises_at(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(w_max: u64, declared: u64, window_s: u64) -> Ceiling {
        let window = Duration::from_secs(window_s);
        Ceiling::learn(Timestamp::EPOCH, 0, (declared, window), w_max, &BreakerPolicy::default())
    }

    fn second(s: u64) -> Timestamp {
        Timestamp::from_micros(s * 1_000_000)
    }

    #[test]
    fn the_curve_starts_at_seven_tenths_and_meets_the_old_amount_at_k() {
        let ceiling = learned(30, 60, 60);
        let table = [(0, 21), (90, 26), (180, 28), (270, 29), (360, 30), (405, 39), (427, 59)];
        for (at, expected) in table {
            assert_eq!(ceiling.at(second(at)), expected, "at {at} s");
        }
    }

    #[test]
    fn it_ends_at_the_very_instant_at_which_the_declared_amount_is_regained() {
        let ceiling = learned(15, 30, 60);
        let before = Timestamp::from_micros(ceiling.ends_at.as_micros() - 1);
        assert_eq!(ceiling.at(before), 29);
        assert_eq!(ceiling.at(ceiling.ends_at), u64::MAX);
    }

    #[test]
    fn hostile_amounts_and_windows_neither_panic_nor_block_for_ever() {
        for (w_max, declared, window) in [(0, u64::MAX, 0), (u64::MAX, u64::MAX, u64::MAX), (1, 1, 1), (0, 0, 60)] {
            let ceiling = learned(w_max, declared, window);
            assert!(ceiling.at(Timestamp::EPOCH) >= 1);
            assert!(ceiling.ends_at <= second(16 * 7_200));
            assert_eq!(ceiling.at(Timestamp::NEVER), u64::MAX);
        }
    }

    #[test]
    fn the_next_rise_is_named_to_the_microsecond() {
        let ceiling = learned(15, 30, 60);
        let (mut now, mut rises) = (Timestamp::EPOCH, 0);
        while let Some(at) = ceiling.rises_at(now) {
            assert_eq!(ceiling.at(at.before(Duration::from_micros(1))), ceiling.at(now));
            assert!(at > now && ceiling.at(at) > ceiling.at(now));
            (now, rises) = (at, rises + 1);
        }
        assert!(now == ceiling.ends_at && rises <= 30, "{rises} rises until {now:?}");
    }

    #[test]
    fn the_curve_never_falls() {
        let ceiling = learned(7, 400, 3_600);
        let values: Vec<u64> = (0..8_000).map(|s| ceiling.at(second(s))).collect();
        assert!(values.windows(2).all(|pair| pair[0] <= pair[1]));
    }
}
