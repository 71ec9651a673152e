//! One operation of a store in memory, in few bytes: a million of them may wait.
//!
//! What every operation has lies in the row; what only some have (attempts, a later start, an odd cost, a person's
//! words) lies in a block of its own, made when it is first needed. Mailbox, tenant and campaign are shared by all rows
//! that have the same.

use std::collections::HashSet;
use std::sync::Arc;

use crate::email::Email;
use crate::engine::mailbox::Record;
use crate::engine::operation::{OrderWords, Transition};
use crate::engine::{Cost, Lane, OperationKey, OperationState, Timestamp};
use crate::store::rules::Seen;
use crate::store::{AttemptRecord, Claim, NewOperation, OperationQuery, OperationRecord};

/// Places remembered at most; above it they are begun anew.
const PLACES_MAX: usize = 1_024;

/// Where an operation belongs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    mailbox: Arc<str>,
    tenant: Option<Arc<str>>,
    campaign: Option<Arc<str>>,
}

/// Places that rows share.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(HashSet<Arc<Place>>);

impl Places {
    fn shared(&mut self, place: Place) -> Arc<Place> {
        if let Some(shared) = self.0.get(&place) {
            return Arc::clone(shared);
        }
        if self.0.len() >= PLACES_MAX {
            self.0.clear();
        }
        let place = Arc::new(place);
        self.0.insert(Arc::clone(&place));
        place
    }
}

#[derive(Clone)]
pub(super) struct Row {
    pub(super) key: OperationKey,
    pub(super) id: Arc<str>,
    pub(super) fingerprint: u64,
    pub(super) email: Option<Email>,
    place: Arc<Place>,
    submitted_at: Timestamp,
    deadline: Timestamp,
    changed_at: Timestamp,
    more: Option<Box<More>>,
    /// Its cost, unless that is odd: one request, and these.
    bytes: u32,
    recipients: u16,
    external_recipients: u16,
    /// The highest number of an attempt row written.
    rows: u32,
    attempts: u32,
    lane: Lane,
    pub(super) state: OperationState,
}

/// What only some operations have.
#[derive(Clone, Debug, Default)]
struct More {
    cost: Option<Cost>,
    not_before: Option<Timestamp>,
    next_at: Option<Timestamp>,
    last_status: Option<u16>,
    provider_id: Option<String>,
    order: Option<Arc<OrderWords>>,
    first: Option<Tried>,
    others: Vec<Tried>,
}

/// One attempt row. A voided one is removed: no byte left the machine.
#[derive(Clone, Debug)]
struct Tried {
    attempt: u32,
    cost: Cost,
    claimed_at: Timestamp,
    finished_at: Option<Timestamp>,
}

impl Row {
    pub(super) fn new(new: NewOperation, places: &mut Places) -> Self {
        let state = new.first_row().state;
        let NewOperation { key, id, fingerprint, mailbox, lane, tenant, campaign, cost, .. } = new;
        let NewOperation { submitted_at, not_before, deadline, email, .. } = new;
        let mut row = Self {
            key,
            id,
            fingerprint,
            email: Some(email),
            place: places.shared(Place { mailbox, tenant, campaign }),
            submitted_at,
            deadline,
            changed_at: submitted_at,
            more: None,
            bytes: 0,
            recipients: 0,
            external_recipients: 0,
            rows: 0,
            attempts: 0,
            lane,
            state,
        };
        if !row.pack(&cost) {
            row.more_mut().cost = Some(cost);
        }
        if not_before != submitted_at {
            row.more_mut().not_before = Some(not_before);
        }
        row
    }

    fn pack(&mut self, cost: &Cost) -> bool {
        let (Ok(bytes), Ok(recipients), Ok(external), 1, 0) = (
            u32::try_from(cost.bytes),
            u16::try_from(cost.recipients),
            u16::try_from(cost.external_recipients),
            cost.requests,
            cost.quota_units,
        ) else {
            return false;
        };
        (self.bytes, self.recipients, self.external_recipients) = (bytes, recipients, external);
        true
    }

