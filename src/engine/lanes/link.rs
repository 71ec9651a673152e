//! How waiting operations are linked: a doubly linked list per tenant through somebody's slots.
//!
//! A cancel or a deadline takes an operation out of the middle of a queue of a million, so a `VecDeque` per tenant
//! would shift or leave tombstones. Links are slot numbers, not pointers: 20 bytes an operation, no `unsafe`. Whoever
//! owns the slots lends them as [`Links`], so an operation lies in one place and not once per structure.

use crate::engine::operation::OperationKey;
use crate::engine::time::Timestamp;

/// No slot.
pub(crate) const NIL: u32 = u32::MAX;
/// Dominant costs are cut to this many millionths of a window, so that deficits cannot overflow.
const DOMINANT_MAX: u64 = 1 << 40;

/// The place of one operation in its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(super) previous: u32,
    pub(super) next: u32,
    /// Its tenant's place in the ring.
    pub(super) tenant: u32,
    dominant_low: u32,
    dominant_high: u16,
    /// Later operations of its tenant that were taken before it.
    pub(super) passed: u8,
}

impl Link {
    pub(super) fn new(tenant: u32, dominant: u64) -> Self {
        let dominant = bounded(dominant);
        // Below 2^48, so both parts fit.
        let (dominant_low, dominant_high) = (dominant as u32, (dominant >> 32) as u16);
        Self { previous: NIL, next: NIL, tenant, dominant_low, dominant_high, passed: 0 }
    }

    /// Whether it stands behind another one of its tenant.
    pub(crate) fn follows(&self) -> bool {
        self.previous != NIL
    }

    pub(super) fn dominant(&self) -> u64 {
        u64::from(self.dominant_high) << 32 | u64::from(self.dominant_low)
    }
}

/// The slots that a lane's operations lie in.
pub(crate) trait Links {
    fn key(&self, slot: u32) -> OperationKey;
    fn submitted_at(&self, slot: u32) -> Timestamp;
    /// The link of an operation that waits.
    fn link(&self, slot: u32) -> &Link;
    fn link_mut(&mut self, slot: u32) -> &mut Link;
    /// From now on the operation waits.
    fn set_link(&mut self, slot: u32, link: Link);
}

/// The ends of one tenant's list.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self { head: NIL, tail: NIL };

    /// Links `slot` in before `successor` (`NIL`: at the back).
    pub(super) fn insert(&mut self, links: &mut impl Links, slot: u32, mut link: Link, successor: u32) {
        link.next = successor;
        link.previous = if successor == NIL { self.tail } else { links.link(successor).previous };
        if link.previous == NIL {
            self.head = slot;
        } else {
            links.link_mut(link.previous).next = slot;
        }
        if successor == NIL {
            self.tail = slot;
        } else {
            links.link_mut(successor).previous = slot;
        }
        links.set_link(slot, link);
    }

    /// Unlinks `slot`.
    pub(super) fn remove(&mut self, links: &mut impl Links, slot: u32) {
        let Link { previous, next, .. } = *links.link(slot);
        if previous == NIL {
            self.head = next;
        } else {
            links.link_mut(previous).next = next;
        }
        if next == NIL {
            self.tail = previous;
        } else {
            links.link_mut(next).previous = previous;
        }
    }
}

pub(super) fn bounded(dominant: u64) -> u64 {
    dominant.clamp(1, DOMINANT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_takes_twenty_bytes_and_keeps_the_largest_dominant_cost() {
        assert_eq!(size_of::<Link>(), 20);
        for dominant in [1, 77_000_000, u64::from(u32::MAX) + 5, DOMINANT_MAX] {
            assert_eq!(Link::new(0, dominant).dominant(), dominant);
        }
        assert_eq!((Link::new(0, 0).dominant(), Link::new(0, u64::MAX).dominant()), (1, DOMINANT_MAX));
    }
}
