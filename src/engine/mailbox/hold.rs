//! Operators' holds: of the whole mailbox, and of single operations by what they are.
//!
//! The hold of the whole mailbox stops its sends and is the budget's. Every other one stops operations: each stands
//! aside until no hold covers it. So does a hold of anything that is lifted in part, because there some operations of
//! a mailbox go and others stay.

use std::collections::VecDeque;
use std::sync::Arc;

use super::entry::{Entry, Step};
use super::table::Table;
use super::{Effect, Mailbox};
use crate::engine::event::{Event, TripReason};
use crate::engine::operation::{OperationKey, Transition};
use crate::engine::scope::{Scope, ScopeKind};
use crate::engine::time::Timestamp;
use crate::engine::verdict::{Answer, Verdict};

/// What an operator can stop within one mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldTarget {
    /// All of every mailbox: here only when it is lifted in part. The whole is the shared scopes' to hold.
    All,
    /// All of it.
    Mailbox,
    /// One tenant's operations.
    Tenant(Arc<str>),
    /// One campaign's operations.
    Campaign(Arc<str>),
    /// One operation.
    Operation(OperationKey),
}

/// An operator's hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// What it stops.
    pub target: HoldTarget,
    /// When it ends by itself.
    pub until: Timestamp,
    /// What of that goes on all the same.
    pub pass: Pass,
}

/// What a hold lets go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Nothing.
    Nothing,
    /// What was submitted up to this operation: the first part of what was held.
    Through(OperationKey),
}

/// A hold of operations that is in force.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) hold: Hold,
    /// Of those that it lets pass, what still waited when this was last looked at: oldest first. Their number is at
    /// most that of those that wait, and zero when none does.
    first: VecDeque<OperationKey>,
    /// What was last told of that.
    told: Option<usize>,
}

impl Hold {
    /// A hold that lets nothing pass.
    #[must_use]
    pub const fn new(target: HoldTarget, until: Timestamp) -> Self {
        Self { target, until, pass: Pass::Nothing }
    }

    /// Whether it stops an operation of `table`. The whole mailbox's hold is the budget's and stops sends, not single
    /// operations.
    pub(super) fn stops(&self, table: &Table, entry: &Entry) -> bool {
        let passes = matches!(self.pass, Pass::Through(key) if entry.key <= key);
        !passes && self.target.covers(table, entry)
    }
}

impl HoldTarget {
    fn covers(&self, table: &Table, entry: &Entry) -> bool {
        match self {
            Self::All | Self::Mailbox => true,
            Self::Tenant(tenant) => table.tenant(entry) == Some(tenant),
            Self::Campaign(campaign) => table.campaign(entry) == Some(campaign),
            Self::Operation(key) => entry.key == *key,
        }
    }
}

impl Mailbox {
    pub(super) fn hold(&mut self, hold: Hold) {
        self.holds.retain(|held| held.hold.target != hold.target);
        match (&hold.target, hold.pass) {
            (HoldTarget::Mailbox, Pass::Nothing) => self.budget.hold(hold.until),
            (HoldTarget::Mailbox, Pass::Through(_)) => {
                self.budget.resume();
                self.hold_operations(hold);
            }
            _ => self.hold_operations(hold),
        }
        self.free_held();
    }

    fn hold_operations(&mut self, hold: Hold) {
        for key in self.table.keys() {
            let Some(entry) = self.table.get(key) else { continue };
            if hold.stops(&self.table, entry) {
                self.stand_aside(key);
            }
        }
        let first = self.first_of(&hold);
        self.holds.push(Held { hold, first, told: None });
    }

    /// Takes one that could go out of its lane until nothing keeps it.
    pub(super) fn stand_aside(&mut self, key: OperationKey) {
        match self.table.get(key).map(|entry| entry.step) {
            Some(Step::Queued(_)) => self.table.delay(key, Step::Held),
            Some(Step::Waiting) => {
                self.give_back_shared(key);
                self.table.delay(key, Step::Held);
            }
            // Delayed ones meet what keeps them when they are due; live attempts end by themselves.
            _ => {}
        }
    }

