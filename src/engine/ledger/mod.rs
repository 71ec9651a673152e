//! The record of one declared limit at one scope, from which every window is computed.
//!
//! A [`Ledger`] knows what is in flight and when each finished charge stops counting. A send of cost c may go iff
//! `in flight + still counting + c ≤ N`, where a charge counts until W (and a guard for clock rates) after its
//! **completion**. Request i counts at the provider at some instant before its completion `e_i`; the request that
//! takes its place starts at `e_i + W` or later; so the two are W apart at the provider, whatever the latencies were.
//! That keeps any window: fixed at any phase, anchored, rolling.
//!
//! Why not the send instant, as most limiters do? Two requests sent W apart arrive less than W apart when the first
//! was slow, and at a saturated limit that is half of all requests. Why not a counter per minute? Two of its windows
//! fit into one of the provider's. Why not a token bucket? With depth = N it lets 2N − 1 through in one window.
//!
//! Two kinds add a bucket that is keyed on completion too: `bucket` (for a provider's own bucket, smaller than N) and
//! `paranoid` (also for sliding-window counters). Windows that are long or large are kept in sub-buckets, which
//! over-count and never under-count. Windows of a few seconds win back part of the round trip.
//!
//! Not promised: what another client spends, what the provider does not declare, and that a charge forgotten under a
//! shorter window is remembered when [`Ledger::set_limit`] makes the window longer.
//!
//! ```
//! use mailweir::engine::{Lane, Limit, Timestamp, ledger::{Counted, Earliest, Ledger}, policy::GuardPolicy};
//!
//! let limit: Limit = "2 requests / 1m".parse()?;
//! let mut ledger = Ledger::new(limit, &GuardPolicy::default());
//! let now = Timestamp::from_micros(1_000_000);
//! for _ in 0..2 {
//!     assert_eq!(ledger.earliest(now, 1, 2), Earliest::Now);
//!     ledger.reserve(now, Lane::Foreground, 1);
//! }
//! assert!(matches!(ledger.earliest(now, 1, 2), Earliest::AfterCompletion { .. }));
//! let done = Timestamp::from_micros(1_300_000);
//! ledger.complete(done, Lane::Foreground, 1, now, done, Counted::Accepted);
//! assert_eq!(ledger.earliest(done, 1, 2), Earliest::At(done.after(ledger.span())));
//! # Ok::<(), mailweir::engine::limit::LimitError>(())
//! ```

mod answer;
mod interval;
mod log;
mod pace;
mod packed;
mod rule;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::lane::Lane;
use super::limit::Limit;
use super::policy::GuardPolicy;
use super::time::{Timestamp, micros};

pub use answer::{Counted, Earliest};
pub(crate) use packed::Packed;

use interval::RoundTrips;
use log::{Entry, Log, Whose};
use pace::{Pace, Rate};
pub(crate) use rule::guarded;
use rule::{Key, Rule};

/// What a ledger holds while it is not empty.
#[derive(Clone, Debug, Default)]
struct Book {
    in_flight: [u64; 2],
    log: Log,
    pace: Option<Box<Pace>>,
}

/// The record of one declared limit at one scope.
///
/// Empty, it owns no heap. The caller asks [`Ledger::earliest`], then reserves; [`Ledger::reserve`] checks nothing.
/// Every reservation ends in exactly one of [`Ledger::release`] and [`Ledger::complete`]. No call panics, and a `now`
/// that steps back frees nothing.
#[derive(Clone, Debug)]
pub struct Ledger {
    limit: Limit,
    rule: Rule,
    trips: RoundTrips,
    book: Option<Box<Book>>,
}

impl Ledger {
    /// An empty ledger of `limit`.
    #[must_use]
    pub fn new(limit: Limit, guard: &GuardPolicy) -> Self {
        Self { limit, rule: Rule::new(&limit, guard), trips: RoundTrips::default(), book: None }
    }

    /// The limit it keeps.
    #[must_use]
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// How long a charge counts after its completion: the window and the guard for clock rates. A sub-bucketed window
    /// keeps it for up to one sub-bucket longer.
    #[must_use]
    pub fn span(&self) -> Duration {
        Duration::from_micros(self.rule.span)
    }

