//! What the actor of the shared scopes tells mailboxes, and the fleet.

use super::SharedActor;
use crate::actor::reply::Reply;
use crate::engine::mailbox;
use crate::engine::shared::Asker;
use crate::engine::{OperationKey, Scope, Timestamp, TripReason};

impl SharedActor {
    /// What was granted on tokens leaves before these end.
    pub(super) fn note_tokens(&self, key: OperationKey) {
        let leaves_by = self.engine.as_ref().and_then(|engine| engine.leaves_by(key));
        if let (Some(fleet), Some(leaves_by)) = (&self.world.fleet, leaves_by) {
            fleet.has_tokens(key, leaves_by);
        }
    }

    pub(super) fn answer(&self, asker: Asker, input: mailbox::Input) {
        // A mailbox that is gone has said so, or is about to: its reservations are dropped then.
        if let Some(seat) = self.world.directory.by_key(asker.mailbox) {
            self.world.reply(&seat, Reply::Shared(input));
        }
    }

    pub(super) fn announce(&self, ask: mailbox::AskShared) {
        self.world.set_ask_shared(ask);
        for seat in self.world.directory.all() {
            self.world.reply(&seat, Reply::Shared(mailbox::Input::AskShared(ask)));
        }
    }

    /// Mailboxes have to hear of it where somebody watches what passes a hold.
    pub(super) fn tell_trouble(&self, now: Timestamp, scope: &Scope, reason: TripReason) {
        if self.world.holds.are_widening(now) {
            for seat in self.world.directory.all() {
                let troubled = mailbox::Input::Troubled { scope: scope.clone(), reason };
                self.world.reply(&seat, Reply::Shared(troubled));
            }
        }
    }
}
