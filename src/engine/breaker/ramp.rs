//! The ramp after half-open: a pace that doubles until the full rate is back.
//!
//! A pace and not a random spread: spreading n sends over S is safe only if S ≥ n·W/N, and a pacer is exactly that
//! spread for every n. The pace follows the limit in requests with the lowest rate; a scope without limits in
//! requests follows its shortest window, and a scope without limits has no rate to ramp up to and is not paced.

use std::time::Duration;

use crate::engine::cost::Unit;
use crate::engine::limit::Limit;
use crate::engine::policy::BreakerPolicy;
use crate::engine::time::{Timestamp, micros};

/// Least part of the rate that a ramp starts at, in millionths: a ramp that starts at nothing never starts.
const START_PPM_MIN: u64 = 10_000;

/// A running ramp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ramp {
    started_at: Timestamp,
    /// The next send goes at this instant or later.
    pub(super) next_at: Timestamp,
    /// The full rate is back.
    pub(super) ends_at: Timestamp,
    start_ppm: u64,
    doublings: u32,
}

impl Ramp {
    /// A ramp that begins now; `None` when the policy has none.
    pub(super) fn begin(now: Timestamp, policy: &BreakerPolicy) -> Option<Self> {
        let start_ppm = u64::from(policy.ramp_start.as_ppm()).max(START_PPM_MIN);
        let doublings = (0..8).find(|n| start_ppm << n >= 1_000_000).unwrap_or(8);
        (doublings > 0 && !policy.ramp.is_zero()).then(|| Self {
            started_at: now,
            next_at: now,
            ends_at: now.after(policy.ramp),
            start_ppm,
            doublings,
        })
    }

    /// A send started: the next one waits for the gap of this instant's pace.
    pub(super) fn on_start(&mut self, now: Timestamp, limits: &[Limit], amount: impl Fn(usize, u64) -> u64) {
        let Some((index, limit)) = pacing(limits) else { return };
        let (window, amount) = (u128::from(micros(limit.window())), amount(index, limit.amount()));
        let gap = window * 1_000_000 / (u128::from(amount.max(1)) * u128::from(self.factor_ppm(now))).max(1);
        let gap = Duration::from_micros(u64::try_from(gap).unwrap_or(u64::MAX));
        self.next_at = self.next_at.max(now.after(gap)).min(self.ends_at);
    }

    /// The part of the full rate at `now`, in millionths: doubles, and rises evenly within each doubling.
    pub(super) fn factor_ppm(&self, now: Timestamp) -> u64 {
        let whole = micros(self.ends_at.since(self.started_at)).max(1);
        let elapsed = micros(now.since(self.started_at)).min(whole);
        let progress = u128::from(elapsed) * u128::from(self.doublings) * 1_000_000 / u128::from(whole);
        let (step, within) = (progress / 1_000_000, progress % 1_000_000);
        let base = u128::from(self.start_ppm) << step;
        u64::try_from((base + base * within / 1_000_000).min(1_000_000)).unwrap_or(1_000_000)
    }
}

/// The limit whose rate the ramp follows.
fn pacing(limits: &[Limit]) -> Option<(usize, &Limit)> {
    let rate = |limit: &Limit| {
        // Compared as N/W in millionths per second; windows of zero are faster than all others.
        u128::from(limit.amount()) * 1_000_000_000_000 / u128::from(micros(limit.window())).max(1)
    };
    let requests = limits.iter().enumerate().filter(|(_, limit)| limit.unit() == Unit::Requests);
    let slowest = requests.min_by_key(|(_, limit)| rate(limit));
    slowest.or_else(|| limits.iter().enumerate().min_by_key(|(_, limit)| limit.window()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_goes_from_a_quarter_to_one_in_two_doublings() {
        let ramp = Ramp::begin(Timestamp::EPOCH, &BreakerPolicy::default()).expect("the default policy has a ramp");
        let table = [
            (0, 250_000),
            (7_500, 375_000),
            (15_000, 500_000),
            (22_500, 750_000),
            (30_000, 1_000_000),
            (99_000, 1_000_000),
        ];
        for (at_ms, expected) in table {
            assert_eq!(ramp.factor_ppm(Timestamp::from_micros(at_ms * 1_000)), expected, "at {at_ms} ms");
        }
    }

    #[test]
    fn a_policy_without_a_ramp_has_none() {
        let flat = BreakerPolicy { ramp: Duration::ZERO, ..BreakerPolicy::default() };
        assert_eq!(Ramp::begin(Timestamp::EPOCH, &flat), None);
        let full = BreakerPolicy { ramp_start: crate::engine::ratio::Ratio::ONE, ..BreakerPolicy::default() };
        assert_eq!(Ramp::begin(Timestamp::EPOCH, &full), None);
    }

    #[test]
    fn without_limits_the_ramp_does_not_pace() {
        let mut ramp = Ramp::begin(Timestamp::EPOCH, &BreakerPolicy::default()).expect("the default policy has a ramp");
        ramp.on_start(Timestamp::EPOCH, &[], |_, declared| declared);
        assert_eq!(ramp.next_at, Timestamp::EPOCH);
    }
}
