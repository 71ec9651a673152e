//! Where queued operations lie: one slab per lane, with a doubly linked list per tenant through it.
//!
//! A cancel or a deadline takes an operation out of the middle of a queue of a million, so a `VecDeque` per tenant
//! would shift or leave tombstones. Links are slot numbers, not pointers: 40 bytes an entry, no `unsafe`.

use crate::engine::lanes::index::Index;
use crate::engine::operation::OperationKey;
use crate::engine::time::Timestamp;

/// No slot.
pub(super) const NIL: u32 = u32::MAX;
/// Up to this many slots are searched one by one: an index would cost an allocation to save nothing.
const UNINDEXED_MAX: usize = 8;

/// One queued operation. A free slot has no tenant and keeps the next free one in `next`.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) key: OperationKey,
    pub(super) submitted_at: Timestamp,
    pub(super) dominant: u64,
    pub(super) previous: u32,
    pub(super) next: u32,
    pub(super) tenant: u32,
    /// Later operations of its tenant that were taken before it.
    pub(super) passed: u8,
}

/// The ends of one tenant's list.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self { head: NIL, tail: NIL };
}

/// All operations of one lane.
#[derive(Clone, Debug)]
pub(super) struct Slab {
    nodes: Vec<Node>,
    index: Index,
    free: u32,
    len: usize,
}

impl Slab {
    pub(super) const fn new() -> Self {
        Self { nodes: Vec::new(), index: Index::new(), free: NIL, len: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn node(&self, slot: u32) -> &Node {
        &self.nodes[slot as usize]
    }

    pub(super) fn node_mut(&mut self, slot: u32) -> &mut Node {
        &mut self.nodes[slot as usize]
    }

    pub(super) fn find(&self, key: OperationKey) -> Option<u32> {
        if self.is_indexed() {
            return self.index.find(key, |slot| self.nodes[slot as usize].key);
        }
        let at = self.nodes.iter().position(|node| node.key == key && node.tenant != NIL)?;
        Some(at as u32) // at most UNINDEXED_MAX
    }

    /// Stores `node` and links it into `list` before `successor` (`NIL`: at the back).
    pub(super) fn insert(&mut self, list: &mut List, mut node: Node, successor: u32) -> u32 {
        node.next = successor;
        node.previous = if successor == NIL { list.tail } else { self.node(successor).previous };
        let (previous, next) = (node.previous, node.next);
        let slot = self.store(node);
        if previous == NIL {
            list.head = slot
        } else {
            self.node_mut(previous).next = slot
        }
        if next == NIL {
            list.tail = slot
        } else {
            self.node_mut(next).previous = slot
        }
        self.len += 1;
        slot
    }

    /// Unlinks `slot` from `list` and frees it; answers what was there.
    pub(super) fn remove(&mut self, list: &mut List, slot: u32) -> Node {
        if self.is_indexed() {
            let nodes = &self.nodes;
            self.index.remove(nodes[slot as usize].key, |slot| nodes[slot as usize].key);
        }
        let free = self.free;
        let place = self.node_mut(slot);
        let node = place.clone();
        place.tenant = NIL;
        place.next = free;
        self.free = slot;
        if node.previous == NIL {
            list.head = node.next
        } else {
            self.node_mut(node.previous).next = node.next
        }
        if node.next == NIL {
            list.tail = node.previous
        } else {
            self.node_mut(node.next).previous = node.previous
        }
        self.len -= 1;
        node
    }

    fn is_indexed(&self) -> bool {
        self.nodes.len() > UNINDEXED_MAX
    }

    fn store(&mut self, node: Node) -> u32 {
        let slot = if self.free == NIL {
            let slot = u32::try_from(self.nodes.len()).expect("a lane's bound is a u32, so its slots are too");
            self.nodes.push(node);
            if self.nodes.len() == UNINDEXED_MAX + 1 {
                // The slab only grows when every slot is in use, so all the earlier ones are live.
                (0..slot).for_each(|earlier| self.index_slot(earlier));
            }
            slot
        } else {
            let slot = self.free;
            self.free = self.node(slot).next;
            *self.node_mut(slot) = node;
            slot
        };
        if self.is_indexed() {
            self.index_slot(slot);
        }
        slot
    }

    fn index_slot(&mut self, slot: u32) {
        let nodes = &self.nodes;
        self.index.insert(slot, |slot| nodes[slot as usize].key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_takes_forty_bytes() {
        assert_eq!(size_of::<Node>(), 40);
    }
}
