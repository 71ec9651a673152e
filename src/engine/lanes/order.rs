//! Whose turn it is in one lane, over slots that somebody else owns.
//!
//! Deficit round robin between tenants, on each operation's *dominant* cost: the largest part of any window that it
//! takes. Counting operations instead would let a tenant with 500 recipients an email take 500 times its part of the
//! recipient window; counting by the largest part cannot be gamed by splitting or merging, because an operation of
//! half the size costs half. Fair queueing by virtual time would be tighter, at O(log n) where this is O(1); mail
//! rates do not repay it.
//!
//! A turn is worth one quantum, the largest dominant cost seen since the lane was last empty, so one visit always
//! pays for one operation and no empty rounds are counted. Tenants with a backlog stay within
//! `quantum + largest cost` of each other.
//!
//! Within a tenant: first in, first out. An operation that no window takes just now may be passed by at most
//! `bypass_max` later ones, each operation counted by itself, or a heavy one would starve behind lighter followers.

use std::sync::Arc;

use crate::engine::lanes::link::{Link, Links, NIL, bounded};
use crate::engine::lanes::queue::Usable;
use crate::engine::lanes::ring::{Join, Ring, Turn};
use crate::engine::operation::OperationKey;
use crate::engine::time::Timestamp;

/// Most steps an operation that returns to the head takes behind earlier-admitted ones that returned before it.
const RETURN_STEPS_MAX: usize = 64;

/// The order of one lane.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    ring: Ring,
    quantum: u64,
    peeked: Option<Peeked>,
    len: u32,
}

/// What the last `peek` named and how its tenant pays for it.
#[derive(Clone, Copy, Debug)]
struct Peeked {
    slot: u32,
    pays: Pays,
}

#[derive(Clone, Copy, Debug)]
enum Pays {
    /// From what is left of the running turn.
    RunningTurn,
    /// From a new turn, worth one quantum more.
    NewTurn,
}

impl Order {
    pub(crate) const fn new() -> Self {
        Self { ring: Ring::new(), quantum: 0, peeked: None, len: 0 }
    }

    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    /// The operation in `slot`, which waits nowhere, joins behind everything its tenant has here.
    pub(crate) fn push_back(&mut self, links: &mut impl Links, slot: u32, tenant: Option<&Arc<str>>, dominant: u64) {
        self.push(links, slot, tenant, dominant, Join::Last);
    }

    /// It returns to the head of its tenant after a throttle: what it was charged stays charged. Several that return
    /// keep the order in which they were admitted.
    pub(crate) fn push_front(&mut self, links: &mut impl Links, slot: u32, tenant: Option<&Arc<str>>, dominant: u64) {
        self.push(links, slot, tenant, dominant, Join::Next);
    }

    /// It returns to the head because nothing was sent: its turn is given back too. Only for what was taken.
    pub(crate) fn return_unsent(
        &mut self,
        links: &mut impl Links,
        slot: u32,
        tenant: Option<&Arc<str>>,
        dominant: u64,
    ) {
        self.push_front(links, slot, tenant, dominant);
        let at = self.ring.enter(tenant, Join::Next);
        let most = self.quantum.saturating_mul(2);
        let place = self.ring.tenant_mut(at);
        // A tenant that had left gets a whole turn when it is visited; the rest of its old one left with it.
        if place.list.head != place.list.tail {
            place.deficit = place.deficit.saturating_add(bounded(dominant)).min(most);
        }
    }

    fn push(&mut self, links: &mut impl Links, slot: u32, tenant: Option<&Arc<str>>, dominant: u64, join: Join) {
        let at = self.ring.enter(tenant, join);
        let link = Link::new(at, dominant);
        self.quantum = self.quantum.max(link.dominant());
        let list = &mut self.ring.tenant_mut(at).list;
        let successor = match join {
            Join::Last => NIL,
            Join::Next => first_after(links, list.head, links.key(slot)),
        };
        list.insert(links, slot, link, successor);
        self.len += 1;
    }

    /// The next candidate by turn, among those for which `usable` answers yes. Removes nothing and may be repeated:
    /// turns move only with [`Order::take`].
    ///
    /// `usable` sees each tenant's head first, then at most `bypass_max` later ones, with the tenant's name.
    pub(crate) fn peek(
        &mut self,
        links: &impl Links,
        bypass_max: u8,
        mut usable: impl FnMut(u32, Option<&Arc<str>>) -> Usable,
    ) -> Option<u32> {
        self.peeked = self.choose(links, bypass_max, &mut usable);
        self.peeked.map(|peeked| peeked.slot)
    }

    /// As if [`Order::peek`] had found nobody.
    pub(crate) fn pass_over(&mut self) {
        self.peeked = None;
    }

