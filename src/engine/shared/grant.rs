//! Who waits, who goes next, and what is told to those that wait.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use super::election::Vote;
use super::floors::Contest;
use super::{Asker, Claimant, Effect, Input, MailboxKey, Shared};
use crate::engine::budget::{Budget, Grant, Rules, Wait};
use crate::engine::constraint::{Certainty, Constraint, Wall};
use crate::engine::cost::CostSum;
use crate::engine::event::Event;
use crate::engine::lane::Lane;
use crate::engine::lanes::{Queued, Usable};
use crate::engine::operation::{KeyMap, OperationKey};
use crate::engine::scope::{Scope, ScopeKind};
use crate::engine::time::Timestamp;

impl Shared {
    pub(super) fn take(&mut self, now: Timestamp, input: Input) {
        match input {
            Input::Reserve { asker, lane, tenant, cost } => {
                self.reserve(now, Claimant { asker, lane, tenant, cost, since: now, charged: None });
            }
            Input::Return { asker } => self.give_back(now, asker),
            Input::Settle { asker, tenant, sent_at, answer } => self.settle(now, asker, tenant, sent_at, &answer),
            Input::MailboxGone(mailbox) => self.mailbox_gone(now, mailbox),
            Input::Trip { scope, until } => {
                self.change_breaker(&scope, |budget, waiting, events| budget.trip(now, until, waiting, events));
                self.watch(now, &scope);
            }
            Input::Cooled { scope, until } => {
                self.change_breaker(&scope, |budget, waiting, events| {
                    budget.merge_cooldown(now, until, waiting, events);
                });
                self.watch(now, &scope);
            }
            Input::Elected { scope, ballot } => self.elected(&scope, ballot),
            Input::CloseBreaker(scope) => {
                self.change_breaker(&scope, |budget, _waiting, events| budget.close_breaker(now, events));
            }
            Input::Hold { scope, until } => {
                if let Some(budget) = self.budget_mut(&scope) {
                    budget.hold(until);
                }
                self.watch(now, &scope);
            }
            Input::Resume(scope) => {
                if let Some(budget) = self.budget_mut(&scope) {
                    budget.resume();
                }
            }
            Input::Reconfigure(policy) => self.reconfigure(now, policy),
            Input::Wake => {}
        }
    }

    fn change_breaker(&mut self, scope: &Scope, change: impl FnOnce(&mut Budget, u32, &mut Vec<Event>)) {
        let waiting = self.waiting_count();
        let mut events = std::mem::take(&mut self.events);
        if let Some(budget) = self.budget_mut(scope) {
            change(budget, waiting, &mut events);
        }
        self.events = events;
    }

    pub(super) fn budget_mut(&mut self, scope: &Scope) -> Option<&mut Budget> {
        match scope {
            Scope::Application => Some(&mut self.application),
            Scope::Tenant(tenant) => Some(self.tenant_mut(tenant)),
            Scope::Mailbox(_) => None,
        }
    }

    pub(super) fn watch(&mut self, now: Timestamp, scope: &Scope) {
        if let Scope::Tenant(tenant) = scope {
            self.after_change(now, Some(tenant));
        }
    }

    /// A tenant's budget; made when it is first needed.
    pub(super) fn tenant_mut(&mut self, tenant: &Arc<str>) -> &mut Budget {
        let limits = &self.policy.tenant;
        self.tenants.entry(Arc::clone(tenant)).or_insert_with(|| Budget::new(Scope::Tenant(Arc::clone(tenant)), limits))
    }

    fn reserve(&mut self, now: Timestamp, claimant: Claimant) {
        let (key, lane) = (claimant.asker.key, claimant.lane);
        if self.waiting.contains_key(&key) || self.granted.contains_key(&key) {
            return; // asked twice: the first one stands
        }
        if super::check(&self.policy, claimant.tenant.as_ref(), &claimant.cost).is_err() {
            return self.effects.push_back(Effect::Deny(claimant.asker));
        }
        let policy = Arc::clone(&self.policy);
        if policy.limits_tenants()
            && let Some(tenant) = &claimant.tenant
        {
            self.tenant_mut(tenant);
        }
        if lane == Lane::Foreground {
            for budget in self.budgets_of_mut(claimant.tenant.as_ref()) {
                budget.on_foreground_arrival(now, &claimant.cost, Rules::from(&*policy));
            }
        }
        let dominant = self.application.dominant(&claimant.cost);
        let label = self.label(claimant.asker.mailbox, claimant.tenant.as_ref());
        self.lanes[lane.index()].push_back(Queued { key, tenant: Some(label), dominant, submitted_at: claimant.since });
        self.waiting.insert(key, claimant);
    }

