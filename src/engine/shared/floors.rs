//! What keeps background alive at the shared scopes while foreground of all mailboxes uses everything (algorithms 2.2).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Claimant, Shared};
use crate::engine::budget::{Budget, Grant, Rules};
use crate::engine::cost::Cost;
use crate::engine::lane::Lane;
use crate::engine::lanes::Floor;
use crate::engine::operation::OperationKey;
use crate::engine::time::Timestamp;

/// The floors of the application and of tenants that have limits and foreground.
#[derive(Clone, Debug, Default)]
pub(super) struct Floors {
    pub(super) application: Floor,
    tenants: BTreeMap<Arc<str>, Floor>,
}

impl Floors {
    /// Something was granted at the application, and at its tenant where that has limits.
    pub(super) fn on_grant(&mut self, now: Timestamp, lane: Lane, charged: Option<&Arc<str>>, grant: Grant) {
        let note = |floor: &mut Floor| match grant {
            Grant::Ordinary => floor.on_grant(now, lane),
            Grant::Floor => floor.on_floor_grant(),
        };
        note(&mut self.application);
        match charged {
            Some(tenant) if lane == Lane::Foreground => {
                note(self.tenants.entry(Arc::clone(tenant)).or_default());
            }
            Some(tenant) => drop(self.tenants.get_mut(tenant).map(note)),
            None => {}
        }
    }

    /// No foreground waits anywhere.
    pub(super) fn on_foreground_idle(&mut self) {
        self.application.on_foreground_idle();
        self.tenants.values_mut().for_each(Floor::on_foreground_idle);
    }

    /// Foreground waits: that of these tenants.
    pub(super) fn on_foreground_backlog(&mut self, now: Timestamp, of: &BTreeSet<Arc<str>>) {
        for (tenant, floor) in &mut self.tenants {
            if of.contains(tenant) {
                floor.on_foreground_backlog(now);
            } else {
                floor.on_foreground_idle();
            }
        }
    }

    /// The tenant's budget is gone.
    pub(super) fn forget(&mut self, tenant: &Arc<str>) {
        self.tenants.remove(tenant);
    }

    /// When a tenant's floor lets a background claimant pass that its tenant makes wait; `None`: it is not due.
    pub(super) fn passes_at(
        &self,
        now: Timestamp,
        (tenant, budget): (&Arc<str>, &Budget),
        cost: &Cost,
        foreground: Contest,
        rules: Rules<'_>,
    ) -> Option<Timestamp> {
        let floor = self.tenants.get(tenant)?;
        is_due(floor, now, budget, cost, foreground, rules).then(|| passes_at(now, budget, cost, rules))
    }
}

/// Whether foreground of the same scope waits beside background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contest {
    Waits,
    Silent,
}

fn passes_at(now: Timestamp, budget: &Budget, cost: &Cost, rules: Rules<'_>) -> Timestamp {
    budget.wait(now, Lane::Background, cost, Grant::Floor, rules).map_or(now, |wait| wait.until)
}

fn is_due(floor: &Floor, now: Timestamp, budget: &Budget, cost: &Cost, foreground: Contest, rules: Rules<'_>) -> bool {
    let window = budget.window_min();
    match foreground {
        Contest::Waits => floor.due(now, rules.lanes, window),
        Contest::Silent => floor.due_alone(now, rules.lanes, window) && budget.is_foregrounds(now, cost, rules),
    }
}

impl Shared {
    /// Foreground alone has used the application for longer than its shortest window: one of background goes first.
    pub(super) fn floor_pick(&mut self, now: Timestamp) -> Option<OperationKey> {
        let window = self.application.window_min();
        let contested = self.lanes.iter().all(|lane| !lane.is_empty());
        if !contested || !self.floors.application.due(now, &self.policy.lanes, window) {
            return None;
        }
        let (key, _) = self.peek(now, Lane::Background)?;
        let rules = Rules::from(&*self.policy);
        let cost = self.waiting.get(&key)?.cost;
        let goes = self.application.wait(now, Lane::Background, &cost, Grant::Floor, rules).is_none();
        (goes && self.application_turn(now).is_none()).then_some(key)
    }

    /// When the application's floor lets a background claimant pass while no foreground could go; `None`: it is not due.
    pub(super) fn floor_at(&self, now: Timestamp, claimant: &Claimant) -> Option<Timestamp> {
        let rules = Rules::from(&*self.policy);
        let (floor, budget, cost) = (&self.floors.application, &self.application, &claimant.cost);
        let due = claimant.lane == Lane::Background && is_due(floor, now, budget, cost, Contest::Silent, rules);
        due.then(|| passes_at(now, budget, cost, rules))
    }
}
