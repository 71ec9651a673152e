//! The deadlines of a mailbox's operations, four to eight bytes an operation.
//!
//! Most operations come in the order of their deadlines and end about in that order, so most are in a queue: nothing
//! has to be compared to put one in or take one out. Those that come out of order are in a heap. Each entry knows its
//! place, so one that ends is taken out at once, wherever it is. Ties are broken by the key: the order never depends on
//! how it came about.

use std::collections::VecDeque;

use super::slab::Slab;
use crate::engine::lanes::NIL;
use crate::engine::operation::OperationKey;
use crate::engine::time::Timestamp;

/// Places from here on are in the queue, those below in the heap.
const QUEUED: u32 = 1 << 31;
/// Gaps that are not worth closing.
const GAPS_MIN: usize = 64;

/// The slots of the operations that have a deadline.
#[derive(Clone, Debug)]
pub(super) struct Deadlines {
    /// The earliest; asked for at every input.
    first_at: Timestamp,
    /// The earliest first; [`NIL`] where one has ended, but neither first nor last.
    queue: VecDeque<u32>,
    /// How many places before the queue's first were given away.
    before: u32,
    gaps: usize,
    heap: Vec<u32>,
}

impl Default for Deadlines {
    fn default() -> Self {
        let (queue, heap) = (VecDeque::new(), Vec::new());
        Self { first_at: Timestamp::NEVER, queue, before: 0, gaps: 0, heap }
    }
}

impl Deadlines {
    /// The earliest deadline; [`Timestamp::NEVER`]: there is none.
    #[inline]
    pub(super) fn first_at(&self) -> Timestamp {
        self.first_at
    }

    pub(super) fn insert(&mut self, slab: &mut Slab, slot: u32) {
        let at = slab.get(slot).deadline;
        self.first_at = self.first_at.min(at);
        if self.queue.back().is_some_and(|last| order(slab, *last) > order(slab, slot)) {
            self.heap.push(slot);
            self.rise(slab, self.heap.len() - 1);
            return;
        }
        if self.queue.is_empty() {
            self.before = 0;
        }
        let taken = (self.before as usize).saturating_add(self.queue.len());
        if taken >= (NIL - QUEUED) as usize {
            self.close_gaps(slab); // places run out after two thousand million operations
        }
        let place = self.before + self.queue.len() as u32; // below the bound: as many as there are slots
        slab.get_mut(slot).deadline_at = QUEUED + place;
        self.queue.push_back(slot);
    }

    /// Takes `slot` out, if it is here.
    pub(super) fn remove(&mut self, slab: &mut Slab, slot: u32) {
        let entry = slab.get_mut(slot);
        let (at, was) = (std::mem::replace(&mut entry.deadline_at, NIL), entry.deadline);
        if at == NIL {
            return;
        }
        if at >= QUEUED {
            self.unqueue(slab, (at - QUEUED - self.before) as usize);
        } else {
            self.unheap(slab, at as usize);
        }
        if was == self.first_at {
            self.first_at = self.first(slab).map_or(Timestamp::NEVER, |(at, _)| at);
        }
    }

    pub(super) fn first(&self, slab: &Slab) -> Option<(Timestamp, u32)> {
        let slot = match (self.queue.front(), self.heap.first()) {
            (Some(queued), Some(heaped)) if order(slab, *heaped) < order(slab, *queued) => *heaped,
            (Some(queued), Some(_)) => *queued,
            (Some(only), None) | (None, Some(only)) => *only,
            (None, None) => return None,
        };
        Some((slab.get(slot).deadline, slot))
    }

    fn unqueue(&mut self, slab: &mut Slab, at: usize) {
        self.queue[at] = NIL;
        self.gaps += 1;
        while self.queue.front() == Some(&NIL) {
            self.queue.pop_front();
            self.before += 1;
            self.gaps -= 1;
        }
        while self.queue.back() == Some(&NIL) {
            self.queue.pop_back();
            self.gaps -= 1;
        }
        if self.gaps > GAPS_MIN && self.gaps > self.queue.len() / 2 {
            self.close_gaps(slab);
        }
        if self.queue.is_empty() && self.queue.capacity() > GAPS_MIN {
            self.queue = VecDeque::new();
        }
    }

