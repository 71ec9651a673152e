//! Seeded draws that are the same on every machine.
//!
//! The model must replay from one number, anywhere. A generator crate would do for the integers, but `f64::ln` and
//! `f64::exp` come from the platform's mathematical library and may differ in the last bit, and one bit in a latency
//! changes the order of two arrivals. So both are written out here in additions, multiplications and divisions, which
//! IEEE 754 fixes exactly. They are accurate to about 1e-12, far beyond what a latency needs.

use std::time::Duration;

use crate::engine::{Ratio, Timestamp};

/// A small generator (`SplitMix64`: Steele, Lea and Flood, 2014). Not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator; equal seeds draw equal numbers.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An independent generator for one purpose, so that drawing more for one changes nothing for the others.
    #[must_use]
    pub fn stream(seed: u64, purpose: u64) -> Self {
        let mut mixer = Self(seed ^ purpose.wrapping_mul(0xd1b5_4a32_d192_ed03));
        Self(mixer.next_u64())
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound` (0 when the bound is 0). The bias is below `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// Strictly between 0 and 1.
    fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / 9_007_199_254_740_992.0; // 2^-53
        ((self.next_u64() >> 11) as f64 + 0.5) * STEP
    }

    /// A standard normal draw, by Marsaglia's polar method.
    fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let s = x * x + y * y;
            if s > 0.0 && s < 1.0 {
                return x * (-2.0 * ln(s) / s).sqrt();
            }
        }
    }

    /// The gap to the next arrival of a Poisson process of `per_hour`; `None` when nothing arrives.
    pub fn poisson_gap(&mut self, per_hour: u32) -> Option<Duration> {
        if per_hour == 0 {
            return None;
        }
        let seconds = -ln(self.unit()) * 3_600.0 / f64::from(per_hour);
        Some(Duration::from_micros((seconds * 1e6) as u64))
    }
}

/// A lognormal span: half of the draws are below the median.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogNormal {
    /// Its median; zero means no latency at all.
    pub median: Duration,
    /// σ of its logarithm; 0.5 is 500,000 ppm. Cut at 8.
    pub sigma: Ratio,
}

impl LogNormal {
    /// Always nothing.
    pub const ZERO: Self = Self { median: Duration::ZERO, sigma: Ratio::ZERO };

    /// A lognormal span.
    #[must_use]
    pub const fn new(median: Duration, sigma: Ratio) -> Self {
        Self { median, sigma }
    }

    /// One draw, whole microseconds.
    pub fn draw(&self, random: &mut Random) -> Duration {
        let sigma = f64::from(self.sigma.as_ppm()) / 1e6;
        let median = Timestamp::EPOCH.after(self.median).as_micros() as f64;
        Duration::from_micros((median * exp(sigma.min(8.0) * random.normal())) as u64)
    }
}

/// Natural logarithm of a positive, normal number: the exponent, and a series in (m−1)/(m+1) for the mantissa.
fn ln(value: f64) -> f64 {
    let bits = value.to_bits();
    let exponent = f64::from(u32::try_from(bits >> 52).unwrap_or(0)) - 1_023.0;
    let mantissa = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let series = (0..16).rev().fold(0.0, |sum, k| sum * square + 1.0 / f64::from(2 * k + 1));
    exponent * std::f64::consts::LN_2 + 2.0 * ratio * series
}

/// e to the power of `x`, for |x| below 600: halve it until small, sum the series, square back.
fn exp(x: f64) -> f64 {
    let small = x.clamp(-600.0, 600.0) / 1_024.0;
    let series = (1..16).rev().fold(1.0, |sum, k| 1.0 + sum * small / f64::from(k));
    (0..10).fold(series, |power, _| power * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_logarithm_and_exponential_agree_with_the_platform() {
        for value in [1e-9, 0.1, 0.5, 0.999, 1.0, 1.5, 2.0, 10.0, 1e9] {
            assert!((ln(value) - value.ln()).abs() < 1e-9, "ln {value}");
        }
        for value in [-8.0_f64, -1.0, -1e-6, 0.0, 0.3, 1.0, 5.0, 20.0] {
            assert!((exp(value) / value.exp() - 1.0).abs() < 1e-9, "exp {value}");
        }
    }

    #[test]
    fn half_of_the_lognormal_draws_are_below_the_median_and_the_tail_is_where_it_belongs() {
        let (span, mut random) = (LogNormal::new(Duration::from_millis(250), Ratio::percent(50)), Random::new(7));
        let mut draws: Vec<_> = (0..20_000).map(|_| span.draw(&mut random).as_micros()).collect();
        draws.sort_unstable();
        let median = draws[10_000];
        assert!((245_000..255_000).contains(&median), "median {median}");
        let p99 = draws[19_800]; // 250 ms · e^(0.5 · 2.326) = 800 ms
        assert!((760_000..840_000).contains(&p99), "p99 {p99}");
    }

    #[test]
    fn poisson_gaps_have_the_mean_of_their_rate_and_rate_zero_has_none() {
        let mut random = Random::new(3);
        let total: Duration = (0..20_000).filter_map(|_| random.poisson_gap(3_600)).sum();
        assert!((19_500..20_500).contains(&total.as_secs()), "{total:?}");
        assert_eq!(random.poisson_gap(0), None);
    }

    #[test]
    fn draws_below_a_bound_stay_below_it() {
        let mut random = Random::new(1);
        assert!((0..10_000).all(|_| random.below(7) < 7));
        assert_eq!(random.below(0), 0);
        let ones = (0..10_000).filter(|_| random.below(10) == 1).count();
        assert!((850..1_150).contains(&ones), "{ones}");
    }

    #[test]
    fn streams_of_one_seed_differ() {
        assert_ne!(Random::stream(1, 1).next_u64(), Random::stream(1, 2).next_u64());
        assert_eq!(Random::stream(1, 1).next_u64(), Random::stream(1, 1).next_u64());
    }
}
