//! What the engines were told in a run, to be told again with no world around them.
//!
//! A world spends more on its agenda, on the latencies it draws and on its log than on the engines it is about. Replayed
//! again, a recording is the engines alone: every input that they decided on, at its instant, every effect taken out
//! and the deadline asked for, as the shell does it.
//!
//! Not recorded: the end of the process. Engines that are rebuilt from the outbox are told nothing.

use std::sync::Arc;

use super::World;
use super::step::Work;
use crate::engine::Timestamp;
use crate::engine::mailbox::{AskShared, Effect, Input, Mailbox};
use crate::engine::policy::{MailboxPolicy, SharedPolicy};
use crate::engine::shared::Shared;

/// The inputs of a world's engines, in order.
#[derive(Clone, Debug)]
pub struct Recording {
    mailboxes: Vec<(Arc<str>, Arc<MailboxPolicy>)>,
    shared: Option<Arc<SharedPolicy>>,
    began_at: Timestamp,
    told: Vec<(Timestamp, Work)>,
}

/// What playing a recording came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replayed {
    /// Inputs that the engines decided on.
    pub decisions: u64,
    /// Effects that the mailboxes had performed.
    pub effects: u64,
    /// Sends among them.
    pub sends: u64,
}

impl World {
    /// How many inputs the engines have decided on.
    #[must_use]
    pub fn decisions(&self) -> u64 {
        self.decisions
    }

    /// Keeps every input of the engines for [`World::recording`], from now on. Before anything has happened.
    #[must_use]
    pub fn record(mut self) -> Self {
        let mailboxes = self.names.iter().cloned().zip(self.policies.iter().cloned()).collect();
        let (shared, began_at) = (self.shared_policy.clone(), self.local(self.now));
        self.recording = Some(Recording { mailboxes, shared, began_at, told: Vec::new() });
        self
    }

    /// What was kept, if anything was to be.
    #[must_use]
    pub fn recording(&self) -> Option<&Recording> {
        self.recording.as_ref()
    }
}

impl Recording {
    /// How many inputs it has.
    #[must_use]
    pub fn decisions(&self) -> usize {
        self.told.len()
    }

    pub(super) fn push(&mut self, at: Timestamp, work: &Work) {
        self.told.push((at, work.clone()));
    }

    /// Tells new engines the first `decisions_max` inputs. Each is copied first, for a shell has to make it, too.
    #[must_use]
    pub fn play(&self, decisions_max: usize) -> Replayed {
        let mut shared = self.shared.clone().map(Shared::new);
        let ask = shared.as_ref().map_or(AskShared::OnTrouble, Shared::ask);
        let named = |(name, policy): &(Arc<str>, Arc<MailboxPolicy>)| {
            let mut mailbox = Mailbox::new(Arc::clone(name), Arc::clone(policy));
            mailbox.handle(self.began_at, Input::AskShared(ask));
            mailbox
        };
        let mut mailboxes: Vec<Mailbox> = self.mailboxes.iter().map(named).collect();
        let mut played = Replayed::default();
        for (at, work) in self.told.iter().take(decisions_max) {
            played.decisions += 1;
            match work {
                Work::Mailbox(number, input) => {
                    let mailbox = &mut mailboxes[*number];
                    mailbox.handle(*at, input.clone());
                    played.take_effects(mailbox);
                }
                Work::Shared(input) => {
                    let Some(shared) = &mut shared else { continue };
                    shared.handle(*at, input.clone());
                    while shared.poll_effect().is_some() {}
                    let _ = shared.poll_deadline();
                }
            }
        }
        played
    }
}

impl Replayed {
    fn take_effects(&mut self, mailbox: &mut Mailbox) {
        while let Some(effect) = mailbox.poll_effect() {
            self.effects += 1;
            self.sends += u64::from(matches!(effect, Effect::Send { .. }));
        }
        // Asked for at each input, and the answer not used: nobody waits here.
        std::hint::black_box(mailbox.poll_deadline());
    }
}
