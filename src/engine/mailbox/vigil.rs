//! How operations end whose deadline passes while there is no engine.
//!
//! An engine may be gone for a while: it panicked, or its word could not be written, and the store does not say what the
//! next one is to be built from. Deadlines pass all the same. What is true of each operation at its own is known
//! beforehand: nothing is sent without an engine, and the next one ends what is out of time before it sends anything.

use std::cmp::Reverse;

use super::Mailbox;
use super::entry::{Entry, Step, Wish};
use super::io::Outcome;
use crate::engine::operation::{OperationKey, OperationKind, Transition};
use crate::engine::policy::DuplicatePolicy;
use crate::engine::time::Timestamp;
use crate::engine::verdict::ThrottleKind;

/// The deadlines of an engine that is gone, and what each brings.
#[derive(Clone, Debug, Default)]
pub struct Vigil {
    /// The next one last.
    ahead: Vec<Watched>,
}

/// One operation: 24 bytes, for there may be a million of them.
#[derive(Clone, Copy, Debug)]
struct Watched {
    deadline: Timestamp,
    key: OperationKey,
    attempts: u32,
    throttled: Option<ThrottleKind>,
    end: End,
}

/// What its deadline brings.
#[derive(Clone, Copy, Debug)]
enum End {
    /// It ends, and no attempt of it was accepted.
    Unsent,
    /// It ends, and an attempt of it may have been accepted.
    MaybeSent,
    /// Nobody can say: look-ups decide, or an order about it.
    Unknown,
}

impl Vigil {
    /// The next deadline.
    #[must_use]
    pub fn next_at(&self) -> Option<Timestamp> {
        self.ahead.last().map(|watched| watched.deadline)
    }

    /// The next operation whose deadline has come, and what is true of it from then on.
    pub fn pop(&mut self, now: Timestamp) -> Option<(OperationKey, Outcome)> {
        let watched = self.ahead.pop_if(|watched| watched.deadline <= now)?;
        let Watched { key, attempts, throttled, end, .. } = watched;
        let outcome = match end {
            End::Unsent => Outcome::Exhausted { attempts, throttled, maybe_sent: false },
            End::MaybeSent => Outcome::Exhausted { attempts, throttled, maybe_sent: true },
            End::Unknown => Outcome::Unknown,
        };
        Some((key, outcome))
    }

    /// The same with what was known before it: an engine that broke while it was being built does not know all.
    #[must_use]
    pub fn after(mut self, earlier: Self) -> Self {
        self.ahead.extend(earlier.ahead);
        // Stable: of two that speak of one operation the later is kept.
        self.ahead.sort_by_key(|watched| Reverse((watched.deadline, watched.key)));
        self.ahead.dedup_by_key(|watched| watched.key);
        self
    }
}

impl Mailbox {
    /// What is to be told at which deadline once this engine is gone. Permits are not in it: they end with the engine.
    #[must_use]
    pub fn vigil(&self) -> Vigil {
        let live = self.table.entries().filter(|entry| entry.kind == OperationKind::Send);
        let ahead = live.filter_map(|entry| self.watched(entry)).collect();
        Vigil { ahead }.after(Vigil::default())
    }

    fn watched(&self, entry: &Entry) -> Option<Watched> {
        let (key, deadline, throttled) = (entry.key, entry.deadline, entry.more().throttled);
        let (transition, end) = match entry.step {
            Step::Free { .. } => return None,
            Step::Delayed { .. } | Step::Queued(_) | Step::Held | Step::Waiting | Step::Reserving { .. } => {
                let in_doubt = entry.is_in_doubt(Transition::Exhaust);
                (Transition::Exhaust, if in_doubt { End::MaybeSent } else { End::Unsent })
            }
            // What the next engine takes for unknown: it ends there as `deadline_passed` says.
            Step::Claiming { .. } | Step::Attempting { .. } | Step::Unknown { .. } => {
                let forbidden = self.policy.retry.duplicates == DuplicatePolicy::AtMostOnce;
                let ends = forbidden && entry.wish != Wish::Cancel;
                (Transition::Expire, if ends { End::MaybeSent } else { End::Unknown })
            }
        };
        let attempts = transition.attempts_after(entry.attempts());
        Some(Watched { deadline, key, attempts, throttled, end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_watched_takes_twenty_four_bytes() {
        assert_eq!(size_of::<Watched>(), 24);
    }
}
