//! The one place that reads a clock.

use std::fmt::Debug;
use std::time::{Duration, Instant, SystemTime};

use crate::engine::Timestamp;

/// Where the scheduler's instants come from. Never steps back.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The current instant.
    fn now(&self) -> Timestamp;
}

/// The system's monotonic clock, anchored once to the wall clock.
///
/// A step of the wall clock after the anchor changes nothing, so no window opens early.
#[derive(Debug)]
pub struct SystemClock {
    anchor: Instant,
    epoch: Timestamp,
}

impl SystemClock {
    /// A clock anchored now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system clock")]
    pub fn new() -> Self {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { anchor: Instant::now(), epoch: Timestamp::EPOCH.after(wall) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system clock")]
    fn now(&self) -> Timestamp {
        self.epoch.after(self.anchor.elapsed())
    }
}

/// Tokio's clock, for tests and simulations under paused time.
#[cfg(feature = "test-util")]
#[derive(Debug)]
pub struct TokioClock {
    anchor: tokio::time::Instant,
    epoch: Timestamp,
}

#[cfg(feature = "test-util")]
impl TokioClock {
    /// A clock that shows `epoch` now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads tokio's clock")]
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { anchor: tokio::time::Instant::now(), epoch }
    }
}

#[cfg(feature = "test-util")]
impl Clock for TokioClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads tokio's clock")]
    fn now(&self) -> Timestamp {
        self.epoch.after(self.anchor.elapsed())
    }
}
