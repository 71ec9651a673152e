//! The handle: what every part of a program gets.

use std::fmt;
use std::sync::Arc;

use futures::future::join_all;
use tokio::sync::oneshot;

use super::error::AskError;
use super::mint::Mint;
use crate::actor::{Errand, Found, NoRoom, NotTaken, QUESTIONS_MAX, Question, Seat, World};
use crate::engine::mailbox::Input;
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
    /// The seat of a mailbox that something new is for: one that was taken off a closed list takes nothing in, however
    /// long what it has keeps it alive.
    pub(super) fn seat_of_new(&self, mailbox: &Arc<str>) -> Result<Arc<Seat>, NoSeat> {
        self.permit(mailbox)?;
        self.seat(mailbox)
    }

    fn permit(&self, mailbox: &Arc<str>) -> Result<(), NoSeat> {
        self.world.settings.load().config.permit_mailbox(mailbox).map_err(|_| NoSeat::Unknown)
    }

    /// The seat of a mailbox; its actor is started if there is none.
    pub(super) fn seat(&self, mailbox: &Arc<str>) -> Result<Arc<Seat>, NoSeat> {
        if self.world.is_closing() {
            return Err(NoSeat::Closed);
        }
        if let Some(seat) = self.world.directory.find(mailbox) {
            return self.unless_closing(seat);
        }
        self.permit(mailbox)?;
        let seat = match self.world.directory.enter(mailbox, self.world.clock.now()) {
            Ok(Found::Live(seat)) => seat,
            Ok(Found::New(seat)) => {
                self.world.supervisor.push(Errand::Start(Arc::clone(&seat)));
                seat
            }
            Err(NoRoom) => return Err(NoSeat::Full),
        };
        self.unless_closing(seat)
    }

    /// A scheduler that has stopped closes the seats that there are; to one that was entered after that nobody comes.
    fn unless_closing(&self, seat: Arc<Seat>) -> Result<Arc<Seat>, NoSeat> {
        if self.world.is_closing() { Err(NoSeat::Closed) } else { Ok(seat) }
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

    /// Tells every live mailbox. One that is not live any more, or has no engine now, begins with what is in force then.
    ///
    /// # Errors
    /// When one of them has too much to do, or the scheduler stops: that one may not have heard.
    pub(super) async fn tell_live(&self, input: impl Fn(&Seat) -> Input) -> Result<(), AskError> {
        let mut told = Ok(());
        let mut answers = Vec::new();
        for seat in self.world.directory.all() {
            let (answer, heard) = oneshot::channel();
            match seat.ingress().ask(Question::Command { input: input(&seat), answer }) {
                Ok(rung) => {
                    self.world.heard(&seat, rung);
                    answers.push(heard);
                }
                Err(NotTaken::Retired(_)) => {}
                Err(NotTaken::Closed(_)) => told = Err(AskError::ShuttingDown),
                Err(NotTaken::Full(_)) => {
                    told = Err(AskError::Busy { what: "the mailbox's question queue", max: QUESTIONS_MAX });
                }
            }
        }
        drop(join_all(answers).await);
        told
    }

    pub(super) fn no_seat(&self, mailbox: &Arc<str>, none: &NoSeat) -> AskError {
        match none {
            NoSeat::Unknown => AskError::UnknownMailbox { mailbox: Arc::clone(mailbox) },
            NoSeat::Full => AskError::Busy { what: "live mailboxes", max: self.world.directory.live_max() },
            NoSeat::Closed => AskError::ShuttingDown,
        }
    }
}
