//! Wakes an actor once for any number of things that wait for it.
//!
//! Thousands of submissions would be thousands of actor messages; here they lie in a bounded queue beside the actor,
//! and the first of them rings. The actor answers the bell before it looks into the queue, so whatever arrives later
//! rings again: nothing can lie there unseen, and at most two messages ever stand in an actor's own queue.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use actix::{Message, Recipient};

/// The message between actors: look into your queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake;

impl Message for Wake {
    type Result = ();
}

/// The scheduler stops: leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop;

impl Message for Stop {
    type Result = ();
}

/// Whether ringing reached somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Rung {
    /// The actor will look, or will be started and then look.
    Heard,
    /// The actor is gone.
    Dead,
}

#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    actor: OnceLock<Recipient<Wake>>,
}

impl Bell {
    /// Connects the bell. The actor takes its first look by itself.
    pub(crate) fn attach(&self, actor: Recipient<Wake>) {
        let _ = self.actor.set(actor);
    }

    /// Call after something was put into the queue.
    pub(crate) fn ring(&self) -> Rung {
        if self.rung.swap(true, Ordering::AcqRel) {
            return Rung::Heard;
        }
        match self.actor.get() {
            // A full actor queue holds a wake-up already.
            Some(actor) if actor.try_send(Wake).is_err() && !actor.connected() => Rung::Dead,
            _ => Rung::Heard,
        }
    }

    /// Call before looking into the queue.
    pub(crate) fn answer(&self) {
        self.rung.store(false, Ordering::Release);
    }
}