    /// The most that one cost may ever be: the amount, or the bucket's depth where a kind has one. A `paranoid` limit
    /// has a depth of 2, or a fifteenth of its amount if that is more.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        capacity(&self.limit)
    }

    /// When `cost` may go, if at most `amount` may be in use (the limit less a reserve, a learned ceiling; more than
    /// the limit counts as the limit). Exact: denied at every instant before the one named, granted at it.
    pub fn earliest(&self, now: Timestamp, cost: u64, amount: u64) -> Earliest {
        let window = self.window(Whose::Everyone, now, cost, amount);
        match window {
            Earliest::Never { .. } => window,
            _ if !self.limit.has_bucket() => window,
            _ => window.and(self.paced(now, cost)),
        }
    }

    /// The same when only the use by `lane` counts (the share rule). The bucket of a kind that has one is left to
    /// [`Ledger::earliest`].
    pub fn earliest_of(&self, lane: Lane, now: Timestamp, cost: u64, amount: u64) -> Earliest {
        self.window(Whose::Lane(lane), now, cost, amount)
    }

    /// Charges `cost`, in flight from now on.
    pub fn reserve(&mut self, now: Timestamp, lane: Lane, cost: u64) {
        if cost == 0 {
            return;
        }
        let rate = self.rate();
        let book = self.book.get_or_insert_default();
        if let Some(rate) = rate {
            let in_flight = Whose::Everyone.sum(book.in_flight);
            book.pace.get_or_insert_default().reserve(rate, now.as_micros(), cost, in_flight);
        }
        let mine = &mut book.in_flight[lane as usize];
        *mine = mine.saturating_add(cost);
    }

    /// Gives a reservation back: the provider counts nothing of it in this unit (nothing was sent, or a definitive
    /// refusal that takes no recipients). The even spacing of `paranoid` comes back only if nothing else was reserved
    /// since.
    pub fn release(&mut self, now: Timestamp, lane: Lane, cost: u64) {
        if cost == 0 {
            return;
        }
        if let Some(book) = &mut self.book {
            let mine = &mut book.in_flight[lane as usize];
            *mine = mine.saturating_sub(cost);
            if let Some(pace) = &mut book.pace {
                pace.release();
            }
        }
        self.expire(now);
    }

    /// Moves a reservation from in flight to counting down. `counts_until` is the completion, or the latest instant at
    /// which it can still reach the provider (`sent_at` + D_max) when the outcome is unknown; it stops counting
    /// [`Ledger::span`] later. `sent_at` is the instant at which the request left, not one before it.
    pub fn complete(
        &mut self,
        now: Timestamp,
        lane: Lane,
        cost: u64,
        sent_at: Timestamp,
        counts_until: Timestamp,
        kind: Counted,
    ) {
        let advance = self.advance(now, sent_at, counts_until);
        if cost == 0 {
            return;
        }
        let book = self.book.get_or_insert_default();
        let mine = &mut book.in_flight[lane as usize];
        *mine = mine.saturating_sub(cost);
        self.record(lane, cost, counts_until, advance, kind);
        self.expire(now);
    }

    /// Adds a charge from the attempt log, as accepted. The caller moves instants in the future to where they are safe.
    pub fn restore(&mut self, lane: Lane, cost: u64, counts_until: Timestamp) {
        if cost > 0 {
            self.record(lane, cost, counts_until, 0, Counted::Accepted);
        }
    }

    /// Forgets what no longer counts, and frees the heap when nothing is left. Amortised O(1) per charge. Every other
    /// answer is right without it.
    pub fn expire(&mut self, now: Timestamp) {
        let rate = self.rate();
        let Some(book) = &mut self.book else { return };
        let now = now.as_micros();
        book.log.expire(now);
        if let (Some(pace), Some(rate)) = (&mut book.pace, rate) {
            pace.settle(rate, now);
            if book.in_flight == [0, 0] && pace.is_idle(rate, now) {
                book.pace = None;
            }
        }
        if book.in_flight == [0, 0] && book.log.is_empty() && book.pace.is_none() {
            self.book = None;
        }
    }

    /// Whether a charge that was completed at `now` counts until `instant` at least, each charge of its own.
    pub(crate) fn counts_on(&self, now: Timestamp, instant: Timestamp) -> bool {
        let free_at = now.as_micros().saturating_add(self.rule.span).saturating_sub(self.trips.advance());
        let has_room = |book: &Book| book.log.len() < self.rule.entries_max as usize;
        free_at >= instant.as_micros() && self.book.as_deref().is_none_or(has_room)
    }

    /// What is in use: in flight and still counting.
    #[must_use]
    pub fn used(&self, now: Timestamp) -> u64 {
        self.used_whose(Whose::Everyone, now)
    }

    /// What `lane` has in use.
    #[must_use]
    pub fn used_by(&self, lane: Lane, now: Timestamp) -> u64 {
        self.used_whose(Whose::Lane(lane), now)
    }

    /// What is in flight.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight_whose(Whose::Everyone)
    }

    /// What is in use, or a little more: what has stopped counting may be in it.
    #[inline]
    pub(crate) fn at_most(&self) -> u64 {
        let Some(book) = &self.book else { return 0 };
        book.log.held().saturating_add(Whose::Everyone.sum(book.in_flight))
    }

    /// What `lane` has in flight.
    pub(crate) fn in_flight_of(&self, lane: Lane) -> u64 {
        self.in_flight_whose(Whose::Lane(lane))
    }

    /// What still counts and was accepted: what the provider took in about the last W.
    #[must_use]
    pub fn accepted(&self, now: Timestamp) -> u64 {
        self.book.as_ref().map_or(0, |book| book.log.accepted(now.as_micros()))
    }

    /// When the next charge stops counting; `None` while nothing counts down. It is in the past only if
    /// [`Ledger::expire`] was not called since.
    #[must_use]
    pub fn next_release(&self) -> Option<Timestamp> {
        self.book.as_ref().and_then(|book| book.log.first()).map(Timestamp::from_micros)
    }

    /// Takes another limit from now on. Nothing is freed: charges stay at least as long as they were to stay, longer
    /// under a longer window; what was forgotten under a shorter one stays forgotten (restore it from the attempt log).
    pub fn set_limit(&mut self, now: Timestamp, limit: Limit, guard: &GuardPolicy) {
        let (old, old_rate) = (self.rule, self.rate());
        let rule = Rule::new(&limit, guard);
        if (self.limit, old) == (limit, rule) {
            return;
        }
        (self.limit, self.rule) = (limit, rule);
        let rate = self.rate();
        let (now, longest) = (now.as_micros(), self.rule.span.max(old.span));
        if self.rule.key == Key::Completion {
            self.trips = RoundTrips::default();
        }
        let Some(book) = &mut self.book else { return };
        book.log.stretch(longest - old.span);
        let pace = book.pace.take();
        book.pace = rate.map(|rate| {
            Box::new(match old_rate {
                Some(old_rate) => pace.map_or_else(Pace::default, |pace| pace.converted(old_rate, rate, now)),
                None => rebuilt(&book.log, rate, longest),
            })
        });
    }

    /// Forgets what this limit does not cover of a record that another ledger, of the longer window, keeps. Call it after
    /// [`Ledger::set_limit`]; `from` is what [`Ledger::span`] was before it, by which the record was made.
    pub(crate) fn shorten(&mut self, now: Timestamp, from: Duration) {
        if let Some(book) = &mut self.book {
            book.log.shorten(micros(from).saturating_sub(self.rule.span));
        }
        self.expire(now);
    }

    fn rate(&self) -> Option<Rate> {
        Rate::of(&self.limit, self.rule.span)
    }

    fn in_flight_whose(&self, whose: Whose) -> u64 {
        self.book.as_ref().map_or(0, |book| whose.sum(book.in_flight))
    }

    fn used_whose(&self, whose: Whose, now: Timestamp) -> u64 {
        let counting = self.book.as_ref().map_or(0, |book| book.log.used(now.as_micros(), whose));
        counting.saturating_add(self.in_flight_whose(whose))
    }

    fn window(&self, whose: Whose, now: Timestamp, cost: u64, amount: u64) -> Earliest {
        let amount = amount.min(self.limit.amount());
        let capacity = amount.min(self.capacity());
        if cost > capacity {
            return Earliest::Never { capacity };
        }
        let Some(book) = self.book.as_ref().filter(|_| cost > 0) else { return Earliest::Now };
        let at = now.as_micros();
        let (in_flight, counting) = (whose.sum(book.in_flight), book.log.used(at, whose));
        let need = in_flight.saturating_add(counting).saturating_add(cost).saturating_sub(amount);
        if need == 0 {
            return Earliest::Now;
        }
        let freed_at = if need > counting { None } else { book.log.freed_at(at, need, whose) };
        freed_at.map_or_else(|| self.after_completion(now), |at| Earliest::At(Timestamp::from_micros(at)))
    }

    fn paced(&self, now: Timestamp, cost: u64) -> Earliest {
        let (Some(rate), Some(book), 1..) = (self.rate(), &self.book, cost) else { return Earliest::Now };
        let at = now.as_micros();
        let in_flight = Whose::Everyone.sum(book.in_flight);
        let earliest = match &book.pace {
            Some(pace) => pace.earliest(rate, at, cost, in_flight),
            None => Pace::default().earliest(rate, at, cost, in_flight),
        };
        match earliest {
            None => self.after_completion(now),
            Some(earliest) if earliest <= at => Earliest::Now,
            Some(earliest) => Earliest::At(Timestamp::from_micros(earliest)),
        }
    }

    /// The answer when what is in flight is in the way. By `at_most` nothing counts any more.
    fn after_completion(&self, now: Timestamp) -> Earliest {
        let ends_at = now.as_micros().saturating_add(self.rule.attempt);
        let mut at_most = self.rule.free_at(ends_at);
        if let Some(book) = &self.book {
            at_most = at_most.max(book.log.last().unwrap_or(0));
            if let (Some(rate), Some(pace)) = (self.rate(), &book.pace) {
                at_most = at_most.max(pace.drained_by(rate, ends_at, Whose::Everyone.sum(book.in_flight)));
            }
        }
        Earliest::AfterCompletion { at_most: Timestamp::from_micros(at_most) }
    }

    /// By how much earlier than its completion and W this charge may be freed. Learns from it first.
    fn advance(&mut self, now: Timestamp, sent_at: Timestamp, counts_until: Timestamp) -> u64 {
        // An instant in the future is no answer, so it tells nothing of the round trip.
        if self.rule.key == Key::Completion || counts_until > now {
            return 0;
        }
        self.trips.learn(micros(counts_until.since(sent_at)));
        self.trips.advance()
    }

    fn record(&mut self, lane: Lane, cost: u64, counts_until: Timestamp, advance: u64, counted: Counted) {
        let rate = self.rate();
        let book = self.book.get_or_insert_default();
        let at = counts_until.as_micros();
        let free_at = self.rule.free_at(at).saturating_sub(advance);
        book.log.push(Entry { free_at, cost, lane, counted }, self.rule.entries_max as usize);
        if let Some(rate) = rate {
            book.pace.get_or_insert_default().complete(rate, at, cost);
        }
    }
}

/// The most that one cost may ever be under `limit`: see [`Ledger::capacity`].
pub(crate) fn capacity(limit: &Limit) -> u64 {
    // The depth does not depend on the span.
    Rate::of(limit, 1).map_or(limit.amount(), Rate::depth)
}

/// A bucket as it would stand had it been charged with all of `log`, whose charges count `span` after their completion.
fn rebuilt(log: &Log, rate: Rate, span: u64) -> Pace {
    let mut pace = Pace::default();
    for entry in log.iter() {
        pace.complete(rate, entry.free_at.saturating_sub(span), entry.cost);
    }
    pace
}
