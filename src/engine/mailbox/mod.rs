//! One mailbox: its budget, its lanes, its operations.

mod io;

pub use io::{AskShared, Effect, Hold, HoldTarget, Input, MailboxFacts, Outcome, Record, Refusal, WindowFacts};

use std::sync::Arc;
use std::time::Duration;

use super::constraint::Constraint;
use super::operation::{Operation, OperationKey};
use super::policy::MailboxPolicy;
use super::time::Timestamp;

/// One mailbox's engine.
#[derive(Debug)]
pub struct Mailbox {
    id: Arc<str>,
    policy: Arc<MailboxPolicy>,
}

impl Mailbox {
    /// An engine with nothing in it.
    #[must_use]
    pub fn new(id: Arc<str>, policy: Arc<MailboxPolicy>) -> Self {
        Self { id, policy }
    }

    /// Whether `operation` may be taken in at all. Changes nothing.
    ///
    /// # Errors
    /// A [`Refusal`], when the answer is no; nothing may be stored then.
    pub fn check(&self, now: Timestamp, operation: &Operation, wait_max: Option<Duration>) -> Result<(), Refusal> {
        let _ = (now, operation, wait_max, &self.id, &self.policy);
        Ok(())
    }

    /// Takes one input. Drain [`Mailbox::poll_effect`] afterwards, then arm one timer for [`Mailbox::poll_deadline`].
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        let _ = (now, input);
    }

    /// The next effect to perform; `None` when the input has been worked off.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        None
    }

    /// When to come back with [`Input::Wake`], if nothing happens before.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<Timestamp> {
        None
    }

    /// Every constraint of an operation, or of the next send when `key` is `None`; the binding one is marked.
    #[must_use]
    pub fn explain(&self, now: Timestamp, key: Option<OperationKey>) -> Vec<Constraint> {
        let _ = (now, key);
        Vec::new()
    }

    /// Whether the actor may be passivated: nothing waits, is in flight, is held or in cooldown.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        true
    }
}
