//! What can never be granted: at the door, and of what waits when a limit is lowered.

use std::sync::Arc;

use super::{Effect, Shared};
use crate::engine::budget::never;
use crate::engine::cost::Cost;
use crate::engine::limit::Limit;
use crate::engine::mailbox::Refusal;
use crate::engine::policy::SharedPolicy;
use crate::engine::scope::ScopeKind;
use crate::engine::time::Timestamp;

/// Whether the shared scopes can ever hold an operation of this tenant and cost.
///
/// # Errors
/// [`Refusal::CostAboveCapacity`] with the limit that cannot.
pub fn check(policy: &SharedPolicy, tenant: Option<&Arc<str>>, cost: &Cost) -> Result<(), Refusal> {
    if let Some(never) = never(&policy.application.limits, cost) {
        return Err(never.refusal(ScopeKind::Application));
    }
    match tenant.and_then(|_| never(&policy.tenant.limits, cost)) {
        Some(never) => Err(never.refusal(ScopeKind::Tenant)),
        None => Ok(()),
    }
}

impl Shared {
    /// The limit that holds no operation of this tenant and cost, if there is one.
    pub(in crate::engine) fn limit_below(&self, tenant: Option<&Arc<str>>, cost: &Cost) -> Option<Limit> {
        let of_tenant = || tenant.and_then(|_| never(&self.policy.tenant.limits, cost));
        never(&self.policy.application.limits, cost).or_else(of_tenant).map(|never| never.limit)
    }

    /// Sends away what no window can hold any more, so that it does not block what one can.
    pub(super) fn deny_hopeless(&mut self, now: Timestamp) {
        let hopeless = self.waiting.values().filter(|of| check(&self.policy, of.tenant.as_ref(), &of.cost).is_err());
        let mut hopeless: Vec<_> = hopeless.map(|claimant| claimant.asker).collect();
        hopeless.sort_unstable();
        for asker in hopeless {
            self.give_back(now, asker);
            self.effects.push_back(Effect::Deny(asker));
        }
    }
}