    /// Those that a hold lets pass and that wait now, oldest first. What waits for an instant that its sender named is
    /// not held up by anybody.
    fn first_of(&self, hold: &Hold) -> VecDeque<OperationKey> {
        let Pass::Through(through) = hold.pass else { return VecDeque::new() };
        let mut first: Vec<_> = self
            .table
            .entries()
            .filter(|entry| entry.key <= through && hold.target.covers(&self.table, entry))
            .filter(|entry| waits(entry.step) && entry.not_before() <= self.now)
            .map(|entry| entry.key)
            .collect();
        first.sort_unstable();
        first.into()
    }

    pub(super) fn resume(&mut self, target: &HoldTarget) {
        if *target == HoldTarget::Mailbox {
            self.budget.resume();
        }
        self.holds.retain(|held| held.hold.target != *target);
        self.free_held();
    }

    pub(super) fn expire_holds(&mut self, now: Timestamp) {
        if self.holds.iter().any(|held| held.hold.until <= now) {
            self.stirred = true;
            self.holds.retain(|held| held.hold.until > now);
            self.free_held();
        }
    }

    /// Whether some hold covers it, or it is left to another owner.
    pub(super) fn is_held(&self, entry: &Entry) -> bool {
        self.holds.iter().any(|held| held.hold.stops(&self.table, entry))
            || self.withheld_until(self.now, entry).is_some()
    }

    /// Whether some hold covers one that the shared scopes are asked for.
    pub(super) fn is_key_held(&self, key: OperationKey) -> bool {
        let stops = |entry: &Entry| self.holds.iter().any(|held| held.hold.stops(&self.table, entry));
        !self.holds.is_empty() && self.table.get(key).is_some_and(stops)
    }

    /// Operations that no hold covers any more go back to their places in order of admission.
    pub(super) fn free_held(&mut self) {
        let is_free = |key: &OperationKey| {
            self.table.get(*key).is_some_and(|entry| entry.step == Step::Held && !self.is_held(entry))
        };
        let freed: Vec<_> = self.table.keys().into_iter().filter(is_free).collect();
        if freed.is_empty() {
            return;
        }
        let budget = &self.budget;
        self.table.requeue_in_order(&freed, |entry| budget.dominant(&entry.cost()));
        if freed.len() > 1 {
            self.budget.was_held();
        }
    }

    /// Looks anew for what waits of those that pass: the table is another one.
    pub(super) fn recount_passing(&mut self) {
        for at in 0..self.holds.len() {
            let first = self.first_of(&self.holds[at].hold);
            (self.holds[at].first, self.holds[at].told) = (first, None);
        }
    }

    /// Tells how many of those that a hold lets pass still wait, when that has changed.
    pub(super) fn tell_passing(&mut self) {
        for held in &mut self.holds {
            let Pass::Through(through) = held.hold.pass else { continue };
            let table = &self.table;
            let gone = |key: &OperationKey| !table.get(*key).is_some_and(|entry| waits(entry.step));
            while held.first.front().is_some_and(gone) {
                held.first.pop_front();
            }
            if held.told != Some(held.first.len()) {
                held.told = Some(held.first.len());
                let (target, left) = (held.hold.target.clone(), held.first.len() as u64);
                self.effects.push_back(Effect::Passing { target, through, left });
            }
        }
    }

    /// Tells of one that a hold lets pass and that ended badly: whoever watches all mailboxes counts them.
    pub(super) fn tell_failed(&mut self, key: OperationKey, transition: Transition) {
        if self.holds.is_empty() || !ends_badly(transition) {
            return;
        }
        let Some(entry) = self.table.get(key) else { return };
        for held in &self.holds {
            let Pass::Through(through) = held.hold.pass else { continue };
            if key <= through && held.hold.target.covers(&self.table, entry) {
                self.effects.push_back(Effect::Failed { target: held.hold.target.clone(), through, key });
            }
        }
    }

