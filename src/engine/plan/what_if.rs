//! What is otherwise in a what-if.

use std::num::NonZeroU32;

use crate::engine::limit::Limit;
use crate::engine::policy::{ScopePolicy, SharedPolicy};
use crate::engine::scope::ScopeKind;

/// One number of one scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    scope: ScopeKind,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Limit(Limit),
    Concurrency(Option<NonZeroU32>),
}

impl Change {
    pub(super) const fn limit(scope: ScopeKind, limit: Limit) -> Self {
        Self { scope, what: What::Limit(limit) }
    }

    pub(super) const fn concurrency(scope: ScopeKind, most: Option<NonZeroU32>) -> Self {
        Self { scope, what: What::Concurrency(most) }
    }

    /// Whether it is about each mailbox rather than what they share.
    pub(super) fn is_of_mailbox(&self) -> bool {
        self.scope == ScopeKind::Mailbox
    }

    pub(super) fn apply(&self, policy: &mut ScopePolicy) {
        match self.what {
            What::Limit(limit) => policy.put(limit),
            What::Concurrency(most) => policy.concurrency = most,
        }
    }

    pub(super) fn apply_shared(&self, policy: &mut SharedPolicy) {
        match self.scope {
            ScopeKind::Mailbox => {}
            ScopeKind::Tenant => self.apply(&mut policy.tenant),
            ScopeKind::Application => self.apply(&mut policy.application),
        }
    }
}
