//! The operations of one mailbox: where they are, in which lane, and when they are due.
//!
//! A heap of deadlines and an ordered table of due instants stand in for timers, so the shell arms a single timer and
//! ties always break the same way. The whole of it lies in one block that an idle mailbox does without.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::deadlines::Deadlines;
use super::entry::{Entry, Step};
use super::names::Names;
use super::slab::Slab;
use super::standing::Standing;
use crate::engine::cost::{Cost, CostSum};
use crate::engine::lane::Lane;
use crate::engine::lanes::{Links, NIL, Order, Usable};
use crate::engine::operation::{Operation, OperationKey};
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
    here: Option<Box<Here>>,
}

/// What a mailbox with operations has.
#[derive(Clone, Debug)]
struct Here {
    slab: Slab,
    names: Names,
    lanes: [Order; 2],
    queued_cost: [CostSum; 2],
    /// What each of a lane's queue costs, while they all cost the same.
    same_cost: [Option<Cost>; 2],
    /// Operations here per lane, wherever they stand.
    live: [u32; 2],
    due: BTreeSet<(Timestamp, OperationKey)>,
    deadlines: Deadlines,
    /// What the first of those that wait is known to wait for.
    standing: Option<Standing>,
}

impl Here {
    fn new() -> Self {
        Self {
            slab: Slab::new(),
            names: Names::default(),
            lanes: [Order::new(), Order::new()],
            queued_cost: [CostSum::default(); 2],
            same_cost: [None; 2],
            live: [0; 2],
            due: BTreeSet::new(),
            deadlines: Deadlines::default(),
            standing: None,
        }
    }
}

impl Table {
    /// Takes an operation in; it stands nowhere yet.
    pub(super) fn insert(&mut self, operation: &Operation) {
        let here = self.here.get_or_insert_with(|| Box::new(Here::new()));
        let names = here.names.enter([operation.tenant.as_ref(), operation.campaign.as_ref()]);
        let slot = here.slab.insert(Entry::new(operation, names));
        if operation.deadline != Timestamp::NEVER {
            here.deadlines.insert(&mut here.slab, slot);
        }
        here.live[operation.lane.index()] += 1;
    }

    /// Takes in a copy of an operation of another table, standing nowhere yet.
    pub(super) fn insert_copy(&mut self, of: &Self, entry: &Entry) {
        let here = self.here.get_or_insert_with(|| Box::new(Here::new()));
        let names = here.names.enter([of.tenant(entry), of.campaign(entry)]);
        here.live[entry.lane.index()] += 1;
        let mut copy = entry.clone();
        (copy.names, copy.deadline_at) = (names, NIL);
        let slot = here.slab.insert(copy);
        if entry.deadline != Timestamp::NEVER {
            here.deadlines.insert(&mut here.slab, slot);
        }
    }

    /// Gives the room of an empty table back.
    pub(super) fn rest(&mut self) {
        if self.is_empty() {
            self.here = None;
        }
    }

    /// The pump's last answer, while it stands.
    #[inline]
    pub(super) fn standing(&self) -> Option<&Standing> {
        self.here.as_deref()?.standing.as_ref()
    }

    #[inline]
    pub(super) fn set_standing(&mut self, standing: Option<Standing>) {
        if let Some(here) = self.here.as_deref_mut() {
            here.standing = standing;
        }
    }

    /// How many operations of a lane are here, wherever they stand.
    pub(super) fn live(&self, lane: Lane) -> u32 {
        self.here.as_ref().map_or(0, |here| here.live[lane.index()])
    }

    #[inline]
    pub(super) fn get(&self, key: OperationKey) -> Option<&Entry> {
        let here = self.here.as_deref()?;
        here.slab.find(key).map(|slot| here.slab.get(slot))
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: OperationKey) -> Option<&mut Entry> {
        let here = self.here.as_deref_mut()?;
        here.slab.turn_to(key).map(|slot| here.slab.get_mut(slot))
    }

    pub(super) fn tenant(&self, entry: &Entry) -> Option<&Arc<str>> {
        self.here.as_deref()?.names.tenant(entry.names)
    }

    pub(super) fn campaign(&self, entry: &Entry) -> Option<&Arc<str>> {
        self.here.as_deref()?.names.campaign(entry.names)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.here.as_ref().is_none_or(|here| here.slab.is_empty())
    }

