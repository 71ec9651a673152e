//! A process that stands still: stopped by its operator, starved of processor time, or moved with its machine.
//!
//! What is on the wire goes on without it, and the provider's windows turn. What was to happen inside it happens when
//! it goes on, all at once and in the order it came. Many short pauses are a slow process.
//!
//! One actor may be slow by itself: what is for it waits in its inbox, the others and the shared scopes go on.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::World;
use super::agenda::{Happening, Place};
use super::step::Work;
use crate::engine::mailbox::Input;
use crate::engine::{OperationKey, Timestamp};

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

/// Actors that are busy, with what waits for them.
#[derive(Debug, Default)]
pub(super) struct Busy(BTreeMap<usize, (Timestamp, VecDeque<Input>)>);

impl Busy {
    /// Keeps an input for a busy actor; gives it back for one that is not.
    pub(super) fn keep(&mut self, mailbox: usize, input: Input) -> Option<Input> {
        match self.0.get_mut(&mailbox) {
            Some((_, inbox)) => {
                inbox.push_back(input);
                None
            }
            None => Some(input),
        }
    }

    /// Whether an operation waits in a busy actor's inbox.
    pub(super) fn holds(&self, mailbox: usize, key: OperationKey) -> bool {
        let is_it = |input: &Input| matches!(input, Input::Enqueue(operation) if operation.key == key);
        self.0.get(&mailbox).is_some_and(|(_, inbox)| inbox.iter().any(is_it))
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The actor is gone, and its inbox with it.
    pub(super) fn lose(&mut self, mailbox: usize) {
        self.0.remove(&mailbox);
    }
}

impl World {
    /// Has one mailbox's actor busy from `at` for `span`: everything that is for it waits in its inbox until then.
    pub fn pause_mailbox(&mut self, mailbox: usize, at: Timestamp, span: Duration) {
        self.put(at, Happening::Busy(mailbox, at.after(span)));
    }

    pub(super) fn be_busy(&mut self, mailbox: usize, until: Timestamp) {
        let (busy, _) = self.busy.0.entry(mailbox).or_insert_with(|| (until, VecDeque::new()));
        *busy = until.max(*busy);
        self.put(until, Happening::Free(mailbox));
    }

    /// Takes what has come meanwhile, unless it is busy for longer.
    pub(super) fn be_free(&mut self, mailbox: usize) {
        if self.busy.0.get(&mailbox).is_none_or(|(until, _)| *until > self.now) {
            return;
        }
        let (_, inbox) = self.busy.0.remove(&mailbox).unwrap_or_default();
        inbox.into_iter().for_each(|input| self.run(Work::Mailbox(mailbox, input)));
    }

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
            | Happening::Written { .. }
            | Happening::Tell(_)
            | Happening::Lose(_)
            | Happening::Wake(_)
            | Happening::WakeShared
            | Happening::Free(_)
            | Happening::Change(_) => true,
            Happening::Arrive { .. }
            | Happening::Burn(_)
            | Happening::WallStep(_)
            | Happening::Crash(_)
            | Happening::Restart
            | Happening::Pause(_)
            | Happening::Busy(..)
            | Happening::GoOn => false,
        };
        let stopped = inside && self.now < self.pause.until;
        if stopped {
            self.pause.stopped.push_back((place, happening));
        }
        stopped
    }
}
