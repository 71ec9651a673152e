//! How long one operation waits after an attempt that failed for a reason other than our rate.
//!
//! Full jitter: a draw over the whole of `(0, min(2^(n-1) · first, longest)]`. Waiters that failed together part at once;
//! a fixed delay with a little jitter keeps them together. The draw is a stable hash of the operation and the attempt,
//! so a restart finds the same instant and a replay the same run.
//!
//! Not here: throttles. A 429 costs no attempt and has no backoff of its own; the breaker's one cooldown is shared.

use std::time::Duration;

use crate::engine::policy::RetryPolicy;
use crate::engine::spread::{mixed, scaled};
use crate::engine::time::micros;

/// The longest wait after the attempt with this number, from 1: the upper end of [`backoff`].
#[must_use]
pub fn ceiling(policy: &RetryPolicy, attempt: u32) -> Duration {
    let doublings = attempt.saturating_sub(1);
    let first = micros(policy.backoff);
    let grown = if doublings > first.leading_zeros() { u64::MAX } else { first << doublings.min(63) };
    Duration::from_micros(grown.min(micros(policy.backoff_max)).max(1))
}

/// The wait after the attempt with this number, from 1: above zero, at most [`ceiling`].
#[must_use]
pub fn backoff(policy: &RetryPolicy, id_hash: u64, attempt: u32) -> Duration {
    let longest = micros(ceiling(policy, attempt));
    Duration::from_micros(scaled(mixed(id_hash, u64::from(attempt)), longest).saturating_add(1).min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::spread::fnv1a;

    fn seconds(policy: &RetryPolicy, attempts: impl IntoIterator<Item = u32>) -> Vec<u64> {
        attempts.into_iter().map(|attempt| ceiling(policy, attempt).as_secs()).collect()
    }

    #[test]
    fn the_ceiling_doubles_from_the_first_backoff_to_the_longest() {
        let policy = RetryPolicy::default();
        assert_eq!(seconds(&policy, 1..=12), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
        assert_eq!(seconds(&policy, [0, 63, 64, 65, u32::MAX]), [1, 600, 600, 600, 600]);
    }

    #[test]
    fn draws_of_one_operation_are_these_numbers_for_ever() {
        let id = fnv1a(b"reset-01JAZ8YF4Q");
        let draws = [1, 2, 3, 8, 11].map(|attempt| backoff(&RetryPolicy::default(), id, attempt).as_micros());
        assert_eq!(draws, [223_558, 1_376_394, 2_412_829, 97_134_907, 427_877_178]);
    }

    #[test]
    fn draws_fill_the_whole_range_evenly() {
        let policy = RetryPolicy::default();
        for attempt in [1, 4, 11] {
            let longest = ceiling(&policy, attempt);
            let mut tenths = [0_u32; 10];
            for n in 0..10_000 {
                let wait = backoff(&policy, fnv1a(format!("operation-{n}").as_bytes()), attempt);
                assert!(!wait.is_zero() && wait <= longest);
                tenths[((wait.as_micros() - 1) * 10 / longest.as_micros()) as usize] += 1;
            }
            assert!(tenths.iter().all(|count| (900..=1_100).contains(count)), "attempt {attempt}: {tenths:?}");
        }
    }

    #[test]
    fn absurd_policies_still_wait_and_still_end() {
        let never = RetryPolicy { backoff: Duration::ZERO, backoff_max: Duration::ZERO, ..RetryPolicy::default() };
        assert_eq!(backoff(&never, 1, 1), Duration::from_micros(1));
        let long = RetryPolicy { backoff: Duration::MAX, backoff_max: Duration::MAX, ..RetryPolicy::default() };
        for attempt in [0, 1, 2, 64, u32::MAX] {
            assert!(!backoff(&long, u64::MAX, attempt).is_zero());
        }
    }
}