    /// Takes an operation out of wherever it stands.
    pub(super) fn remove(&mut self, key: OperationKey) {
        let Some(here) = self.here.as_deref_mut() else { return };
        let Some(slot) = here.slab.turn_to(key) else { return };
        here.unqueue(slot);
        here.deadlines.remove(&mut here.slab, slot);
        let entry = here.slab.get(slot);
        let live = &mut here.live[entry.lane.index()];
        *live = live.saturating_sub(1);
        here.names.leave(entry.names);
        here.slab.remove(slot);
    }

    /// Puts an operation into its lane.
    pub(super) fn queue(&mut self, key: OperationKey, dominant: u64, end: End) {
        let Some(here) = self.here.as_deref_mut() else { return };
        let Some(slot) = here.slab.turn_to(key) else { return };
        here.enter(
            slot,
            dominant,
            match end {
                End::Head => Order::push_front,
                End::Tail => Order::push_back,
            },
        );
    }

    /// Puts an operation that was picked and not sent back to the head, with its fair share.
    pub(super) fn requeue_unsent(&mut self, key: OperationKey, dominant: u64) {
        let Some(here) = self.here.as_deref_mut() else { return };
        let Some(slot) = here.slab.turn_to(key) else { return };
        here.enter(slot, dominant, Order::return_unsent);
    }

    /// Takes the picked operation out of its lane, charging its fair share; it stands at `step` now.
    pub(super) fn take(&mut self, key: OperationKey, step: Step) -> Option<&mut Entry> {
        let here = self.here.as_deref_mut()?;
        let slot = here.slab.find(key)?;
        if matches!(here.slab.get(slot).step, Step::Queued(_)) {
            here.leave_lane(slot, Order::take);
        }
        let entry = here.slab.get_mut(slot);
        entry.step = step;
        Some(entry)
    }

    /// Takes an operation out of its lane or out of the due table.
    pub(super) fn unqueue(&mut self, key: OperationKey) {
        let Some(here) = self.here.as_deref_mut() else { return };
        if let Some(slot) = here.slab.find(key) {
            here.unqueue(slot);
        }
    }

    /// Lets an operation stand at `step`, in the due table if that has an instant.
    pub(super) fn delay(&mut self, key: OperationKey, step: Step) {
        let Some(here) = self.here.as_deref_mut() else { return };
        let Some(slot) = here.slab.turn_to(key) else { return };
        here.unqueue(slot);
        here.slab.get_mut(slot).step = step;
        if let Some(at) = step.due_at() {
            here.due.insert((at, key));
        }
    }

    /// The next operation whose own instant has come; it is out of the due table afterwards.
    pub(super) fn pop_due(&mut self, now: Timestamp) -> Option<OperationKey> {
        let here = self.here.as_deref_mut()?;
        let (at, key) = *here.due.first().filter(|(at, _)| *at <= now)?;
        here.due.remove(&(at, key));
        if let Some(slot) = here.slab.find(key) {
            here.slab.get_mut(slot).step.set_due(Timestamp::NEVER);
        }
        Some(key)
    }

    /// The next operation whose deadline has come; it is out of the deadlines afterwards.
    pub(super) fn pop_deadline(&mut self, now: Timestamp) -> Option<OperationKey> {
        let here = self.here.as_deref_mut()?;
        let (_, slot) = here.deadlines.first(&here.slab).filter(|(at, _)| *at <= now)?;
        here.deadlines.remove(&mut here.slab, slot);
        Some(here.slab.get(slot).key)
    }

    /// The earliest instant at which something here is due by itself; [`Timestamp::NEVER`]: none.
    pub(super) fn next_instant(&self) -> Timestamp {
        let Some(here) = self.here.as_deref() else { return Timestamp::NEVER };
        let due = here.due.first().map_or(Timestamp::NEVER, |(at, _)| *at);
        here.deadlines.first_at().min(due)
    }

    /// How many wait in their lanes.
    pub(super) fn waiting_count(&self) -> u32 {
        self.here.as_ref().map_or(0, |here| here.lanes[0].len().saturating_add(here.lanes[1].len()))
    }

    /// How many wait in a lane.
    pub(super) fn queued(&self, lane: Lane) -> u32 {
        self.here.as_ref().map_or(0, |here| here.lanes[lane.index()].len())
    }

    /// Everything that waits in a lane: tenants by turn, each first in first out.
    pub(super) fn lane(&self, lane: Lane) -> impl Iterator<Item = &Entry> {
        self.here
            .as_deref()
            .into_iter()
            .flat_map(move |here| here.lanes[lane.index()].iter(&here.slab).map(|slot| here.slab.get(slot)))
    }

    /// When the oldest of a lane's heads was submitted.
    pub(super) fn oldest(&self, lane: Lane) -> Option<Timestamp> {
        let here = self.here.as_deref()?;
        here.lanes[lane.index()].oldest(&here.slab)
    }

