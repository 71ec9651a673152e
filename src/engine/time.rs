//! Instants as the engine sees them: plain numbers, handed in by the caller.
//!
//! The engine reads no clock. Every decision takes a [`Timestamp`], so a run is replayed from its inputs and a
//! test can stand at the exact instant before a limit frees.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant: microseconds since the Unix epoch, on a clock that never steps back.
///
/// The shell anchors it once to the wall clock and then moves it by the monotonic clock alone, so windows never
/// follow a wall-clock step. Arithmetic saturates: no input panics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);
    /// Later than every instant that a decision can name: "not by itself".
    pub const NEVER: Self = Self(u64::MAX);

    /// The instant `micros` microseconds after the Unix epoch.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// This instant moved later by `span`; at most [`Timestamp::NEVER`].
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(micros(span)))
    }

    /// This instant moved earlier by `span`; at least [`Timestamp::EPOCH`].
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(micros(span)))
    }

    /// How long after `earlier` this instant is; zero when it is not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.micros_since(earlier))
    }

    /// The same in microseconds.
    pub(crate) const fn micros_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// `span` in microseconds, saturating.
#[must_use]
pub(crate) fn micros(span: Duration) -> u64 {
    let whole = span.as_secs().checked_mul(1_000_000);
    whole.and_then(|whole| whole.checked_add(u64::from(span.subsec_micros()))).unwrap_or(u64::MAX)
}
