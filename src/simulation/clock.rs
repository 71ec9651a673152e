//! Whose clock shows what: true time, by which the upstream goes, and the clock of the process, which runs at its own rate.
//!
//! A process reads the wall clock once, at its start, as [`SystemClock`](crate::clock::SystemClock) does it. So a step of
//! the wall clock is seen by the next process alone, which finds instants in its outbox that are too late or too early.

use std::time::Duration;

use super::agenda::Happening;
use super::{START, World};
use crate::engine::Timestamp;

/// By how much the wall clock is off, in microseconds, and by how much the process was when it started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wall {
    off: i64,
    read: i64,
}

impl Wall {
    pub(super) fn shown(self) -> i128 {
        i128::from(self.read)
    }

    pub(super) fn set(&mut self, by: i64) {
        self.off = self.off.saturating_add(by);
    }

    /// A process starts.
    pub(super) fn read(&mut self) {
        self.read = self.off;
    }
}

/// Which way a clock is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It shows more than before.
    Forward,
    /// It shows less.
    Back,
}

impl World {
    /// Lets the engines' clock run `ppm` parts per million fast (or slow, below zero) against the upstream's.
    #[must_use]
    pub fn clock_ppm(mut self, ppm: i32) -> Self {
        self.clock_ppm = ppm.clamp(-100_000, 100_000);
        self
    }

    /// What an engine's clock shows at a true instant.
    #[must_use]
    pub fn local(&self, at: Timestamp) -> Timestamp {
        let elapsed = i128::from(at.as_micros()) - i128::from(START.as_micros());
        let shown = elapsed + elapsed * i128::from(self.clock_ppm) / 1_000_000 + self.wall.shown();
        let micros = i128::from(START.as_micros()) + shown;
        Timestamp::from_micros(u64::try_from(micros.max(0)).unwrap_or(u64::MAX))
    }

    /// The first true instant at which an engine's clock has reached `shown`.
    pub(super) fn true_instant(&self, shown: Timestamp) -> Timestamp {
        let elapsed = i128::from(shown.as_micros()) - i128::from(START.as_micros()) - self.wall.shown();
        let elapsed = (elapsed * 1_000_000 / (1_000_000 + i128::from(self.clock_ppm))).max(0);
        let mut at =
            Timestamp::from_micros(START.as_micros().saturating_add(u64::try_from(elapsed).unwrap_or(u64::MAX / 4)));
        while self.local(at) < shown {
            at = at.after(Duration::from_micros(1));
        }
        at
    }

    /// Sets the wall clock at `at`. The process that runs then goes by its own clock and sees nothing of it; the next one
    /// begins with what the wall clock shows.
    pub fn set_wall_clock(&mut self, at: Timestamp, step: Step, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        let by = if step == Step::Back { -micros } else { micros };
        self.put(at, Happening::WallStep(by));
    }
}
