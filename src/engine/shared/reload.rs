//! New limits and numbers at the shared scopes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Shared;
use crate::engine::budget::Rules;
use crate::engine::cost::Cost;
use crate::engine::lane::Lane;
use crate::engine::policy::SharedPolicy;
use crate::engine::time::Timestamp;

impl Shared {
    /// What is in flight under a reservation counts for limits that are new. What left while nobody had to ask, because there
    /// was no limit at all, is not known here.
    pub(super) fn reconfigure(&mut self, now: Timestamp, policy: Arc<SharedPolicy>) {
        // What a lowered limit leaves full is known to nobody yet.
        self.used.extend(self.tenants.keys().map(Arc::clone));
        let rules = Rules::from(&*policy);
        let (mut all, mut per_tenant) = (Vec::new(), BTreeMap::<_, Vec<(Lane, Cost)>>::new());
        for claimant in self.granted.values() {
            let live = (claimant.lane, claimant.cost);
            all.push(live);
            if let Some(tenant) = &claimant.charged {
                per_tenant.entry(Arc::clone(tenant)).or_default().push(live);
            }
        }
        self.application.reconfigure(now, &policy.application, &all, rules);
        for (tenant, budget) in &mut self.tenants {
            let live = per_tenant.get(tenant).map_or(&[][..], |live| live);
            budget.reconfigure(now, &policy.tenant, live, rules);
        }
        self.lanes.iter_mut().for_each(|lane| lane.set_bypass_max(policy.lanes.bypass_max));
        self.policy = Arc::clone(&policy);
        self.charge_tenants(now, rules);
        self.deny_hopeless(now);
    }

    /// Tenants that have limits from now on are charged with what is in flight for them.
    fn charge_tenants(&mut self, now: Timestamp, rules: Rules<'_>) {
        if !self.policy.limits_tenants() {
            return;
        }
        let mut keys: Vec<_> = self.granted.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            let Some(claimant) = self.granted.get_mut(&key) else { continue };
            let (None, Some(tenant)) = (&claimant.charged, claimant.tenant.clone()) else { continue };
            claimant.charged = Some(Arc::clone(&tenant));
            let (lane, cost) = (claimant.lane, claimant.cost);
            self.tenant_mut(&tenant).adopt(now, lane, &cost, rules);
        }
    }
}
