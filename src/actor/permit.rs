//! Permits: capacity for callers who send by themselves.
//!
//! A permit has no operation: if the process dies, the send is the caller's to remember. Its charge is a note, durable
//! before the permit is handed over, so a restart counts it. What it shares with submissions is everything else: the
//! same lanes, the same ledger, the same breaker.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::reply::Reply;
use super::seat::Seat;
use super::world::World;
use crate::engine::mailbox::Refusal;
use crate::engine::{Answer, Constraint, OperationKey, Timestamp};
use crate::submission::InvalidSubmission;

/// Leave to make one send now. Report how it ended with [`Permit::settle`].
///
/// Until it is settled or dropped it holds a connection of its mailbox and its part of every window, however long that takes:
/// nobody else knows whether its request has left. So give the send a deadline below `guard.request_deadline_max`, and
/// do not keep a permit for later.
///
/// One that is not used is given back with [`Permit::give_back`].
/// Dropping it unsettled keeps its charge as if the send had reached the provider, and is reported as an event.
#[must_use = "a permit that is dropped keeps its charge; settle it with how the send ended"]
pub struct Permit {
    seat: Arc<Seat>,
    world: Arc<World>,
    key: OperationKey,
    stage: Stage,
}

/// Whose the permit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// On its way to the caller, who has not seen it and may have gone.
    Offered,
    /// The caller's.
    Taken,
    /// Nobody's any more.
    Settled,
}

/// What [`try_acquire`](crate::actor::TryAcquire) answers.
#[derive(Debug)]
#[non_exhaustive]
pub enum TryAcquire {
    /// Go.
    Granted(Permit),
    /// Not before `until`, by what is known now.
    Deferred {
        /// The instant of the binding one.
        until: Timestamp,
        /// Every one of them; the binding one is marked.
        constraints: Vec<Constraint>,
    },
    /// Never as it stands.
    Refused(Refusal),
}

/// Why there is no permit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PermitError {
    /// A field is wrong.
    #[error("the request is not valid: {0}")]
    Invalid(InvalidSubmission),
    /// The mailbox is not configured, and the list is closed.
    #[error("mailbox {mailbox:?} is not configured, and unlisted mailboxes are refused; list it in the configuration")]
    UnknownMailbox {
        /// Which.
        mailbox: Arc<str>,
    },
    /// The mailbox can never, or not in the time allowed, grant it.
    #[error("refused: {}", crate::submission::describe(.0))]
    Refused(Refusal),
    /// More is waiting to be taken in than the lane's queue holds.
    #[error("the queue holds {depth_max} requests already; try again later")]
    QueueFull {
        /// The bound that was met.
        depth_max: usize,
        /// Try again after this.
        retry_after: Duration,
    },
    /// As many mailboxes are live as are allowed, and none is idle.
    #[error("{mailboxes_max} mailboxes are live, the most allowed, and none is idle; try again later")]
    TooManyMailboxes {
        /// The bound that was met.
        mailboxes_max: usize,
        /// Try again after this.
        retry_after: Duration,
    },
    /// Another process owns the mailbox, or the store that says who does is out of reach: permits are granted by the
    /// owner alone.
    #[error("another process owns the mailbox; ask there, or again when this one does")]
    Elsewhere,
    /// Its deadline passed while it waited.
    #[error("the deadline passed before it was granted")]
    Expired,
    /// The mailbox's actor failed too often and waits for an operator.
    #[error("the mailbox is held after repeated failures of its actor; resume it by hand")]
    MailboxHeld,
    /// The mailbox's actor was rebuilt while it waited; ask again.
    #[error("the mailbox's actor was rebuilt while the request waited; ask again")]
    Interrupted,
    /// The scheduler is stopping or gone.
    #[error("the scheduler is shutting down and grants nothing any more")]
    ShuttingDown,
}

impl PermitError {
    /// Whether the same request may be granted later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Invalid(_) | Self::UnknownMailbox { .. } => false,
            Self::Refused(refusal) => matches!(refusal, Refusal::WaitTooLong { .. } | Refusal::QueueFull { .. }),
            Self::QueueFull { .. }
            | Self::TooManyMailboxes { .. }
            | Self::Elsewhere
            | Self::Expired
            | Self::MailboxHeld
            | Self::Interrupted
            | Self::ShuttingDown => true,
        }
    }
}

impl Permit {
    pub(crate) const fn new(world: Arc<World>, seat: Arc<Seat>, key: OperationKey) -> Self {
        Self { seat, world, key, stage: Stage::Offered }
    }

    /// The caller has it: from here on dropping it may mean that the send was made.
    pub(crate) fn take(mut self) -> Self {
        self.stage = Stage::Taken;
        self
    }

    /// The mailbox to send from.
    #[must_use]
    pub fn mailbox(&self) -> &str {
        self.seat.id()
    }

    /// Reports how the send ended: a [`Verdict`](crate::engine::Verdict), or an [`Answer`] with more in it.
    ///
    /// A throttle opens the mailbox's breaker for every send; a failure after which no byte left the machine gives
    /// the charge back, and several of those in a row say that the provider is out of reach. Where it was your own
    /// decision not to send, call [`Permit::give_back`].
    pub fn settle(mut self, answer: impl Into<Answer>) {
        self.stage = Stage::Settled;
        self.world.reply(&self.seat, Reply::Settled { key: self.key, answer: answer.into() });
    }

    /// Nothing was sent, and not because of the provider: what it was charged comes back, and no breaker hears of it.
    pub fn give_back(mut self) {
        self.stage = Stage::Settled;
        self.world.reply(&self.seat, Reply::Returned { key: self.key });
    }

    /// Takes the permit apart without any report: nobody but the actor has seen it.
    pub(crate) fn revoke(mut self) {
        self.stage = Stage::Settled;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let key = self.key;
        match self.stage {
            Stage::Offered => self.world.reply(&self.seat, Reply::Returned { key }),
            Stage::Taken => self.world.reply(&self.seat, Reply::Abandoned { key }),
            Stage::Settled => {}
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("mailbox", &self.seat.id()).finish_non_exhaustive()
    }
}
