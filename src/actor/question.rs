//! What people and programs ask one mailbox's actor.

use tokio::sync::oneshot;

use super::orders::PersonOrder;
use super::ticket::Ticket;
use crate::engine::mailbox::{HoldTarget, Input, MailboxFacts, Snapshot};
use crate::engine::{Constraint, OperationKey, OperationState};
use crate::store::OperationRecord;

/// Dropping a question unanswered tells the asker that the actor is gone.
#[derive(Debug)]
pub(crate) enum Question {
    /// Why does it wait?
    Explain { key: Option<OperationKey>, answer: oneshot::Sender<Explained> },
    /// How does it stand?
    Facts { answer: oneshot::Sender<MailboxFacts> },
    /// The same, for who asks every mailbox: one that is still being read says nothing.
    Survey { answer: oneshot::Sender<MailboxFacts> },
    /// How does it stand, for a plan?
    Snapshot { answer: oneshot::Sender<Box<Snapshot>> },
    /// A person's word on one operation.
    Order(Box<PersonOrder>),
    /// Let me know how this operation ends.
    Subscribe { record: Box<OperationRecord>, answer: oneshot::Sender<Ticket> },
    /// An operator's word for the engine.
    Command { input: Input, answer: oneshot::Sender<()> },
    /// Start nothing more, and say when nothing is in flight.
    Drain { answer: oneshot::Sender<Drained> },
    /// How far has the draining come?
    Remaining { answer: oneshot::Sender<Drained> },
    /// Panic at every engine step about this operation.
    #[cfg(feature = "test-util")]
    Poison { id: std::sync::Arc<str>, answer: oneshot::Sender<()> },
    /// Panic at the next engine step.
    #[cfg(feature = "test-util")]
    Panic { answer: oneshot::Sender<()> },
    /// Panic outside the engine.
    #[cfg(feature = "test-util")]
    Die { answer: oneshot::Sender<()> },
}

impl Question {
    /// Whether it does not wait until the mailbox is read: the scheduler stops, or every mailbox is asked, or the engine
    /// that is built then begins with it.
    pub(crate) fn is_pressing(&self) -> bool {
        match self {
            Self::Survey { .. } | Self::Drain { .. } | Self::Remaining { .. } => true,
            Self::Command { input, .. } => is_begun_with(input),
            _ => false,
        }
    }
}

/// Whether an engine begins with it that is built after it was ordered.
const fn is_begun_with(input: &Input) -> bool {
    match input {
        Input::Reconfigure(_) | Input::Wake => true,
        Input::Hold(hold) => !matches!(hold.target, HoldTarget::Operation(_)),
        // A mailbox that the provider suspended is brought back by its engine.
        Input::Resume(target) => !matches!(target, HoldTarget::Operation(_) | HoldTarget::Mailbox),
        _ => false,
    }
}

/// Why something waits, by its mailbox's engine.
#[derive(Debug)]
pub(crate) struct Explained {
    /// What of the shared scopes is among it is what they last said.
    pub(crate) constraints: Vec<Constraint>,
    /// Whether the shared scopes' constraints, as they are now, concern it.
    pub(crate) asks_shared: bool,
}

/// What an order about one operation did. The state is the one it is in now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderAnswer {
    /// What was ordered.
    Done {
        /// Where it is now.
        state: OperationState,
    },
    /// Nothing yet: an attempt is live, or its outcome unknown. It is remembered and done when that is over, unless the
    /// operation ends with it.
    Requested {
        /// Where it is.
        state: OperationState,
    },
    /// Nothing: the operation had come to an end.
    TooLate {
        /// How.
        state: OperationState,
    },
    /// Nothing: the order does not fit the state that the operation is in.
    NotInState {
        /// Where it is.
        state: OperationState,
    },
}

impl OrderAnswer {
    /// Where the operation is now.
    #[must_use]
    pub const fn state(self) -> OperationState {
        match self {
            Self::Done { state } | Self::Requested { state } | Self::TooLate { state } | Self::NotInState { state } => {
                state
            }
        }
    }
}

/// One mailbox's part of the shutdown report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drained {
    /// Attempts accepted since the drain began.
    pub(crate) accepted: u64,
    /// Operations that went back to the store unsent, and submissions handed back.
    pub(crate) returned: u64,
    /// Attempts whose outcome is not known.
    pub(crate) unknown: u64,
}

impl std::ops::AddAssign for Drained {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.returned += other.returned;
        self.unknown += other.unknown;
    }
}
