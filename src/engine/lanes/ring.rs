//! The tenants that have something queued, in the order in which they take turns.
//!
//! Only backlogged tenants are here: one that empties leaves, and its deficit with it. So the ring is small, and a
//! tenant that trickles single operations joins at the end of the round each time and gains nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::lanes::slab::{List, NIL};

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

/// The ring. `cursor` is the tenant whose turn it is or was last.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    tenants: Vec<Tenant>,
    names: BTreeMap<Arc<str>, u32>,
    nameless: u32,
    recent: u32,
    free: u32,
    pub(super) cursor: u32,
}

impl Ring {
    pub(super) const fn new() -> Self {
        Self { tenants: Vec::new(), names: BTreeMap::new(), nameless: NIL, recent: NIL, free: NIL, cursor: NIL }
    }

    pub(super) fn tenant(&self, at: u32) -> &Tenant {
        &self.tenants[at as usize]
    }

    pub(super) fn tenant_mut(&mut self, at: u32) -> &mut Tenant {
        &mut self.tenants[at as usize]
    }

    /// Every tenant once, from the one after the cursor to the cursor itself.
    pub(super) fn round(&self) -> impl Iterator<Item = u32> + '_ {
        let first = if self.cursor == NIL { NIL } else { self.tenant(self.cursor).next };
        std::iter::successors((first != NIL).then_some(first), |at| (*at != self.cursor).then(|| self.tenant(*at).next))
    }

    /// The tenant of this name; one that is not here joins where `join` says.
    pub(super) fn enter(&mut self, name: Option<&Arc<str>>, join: Join) -> u32 {
        let at = self.find(name).unwrap_or_else(|| self.join(name, join));
        self.recent = at;
        at
    }

    /// Takes an emptied tenant out. If it was its turn, the turn falls back to the one before it, so that the one
    /// after it is next.
    pub(super) fn leave(&mut self, at: u32) {
        let Tenant { name, previous, next, .. } = self.tenants[at as usize].clone();
        match &name {
            Some(name) => drop(self.names.remove(name)),
            None => self.nameless = NIL,
        }
        self.tenant_mut(previous).next = next;
        self.tenant_mut(next).previous = previous;
        if self.cursor == at {
            self.cursor = if previous == at { NIL } else { previous };
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
        let (previous, next) = match (self.cursor, join) {
            (NIL, _) => (at, at),
            (cursor, Join::Last) => (self.tenant(cursor).previous, cursor),
            (cursor, Join::Next) => (cursor, self.tenant(cursor).next),
        };
        self.store(at, Tenant { name: name.cloned(), list: List::EMPTY, deficit: 0, previous, next });
        self.tenant_mut(previous).next = at;
        self.tenant_mut(next).previous = at;
        if self.cursor == NIL {
            self.cursor = at;
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
