//! A map by operation key.
//!
//! Keys are numbers that the scheduler gives out in order, so nobody outside chooses them and a hash that withstands
//! attackers would be paid for nothing: six look-ups per operation cost a quarter of the engine's decision with it.
//! Iteration order is arbitrary; no decision may depend on it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::OperationKey;

/// A map by operation key.
pub(crate) type KeyMap<V> = HashMap<OperationKey, V, BuildHasherDefault<KeyHasher>>;

/// Spreads consecutive numbers over the high bits, where the map looks first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // Fibonacci hashing: 2^64 divided by the golden ratio, odd.
        self.0 = (self.0.rotate_left(32) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_keys_differ_in_the_bits_that_a_map_uses() {
        let hash = |key: u64| {
            let mut hasher = KeyHasher::default();
            hasher.write_u64(key);
            hasher.finish()
        };
        let mut high: Vec<u64> = (0..128).map(|key| hash(key) >> 57).collect();
        high.sort_unstable();
        high.dedup();
        assert!(high.len() > 100, "{} of 128 tags are distinct", high.len());
    }
}
