//! What waits in one lane of one mailbox, and whose turn it is.
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
//!
//! Not promised: weights, and order between operations that come back from a throttle and those behind them.

use std::sync::Arc;

use crate::engine::lanes::ring::{Join, Ring, Turn};
use crate::engine::lanes::slab::{NIL, Node, Slab};
use crate::engine::operation::OperationKey;
use crate::engine::time::Timestamp;

/// Most steps an operation that returns to the head takes behind earlier-admitted ones that returned before it.
const RETURN_STEPS_MAX: usize = 64;
/// Dominant costs are cut to this many whole windows, so that deficits cannot overflow.
const DOMINANT_MAX: u64 = 1 << 40;

/// One waiting operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Its handle.
    pub key: OperationKey,
    /// Whose fair share it uses; `None` is a tenant of its own.
    pub tenant: Option<Arc<str>>,
    /// The largest part of any window that it takes, in parts per million; at least 1.
    pub dominant: u64,
    /// When it was submitted.
    pub submitted_at: Timestamp,
}

/// What the caller says of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Usable {
    /// It may go.
    Yes,
    /// Not this one; a later one of its tenant may, within the bound on bypass.
    SkipOperation,
    /// Nothing of this tenant.
    SkipTenant,
}

/// The queue of one lane. 16 bytes and no heap while empty; about 50 bytes per waiting operation.
#[derive(Clone, Debug)]
pub struct LaneQueue {
    waiting: Option<Box<Waiting>>,
    bypass_max: u8,
}

#[derive(Clone, Debug)]
struct Waiting {
    slab: Slab,
    ring: Ring,
    quantum: u64,
    peeked: Option<Peeked>,
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

impl Default for LaneQueue {
    fn default() -> Self {
        Self::new(8)
    }
}

impl LaneQueue {
    /// An empty lane in which a blocked operation may be passed `bypass_max` times (at most 255).
    #[must_use]
    pub fn new(bypass_max: u32) -> Self {
        Self { waiting: None, bypass_max: narrow(bypass_max) }
    }

    /// Changes the bound on bypass. What was passed so far counts.
    pub fn set_bypass_max(&mut self, bypass_max: u32) {
        self.bypass_max = narrow(bypass_max);
    }

    /// `item` joins behind everything its tenant has here. One that was here already moves.
    pub fn push_back(&mut self, item: Queued) {
        let _ = self.remove(item.key);
        self.waiting().push(item, Join::Last, |_| NIL);
    }

    /// `item` returns to the head of its tenant after a throttle: what it was charged stays charged. Several that
    /// return keep the order in which they were admitted.
    pub fn push_front(&mut self, item: Queued) {
        let _ = self.remove(item.key);
        let key = item.key;
        self.waiting().push(item, Join::Next, |waiting| waiting.first_after(key));
    }

    /// `item` returns to the head because nothing was sent: its turn is given back too. Only for what
    /// [`LaneQueue::take`] handed out.
    pub fn return_unsent(&mut self, item: Queued) {
        let dominant = bounded(item.dominant);
        let tenant = item.tenant.clone();
        self.push_front(item);
        let waiting = self.waiting();
        let at = waiting.ring.enter(tenant.as_ref(), Join::Next);
        let place = waiting.ring.tenant_mut(at);
        // A tenant that had left gets a whole turn when it is visited; the rest of its old one left with it.
        if place.list.head != place.list.tail {
            place.deficit = place.deficit.saturating_add(dominant).min(waiting.quantum.saturating_mul(2));
        }
    }

    /// The next candidate by turn, among those for which `usable` answers yes. Removes nothing and may be repeated:
    /// turns move only with [`LaneQueue::take`].
    ///
    /// `usable` sees each tenant's head first, then at most `bypass_max` later ones.
    pub fn peek(&mut self, mut usable: impl FnMut(&Queued) -> Usable) -> Option<OperationKey> {
        let bypass_max = self.bypass_max;
        let waiting = self.waiting.as_deref_mut()?;
        waiting.peeked = waiting.choose(bypass_max, &mut usable);
        waiting.peeked.map(|peeked| waiting.slab.node(peeked.slot).key)
    }

    /// Takes `key` out to be sent. Charges its tenant if it is what [`LaneQueue::peek`] named last.
    pub fn take(&mut self, key: OperationKey) -> Option<Queued> {
        let waiting = self.waiting.as_deref_mut()?;
        let slot = waiting.slab.find(key)?;
        if let Some(peeked) = waiting.peeked.filter(|peeked| peeked.slot == slot) {
            waiting.charge(peeked);
        }
        self.detach(slot)
    }

    /// Takes `key` out because it is cancelled or its deadline passed. Constant time, nothing charged.
    pub fn remove(&mut self, key: OperationKey) -> Option<Queued> {
        let slot = self.waiting.as_deref()?.slab.find(key)?;
        self.detach(slot)
    }

    /// Whether `key` waits here.
    #[must_use]
    pub fn contains(&self, key: OperationKey) -> bool {
        self.waiting.as_deref().is_some_and(|waiting| waiting.slab.find(key).is_some())
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.as_deref().map_or(0, |waiting| waiting.slab.len())
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_none()
    }

    /// When the oldest of the tenants' heads was submitted. One that re-entered at the back counts from when it gets
    /// to the head.
    #[must_use]
    pub fn oldest(&self) -> Option<Timestamp> {
        let waiting = self.waiting.as_deref()?;
        waiting.ring.round().map(|at| waiting.slab.node(waiting.ring.tenant(at).list.head).submitted_at).min()
    }

