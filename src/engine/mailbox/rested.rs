//! A mailbox with nothing to do, in few bytes.
//!
//! A hundred thousand mailboxes may have sent today and have nothing to do now. What such a one has used of its windows
//! must not be forgotten, and is little: the charges that still count. Everything else follows from its policy, which
//! all of them share. One in trouble is kept whole.

use std::sync::Arc;

use super::Mailbox;
use crate::engine::budget;
use crate::engine::lanes::Floor;
use crate::engine::policy::MailboxPolicy;
use crate::engine::scope::Scope;
use crate::engine::time::Timestamp;

/// An idle mailbox, packed by [`Mailbox::rested`].
#[derive(Clone, Debug)]
pub struct Rested(Form);

#[derive(Clone, Debug)]
enum Form {
    Packed(Box<Packed>),
    Whole(Box<Mailbox>),
}

#[derive(Clone, Debug)]
struct Packed {
    policy: Arc<MailboxPolicy>,
    budget: budget::Packed,
    floor: Floor,
    full: [bool; 2],
    unreached: bool,
    now: Timestamp,
}

impl Mailbox {
    /// Packs a mailbox that [is idle](Mailbox::is_idle). [`Rested::awake`] gives it back as it was: every answer is the
    /// same. One that is not idle is kept as it is.
    #[must_use]
    pub fn rested(mut self, now: Timestamp) -> Rested {
        let now = self.now.max(now);
        if self.is_idle() {
            self.rest(now);
        }
        match self.packed(now) {
            Some(packed) => Rested(Form::Packed(Box::new(packed))),
            None => Rested(Form::Whole(Box::new(self))),
        }
    }

    fn packed(&self, now: Timestamp) -> Option<Packed> {
        // Each field by name, so that one that is added is thought of here.
        let Self {
            policy,
            budget,
            floor,
            shared_waits,
            reserving,
            late,
            full,
            unreached,
            // Empty in one that is idle.
            holds: _,
            table: _,
            effects: _,
            events: _,
            // Of attempts that are being claimed, and there are none.
            shared_trouble: _,
            // Told or found out anew; without a tenure there is no instant of one.
            ask: _,
            now: _,
            pump_at: _,
            told: _,
            at_work: _,
            leaves: _,
            tenure_at: _,
            withholds: _,
            stirred: _,
        } = self;
        let is_plain = self.is_idle() && shared_waits.is_empty() && *reserving == 0 && late.is_empty();
        let budget = budget.packed(now, policy).filter(|_| is_plain)?;
        Some(Packed { policy: Arc::clone(policy), budget, floor: *floor, full: *full, unreached: *unreached, now })
    }
}

impl Rested {
    /// Whether nothing ever happened to it: a new mailbox is the same.
    #[must_use]
    pub fn is_new(&self) -> bool {
        matches!(&self.0, Form::Packed(packed) if packed.budget.is_new())
    }

    /// Whether it may be dropped without losing anything: no charge counts any more.
    #[must_use]
    pub fn is_blank(&self, now: Timestamp) -> bool {
        match &self.0 {
            Form::Packed(packed) => packed.budget.is_blank(now),
            Form::Whole(mailbox) => mailbox.is_blank(now),
        }
    }

    /// The mailbox again, which was `id`'s. The shell tells it what the shared scopes last announced, as any new one.
    #[must_use]
    pub fn awake(self, id: Arc<str>) -> Mailbox {
        match self.0 {
            Form::Whole(mailbox) => *mailbox,
            Form::Packed(packed) => {
                let Packed { policy, budget, floor, full, unreached, now } = *packed;
                let budget = budget.unpacked(Scope::Mailbox(Arc::clone(&id)), &policy);
                Mailbox { budget, floor, full, unreached, now, ..Mailbox::new(id, policy) }
            }
        }
    }
}