    fn close_gaps(&mut self, slab: &mut Slab) {
        self.queue.retain(|slot| *slot != NIL);
        self.queue.shrink_to(self.queue.len() * 2);
        (self.before, self.gaps) = (0, 0);
        for (place, slot) in self.queue.iter().enumerate() {
            slab.get_mut(*slot).deadline_at = QUEUED + place as u32; // as many as there are slots
        }
    }

    fn unheap(&mut self, slab: &mut Slab, at: usize) {
        let Some(last) = self.heap.pop() else { return };
        if at < self.heap.len() {
            self.heap[at] = last;
            if self.sink(slab, at) == at {
                self.rise(slab, at);
            }
        }
        if self.heap.is_empty() && self.heap.capacity() > GAPS_MIN {
            self.heap = Vec::new();
        }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::engine::mailbox::entry::Entry;
    use crate::engine::mailbox::names::NamesId;
    use crate::engine::operation::{Operation, OperationKind};
    use crate::engine::{Cost, Lane};

    fn entry(key: u64, deadline: u64) -> Entry {
        let at = Timestamp::from_micros(deadline);
        let operation = Operation {
            key: OperationKey(key),
            id_hash: key,
            lane: Lane::Foreground,
            kind: OperationKind::Send,
            tenant: None,
            campaign: None,
            cost: Cost::ONE_REQUEST,
            submitted_at: Timestamp::EPOCH,
            not_before: Timestamp::EPOCH,
            deadline: at,
            attempts: 0,
        };
        Entry::new(&operation, NamesId::NONE)
    }

    proptest! {
        /// Deadlines come about in order, and end in any.
        #[test]
        fn it_names_the_same_first_as_an_ordered_set(
            steps in proptest::collection::vec((0_u8..3, 0_u64..40, any::<prop::sample::Index>()), 0..900),
        ) {
            let (mut slab, mut deadlines, mut model) = (Slab::new(), Deadlines::default(), BTreeSet::new());
            for (number, (what, jitter, which)) in steps.into_iter().enumerate() {
                let number = number as u64;
                if what > 0 {
                    let at = if jitter < 30 { number * 10 } else { number * 10 + jitter * 20 };
                    let slot = slab.insert(entry(number, at));
                    deadlines.insert(&mut slab, slot);
                    model.insert((at, number, slot));
                } else if !model.is_empty() {
                    let gone = *model.iter().nth(which.index(model.len())).expect("an index");
                    model.remove(&gone);
                    deadlines.remove(&mut slab, gone.2);
                    slab.remove(gone.2);
                }
                let first = model.first().map(|(at, _, slot)| (Timestamp::from_micros(*at), *slot));
                prop_assert_eq!(deadlines.first(&slab), first);
                prop_assert_eq!(deadlines.first_at(), first.map_or(Timestamp::NEVER, |(at, _)| at));
            }
        }
    }

    #[test]
    fn one_that_stays_does_not_keep_the_places_of_all_that_passed() {
        let (mut slab, mut deadlines) = (Slab::new(), Deadlines::default());
        let stays = slab.insert(entry(0, 0));
        deadlines.insert(&mut slab, stays);
        for number in 1..100_000 {
            let slot = slab.insert(entry(number, number));
            deadlines.insert(&mut slab, slot);
            let next = slab.insert(entry(number + 1_000_000, number));
            deadlines.insert(&mut slab, next);
            deadlines.remove(&mut slab, slot);
            slab.remove(slot);
            deadlines.remove(&mut slab, next);
            slab.remove(next);
        }
        assert!(deadlines.queue.capacity() <= 4 * GAPS_MIN);
        assert_eq!(deadlines.first(&slab), Some((Timestamp::EPOCH, stays)));
    }
}
