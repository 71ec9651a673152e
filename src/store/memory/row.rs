//! One operation of a store in memory, in few bytes: a million of them may wait.
//!
//! What every operation has lies in the row; what only some have (attempts, a later start, an odd cost, a person's
//! words) lies in a block of its own, made when it first moves. Mailbox, tenant and campaign are one number.

use std::sync::Arc;

use super::places::{Names, Places};
use super::run::NIL;
use super::shelf::Shelves;
use crate::email::Email;
use crate::engine::mailbox::Record;
use crate::engine::operation::{OrderWords, Transition};
use crate::engine::{Cost, Lane, Leaves, OperationKey, OperationState, Timestamp};
use crate::store::rules::Seen;
use crate::store::{AttemptRecord, Claim, Keyed, NewOperation, OperationQuery, OperationRecord, PackedId};

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: OperationKey,
    pub(super) id: PackedId,
    pub(super) fingerprint: u64,
    pub(super) email: Option<Email>,
    submitted_at: Timestamp,
    deadline: Timestamp,
    more: Option<Box<More>>,
    /// Where it belongs.
    pub(super) place: u32,
    /// Earlier and later rows of its run.
    pub(super) links: [u32; 2],
    /// Its cost, unless that is odd: one request, and these.
    bytes: u32,
    recipients: u16,
    external_recipients: u16,
    pub(super) lane: Lane,
    pub(super) state: OperationState,
}

/// What only some operations have: those that have moved, first of all.
#[derive(Clone, Debug, Default)]
struct More {
    cost: Option<Cost>,
    not_before: Option<Timestamp>,
    /// When its state last changed, if it has.
    changed_at: Option<Timestamp>,
    next_at: Option<Timestamp>,
    attempts: u32,
    /// The highest number of an attempt row written.
    rows: u32,
    last_status: Option<u16>,
    provider_id: Option<String>,
    maybe_sent: bool,
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
    leaves: Leaves,
}

impl Keyed for Row {
    fn key(&self) -> OperationKey {
        self.key
    }
}

impl Row {
    /// A row that stands nowhere yet.
    pub(super) fn new(new: NewOperation, shelves: &mut Shelves) -> Self {
        let (state, place) = (new.first_row().state, shelves.enter(&new));
        let NewOperation { key, id, fingerprint, lane, cost, submitted_at, not_before, deadline, email, .. } = new;
        let mut row = Self {
            key,
            id: id.into(),
            fingerprint,
            email: Some(email),
            submitted_at,
            deadline,
            more: None,
            place,
            links: [NIL; 2],
            bytes: 0,
            recipients: 0,
            external_recipients: 0,
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

    pub(super) fn seen(&self) -> Seen {
        let more = self.more.as_deref();
        let (attempts, rows) = more.map_or((0, 0), |more| (more.attempts, more.rows));
        Seen { state: self.state, changed_at: self.changed_at(), attempts, rows }
    }

    fn changed_at(&self) -> Timestamp {
        self.more.as_ref().and_then(|more| more.changed_at).unwrap_or(self.submitted_at)
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

    /// The instant under which it stands beside its run: of those that may wait long, in long runs.
    pub(super) fn waits_until(&self) -> Option<Timestamp> {
        match self.state {
            OperationState::Admitted => Some(self.not_before()),
            OperationState::Deferred => Some(self.next_at().unwrap_or(Timestamp::EPOCH)),
            _ => None,
        }
    }

    /// Whether it could go at an instant, where that is asked.
    pub(super) fn is_eligible(&self, at: Option<Timestamp>) -> bool {
        at.is_none_or(|at| OperationRecord::eligible(self.state, self.not_before(), self.next_at(), at))
    }

    /// As [`OperationQuery::wants`] of its record, without making one. `group`: the query's names, as numbers.
    pub(super) fn is_wanted(&self, query: &OperationQuery, group: Names, places: &Places) -> bool {
        let names = places.get(self.place).names;
        query.state.is_none_or(|state| state == self.state)
            && query.lane.is_none_or(|lane| lane == self.lane)
            && group.into_iter().zip(names).all(|(wanted, name)| wanted == NIL || wanted == name)
            && self.is_eligible(query.eligible_at)
    }

    pub(super) fn record(&self, places: &Places) -> OperationRecord {
        let [mailbox, tenant, campaign] = places.get(self.place).names;
        let more = self.more.as_deref();
        let Seen { state, changed_at, attempts, rows } = self.seen();
        OperationRecord {
            key: self.key,
            id: self.id.text(),
            mailbox: places.name(mailbox).cloned().unwrap_or_default(),
            lane: self.lane,
            tenant: places.name(tenant).cloned(),
            campaign: places.name(campaign).cloned(),
            cost: self.cost(),
            state,
            submitted_at: self.submitted_at,
            not_before: self.not_before(),
            deadline: self.deadline,
            changed_at,
            next_at: self.next_at(),
            attempts,
            rows,
            last_status: more.and_then(|more| more.last_status),
            provider_id: more.and_then(|more| more.provider_id.clone()),
            maybe_sent: more.is_some_and(|more| more.maybe_sent),
            order: more.and_then(|more| more.order.clone()),
        }
    }

    /// Its attempt rows.
    pub(super) fn tried<'a>(&'a self, places: &'a Places) -> impl Iterator<Item = AttemptRecord> + 'a {
        let [mailbox, tenant, _] = places.get(self.place).names;
        let all = self.more.iter().flat_map(|more| more.first.iter().chain(&more.others));
        all.map(move |tried| AttemptRecord {
            key: self.key,
            attempt: tried.attempt,
            mailbox: places.name(mailbox).cloned().unwrap_or_default(),
            lane: self.lane,
            tenant: places.name(tenant).cloned(),
            cost: tried.cost,
            claimed_at: tried.claimed_at,
            finished_at: tried.finished_at,
            leaves: tried.leaves,
        })
    }

    pub(super) fn claim(&mut self, claim: &Claim) {
        let Claim { attempt, cost, at, .. } = *claim;
        let tried = Tried { attempt, cost, claimed_at: at, finished_at: None, leaves: Leaves::All };
        let more = self.more_mut();
        match more.first {
            None => more.first = Some(tried),
            Some(_) => more.others.push(tried),
        }
        (more.next_at, more.rows, more.changed_at) = (None, claim.attempt, Some(claim.at));
        self.state = OperationState::Attempting;
    }

    pub(super) fn apply(&mut self, record: &Record) {
        if self.state == OperationState::Attempting {
            self.end_attempt(record);
        }
        self.state = record.state;
        if let Some(deadline) = record.order.as_ref().and_then(|order| order.deadline) {
            self.deadline = deadline;
        }
        let more = self.more_mut();
        (more.changed_at, more.attempts, more.next_at) = (Some(record.at), record.attempts, record.next_at);
        more.last_status = record.status.or(more.last_status);
        more.maybe_sent |= record.maybe_sent;
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
            (tried.finished_at, tried.leaves) = (Some(record.at), record.leaves);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_takes_ninety_six_bytes() {
        assert_eq!(size_of::<Row>(), 96);
    }
}