    /// An answer, settled a moment ago: a throttle, or a breaker that it opened, stops what a hold lets pass.
    pub(super) fn watch(&mut self, key: OperationKey, answer: &Answer) {
        if self.holds.is_empty() {
            return;
        }
        let own = self.budget.scope().clone();
        let opened = self.events.iter().find_map(trouble);
        let found = match (&answer.verdict, opened) {
            (Verdict::Throttled(throttle), _) => {
                let tenant = || self.table.get(key).and_then(|entry| self.table.tenant(entry)).cloned();
                let scope = match throttle.scope {
                    None | Some(ScopeKind::Mailbox) => own,
                    Some(ScopeKind::Tenant) => tenant().map_or(Scope::Application, Scope::Tenant),
                    Some(ScopeKind::Application) => Scope::Application,
                };
                Some((scope, TripReason::Sustained429))
            }
            (_, opened) => opened.map(|reason| (own, reason)),
        };
        if let Some((scope, reason)) = found {
            self.stop_passing(&scope, reason);
        }
    }

    /// A scope was throttled, or fails: where that concerns a hold, nothing passes it any more.
    pub(super) fn stop_passing(&mut self, scope: &Scope, reason: TripReason) {
        let passing = |held: &&Held| held.hold.pass != Pass::Nothing && self.concerns(&held.hold.target, scope);
        let stopped: Vec<Hold> = self.holds.iter().filter(passing).map(|held| held.hold.clone()).collect();
        for hold in stopped {
            if let (target, Pass::Through(through)) = (hold.target.clone(), hold.pass) {
                self.effects.push_back(Effect::Troubled { target, through, scope: scope.clone(), reason });
            }
            self.hold(Hold { pass: Pass::Nothing, ..hold });
        }
    }

    /// Whether what a hold stops goes by a scope, as far as this mailbox knows.
    fn concerns(&self, target: &HoldTarget, scope: &Scope) -> bool {
        let here = |of: Option<&Arc<str>>| {
            let is_here =
                |entry: &Entry| target.covers(&self.table, entry) && (of.is_none() || self.table.tenant(entry) == of);
            self.table.entries().any(is_here)
        };
        match (target, scope) {
            (HoldTarget::All, _) | (HoldTarget::Mailbox, Scope::Mailbox(_) | Scope::Application) => true,
            (HoldTarget::Tenant(tenant), Scope::Tenant(other)) if tenant == other => true,
            (_, Scope::Tenant(tenant)) => here(Some(tenant)),
            (_, Scope::Mailbox(_) | Scope::Application) => here(None),
        }
    }
}

/// Whether an operation has not had its answer yet, be it that nothing was sent.
const fn waits(step: Step) -> bool {
    match step {
        Step::Delayed { .. }
        | Step::Queued(_)
        | Step::Held
        | Step::Reserving { .. }
        | Step::Waiting
        | Step::Claiming { .. }
        | Step::Attempting { .. } => true,
        Step::Free { .. } | Step::Unknown { .. } => false,
    }
}

/// Whether the rest of a part should not follow one that took this step. A person's order says nothing of the others, and
/// an unknown has counted when it became one.
const fn ends_badly(transition: Transition) -> bool {
    match transition {
        Transition::Reject | Transition::Lose | Transition::Exhaust | Transition::Poison => true,
        Transition::Enqueue
        | Transition::Claim
        | Transition::Accept
        | Transition::Throttle
        | Transition::Retry
        | Transition::Void
        | Transition::Find
        | Transition::Repeat
        | Transition::GiveUp
        | Transition::Suspend
        | Transition::Expire
        | Transition::Cancel
        | Transition::Release
        | Transition::Discard
        | Transition::Quarantine => false,
    }
}

/// Whether an event says that a provider throttles or fails, and which of them. A person's trip does not.
pub(in crate::engine) fn trouble(event: &Event) -> Option<TripReason> {
    match event {
        Event::BreakerOpened { reason, .. } | Event::BreakerExtended { reason, .. } => {
            Some(*reason).filter(|reason| *reason != TripReason::Manual)
        }
        _ => None,
    }
}
