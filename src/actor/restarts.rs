//! How often an engine may fail before its mailbox is left alone.

use std::collections::VecDeque;

use crate::config::ActorsConfig;
use crate::engine::Timestamp;

#[derive(Debug, Default)]
pub(crate) struct Restarts {
    at: VecDeque<Timestamp>,
}

/// What follows a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Rebuild it; so many restarts in the running period.
    Rebuild(u32),
    /// Leave it to an operator.
    Hold(u32),
}

impl Restarts {
    /// Counts a failure at `now`.
    pub(crate) fn count(&mut self, now: Timestamp, settings: &ActorsConfig) -> Verdict {
        while self.at.front().is_some_and(|at| now.since(*at) >= settings.restart_period) {
            self.at.pop_front();
        }
        let so_far = u32::try_from(self.at.len()).unwrap_or(u32::MAX);
        if so_far >= settings.restarts_max {
            return Verdict::Hold(so_far);
        }
        self.at.push_back(now);
        Verdict::Rebuild(so_far + 1)
    }

    /// An operator has had a look: count anew.
    pub(crate) fn forgive(&mut self) {
        self.at.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::EPOCH.after(Duration::from_secs(seconds))
    }

    #[test]
    fn one_failure_more_than_allowed_within_the_period_holds() {
        let settings = ActorsConfig::default();
        let mut restarts = Restarts::default();
        for n in 1..=settings.restarts_max {
            assert_eq!(restarts.count(at(u64::from(n)), &settings), Verdict::Rebuild(n));
        }
        assert_eq!(restarts.count(at(60), &settings), Verdict::Hold(settings.restarts_max));
        // The first one, at second 1, is a period old at second 61 exactly.
        assert_eq!(restarts.count(at(61), &settings), Verdict::Rebuild(settings.restarts_max));
    }

    #[test]
    fn an_operator_resets_the_count() {
        let settings = ActorsConfig::default();
        let mut restarts = Restarts::default();
        for _ in 0..settings.restarts_max {
            let _ = restarts.count(at(1), &settings);
        }
        restarts.forgive();
        assert_eq!(restarts.count(at(1), &settings), Verdict::Rebuild(1));
    }
}
