//! How long one operation waits after an attempt that failed for a reason other than our rate.
//!
//! Full jitter: a draw over the whole of `(0, min(2^k · first, longest)]`. Waiters that failed together part at once;
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
