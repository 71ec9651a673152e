//! What the upstream enforces: windows and concurrency.

use std::time::Duration;

use crate::engine::{Limit, Ratio, ScopeKind, Timestamp, Unit};

use super::schedule::Schedule;

/// How the upstream counts within a window (algorithms 1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// Consecutive windows; one begins at `phase` after the epoch, and every W before and after it.
    Fixed {
        /// Where a window begins; only the rest of its division by W matters.
        phase: Duration,
    },
    /// A window that opens at the first request after the last one expired.
    Anchored,
    /// The last W at each arrival: `(now − W, now]`.
    Rolling,
    /// Sliding-window counter over fixed windows: `previous · (1 − elapsed) + current`.
    SlidingCounter {
        /// Where a window begins.
        phase: Duration,
    },
    /// A token bucket that refills at N/W.
    Bucket {
        /// Its depth, in the limit's unit.
        depth: u64,
    },
}

/// One limit of the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamLimit {
    /// Whose arrivals are counted together.
    pub scope: ScopeKind,
    /// What is counted.
    pub unit: Unit,
    /// N, per window.
    pub amount: u64,
    /// W; at least a microsecond.
    pub window: Duration,
    /// How it counts.
    pub algorithm: Algorithm,
    /// Factor on N (and on a bucket's depth) over time.
    pub scale: Schedule<Ratio>,
}

impl UpstreamLimit {
    /// A limit that does not change.
    #[must_use]
    pub fn new(scope: ScopeKind, unit: Unit, amount: u64, window: Duration, algorithm: Algorithm) -> Self {
        let window = window.max(Duration::from_micros(1));
        Self { scope, unit, amount, window, algorithm, scale: Schedule::always(Ratio::ONE) }
    }

    /// `amount` requests per `window` of one mailbox, rolling: the usual case in tests.
    #[must_use]
    pub fn requests(amount: u64, window: Duration) -> Self {
        Self::new(ScopeKind::Mailbox, Unit::Requests, amount, window, Algorithm::Rolling)
    }

    /// What a declared limit says, counted by `algorithm`.
    #[must_use]
    pub fn declared(scope: ScopeKind, limit: &Limit, algorithm: Algorithm) -> Self {
        Self::new(scope, limit.unit(), limit.amount(), limit.window(), algorithm)
    }

    /// The same limit at another scope.
    #[must_use]
    pub const fn at_scope(mut self, scope: ScopeKind) -> Self {
        self.scope = scope;
        self
    }

    /// The same limit, counted by `algorithm`.
    #[must_use]
    pub const fn counted_by(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// The same limit with a factor over time.
    #[must_use]
    pub fn scaled(mut self, scale: Schedule<Ratio>) -> Self {
        self.scale = scale;
        self
    }

    /// N in force at `now`.
    #[must_use]
    pub fn amount_at(&self, now: Timestamp) -> u64 {
        self.scale.at(now).floor_of(self.amount)
    }

    /// The most that one instant can take at `now`: a bucket's depth, else N.
    #[must_use]
    pub fn capacity_at(&self, now: Timestamp) -> u64 {
        match self.algorithm {
            Algorithm::Bucket { depth } => self.scale.at(now).floor_of(depth),
            _ => self.amount_at(now),
        }
    }

    /// W in microseconds.
    pub(super) fn window_micros(&self) -> u64 {
        Timestamp::EPOCH.after(self.window).as_micros().max(1)
    }
}

/// A bound on requests between arrival and completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConcurrencyLimit {
    /// Whose requests are counted together.
    pub scope: ScopeKind,
    /// C.
    pub amount: u32,
}

impl ConcurrencyLimit {
    /// At most `amount` at once per `scope`.
    #[must_use]
    pub const fn new(scope: ScopeKind, amount: u32) -> Self {
        Self { scope, amount }
    }
}
