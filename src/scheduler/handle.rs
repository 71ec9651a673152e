//! The handle: what every part of a program gets.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::error::AskError;
use super::mint::Mint;
use crate::actor::{Errand, Found, NoRoom, NotTaken, QUESTIONS_MAX, Question, Seat, World};
use crate::submission;

/// Submits, asks and steers. Cheap to clone; works from any thread and any tokio runtime, also after the scheduler
/// has stopped (everything is refused then).
#[derive(Clone)]
pub struct SchedulerHandle {
    pub(super) world: Arc<World>,
    pub(super) mint: Arc<Mint>,
}

const _: () = {
    const fn is_a_handle<T: Clone + Send + Sync + fmt::Debug>() {}
    is_a_handle::<SchedulerHandle>();
};

impl fmt::Debug for SchedulerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchedulerHandle").field("world", &self.world).finish()
    }
}

/// Why there is no seat for a mailbox.
#[derive(Debug)]
pub(super) enum NoSeat {
    /// The mailbox is not configured, and the list is closed.
    Unknown,
    /// As many mailboxes are live as are allowed, and none is idle.
    Full,
    /// The scheduler is stopping.
    Closed,
}

impl SchedulerHandle {
    /// The seat of a mailbox; its actor is started if there is none.
    pub(super) fn seat(&self, mailbox: &Arc<str>) -> Result<Arc<Seat>, NoSeat> {
        if self.world.is_closing() {
            return Err(NoSeat::Closed);
        }
        if let Some(seat) = self.world.directory.find(mailbox) {
            return Ok(seat);
        }
        self.world.settings.load().config.permit_mailbox(mailbox).map_err(|_| NoSeat::Unknown)?;
        match self.world.directory.enter(mailbox, self.world.clock.now()) {
            Ok(Found::Live(seat)) => Ok(seat),
            Ok(Found::New(seat)) => {
                self.world.supervisor.push(Errand::Start(Arc::clone(&seat)));
                Ok(seat)
            }
            Err(NoRoom) => Err(NoSeat::Full),
        }
    }

    /// Asks a mailbox's actor, and waits for its answer.
    pub(super) async fn ask<T>(
        &self,
        mailbox: &Arc<str>,
        question: impl Fn(oneshot::Sender<T>) -> Question,
    ) -> Result<T, AskError> {
        submission::id("mailbox", mailbox, submission::MAILBOX_ID_BYTES_MAX).map_err(AskError::Invalid)?;
        let answer = loop {
            let seat = self.seat(mailbox).map_err(|none| self.no_seat(mailbox, &none))?;
            let (sender, answer) = oneshot::channel();
            match seat.ingress().ask(question(sender)) {
                Ok(rung) => {
                    self.world.heard(&seat, rung);
                    break answer;
                }
                // Passivated between the look-up and the question: its next seat takes it.
                Err(NotTaken::Retired(_)) => self.world.directory.leave(&seat),
                Err(NotTaken::Closed(_)) => return Err(AskError::ShuttingDown),
                Err(NotTaken::Full(_)) => {
                    return Err(AskError::Busy { what: "the mailbox's question queue", max: QUESTIONS_MAX });
                }
            }
        };
        answer.await.map_err(|_| {
            if self.world.is_closing() {
                AskError::ShuttingDown
            } else if self.world.fleet.as_ref().is_some_and(|fleet| fleet.is_elsewhere(mailbox)) {
                AskError::Elsewhere { mailbox: Arc::clone(mailbox) }
            } else {
                AskError::NotNow { mailbox: Arc::clone(mailbox) }
            }
        })
    }

    pub(super) fn no_seat(&self, mailbox: &Arc<str>, none: &NoSeat) -> AskError {
        match none {
            NoSeat::Unknown => AskError::UnknownMailbox { mailbox: Arc::clone(mailbox) },
            NoSeat::Full => AskError::Busy { what: "live mailboxes", max: self.world.directory.live_max() },
            NoSeat::Closed => AskError::ShuttingDown,
        }
    }
}
