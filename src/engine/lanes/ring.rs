//! The tenants that have something queued, in the order in which they take turns.
//!
//! Only backlogged tenants are here: one that empties leaves, and its deficit with it. So the ring is small, and a
//! tenant that trickles single operations joins at the end of the round each time and gains nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::lanes::link::{List, NIL};

/// One tenant with a backlog.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    /// `None`: operations without a tenant, which share one turn.
    pub(super) name: Option<Arc<str>>,
    pub(super) list: List,
    /// What it may still take in its turn, in parts per million of a window.
    pub(super) deficit: u64,
    previous: u32,
    next: u32,
}

/// Where a tenant that joins gets its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    /// After everyone who is here.
    Last,
    /// Right after the tenant whose turn it is.
    Next,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// This tenant's.
    Of(u32),
    /// Nobody's: the one whose turn it was has left. This one is next (`NIL`: nobody is here). Falling back to a
    /// neighbour instead would let a tenant that empties each time rejoin one place earlier each round.
    Before(u32),
}

/// The ring.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    tenants: Vec<Tenant>,
    names: BTreeMap<Arc<str>, u32>,
    nameless: u32,
    recent: u32,
    free: u32,
    pub(super) turn: Turn,
}

impl Ring {
    pub(super) const fn new() -> Self {
        Self {
            tenants: Vec::new(),
            names: BTreeMap::new(),
            nameless: NIL,
            recent: NIL,
            free: NIL,
            turn: Turn::Before(NIL),
        }
    }

    /// Forgets the places of those that have left; nobody is here.
    pub(super) fn clear(&mut self) {
        self.tenants.clear();
        (self.free, self.recent) = (NIL, NIL);
    }

    pub(super) fn tenant(&self, at: u32) -> &Tenant {
        &self.tenants[at as usize]
    }

    pub(super) fn tenant_mut(&mut self, at: u32) -> &mut Tenant {
        &mut self.tenants[at as usize]
    }

    /// Every tenant once, the next one first, the one whose turn it is last.
    pub(super) fn round(&self) -> impl Iterator<Item = u32> + '_ {
        let first = match self.turn {
            Turn::Of(at) => self.tenant(at).next,
            Turn::Before(at) => at,
        };
        std::iter::successors((first != NIL).then_some(first), move |at| {
            let next = self.tenant(*at).next;
            (next != first).then_some(next)
        })
    }

    /// The tenant of this name; one that is not here joins where `join` says.
    pub(super) fn enter(&mut self, name: Option<&Arc<str>>, join: Join) -> u32 {
        let at = self.find(name).unwrap_or_else(|| self.join(name, join));
        self.recent = at;
        at
    }

    /// Takes an emptied tenant out. If it was its turn or it was next, the one after it is next.
    pub(super) fn leave(&mut self, at: u32) {
        let Tenant { name, previous, next, .. } = self.tenants[at as usize].clone();
        match &name {
            Some(name) => drop(self.names.remove(name)),
            None => self.nameless = NIL,
        }
        self.tenant_mut(previous).next = next;
        self.tenant_mut(next).previous = previous;
        if matches!(self.turn, Turn::Of(turn) | Turn::Before(turn) if turn == at) {
            self.turn = Turn::Before(if next == at { NIL } else { next });
        }
        if self.recent == at {
            self.recent = NIL;
        }
        let free = self.free;
        let place = self.tenant_mut(at);
        place.name = None;
        place.next = free;
        self.free = at;
    }

    fn find(&self, name: Option<&Arc<str>>) -> Option<u32> {
        let Some(name) = name else {
            return (self.nameless != NIL).then_some(self.nameless);
        };
        // One tenant in a row is the common case: spare the map its string comparisons.
        if self.recent != NIL && self.tenant(self.recent).name.as_ref().is_some_and(|last| Arc::ptr_eq(last, name)) {
            return Some(self.recent);
        }
        self.names.get(name).copied()
    }

    fn join(&mut self, name: Option<&Arc<str>>, join: Join) -> u32 {
        let at = if self.free == NIL { self.tenants.len() as u32 } else { self.free };
        let (previous, next) = match (self.turn, join) {
            (Turn::Before(NIL), _) => (at, at),
            (Turn::Of(turn), Join::Next) => (turn, self.tenant(turn).next),
            (Turn::Of(turn), Join::Last) => (self.tenant(turn).previous, turn),
            (Turn::Before(first), _) => (self.tenant(first).previous, first),
        };
        self.store(at, Tenant { name: name.cloned(), list: List::EMPTY, deficit: 0, previous, next });
        self.tenant_mut(previous).next = at;
        self.tenant_mut(next).previous = at;
        match (self.turn, join) {
            (Turn::Before(NIL), _) | (Turn::Before(_), Join::Next) => self.turn = Turn::Before(at),
            _ => {}
        }
        match name {
            Some(name) => drop(self.names.insert(Arc::clone(name), at)),
            None => self.nameless = at,
        }
        at
    }

    fn store(&mut self, at: u32, tenant: Tenant) {
        if self.free == at {
            self.free = self.tenant(at).next;
            *self.tenant_mut(at) = tenant;
        } else {
            self.tenants.push(tenant);
        }
    }
}
