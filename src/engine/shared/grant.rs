//! Who waits, who goes next, and what is told to those that wait.

use std::sync::Arc;

use super::{Asker, Claimant, Effect, Input, MailboxKey, Shared, index};
use crate::engine::budget::{Budget, Grant, Rules, Wait};
use crate::engine::constraint::{Constraint, Wall};
use crate::engine::cost::CostSum;
use crate::engine::event::Event;
use crate::engine::lane::Lane;
use crate::engine::lanes::{Queued, Usable};
use crate::engine::operation::{KeyMap, OperationKey};
use crate::engine::resume::{Pacer, Wave};
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
                let waiting = self.waiting_count();
                let mut events = std::mem::take(&mut self.events);
                if let Some(budget) = self.budget_mut(&scope) {
                    budget.trip(now, until, waiting, &mut events);
                }
                self.events = events;
            }
            Input::CloseBreaker(scope) => {
                let mut events = std::mem::take(&mut self.events);
                if let Some(budget) = self.budget_mut(&scope) {
                    budget.close_breaker(now, &mut events);
                }
                self.events = events;
            }
            Input::Hold { scope, until } => {
                if let Some(budget) = self.budget_mut(&scope) {
                    budget.hold(until);
                }
            }
            Input::Resume(scope) => {
                if let Some(budget) = self.budget_mut(&scope) {
                    budget.hold(Timestamp::EPOCH);
                }
            }
            Input::Reconfigure(policy) => {
                self.application.reconfigure(now, &policy.application, &policy.guard);
                for budget in self.tenants.values_mut() {
                    budget.reconfigure(now, &policy.tenant, &policy.guard);
                }
                self.policy = policy;
            }
            Input::Wake => {}
        }
    }

    fn budget_mut(&mut self, scope: &Scope) -> Option<&mut Budget> {
        match scope {
            Scope::Application => Some(&mut self.application),
            Scope::Tenant(tenant) => Some(self.tenant_mut(tenant)),
            Scope::Mailbox(_) => None,
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
        let policy = Arc::clone(&self.policy);
        let limited = !policy.tenant.limits.is_empty() || policy.tenant.concurrency.is_some();
        if limited && let Some(tenant) = &claimant.tenant {
            self.tenant_mut(tenant);
        }
        if lane == Lane::Foreground {
            for budget in self.budgets_of_mut(claimant.tenant.as_ref()) {
                budget.on_foreground_arrival(now, &claimant.cost, Rules::from(&*policy));
            }
        }
        let dominant = self.application.dominant(&claimant.cost);
        let label = self.label(claimant.asker.mailbox);
        self.lanes[index(lane)].push_back(Queued { key, tenant: Some(label), dominant, submitted_at: claimant.since });
        self.waiting.insert(key, claimant);
    }

    pub(super) fn budgets_of_mut(&mut self, tenant: Option<&Arc<str>>) -> impl Iterator<Item = &mut Budget> {
        let tenant = tenant.and_then(|tenant| self.tenants.get_mut(tenant));
        [&mut self.application].into_iter().chain(tenant)
    }

    pub(super) fn sweep(&mut self, now: Timestamp) {
        let waiting = self.waiting_count();
        let policy = Arc::clone(&self.policy);
        let due = |budget: &Budget| budget.deadline().is_some_and(|at| at <= now);
        for budget in [&mut self.application].into_iter().chain(self.tenants.values_mut()) {
            if due(budget) {
                budget.wake(now, Rules::from(&*policy), waiting, &mut self.events);
            }
        }
    }

    /// What waited through a cooldown or a hold of the application goes on as a wave.
    pub(super) fn plan_wave(&mut self, now: Timestamp) {
        let is_shut = self.application.shut_until(now).is_some();
        if self.was_shut && !is_shut {
            let pacer = match self.application.rate(now) {
                None => Pacer::Wave { over: self.policy.resume.spread },
                Some(_) => {
                    let mut waiting = CostSum::default();
                    self.waiting.values().for_each(|claimant| waiting.add(&claimant.cost));
                    let rules = Rules::from(&*self.policy);
                    Pacer::Budget { last_at: self.application.last_of(now, Lane::Background, &waiting, rules) }
                }
            };
            let planned = Wave::plan(&Scope::Application, now, self.waiting_count(), pacer);
            self.wave = planned.map(|(wave, event)| {
                self.events.push(event);
                wave
            });
        } else if is_shut {
            self.wave = None;
        }
        self.was_shut = is_shut;
    }

    /// Grants everything that may go, foreground first.
    pub(super) fn pump(&mut self, now: Timestamp) {
        self.pump_at = Timestamp::NEVER;
        loop {
            if let Some(at) = self.wave.and_then(|wave| wave.wait(now)) {
                self.pump_at = self.pump_at.min(at);
                return;
            }
            let Some(key) = self.pick(now) else { return };
            self.grant(now, key);
        }
    }

    fn pick(&mut self, now: Timestamp) -> Option<OperationKey> {
        for lane in Lane::ALL {
            if self.lanes[index(lane)].is_empty() {
                continue;
            }
            let key = self.peek(now, lane);
            if let Some(key) = key {
                let Some(wait) = self.application_wait(now, key) else { return Some(key) };
                self.pump_at = self.pump_at.min(wait.until);
            }
            if lane == Lane::Foreground {
                self.mark_contended(now);
                if key.is_some() {
                    return None; // strict priority: the application itself makes foreground wait
                }
            }
        }
        None
    }

    /// Foreground waits: the limits in its way are contended, here and at the tenants of those that wait.
    fn mark_contended(&mut self, now: Timestamp) {
        for claimant in self.waiting.values().filter(|claimant| claimant.lane == Lane::Foreground) {
            self.application.on_foreground_backlog(now, &claimant.cost);
            if let Some(budget) = claimant.tenant.as_ref().and_then(|tenant| self.tenants.get_mut(tenant)) {
                budget.on_foreground_backlog(now, &claimant.cost);
            }
        }
    }

    /// The next of a lane that only the application could still make wait. A tenant that is full holds up its own.
    fn peek(&mut self, now: Timestamp, lane: Lane) -> Option<OperationKey> {
        let (waiting, tenants, rules) = (&self.waiting, &self.tenants, Rules::from(&*self.policy));
        let mut next = Timestamp::NEVER;
        let foreground_of = |tenant: &Arc<str>| {
            waiting.values().any(|other| other.lane == Lane::Foreground && other.tenant.as_ref() == Some(tenant))
        };
        let key = self.lanes[index(lane)].peek(|item| {
            let Some(claimant) = waiting.get(&item.key) else { return Usable::SkipOperation };
            let Some(tenant) = &claimant.tenant else { return Usable::Yes };
            let Some(budget) = tenants.get(tenant) else { return Usable::Yes };
            let wait = budget.wait(now, lane, &claimant.cost, Grant::Ordinary, rules);
            if let Some(wait) = wait {
                next = next.min(wait.until);
                return Usable::SkipOperation;
            }
            if lane == Lane::Background && foreground_of(tenant) {
                return Usable::SkipOperation;
            }
            Usable::Yes
        });
        self.pump_at = self.pump_at.min(next);
        key
    }

    fn application_wait(&self, now: Timestamp, key: OperationKey) -> Option<Wait> {
        let claimant = self.waiting.get(&key)?;
        let rules = Rules::from(&*self.policy);
        self.application.wait(now, claimant.lane, &claimant.cost, Grant::Ordinary, rules)
    }

    fn grant(&mut self, now: Timestamp, key: OperationKey) {
        let Some(claimant) = self.waiting.remove(&key) else { return };
        self.lanes[index(claimant.lane)].take(key);
        let policy = Arc::clone(&self.policy);
        let charged = claimant.tenant.clone().filter(|tenant| self.tenants.contains_key(tenant));
        for budget in self.budgets_of_mut(charged.as_ref()) {
            budget.reserve(now, claimant.lane, &claimant.cost, Rules::from(&*policy));
        }
        self.effects.push_back(Effect::Grant(claimant.asker));
        if let Some(wave) = &mut self.wave {
            self.events.extend(wave.on_start(&Scope::Application, now));
            self.wave = self.wave.filter(|wave| !wave.is_over());
        }
        self.granted.insert(key, Claimant { since: now, charged, ..claimant });
    }

    fn give_back(&mut self, now: Timestamp, asker: Asker) {
        if let Some(claimant) = self.waiting.remove(&asker.key) {
            self.lanes[index(claimant.lane)].remove(asker.key);
        }
        let Some(claimant) = self.granted.remove(&asker.key) else { return };
        let policy = Arc::clone(&self.policy);
        for budget in self.budgets_of_mut(claimant.charged.as_ref()) {
            budget.release(now, claimant.lane, &claimant.cost, Rules::from(&*policy));
        }
        self.forget_tenant(now, claimant.charged.as_ref());
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
        self.labels.remove(&mailbox);
    }

    /// Tells an asker that it has to wait, why, and until when by what is known now.
    pub(super) fn tell_wait(&mut self, now: Timestamp, key: OperationKey) {
        let Some(claimant) = self.waiting.get(&key) else { return };
        let rules = Rules::from(&*self.policy);
        let (lane, cost) = (claimant.lane, claimant.cost);
        let tenant = claimant.tenant.as_ref().and_then(|tenant| self.tenants.get(tenant));
        let waits = [Some(&self.application), tenant].into_iter().flatten();
        let wait = waits.filter_map(|budget| budget.wait(now, lane, &cost, Grant::Ordinary, rules));
        let wait = wait.max_by_key(|wait| wait.until).unwrap_or(Wait {
            until: now,
            constraint: Constraint { wall: Wall::Queue, scope: ScopeKind::Application, ready_at: now, binding: true },
        });
        // Distinct instants at the admitted rate: the k-th in line comes k gaps later.
        let position = self.lanes[index(lane)].len().saturating_sub(1);
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

    /// Drops a tenant's budget in which nothing counts any more.
    pub(super) fn forget_tenant(&mut self, now: Timestamp, tenant: Option<&Arc<str>>) {
        let Some(tenant) = tenant else { return };
        if self.tenants.get(tenant).is_some_and(|budget| budget.is_blank(now)) {
            self.tenants.remove(tenant);
        }
    }
}
