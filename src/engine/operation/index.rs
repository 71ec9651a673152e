//! Where in the slab an operation is: a table of slot numbers, four bytes a bucket.
//!
//! A `HashMap<OperationKey, u32>` stores the key a second time and hashes it with SipHash; at a million queued
//! operations that is 34 bytes and tens of nanoseconds each. Keys are numbers that this process hands out in order,
//! so nobody can aim collisions at us, and one multiplication spreads them well. The key is compared where it already
//! is, in the slab.
//!
//! Linear probing, at most three quarters full, deletion by moving followers back: no tombstones, so lookups stay as
//! short after a million removals as before. It grows by half: one that doubles is for most of its life at a third of its
//! size too large. Iteration is not offered: its order would mean nothing.

use super::OperationKey;

const EMPTY: u32 = u32::MAX;
const BUCKETS_MIN: usize = 16;

/// Slot numbers by key. The caller owns the slab and lends its keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    buckets: Vec<u32>,
    len: usize,
}

impl Index {
    pub(crate) const fn new() -> Self {
        Self { buckets: Vec::new(), len: 0 }
    }

    pub(crate) fn find(&self, key: OperationKey, key_of: impl Fn(u32) -> OperationKey) -> Option<u32> {
        self.position(key, key_of).map(|at| self.buckets[at])
    }

    /// Adds a slot whose key is not in here yet.
    pub(crate) fn insert(&mut self, slot: u32, key_of: impl Fn(u32) -> OperationKey) {
        if (self.len + 1) * 4 > self.buckets.len() * 3 {
            self.grow(&key_of);
        }
        self.place(slot, key_of(slot));
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, key: OperationKey, key_of: impl Fn(u32) -> OperationKey) {
        let Some(mut hole) = self.position(key, &key_of) else {
            return;
        };
        self.len -= 1;
        let mut at = hole;
        loop {
            at = self.after(at);
            let slot = self.buckets[at];
            if slot == EMPTY {
                break;
            }
            // A follower may move back to the hole only if its own probe starts at or before it.
            let home = self.home(key_of(slot));
            if self.distance(home, at) >= self.distance(hole, at) {
                self.buckets[hole] = slot;
                hole = at;
            }
        }
        self.buckets[hole] = EMPTY;
    }

    fn position(&self, key: OperationKey, key_of: impl Fn(u32) -> OperationKey) -> Option<usize> {
        if self.buckets.is_empty() {
            return None;
        }
        let mut at = self.home(key);
        loop {
            match self.buckets[at] {
                EMPTY => return None,
                slot if key_of(slot) == key => return Some(at),
                _ => at = self.after(at),
            }
        }
    }

    fn place(&mut self, slot: u32, key: OperationKey) {
        let mut at = self.home(key);
        while self.buckets[at] != EMPTY {
            at = self.after(at);
        }
        self.buckets[at] = slot;
    }

    fn grow(&mut self, key_of: impl Fn(u32) -> OperationKey) {
        let larger = (self.buckets.len() + self.buckets.len() / 2).max(BUCKETS_MIN);
        let old = std::mem::replace(&mut self.buckets, vec![EMPTY; larger]);
        for slot in old.into_iter().filter(|slot| *slot != EMPTY) {
            self.place(slot, key_of(slot));
        }
    }

    /// The bucket that is probed next.
    const fn after(&self, at: usize) -> usize {
        if at + 1 == self.buckets.len() { 0 } else { at + 1 }
    }

    /// Buckets from `from` on to `to`.
    const fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.buckets.len() - from }
    }

    /// Fibonacci hashing: a product with 2^64/φ as a part of 2^64, of as many buckets as there are.
    fn home(&self, key: OperationKey) -> usize {
        let part = key.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(part) * self.buckets.len() as u128) >> 64) as usize // below their number
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_agrees_with_an_ordered_map(steps in proptest::collection::vec((any::<bool>(), 0_u64..300), 0..800)) {
            let mut index = Index::new();
            let mut keys: Vec<OperationKey> = Vec::new();
            let mut model = BTreeMap::new();
            for (insert, key) in steps {
                let key = OperationKey(key.wrapping_mul(0x5851_f42d_4c95_7f2d));
                if insert && !model.contains_key(&key) {
                    let slot = keys.len() as u32;
                    keys.push(key);
                    model.insert(key, slot);
                    index.insert(slot, |slot| keys[slot as usize]);
                } else if !insert {
                    model.remove(&key);
                    index.remove(key, |slot| keys[slot as usize]);
                }
                prop_assert_eq!(index.find(key, |slot| keys[slot as usize]), model.get(&key).copied());
            }
            for (key, slot) in &model {
                prop_assert_eq!(index.find(*key, |slot| keys[slot as usize]), Some(*slot));
            }
            prop_assert_eq!(index.len, model.len());
        }
    }

    #[test]
    fn however_many_keys_there_are_they_take_at_most_eight_bytes_each() {
        let mut index = Index::new();
        for slot in 0..1_000_000 {
            index.insert(slot, |slot| OperationKey(u64::from(slot)));
            assert!(slot < 1_000 || index.buckets.len() * 4 <= (slot as usize + 1) * 8 + 8, "at {slot}");
        }
        assert_eq!(index.find(OperationKey(999_999), |slot| OperationKey(u64::from(slot))), Some(999_999));
        assert_eq!(index.find(OperationKey(1_000_000), |slot| OperationKey(u64::from(slot))), None);
    }
}
