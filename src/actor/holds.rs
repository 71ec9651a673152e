//! Operators' holds that are in force, for people and for mailboxes whose actors start later.
//!
//! Holds live with the process: they end by themselves, and a restart is an operator's act too.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::Timestamp;
use crate::engine::mailbox::{Hold, HoldTarget};

/// Holds in force at once, at most.
pub(crate) const HOLDS_MAX: usize = 10_000;

/// What an operator stops.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldScope {
    /// Everything this scheduler sends.
    All,
    /// One mailbox.
    Mailbox(Arc<str>),
    /// One tenant's operations, in every mailbox.
    Tenant(Arc<str>),
    /// One campaign's operations, in every mailbox.
    Campaign(Arc<str>),
    /// One operation, by its id.
    Operation(Arc<str>),
}

/// One hold in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldFacts {
    /// What it stops.
    pub scope: HoldScope,
    /// Why, in the operator's words.
    pub reason: Arc<str>,
    /// When it ends by itself.
    pub until: Timestamp,
}

#[derive(Debug, Default)]
pub(crate) struct Holds {
    inner: Mutex<Vec<HoldFacts>>,
}

impl Holds {
    fn lock(&self, now: Timestamp) -> MutexGuard<'_, Vec<HoldFacts>> {
        let mut holds = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        holds.retain(|hold| hold.until > now);
        holds
    }

    /// Notes a hold in place of an earlier one of the same scope; false when there are too many.
    pub(crate) fn note(&self, now: Timestamp, hold: HoldFacts) -> bool {
        let mut holds = self.lock(now);
        holds.retain(|other| other.scope != hold.scope);
        let room = holds.len() < HOLDS_MAX;
        if room {
            holds.push(hold);
        }
        room
    }

    pub(crate) fn lift(&self, now: Timestamp, scope: &HoldScope) {
        self.lock(now).retain(|hold| hold.scope != *scope);
    }

    /// Every hold in force, oldest first.
    pub(crate) fn all(&self, now: Timestamp) -> Vec<HoldFacts> {
        self.lock(now).clone()
    }

    /// Those that a mailbox's engine has to know when its actor starts.
    pub(crate) fn of_mailbox(&self, id: &str, now: Timestamp) -> Vec<Hold> {
        let holds = self.lock(now);
        let target = |hold: &HoldFacts| match &hold.scope {
            HoldScope::Mailbox(mailbox) if **mailbox == *id => Some(HoldTarget::Mailbox),
            HoldScope::Campaign(campaign) => Some(HoldTarget::Campaign(Arc::clone(campaign))),
            _ => None,
        };
        holds.iter().filter_map(|hold| target(hold).map(|target| Hold { target, until: hold.until })).collect()
    }
}
