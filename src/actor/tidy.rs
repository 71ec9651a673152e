//! What a mailbox gives back when it has been quiet for a while, and how it goes.
//!
//! Buffers are kept between turns, because a busy mailbox would ask for them again at once; kept by a hundred thousand
//! idle ones they would be most of the process. Passivation gives back everything, but comes much later.

use std::sync::Arc;
use std::time::Duration;

use actix::{ActorContext, Context};

use super::mailbox::MailboxActor;
use super::shared_item::SharedItem;
use super::supervisor::Errand;
use crate::engine::mailbox::Input;
use crate::engine::shared;

/// Quiet for this long: a minute's window has been forgotten by then too.
pub(super) const TIDY_AFTER: Duration = Duration::from_secs(90);

impl MailboxActor {
    /// Gives back what an idle mailbox does not need.
    pub(super) fn tidy(&mut self) {
        // Its engine drops the windows in which nothing counts any more.
        self.step(Input::Wake);
        self.turn = Default::default();
        self.effects = Vec::new();
        self.jobs = Vec::new();
        self.to_shared = Vec::new();
        self.postponed = Vec::new();
        self.desk.shrink();
        self.journal.shrink();
        self.seat.ingress().shrink();
    }

    /// Leaves, and gives the engine to the supervisor: its charges still count.
    pub(super) fn depart(&mut self, ctx: &mut Context<Self>) {
        self.departed = true;
        self.give_back();
        if let Some(fleet) = &self.world.fleet {
            fleet.has_left(self.seat.id());
        }
        self.world.directory.leave(&self.seat);
        self.world.shared.push(SharedItem::Input(shared::Input::MailboxGone(self.seat.key())));
        // Whoever shares the mailbox may have sent by the time it is asked for again.
        let engine = self.engine.take().filter(|_| self.world.fleet.is_none());
        let rested = engine.map(|engine| engine.rested(self.now));
        self.world.supervisor.push(Errand::Departed { seat: Arc::clone(&self.seat), rested });
        ctx.stop();
    }
}