    /// Everything that waits: tenants by turn, each first in first out.
    pub fn iter(&self) -> impl Iterator<Item = Queued> + '_ {
        self.waiting.as_deref().into_iter().flat_map(|waiting| {
            waiting.ring.round().flat_map(move |at| waiting.slots(at)).map(move |slot| waiting.queued(slot))
        })
    }

    fn waiting(&mut self) -> &mut Waiting {
        self.waiting
            .get_or_insert_with(|| Box::new(Waiting { slab: Slab::new(), ring: Ring::new(), quantum: 0, peeked: None }))
    }

    fn detach(&mut self, slot: u32) -> Option<Queued> {
        let waiting = self.waiting.as_deref_mut()?;
        let queued = waiting.detach(slot);
        if waiting.slab.len() == 0 {
            self.waiting = None; // an idle mailbox owns no heap, and the next backlog has its own quantum
        }
        Some(queued)
    }
}

impl Waiting {
    fn push(&mut self, item: Queued, join: Join, successor: impl FnOnce(&PushAt<'_>) -> u32) {
        let tenant = self.ring.enter(item.tenant.as_ref(), join);
        let mut list = self.ring.tenant(tenant).list;
        let dominant = bounded(item.dominant);
        let node = Node {
            key: item.key,
            submitted_at: item.submitted_at,
            dominant,
            previous: NIL,
            next: NIL,
            tenant,
            passed: 0,
        };
        let before = successor(&PushAt { slab: &self.slab, head: list.head });
        self.slab.insert(&mut list, node, before);
        self.ring.tenant_mut(tenant).list = list;
        self.quantum = self.quantum.max(dominant);
    }

    fn choose(&self, bypass_max: u8, usable: &mut impl FnMut(&Queued) -> Usable) -> Option<Peeked> {
        let mut first = None;
        if let Turn::Of(turn) = self.ring.turn {
            first = self.candidate(turn, bypass_max, usable);
            if let Some(slot) = first
                && self.slab.node(slot).dominant <= self.ring.tenant(turn).deficit
            {
                return Some(Peeked { slot, pays: Pays::RunningTurn });
            }
        }
        let mut others = self.ring.round().filter(|at| self.ring.turn != Turn::Of(*at));
        let next = others.find_map(|at| self.candidate(at, bypass_max, usable));
        next.or(first).map(|slot| Peeked { slot, pays: Pays::NewTurn })
    }

    fn candidate(&self, at: u32, bypass_max: u8, usable: &mut impl FnMut(&Queued) -> Usable) -> Option<u32> {
        for slot in self.slots(at).take(usize::from(bypass_max) + 1) {
            match usable(&self.queued(slot)) {
                Usable::Yes => return Some(slot),
                Usable::SkipOperation if self.slab.node(slot).passed < bypass_max => {}
                Usable::SkipOperation | Usable::SkipTenant => return None,
            }
        }
        None
    }

    fn charge(&mut self, peeked: Peeked) {
        let Node { tenant, dominant, mut previous, .. } = *self.slab.node(peeked.slot);
        let quantum = self.quantum;
        let place = self.ring.tenant_mut(tenant);
        if let Pays::NewTurn = peeked.pays {
            // The cut only meets a tenant whose last turn was broken off because nothing of it was usable.
            place.deficit = place.deficit.min(quantum) + quantum;
            self.ring.turn = Turn::Of(tenant);
        }
        let place = self.ring.tenant_mut(tenant);
        place.deficit = place.deficit.saturating_sub(dominant);
        while previous != NIL {
            let node = self.slab.node_mut(previous);
            node.passed = node.passed.saturating_add(1);
            previous = node.previous;
        }
    }

    fn detach(&mut self, slot: u32) -> Queued {
        let queued = self.queued(slot);
        let tenant = self.slab.node(slot).tenant;
        let mut list = self.ring.tenant(tenant).list;
        self.slab.remove(&mut list, slot);
        self.ring.tenant_mut(tenant).list = list;
        if list.head == NIL {
            self.ring.leave(tenant);
        }
        if self.peeked.is_some_and(|peeked| peeked.slot == slot) {
            self.peeked = None;
        }
        queued
    }

    fn queued(&self, slot: u32) -> Queued {
        let node = self.slab.node(slot);
        Queued {
            key: node.key,
            tenant: self.ring.tenant(node.tenant).name.clone(),
            dominant: node.dominant,
            submitted_at: node.submitted_at,
        }
    }

    /// The slots of one tenant, from its head.
    fn slots(&self, at: u32) -> impl Iterator<Item = u32> + '_ {
        let head = self.ring.tenant(at).list.head;
        std::iter::successors((head != NIL).then_some(head), |slot| {
            let next = self.slab.node(*slot).next;
            (next != NIL).then_some(next)
        })
    }
}

/// Where a push may look for its place.
struct PushAt<'a> {
    slab: &'a Slab,
    head: u32,
}

impl PushAt<'_> {
    /// The first slot of the list that was admitted after `key`, near the head.
    fn first_after(&self, key: OperationKey) -> u32 {
        let mut slot = self.head;
        for _ in 0..RETURN_STEPS_MAX {
            if slot == NIL || self.slab.node(slot).key > key {
                break;
            }
            slot = self.slab.node(slot).next;
        }
        slot
    }
}

fn narrow(bypass_max: u32) -> u8 {
    u8::try_from(bypass_max).unwrap_or(u8::MAX)
}

fn bounded(dominant: u64) -> u64 {
    dominant.clamp(1, DOMINANT_MAX)
}
