//! Which operations are asked for, and what is left to each.

use std::sync::Arc;
use std::time::Duration;

use super::OperationRecord;
use crate::engine::policy::RetryPolicy;
use crate::engine::{Lane, OperationState, Timestamp};

/// Which operations a query wants. Every field narrows; by default it wants the oldest
/// [`LIMIT`](OperationQuery::LIMIT) of all.
#[derive(Clone, Debug)]
pub struct OperationQuery {
    /// In this state.
    pub state: Option<OperationState>,
    /// Of this mailbox.
    pub mailbox: Option<Arc<str>>,
    /// In this lane.
    pub lane: Option<Lane>,
    /// Of this tenant.
    pub tenant: Option<Arc<str>>,
    /// Of this campaign.
    pub campaign: Option<Arc<str>>,
    /// Eligible at this instant: admitted, queued or deferred, and both `not_before` and `next_at` have come. Whether
    /// a hold, a breaker or a budget stands before it is not looked at.
    pub eligible_at: Option<Timestamp>,
    /// At most this many, oldest first. 0 finds nothing.
    pub limit: usize,
}

impl Default for OperationQuery {
    fn default() -> Self {
        Self {
            state: None,
            mailbox: None,
            lane: None,
            tenant: None,
            campaign: None,
            eligible_at: None,
            limit: Self::LIMIT,
        }
    }
}

impl OperationQuery {
    /// How many operations a query answers with that does not say: a page for a person.
    pub const LIMIT: usize = 100;

    /// The states in which an operation is eligible once its instant has come.
    pub(super) const ELIGIBLE: [OperationState; 3] =
        [OperationState::Admitted, OperationState::Queued, OperationState::Deferred];

    /// Whether `record` is among what is asked for, the limit aside.
    #[must_use]
    pub fn wants(&self, record: &OperationRecord) -> bool {
        self.state.is_none_or(|state| state == record.state)
            && self.mailbox.as_ref().is_none_or(|mailbox| *mailbox == record.mailbox)
            && self.lane.is_none_or(|lane| lane == record.lane)
            && (self.tenant.is_none() || self.tenant == record.tenant)
            && (self.campaign.is_none() || self.campaign == record.campaign)
            && self.eligible_at.is_none_or(|at| record.is_eligible(at))
    }
}

/// What is left to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Remaining {
    /// Attempts that may still fail, a live one included.
    pub attempts: u32,
    /// Until its deadline. A deadline of [`Timestamp::NEVER`] is far away.
    pub time: Duration,
}

impl OperationRecord {
    /// Whether only holds, breakers and budgets can keep it from being sent at `now`. Never while it is attempted or
    /// unknown.
    #[must_use]
    pub fn is_eligible(&self, now: Timestamp) -> bool {
        Self::eligible(self.state, self.not_before, self.next_at, now)
    }

    /// The same of an operation in this state, with these instants of its own.
    pub(super) fn eligible(
        state: OperationState,
        not_before: Timestamp,
        next_at: Option<Timestamp>,
        now: Timestamp,
    ) -> bool {
        OperationQuery::ELIGIBLE.contains(&state) && not_before <= now && next_at.is_none_or(|next_at| next_at <= now)
    }

    /// The attempts and the time that are left at `now` under the retry policy of its mailbox. Nothing is left once it
    /// is final; what a person gives a quarantined one by releasing it is not counted.
    #[must_use]
    pub const fn remaining(&self, policy: &RetryPolicy, now: Timestamp) -> Remaining {
        if self.state.is_final() {
            return Remaining { attempts: 0, time: Duration::ZERO };
        }
        Remaining { attempts: policy.attempts_max.get().saturating_sub(self.attempts), time: self.deadline.since(now) }
    }
}