    fn more_mut(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    #[cfg(feature = "test-util")]
    pub(super) fn mailbox(&self) -> &Arc<str> {
        &self.place.mailbox
    }

    pub(super) fn is_of(&self, mailbox: &str) -> bool {
        *self.place.mailbox == *mailbox
    }

    pub(super) const fn seen(&self) -> Seen {
        Seen { state: self.state, changed_at: self.changed_at, attempts: self.attempts, rows: self.rows }
    }

    fn cost(&self) -> Cost {
        let packed = Cost {
            requests: 1,
            recipients: u32::from(self.recipients),
            external_recipients: u32::from(self.external_recipients),
            quota_units: 0,
            bytes: u64::from(self.bytes),
        };
        self.more.as_ref().and_then(|more| more.cost).unwrap_or(packed)
    }

    fn not_before(&self) -> Timestamp {
        self.more.as_ref().and_then(|more| more.not_before).unwrap_or(self.submitted_at)
    }

    fn next_at(&self) -> Option<Timestamp> {
        self.more.as_ref().and_then(|more| more.next_at)
    }

    /// As [`OperationQuery::wants`] of its record, without making one.
    pub(super) fn is_wanted(&self, query: &OperationQuery) -> bool {
        let is_eligible = |at| OperationRecord::eligible(self.state, self.not_before(), self.next_at(), at);
        query.state.is_none_or(|state| state == self.state)
            && query.mailbox.as_ref().is_none_or(|mailbox| self.is_of(mailbox))
            && query.lane.is_none_or(|lane| lane == self.lane)
            && (query.tenant.is_none() || query.tenant == self.place.tenant)
            && (query.campaign.is_none() || query.campaign == self.place.campaign)
            && query.eligible_at.is_none_or(is_eligible)
    }

    pub(super) fn record(&self) -> OperationRecord {
        let Place { mailbox, tenant, campaign } = &*self.place;
        let more = self.more.as_deref();
        OperationRecord {
            key: self.key,
            id: Arc::clone(&self.id),
            mailbox: Arc::clone(mailbox),
            lane: self.lane,
            tenant: tenant.clone(),
            campaign: campaign.clone(),
            cost: self.cost(),
            state: self.state,
            submitted_at: self.submitted_at,
            not_before: self.not_before(),
            deadline: self.deadline,
            changed_at: self.changed_at,
            next_at: self.next_at(),
            attempts: self.attempts,
            rows: self.rows,
            last_status: more.and_then(|more| more.last_status),
            provider_id: more.and_then(|more| more.provider_id.clone()),
            order: more.and_then(|more| more.order.clone()),
        }
    }

    /// Its attempt rows.
    pub(super) fn tried(&self) -> impl Iterator<Item = AttemptRecord> {
        let all = self.more.iter().flat_map(|more| more.first.iter().chain(&more.others));
        all.map(|tried| AttemptRecord {
            key: self.key,
            attempt: tried.attempt,
            mailbox: Arc::clone(&self.place.mailbox),
            lane: self.lane,
            tenant: self.place.tenant.clone(),
            cost: tried.cost,
            claimed_at: tried.claimed_at,
            finished_at: tried.finished_at,
        })
    }

    pub(super) fn claim(&mut self, claim: &Claim) {
        let tried = Tried { attempt: claim.attempt, cost: claim.cost, claimed_at: claim.at, finished_at: None };
        let more = self.more_mut();
        match more.first {
            None => more.first = Some(tried),
            Some(_) => more.others.push(tried),
        }
        more.next_at = None;
        (self.rows, self.state, self.changed_at) = (claim.attempt, OperationState::Attempting, claim.at);
    }

    pub(super) fn apply(&mut self, record: &Record) {
        if self.state == OperationState::Attempting {
            self.end_attempt(record);
        }
        (self.state, self.changed_at, self.attempts) = (record.state, record.at, record.attempts);
        if let Some(deadline) = record.order.as_ref().and_then(|order| order.deadline) {
            self.deadline = deadline;
        }
        let says = record.next_at.is_some() || record.status.is_some() || record.provider_id.is_some();
        if self.more.is_none() && !says && record.order.is_none() {
            return;
        }
        let more = self.more_mut();
        more.next_at = record.next_at;
        more.last_status = record.status.or(more.last_status);
        if record.provider_id.is_some() {
            more.provider_id.clone_from(&record.provider_id);
        }
        if let Some(order) = &record.order {
            more.order = Some(Arc::new(OrderWords { deadline: None, ..OrderWords::clone(order) }));
        }
    }

    fn end_attempt(&mut self, record: &Record) {
        let Some(more) = &mut self.more else { return };
        if record.transition == Transition::Void {
            if more.others.pop().is_none() {
                more.first = None;
            }
            return;
        }
        // A lost one is not known to have ended: its charge counts from its claim.
        if record.transition.ends_attempt()
            && let Some(tried) = more.others.last_mut().or(more.first.as_mut())
        {
            tried.finished_at = Some(record.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_takes_a_hundred_and_four_bytes() {
        assert_eq!(size_of::<Row>(), 104);
    }
}
