//! The operations of one mailbox: where they are, in which lane, and when they are due.
//!
//! One ordered table of deadlines and one of due instants stand in for timers, so the shell arms a single timer and
//! ties always break the same way.

use std::collections::BTreeSet;

use super::entry::{Entry, Step};
use crate::engine::cost::CostSum;
use crate::engine::lane::Lane;
use crate::engine::lanes::{LaneQueue, Queued, Usable};
use crate::engine::operation::{KeyMap, OperationKey};
use crate::engine::time::Timestamp;

/// Which end of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It was there before: it goes first again.
    Head,
    /// It is new.
    Tail,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    entries: KeyMap<Entry>,
    lanes: [LaneQueue; 2],
    queued_cost: [CostSum; 2],
    /// Operations here per lane, wherever they stand.
    live: [u32; 2],
    due: BTreeSet<(Timestamp, OperationKey)>,
    deadlines: BTreeSet<(Timestamp, OperationKey)>,
}

impl Table {
    pub(super) fn new(bypass_max: u32) -> Self {
        Self { lanes: [LaneQueue::new(bypass_max), LaneQueue::new(bypass_max)], ..Self::default() }
    }

    pub(super) fn set_bypass_max(&mut self, bypass_max: u32) {
        for lane in &mut self.lanes {
            lane.set_bypass_max(bypass_max);
        }
    }

    pub(super) fn insert(&mut self, entry: Entry) {
        let key = entry.operation.key;
        if entry.operation.deadline != Timestamp::NEVER {
            self.deadlines.insert((entry.operation.deadline, key));
        }
        self.live[entry.operation.lane.index()] += 1;
        self.entries.insert(key, entry);
    }

    /// How many operations of a lane are here, wherever they stand.
    pub(super) fn live(&self, lane: Lane) -> u32 {
        self.live[lane.index()]
    }

    pub(super) fn get(&self, key: OperationKey) -> Option<&Entry> {
        self.entries.get(&key)
    }

    pub(super) fn get_mut(&mut self, key: OperationKey) -> Option<&mut Entry> {
        self.entries.get_mut(&key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes an operation out of wherever it stands.
    pub(super) fn remove(&mut self, key: OperationKey) -> Option<Entry> {
        self.unqueue(key);
        let entry = self.entries.remove(&key)?;
        self.deadlines.remove(&(entry.operation.deadline, key));
        let live = &mut self.live[entry.operation.lane.index()];
        *live = live.saturating_sub(1);
        if self.entries.is_empty() {
            // An idle mailbox owns no heap.
            self.entries = KeyMap::default();
        }
        Some(entry)
    }

    /// Puts an operation into its lane.
    pub(super) fn queue(&mut self, key: OperationKey, dominant: u64, end: End) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.step = Step::Queued;
        let (lane, operation) = (entry.operation.lane.index(), &entry.operation);
        let item = Queued { key, tenant: operation.tenant.clone(), dominant, submitted_at: operation.submitted_at };
        self.queued_cost[lane].add(&operation.cost);
        match end {
            End::Head => self.lanes[lane].push_front(item),
            End::Tail => self.lanes[lane].push_back(item),
        }
    }

    /// Puts an operation that was picked and not sent back to the head, with its fair share.
    pub(super) fn requeue_unsent(&mut self, key: OperationKey, dominant: u64) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.step = Step::Queued;
        let (lane, operation) = (entry.operation.lane.index(), &entry.operation);
        self.queued_cost[lane].add(&operation.cost);
        self.lanes[lane].return_unsent(Queued {
            key,
            tenant: operation.tenant.clone(),
            dominant,
            submitted_at: operation.submitted_at,
        });
    }

    /// Takes the picked operation out of its lane, charging its fair share.
    pub(super) fn take(&mut self, key: OperationKey) {
        let Some(entry) = self.entries.get(&key) else { return };
        let lane = entry.operation.lane.index();
        if self.lanes[lane].take(key).is_some() {
            self.queued_cost[lane].subtract(&entry.operation.cost);
        }
    }

