//! What people and other clients do to a world while it runs.

use std::sync::Arc;

use super::World;
use super::agenda::Happening;
use super::step::Work;
use crate::engine::mailbox::Input;
use crate::engine::{Cost, Timestamp};

/// Something that one mailbox is told.
#[derive(Clone, Debug)]
pub(super) struct Told {
    mailbox: usize,
    input: Input,
}

impl World {
    /// Lets another client spend `cost` of a mailbox's budget at `at`, whether it fits or not.
    pub fn burn(&mut self, at: Timestamp, mailbox: Arc<str>, tenant: Option<Arc<str>>, cost: Cost) {
        self.burns.push((mailbox, tenant, cost));
        self.put(at, Happening::Burn(self.burns.len() - 1));
    }

    /// Tells a mailbox something at `at`: a cancel, a hold, a trip. A process that is gone then does not hear it.
    pub fn tell(&mut self, at: Timestamp, mailbox: usize, input: Input) {
        self.told.push(Told { mailbox, input });
        self.put(at, Happening::Tell(self.told.len() - 1));
    }

    pub(super) fn be_told(&mut self, number: usize) {
        let told = self.told.get(number).filter(|_| self.down_until.is_none()).cloned();
        if let Some(Told { mailbox, input }) = told {
            self.run(Work::Mailbox(mailbox, input));
        }
    }

    /// When each change of policies was heard, by its number, in true time: a process that stands still hears of it later.
    #[must_use]
    pub fn changed(&self) -> &[(Timestamp, usize)] {
        &self.changed
    }

    /// Loses one mailbox's actor at `at`; another one is made at once over what the outbox holds. Needs
    /// [`World::keep_outbox`].
    pub fn lose_actor(&mut self, at: Timestamp, mailbox: usize) {
        self.put(at, Happening::Lose(mailbox));
    }
}
