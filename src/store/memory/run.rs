//! A run: rows of one kind in order of key, linked through the rows themselves, eight bytes a row.
//!
//! A treap: a search tree by key that is a heap by a hash of it, which keeps it as shallow as a random one whatever the
//! order of arrival. A `BTreeSet` of keys takes twenty bytes a row where keys come in order, and an allocation per run.
//! Keys are numbers that the scheduler gives out, so nobody outside can aim at a deep tree.

use std::cmp::Ordering;

use super::row::Row;
use crate::engine::OperationKey;
use crate::store::Slab;

/// No row.
pub(super) const NIL: u32 = u32::MAX;

/// Whether a change was at the front of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Front {
    Changed,
    Same,
}

/// Links a row in below `root`.
pub(super) fn insert(rows: &mut Slab<Row>, root: &mut u32, slot: u32) -> Front {
    let key = rows.at(slot).key;
    let (mut above, mut at, mut front) = (None, *root, Front::Changed);
    while at != NIL && weight(rows.at(at).key) > weight(key) {
        let side = side(rows, at, key);
        if side == 1 {
            front = Front::Same;
        }
        above = Some((at, side));
        at = rows.at(at).links[side];
    }
    let below = split(rows, at, key);
    if below[0] != NIL {
        front = Front::Same;
    }
    rows.at_mut(slot).links = below;
    hang(rows, root, above, slot);
    front
}

/// Takes a row out.
pub(super) fn remove(rows: &mut Slab<Row>, root: &mut u32, slot: u32) -> Front {
    let key = rows.at(slot).key;
    let (mut above, mut at, mut front) = (None, *root, Front::Changed);
    while at != slot {
        if at == NIL {
            debug_assert!(false, "operation {} is not in its run", key.0);
            return Front::Same;
        }
        let side = side(rows, at, key);
        if side == 1 {
            front = Front::Same;
        }
        above = Some((at, side));
        at = rows.at(at).links[side];
    }
    let [left, right] = std::mem::replace(&mut rows.at_mut(slot).links, [NIL, NIL]);
    if left != NIL {
        front = Front::Same;
    }
    let joined = join(rows, left, right);
    hang(rows, root, above, joined);
    front
}

/// The lowest key of a run.
pub(super) fn first(rows: &Slab<Row>, root: u32) -> Option<OperationKey> {
    let (mut at, mut first) = (root, None);
    while at != NIL {
        let row = rows.at(at);
        (first, at) = (Some(row.key), row.links[0]);
    }
    first
}

/// On which side of the row at `at` a key lies.
fn side(rows: &Slab<Row>, at: u32, key: OperationKey) -> usize {
    match key.cmp(&rows.at(at).key) {
        Ordering::Less => 0,
        Ordering::Equal | Ordering::Greater => 1,
    }
}

/// The heavier row stands above: SplitMix64's mixing of the key, which is one to one.
const fn weight(key: OperationKey) -> u64 {
    let z = key.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn hang(rows: &mut Slab<Row>, root: &mut u32, above: Option<(u32, usize)>, slot: u32) {
    match above {
        None => *root = slot,
        Some((at, side)) => rows.at_mut(at).links[side] = slot,
    }
}

/// The rows below `at` as two trees: those before `key` and those after it.
fn split(rows: &mut Slab<Row>, mut at: u32, key: OperationKey) -> [u32; 2] {
    let (mut roots, mut ends) = ([NIL, NIL], [None, None]);
    while at != NIL {
        // What lies before the key ends at its right, where later ones may follow; what lies after it at its left.
        let open = side(rows, at, key);
        hang(rows, &mut roots[1 - open], ends[1 - open], at);
        ends[1 - open] = Some((at, open));
        at = rows.at(at).links[open];
    }
    for (root, end) in roots.iter_mut().zip(ends) {
        hang(rows, root, end, NIL);
    }
    roots
}

/// Two trees as one; everything in `left` lies before everything in `right`.
fn join(rows: &mut Slab<Row>, mut left: u32, mut right: u32) -> u32 {
    let (mut root, mut end) = (NIL, None);
    while left != NIL && right != NIL {
        let (top, side) = if weight(rows.at(left).key) > weight(rows.at(right).key) { (left, 1) } else { (right, 0) };
        hang(rows, &mut root, end, top);
        end = Some((top, side));
        let rest = rows.at(top).links[side];
        if side == 1 {
            left = rest;
        } else {
            right = rest;
        }
    }
    hang(rows, &mut root, end, if left == NIL { right } else { left });
    root
}

/// Rows of a run in order of key.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    rows: &'a Slab<Row>,
    /// The next row and those above it that come after it, the next one last.
    path: Vec<u32>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(rows: &'a Slab<Row>, root: u32) -> Self {
        let mut cursor = Self { rows, path: Vec::new() };
        cursor.descend(root);
        cursor
    }

    /// The key of the next row.
    pub(super) fn peek(&self) -> Option<OperationKey> {
        self.path.last().map(|slot| self.rows.at(*slot).key)
    }

    fn descend(&mut self, mut at: u32) {
        while at != NIL {
            self.path.push(at);
            at = self.rows.at(at).links[0];
        }
    }
}

impl<'a> Iterator for Cursor<'a> {
    type Item = &'a Row;

    fn next(&mut self) -> Option<&'a Row> {
        let row = self.rows.at(self.path.pop()?);
        self.descend(row.links[1]);
        Some(row)
    }
}