    /// Takes an operation out of its lane or out of the due table.
    pub(super) fn unqueue(&mut self, key: OperationKey) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if entry.step == Step::Queued {
            let lane = entry.operation.lane.index();
            if self.lanes[lane].remove(key).is_some() {
                self.queued_cost[lane].subtract(&entry.operation.cost);
            }
        }
        let due_at = std::mem::replace(&mut entry.due_at, Timestamp::NEVER);
        if due_at != Timestamp::NEVER {
            self.due.remove(&(due_at, key));
        }
    }

    /// Lets an operation wait for `at`, standing at `step` meanwhile.
    pub(super) fn delay(&mut self, key: OperationKey, at: Timestamp, step: Step) {
        self.unqueue(key);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.step = step;
            entry.due_at = at;
            if at != Timestamp::NEVER {
                self.due.insert((at, key));
            }
        }
    }

    /// The next operation whose own instant has come; it is out of the due table afterwards.
    pub(super) fn pop_due(&mut self, now: Timestamp) -> Option<OperationKey> {
        let (at, key) = *self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, key));
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.due_at = Timestamp::NEVER;
        }
        Some(key)
    }

    /// The next operation whose deadline has come; it is out of the deadline table afterwards.
    pub(super) fn pop_deadline(&mut self, now: Timestamp) -> Option<OperationKey> {
        let first = *self.deadlines.first().filter(|(at, _)| *at <= now)?;
        self.deadlines.remove(&first);
        Some(first.1)
    }

    /// The earliest instant at which something here is due by itself.
    pub(super) fn next_instant(&self) -> Option<Timestamp> {
        let first = |set: &BTreeSet<(Timestamp, OperationKey)>| set.first().map(|(at, _)| *at);
        [first(&self.due), first(&self.deadlines)].into_iter().flatten().min()
    }

    pub(super) fn lane(&self, lane: Lane) -> &LaneQueue {
        &self.lanes[lane.index()]
    }

    /// The next operation of a lane that `usable` says yes to; it stays where it is.
    pub(super) fn peek(
        &mut self,
        lane: Lane,
        mut usable: impl FnMut(&Queued, &Entry) -> Usable,
    ) -> Option<OperationKey> {
        let entries = &self.entries;
        self.lanes[lane.index()]
            .peek(|item| entries.get(&item.key).map_or(Usable::SkipOperation, |entry| usable(item, entry)))
    }

    pub(super) fn queued_cost(&self, lane: Lane) -> &CostSum {
        &self.queued_cost[lane.index()]
    }

    /// Every operation, in no order that means anything.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&OperationKey, &Entry)> {
        self.entries.iter()
    }

    /// What waits for an instant of its own, the earliest first.
    pub(super) fn due(&self) -> impl Iterator<Item = &Entry> {
        self.due.iter().filter_map(|(_, key)| self.entries.get(key))
    }

    /// Every operation, in order of admission. For steering and facts, never on the way of a send.
    pub(super) fn keys(&self) -> Vec<OperationKey> {
        let mut keys: Vec<_> = self.entries.keys().copied().collect();
        keys.sort_unstable();
        keys
    }

    /// Puts operations back into their lanes in order of admission, among those that are there.
    pub(super) fn requeue_in_order(&mut self, freed: &[OperationKey], dominant: impl Fn(&Entry) -> u64) {
        let mut keys: Vec<_> = freed.to_vec();
        for lane in &mut self.lanes {
            let here: Vec<_> = lane.iter().map(|item| item.key).collect();
            for key in &here {
                lane.remove(*key);
            }
            keys.extend(here);
        }
        self.queued_cost = [CostSum::default(); 2];
        keys.sort_unstable();
        for key in keys {
            let share = self.entries.get(&key).map_or(1, &dominant);
            self.queue(key, share, End::Tail);
        }
    }
}
