//! The numbers of a ledger: how long a charge counts, on which grid, from which instant.

use crate::engine::limit::Limit;
use crate::engine::policy::GuardPolicy;
use crate::engine::time::micros;

/// The numbers that a limit and the guards come to, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// How long a charge counts after its completion.
    pub(super) span: u64,
    /// The grid to which completions are rounded up: the length of a sub-bucket, 1 for an exact window.
    grid: u64,
    /// The longest that one attempt can take.
    pub(super) attempt: u64,
    pub(super) entries_max: u32,
    pub(super) key: Key,
}

/// From which instant a charge counts down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Completion,
    /// The completion less what is known of the shortest round trip.
    Interval,
}

impl Rule {
    pub(super) fn new(limit: &Limit, guard: &GuardPolicy) -> Self {
        let window = micros(limit.window());
        let exact = limit.window() <= guard.exact_window_max && limit.amount() <= u64::from(guard.exact_entries_max);
        let buckets = u64::from(guard.sub_buckets.max(1));
        Self {
            span: guarded(window, guard.clock_error.as_ppm()),
            grid: if exact { 1 } else { window.div_ceil(buckets).max(1) },
            attempt: micros(guard.request_deadline_max),
            entries_max: guard.exact_entries_max.max(guard.sub_buckets.saturating_mul(4)),
            key: if limit.window() <= guard.interval_window_max { Key::Interval } else { Key::Completion },
        }
    }

    /// When a charge with this completion stops counting.
    pub(super) fn free_at(&self, completed: u64) -> u64 {
        if self.grid == 1 {
            return completed.saturating_add(self.span);
        }
        let end = completed.checked_next_multiple_of(self.grid).unwrap_or(u64::MAX);
        end.saturating_add(self.span)
    }
}

/// W/(1−ρ), rounded up: on a clock that may run ρ faster than the provider's, W has passed there after this. W(1+ρ)
/// would fall short by ρ²: 60 µs of a minute, 86 ms of a day. ρ above one half counts as one half.
pub(crate) fn guarded(window: u64, clock_error_ppm: u32) -> u64 {
    let rest = 1_000_000 - u128::from(clock_error_ppm.min(500_000));
    u64::try_from((u128::from(window) * 1_000_000).div_ceil(rest)).unwrap_or(u64::MAX)
}
