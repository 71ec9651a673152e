//! The charges of a ledger without what its limit and the guards tell: for a scope with nothing to do.

use crate::engine::limit::Limit;
use crate::engine::policy::GuardPolicy;
use crate::engine::time::Timestamp;

use super::interval::RoundTrips;
use super::log::{Entry, Log};
use super::rule::Rule;
use super::{Book, Ledger};

/// What still counted when the ledger was packed, without slack.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packed(Box<[Entry]>);

impl Packed {
    /// Whether nothing counts any more.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.0.last().is_none_or(|last| last.free_at <= now.as_micros())
    }

    /// The ledger again. `guard` is the one it was packed under.
    pub(crate) fn unpacked(self, limit: Limit, guard: &GuardPolicy) -> Ledger {
        let mut ledger = Ledger::new(limit, guard);
        if !self.0.is_empty() {
            let log = Log::of(self.0.into_vec().into());
            ledger.book = Some(Box::new(Book { in_flight: [0, 0], log, pace: None }));
        }
        ledger
    }
}

impl Ledger {
    /// Its charges, if there is nothing more to it than a new ledger of its limit under `guard` has: nothing in flight,
    /// no bucket with something in it, no round trips learned.
    pub(crate) fn packed(&self, guard: &GuardPolicy) -> Option<Packed> {
        let is_plain = self.trips == RoundTrips::default() && self.rule == Rule::new(&self.limit, guard);
        match &self.book {
            _ if !is_plain => None,
            None => Some(Packed::default()),
            Some(book) if book.in_flight == [0, 0] && book.pace.is_none() => {
                Some(Packed(book.log.iter().copied().collect()))
            }
            Some(_) => None,
        }
    }
}
