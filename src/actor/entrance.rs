//! What comes in through a lane: a submission to be stored and sent, or a request for a permit.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::permit::{Permit, PermitError, TryAcquire};
use super::ticket::TicketReply;
use crate::engine::{Cost, Lane, OperationKey};
use crate::store::StoreError;
use crate::submission::{Submission, SubmitError};

#[derive(Debug)]
pub(crate) enum Admit {
    Send(Box<Handed>),
    Permit(Box<PermitRequest>),
}

/// A validated submission with its id, on its way into the store.
#[derive(Debug)]
pub(crate) struct Handed {
    pub(crate) submission: Submission,
    pub(crate) id: Arc<str>,
    pub(crate) cost: Cost,
    /// Counted by the caller: it reads every byte of the email, and the actor has other mailboxes to serve.
    pub(crate) fingerprint: u64,
    pub(crate) reply: TicketReply,
}

#[derive(Debug)]
pub(crate) struct PermitRequest {
    pub(crate) key: OperationKey,
    pub(crate) mailbox: Arc<str>,
    pub(crate) lane: Lane,
    pub(crate) cost: Cost,
    pub(crate) tenant: Option<Arc<str>>,
    /// Most it may wait.
    pub(crate) wait_max: Option<Duration>,
    pub(crate) reply: PermitReply,
}

#[derive(Debug)]
pub(crate) enum PermitReply {
    /// The caller waits for it.
    Wait(oneshot::Sender<Result<Permit, PermitError>>),
    /// The caller wants to know now.
    Try(oneshot::Sender<Result<TryAcquire, PermitError>>),
}

impl Admit {
    pub(crate) fn lane(&self) -> Lane {
        match self {
            Self::Send(handed) => handed.submission.lane,
            Self::Permit(request) => request.lane,
        }
    }

    pub(crate) fn mailbox(&self) -> &Arc<str> {
        match self {
            Self::Send(handed) => &handed.submission.mailbox,
            Self::Permit(request) => &request.mailbox,
        }
    }

    /// Answers it with why it was not taken in.
    pub(crate) fn turn_away(self, why: TurnedAway) {
        match self {
            Self::Send(handed) => handed.turn_away(why),
            Self::Permit(request) => request.reply.fail(match why {
                TurnedAway::ShuttingDown => PermitError::ShuttingDown,
                TurnedAway::MailboxHeld => PermitError::MailboxHeld,
            }),
        }
    }
}

/// Why something was not even looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TurnedAway {
    ShuttingDown,
    MailboxHeld,
}

impl Handed {
    pub(crate) fn turn_away(self, why: TurnedAway) {
        self.refuse(|submission| match why {
            TurnedAway::ShuttingDown => SubmitError::ShuttingDown { submission },
            TurnedAway::MailboxHeld => SubmitError::MailboxHeld { submission },
        });
    }

    /// The store did not take it. The submission goes back with its id, so that handing it over again cannot double it.
    pub(crate) fn not_stored(mut self, source: StoreError) {
        let id = Arc::clone(&self.id);
        self.submission.operation_id = Some(Arc::clone(&id));
        self.refuse(|submission| SubmitError::Store { id, source, submission });
    }

    /// Hands the submission back with an error.
    pub(crate) fn refuse(self, error: impl FnOnce(Box<Submission>) -> SubmitError) {
        let Self { submission, reply, .. } = self;
        reply.send(Err(error(Box::new(submission))));
    }
}

impl PermitReply {
    pub(crate) fn is_withdrawn(&self) -> bool {
        match self {
            Self::Wait(sender) => sender.is_closed(),
            Self::Try(sender) => sender.is_closed(),
        }
    }

    pub(crate) fn fail(self, error: PermitError) {
        match self {
            Self::Wait(sender) => drop(sender.send(Err(error))),
            Self::Try(sender) => drop(sender.send(Err(error))),
        }
    }
}
