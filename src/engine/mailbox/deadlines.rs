//! The deadlines of a mailbox's operations: a heap of slots, four bytes an operation.
//!
//! Each entry knows its place in the heap, so one that ends is taken out at once, wherever it is. Ties are broken by
//! the key: the order never depends on how the heap came about.

use super::slab::Slab;
use crate::engine::lanes::NIL;
use crate::engine::operation::OperationKey;
use crate::engine::time::Timestamp;

/// The slots of the operations that have a deadline, the earliest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Deadlines {
    heap: Vec<u32>,
}

impl Deadlines {
    pub(super) fn insert(&mut self, slab: &mut Slab, slot: u32) {
        self.heap.push(slot);
        self.rise(slab, self.heap.len() - 1);
    }

    /// Takes `slot` out, if it is here.
    pub(super) fn remove(&mut self, slab: &mut Slab, slot: u32) {
        let at = std::mem::replace(&mut slab.get_mut(slot).deadline_at, NIL);
        if at == NIL {
            return;
        }
        let at = at as usize;
        let Some(last) = self.heap.pop() else { return };
        if at < self.heap.len() {
            self.heap[at] = last;
            if self.sink(slab, at) == at {
                self.rise(slab, at);
            }
        }
        if self.heap.is_empty() && self.heap.capacity() > 64 {
            self.heap = Vec::new();
        }
    }

    pub(super) fn first(&self, slab: &Slab) -> Option<(Timestamp, u32)> {
        let slot = *self.heap.first()?;
        Some((slab.get(slot).deadline, slot))
    }

    fn rise(&mut self, slab: &mut Slab, mut at: usize) {
        let slot = self.heap[at];
        let mine = order(slab, slot);
        while at > 0 {
            let parent = (at - 1) / 2;
            let above = self.heap[parent];
            if order(slab, above) <= mine {
                break;
            }
            self.put(slab, at, above);
            at = parent;
        }
        self.put(slab, at, slot);
    }

    fn sink(&mut self, slab: &mut Slab, mut at: usize) -> usize {
        let slot = self.heap[at];
        let mine = order(slab, slot);
        loop {
            let left = at * 2 + 1;
            let children = self.heap.get(left..self.heap.len().min(left + 2)).unwrap_or_default();
            let Some((child, below)) = children
                .iter()
                .enumerate()
                .map(|(n, below)| (left + n, *below))
                .min_by_key(|(_, below)| order(slab, *below))
                .filter(|(_, below)| order(slab, *below) < mine)
            else {
                break;
            };
            self.put(slab, at, below);
            at = child;
        }
        self.put(slab, at, slot);
        at
    }

    fn put(&mut self, slab: &mut Slab, at: usize, slot: u32) {
        self.heap[at] = slot;
        slab.get_mut(slot).deadline_at = at as u32; // as many as there are slots
    }
}

fn order(slab: &Slab, slot: u32) -> (Timestamp, OperationKey) {
    let entry = slab.get(slot);
    (entry.deadline, entry.key)
}
