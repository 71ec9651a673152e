//! What is known of the waits at the shared scopes, for the doors of mailboxes, which do not ask.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Shared;
use crate::engine::budget::{Budget, Grant, Rules};
use crate::engine::constraint::{Certainty, Constraint};
use crate::engine::cost::Cost;
use crate::engine::lane::Lane;
use crate::engine::time::Timestamp;

/// Of every unit the least that can be asked for.
const LEAST: Cost = Cost { requests: 1, recipients: 1, external_recipients: 1, quota_units: 1, bytes: 1 };

/// The constraints of one scope, foreground's first. Those of a window hold for whatever costs anything there.
type PerLane = [Vec<Constraint>; 2];

/// How the shared scopes stood at an instant: what keeps a send waiting there, as far as its end is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    application: PerLane,
    tenants: BTreeMap<Arc<str>, PerLane>,
}

impl Standing {
    /// What keeps a send of this kind waiting: nothing that will not bind it, and maybe less than will.
    #[must_use]
    pub fn of(&self, lane: Lane, tenant: Option<&Arc<str>>, cost: &Cost) -> Vec<Constraint> {
        let tenant = tenant.and_then(|tenant| self.tenants.get(tenant));
        let scopes = [Some(&self.application), tenant].into_iter().flatten();
        let all = scopes.flat_map(|scope| &scope[lane.index()]);
        let counts = |unit| cost.of(unit) > 0;
        all.filter(|constraint| constraint.wall.unit().is_none_or(counts)).copied().collect()
    }
}

impl Shared {
    /// How the shared scopes stand. Looks at the tenants who have something to wait for, or used something: one whose
    /// windows have room again is not looked at until it has used something again.
    #[must_use]
    pub fn standing(&mut self, now: Timestamp) -> Standing {
        let now = self.now.max(now);
        let waiting = self.waiting.values().filter(|_| self.policy.limits_tenants());
        let waiting = waiting.filter_map(|claimant| claimant.tenant.as_ref());
        let mut tenants = BTreeMap::new();
        for tenant in self.alert.iter().chain(waiting).chain(&self.used) {
            if !tenants.contains_key(tenant)
                && let Some(budget) = self.tenants.get(tenant)
            {
                tenants.insert(Arc::clone(tenant), self.waits_at(now, budget));
            }
        }
        tenants.retain(|_, lanes: &mut PerLane| lanes.iter().any(|known| !known.is_empty()));
        self.used.retain(|tenant| tenants.contains_key(tenant));
        Standing { application: self.waits_at(now, &self.application), tenants }
    }

    /// A tenant's windows are fuller than they were, for as long as is known now.
    pub(super) fn has_used(&mut self, tenant: &Arc<str>) {
        if !self.used.contains(tenant) {
            self.used.insert(Arc::clone(tenant));
        }
    }

    fn waits_at(&self, now: Timestamp, budget: &Budget) -> PerLane {
        Lane::ALL.map(|lane| {
            let mut known = Vec::new();
            budget.constraints(now, lane, &LEAST, Grant::Ordinary, Rules::from(&*self.policy), &mut |constraint| {
                known.extend(Some(constraint).filter(|constraint| constraint.certainty == Certainty::Exact));
            });
            known
        })
    }
}
