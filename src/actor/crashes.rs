//! Which operations have crashed their worker, and how often: the engine that is dealing with one, or the transport.
//!
//! One list for the process, because neither an engine nor an actor outlives what is counted here. What is not promised:
//! that a count outlives the process. An operation that crashes the process itself is unknown after each restart, and
//! set aside or repeated as the policy for those says.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::engine::OperationKey;
use crate::engine::mailbox::Outcome;

/// Operations counted at once, at most; above it the oldest is forgotten.
const COUNTED_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub(crate) struct Crashes {
    counts: Mutex<BTreeMap<OperationKey, u32>>,
}

impl Crashes {
    fn counts(&self) -> MutexGuard<'_, BTreeMap<OperationKey, u32>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one crash, if anybody knows whose, and says how many that operation has now.
    pub(crate) fn count(&self, culprit: Option<OperationKey>) -> u32 {
        let Some(key) = culprit else { return 0 };
        let mut counts = self.counts();
        if counts.len() >= COUNTED_MAX && !counts.contains_key(&key) {
            counts.pop_first();
        }
        let count = counts.entry(key).or_default();
        *count = count.saturating_add(1);
        *count
    }

    pub(crate) fn of(&self, key: OperationKey) -> u32 {
        self.counts().get(&key).copied().unwrap_or_default()
    }

    /// An operation has come to an end. One that was set aside may come back, and has crashed as often then.
    pub(crate) fn concluded(&self, key: OperationKey, outcome: &Outcome) {
        if !matches!(outcome, Outcome::Quarantined | Outcome::Unknown) {
            self.counts().remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_one_that_was_set_aside_stays_and_the_oldest_goes_above_the_bound() {
        let crashes = Crashes::default();
        assert_eq!(crashes.count(None), 0);
        for number in 0..COUNTED_MAX as u64 {
            assert_eq!(crashes.count(Some(OperationKey(number))), 1);
        }
        assert_eq!(crashes.count(Some(OperationKey(5))), 2);
        crashes.concluded(OperationKey(5), &Outcome::Quarantined);
        crashes.concluded(OperationKey(6), &Outcome::Cancelled);
        assert_eq!((crashes.of(OperationKey(5)), crashes.of(OperationKey(6))), (2, 0));
        assert_eq!(crashes.count(Some(OperationKey(2_000))), 1);
        assert_eq!((crashes.of(OperationKey(0)), crashes.counts().len()), (1, COUNTED_MAX));
        assert_eq!(crashes.count(Some(OperationKey(2_001))), 1);
        assert_eq!((crashes.of(OperationKey(0)), crashes.counts().len()), (0, COUNTED_MAX));
    }
}
