//! The course of a hold that is lifted in part: the first operations of what was held go, somebody watches, then the rest.
//!
//! Mailboxes let the first pass and say how many of them still wait; this collects what they say. When none waits any
//! more, a watch begins; when that has passed, the hold may be lifted. A throttle, or a provider that fails, in a scope
//! that is concerned ends it: everything stays held until a person decides, or until the hold's own end. So do too many
//! of the first that end badly: rejected, unknown, out of attempts or time, or set aside because they crash their worker.
//!
//! *Waits* is meant literally. What is being attempted waits for its answer; what was accepted, cancelled or set aside does
//! not wait, nor does an unknown: its look-ups may take half an hour. It counts as one that ended badly, whatever they
//! find: somebody has to look before the rest follows.
//!
//! After a restart both begin anew, the watch and the count of those that ended badly; what was on its way when a process
//! died is unknown, and counts. So each restart in the middle may let one more share of the first fail.
//!
//! Not promised: that no more than the first are sent. What was in flight already ends, and what a mailbox learns of
//! another one's throttle it learns a moment later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::event::TripReason;
use super::operation::OperationKey;
use super::ratio::Ratio;
use super::scope::Scope;
use super::time::Timestamp;

/// A hold that is being lifted in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Widening {
    first: u64,
    through: OperationKey,
    watch: Duration,
    /// How many of the first still wait, by mailbox; those where none does are not here.
    waits: BTreeMap<Arc<str>, u64>,
    /// Those of them that ended badly.
    failed: BTreeSet<OperationKey>,
    course: Course,
}

/// How far a widening has come.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Course {
    /// Some of the first still wait.
    Passing,
    /// None of them does. Without a throttle the rest goes on at this instant.
    Watching {
        /// When.
        until: Timestamp,
    },
    /// Nothing more goes: a person has to decide.
    Stopped {
        /// Which scope was throttled, or failed; where too many ended badly, the mailbox of the last.
        scope: Scope,
        /// Which of them.
        reason: TripReason,
    },
}

impl Widening {
    /// Begins with the first `first` operations, none submitted after `through`, of which those in `waits` wait.
    #[must_use]
    pub fn begin(
        now: Timestamp,
        (first, through): (u64, OperationKey),
        watch: Duration,
        waits: BTreeMap<Arc<str>, u64>,
    ) -> Self {
        let mut widening = Self { first, through, watch, waits, failed: BTreeSet::new(), course: Course::Passing };
        widening.look(now);
        widening
    }

    /// The same after a throttle that an earlier life knew of.
    #[must_use]
    pub fn stopped(first: u64, through: OperationKey, watch: Duration, scope: Scope, reason: TripReason) -> Self {
        let (waits, failed) = (BTreeMap::new(), BTreeSet::new());
        Self { first, through, watch, waits, failed, course: Course::Stopped { scope, reason } }
    }

    /// How many were let go.
    #[must_use]
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// The last of them: what was submitted later stays held.
    #[must_use]
    pub const fn through(&self) -> OperationKey {
        self.through
    }

    /// How long it is watched after the last of them.
    #[must_use]
    pub const fn watch(&self) -> Duration {
        self.watch
    }

    /// How many of them still wait, at most.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.waits.values().fold(0, |sum, left| sum.saturating_add(*left))
    }

    /// How many of the first ended badly, as far as this process knows.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.len() as u64
    }

    /// How far it has come.
    #[must_use]
    pub const fn course(&self) -> &Course {
        &self.course
    }

    /// Whether anything passes.
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        matches!(self.course, Course::Stopped { .. })
    }

    /// When the hold may be lifted, by what is known now.
    #[must_use]
    pub const fn lifts_at(&self) -> Option<Timestamp> {
        match self.course {
            Course::Watching { until } => Some(until),
            Course::Passing | Course::Stopped { .. } => None,
        }
    }

    /// A mailbox says how many of those through `through` still wait in it. What speaks of another part is not heard.
    pub fn report(&mut self, now: Timestamp, through: OperationKey, mailbox: &Arc<str>, left: u64) {
        if through != self.through {
            return;
        }
        match left {
            0 => drop(self.waits.remove(mailbox)),
            left => drop(self.waits.insert(Arc::clone(mailbox), left)),
        }
        self.look(now);
    }

    /// A scope that is concerned was throttled, or failed. Whether that is news.
    pub fn stop(&mut self, through: OperationKey, scope: Scope, reason: TripReason) -> Stopped {
        if through != self.through || self.is_stopped() {
            return Stopped::Before;
        }
        self.course = Course::Stopped { scope, reason };
        Stopped::Now
    }

    /// One of the first ended badly in `scope`, or nobody knows how it ended. Each counts once; more than `failed_max` of
    /// the first ([`ResumePolicy::failed_max`](super::policy::ResumePolicy::failed_max)) stop it. Whether that is news.
    pub fn fail(&mut self, through: OperationKey, key: OperationKey, scope: Scope, failed_max: Ratio) -> Stopped {
        if through != self.through || self.is_stopped() || failed_max >= Ratio::ONE {
            return Stopped::Before;
        }
        if self.failed.insert(key) && self.failed() > failed_max.floor_of(self.first) {
            return self.stop(through, scope, TripReason::FailedOperations);
        }
        Stopped::Before
    }

    fn look(&mut self, now: Timestamp) {
        match (&self.course, self.waits.is_empty()) {
            (Course::Passing, true) => self.course = Course::Watching { until: now.after(self.watch) },
            (Course::Watching { .. }, false) => self.course = Course::Passing,
            (Course::Passing, false) | (Course::Watching { .. }, true) | (Course::Stopped { .. }, _) => {}
        }
    }
}

