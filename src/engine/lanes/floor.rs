//! What keeps background alive while foreground alone uses the whole budget.
//!
//! Strict priority starves: a foreground load above the limit would stop every campaign for good, and so does one below it
//! that leaves no more than the reserve. After foreground alone has used everything for longer than one window, one
//! grant in twenty goes to background (algorithms 2.2). A grant
//! that is due by the floor is judged by foreground's rule: it ignores reserve, pace and share, for at saturation none
//! of them would ever let it pass.
//!
//! Not promised: a part of *time* or of weighted cost. The floor counts grants.

use std::time::Duration;

use crate::engine::lane::Lane;
use crate::engine::policy::LanesPolicy;
use crate::engine::time::Timestamp;

/// The background floor of one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// Since when foreground has had a backlog without a break; `NEVER`: it has none.
    backlogged_since: Timestamp,
    /// The first foreground grant since background last had one by its own lane's rule; `NEVER`: none.
    alone_since: Timestamp,
    /// Foreground grants since the last background one.
    foreground_grants: u32,
}

impl Default for Floor {
    fn default() -> Self {
        Self::new()
    }
}

impl Floor {
    /// Nothing backlogged, nothing granted.
    #[must_use]
    pub const fn new() -> Self {
        Self { backlogged_since: Timestamp::NEVER, alone_since: Timestamp::NEVER, foreground_grants: 0 }
    }

    /// Foreground waits and cannot go at once. Call as often as you like: only the first call of a backlog counts.
    pub fn on_foreground_backlog(&mut self, now: Timestamp) {
        self.backlogged_since = self.backlogged_since.min(now);
    }

    /// Foreground's lane is empty: the next backlog starts anew. What it was granted meanwhile stays counted.
    pub fn on_foreground_idle(&mut self) {
        self.backlogged_since = Timestamp::NEVER;
    }

    /// Nothing waits: nobody starves.
    pub fn on_idle(&mut self) {
        *self = Self::new();
    }

    /// Something was granted in `lane`, by that lane's own rule.
    pub fn on_grant(&mut self, now: Timestamp, lane: Lane) {
        match lane {
            Lane::Foreground => {
                self.backlogged_since = self.backlogged_since.min(now);
                self.alone_since = self.alone_since.min(now);
                self.foreground_grants = self.foreground_grants.saturating_add(1);
            }
            Lane::Background => (self.alone_since, self.foreground_grants) = (Timestamp::NEVER, 0),
        }
    }

    /// Background was granted what the floor owed it.
    pub fn on_floor_grant(&mut self) {
        self.foreground_grants = 0;
    }

    /// Whether the next grant is background's although foreground waits. `window` is the shortest one declared.
    #[must_use]
    pub fn due(&self, now: Timestamp, policy: &LanesPolicy, window: Duration) -> bool {
        self.is_owed(policy) && is_past(self.backlogged_since, now, window)
    }

    /// The same while foreground does not wait, where its own use alone shuts background out: the caller knows whether
    /// it does.
    #[must_use]
    pub fn due_alone(&self, now: Timestamp, policy: &LanesPolicy, window: Duration) -> bool {
        self.is_owed(policy) && is_past(self.alone_since, now, window)
    }

    /// Whether foreground has had so many grants that the next may be background's, once a window has passed.
    #[inline]
    pub(crate) fn is_owed(&self, policy: &LanesPolicy) -> bool {
        let part = u64::from(policy.background_floor.as_ppm());
        part > 0 && u64::from(self.foreground_grants) * part >= 1_000_000_u64.saturating_sub(part)
    }
}

/// Whether `since` is longer ago than a window.
fn is_past(since: Timestamp, now: Timestamp, window: Duration) -> bool {
    since != Timestamp::NEVER && now.since(since) > window
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ratio::Ratio;

    const WINDOW: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    /// Grants one per second under a foreground that always waits; returns which seconds went to background.
    fn background_seconds(policy: &LanesPolicy, seconds: u64) -> Vec<u64> {
        let mut floor = Floor::new();
        let mut background = Vec::new();
        for second in 0..seconds {
            floor.on_foreground_backlog(at(second));
            let lane = if floor.due(at(second), policy, WINDOW) { Lane::Background } else { Lane::Foreground };
            if lane == Lane::Background {
                background.push(second);
            }
            match lane {
                Lane::Foreground => floor.on_grant(at(second), lane),
                Lane::Background => floor.on_floor_grant(),
            }
        }
        background
    }

    #[test]
    fn one_grant_in_twenty_goes_to_background_once_a_window_has_passed() {
        let got = background_seconds(&LanesPolicy::default(), 141);
        assert_eq!(got, [61, 81, 101, 121]);
    }

    #[test]
    fn exactly_one_window_of_backlog_is_not_longer_than_a_window() {
        let mut floor = Floor::new();
        floor.on_foreground_backlog(at(0));
        for _ in 0..19 {
            floor.on_grant(at(1), Lane::Foreground);
        }
        let policy = LanesPolicy::default();
        assert!(!floor.due(at(60), &policy, WINDOW));
        assert!(floor.due(Timestamp::from_micros(60_000_001), &policy, WINDOW));
    }

    #[test]
    fn a_break_in_the_backlog_starts_the_window_anew() {
        let mut floor = Floor::new();
        floor.on_foreground_backlog(at(0));
        for _ in 0..50 {
            floor.on_grant(at(1), Lane::Foreground);
        }
        floor.on_foreground_idle();
        assert!(!floor.due(at(1_000), &LanesPolicy::default(), WINDOW));
    }

    #[test]
    fn what_foreground_had_alone_is_counted_over_its_pauses_until_background_has_its_own() {
        let policy = LanesPolicy::default();
        let mut floor = Floor::new();
        for second in 0..19 {
            floor.on_grant(at(second * 4), Lane::Foreground);
            floor.on_foreground_idle();
        }
        assert!(!floor.due(at(100), &policy, WINDOW), "it does not wait");
        assert!(floor.due_alone(at(100), &policy, WINDOW));
        assert!(!floor.due_alone(at(60), &policy, WINDOW), "longer than a window");
        floor.on_floor_grant();
        assert!(!floor.due_alone(at(100), &policy, WINDOW));
        (0..19).for_each(|_| floor.on_grant(at(100), Lane::Foreground));
        assert!(floor.due_alone(at(101), &policy, WINDOW), "one in twenty from then on");
        floor.on_grant(at(101), Lane::Background);
        (0..19).for_each(|_| floor.on_grant(at(102), Lane::Foreground));
        assert!(!floor.due_alone(at(103), &policy, WINDOW), "background had its own");
    }

    #[test]
    fn a_floor_of_zero_never_comes_due_and_one_of_all_always_does() {
        let none = LanesPolicy { background_floor: Ratio::ZERO, ..LanesPolicy::default() };
        assert!(background_seconds(&none, 1_000).is_empty());
        let all = LanesPolicy { background_floor: Ratio::ONE, ..LanesPolicy::default() };
        assert_eq!(background_seconds(&all, 64), [61, 62, 63]);
    }
}
