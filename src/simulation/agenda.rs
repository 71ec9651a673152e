//! What is going to happen, in order of instant; at equal instants in the order in which it was planned.
//!
//! A heap and not an ordered map: nothing is ever looked up in it, and a timer that was moved is left to come and is
//! not answered. That is two thirds of the cost of a happening.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::engine::{OperationKey, Timestamp};

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Happening {
    /// An operation is submitted.
    Submit(OperationKey),
    /// An attempt reaches the upstream.
    Arrive { key: OperationKey, row: u32 },
    /// Its answer reaches us.
    Answer { key: OperationKey, row: u32 },
    /// It is given up.
    TimeOut { key: OperationKey, row: u32 },
    /// The provider says what became of an unknown.
    LookedUp(OperationKey),
    /// A mailbox's timer.
    Wake(usize),
    /// The timer of the shared scopes.
    WakeShared,
    /// New policies, by their number.
    Change(usize),
    /// Somebody else spends, by the number of it.
    Burn(usize),
    /// The store answers a claim, late.
    Written { key: OperationKey, row: u32 },
    /// Somebody tells a mailbox something, by the number of it.
    Tell(usize),
    /// The wall clock is set, by so many microseconds.
    WallStep(i64),
    /// A mailbox's actor is lost, and made anew.
    Lose(usize),
    /// The process dies, and is back at the instant.
    Crash(Timestamp),
    /// The process is back.
    Restart,
    /// The process stands still until the instant.
    Pause(Timestamp),
    /// It goes on.
    GoOn,
    /// One mailbox's actor is busy until the instant.
    Busy(usize, Timestamp),
    /// It is free again.
    Free(usize),
}

/// Names one planned happening.
pub(super) type Place = (Timestamp, u64);

#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<(Timestamp, u64, Happening)>>,
    sequence: u64,
}

impl Agenda {
    pub(super) fn put(&mut self, at: Timestamp, happening: Happening) -> Place {
        self.sequence += 1;
        self.heap.push(Reverse((at, self.sequence, happening)));
        (at, self.sequence)
    }

    pub(super) fn next_instant(&self) -> Option<Timestamp> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Everything that is to come, in its order.
    pub(super) fn in_order(&self) -> Vec<(Timestamp, Happening)> {
        let mut all: Vec<_> = self.heap.iter().map(|Reverse(one)| *one).collect();
        all.sort_unstable();
        all.into_iter().map(|(at, _, happening)| (at, happening)).collect()
    }

    pub(super) fn pop(&mut self) -> Option<(Place, Happening)> {
        self.heap.pop().map(|Reverse((at, sequence, happening))| ((at, sequence), happening))
    }
}
