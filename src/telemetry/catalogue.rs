//! Every name, target, level and field that `tracing` subscribers see. Only here and in the folder beside is one written.
//!
//! The catalogue is public and pinned by a snapshot: a new field is a minor change, a rename a major one. State
//! changes are `info` and above, single sends `debug`, so a process that sends thousands a second logs nothing for it
//! at the usual level. Values are rendered only when a subscriber wants the event.

mod attempt;
mod breaker;
mod hold;

use std::time::Duration;

use tracing::{Span, debug, debug_span, error, field, info, warn};

use super::instant::Rfc3339;
use super::redaction::{ShownId, ShownScope, ShownWords};
use super::{AttemptLabel, EventKind, Level, Redaction};

const BREAKER: &str = "mailweir::breaker";
const BUDGET: &str = "mailweir::budget";
const OPERATION: &str = "mailweir::operation";
const LANE: &str = "mailweir::lane";
const RESUME: &str = "mailweir::resume";
const SEND: &str = "mailweir::send";
const STORE: &str = "mailweir::store";
const ACTOR: &str = "mailweir::actor";

const BREAKER_OPENED: &str = "breaker.scope.opened";
const BREAKER_EXTENDED: &str = "breaker.scope.extended";
const BREAKER_HALF_OPENED: &str = "breaker.scope.half_opened";
const BREAKER_CLOSED: &str = "breaker.scope.closed";
const RESERVATION_DENIED: &str = "budget.reservation.denied";
const OPERATION_DEFERRED: &str = "operation.send.deferred";
const OPERATION_QUARANTINED: &str = "operation.send.quarantined";
const OPERATION_EXHAUSTED: &str = "operation.send.exhausted";
const OPERATION_RELEASED: &str = "operation.send.released";
const BACKGROUND_CAPPED: &str = "lane.background.capped";
const QUEUE_FULL: &str = "lane.queue.full";
const RESUME_PLANNED: &str = "resume.wave.planned";
const RESUME_FINISHED: &str = "resume.wave.finished";
const ATTEMPT_FINISHED: &str = "send.attempt.finished";
const TRANSPORT_PANICKED: &str = "send.transport.panicked";
const PERMIT_ABANDONED: &str = "send.permit.abandoned";
const STORE_DEGRADED: &str = "store.backend.degraded";
const STORE_RECOVERED: &str = "store.backend.recovered";
const STORE_FAILED: &str = "store.backend.failed";
const STORE_CONTRADICTED: &str = "store.record.contradicted";
const NOTE_UNREADABLE: &str = "store.note.unreadable";
const ACTOR_RESTARTED: &str = "mailbox.actor.restarted";
const ACTOR_HELD: &str = "mailbox.actor.held";
const SENDS_SUSPENDED: &str = "mailbox.sends.suspended";
const SHUTDOWN_FINISHED: &str = "scheduler.shutdown.finished";

/// The outcome that is louder than the others: nobody knows what became of it.
pub(super) const UNKNOWN: &str = "unknown";

/// The public name of an event.
pub(super) const fn name(kind: &EventKind) -> &'static str {
    match kind {
        EventKind::BreakerOpened { .. } => BREAKER_OPENED,
        EventKind::BreakerExtended { .. } => BREAKER_EXTENDED,
        EventKind::BreakerHalfOpened { .. } => BREAKER_HALF_OPENED,
        EventKind::BreakerClosed { .. } => BREAKER_CLOSED,
        EventKind::ReservationDenied { .. } => RESERVATION_DENIED,
        EventKind::OperationDeferred { .. } => OPERATION_DEFERRED,
        EventKind::OperationQuarantined { .. } => OPERATION_QUARANTINED,
        EventKind::OperationExhausted { .. } => OPERATION_EXHAUSTED,
        EventKind::OperationReleased { .. } => OPERATION_RELEASED,
        EventKind::BackgroundCapped { .. } => BACKGROUND_CAPPED,
        EventKind::QueueFull { .. } => QUEUE_FULL,
        EventKind::ResumePlanned { .. } => RESUME_PLANNED,
        EventKind::ResumeFinished { .. } => RESUME_FINISHED,
        EventKind::AttemptFinished { .. } => ATTEMPT_FINISHED,
        EventKind::StoreDegraded { .. } => STORE_DEGRADED,
        EventKind::StoreRecovered { .. } => STORE_RECOVERED,
        EventKind::StoreFailed { .. } => STORE_FAILED,
        EventKind::StoreContradicted { .. } => STORE_CONTRADICTED,
        EventKind::NoteUnreadable { .. } => NOTE_UNREADABLE,
        EventKind::ActorRestarted { .. } => ACTOR_RESTARTED,
        EventKind::ActorHeld { .. } => ACTOR_HELD,
        EventKind::SendsSuspended { .. } => SENDS_SUSPENDED,
        EventKind::TransportPanicked { .. } => TRANSPORT_PANICKED,
        EventKind::PermitAbandoned { .. } => PERMIT_ABANDONED,
        EventKind::ShutdownFinished { .. } => SHUTDOWN_FINISHED,
        EventKind::Hold(event) => hold::name(event),
    }
}

