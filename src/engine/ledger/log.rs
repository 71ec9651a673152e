//! The charges that still count, in the order in which they stop counting.
//!
//! One sorted queue serves exact windows and sub-bucketed ones alike: a sub-bucket is only a coarser grid for the
//! instants that go in, and charges of the same instant merge. So an over-count is the only difference there can be.

use std::collections::VecDeque;

use crate::engine::lane::Lane;

use super::Counted;

/// Room, in entries, that is not worth giving back.
const ROOM_MIN: usize = 32;

/// Charges of one instant, lane and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// From this microsecond on it no longer counts.
    pub(super) free_at: u64,
    pub(super) cost: u64,
    pub(super) lane: Lane,
    pub(super) counted: Counted,
}

/// Whose charges a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Everyone,
    Lane(Lane),
}

impl Whose {
    pub(super) fn includes(self, lane: Lane) -> bool {
        match self {
            Self::Everyone => true,
            Self::Lane(only) => only == lane,
        }
    }

    /// The part of `costs`, indexed by lane, that this question is about.
    pub(super) fn sum(self, costs: [u64; 2]) -> u64 {
        match self {
            Self::Everyone => costs[0].saturating_add(costs[1]),
            Self::Lane(lane) => costs[lane as usize],
        }
    }
}

/// Completed charges, first to be freed in front.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    entries: VecDeque<Entry>,
    /// Sum of `entries` per lane, those included that expired since the last [`Log::expire`].
    held: [u64; 2],
    /// The part of `held` that was refused.
    refused: u64,
}

impl Log {
    /// The log of these charges, first to be freed in front.
    pub(super) fn of(entries: VecDeque<Entry>) -> Self {
        let mut log = Self { entries, ..Self::default() };
        for entry in &log.entries {
            let held = &mut log.held[entry.lane as usize];
            *held = held.saturating_add(entry.cost);
            if entry.counted == Counted::Refused {
                log.refused = log.refused.saturating_add(entry.cost);
            }
        }
        log
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What counts, and what has stopped since the last [`Log::expire`].
    pub(super) fn held(&self) -> u64 {
        Whose::Everyone.sum(self.held)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.free_at)
    }

    pub(super) fn last(&self) -> Option<u64> {
        self.entries.back().map(|entry| entry.free_at)
    }

    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.entries.capacity()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Adds a charge. A log of `entries_max` entries grows no further: the charge joins one that is freed later, or
    /// keeps the last one counting for longer. Either way it over-counts.
    pub(super) fn push(&mut self, entry: Entry, entries_max: usize) {
        let lane = entry.lane as usize;
        self.held[lane] = self.held[lane].saturating_add(entry.cost);
        if entry.counted == Counted::Refused {
            self.refused = self.refused.saturating_add(entry.cost);
        }
        let room = self.entries.len() < entries_max.max(4);
        if room && self.last().is_none_or(|last| last < entry.free_at) {
            self.entries.push_back(entry); // the common case: completions arrive nearly in order
            return;
        }
        let after = self.entries.iter().rev().take_while(|other| other.free_at > entry.free_at).count();
        let place = self.entries.len() - after;
        let same = self.entries.range_mut(..place).rev().take_while(|other| other.free_at == entry.free_at);
        for other in same {
            if other.lane == entry.lane && other.counted == entry.counted {
                other.cost = other.cost.saturating_add(entry.cost);
                return;
            }
        }
        if room {
            self.entries.insert(place, entry);
        } else {
            self.join(place, entry);
        }
    }

    /// Finds room for `entry`, whose place would be `place`, without a new entry.
    fn join(&mut self, place: usize, entry: Entry) {
        let alike = |other: &&mut Entry| other.lane == entry.lane && other.counted == entry.counted;
        if let Some(later) = self.entries.range_mut(place..).find(alike) {
            later.cost = later.cost.saturating_add(entry.cost);
            return;
        }
        // None of its kind is freed later: the last of its kind moves to the new place and takes it in.
        match self.entries.iter().rposition(|other| other.lane == entry.lane && other.counted == entry.counted) {
            Some(earlier) => {
                let cost = self.entries.remove(earlier).map_or(0, |other| other.cost);
                self.entries.insert(place - 1, Entry { cost: cost.saturating_add(entry.cost), ..entry });
            }
            None => self.entries.insert(place, entry), // at most four kinds: the bound is exceeded by three at most
        }
    }

    /// Forgets what no longer counts at `now`.
    pub(super) fn expire(&mut self, now: u64) {
        if self.first().is_none_or(|first| first > now) {
            return;
        }
        while let Some(entry) = self.entries.front().filter(|entry| entry.free_at <= now) {
            let lane = entry.lane as usize;
            self.held[lane] = self.held[lane].saturating_sub(entry.cost);
            if entry.counted == Counted::Refused {
                self.refused = self.refused.saturating_sub(entry.cost);
            }
            self.entries.pop_front();
        }
        // A burst long ago does not keep its room; doubling in between keeps this O(1) per charge.
        if self.entries.capacity() > ROOM_MIN && self.entries.len() < self.entries.capacity() / 8 {
            self.entries.shrink_to(self.entries.capacity() / 4);
        }
    }

    fn expired(&self, now: u64) -> impl Iterator<Item = &Entry> {
        self.entries.iter().take_while(move |entry| entry.free_at <= now)
    }

    /// What counts at `now`.
    pub(super) fn used(&self, now: u64, whose: Whose) -> u64 {
        if self.first().is_none_or(|first| first > now) {
            return whose.sum(self.held);
        }
        let gone = self.expired(now).filter(|entry| whose.includes(entry.lane)).map(|entry| entry.cost);
        gone.fold(whose.sum(self.held), u64::saturating_sub)
    }

    /// What counts at `now` and was accepted.
    pub(super) fn accepted(&self, now: u64) -> u64 {
        let gone = self.expired(now).filter(|entry| entry.counted == Counted::Accepted).map(|entry| entry.cost);
        let held = Whose::Everyone.sum(self.held).saturating_sub(self.refused);
        gone.fold(held, u64::saturating_sub)
    }

    /// The first instant after `now` by which `need` of what counts at `now` is free; `None` if there is not so much.
    pub(super) fn freed_at(&self, now: u64, need: u64, whose: Whose) -> Option<u64> {
        let mut freed = 0_u64;
        self.entries.iter().filter(|entry| entry.free_at > now && whose.includes(entry.lane)).find_map(|entry| {
            freed = freed.saturating_add(entry.cost);
            (freed >= need).then_some(entry.free_at)
        })
    }

    /// Every charge counts for `micros` less.
    pub(super) fn shorten(&mut self, micros: u64) {
        for entry in &mut self.entries {
            entry.free_at = entry.free_at.saturating_sub(micros);
        }
    }

    /// Every charge counts for `micros` longer.
    pub(super) fn stretch(&mut self, micros: u64) {
        for entry in &mut self.entries {
            entry.free_at = entry.free_at.saturating_add(micros);
        }
    }
}