    /// The next operation of a lane that `usable` says yes to, by itself and its tenant; it stays where it is.
    pub(super) fn peek(
        &mut self,
        lane: Lane,
        bypass_max: u32,
        mut usable: impl FnMut(&Entry, Option<&Arc<str>>) -> Usable,
    ) -> Option<OperationKey> {
        let Here { lanes, slab, .. } = self.here.as_deref_mut()?;
        let bypass_max = u8::try_from(bypass_max).unwrap_or(u8::MAX);
        let slot = lanes[lane.index()].peek(slab, bypass_max, |slot, tenant| usable(slab.get(slot), tenant))?;
        let key = slab.key(slot);
        slab.turn_to_slot(key, slot);
        Some(key)
    }

    /// What each that waits in a lane costs, if they are known to cost the same.
    pub(super) fn first_cost(&self, lane: Lane) -> Option<&Cost> {
        self.here.as_ref()?.same_cost[lane.index()].as_ref()
    }

    /// Forgets which operation of a lane was looked at last: it is not the one to be taken.
    pub(super) fn pass_over(&mut self, lane: Lane) {
        if let Some(here) = self.here.as_deref_mut() {
            here.lanes[lane.index()].pass_over();
        }
    }

    pub(super) fn queued_cost(&self, lane: Lane) -> CostSum {
        self.here.as_ref().map_or(CostSum::default(), |here| here.queued_cost[lane.index()])
    }

    /// Every operation, in order of admission. For steering and facts, never on the way of a send.
    pub(super) fn keys(&self) -> Vec<OperationKey> {
        let mut keys: Vec<_> = self.entries().map(|entry| entry.key).collect();
        keys.sort_unstable();
        keys
    }

    /// Every operation, in no order that means anything.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.here.iter().flat_map(|here| here.slab.iter())
    }

    /// What waits for an instant of its own, the earliest first.
    pub(super) fn due(&self) -> impl Iterator<Item = &Entry> {
        let here = self.here.iter();
        here.flat_map(|here| here.due.iter()).filter_map(|(_, key)| self.get(*key))
    }

    /// Puts operations back into their lanes in order of admission, among those that are there.
    pub(super) fn requeue_in_order(&mut self, freed: &[OperationKey], dominant: impl Fn(&Entry) -> u64) {
        let mut keys: Vec<_> = freed.to_vec();
        let queued: Vec<_> = Lane::ALL.into_iter().flat_map(|lane| self.lane(lane)).map(|entry| entry.key).collect();
        for key in &queued {
            self.unqueue(*key);
        }
        keys.extend(queued);
        keys.sort_unstable();
        for key in keys {
            let share = self.get(key).map_or(1, &dominant);
            self.queue(key, share, End::Tail);
        }
    }
}

impl Here {
    fn enter(
        &mut self,
        slot: u32,
        dominant: u64,
        how: impl FnOnce(&mut Order, &mut Slab, u32, Option<&Arc<str>>, u64),
    ) {
        let entry = self.slab.get(slot);
        debug_assert!(entry.step.due_at().is_none(), "it is in the due table");
        debug_assert!(!matches!(entry.step, Step::Queued(_)), "it waits already");
        let (lane, names, cost) = (entry.lane.index(), entry.names, entry.cost());
        self.queued_cost[lane].add(&cost);
        if self.lanes[lane].len() == 0 {
            self.same_cost[lane] = Some(cost);
        } else if self.same_cost[lane] != Some(cost) {
            self.same_cost[lane] = None; // until the lane is empty again
        }
        how(&mut self.lanes[lane], &mut self.slab, slot, self.names.tenant(names), dominant);
    }

    fn leave_lane(&mut self, slot: u32, how: impl FnOnce(&mut Order, &mut Slab, u32)) {
        let entry = self.slab.get(slot);
        let (lane, cost) = (entry.lane.index(), entry.cost());
        self.queued_cost[lane].subtract(&cost);
        how(&mut self.lanes[lane], &mut self.slab, slot);
    }

    fn unqueue(&mut self, slot: u32) {
        let entry = self.slab.get_mut(slot);
        if matches!(entry.step, Step::Queued(_)) {
            self.leave_lane(slot, Order::remove);
            self.slab.get_mut(slot).step = Step::Held;
        } else if let Some(at) = entry.step.due_at() {
            entry.step.set_due(Timestamp::NEVER);
            let key = entry.key;
            self.due.remove(&(at, key));
        }
    }
}
