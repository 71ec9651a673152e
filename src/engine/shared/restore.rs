//! The shared budgets from the attempt log: a restart grants no free window at these scopes either.

use std::sync::Arc;

use super::{Effect, Shared};
use crate::engine::breaker::BreakerMemory;
use crate::engine::budget::{Budget, Rules};
use crate::engine::mailbox::PastAttempt;
use crate::engine::scope::Scope;
use crate::engine::time::Timestamp;

impl Shared {
    /// Puts the breaker back that a scope had in an earlier life: call it before [`Shared::restore`].
    pub fn restore_breaker(&mut self, now: Timestamp, scope: &Scope, memory: &BreakerMemory) {
        self.now = self.now.max(now);
        let policy = Arc::clone(&self.policy);
        if let Some(budget) = self.budget_mut(scope) {
            budget.restore_breaker(now, memory, Rules::from(&*policy));
        }
        self.watch(now, scope);
        self.announced = self.needed();
    }

    /// Has the shell keep what the breakers remember, where that has changed.
    pub(super) fn remember(&mut self, now: Timestamp) {
        let news = |budget: &mut Budget| {
            let memory = budget.memory_news(now)?;
            Some(Effect::Remember { scope: budget.scope().clone(), memory })
        };
        self.effects.extend(news(&mut self.application));
        for tenant in &self.alert {
            self.effects.extend(self.tenants.get_mut(tenant).and_then(news));
        }
    }

    /// Puts back what earlier attempts took from the application's and their tenant's budgets: call once, before any
    /// input. Claims after `now` are taken as of `now`: charges then count longer than they must, never shorter.
    pub fn restore(&mut self, now: Timestamp, attempts: impl IntoIterator<Item = (Option<Arc<str>>, PastAttempt)>) {
        self.now = self.now.max(now);
        let policy = Arc::clone(&self.policy);
        for (tenant, attempt) in attempts {
            let until = attempt.counts_until(now, policy.guard.request_deadline_max);
            if policy.limits_tenants()
                && let Some(tenant) = &tenant
            {
                self.tenant_mut(tenant);
                self.has_used(tenant);
            }
            for budget in self.budgets_of_mut(tenant.as_ref()) {
                let kept = attempt.leaves.kept(attempt.cost, budget.scope().kind());
                budget.restore(attempt.lane, &kept, until, Rules::from(&*policy));
                if attempt.may_be_live(now) {
                    let of = (attempt.lane, attempt.claimed_at.min(now));
                    budget.restore_live(now, of, until, Rules::from(&*policy));
                }
            }
            // A slot that lingers ends by itself, so its tenant is looked at then.
            if let Some(tenant) = tenant
                && self.tenants.get(&tenant).is_some_and(|budget| budget.deadline().is_some())
            {
                self.alert.insert(tenant);
            }
        }
    }
}
