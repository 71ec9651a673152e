//! Shares and factors as integers, so that no decision depends on floating point.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A non-negative factor in parts per million. `Ratio::percent(50)` is one half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ratio(u32);

impl Ratio {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The whole.
    pub const ONE: Self = Self(1_000_000);

    /// `percent` hundredths.
    #[must_use]
    pub const fn percent(percent: u32) -> Self {
        Self(percent.saturating_mul(10_000))
    }

    /// `ppm` millionths.
    #[must_use]
    pub const fn ppm(ppm: u32) -> Self {
        Self(ppm)
    }

    /// This ratio in millionths.
    #[must_use]
    pub const fn as_ppm(self) -> u32 {
        self.0
    }

    /// `⌊self · whole⌋`, saturating.
    #[must_use]
    pub fn floor_of(self, whole: u64) -> u64 {
        // Narrow where the numbers allow it: a wide division costs ten times as much, and decisions make many.
        match whole.checked_mul(u64::from(self.0)) {
            Some(product) => product / 1_000_000,
            None => clamp(u128::from(whole) * u128::from(self.0) / 1_000_000),
        }
    }

    /// `⌈self · whole⌉`, saturating.
    #[must_use]
    pub fn ceil_of(self, whole: u64) -> u64 {
        match whole.checked_mul(u64::from(self.0)) {
            Some(product) => product.div_ceil(1_000_000),
            None => clamp((u128::from(whole) * u128::from(self.0)).div_ceil(1_000_000)),
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 10_000, self.0 % 10_000);
        if rest == 0 {
            write!(f, "{whole}%")
        } else {
            write!(f, "{}%", format!("{whole}.{rest:04}").trim_end_matches('0'))
        }
    }
}

fn clamp(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}