/// The level of an event.
pub(super) const fn level(kind: &EventKind) -> Level {
    match kind {
        EventKind::ActorRestarted { .. }
        | EventKind::ActorHeld { .. }
        | EventKind::SendsSuspended { .. }
        | EventKind::StoreFailed { .. }
        | EventKind::StoreContradicted { .. }
        | EventKind::NoteUnreadable { .. }
        | EventKind::TransportPanicked { .. } => Level::Error,
        EventKind::BreakerOpened { .. }
        | EventKind::BreakerExtended { .. }
        | EventKind::QueueFull { .. }
        | EventKind::OperationQuarantined { .. }
        | EventKind::OperationExhausted { .. }
        | EventKind::PermitAbandoned { .. }
        | EventKind::StoreDegraded { .. } => Level::Warn,
        EventKind::AttemptFinished { outcome, .. } if is_unknown(outcome) => Level::Warn,
        EventKind::BreakerHalfOpened { .. }
        | EventKind::BreakerClosed { .. }
        | EventKind::OperationReleased { .. }
        | EventKind::ResumePlanned { .. }
        | EventKind::ResumeFinished { .. }
        | EventKind::StoreRecovered { .. }
        | EventKind::ShutdownFinished { .. } => Level::Info,
        EventKind::ReservationDenied { .. }
        | EventKind::OperationDeferred { .. }
        | EventKind::BackgroundCapped { .. }
        | EventKind::AttemptFinished { .. } => Level::Debug,
        EventKind::Hold(event) => hold::level(event),
    }
}

/// Emits the one `tracing` event of `kind`.
pub(super) fn trace(kind: &EventKind, redaction: Redaction) {
    match kind {
        EventKind::BreakerOpened { .. }
        | EventKind::BreakerExtended { .. }
        | EventKind::BreakerHalfOpened { .. }
        | EventKind::BreakerClosed { .. } => breaker::trace(kind, redaction),
        EventKind::ReservationDenied { .. }
        | EventKind::BackgroundCapped { .. }
        | EventKind::QueueFull { .. }
        | EventKind::ResumePlanned { .. }
        | EventKind::ResumeFinished { .. } => flow(kind, redaction),
        EventKind::OperationDeferred { .. }
        | EventKind::OperationQuarantined { .. }
        | EventKind::OperationExhausted { .. }
        | EventKind::OperationReleased { .. }
        | EventKind::AttemptFinished { .. } => operation(kind, redaction),
        EventKind::Hold(event) => hold::trace(event, redaction),
        EventKind::NoteUnreadable { store, note, count } => error!(
            name: NOTE_UNREADABLE, target: STORE, { store.kind = store, note, count }, "store holds notes that cannot be read"
        ),
        EventKind::StoreDegraded { .. }
        | EventKind::StoreRecovered { .. }
        | EventKind::StoreFailed { .. }
        | EventKind::StoreContradicted { .. }
        | EventKind::ActorRestarted { .. }
        | EventKind::ActorHeld { .. }
        | EventKind::SendsSuspended { .. }
        | EventKind::TransportPanicked { .. }
        | EventKind::PermitAbandoned { .. }
        | EventKind::ShutdownFinished { .. } => process(kind, redaction),
    }
}