    pub(super) fn budgets_of_mut(&mut self, tenant: Option<&Arc<str>>) -> impl Iterator<Item = &mut Budget> {
        let tenant = tenant.and_then(|tenant| self.tenants.get_mut(tenant));
        [&mut self.application].into_iter().chain(tenant)
    }

    pub(super) fn sweep(&mut self, now: Timestamp) {
        let waiting = self.waiting_count();
        let policy = Arc::clone(&self.policy);
        let rules = Rules::from(&*policy);
        if self.application.deadline().is_some_and(|at| at <= now) {
            self.application.wake(now, rules, waiting, &mut self.events);
        }
        for tenant in &self.alert {
            if let Some(budget) = self.tenants.get_mut(tenant)
                && budget.deadline().is_some_and(|at| at <= now)
            {
                budget.wake(now, rules, waiting, &mut self.events);
            }
        }
        self.remember(now);
        let tenants = &self.tenants;
        self.alert.retain(|tenant| {
            tenants.get(tenant).is_some_and(|budget| budget.is_troubled(now) || budget.deadline().is_some())
        });
    }

    /// What waited through a cooldown or a hold of the application or of a tenant goes on as a wave. A scope without a
    /// limit on requests has no pacer of its own, so there the wave is the pacer.
    pub(super) fn plan_waves(&mut self, now: Timestamp) {
        let policy = Arc::clone(&self.policy);
        let (rules, unpaced, waiting) = (Rules::from(&*policy), Some(policy.resume.spread), &self.waiting);
        let of = |tenant: Option<&Arc<str>>| {
            let (mut count, mut cost) = (0_u32, CostSum::default());
            let here = |claimant: &&Claimant| tenant.is_none() || claimant.tenant.as_ref() == tenant;
            for claimant in waiting.values().filter(here) {
                count = count.saturating_add(1);
                cost.add(&claimant.cost);
            }
            (count, cost, Lane::Background)
        };
        self.application.plan_wave(now, || of(None), unpaced, rules, &mut self.events);
        for tenant in &self.alert {
            if let Some(budget) = self.tenants.get_mut(tenant) {
                budget.plan_wave(now, || of(Some(tenant)), unpaced, rules, &mut self.events);
            }
        }
    }

    /// Grants everything that may go, foreground first.
    pub(super) fn pump(&mut self, now: Timestamp) {
        self.pump_at = Timestamp::NEVER;
        while let Some((key, grant)) = self.pick(now) {
            self.grant(now, key, grant);
        }
    }

    fn pick(&mut self, now: Timestamp) -> Option<(OperationKey, Grant)> {
        if let Some(key) = self.floor_pick(now) {
            return Some((key, Grant::Floor));
        }
        for lane in Lane::ALL {
            if self.lanes[lane.index()].is_empty() {
                if lane == Lane::Foreground {
                    self.floors.on_foreground_idle();
                }
                continue;
            }
            let found = self.peek(now, lane);
            if let Some((key, grant)) = found {
                let mut until = self.application_wait(now, key).map(|wait| wait.until);
                let claimant = until.and_then(|_| self.waiting.get(&key));
                let floor_at = claimant.and_then(|claimant| self.floor_at(now, claimant));
                let grant = match (until, floor_at) {
                    (Some(wait), Some(floor)) if floor < wait => {
                        until = Some(floor).filter(|at| *at > now);
                        Grant::Floor
                    }
                    _ => grant,
                };
                let Some(until) = until.or_else(|| self.application_turn(now)) else { return Some((key, grant)) };
                self.pump_at = self.pump_at.min(until);
            }
            if lane == Lane::Foreground {
                self.mark_contended(now);
                if found.is_some() {
                    self.floors.application.on_foreground_backlog(now);
                    return None; // strict priority: the application itself makes foreground wait
                }
            }
        }
        None
    }

