//! An attempt whose row was not written: no byte has left, and what was charged comes back.

use std::sync::Arc;

use super::entry::Step;
use super::{Effect, Mailbox};
use crate::engine::operation::{OperationKey, OrderWords, QuarantineCause, Transition};
use crate::engine::retry::backoff;
use crate::engine::time::Timestamp;

/// Why the store did not write an attempt row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimFailure {
    /// It may take it later.
    Transient,
    /// The operation is gone from it.
    Gone,
    /// What is to be sent is damaged there, in these words. No later try will find it whole, and none of the others is
    /// concerned: this one is set aside for a person.
    Damaged(Arc<str>),
}

impl Mailbox {
    pub(super) fn claim_failed(&mut self, now: Timestamp, key: OperationKey, failure: ClaimFailure) {
        let Some(entry) = self.table.get_mut(key) else { return };
        let Step::Claiming { shared, .. } = entry.step else { return };
        entry.apply(Transition::Void);
        let voids = entry.more().voids.saturating_add(1);
        entry.more_mut().voids = voids;
        let retry_at = now.after(backoff(&self.policy.retry, entry.id_hash, voids));
        self.unclaim(now, key, shared);
        match failure {
            ClaimFailure::Transient => {
                // Its row may have been written all the same: what comes next may not be listed from attempting.
                self.record(now, key, Transition::Void, Some(retry_at));
                self.again(now, key, Some(retry_at));
            }
            ClaimFailure::Gone => self.end_cancelled(now, key),
            ClaimFailure::Damaged(what) => {
                // It may have been whole when an earlier try wrote the row.
                self.record(now, key, Transition::Void, None);
                if !self.grant_wish(now, key) {
                    self.set_aside(now, key, QuarantineCause::Damaged);
                    self.explain_damage(key, &what);
                }
            }
        }
    }

    /// Writes into the record that sets it aside what is damaged, and how to go on.
    fn explain_damage(&mut self, key: OperationKey, what: &str) {
        let reason = format!(
            "its email is damaged in the store ({what}) and was not sent: restore it from a backup and release this \
             operation, or cancel it and submit the email anew under another id"
        );
        let words = Arc::new(OrderWords { reason: reason.into(), by: None, deadline: None });
        let record = self.effects.iter_mut().rev().find_map(|effect| match effect {
            Effect::Record(record) if record.key == key => Some(record),
            _ => None,
        });
        if let Some(record) = record {
            record.order = Some(words);
        }
    }
}
