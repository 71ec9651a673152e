//! Which operations have crashed their worker, and how often.
//!
//! A panic is caught, and it is known on which operation: the one that the engine was dealing with, or that the transport
//! was sending. A process that dies tells nothing, so what was on its way then is suspected, all of it: whoever reads
//! an attempt back that is still out has outlived it. One of them may have been the cause and the others its company, so
//! suspects are sent one at a time, and one whose attempt comes to any end is cleared of the deaths.
//!
//! A count is a note in the outbox. No send writes one: what is suspected is written with the record that makes it unknown,
//! which is before it can be sent again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::mailbox::Outcome;
use super::operation::OperationKey;
use super::time::Timestamp;

/// Operations counted at once, at most; above it the oldest is forgotten.
const COUNTED_MAX: usize = 10_000;

/// How often an operation has crashed its worker (`retry.crashes_max`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashNote {
    /// Panics of the engine or the transport on it.
    #[serde(default)]
    pub panics: u32,
    /// Processes that died in a row while it was on its way, whoever was to blame.
    #[serde(default)]
    pub deaths: u32,
    /// The last attempt that is counted, so that none is twice.
    #[serde(default)]
    pub attempt: u32,
}

impl CrashNote {
    /// All of them.
    #[must_use]
    pub const fn crashes(&self) -> u32 {
        self.panics.saturating_add(self.deaths)
    }
}

/// The counts of one process, for all of its mailboxes.
#[derive(Debug)]
pub struct Crashes {
    /// What was claimed before this was claimed by an earlier process.
    born: Timestamp,
    counts: BTreeMap<OperationKey, CrashNote>,
    /// The suspect that is on its way, and when that is over at the latest.
    alone: Option<(OperationKey, Timestamp)>,
}

impl Crashes {
    /// For a process that begins at `born`.
    #[must_use]
    pub const fn new(born: Timestamp) -> Self {
        Self { born, counts: BTreeMap::new(), alone: None }
    }

    fn count_of(&mut self, key: OperationKey) -> &mut CrashNote {
        if self.counts.len() >= COUNTED_MAX && !self.counts.contains_key(&key) {
            self.counts.pop_first();
        }
        self.counts.entry(key).or_default()
    }

    /// When the process began.
    #[must_use]
    pub const fn born(&self) -> Timestamp {
        self.born
    }

    /// Counts one panic, if anybody knows whose, and says how many crashes that operation has now. Of its attempt that was
    /// under way, if one was: that is not counted again should the process die of it.
    pub fn count(&mut self, culprit: Option<OperationKey>, attempt: Option<u32>) -> u32 {
        let Some(key) = culprit else { return 0 };
        let count = self.count_of(key);
        count.panics = count.panics.saturating_add(1);
        count.attempt = attempt.unwrap_or(count.attempt);
        count.crashes()
    }

    /// An earlier process died while `attempt` was under way. False where that has been counted.
    pub fn died(&mut self, key: OperationKey, attempt: u32) -> bool {
        let count = self.count_of(key);
        if count.attempt == attempt {
            return false;
        }
        (count.deaths, count.attempt) = (count.deaths.saturating_add(1), attempt);
        true
    }

    /// An attempt has come to an end: this process did not die of it. True where that clears the operation.
    pub fn survived(&mut self, key: OperationKey) -> bool {
        self.counts.get_mut(&key).is_some_and(|count| std::mem::take(&mut count.deaths) > 0)
    }

    /// Takes in what an earlier process had counted. What this one knows is newer.
    pub fn restore(&mut self, key: OperationKey, kept: CrashNote) {
        if !self.counts.contains_key(&key) {
            *self.count_of(key) = kept;
        }
    }

    /// A person lets one go on that was set aside: it may go once more, and one more crash sets it aside again. True where
    /// its count is another one now.
    pub fn pardon(&mut self, key: OperationKey, crashes_max: u32) -> bool {
        let Some(count) = self.counts.get_mut(&key) else { return false };
        let (before, most) = (*count, crashes_max.saturating_sub(1));
        count.deaths = count.deaths.min(most);
        count.panics = count.panics.min(most - count.deaths);
        *count != before
    }

    /// How often an operation has crashed its worker.
    #[must_use]
    pub fn of(&self, key: OperationKey) -> u32 {
        self.counts.get(&key).map_or(0, CrashNote::crashes)
    }

    /// What is to be kept of an operation.
    #[must_use]
    pub fn kept(&self, key: OperationKey) -> Option<CrashNote> {
        self.counts.get(&key).copied().filter(|count| count.crashes() > 0)
    }