    /// Foreground waits: the limits in its way are contended, here and at the tenants of those that wait.
    fn mark_contended(&mut self, now: Timestamp) {
        let mut tenants = BTreeSet::new();
        for claimant in self.waiting.values().filter(|claimant| claimant.lane == Lane::Foreground) {
            self.application.on_foreground_backlog(now, &claimant.cost);
            if let Some(budget) = claimant.tenant.as_ref().and_then(|tenant| self.tenants.get_mut(tenant)) {
                budget.on_foreground_backlog(now, &claimant.cost);
                tenants.extend(claimant.tenant.clone());
            }
        }
        self.floors.on_foreground_backlog(now, &tenants);
    }

    /// The next of a lane that only the application could still make wait, and by whose rule its tenant lets it pass. A
    /// tenant that is full holds up its own.
    pub(super) fn peek(&mut self, now: Timestamp, lane: Lane) -> Option<(OperationKey, Grant)> {
        let (waiting, tenants, rules) = (&self.waiting, &self.tenants, Rules::from(&*self.policy));
        let (floors, election) = (&self.floors, &self.election);
        let (mut next, mut unasked, mut by_floor) = (Timestamp::NEVER, Vec::new(), None);
        let foreground_of = |tenant: &Arc<str>| {
            waiting.values().any(|other| other.lane == Lane::Foreground && other.tenant.as_ref() == Some(tenant))
        };
        let key = self.lanes[lane.index()].peek(|item| {
            let Some(claimant) = waiting.get(&item.key) else { return Usable::SkipOperation };
            let Some(tenant) = &claimant.tenant else { return Usable::Yes };
            let Some(budget) = tenants.get(tenant) else { return Usable::Yes };
            let wait = budget.wait(now, lane, &claimant.cost, Grant::Ordinary, rules);
            let contest = match lane {
                Lane::Background if foreground_of(tenant) => Contest::Waits,
                _ => Contest::Silent,
            };
            if wait.is_some() || contest == Contest::Waits {
                let of = (tenant, budget);
                let floor = (lane == Lane::Background)
                    .then(|| floors.passes_at(now, of, &claimant.cost, contest, rules))
                    .flatten();
                if floor.is_none_or(|at| at > now) {
                    next = next.min(wait.map_or(Timestamp::NEVER, |wait| wait.until)).min(floor.unwrap_or(next));
                    return Usable::SkipOperation;
                }
                by_floor = Some(item.key);
            }
            match election.as_ref().map_or(Vote::Go, |election| election.vote(now, budget)) {
                Vote::Go => Usable::Yes,
                Vote::Wait(until) => {
                    next = next.min(until);
                    Usable::SkipOperation
                }
                Vote::Ask => {
                    unasked.push(Arc::clone(tenant));
                    Usable::SkipOperation
                }
            }
        });
        self.pump_at = self.pump_at.min(next);
        unasked.dedup();
        self.ask_turns(now, unasked);
        key.map(|key| (key, if by_floor == Some(key) { Grant::Floor } else { Grant::Ordinary }))
    }

    fn application_wait(&self, now: Timestamp, key: OperationKey) -> Option<Wait> {
        let claimant = self.waiting.get(&key)?;
        let rules = Rules::from(&*self.policy);
        self.application.wait(now, claimant.lane, &claimant.cost, Grant::Ordinary, rules)
    }

    fn grant(&mut self, now: Timestamp, key: OperationKey, grant: Grant) {
        let Some(claimant) = self.waiting.remove(&key) else { return };
        self.lanes[claimant.lane.index()].take(key);
        let policy = Arc::clone(&self.policy);
        // Its tenant's budget may have been dropped as blank while it waited for the application.
        if policy.limits_tenants()
            && let Some(tenant) = &claimant.tenant
        {
            self.tenant_mut(tenant);
        }
        let charged = claimant.tenant.clone().filter(|tenant| self.tenants.contains_key(tenant));
        let mut events = std::mem::take(&mut self.events);
        for budget in self.budgets_of_mut(charged.as_ref()) {
            budget.reserve(now, claimant.lane, &claimant.cost, Rules::from(&*policy), &mut events);
        }
        self.events = events;
        self.floors.on_grant(now, claimant.lane, charged.as_ref().filter(|_| policy.limits_tenants()), grant);
        self.effects.push_back(Effect::Grant(claimant.asker));
        self.granted.insert(key, Claimant { since: now, charged, ..claimant });
    }

