//! Where in time the parts of a resumption lie, from a hash instead of a dice roll.
//!
//! A stable hash of an operation's id gives the same instant after a restart, in another process and in a replay;
//! a random number gives a different one each time and must be stored to be explained.
//!
//! The hash is FNV-1a with 64 bits, the published one, so that others can compute the same offsets. It is written out
//! here because the engine takes no dependency for six lines, and because a `const fn` may pin its reference vectors.
//! Its low bits are good and its high bits are not, for short ids that differ at the end; `mixed` evens that out.
//!
//! Not promised: a spread as a cure for a storm. With n waiters and a rate r only `n ≤ r·spread` is safe, which is why
//! [`spread`] grows with the backlog, and why the pacer of the ledger, not the spread, is what keeps the limit.

use std::time::Duration;

use crate::engine::ratio::Ratio;
use crate::engine::time::micros;

/// How fast a scope can take operations: `amount` per `window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Operations per window; zero counts as one.
    pub amount: u64,
    /// The window.
    pub window: Duration,
}

/// FNV-1a, 64 bits.
#[must_use]
pub const fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    hash
}

/// A draw that belongs to `hash` and `number` (an attempt, an episode): uniform over all 64 bits.
///
/// The finalizer of splitmix64, a bijection: numbers of one hash never collide.
#[must_use]
pub(crate) const fn mixed(hash: u64, number: u64) -> u64 {
    let mut z = hash.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Over how long `backlog` operations resume: at least `base`, and long enough that `rate` can take them.
#[must_use]
pub fn spread(backlog: u64, base: Duration, rate: Rate) -> Duration {
    let needed = (u128::from(backlog) * u128::from(micros(rate.window))).div_ceil(u128::from(rate.amount.max(1)));
    base.max(Duration::from_micros(u64::try_from(needed).unwrap_or(u64::MAX)))
}

/// The offset of one operation within a spread, in `[0, spread)`. Microseconds apart for different ids: two out of a
/// thousand in 30 s coincide with a probability of 1.7 %.
#[must_use]
pub fn offset(id_hash: u64, spread: Duration) -> Duration {
    Duration::from_micros(scaled(mixed(id_hash, 0), micros(spread)))
}

/// A ratio in `[0, 1]` that belongs to one episode of one scope: what part of the allowed spread is added to a
/// Retry-After, so that the mailboxes of one application do not probe together.
#[must_use]
pub fn stable_fraction(scope_hash: u64, episode: u64) -> Ratio {
    // Below 1,000,001, so it fits.
    Ratio::ppm(scaled(mixed(scope_hash, episode), 1_000_001) as u32)
}

/// `draw / 2^64 · below`, rounded down: in `[0, below)`.
pub(crate) const fn scaled(draw: u64, below: u64) -> u64 {
    ((draw as u128 * below as u128) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const GRAPH: Rate = Rate { amount: 30, window: Duration::from_secs(60) };

    #[test]
    fn the_hash_gives_the_published_vectors() {
        const PINNED: u64 = fnv1a(b"foobar");
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(PINNED, 0x8594_4171_f739_67e8);
        assert_eq!(mixed(0, 0), 0xe220_a839_7b1d_cdaf, "the first output of splitmix64 for the seed 0");
    }

    #[test]
    fn the_spread_grows_once_the_backlog_outgrows_the_rate() {
        let base = 30 * SECOND;
        assert_eq!(spread(0, base, GRAPH), base);
        assert_eq!(spread(15, base, GRAPH), base);
        assert_eq!(spread(16, base, GRAPH), 32 * SECOND);
        assert_eq!(spread(1_100, base, GRAPH), 2_200 * SECOND);
    }

    #[test]
    fn absurd_spreads_saturate() {
        let none = Rate { amount: 0, window: Duration::MAX };
        assert_eq!(spread(u64::MAX, SECOND, none), Duration::from_micros(u64::MAX));
        assert!(offset(u64::MAX, Duration::MAX) < Duration::MAX);
        assert_eq!(offset(7, Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn offsets_stay_below_the_spread_fill_it_evenly_and_are_distinct() {
        let spread = 30 * SECOND;
        let mut tenths = [0_u32; 10];
        let mut seen = BTreeSet::new();
        for n in 0..10_000 {
            let offset = offset(fnv1a(format!("reset-{n}").as_bytes()), spread);
            assert!(offset < spread);
            tenths[(offset.as_millis() / 3_000) as usize] += 1;
            seen.insert(offset);
        }
        assert!(tenths.iter().all(|count| (900..=1_100).contains(count)), "{tenths:?}");
        // 10,000 draws from 30,000,000 microseconds: 1.7 coincidences expected.
        assert!(seen.len() >= 9_990, "{}", seen.len());
    }

    #[test]
    fn one_id_has_one_offset_for_ever() {
        assert_eq!(offset(fnv1a(b"reset-01JAZ8YF4Q"), 30 * SECOND), Duration::from_micros(25_741_700));
    }

    #[test]
    fn fractions_differ_between_episodes_and_never_leave_their_range() {
        let mut sum = 0_u64;
        for episode in 0..1_000 {
            let fraction = stable_fraction(fnv1a(b"mailbox:a@example.org"), episode);
            assert!(fraction <= Ratio::ONE);
            sum += u64::from(fraction.as_ppm());
        }
        assert!((470_000..530_000).contains(&(sum / 1_000)), "{sum}");
        assert_eq!(stable_fraction(1, 2), stable_fraction(1, 2));
        assert_ne!(stable_fraction(1, 2), stable_fraction(1, 3));
    }
}
