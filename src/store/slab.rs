//! Things by operation key, each once: slots in chunks, and an index of slot numbers.
//!
//! A `HashMap` of things is twice its size for a while at each growth, half empty after it, and moves what it holds; one
//! of boxes pays a pointer and the key a second time. Here a thing stays where it is, other structures name it by its
//! slot in four bytes, and a chunk that nothing lies in any more is given back.

use crate::engine::OperationKey;
use crate::engine::operation::Index;

/// Slots of a chunk. The first chunk grows up to this, so that few things take few slots.
const CHUNK: usize = 64;
/// No slot.
const NIL: u32 = u32::MAX;

/// What knows its key.
pub(crate) trait Keyed {
    fn key(&self) -> OperationKey;
}

/// Things by operation key.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// Chunks with a free slot; the last one is filled first.
    open: Vec<u32>,
    /// The chunk that was the last to become empty: it keeps its room, so that a thing that comes and goes costs none.
    spare: usize,
    index: Index,
    len: usize,
}

#[derive(Clone, Debug)]
struct Chunk<T> {
    places: Vec<Place<T>>,
    /// The first free place among `places`.
    free: u32,
    used: usize,
}

#[derive(Clone, Debug)]
enum Place<T> {
    Taken(T),
    Free { next: u32 },
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), open: Vec::new(), spare: 0, index: Index::new(), len: 0 }
    }
}

impl<T: Keyed> Slab<T> {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn find(&self, key: OperationKey) -> Option<u32> {
        self.index.find(key, |slot| key_at(&self.chunks, slot))
    }

    /// What lies in a slot; a slot number is an answer of [`Slab::find`] or [`Slab::insert`].
    pub(crate) fn at(&self, slot: u32) -> &T {
        thing(&self.chunks, slot).expect("a slot is named while something lies in it")
    }

    pub(crate) fn at_mut(&mut self, slot: u32) -> &mut T {
        match self.chunks[slot as usize / CHUNK].places.get_mut(slot as usize % CHUNK) {
            Some(Place::Taken(thing)) => thing,
            _ => unreachable!("a slot is named while something lies in it"),
        }
    }

    pub(crate) fn get(&self, key: OperationKey) -> Option<&T> {
        self.find(key).map(|slot| self.at(slot))
    }

    pub(crate) fn get_mut(&mut self, key: OperationKey) -> Option<&mut T> {
        self.find(key).map(|slot| self.at_mut(slot))
    }

    /// Takes in a thing whose key is not here yet.
    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        debug_assert!(self.find(thing.key()).is_none(), "one thing to a key");
        let number = self.open_chunk();
        let chunk = &mut self.chunks[number as usize];
        let at = chunk.put(thing);
        if chunk.used == CHUNK {
            self.open.pop();
        }
        let slot = number * CHUNK as u32 + at;
        let chunks = &self.chunks;
        self.index.insert(slot, |slot| key_at(chunks, slot));
        self.len += 1;
        slot
    }

    pub(crate) fn remove(&mut self, key: OperationKey) -> Option<T> {
        let slot = self.find(key)?;
        let chunks = &self.chunks;
        self.index.remove(key, |slot| key_at(chunks, slot));
        let number = slot / CHUNK as u32;
        let chunk = &mut self.chunks[number as usize];
        if chunk.used == CHUNK {
            self.open.push(number);
        }
        let thing = chunk.take(slot % CHUNK as u32);
        if chunk.used == 0 {
            self.keep_spare(number as usize);
        }
        self.len -= 1;
        thing
    }

    /// Everything, in no order that means anything.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| &chunk.places).filter_map(|place| match place {
            Place::Taken(thing) => Some(thing),
            Place::Free { .. } => None,
        })
    }

    /// Everything, to be changed. Keys stay.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flat_map(|chunk| &mut chunk.places).filter_map(|place| match place {
            Place::Taken(thing) => Some(thing),
            Place::Free { .. } => None,
        })
    }

    /// Gives the room of an empty slab back.
    pub(crate) fn shrink(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }

    /// A chunk has become empty: the one before it gives its room back.
    fn keep_spare(&mut self, number: usize) {
        let before = std::mem::replace(&mut self.spare, number);
        let chunk = &mut self.chunks[before];
        if before != number && chunk.used == 0 {
            (chunk.places, chunk.free) = (Vec::new(), NIL);
        }
    }

    /// A chunk with a free slot.
    fn open_chunk(&mut self) -> u32 {
        if let Some(number) = self.open.last() {
            return *number;
        }
        let number = u32::try_from(self.chunks.len()).expect("a store's and a lane's bounds are below 2^32 slots");
        let places = if number == 0 { Vec::new() } else { Vec::with_capacity(CHUNK) };
        self.chunks.push(Chunk { places, free: NIL, used: 0 });
        self.open.push(number);
        number
    }
}

