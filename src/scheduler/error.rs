//! Why the scheduler did not start, or did not answer.

use std::sync::Arc;

use crate::actor::{Forgets, HoldScope, NoPart};
use crate::config::ConfigError;
use crate::engine::mailbox::Refusal;
use crate::store::StoreError;
use crate::submission::{self, InvalidSubmission};

/// Why the scheduler did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// `start` was called outside a tokio runtime.
    #[error("there is no tokio runtime here; call start() inside one, for instance under #[tokio::main]")]
    NoRuntime,
    /// The runtime has no timer.
    #[error("the tokio runtime has no timer; build it with enable_time() or enable_all()")]
    NoTimer,
    /// `start_on_current_thread` was called outside a `LocalSet`.
    #[error("there is no LocalSet here; run start_on_current_thread() inside LocalSet::run_until()")]
    NoLocalSet,
    /// The configuration does not hold together.
    #[error("the configuration is not valid")]
    Config(#[source] ConfigError),
    /// The store is shared, and a limit that all processes share cannot be divided among them.
    #[error("the store is shared by several processes")]
    SharedLimit(#[source] NoPart),
    /// The store forgets attempts before a limit does.
    #[error("the store does not keep attempts for as long as they count")]
    Retention(#[source] Forgets),
    /// As many processes as are allowed work over the store, by those that it has heard of lately.
    #[error(
        "{members} processes are over this store with this one, and {processes_max} are allowed; raise fleet.processes_max in all of them, or start again when the lease of one that has ended is over"
    )]
    TooManyProcesses {
        /// How many, this one included.
        members: u32,
        /// How many are allowed.
        processes_max: u32,
    },
    /// The store did not open.
    #[error("the store could not be read")]
    Store(#[source] StoreError),
    /// The system gave no thread.
    #[error("the actors' thread could not be started")]
    Thread(#[source] std::io::Error),
}

impl StartError {
    /// Whether the same start may work later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Store(source) => source.is_retryable(),
            Self::Thread(_) | Self::TooManyProcesses { .. } => true,
            Self::NoRuntime
            | Self::NoTimer
            | Self::NoLocalSet
            | Self::Config(_)
            | Self::SharedLimit(_)
            | Self::Retention(_) => false,
        }
    }
}

/// Why a question or an order was not answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// No operation has this id.
    #[error("there is no operation {id:?}")]
    NoOperation {
        /// Which.
        id: Arc<str>,
    },
    /// The mailbox is not configured, and the list is closed.
    #[error("mailbox {mailbox:?} is not configured, and unlisted mailboxes are refused; list it in the configuration")]
    UnknownMailbox {
        /// Which.
        mailbox: Arc<str>,
    },
    /// An id or a reason is empty, too long, or more than one line. Nothing was asked or ordered.
    #[error("the question or order is not valid: {0}")]
    Invalid(InvalidSubmission),
    /// Nothing is held there, so no part of it can be resumed.
    #[error("nothing is held under {scope}; what is held is listed by holds()")]
    NoHold {
        /// What was named.
        scope: HoldScope,
    },
    /// Too much is being asked of one actor, or too many mailboxes are live, or too many orders are in force.
    #[error("{what} is at its bound of {max}; try again later")]
    Busy {
        /// What is full.
        what: &'static str,
        /// Its bound.
        max: usize,
    },
    /// The mailbox's engine is being rebuilt, or is held after repeated failures.
    #[error("mailbox {mailbox:?} cannot answer now: its actor is being rebuilt or is held")]
    NotNow {
        /// Which.
        mailbox: Arc<str>,
    },
    /// Another process owns the mailbox: what waits there and why is known there.
    #[error("mailbox {mailbox:?} is owned by another process; ask there")]
    Elsewhere {
        /// Which.
        mailbox: Arc<str>,
    },
    /// The operation cannot be released as things are. It stays quarantined.
    #[error("it cannot be released: {}", describe(.0))]
    Refused(Refusal),
    /// The store did not answer.
    #[error("the store did not answer")]
    Store(#[source] StoreError),
    /// The new configuration does not hold together, or needs a restart. The old one stays in force.
    #[error("the new configuration was not taken, and the old one stays in force")]
    Config(#[source] ConfigError),
    /// It is not done where several processes share a store.
    #[error("{what} by one process alone, and this store is shared by several; lift it as a whole")]
    NotShared {
        /// What.
        what: &'static str,
    },
    /// A limit that all processes share cannot be divided among them. The old configuration stays in force.
    #[error("the new configuration was not taken, and the old one stays in force")]
    SharedLimit(#[source] NoPart),
    /// The store forgets attempts before a limit does. The old configuration stays in force.
    #[error("the new configuration was not taken, and the old one stays in force")]
    Retention(#[source] Forgets),
    /// The scheduler is stopping or gone.
    #[error("the scheduler is shutting down")]
    ShuttingDown,
}

impl AskError {
    /// Whether the same question may be answered later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::NotNow { .. } | Self::Elsewhere { .. } => true,
            Self::Store(source) => source.is_retryable(),
            Self::Refused(refusal) => matches!(refusal, Refusal::QueueFull { .. } | Refusal::WaitTooLong { .. }),
            Self::NoOperation { .. }
            | Self::UnknownMailbox { .. }
            | Self::Invalid(_)
            | Self::NoHold { .. }
            | Self::Config(_)
            | Self::SharedLimit(_)
            | Self::Retention(_)
            | Self::NotShared { .. }
            | Self::ShuttingDown => false,
        }
    }
}

fn describe(refusal: &Refusal) -> String {
    match refusal {
        Refusal::DeadlineTooEarly { .. } => {
            "its deadline has passed, or comes before it could be sent; give it a new one (Order::deadline)".to_owned()
        }
        other => submission::describe(other),
    }
}
