//! Tenants and the application, in two safety worlds of five: limits that they share, and an upstream that keeps the same.

use std::num::NonZeroU32;
use std::sync::Arc;

use mailweir::engine::policy::{ScopePolicy, SharedPolicy};
use mailweir::engine::{Limit, ScopeKind, Unit};
use mailweir::upstream::{ConcurrencyLimit, Model, Random, UpstreamLimit};

use crate::worlds::{connections, limit, lowered};

/// Whose mail it is; a third of it is nobody's.
pub(crate) const TENANTS: [Option<&str>; 3] = [None, Some("acme"), Some("zenith")];

/// What is declared for shared scopes, and what the upstream keeps there.
pub(crate) struct Shared {
    policy: Arc<SharedPolicy>,
    kept: Vec<UpstreamLimit>,
    concurrency: Vec<ConcurrencyLimit>,
}

impl Shared {
    /// Has the upstream keep it; what is declared.
    pub(crate) fn kept_by(self, model: &mut Model) -> Arc<SharedPolicy> {
        model.limits.extend(self.kept);
        model.concurrency.extend(self.concurrency);
        self.policy
    }
}

/// Every limit that is declared for shared scopes.
pub(crate) fn limits(policy: &SharedPolicy) -> Vec<(ScopeKind, Limit)> {
    let of = |kind, scope: &ScopePolicy| scope.limits.iter().map(|limit| (kind, *limit)).collect::<Vec<_>>();
    [of(ScopeKind::Application, &policy.application), of(ScopeKind::Tenant, &policy.tenant)].concat()
}

/// One or two limits and some connections of a scope; the upstream keeps both.
fn scope(random: &mut Random, kind: ScopeKind, weighted: bool, shared: &mut Shared) -> ScopePolicy {
    let mut rows = vec![limit(random, Unit::Requests)];
    if random.below(3) == 0 {
        rows.push(limit(random, if weighted { Unit::Recipients } else { Unit::Requests }));
    }
    let (limits, kept): (Vec<_>, Vec<_>) = rows.into_iter().map(|(ours, theirs)| (ours, theirs.at_scope(kind))).unzip();
    shared.kept.extend(kept);
    let most = u32::try_from(1 + random.below(5)).expect("small");
    shared.concurrency.push(ConcurrencyLimit::new(kind, most));
    ScopePolicy { limits, concurrency: NonZeroU32::new(most) }
}

/// What tenants and the application may do in the world of this seed, if they may not do everything.
pub(crate) fn shared(seed: u64, weighted: bool) -> Option<Shared> {
    let mut random = Random::stream(seed, 12);
    if random.below(5) > 1 {
        return None;
    }
    let mut shared = Shared { policy: Arc::default(), kept: Vec::new(), concurrency: Vec::new() };
    let mut policy = SharedPolicy::default();
    let which = random.below(3);
    if which != 0 {
        policy.application = scope(&mut random, ScopeKind::Application, weighted, &mut shared);
    }
    if which != 1 {
        policy.tenant = scope(&mut random, ScopeKind::Tenant, weighted, &mut shared);
    }
    shared.policy = Arc::new(policy);
    Some(shared)
}

/// Every amount as it is or lower, and other connections.
pub(crate) fn lower(random: &mut Random, policy: &SharedPolicy) -> Arc<SharedPolicy> {
    let mut next = policy.clone();
    for scope in [&mut next.application, &mut next.tenant] {
        scope.limits.iter_mut().for_each(|limit| *limit = lowered(random, limit));
        scope.concurrency = scope.concurrency.and_then(|most| connections(random, most.get().into()));
    }
    Arc::new(next)
}
