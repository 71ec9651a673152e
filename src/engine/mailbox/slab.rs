//! Where the operations of a mailbox lie: slots in chunks, found by key.
//!
//! Chunks, because a `Vec` that doubles leaves up to half of itself unused and copies a million operations to grow.

use super::entry::{Entry, Step};
use crate::engine::lanes::{Link, Links, NIL};
use crate::engine::operation::{Index, OperationKey};
use crate::engine::time::Timestamp;

/// Slots of a chunk; the first one grows up to this, so that few operations take few slots.
const CHUNK: usize = 64;
/// Up to this many slots are searched one by one: an index would cost an allocation to save nothing.
const UNINDEXED_MAX: usize = 8;

const NOBODY: (OperationKey, u32) = (OperationKey(0), NIL);

/// Every operation of one mailbox, wherever it stands.
#[derive(Clone, Debug)]
pub(super) struct Slab {
    chunks: Vec<Vec<Entry>>,
    index: Index,
    /// The operation that was asked for last, and its slot: one input asks for the same one many times.
    recent: (OperationKey, u32),
    free: u32,
    slots: u32,
    len: u32,
}

impl Slab {
    pub(super) const fn new() -> Self {
        Self { chunks: Vec::new(), index: Index::new(), recent: NOBODY, free: NIL, slots: 0, len: 0 }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(super) fn get(&self, slot: u32) -> &Entry {
        &self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, slot: u32) -> &mut Entry {
        &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    #[inline]
    pub(super) fn find(&self, key: OperationKey) -> Option<u32> {
        if self.recent.0 == key && self.recent.1 != NIL {
            return Some(self.recent.1);
        }
        self.look_up(key)
    }

    /// Finds an operation that is asked for again soon.
    #[inline]
    pub(super) fn turn_to(&mut self, key: OperationKey) -> Option<u32> {
        let slot = self.find(key)?;
        self.recent = (key, slot);
        Some(slot)
    }

    /// The operation in this slot is asked for again soon.
    #[inline]
    pub(super) fn turn_to_slot(&mut self, key: OperationKey, slot: u32) {
        self.recent = (key, slot);
    }

    fn look_up(&self, key: OperationKey) -> Option<u32> {
        if self.is_indexed() {
            return self.index.find(key, |slot| self.get(slot).key);
        }
        let first = self.chunks.first()?;
        let here = |entry: &Entry| entry.key == key && !matches!(entry.step, Step::Free { .. });
        first.iter().position(here).map(|at| at as u32) // at most UNINDEXED_MAX
    }

    pub(super) fn insert(&mut self, entry: Entry) -> u32 {
        let key = entry.key;
        let slot = if self.free == NIL { self.grow(entry) } else { self.reuse(entry) };
        if self.is_indexed() {
            self.index_slot(slot);
        }
        self.len += 1;
        self.recent = (key, slot);
        slot
    }

    /// Frees a slot; answers what was there.
    pub(super) fn remove(&mut self, slot: u32) {
        if self.is_indexed() {
            let chunks = &self.chunks;
            let key_of = |slot: u32| chunks[slot as usize / CHUNK][slot as usize % CHUNK].key;
            self.index.remove(key_of(slot), key_of);
        }
        let next = self.free;
        let entry = self.get_mut(slot);
        entry.clear();
        entry.step = Step::Free { next };
        self.free = slot;
        if self.recent.1 == slot {
            self.recent = NOBODY;
        }
        self.len -= 1;
        if self.len == 0 && self.is_indexed() {
            // Room for many is not kept for one.
            *self = Self::new();
        }
    }

    /// Every operation, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.chunks.iter().flatten().filter(|entry| !matches!(entry.step, Step::Free { .. }))
    }

    fn grow(&mut self, entry: Entry) -> u32 {
        let slot = self.slots;
        if (slot as usize).is_multiple_of(CHUNK) {
            self.chunks.push(if slot == 0 { Vec::new() } else { Vec::with_capacity(CHUNK) });
        }
        self.chunks.last_mut().expect("a chunk was pushed for its first slot").push(entry);
        self.slots = slot.checked_add(1).expect("a lane's bound is a u32, so its slots are too");
        if self.slots as usize == UNINDEXED_MAX + 1 {
            // The slab only grows when every slot is in use, so all the earlier ones are live.
            (0..slot).for_each(|earlier| self.index_slot(earlier));
        }
        slot
    }

    fn reuse(&mut self, entry: Entry) -> u32 {
        let slot = self.free;
        let place = self.get_mut(slot);
        let next = match place.step {
            Step::Free { next } => next,
            _ => NIL,
        };
        *place = entry;
        self.free = next;
        slot
    }

    fn is_indexed(&self) -> bool {
        self.slots as usize > UNINDEXED_MAX
    }

    fn index_slot(&mut self, slot: u32) {
        let chunks = &self.chunks;
        self.index.insert(slot, |slot| chunks[slot as usize / CHUNK][slot as usize % CHUNK].key);
    }
}

impl Links for Slab {
    fn key(&self, slot: u32) -> OperationKey {
        self.get(slot).key
    }

    fn submitted_at(&self, slot: u32) -> Timestamp {
        self.get(slot).submitted_at
    }

    fn link(&self, slot: u32) -> &Link {
        match &self.get(slot).step {
            Step::Queued(link) => link,
            step => unreachable!("an operation at {step:?} is in no lane"),
        }
    }

    fn link_mut(&mut self, slot: u32) -> &mut Link {
        match &mut self.get_mut(slot).step {
            Step::Queued(link) => link,
            step => unreachable!("an operation at {step:?} is in no lane"),
        }
    }

    fn set_link(&mut self, slot: u32, link: Link) {
        self.get_mut(slot).step = Step::Queued(link);
    }
}
