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
        Self::anchored(SystemTime::now(), Instant::now())
    }

    /// One that was anchored when the wall clock showed `wall`.
    fn anchored(wall: SystemTime, anchor: Instant) -> Self {
        let wall = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { anchor, epoch: Timestamp::EPOCH.after(wall) }
    }

    /// What it shows at an instant of the monotonic clock.
    fn at(&self, instant: Instant) -> Timestamp {
        self.epoch.after(instant.saturating_duration_since(self.anchor))
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
        self.at(Instant::now())
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

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const WALL: Duration = Duration::from_secs(1_700_000_000);

    #[expect(clippy::disallowed_methods, reason = "an instant to count from: there is no other way to have one")]
    fn instant() -> Instant {
        Instant::now()
    }

    #[test]
    fn a_step_of_the_wall_clock_is_seen_by_the_next_process_alone() {
        let (start, wall) = (instant(), SystemTime::UNIX_EPOCH + WALL);
        let running = SystemClock::anchored(wall, start);
        let later = start + Duration::from_secs(10);
        for stepped in [wall + HOUR, wall - HOUR] {
            let next = SystemClock::anchored(stepped + Duration::from_secs(10), later);
            let span = |clock: &SystemClock| clock.at(later + HOUR).since(clock.at(later));
            assert_eq!(running.at(later), Timestamp::EPOCH.after(WALL + Duration::from_secs(10)), "as if nothing were");
            assert_eq!((span(&running), span(&next)), (HOUR, HOUR), "each window is as long as before");
            assert_eq!(next.at(later) > running.at(later), stepped > wall);
        }
    }

    #[test]
    fn it_never_steps_back_and_begins_at_the_epoch_at_the_earliest() {
        let start = instant();
        let clock = SystemClock::anchored(SystemTime::UNIX_EPOCH - HOUR, start + HOUR);
        assert_eq!((clock.at(start), clock.at(start + HOUR)), (Timestamp::EPOCH, Timestamp::EPOCH));
        let clock = SystemClock::new();
        let before = clock.now();
        assert!(clock.now() >= before);
    }
}