    /// Whether an operation may be on its way until `until` at the latest. Those that a process may have died of wait for
    /// each other.
    #[must_use]
    pub fn may_go(&mut self, key: OperationKey, now: Timestamp, until: Timestamp) -> bool {
        if self.counts.get(&key).is_none_or(|count| count.deaths == 0) {
            return true;
        }
        if self.alone.is_some_and(|(other, over_at)| other != key && over_at > now) {
            return false;
        }
        self.alone = Some((key, until));
        true
    }

    /// It is not on its way any more.
    pub fn landed(&mut self, key: OperationKey) {
        self.alone.take_if(|(alone, _)| *alone == key);
    }

    /// An operation has come to an end. One that was set aside may come back, and has crashed as often then. True where
    /// something was known of it.
    pub fn concluded(&mut self, key: OperationKey, outcome: &Outcome) -> bool {
        !matches!(outcome, Outcome::Quarantined | Outcome::Unknown) && self.counts.remove(&key).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const T0: Timestamp = Timestamp::EPOCH;

    fn at(seconds: u64) -> Timestamp {
        T0.after(Duration::from_secs(seconds))
    }

    #[test]
    fn the_count_of_one_that_was_set_aside_stays_and_the_oldest_goes_above_the_bound() {
        let mut crashes = Crashes::new(T0);
        assert_eq!(crashes.count(None, None), 0);
        for number in 0..COUNTED_MAX as u64 {
            assert_eq!(crashes.count(Some(OperationKey(number)), None), 1);
        }
        assert_eq!(crashes.count(Some(OperationKey(5)), None), 2);
        assert!(!crashes.concluded(OperationKey(5), &Outcome::Quarantined));
        assert!(crashes.concluded(OperationKey(6), &Outcome::Cancelled { maybe_sent: false }));
        assert_eq!((crashes.of(OperationKey(5)), crashes.of(OperationKey(6))), (2, 0));
        assert_eq!(crashes.count(Some(OperationKey(20_000)), None), 1);
        assert_eq!((crashes.of(OperationKey(0)), crashes.counts.len()), (1, COUNTED_MAX));
        assert_eq!(crashes.count(Some(OperationKey(20_001)), None), 1);
        assert_eq!((crashes.of(OperationKey(0)), crashes.counts.len()), (0, COUNTED_MAX));
    }

    #[test]
    fn a_death_counts_once_per_attempt_after_what_is_kept_and_not_after_its_panic() {
        let (mut crashes, key) = (Crashes::new(T0), OperationKey(1));
        crashes.restore(key, CrashNote { panics: 1, deaths: 1, attempt: 2 });
        assert!(!crashes.died(key, 2), "it was counted before the last death");
        assert!(crashes.died(key, 3));
        crashes.restore(key, CrashNote::default());
        assert_eq!((crashes.of(key), crashes.died(key, 3)), (3, false), "what was kept is old");
        assert_eq!(crashes.count(Some(key), Some(4)), 4);
        assert!(!crashes.died(key, 4), "a panic that ended the process is one crash");
        assert!(crashes.survived(key) && !crashes.survived(key));
        assert_eq!(crashes.kept(key), Some(CrashNote { panics: 2, deaths: 0, attempt: 4 }), "panics stay");
        assert_eq!(crashes.kept(OperationKey(9)), None);
    }

    #[test]
    fn one_that_is_released_is_one_crash_away_from_being_set_aside_and_no_further() {
        let (mut crashes, key) = (Crashes::new(T0), OperationKey(1));
        assert!(!crashes.pardon(key, 3), "nothing was counted");
        crashes.restore(key, CrashNote { panics: 3, deaths: 2, attempt: 5 });
        assert!(crashes.pardon(key, 3) && !crashes.pardon(key, 3));
        assert_eq!(crashes.kept(key), Some(CrashNote { panics: 0, deaths: 2, attempt: 5 }), "still a suspect");
        assert!(!crashes.died(key, 5), "and its last death is not counted again");
        assert!(crashes.pardon(key, 1));
        assert_eq!(crashes.kept(key), None);
    }

    #[test]
    fn suspects_go_one_at_a_time_and_nobody_waits_for_one_that_never_lands() {
        let mut crashes = Crashes::new(T0);
        let [one, two, innocent] = [1, 2, 3].map(OperationKey);
        assert!(crashes.died(one, 1) && crashes.died(two, 1));
        assert_eq!(crashes.count(Some(innocent), None), 1, "a panic says whose fault it is");
        assert!(crashes.may_go(one, at(0), at(60)) && crashes.may_go(one, at(0), at(60)));
        assert!(crashes.may_go(innocent, at(1), at(61)));
        assert!(!crashes.may_go(two, at(59), at(119)));
        crashes.landed(two);
        assert!(!crashes.may_go(two, at(59), at(119)), "another one's landing is not its own");
        assert!(crashes.may_go(two, at(60), at(120)), "over");
        crashes.landed(two);
        assert!(crashes.may_go(one, at(61), at(121)));
    }
}
