//! What a process says of itself in the table of a shared budget.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::cost::Unit;
use crate::engine::limit::Limit;
use crate::engine::time::{Timestamp, micros};

/// Entries that the used part of one window is told in: what is used counts for up to a 128th of the window too long.
const GRAIN: u64 = 128;

/// One process's part of a shared budget, as of the instant at which it was written. Every instant is the store's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// When it was written.
    pub at: Timestamp,
    /// One per limit.
    pub rows: Vec<Row>,
}

/// One process's part of one limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// What the limit counts.
    pub unit: Unit,
    /// Its window, in milliseconds.
    pub window: u64,
    /// Tokens that are held, and attempts in flight.
    pub held: u64,
    /// Until when these count, if nothing more is heard.
    pub held_until: Timestamp,
    /// What has ended and counts: milliseconds after [`Part::at`] at which it stops counting, and how much.
    pub used: Vec<(u64, u64)>,
    /// What this process could not have, by lane, foreground first.
    pub wants: [u64; 2],
    /// The least of it that is of any use: one operation.
    pub least: u64,
    /// Since when it has been waiting for it.
    pub since: Option<Timestamp>,
    /// What its foreground may suddenly need: kept back from everybody's background.
    pub reserve: u64,
}

impl Row {
    /// Whether this is a part of that limit. Amounts may differ while a change is being rolled out.
    #[must_use]
    pub fn is_of(&self, limit: &Limit) -> bool {
        self.unit == limit.unit() && u128::from(self.window) == limit.window().as_millis()
    }
}

impl Part {
    /// When nothing of it counts any more.
    #[must_use]
    pub fn ends_at(&self) -> Timestamp {
        let of = |row: &Row| {
            let held = if row.held > 0 { row.held_until } else { self.at };
            row.used.last().map_or(held, |(after, _)| held.max(self.at.after(Duration::from_millis(*after))))
        };
        self.rows.iter().map(of).max().unwrap_or(self.at)
    }

    /// Until when what counts of this limit does so, and how much.
    pub(super) fn charges<'a>(&'a self, limit: &'a Limit) -> impl Iterator<Item = (Timestamp, u64)> + 'a {
        self.rows.iter().filter(|row| row.is_of(limit)).flat_map(|row| {
            let used = row.used.iter().map(|(after, count)| (self.at.after(Duration::from_millis(*after)), *count));
            used.chain([(row.held_until, row.held)])
        })
    }
}

/// What has ended, in few entries: rounded up to a grid, and to whole milliseconds after `at`.
pub(super) fn told(at: Timestamp, used: &[(Timestamp, u64)], window: Duration) -> Vec<(u64, u64)> {
    let grain = (micros(window) / GRAIN).max(1_000);
    let mut told: Vec<(u64, u64)> = Vec::new();
    let mut used: Vec<_> = used.iter().filter(|(until, count)| *until > at && *count > 0).collect();
    used.sort_unstable();
    for (until, count) in used {
        let end = until.as_micros().div_ceil(grain).saturating_mul(grain);
        let after = end.saturating_sub(at.as_micros()).div_ceil(1_000);
        match told.last_mut() {
            Some((last, sum)) if *last == after => *sum = sum.saturating_add(*count),
            _ => told.push((after, *count)),
        }
    }
    told
}
