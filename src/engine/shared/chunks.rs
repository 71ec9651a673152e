//! The shared budgets of several processes: when this one asks the table that all of them see, and for how much.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{Claimant, Effect, Shared};
use crate::engine::budget::{Budget, Grant, Needs, Rules, Step};
use crate::engine::chunks::{ChunkRules, Gained};
use crate::engine::constraint::Wall;
use crate::engine::lane::Lane;
use crate::engine::operation::OperationKey;
use crate::engine::policy::FleetPolicy;
use crate::engine::scope::Scope;
use crate::engine::time::Timestamp;

/// What there is to do about tokens.
#[derive(Clone, Debug)]
pub(super) struct Chunks {
    rules: ChunkRules,
    /// Tenants that wait for tokens, or have told the table of some.
    tenants: BTreeSet<Arc<str>>,
}

impl Chunks {
    /// A budget as it begins.
    pub(super) fn leased(chunks: Option<&Self>, mut budget: Budget) -> Budget {
        if let Some(chunks) = chunks {
            budget.lease(chunks.rules);
        }
        budget
    }
}

impl Shared {
    /// One of several processes that spend the same budgets: of each limit without a bucket it uses what it has taken from
    /// the table of all of them.
    #[must_use]
    pub fn leasing(mut self, fleet: &FleetPolicy) -> Self {
        let rules = ChunkRules::new(fleet, &self.policy);
        self.application.lease(rules);
        self.tenants.values_mut().for_each(|budget| budget.lease(rules));
        Self { chunks: Some(Chunks { rules, tenants: BTreeSet::new() }), ..self }
    }

    pub(super) fn unleased(mut self) -> Self {
        self.application.unlease();
        self.tenants.values_mut().for_each(Budget::unlease);
        Self { chunks: None, ..self }
    }

    /// Until when an operation that was granted has to leave; `None`: it needs no tokens.
    #[must_use]
    pub fn leaves_by(&self, key: OperationKey) -> Option<Timestamp> {
        let claimant = self.granted.get(&key)?;
        let tenant = claimant.charged.as_ref().and_then(|tenant| self.tenants.get(tenant));
        let budgets = [Some(&self.application), tenant].into_iter().flatten();
        budgets.filter_map(|budget| budget.leaves_by(&claimant.cost)).min()
    }

    /// Something new waits.
    pub(super) fn wants_tokens(&mut self, now: Timestamp, tenant: Option<&Arc<str>>) {
        let Some(chunks) = &mut self.chunks else { return };
        chunks.tenants.extend(tenant.cloned());
        for budget in self.budgets_of_mut(tenant) {
            if let Some(allowance) = budget.allowance_mut() {
                allowance.hurry(now);
            }
        }
    }

    /// The store may have forgotten what it was told.
    pub(super) fn forgotten(&mut self, now: Timestamp) {
        let Some(chunks) = &mut self.chunks else { return };
        chunks.tenants.extend(self.tenants.keys().cloned());
        for budget in [&mut self.application].into_iter().chain(self.tenants.values_mut()) {
            if let Some(allowance) = budget.allowance_mut() {
                allowance.forgotten(now);
            }
        }
    }

    pub(super) fn on_chunk(&mut self, now: Timestamp, scope: &Scope, asked_at: Timestamp, gained: Option<Vec<Gained>>) {
        let budget = match scope {
            Scope::Application => Some(&mut self.application),
            Scope::Tenant(tenant) => self.tenants.get_mut(tenant),
            Scope::Mailbox(_) => None,
        };
        if let Some(budget) = budget {
            budget.on_tokens(now, asked_at, gained);
        }
    }

    /// Asks for what is missing, where it is time to.
    pub(super) fn look_at_tokens(&mut self, now: Timestamp) {
        let Some(chunks) = &self.chunks else { return };
        let due =
            |budget: &Budget| budget.allowance().and_then(|allowance| allowance.due_at()).is_some_and(|at| at <= now);
        let tenants = chunks.tenants.iter().filter(|tenant| self.tenants.get(*tenant).is_some_and(due));
        let mut scopes: Vec<Scope> = tenants.cloned().map(Scope::Tenant).collect();
        scopes.extend(due(&self.application).then_some(Scope::Application));
        for scope in scopes {
            let needs = self.needs(now, &scope);
            let policy = Arc::clone(&self.policy);
            let Some(budget) = self.budget_mut(&scope) else { continue };
            if let Step::Exchange(ask) = budget.look_at_tokens(now, needs.as_ref(), Rules::from(&*policy)) {
                self.effects.push_back(Effect::Exchange { scope, ask });
            }
        }
        let tenants = &self.tenants;
        let busy = |tenant: &Arc<str>| {
            tenants
                .get(tenant)
                .and_then(Budget::allowance)
                .is_some_and(|allowance| allowance.due_at().is_some() || !allowance.is_blank())
        };
        if let Some(chunks) = &mut self.chunks {
            chunks.tenants.retain(busy);
        }
    }

    pub(super) fn tokens_deadline(&self) -> Option<Timestamp> {
        let chunks = self.chunks.as_ref()?;
        let tenants = chunks.tenants.iter().filter_map(|tenant| self.tenants.get(tenant));
        let due = |budget: &Budget| budget.allowance().and_then(|allowance| allowance.due_at());
        tenants.chain([&self.application]).filter_map(due).min()
    }

    /// What waits at a scope for nothing but tokens, now or soon; `None`: nothing waits there at all.
    fn needs(&self, now: Timestamp, scope: &Scope) -> Option<Needs> {
        let of_scope = |claimant: &&Claimant| match scope {
            Scope::Tenant(tenant) => claimant.tenant.as_ref() == Some(tenant),
            Scope::Application | Scope::Mailbox(_) => true,
        };
        let chunk = self.chunks.as_ref().map_or(Duration::ZERO, |chunks| chunks.rules.chunk);
        let (mut needs, mut waits) = (None::<Needs>, [false; 2]);
        let mut most = [Needs::default().most, Needs::default().most];
        for claimant in self.waiting.values().filter(of_scope) {
            let needs = needs.get_or_insert_default();
            if self.waits_longer(now.after(chunk), now, claimant) {
                continue;
            }
            let lane = claimant.lane.index();
            needs.lanes[lane].add(&claimant.cost);
            most[lane].raise(&claimant.cost);
            waits[lane] = true;
        }
        let first = if waits[Lane::Foreground.index()] { Lane::Foreground } else { Lane::Background };
        needs.map(|needs| Needs { most: most[first.index()], ..needs })
    }

    /// Whether something other than tokens keeps it waiting beyond `soon`.
    fn waits_longer(&self, soon: Timestamp, now: Timestamp, claimant: &Claimant) -> bool {
        let rules = Rules::from(&*self.policy);
        let tenant = claimant.tenant.as_ref().and_then(|tenant| self.tenants.get(tenant));
        [Some(&self.application), tenant].into_iter().flatten().any(|budget| {
            let wait = budget.wait(now, claimant.lane, &claimant.cost, Grant::Ordinary, rules);
            wait.is_some_and(|wait| wait.until > soon && !matches!(wait.constraint.wall, Wall::Part { .. }))
        })
    }
}
