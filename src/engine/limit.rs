//! One declared limit: amount × unit × window × kind.

use std::num::NonZeroU64;
use std::time::Duration;

use super::cost::Unit;

/// How the provider's window behaves, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WindowKind {
    /// Not known: keep safe against every phase (the default).
    #[default]
    Unknown,
    /// The last W at each attempt.
    Rolling,
    /// Calendar-like buckets of unknown phase.
    Fixed,
    /// A token bucket of this depth that refills at amount/window.
    Bucket {
        /// Depth, in the limit's unit.
        depth: NonZeroU64,
    },
    /// Sliding-window counters, tiny burst limits, or whatever else: even pacing at (N−2)/W.
    Paranoid,
}

/// One declared limit. Built by [`Limit::new`] or parsed from text such as `30 requests / 1m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    amount: NonZeroU64,
    unit: Unit,
    window: Duration,
    kind: WindowKind,
}

impl Limit {
    /// The amount per window, in [`Limit::unit`].
    #[must_use]
    pub const fn amount(&self) -> u64 {
        self.amount.get()
    }

    /// What is counted.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        self.unit
    }

    /// Over which span.
    #[must_use]
    pub const fn window(&self) -> Duration {
        self.window
    }

    /// How the provider's window behaves.
    #[must_use]
    pub const fn kind(&self) -> WindowKind {
        self.kind
    }
}
