//! What outlives the process beside the operations, in the store's words and in ours.
//!
//! A note that this version cannot read as what its key says is passed over: the rest of a restart must not hang on
//! one sentence. Names of scopes are the ones that people see (`tenant:acme`).

use std::sync::Arc;
use std::time::Duration;

use super::admissions::Kept;
use super::holds::{HoldFacts, HoldScope, TripFacts, WideningFacts};
use crate::engine::breaker::BreakerMemory;
use crate::engine::{OperationKey, Scope, Timestamp};
use crate::store::{
    AdmissionNote, AttemptRecord, CrashNote, KeyHash, Note, NoteBody, NoteChange, NoteKey, NoteKind, OrderNote,
    PermitNote, Recovery, RequestNote,
};

impl HoldFacts {
    pub(crate) fn key(scope: &HoldScope) -> NoteKey {
        NoteKey { kind: NoteKind::Hold, mailbox: None, name: scope.to_string().into() }
    }

    pub(crate) fn note(&self) -> Note {
        let widening = self.widening.as_ref().map(WideningFacts::note);
        let order = OrderNote { reason: Arc::clone(&self.reason), by: self.by.clone(), widening };
        Note { key: Self::key(&self.scope), at: self.since, until: self.until, body: NoteBody::Order(order) }
    }

    pub(crate) fn read(note: &Note) -> Option<Self> {
        let (NoteKind::Hold, NoteBody::Order(OrderNote { reason, by, widening })) = (note.key.kind, &note.body) else {
            return None;
        };
        let scope = HoldScope::parse(&note.key.name)?;
        let widening = widening.as_deref().map(WideningFacts::read);
        Some(Self { scope, reason: Arc::clone(reason), by: by.clone(), since: note.at, until: note.until, widening })
    }
}

impl TripFacts {
    pub(crate) fn key(scope: &Scope) -> NoteKey {
        of_scope(NoteKind::Trip, scope)
    }

    pub(crate) fn note(&self) -> Note {
        let order = OrderNote { reason: Arc::clone(&self.reason), by: self.by.clone(), widening: None };
        Note { key: Self::key(&self.scope), at: self.since, until: self.until, body: NoteBody::Order(order) }
    }

    pub(crate) fn read(note: &Note) -> Option<Self> {
        let (NoteKind::Trip, NoteBody::Order(OrderNote { reason, by, .. })) = (note.key.kind, &note.body) else {
            return None;
        };
        let scope = scope(&note.key)?;
        Some(Self { scope, reason: Arc::clone(reason), by: by.clone(), since: note.at, until: note.until })
    }
}

/// The key of what a scope's breaker remembers.
fn breaker_key(scope: &Scope) -> NoteKey {
    of_scope(NoteKind::Breaker, scope)
}

/// What a breaker has to remember from now on.
pub(crate) fn breaker(at: Timestamp, scope: &Scope, memory: Option<Box<BreakerMemory>>) -> NoteChange {
    let key = breaker_key(scope);
    match memory {
        Some(memory) => NoteChange::Keep(Note { key, at, until: memory.ends_at(), body: NoteBody::Breaker(memory) }),
        None => NoteChange::Drop(key),
    }
}

/// The breakers that are remembered, with their scopes.
pub(crate) fn breakers(notes: &[Note]) -> impl Iterator<Item = (Scope, &BreakerMemory)> {
    notes.iter().filter_map(|note| match &note.body {
        NoteBody::Breaker(memory) => Some((scope(&note.key)?, &**memory)),
        _ => None,
    })
}

/// The key of a permit's charge.
pub(crate) fn permit_key(mailbox: &Arc<str>, key: OperationKey) -> NoteKey {
    NoteKey { kind: NoteKind::Permit, mailbox: Some(Arc::clone(mailbox)), name: key.0.to_string().into() }
}

/// A permit's charge, which can count until `until`.
pub(crate) fn permit(mailbox: &Arc<str>, permit: PermitNote, at: Timestamp, until: Timestamp) -> NoteChange {
    NoteChange::Keep(Note { key: permit_key(mailbox, permit.key), at, until, body: NoteBody::Permit(permit) })
}

/// What earlier attempts and permits took, as far as it can count since `since`.
pub(crate) fn charges(recovery: &Recovery, since: Timestamp) -> impl Iterator<Item = AttemptRecord> {
    let permits = recovery.notes.iter().filter_map(|note| match (&note.body, &note.key.mailbox) {
        (NoteBody::Permit(permit), Some(mailbox)) => Some(AttemptRecord {
            key: permit.key,
            attempt: 0,
            mailbox: Arc::clone(mailbox),
            lane: permit.lane,
            tenant: permit.tenant.clone(),
            cost: permit.cost,
            claimed_at: permit.claimed_at,
            finished_at: permit.finished_at,
            leaves: permit.leaves,
        }),
        _ => None,
    });
    let counts = move |permit: &AttemptRecord| permit.finished_at.is_none_or(|at| at >= since);
    recovery.attempts.iter().cloned().chain(permits.filter(counts))
}