impl<T> Chunk<T> {
    fn put(&mut self, thing: T) -> u32 {
        self.used += 1;
        if self.free != NIL {
            let at = self.free;
            let place = std::mem::replace(&mut self.places[at as usize], Place::Taken(thing));
            if let Place::Free { next } = place {
                self.free = next;
            }
            return at;
        }
        self.places.push(Place::Taken(thing));
        (self.places.len() - 1) as u32 // below CHUNK
    }

    fn take(&mut self, at: u32) -> Option<T> {
        let place = std::mem::replace(&mut self.places[at as usize], Place::Free { next: self.free });
        self.free = at;
        self.used -= 1;
        match place {
            Place::Taken(thing) => Some(thing),
            Place::Free { .. } => None,
        }
    }
}

fn thing<T>(chunks: &[Chunk<T>], slot: u32) -> Option<&T> {
    match chunks.get(slot as usize / CHUNK)?.places.get(slot as usize % CHUNK)? {
        Place::Taken(thing) => Some(thing),
        Place::Free { .. } => None,
    }
}

fn key_at<T: Keyed>(chunks: &[Chunk<T>], slot: u32) -> OperationKey {
    thing(chunks, slot).expect("what is in the index lies in its slot").key()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    impl Keyed for (OperationKey, Box<u64>) {
        fn key(&self) -> OperationKey {
            self.0
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_an_ordered_map(steps in proptest::collection::vec((any::<bool>(), 0_u64..300), 0..1_200)) {
            let (mut slab, mut model) = (Slab::default(), BTreeMap::new());
            for (insert, key) in steps {
                let key = OperationKey(key);
                if insert && !model.contains_key(&key) {
                    let slot = slab.insert((key, Box::new(key.0)));
                    prop_assert_eq!(slab.at(slot).0, key);
                    model.insert(key, key.0);
                } else if !insert {
                    prop_assert_eq!(slab.remove(key).map(|thing| *thing.1), model.remove(&key));
                }
                prop_assert_eq!(slab.get(key).map(|thing| *thing.1), model.get(&key).copied());
                prop_assert_eq!(slab.len(), model.len());
            }
            let mut all: Vec<OperationKey> = slab.iter().map(|thing| thing.0).collect();
            all.sort_unstable();
            prop_assert_eq!(all, model.into_keys().collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_was_a_million_once_gives_its_room_back() {
        let mut slab = Slab::default();
        for key in 0..100_000 {
            slab.insert((OperationKey(key), Box::new(key)));
        }
        for key in 0..99_999 {
            slab.remove(OperationKey(key));
        }
        let kept: usize = slab.chunks.iter().map(|chunk| chunk.places.capacity()).sum();
        assert!(kept <= 2 * CHUNK, "{kept} places are kept for one thing");
        slab.remove(OperationKey(99_999));
        slab.shrink();
        assert_eq!((slab.is_empty(), slab.chunks.capacity()), (true, 0));
    }
}