    /// Takes `slot` out to be sent. Charges its tenant if it is what [`Order::peek`] named last.
    pub(crate) fn take(&mut self, links: &mut impl Links, slot: u32) {
        if let Some(peeked) = self.peeked.filter(|peeked| peeked.slot == slot) {
            self.charge(links, peeked);
        }
        self.remove(links, slot);
    }

    /// Takes `slot` out because it is cancelled or its deadline passed. Constant time, nothing charged.
    pub(crate) fn remove(&mut self, links: &mut impl Links, slot: u32) {
        let tenant = links.link(slot).tenant;
        let list = &mut self.ring.tenant_mut(tenant).list;
        list.remove(links, slot);
        if list.head == NIL {
            self.ring.leave(tenant);
        }
        if self.peeked.is_some_and(|peeked| peeked.slot == slot) {
            self.peeked = None;
        }
        self.len -= 1;
        if self.len == 0 {
            // The next backlog has its own quantum.
            self.quantum = 0;
            self.ring.clear();
        }
    }

    /// The name of a waiting operation's tenant.
    pub(crate) fn tenant_of(&self, link: &Link) -> Option<&Arc<str>> {
        self.ring.tenant(link.tenant).name.as_ref()
    }

    /// When the oldest of the tenants' heads was submitted. One that re-entered at the back counts from when it gets
    /// to the head.
    pub(crate) fn oldest(&self, links: &impl Links) -> Option<Timestamp> {
        self.ring.round().map(|at| links.submitted_at(self.ring.tenant(at).list.head)).min()
    }

    /// Everything that waits: tenants by turn, each first in first out.
    pub(crate) fn iter<'a>(&'a self, links: &'a impl Links) -> impl Iterator<Item = u32> + 'a {
        self.ring.round().flat_map(move |at| slots(links, self.ring.tenant(at).list.head))
    }

    fn choose(
        &self,
        links: &impl Links,
        bypass_max: u8,
        usable: &mut impl FnMut(u32, Option<&Arc<str>>) -> Usable,
    ) -> Option<Peeked> {
        let mut first = None;
        if let Turn::Of(turn) = self.ring.turn {
            first = self.candidate(links, turn, bypass_max, usable);
            if let Some(slot) = first
                && links.link(slot).dominant() <= self.ring.tenant(turn).deficit
            {
                return Some(Peeked { slot, pays: Pays::RunningTurn });
            }
        }
        let mut others = self.ring.round().filter(|at| self.ring.turn != Turn::Of(*at));
        let next = others.find_map(|at| self.candidate(links, at, bypass_max, usable));
        next.or(first).map(|slot| Peeked { slot, pays: Pays::NewTurn })
    }

    fn candidate(
        &self,
        links: &impl Links,
        at: u32,
        bypass_max: u8,
        usable: &mut impl FnMut(u32, Option<&Arc<str>>) -> Usable,
    ) -> Option<u32> {
        let tenant = self.ring.tenant(at);
        let mut slot = tenant.list.head;
        for _ in 0..=bypass_max {
            if slot == NIL {
                break;
            }
            match usable(slot, tenant.name.as_ref()) {
                Usable::Yes => return Some(slot),
                Usable::SkipOperation => {}
                Usable::SkipTenant => return None,
            }
            let link = links.link(slot);
            if link.passed >= bypass_max {
                return None;
            }
            slot = link.next;
        }
        None
    }

    fn charge(&mut self, links: &mut impl Links, peeked: Peeked) {
        let link = *links.link(peeked.slot);
        let quantum = self.quantum;
        if let Pays::NewTurn = peeked.pays {
            let place = self.ring.tenant_mut(link.tenant);
            // The cut only meets a tenant whose last turn was broken off because nothing of it was usable.
            place.deficit = place.deficit.min(quantum) + quantum;
            self.ring.turn = Turn::Of(link.tenant);
        }
        let place = self.ring.tenant_mut(link.tenant);
        place.deficit = place.deficit.saturating_sub(link.dominant());
        let mut previous = link.previous;
        while previous != NIL {
            let link = links.link_mut(previous);
            link.passed = link.passed.saturating_add(1);
            previous = link.previous;
        }
    }
}

/// One list's slots, from its head.
fn slots(links: &impl Links, head: u32) -> impl Iterator<Item = u32> + '_ {
    std::iter::successors((head != NIL).then_some(head), |slot| {
        let next = links.link(*slot).next;
        (next != NIL).then_some(next)
    })
}

/// The first slot of a list that was admitted after `key`, near the head.
fn first_after(links: &impl Links, head: u32, key: OperationKey) -> u32 {
    let mut slot = head;
    for _ in 0..RETURN_STEPS_MAX {
        if slot == NIL || links.key(slot) > key {
            break;
        }
        slot = links.link(slot).next;
    }
    slot
}
