//! Operators' holds and trips that are in force.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::notes::{Note, Notes};
use super::widen::Alarm;
use crate::engine::mailbox::Hold;
use crate::engine::widening::Widening;
use crate::engine::{Scope, Timestamp};

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

impl fmt::Display for HoldScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Mailbox(id) => write!(f, "mailbox:{id}"),
            Self::Tenant(id) => write!(f, "tenant:{id}"),
            Self::Campaign(id) => write!(f, "campaign:{id}"),
            Self::Operation(id) => write!(f, "operation:{id}"),
        }
    }
}

impl HoldScope {
    /// The scope that is printed as `text`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None if text == "all" => Some(Self::All),
            Some(("mailbox", id)) => Some(Self::Mailbox(id.into())),
            Some(("tenant", id)) => Some(Self::Tenant(id.into())),
            Some(("campaign", id)) => Some(Self::Campaign(id.into())),
            Some(("operation", id)) => Some(Self::Operation(id.into())),
            _ => None,
        }
    }
}

/// One hold in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldFacts {
    /// What it stops.
    pub scope: HoldScope,
    /// Why, in the operator's words.
    pub reason: Arc<str>,
    /// Who ordered it, if they said.
    pub by: Option<Arc<str>>,
    /// When it was ordered.
    pub since: Timestamp,
    /// When it ends by itself.
    pub until: Timestamp,
    /// How it is being lifted in part, if it is.
    pub widening: Option<WideningFacts>,
}

/// How a hold is being lifted in part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WideningFacts {
    /// Why, in the operator's words.
    pub reason: Arc<str>,
    /// Who ordered it, if they said.
    pub by: Option<Arc<str>>,
    /// How far it has come: what waits, until when it is watched, what stopped it.
    pub progress: Widening,
    pub(crate) alarm: Alarm,
}

/// One breaker that an operator has opened by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TripFacts {
    /// Whose breaker.
    pub scope: Scope,
    /// Why, in the operator's words.
    pub reason: Arc<str>,
    /// Who ordered it, if they said.
    pub by: Option<Arc<str>>,
    /// When it was ordered.
    pub since: Timestamp,
    /// When it ends by itself. A cooldown that was longer already is not shortened.
    pub until: Timestamp,
}

pub(crate) type Holds = Notes<HoldFacts>;
pub(crate) type Trips = Notes<TripFacts>;

impl Note for HoldFacts {
    type Scope = HoldScope;

    fn scope(&self) -> &HoldScope {
        &self.scope
    }

    fn until(&self) -> Timestamp {
        self.until
    }
}

impl Note for TripFacts {
    type Scope = Scope;

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn until(&self) -> Timestamp {
        self.until
    }
}

impl Holds {
    /// Those that a mailbox's engine has to know when its actor starts, whatever waits there.
    pub(crate) fn of_mailbox(&self, id: &str, now: Timestamp) -> Vec<Hold> {
        let holds = self.lock(now);
        // A tenant and everything are the shared scopes' to hold, unless some of it passes.
        let is_shared = |hold: &HoldFacts| matches!(hold.scope, HoldScope::All | HoldScope::Tenant(_));
        let own = holds.iter().filter(|hold| hold.widening.is_some() || !is_shared(hold));
        own.filter_map(|hold| hold.in_mailbox(id)).collect()
    }

    /// Whether the shared scopes hold an operation of this tenant: mailboxes hear of that from them, a moment after it is in
    /// force.
    pub(crate) fn stop_shared(&self, now: Timestamp, tenant: Option<&Arc<str>>) -> bool {
        self.lock(now).iter().filter(|hold| hold.widening.is_none()).any(|hold| match &hold.scope {
            HoldScope::All => true,
            HoldScope::Tenant(held) => tenant == Some(held),
            HoldScope::Mailbox(_) | HoldScope::Campaign(_) | HoldScope::Operation(_) => false,
        })
    }

    /// The single operations that are held, by id, and until when.
    pub(crate) fn of_operations(&self, now: Timestamp) -> HashMap<Arc<str>, Timestamp> {
        let holds = self.lock(now);
        let held = holds.iter().filter_map(|hold| match &hold.scope {
            HoldScope::Operation(id) => Some((Arc::clone(id), hold.until)),
            _ => None,
        });
        held.collect()
    }
}

impl Trips {
    /// Until when a scope's breaker is open by hand.
    pub(crate) fn of_mailbox(&self, id: &str, now: Timestamp) -> Option<Timestamp> {
        let trips = self.lock(now);
        let own = |trip: &&TripFacts| matches!(&trip.scope, Scope::Mailbox(mailbox) if **mailbox == *id);
        trips.iter().find(own).map(|trip| trip.until)
    }
}
