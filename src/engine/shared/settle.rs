//! How an attempt under a shared reservation ended, and which scope learns from it.

use std::sync::Arc;

use super::{Asker, Shared};
use crate::engine::budget::{Blame, Rules};
use crate::engine::scope::ScopeKind;
use crate::engine::time::Timestamp;
use crate::engine::verdict::{Answer, Sent, Verdict};

/// Which shared scopes an answer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Blames {
    application: Blame,
    tenant: Blame,
}

impl Blames {
    /// A throttle feeds the scope the provider named. A success feeds both. A connection that could not be made says
    /// nothing of a tenant, but may say that the provider is out of reach for everybody. Whatever else happens is
    /// the mailbox's own affair.
    fn of(answer: &Answer, has_tenant: bool) -> Self {
        let (application, tenant) = match &answer.verdict {
            Verdict::Accepted => (Blame::Here, Blame::Here),
            Verdict::Throttled(throttle) => match throttle.scope {
                Some(ScopeKind::Application) => (Blame::Here, Blame::Elsewhere),
                Some(ScopeKind::Tenant) if has_tenant => (Blame::Elsewhere, Blame::Here),
                Some(ScopeKind::Tenant) => (Blame::Here, Blame::Elsewhere),
                _ => (Blame::Elsewhere, Blame::Elsewhere),
            },
            Verdict::Transient { sent: Sent::No, .. } => (Blame::Here, Blame::Elsewhere),
            _ => (Blame::Elsewhere, Blame::Elsewhere),
        };
        Self { application, tenant }
    }
}

impl Shared {
    pub(super) fn settle(
        &mut self,
        now: Timestamp,
        asker: Asker,
        tenant: Option<Arc<str>>,
        sent_at: Timestamp,
        answer: &Answer,
    ) {
        let policy = Arc::clone(&self.policy);
        let (rules, waiting) = (Rules::from(&*policy), self.waiting_count());
        // What has been sent does not wait any more, whoever granted it.
        if let Some(claimant) = self.waiting.remove(&asker.key) {
            self.lanes[claimant.lane.index()].remove(asker.key);
        }
        let Some(claimant) = self.granted.remove(&asker.key) else {
            return self.learn(now, tenant, sent_at, answer, rules, waiting);
        };
        let blames = Blames::of(answer, claimant.tenant.is_some());
        let mut events = std::mem::take(&mut self.events);
        let (lane, cost, sent) = (claimant.lane, claimant.cost, (sent_at.min(claimant.since), sent_at));
        self.application.settle(now, lane, &cost, sent, answer, blames.application, rules, waiting, &mut events);
        match (&claimant.charged, &claimant.tenant) {
            (Some(tenant), _) => {
                if let Some(budget) = self.tenants.get_mut(tenant) {
                    budget.settle(now, lane, &cost, sent, answer, blames.tenant, rules, waiting, &mut events);
                }
                self.has_used(tenant);
            }
            (None, Some(tenant)) if blames.tenant == Blame::Here && answer.verdict != Verdict::Accepted => {
                self.tenant_mut(tenant).learn(now, sent.0, answer, rules, waiting, &mut events);
            }
            _ => {}
        }
        self.events = events;
        self.after_change(now, claimant.tenant.as_ref());
    }

    /// An attempt that no reservation stands behind: it was sent while nobody had to ask.
    fn learn(
        &mut self,
        now: Timestamp,
        tenant: Option<Arc<str>>,
        sent_at: Timestamp,
        answer: &Answer,
        rules: Rules<'_>,
        waiting: u32,
    ) {
        let blames = Blames::of(answer, tenant.is_some());
        let mut events = std::mem::take(&mut self.events);
        if blames.application == Blame::Here {
            self.application.overhear(now, sent_at, answer, rules, waiting, &mut events);
        }
        if let (Blame::Here, Some(tenant)) = (blames.tenant, &tenant)
            && (answer.verdict != Verdict::Accepted || self.tenants.contains_key(tenant))
        {
            self.tenant_mut(tenant).learn(now, sent_at, answer, rules, waiting, &mut events);
        }
        self.events = events;
        self.after_change(now, tenant.as_ref());
    }
}
