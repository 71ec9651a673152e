//! The caller's end of an operation: how it will learn what became of it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use triomphe::Arc as Shared;

use super::slip::{Listening, Slip, Teller};
use crate::engine::mailbox::Outcome;
use crate::store::PackedId;
use crate::submission::SubmitError;

/// A submitted operation. Dropping it detaches: the send goes on.
#[derive(Debug)]
#[must_use = "a ticket tells what became of the operation; drop it on purpose to detach"]
pub struct Ticket {
    slip: Shared<Slip>,
}

/// Why a ticket has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TicketError {
    /// The scheduler, or the actor that knew of this ticket, is gone. The operation is where the store has it: ask
    /// for it by its id, or start the scheduler again over the same store.
    #[error("the scheduler went away before operation {operation_id:?} came to an end")]
    Interrupted {
        /// Which operation.
        operation_id: Arc<str>,
    },
}

impl Ticket {
    /// A ticket and the end that answers it.
    pub(crate) fn open(id: impl Into<PackedId>) -> (Self, Teller) {
        let teller = Teller::new(id);
        (Self::of(&teller), teller)
    }

    /// One more ticket that `teller` answers.
    pub(crate) fn of(teller: &Teller) -> Self {
        Self { slip: teller.slip() }
    }

    /// The operation's id: the one given, or the one minted for it.
    #[must_use]
    pub fn operation_id(&self) -> Arc<str> {
        self.slip.id()
    }

    /// Waits until the operation has come to an end, or until nobody knows how it ended ([`Outcome::Unknown`]; the
    /// store may learn more later).
    ///
    /// # Errors
    /// [`TicketError::Interrupted`] when the scheduler goes away first.
    ///
    /// # Cancel safety
    /// Dropping the future loses this ticket, not the operation: `SchedulerHandle::ticket` gives a new one.
    pub async fn outcome(self) -> Result<Outcome, TicketError> {
        Listening::new(self.slip).await
    }
}

/// Where the answer to one submission goes.
#[derive(Debug)]
pub(crate) enum TicketReply {
    /// To a caller who waits for this one.
    One(oneshot::Sender<Result<Ticket, SubmitError>>),
    /// To a caller who waits for several.
    Many(Arc<BatchReply>, usize),
}

impl TicketReply {
    /// Whether nobody waits any more, so that nothing need happen.
    pub(crate) fn is_withdrawn(&self) -> bool {
        match self {
            Self::One(sender) => sender.is_closed(),
            Self::Many(batch, _) => batch.is_withdrawn(),
        }
    }

    pub(crate) fn send(self, answer: Result<Ticket, SubmitError>) {
        match self {
            // The caller has gone: a stored operation goes on by itself, a refused one is nobody's concern.
            Self::One(sender) => drop(sender.send(answer)),
            Self::Many(batch, at) => batch.set(at, answer),
        }
    }
}

/// Answers per item; `None`: there was none, because the actor that had it is gone.
pub(crate) type BatchAnswers = Vec<Option<Result<Ticket, SubmitError>>>;

/// Collects the answers to one batch, and sends them when the last item's reply is gone.
#[derive(Debug)]
pub(crate) struct BatchReply {
    inner: Mutex<(BatchAnswers, Option<oneshot::Sender<BatchAnswers>>)>,
}

impl BatchReply {
    pub(crate) fn new(count: usize) -> (Arc<Self>, oneshot::Receiver<BatchAnswers>) {
        let (sender, receiver) = oneshot::channel();
        let answers = std::iter::repeat_with(|| None).take(count).collect();
        (Arc::new(Self { inner: Mutex::new((answers, Some(sender))) }), receiver)
    }

    fn set(&self, at: usize, answer: Result<Ticket, SubmitError>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = inner.0.get_mut(at) {
            *place = Some(answer);
        }
    }

    fn is_withdrawn(&self) -> bool {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.1.as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}

impl Drop for BatchReply {
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = inner.1.take() {
            drop(sender.send(std::mem::take(&mut inner.0)));
        }
    }
}
