//! Where the operations of a [`LaneQueue`](super::LaneQueue) lie: one slab, 40 bytes an entry.

use crate::engine::lanes::link::{Link, Links, NIL};
use crate::engine::operation::{Index, OperationKey};
use crate::engine::time::Timestamp;

/// Up to this many slots are searched one by one: an index would cost an allocation to save nothing.
const UNINDEXED_MAX: usize = 8;

/// One queued operation. A free slot has no tenant and keeps the next free one in `next`.
#[derive(Clone, Debug)]
struct Node {
    key: OperationKey,
    submitted_at: Timestamp,
    link: Link,
}

/// All operations of one lane.
#[derive(Clone, Debug)]
pub(super) struct Slab {
    nodes: Vec<Node>,
    index: Index,
    free: u32,
}

impl Slab {
    pub(super) const fn new() -> Self {
        Self { nodes: Vec::new(), index: Index::new(), free: NIL }
    }

    pub(super) fn find(&self, key: OperationKey) -> Option<u32> {
        if self.is_indexed() {
            return self.index.find(key, |slot| self.nodes[slot as usize].key);
        }
        let at = self.nodes.iter().position(|node| node.key == key && node.link.tenant != NIL)?;
        Some(at as u32) // at most UNINDEXED_MAX
    }

    /// A slot for an operation that is linked next.
    pub(super) fn store(&mut self, key: OperationKey, submitted_at: Timestamp) -> u32 {
        let node = Node { key, submitted_at, link: Link::new(NIL, 0) };
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
            self.free = self.nodes[slot as usize].link.next;
            self.nodes[slot as usize] = node;
            slot
        };
        if self.is_indexed() {
            self.index_slot(slot);
        }
        slot
    }

    /// Frees the slot of an operation that is linked no more.
    pub(super) fn free(&mut self, slot: u32) {
        if self.is_indexed() {
            let nodes = &self.nodes;
            self.index.remove(nodes[slot as usize].key, |slot| nodes[slot as usize].key);
        }
        let mut link = Link::new(NIL, 0);
        link.next = self.free;
        self.nodes[slot as usize].link = link;
        self.free = slot;
    }

    fn is_indexed(&self) -> bool {
        self.nodes.len() > UNINDEXED_MAX
    }

    fn index_slot(&mut self, slot: u32) {
        let nodes = &self.nodes;
        self.index.insert(slot, |slot| nodes[slot as usize].key);
    }
}

impl Links for Slab {
    fn key(&self, slot: u32) -> OperationKey {
        self.nodes[slot as usize].key
    }

    fn submitted_at(&self, slot: u32) -> Timestamp {
        self.nodes[slot as usize].submitted_at
    }

    fn link(&self, slot: u32) -> &Link {
        &self.nodes[slot as usize].link
    }

    fn link_mut(&mut self, slot: u32) -> &mut Link {
        &mut self.nodes[slot as usize].link
    }

    fn set_link(&mut self, slot: u32, link: Link) {
        self.nodes[slot as usize].link = link;
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