fn flow(kind: &EventKind, redaction: Redaction) {
    match kind {
        EventKind::ReservationDenied { scope, window, frees_at, lane, cost } => debug!(
            name: RESERVATION_DENIED, target: BUDGET, {
                scope = %ShownScope(scope, redaction),
                budget.window = %window,
                budget.frees_at = %Rfc3339(*frees_at),
                %lane,
                cost,
            },
            "reservation denied"
        ),
        EventKind::BackgroundCapped { scope, share, depth, oldest_age } => debug!(
            name: BACKGROUND_CAPPED, target: LANE, {
                scope = %ShownScope(scope, redaction),
                lane = "background",
                lane.share = %share,
                lane.depth = depth,
                lane.oldest_age_ms = oldest_age.map(millis),
            },
            "background capped"
        ),
        EventKind::QueueFull { scope, lane, depth, oldest_age } => warn!(
            name: QUEUE_FULL, target: LANE, {
                scope = %ShownScope(scope, redaction),
                %lane,
                lane.depth = depth,
                lane.oldest_age_ms = oldest_age.map(millis),
            },
            "lane queue full"
        ),
        EventKind::ResumePlanned { scope, count, spread, first_at, last_at } => info!(
            name: RESUME_PLANNED, target: RESUME, {
                scope = %ShownScope(scope, redaction),
                resume.count = count,
                resume.spread_ms = millis(*spread),
                resume.first_at = %Rfc3339(*first_at),
                resume.last_at = %Rfc3339(*last_at),
            },
            "resumption planned"
        ),
        EventKind::ResumeFinished { scope, count, spread, first_at, last_at } => info!(
            name: RESUME_FINISHED, target: RESUME, {
                scope = %ShownScope(scope, redaction),
                resume.count = count,
                resume.spread_ms = millis(*spread),
                resume.first_at = %Rfc3339(*first_at),
                resume.last_at = %Rfc3339(*last_at),
            },
            "resumption finished"
        ),
        _ => {}
    }
}

fn operation(kind: &EventKind, redaction: Redaction) {
    match kind {
        EventKind::OperationDeferred { operation_id, mailbox, lane, constraint, until } => debug!(
            name: OPERATION_DEFERRED, target: OPERATION, {
                operation.id = operation_id.as_deref(),
                mailbox = shown(mailbox.as_deref(), redaction).map(field::display),
                %lane,
                %constraint,
                until = %Rfc3339(*until),
            },
            "operation deferred"
        ),
        EventKind::OperationQuarantined { operation_id, mailbox, lane, reason } => warn!(
            name: OPERATION_QUARANTINED, target: OPERATION, {
                operation.id = operation_id.as_deref(),
                mailbox = shown(mailbox.as_deref(), redaction).map(field::display),
                %lane,
                reason = reason.as_str(),
            },
            "operation quarantined"
        ),
        EventKind::OperationExhausted { operation_id, mailbox, lane, reason, attempts, maybe_sent } => warn!(
            name: OPERATION_EXHAUSTED, target: OPERATION, {
                operation.id = operation_id.as_deref(),
                mailbox = shown(mailbox.as_deref(), redaction).map(field::display),
                %lane,
                reason = reason.as_str(),
                attempts,
                maybe_sent,
            },
            "operation exhausted"
        ),
        EventKind::OperationReleased { operation_id, mailbox, lane } => info!(
            name: OPERATION_RELEASED, target: OPERATION, {
                operation.id = operation_id.as_deref(),
                mailbox = shown(mailbox.as_deref(), redaction).map(field::display),
                %lane,
            },
            "operation released"
        ),
        EventKind::AttemptFinished { .. } => attempt::trace(kind, redaction),
        _ => {}
    }
}