/// Whether a throttle was the one that stopped a widening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It was.
    Now,
    /// It was stopped before, or is another one.
    Before,
}

#[cfg(test)]
mod tests {
    use super::*;

    const THROUGH: OperationKey = OperationKey(9);
    const WATCH: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::EPOCH.after(Duration::from_secs(seconds))
    }

    fn of(mailboxes: &[&str]) -> Widening {
        let waits = mailboxes.iter().map(|mailbox| (Arc::from(*mailbox), 2)).collect();
        Widening::begin(at(0), (4, THROUGH), WATCH, waits)
    }

    #[test]
    fn the_watch_begins_when_the_last_of_the_first_has_gone_in_every_mailbox() {
        let (mut widening, a, b) = (of(&["a", "b"]), Arc::from("a"), Arc::from("b"));
        assert_eq!((widening.left(), widening.lifts_at()), (4, None));
        widening.report(at(1), THROUGH, &a, 0);
        widening.report(at(2), THROUGH, &b, 1);
        assert_eq!((widening.left(), widening.lifts_at()), (1, None));
        widening.report(at(3), OperationKey(8), &b, 0);
        assert_eq!(widening.lifts_at(), None, "that was said of another part");
        widening.report(at(4), THROUGH, &b, 0);
        assert_eq!(widening.lifts_at(), Some(at(64)));
        widening.report(at(5), THROUGH, &b, 0);
        assert_eq!(widening.lifts_at(), Some(at(64)), "said again, it prolongs nothing");
        widening.report(at(6), THROUGH, &a, 1);
        assert_eq!(widening.lifts_at(), None, "one waits again");
        widening.report(at(7), THROUGH, &a, 0);
        assert_eq!(widening.lifts_at(), Some(at(67)), "and the watch begins anew");
    }

    #[test]
    fn more_than_the_share_that_may_fail_stops_it_and_no_operation_counts_twice() {
        let part = |first| Widening::begin(at(0), (first, THROUGH), WATCH, BTreeMap::new());
        // A share of a small part is rounded down: one of fewer than ten stops it.
        for (first, percent, stops_at) in [(1, 10, 1), (9, 10, 1), (10, 10, 2), (100, 10, 11), (4, 0, 1), (4, 50, 3)] {
            let mut widening = part(first);
            let mut fail =
                |through, key| widening.fail(through, OperationKey(key), Scope::Application, Ratio::percent(percent));
            assert_eq!(fail(OperationKey(8), 1), Stopped::Before, "of another part");
            for key in 1..stops_at {
                assert_eq!(fail(THROUGH, key), Stopped::Before, "{first} {percent} {key}");
                assert_eq!(fail(THROUGH, key), Stopped::Before, "{first} {percent} {key}: said again");
            }
            assert_eq!(fail(THROUGH, stops_at), Stopped::Now, "{first} {percent}");
            assert_eq!(fail(THROUGH, stops_at + 1), Stopped::Before, "{first} {percent}");
            let course = Course::Stopped { scope: Scope::Application, reason: TripReason::FailedOperations };
            assert_eq!((widening.course(), widening.failed()), (&course, stops_at));
        }
        let mut widening = part(2);
        for key in 1..=4 {
            let never = widening.fail(THROUGH, OperationKey(key), Scope::Application, Ratio::ONE);
            assert_eq!(never, Stopped::Before);
        }
    }

    #[test]
    fn a_throttle_stops_it_once_and_for_good() {
        let mut widening = of(&[]);
        assert_eq!(widening.lifts_at(), Some(at(60)), "nobody waits: it is watched from the start");
        let reason = TripReason::Sustained429;
        assert_eq!(widening.stop(OperationKey(8), Scope::Application, reason), Stopped::Before, "of another part");
        assert_eq!(widening.stop(THROUGH, Scope::Application, reason), Stopped::Now);
        assert_eq!(widening.stop(THROUGH, Scope::Application, TripReason::Health), Stopped::Before);
        widening.report(at(1), THROUGH, &Arc::from("a"), 0);
        assert_eq!(widening.course(), &Course::Stopped { scope: Scope::Application, reason });
        assert_eq!(widening.lifts_at(), None);
        assert_eq!(Widening::stopped(4, THROUGH, WATCH, Scope::Application, reason), widening);
    }
}
