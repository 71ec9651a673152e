//! What arrived: the record that checkers read.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Serialize;

use crate::engine::{Cost, Lane, Timestamp};

/// Who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The client under test.
    Client,
    /// Somebody else who uses the same budget.
    Foreign,
}

/// One arrival.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Arrival {
    /// When it arrived.
    pub at: Timestamp,
    /// For which mailbox.
    pub mailbox: Arc<str>,
    /// Of which tenant.
    pub tenant: Option<Arc<str>>,
    /// What it took.
    pub cost: Cost,
    /// What was answered, heard or not.
    pub status: u16,
    /// Whether the email was taken.
    pub executed: bool,
    /// The client's key.
    pub key: Arc<str>,
    /// The client's lane, where it said so.
    pub lane: Option<Lane>,
    /// Who sent it.
    pub origin: Origin,
}

/// Arrivals in order of their instants. Bounded: the oldest fall out first, and are counted.
#[derive(Clone, Debug)]
pub struct Log {
    entries: VecDeque<Arrival>,
    entries_max: usize,
    dropped: u64,
}

impl Log {
    pub(super) const fn new(entries_max: usize) -> Self {
        Self { entries: VecDeque::new(), entries_max, dropped: 0 }
    }

    pub(super) fn push(&mut self, arrival: Arrival) {
        self.entries.push_back(arrival);
        while self.entries.len() > self.entries_max {
            self.entries.pop_front();
            self.dropped += 1;
        }
    }

    /// Every arrival kept, oldest first, foreign ones included.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arrival> + Clone {
        self.entries.iter()
    }

    /// The client's arrivals, oldest first.
    pub fn client(&self) -> impl DoubleEndedIterator<Item = &Arrival> + Clone {
        self.entries.iter().filter(|arrival| arrival.origin == Origin::Client)
    }

    /// Arrivals kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Arrivals that fell out. A checker that needs the whole run demands 0.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }
}