/// The highest number that a permit of an earlier life has.
pub(crate) fn last_permit(notes: &[Note]) -> Option<OperationKey> {
    let permits = notes.iter().filter_map(|note| match &note.body {
        NoteBody::Permit(permit) => Some(permit.key),
        _ => None,
    });
    permits.max()
}

/// An admission key, hashed, and the operation that it admits.
pub(crate) fn admission(mailbox: &Arc<str>, key: KeyHash, id: &Arc<str>, (at, until): (Timestamp, Timestamp)) -> Note {
    let key = NoteKey { kind: NoteKind::Admission, mailbox: Some(Arc::clone(mailbox)), name: key.to_string().into() };
    Note { key, at, until, body: NoteBody::Admission(AdmissionNote { id: Arc::clone(id) }) }
}

/// Admission keys that counted when they were read.
pub(crate) fn admissions(notes: &[Note]) -> impl Iterator<Item = Kept> {
    notes.iter().filter_map(|note| match &note.body {
        NoteBody::Admission(admitted) => {
            let hash = KeyHash::parse(&note.key.name)?;
            Some(Kept { hash, id: Arc::clone(&admitted.id), until: note.until })
        }
        _ => None,
    })
}

/// How long an order that waits for the end of an attempt is kept, if no end of it comes: a year.
const REQUEST_FOR: Duration = Duration::from_secs(365 * 86_400);

/// How long a count of crashes is kept, if its operation comes to no end: a year.
const CRASH_FOR: Duration = REQUEST_FOR;

/// The key of an order that waits for the end of an attempt.
pub(crate) fn request_key(mailbox: &Arc<str>, key: OperationKey) -> NoteKey {
    NoteKey { kind: NoteKind::Request, mailbox: Some(Arc::clone(mailbox)), name: key.0.to_string().into() }
}

/// Such an order.
pub(crate) fn request(mailbox: &Arc<str>, key: OperationKey, request: RequestNote, at: Timestamp) -> NoteChange {
    let (key, until) = (request_key(mailbox, key), at.after(REQUEST_FOR));
    NoteChange::Keep(Note { key, at, until, body: NoteBody::Request(Box::new(request)) })
}

/// Orders that waited for the end of an attempt, with their operations.
pub(crate) fn requests(notes: &[Note]) -> impl Iterator<Item = (OperationKey, &RequestNote)> {
    notes.iter().filter_map(|note| match &note.body {
        NoteBody::Request(request) => Some((OperationKey(note.key.name.parse().ok()?), &**request)),
        _ => None,
    })
}

/// The key of an operation's count of crashes.
pub(crate) fn crash_key(mailbox: &Arc<str>, key: OperationKey) -> NoteKey {
    NoteKey { kind: NoteKind::Crash, mailbox: Some(Arc::clone(mailbox)), name: key.0.to_string().into() }
}

/// How often an operation has crashed its worker.
pub(crate) fn crash(mailbox: &Arc<str>, key: OperationKey, count: CrashNote, at: Timestamp) -> NoteChange {
    let (key, until) = (crash_key(mailbox, key), at.after(CRASH_FOR));
    NoteChange::Keep(Note { key, at, until, body: NoteBody::Crash(count) })
}

/// Such counts, with their operations.
pub(crate) fn crashes(notes: &[Note]) -> impl Iterator<Item = (OperationKey, CrashNote)> {
    notes.iter().filter_map(|note| match &note.body {
        NoteBody::Crash(count) => Some((OperationKey(note.key.name.parse().ok()?), *count)),
        _ => None,
    })
}

fn of_scope(kind: NoteKind, scope: &Scope) -> NoteKey {
    let mailbox = match scope {
        Scope::Mailbox(mailbox) => Some(Arc::clone(mailbox)),
        Scope::Tenant(_) | Scope::Application => None,
    };
    NoteKey { kind, mailbox, name: scope.to_string().into() }
}

fn scope(key: &NoteKey) -> Option<Scope> {
    match (&key.mailbox, &*key.name) {
        (Some(mailbox), _) => Some(Scope::Mailbox(Arc::clone(mailbox))),
        (None, "application") => Some(Scope::Application),
        (None, name) => name.strip_prefix("tenant:").map(|tenant| Scope::Tenant(tenant.into())),
    }
}