fn store(kind: &EventKind, redaction: Redaction) {
    match kind {
        EventKind::StoreDegraded { store, policy } => warn!(
            name: STORE_DEGRADED, target: STORE, {
                store.kind = store, store.policy = policy.as_str(),
            },
            "store degraded"
        ),
        EventKind::StoreRecovered { store, policy } => info!(
            name: STORE_RECOVERED, target: STORE, {
                store.kind = store, store.policy = policy.as_str(),
            },
            "store recovered"
        ),
        EventKind::StoreContradicted { store, mailbox, error } => error!(
            name: STORE_CONTRADICTED, target: STORE, {
                store.kind = store, mailbox = %ShownId(mailbox, redaction),
                error = %ShownWords { words: error, mailbox, redaction },
            },
            "store contradicts a record"
        ),
        EventKind::StoreFailed { store, mailbox, error } => error!(
            name: STORE_FAILED, target: STORE, {
                store.kind = store, mailbox = %ShownId(mailbox, redaction),
                error = %ShownWords { words: error, mailbox, redaction },
            },
            "store failed"
        ),
        _ => {}
    }
}

fn process(kind: &EventKind, redaction: Redaction) {
    match kind {
        EventKind::StoreDegraded { .. }
        | EventKind::StoreRecovered { .. }
        | EventKind::StoreContradicted { .. }
        | EventKind::StoreFailed { .. } => store(kind, redaction),
        EventKind::ActorRestarted { mailbox, restarts, reason } => error!(
            name: ACTOR_RESTARTED, target: ACTOR, {
                mailbox = %ShownId(mailbox, redaction), restarts, reason,
            },
            "mailbox actor restarted"
        ),
        EventKind::ActorHeld { mailbox, restarts, reason } => error!(
            name: ACTOR_HELD, target: ACTOR, {
                mailbox = %ShownId(mailbox, redaction), restarts, reason,
            },
            "mailbox actor held"
        ),
        EventKind::SendsSuspended { scope, of, status } => error!(
            name: SENDS_SUSPENDED, target: ACTOR, {
                scope = %ShownScope(scope, redaction),
                reason = of.as_str(),
                http.response.status_code = status,
            },
            "sends suspended"
        ),
        EventKind::TransportPanicked { mailbox } => error!(
            name: TRANSPORT_PANICKED, target: SEND, {
                mailbox = %ShownId(mailbox, redaction),
            },
            "transport panicked"
        ),
        EventKind::PermitAbandoned { mailbox } => warn!(
            name: PERMIT_ABANDONED, target: SEND, {
                mailbox = %ShownId(mailbox, redaction),
            },
            "permit abandoned"
        ),
        EventKind::ShutdownFinished { accepted, returned, unknown } => info!(
            name: SHUTDOWN_FINISHED, target: ACTOR, {
                accepted, returned, unknown,
            },
            "scheduler shutdown finished"
        ),
        _ => {}
    }
}

/// The span of one attempt. The names follow OpenTelemetry's messaging conventions and are not promised.
pub(super) fn attempt_span(label: &AttemptLabel<'_>, redaction: Redaction) -> Span {
    debug_span!(
        target: SEND,
        parent: None,
        "send.attempt",
        otel.name = %format_args!("send {}", label.lane),
        otel.kind = "client",
        messaging.operation.name = "send",
        operation.id = &**label.operation_id,
        mailbox = shown(Some(label.mailbox), redaction).map(field::display),
        lane = %label.lane,
        attempt = label.attempt,
        error.type = field::Empty,
    )
}

/// Marks an attempt's span as failed.
pub(super) fn mark_failed(span: &Span, outcome: &'static str) {
    span.record("error.type", outcome);
}

/// `span` in whole milliseconds, saturating.
pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn shown(id: Option<&str>, redaction: Redaction) -> Option<ShownId<'_>> {
    id.filter(|_| redaction != Redaction::Omitted).map(|id| ShownId(id, redaction))
}

/// String comparison that a `const fn` may do.
const fn is_unknown(outcome: &str) -> bool {
    let (left, right) = (outcome.as_bytes(), UNKNOWN.as_bytes());
    if left.len() != right.len() {
        return false;
    }
    let mut index = 0;
    while index < left.len() {
        if left[index] != right[index] {
            return false;
        }
        index += 1;
    }
    true
}
