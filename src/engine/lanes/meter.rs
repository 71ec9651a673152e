//! The integer arithmetic of the lanes: parts of an amount, fixed-point meters, divisions that stay narrow.
//!
//! A wide division costs ten times a narrow one and a decision makes many, so each is narrow where the numbers allow
//! it. Everything rounds as its name says and saturates.

use crate::engine::cost::Unit;
use crate::engine::limit::Limit;
use crate::engine::policy::{LanesMode, LanesPolicy};
use crate::engine::ratio::Ratio;
use crate::engine::time::micros;

const HOUR_US: u128 = 3_600_000_000;
/// Binary places of every meter.
pub(super) const PLACES: u32 = 16;

/// The clamp of the reserve. Rounding never lets the lower end close the lane: it gives way where the upper end is
/// lower, unless the lower one is a whole slot by itself.
pub(crate) fn clamp_of(amount: u64, policy: &LanesPolicy) -> (u64, u64) {
    let rest = Ratio::ppm(Ratio::ONE.as_ppm().saturating_sub(policy.background_share.as_ppm()));
    let high = policy.reserve_max.min(rest).floor_of(amount).max(policy.reserve_min.floor_of(amount)).min(amount);
    (policy.reserve_min.ceil_of(amount).min(high), high)
}

/// What a reserve leaves to background, whose share is `share`.
#[inline]
pub(super) fn capacity_of(amount: u64, reserve: u64, mode: LanesMode, share: u64) -> u64 {
    match mode {
        LanesMode::HardCap => share,
        LanesMode::ReservedWindow => amount - reserve.min(amount),
    }
}

pub(super) fn share_of(amount: u64, policy: &LanesPolicy) -> u64 {
    let least = u64::from(amount > 0 && policy.background_share > Ratio::ZERO);
    policy.background_share.floor_of(amount).clamp(least, amount.max(least))
}

/// The declared foreground load in this limit's unit, per window.
pub(super) fn declared(operations: u32, limit: &Limit) -> u64 {
    let cost = u128::from(operations) * u128::from(typical_cost(limit.unit()));
    divided((cost << PLACES).saturating_mul(u128::from(window(limit))), HOUR_US)
}

/// What one ordinary foreground email takes, for a declared load that has not been seen yet: one recipient, 75 kB,
/// and Gmail's price of a send. Measured costs replace it when they are higher.
const fn typical_cost(unit: Unit) -> u64 {
    match unit {
        Unit::Requests | Unit::Recipients | Unit::ExternalRecipients => 1,
        Unit::Bytes => 75_000,
        Unit::QuotaUnits => 100,
    }
}

#[inline]
pub(super) fn needed(depth: u64, reserve_factor: Ratio) -> u64 {
    let scale = 1_000_000 << PLACES;
    match depth.checked_mul(u64::from(reserve_factor.as_ppm())) {
        Some(product) => product.div_ceil(scale),
        None => clamp((u128::from(depth) * u128::from(reserve_factor.as_ppm())).div_ceil(u128::from(scale))),
    }
}

pub(super) fn window(limit: &Limit) -> u64 {
    micros(limit.window()).max(1)
}

/// `elapsed · rate / window` in a meter's places, rounded down.
pub(super) fn scaled(elapsed: u64, rate: u64, window: u64) -> u64 {
    // Narrow division where the numbers allow it: it is four times as fast.
    if let Some(product) = elapsed.checked_mul(rate).and_then(|product| product.checked_mul(1 << PLACES)) {
        return product / window;
    }
    divided((u128::from(elapsed) * u128::from(rate)).saturating_mul(1 << PLACES), u128::from(window))
}

pub(super) const fn fixed(units: u64) -> u64 {
    units.saturating_mul(1 << PLACES)
}

/// `wide / by`, rounded down, saturating: by the narrow division where the numbers allow it.
pub(super) fn divided(wide: u128, by: u128) -> u64 {
    match (u64::try_from(wide), u64::try_from(by)) {
        (Ok(wide), Ok(by)) => wide / by,
        _ => clamp(wide / by),
    }
}

pub(super) fn clamp(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}