    pub(super) fn give_back(&mut self, now: Timestamp, asker: Asker) {
        if let Some(claimant) = self.waiting.remove(&asker.key) {
            self.lanes[claimant.lane.index()].remove(asker.key);
        }
        let Some(claimant) = self.granted.remove(&asker.key) else { return };
        let policy = Arc::clone(&self.policy);
        for budget in self.budgets_of_mut(claimant.charged.as_ref()) {
            budget.release(now, claimant.since, claimant.lane, &claimant.cost, Rules::from(&*policy));
        }
        self.after_change(now, claimant.charged.as_ref());
    }

    /// What a mailbox waited for is dropped; what it held may have been sent and stays charged.
    fn mailbox_gone(&mut self, now: Timestamp, mailbox: MailboxKey) {
        let of = |claimants: &KeyMap<Claimant>| {
            let mut keys: Vec<_> = claimants.values().filter(|c| c.asker.mailbox == mailbox).map(|c| c.asker).collect();
            keys.sort_unstable();
            keys
        };
        for asker in of(&self.waiting) {
            self.give_back(now, asker);
        }
        for asker in of(&self.granted) {
            let since = self.granted.get(&asker.key).map_or(now, |claimant| claimant.since);
            self.settle(now, asker, None, since, &crate::engine::verdict::Verdict::Unknown.into());
        }
    }

    /// Tells an asker that it has to wait, why, and until when by what is known now.
    pub(super) fn tell_wait(&mut self, now: Timestamp, key: OperationKey) {
        let Some(claimant) = self.waiting.get(&key) else { return };
        let rules = Rules::from(&*self.policy);
        let (lane, cost) = (claimant.lane, claimant.cost);
        let tenant = claimant.tenant.as_ref().and_then(|tenant| self.tenants.get(tenant));
        let waits = [Some(&self.application), tenant].into_iter().flatten();
        let wait = waits.filter_map(|budget| budget.wait(now, lane, &cost, Grant::Ordinary, rules));
        let wait = wait.max_by_key(|wait| wait.until).unwrap_or_else(|| {
            // Another process's probe may be answered at any moment.
            let turn = self.turn_wait(now, key).map(|until| (Wall::Probe, until, Certainty::AtMost));
            let (wall, until, certainty) = turn.unwrap_or((Wall::Queue, now, Certainty::Exact));
            let scope = ScopeKind::Application;
            let constraint = Constraint { wall, scope, ready_at: until, certainty, binding: true };
            Wait { until, constraint, windows: 0, stands_until: Timestamp::EPOCH, full_until: Timestamp::EPOCH }
        });
        // Distinct instants at the admitted rate: the k-th in line comes k gaps later.
        let position = self.lanes[lane.index()].len().saturating_sub(1);
        let gap = self.application.gap(now);
        let until = wait.until.after(gap.saturating_mul(u32::try_from(position).unwrap_or(u32::MAX)));
        let constraint = Constraint { ready_at: until, binding: true, ..wait.constraint };
        let scope = match constraint.scope {
            ScopeKind::Tenant => claimant.tenant.clone().map_or(Scope::Application, Scope::Tenant),
            _ => Scope::Application,
        };
        self.events.push(Event::ReservationDenied { scope, wall: constraint.wall, frees_at: until, lane, cost });
        self.effects.push_back(Effect::Wait { asker: claimant.asker, until, constraint });
    }

    /// A tenant's budget has changed: watch it while there is something to wait for. And look at two others, in turn:
    /// those in which nothing counts any more are dropped, so that the table has as many tenants as have charges.
    pub(super) fn after_change(&mut self, now: Timestamp, tenant: Option<&Arc<str>>) {
        if let Some(tenant) = tenant
            && let Some(budget) = self.tenants.get(tenant)
            && (budget.is_troubled(now) || budget.deadline().is_some())
        {
            self.alert.insert(Arc::clone(tenant));
        }
        for _ in 0..2 {
            let after = self.looked_at.take().map_or(Bound::Unbounded, Bound::Excluded);
            let Some((next, budget)) = self.tenants.range((after, Bound::Unbounded)).next() else { return };
            let (next, blank) = (Arc::clone(next), budget.is_blank(now));
            if blank {
                self.tenants.remove(&next);
                self.floors.forget(&next);
                self.alert.remove(&next);
            }
            self.looked_at = Some(next);
        }
    }
}
