//! A shared scope that is stopped while what it granted is not on its way yet.

use std::sync::Arc;

use super::Mailbox;
use super::entry::Step;
use crate::engine::cost::Cost;
use crate::engine::event::TripReason;
use crate::engine::lane::Lane;
use crate::engine::operation::OperationKey;
use crate::engine::scope::Scope;
use crate::engine::time::Timestamp;

impl Mailbox {
    /// A shared scope lets nothing leave from now on. Only the last such word is kept: an attempt that slips through another
    /// one is still judged by the instant of its grant.
    pub(super) fn note_trouble(&mut self, now: Timestamp, scope: Scope, reason: TripReason) {
        // Usage headers stop background alone; and where nothing waits, nothing can be on its way out.
        if reason != TripReason::SoftPercentage && !self.table.is_empty() {
            self.shared_trouble = Some(Box::new((now, scope)));
        }
    }

    /// Whether what may go was overtaken by such a stop while its row was written.
    pub(super) fn is_overtaken(&self, key: OperationKey, claimed_at: Timestamp) -> bool {
        let Some((stopped_at, scope)) = self.shared_trouble.as_deref() else { return false };
        claimed_at <= *stopped_at
            && match scope {
                Scope::Application => true,
                Scope::Tenant(tenant) => self.is_of(key, tenant),
                Scope::Mailbox(_) => false,
            }
    }

    fn is_of(&self, key: OperationKey, tenant: &Arc<str>) -> bool {
        self.table.get(key).and_then(|entry| self.table.tenant(entry)) == Some(tenant)
    }

    /// What holds a slot of this mailbox: asked for at the shared scopes, claimed, or on its way.
    pub(super) fn live(&self) -> Vec<(Lane, Cost)> {
        let is_live = |step| matches!(step, Step::Reserving { .. } | Step::Claiming { .. } | Step::Attempting { .. });
        let live = self.table.entries().filter(|entry| is_live(entry.step));
        live.map(|entry| (entry.lane, entry.cost())).collect()
    }
}
