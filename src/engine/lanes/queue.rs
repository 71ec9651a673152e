//! What waits in one lane, where nobody else keeps it: an [`Order`] with slots of its own.
//!
//! A mailbox keeps its operations itself and lends them to the order; the shared scopes use this.
//!
//! Not promised: weights, and order between operations that come back from a throttle and those behind them.

use std::sync::Arc;

use crate::engine::lanes::link::Links;
use crate::engine::lanes::order::Order;
use crate::engine::lanes::slab::Slab;
use crate::engine::operation::OperationKey;
use crate::engine::time::Timestamp;

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
    order: Order,
    slab: Slab,
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
        let (waiting, slot) = self.enter(&item);
        waiting.order.push_back(&mut waiting.slab, slot, item.tenant.as_ref(), item.dominant);
    }

    /// `item` returns to the head of its tenant after a throttle: what it was charged stays charged. Several that
    /// return keep the order in which they were admitted.
    pub fn push_front(&mut self, item: Queued) {
        let (waiting, slot) = self.enter(&item);
        waiting.order.push_front(&mut waiting.slab, slot, item.tenant.as_ref(), item.dominant);
    }

    /// `item` returns to the head because nothing was sent: its turn is given back too. Only for what
    /// [`LaneQueue::take`] handed out.
    pub fn return_unsent(&mut self, item: Queued) {
        let (waiting, slot) = self.enter(&item);
        waiting.order.return_unsent(&mut waiting.slab, slot, item.tenant.as_ref(), item.dominant);
    }

    /// The next candidate by turn, among those for which `usable` answers yes. Removes nothing and may be repeated:
    /// turns move only with [`LaneQueue::take`].
    ///
    /// `usable` sees each tenant's head first, then at most `bypass_max` later ones.
    pub fn peek(&mut self, mut usable: impl FnMut(&Queued) -> Usable) -> Option<OperationKey> {
        let bypass_max = self.bypass_max;
        let Waiting { order, slab } = self.waiting.as_deref_mut()?;
        let slot = order.peek(slab, bypass_max, |slot, tenant| usable(&queued(slab, slot, tenant)))?;
        Some(slab.key(slot))
    }

    /// Takes `key` out to be sent. Charges its tenant if it is what [`LaneQueue::peek`] named last.
    pub fn take(&mut self, key: OperationKey) -> Option<Queued> {
        self.detach(key, Order::take)
    }

    /// Takes `key` out because it is cancelled or its deadline passed. Constant time, nothing charged.
    pub fn remove(&mut self, key: OperationKey) -> Option<Queued> {
        self.detach(key, Order::remove)
    }

    /// Whether `key` waits here.
    #[must_use]
    pub fn contains(&self, key: OperationKey) -> bool {
        self.waiting.as_deref().is_some_and(|waiting| waiting.slab.find(key).is_some())
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.as_deref().map_or(0, |waiting| waiting.order.len() as usize)
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
        self.waiting.as_deref().and_then(|waiting| waiting.order.oldest(&waiting.slab))
    }

    /// Everything that waits: tenants by turn, each first in first out.
    pub fn iter(&self) -> impl Iterator<Item = Queued> + '_ {
        self.waiting
            .as_deref()
            .into_iter()
            .flat_map(|waiting| waiting.order.iter(&waiting.slab).map(move |slot| waiting.queued(slot)))
    }

    /// A slot for `item`, which is nowhere else afterwards.
    fn enter(&mut self, item: &Queued) -> (&mut Waiting, u32) {
        let _ = self.remove(item.key);
        let empty = || Box::new(Waiting { order: Order::new(), slab: Slab::new() });
        let waiting = self.waiting.get_or_insert_with(empty);
        let slot = waiting.slab.store(item.key, item.submitted_at);
        (waiting, slot)
    }

    fn detach(&mut self, key: OperationKey, how: impl FnOnce(&mut Order, &mut Slab, u32)) -> Option<Queued> {
        let waiting = self.waiting.as_deref_mut()?;
        let slot = waiting.slab.find(key)?;
        let queued = waiting.queued(slot);
        how(&mut waiting.order, &mut waiting.slab, slot);
        waiting.slab.free(slot);
        if waiting.order.len() == 0 {
            self.waiting = None; // an idle mailbox owns no heap
        }
        Some(queued)
    }
}

impl Waiting {
    fn queued(&self, slot: u32) -> Queued {
        queued(&self.slab, slot, self.order.tenant_of(self.slab.link(slot)))
    }
}

fn queued(slab: &Slab, slot: u32, tenant: Option<&Arc<str>>) -> Queued {
    Queued {
        key: slab.key(slot),
        tenant: tenant.cloned(),
        dominant: slab.link(slot).dominant(),
        submitted_at: slab.submitted_at(slot),
    }
}

fn narrow(bypass_max: u32) -> u8 {
    u8::try_from(bypass_max).unwrap_or(u8::MAX)
}
