//! One attempt: no retries, no sleeping, no budget.
//!
//! A transport sends once and reports. Whatever retries, waits or counts below the scheduler hides the signal that
//! the breaker lives on: switch such layers off.

#[cfg(feature = "graph")]
pub mod graph;
pub mod simulated;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::email::Email;
pub use crate::engine::{Answer, Sent, Subject, Throttle, ThrottleKind, Verdict};
use crate::engine::{Cost, Lane};

/// One attempt to make.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The operation's id: the idempotency key, the same in every attempt.
    pub operation_id: Arc<str>,
    /// The mailbox it leaves from.
    pub mailbox: Arc<str>,
    /// Its lane, for providers that take a priority.
    pub lane: Lane,
    /// The attempt's number, from 1.
    pub number: u32,
    /// What to send; the same bytes in every attempt.
    pub email: Email,
    /// How long it may take. The scheduler gives up at this instant by itself and counts the outcome as unknown.
    pub timeout: Duration,
}

/// Sends one email once.
pub trait Transport: Debug + Send + Sync + 'static {
    /// Makes one attempt.
    ///
    /// # Cancel safety
    /// The scheduler drops the future at the attempt's timeout and takes the outcome as [`Verdict::Unknown`].
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Answer>;

    /// What one attempt takes, of what the email counts: one request unless this says otherwise. Asked once per
    /// operation, when it is taken in; a cost that the submission names itself is taken as it is.
    fn cost(&self, counted: Cost) -> Cost {
        counted
    }

    /// Most attempts that one [`send_many`](Transport::send_many) takes; 1 means that it is not used.
    fn batch_max(&self) -> usize {
        1
    }

    /// Makes several attempts in one call and answers each, in order: an outer success says nothing about an item.
    fn send_many(&self, attempts: Vec<Attempt>) -> BoxFuture<'_, Vec<Answer>> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(attempts.len());
            for attempt in attempts {
                answers.push(self.send(attempt).await);
            }
            answers
        })
    }

    /// Looks up what became of an attempt whose outcome is unknown. `None`: it cannot tell (the default).
    fn reconcile(&self, attempt: Attempt) -> BoxFuture<'_, Option<bool>> {
        drop(attempt);
        Box::pin(async { None })
    }
}
