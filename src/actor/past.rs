//! From what the store remembers to what the engine understands.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::mailbox::{Outcome, PastAttempt, RestoredOperation};
use crate::engine::operation::OperationKind;
use crate::engine::policy::{GuardPolicy, ScopePolicy, clock_slack};
use crate::engine::spread::fnv1a;
use crate::engine::{Operation, OperationState, Subject, Timestamp};
use crate::store::{AttemptRecord, Note, NoteKind, OperationRecord, Outline, PermitNote};

/// An operation as the engine takes it.
pub(crate) fn operation(record: &OperationRecord) -> Operation {
    Operation {
        key: record.key,
        id_hash: fnv1a(record.id.as_bytes()),
        lane: record.lane,
        kind: OperationKind::Send,
        tenant: record.tenant.clone(),
        campaign: record.campaign.clone(),
        cost: record.cost,
        submitted_at: record.submitted_at,
        not_before: record.not_before,
        deadline: record.deadline,
        attempts: record.attempts,
    }
}

/// An operation with where it was.
pub(crate) fn restored(record: &OperationRecord) -> RestoredOperation {
    RestoredOperation {
        operation: operation(record),
        state: record.state,
        next_at: record.next_at,
        rows: record.rows,
        changed_at: record.changed_at,
        maybe_sent: record.maybe_sent,
        crashes: 0,
        requested: None,
        accepted: None,
    }
}

/// An attempt as the ledger takes it.
pub(crate) const fn attempt(record: &AttemptRecord) -> PastAttempt {
    let AttemptRecord { key, lane, cost, claimed_at, finished_at, leaves, .. } = *record;
    // Attempts of operations are numbered from 1.
    let kind = if record.attempt == 0 { OperationKind::Permit } else { OperationKind::Send };
    PastAttempt { key, lane, cost, claimed_at, finished_at, kind, leaves }
}

/// The same of what a permit took.
pub(crate) const fn permit(note: &PermitNote) -> PastAttempt {
    let PermitNote { key, lane, cost, claimed_at, finished_at, leaves, .. } = *note;
    PastAttempt { key, lane, cost, claimed_at, finished_at, kind: OperationKind::Permit, leaves }
}

/// How an operation ended, if it has.
pub(crate) fn outcome(record: &OperationRecord) -> Option<Outcome> {
    Some(match record.state {
        OperationState::Accepted => {
            Outcome::Accepted { provider_id: record.provider_id.clone(), attempts: record.rows }
        }
        OperationState::Rejected => Outcome::Rejected { of: Subject::Message, status: record.last_status },
        OperationState::Exhausted => {
            let (attempts, maybe_sent) = (record.attempts, record.maybe_sent);
            Outcome::Exhausted { attempts, throttled: None, maybe_sent }
        }
        OperationState::Cancelled => Outcome::Cancelled { maybe_sent: record.maybe_sent },
        OperationState::Quarantined => Outcome::Quarantined,
        OperationState::Admitted
        | OperationState::Queued
        | OperationState::Attempting
        | OperationState::Deferred
        | OperationState::Unknown => return None,
    })
}

/// How long an attempt counts in a window, from its claim on: it may take as long as one may, its end is rounded up to a
/// sub-bucket, and clocks differ. To the second above.
pub(crate) fn counts_for(window: Duration, guard: &GuardPolicy) -> Duration {
    let bucket = window / guard.sub_buckets.max(1);
    let spans = [window, bucket, clock_slack(guard, window), guard.request_deadline_max, Duration::from_secs(1)];
    Duration::from_secs(spans.into_iter().fold(Duration::ZERO, Duration::saturating_add).as_secs())
}

/// The instant before which no attempt can count any more: twice the longest window, so that no margin of the ledger
/// (clock error, sub-buckets, the time a request may linger) reaches beyond it.
pub(crate) fn horizon(now: Timestamp, scope: &ScopePolicy, guard: &GuardPolicy) -> Timestamp {
    let longest = scope.limits.iter().map(|limit| limit.window()).max().unwrap_or_default();
    now.before(longest.saturating_mul(2)).before(guard.request_deadline_max)
}

/// The same for a whole configuration: every mailbox and every shared scope.
pub(crate) fn horizon_of<'a>(
    now: Timestamp,
    scopes: impl Iterator<Item = &'a ScopePolicy>,
    guard: &GuardPolicy,
) -> Timestamp {
    scopes.map(|scope| horizon(now, scope, guard)).min().unwrap_or(now)
}

/// The mailboxes that begin at once, each once: those with operations, as the store lists them, then those whose breakers
/// have something to remember or are open by hand.
pub(crate) fn mailboxes(outline: &Outline, now: Timestamp) -> Vec<Arc<str>> {
    let mut seen = std::collections::HashSet::new();
    let troubled = |note: &&Note| matches!(note.key.kind, NoteKind::Breaker | NoteKind::Trip) && note.until > now;
    let troubled = outline.recovery.notes.iter().filter(troubled).filter_map(|note| note.key.mailbox.as_ref());
    let of_operations = outline.recovery.operations.iter().map(|record| &record.mailbox);
    let of_operations = of_operations.chain(outline.apart.iter().flat_map(|apart| &apart.waiting));
    of_operations.chain(troubled).filter(|id| seen.insert(Arc::clone(id))).map(Arc::clone).collect()
}
