//! A process that stands still: stopped by its operator, starved of processor time, or moved with its machine.
//!
//! What is on the wire goes on without it, and the provider's windows turn. What was to happen inside it happens when
//! it goes on, all at once and in the order it came. Many short pauses are a slow process.

use std::collections::VecDeque;
use std::time::Duration;

use super::World;
use super::agenda::{Happening, Place};
use crate::engine::Timestamp;

/// A pause, and what it has stopped.
#[derive(Debug)]
pub(super) struct Pause {
    until: Timestamp,
    stopped: VecDeque<(Place, Happening)>,
}

impl Default for Pause {
    fn default() -> Self {
        Self { until: Timestamp::EPOCH, stopped: VecDeque::new() }
    }
}

impl World {
    /// Stops the process at `at` for `span`. Submissions, answers, timers and changes of configuration that fall into it
    /// reach the engines at its end.
    pub fn pause(&mut self, at: Timestamp, span: Duration) {
        self.put(at, Happening::Pause(at.after(span)));
    }

    pub(super) fn stand_still(&mut self, until: Timestamp) {
        self.pause.until = self.pause.until.max(until);
        self.put(until, Happening::GoOn);
    }

    /// The end of a pause, unless a longer one has begun meanwhile.
    pub(super) fn go_on(&mut self) {
        if self.pause.until <= self.now {
            self.catch_up();
        }
    }

    /// Lets what a pause has stopped happen now.
    pub(super) fn catch_up(&mut self) {
        self.pause.until = Timestamp::EPOCH;
        while let Some((place, happening)) = self.pause.stopped.pop_front() {
            self.happen(place, happening);
        }
    }

    /// Keeps what happens inside the process for the end of a pause; whether it did.
    pub(super) fn put_off(&mut self, place: Place, happening: Happening) -> bool {
        let inside = match happening {
            Happening::Submit(_)
            | Happening::Answer { .. }
            | Happening::TimeOut { .. }
            | Happening::LookedUp(_)
            | Happening::Wake(_)
            | Happening::WakeShared
            | Happening::Change(_) => true,
            Happening::Arrive { .. }
            | Happening::Burn(_)
            | Happening::Crash(_)
            | Happening::Restart
            | Happening::Pause(_)
            | Happening::GoOn => false,
        };
        let stopped = inside && self.now < self.pause.until;
        if stopped {
            self.pause.stopped.push_back((place, happening));
        }
        stopped
    }
}
