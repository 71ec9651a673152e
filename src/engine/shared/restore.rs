//! The shared budgets from the attempt log: a restart grants no free window at these scopes either.

use std::sync::Arc;

use super::Shared;
use crate::engine::mailbox::PastAttempt;
use crate::engine::time::Timestamp;

impl Shared {
    /// Puts back what earlier attempts took from the application's and their tenant's budgets: call once, before any
    /// input. Instants after `now` are taken as `now`: charges then count longer than they must, never shorter.
    pub fn restore(&mut self, now: Timestamp, attempts: impl IntoIterator<Item = (Option<Arc<str>>, PastAttempt)>) {
        self.now = self.now.max(now);
        let policy = Arc::clone(&self.policy);
        for (tenant, attempt) in attempts {
            let lingers = attempt.claimed_at.min(now).after(policy.guard.request_deadline_max);
            let until = attempt.finished_at.map_or(lingers, |at| at.min(now));
            if policy.limits_tenants()
                && let Some(tenant) = &tenant
            {
                self.tenant_mut(tenant);
            }
            for budget in self.budgets_of_mut(tenant.as_ref()) {
                budget.restore(attempt.lane, &attempt.cost, until, &policy.guard);
                if attempt.finished_at.is_none() {
                    budget.restore_live(now, attempt.lane, until);
                }
            }
        }
    }
}
