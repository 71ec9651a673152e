//! What a run cost beside its sends: wake-ups, and what was asked of the store.
//!
//! The engines ask nothing of a store; they say what has to be written. So their calls are counted as the shell makes them: what one
//! mailbox has of one kind at one instant goes in one call. Where the actors run, the store itself is watched.

use super::World;
use crate::engine::Timestamp;

/// What was asked of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreUse {
    /// Calls, each with as much as there was to say.
    pub calls: u64,
    /// Transactions that had to be durable. What is written at one instant shares one, as writers let whatever came
    /// meanwhile share their next commit; only an attempt row comes after the row of its operation.
    pub transactions: u64,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    Insert,
    Claim,
    Record,
    Note,
}

/// Whether a write waits for another one of its instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comes {
    First,
    /// After the row of its operation.
    Second,
}

/// Counts transactions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Commits {
    at: Option<Timestamp>,
    stages: u64,
    count: u64,
}

impl Commits {
    pub(crate) fn write(&mut self, now: Timestamp, comes: Comes) {
        if self.at != Some(now) {
            (self.at, self.stages) = (Some(now), 0);
        }
        let needed = match comes {
            Comes::First => 1,
            Comes::Second => 2,
        };
        self.count += needed - self.stages.min(needed);
        self.stages = self.stages.max(needed);
    }

    /// With so many calls.
    pub(crate) const fn with_calls(self, calls: u64) -> StoreUse {
        StoreUse { calls, transactions: self.count }
    }
}

/// What the engines of a world cost.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) wakes: u64,
    calls: u64,
    commits: Commits,
    /// When each of them, the shared one first, last wrote each kind.
    last: Vec<[Option<Timestamp>; 4]>,
}

impl Tally {
    /// A write of one mailbox; `None`: of the shared scopes.
    pub(super) fn write(&mut self, now: Timestamp, mailbox: Option<usize>, write: Write, comes: Comes) {
        let place = mailbox.map_or(0, |mailbox| mailbox + 1);
        if self.last.len() <= place {
            self.last.resize(place + 1, [None; 4]);
        }
        let last = &mut self.last[place][write as usize];
        if last.replace(now) != Some(now) {
            self.calls += 1;
        }
        self.commits.write(now, comes);
    }

    /// What somebody else's run cost.
    pub(super) fn of(wakes: u64, used: StoreUse) -> Self {
        let commits = Commits { count: used.transactions, ..Commits::default() };
        Self { wakes, calls: used.calls, commits, last: Vec::new() }
    }
}

impl World {
    /// How often a timer woke an engine.
    #[must_use]
    pub fn wakes(&self) -> u64 {
        self.tally.wakes
    }

    /// What was asked of the store; for engines alone, what would have been.
    #[must_use]
    pub fn store_use(&self) -> StoreUse {
        self.tally.commits.with_calls(self.tally.calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_mailbox_writes_at_one_instant_is_one_call_and_an_attempt_row_waits_for_its_operation() {
        let (first, second) = (Timestamp::from_micros(1), Timestamp::from_micros(2));
        let mut tally = Tally::default();
        tally.write(first, Some(0), Write::Insert, Comes::First);
        tally.write(first, Some(0), Write::Insert, Comes::First);
        tally.write(first, Some(1), Write::Insert, Comes::First);
        assert_eq!((tally.calls, tally.commits.count), (2, 1));
        tally.write(first, Some(0), Write::Claim, Comes::Second);
        tally.write(first, Some(1), Write::Claim, Comes::Second);
        assert_eq!((tally.calls, tally.commits.count), (4, 2));
        tally.write(second, Some(0), Write::Record, Comes::First);
        tally.write(second, Some(0), Write::Claim, Comes::First);
        tally.write(second, None, Write::Note, Comes::First);
        assert_eq!((tally.calls, tally.commits.count), (7, 3));
    }
}
