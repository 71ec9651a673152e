//! The events of the scheduler as public values.
//!
//! A second enum beside [`engine::Event`](crate::engine::Event), because the two change for different reasons: the
//! engine's follows the engine and speaks in its numbers; this one is a public format with ids and wall-clock times.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

use super::{HoldEvent, StorePolicy, catalogue, instant};
use crate::engine::operation::{ExhaustCause, QuarantineCause};
use crate::engine::{Lane, Scope, Subject, TripReason, Wall};

/// How loud an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Single sends and decisions.
    Debug,
    /// A state change that is good news or plain news.
    Info,
    /// A state change that somebody may want to know of.
    Warn,
    /// A fault.
    Error,
}

/// What happened. Serialises with its name under `event`; spans of time are whole milliseconds (`*_ms`), instants
/// RFC 3339, and an instant that will not come by itself is null.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event")]
#[non_exhaustive]
pub enum EventKind {
    /// A breaker opened: nothing leaves this scope until `until`.
    #[serde(rename = "breaker.scope.opened")]
    BreakerOpened {
        /// Which scope.
        #[serde(serialize_with = "display")]
        scope: Scope,
        /// Why.
        #[serde(serialize_with = "reason_str")]
        reason: TripReason,
        /// How long.
        #[serde(rename = "cooldown_ms", serialize_with = "millis")]
        cooldown: Duration,
        /// Until when.
        #[serde(serialize_with = "instant::serialize_option")]
        until: Option<SystemTime>,
        /// Ceilings learned so far.
        trips: u32,
        /// Operations that share this wait.
        waiting: u32,
    },
    /// A running cooldown was extended.
    #[serde(rename = "breaker.scope.extended")]
    BreakerExtended {
        /// Which scope.
        #[serde(serialize_with = "display")]
        scope: Scope,
        /// Why.
        #[serde(serialize_with = "reason_str")]
        reason: TripReason,
        /// How long from now.
        #[serde(rename = "cooldown_ms", serialize_with = "millis")]
        cooldown: Duration,
        /// The new end.
        #[serde(serialize_with = "instant::serialize_option")]
        until: Option<SystemTime>,
        /// Ceilings learned so far.
        trips: u32,
        /// Operations that share this wait.
        waiting: u32,
    },
    /// The cooldown ended: one probe may go.
    #[serde(rename = "breaker.scope.half_opened")]
    BreakerHalfOpened {
        /// Which scope.
        #[serde(serialize_with = "display")]
        scope: Scope,
        /// Why it was open.
        #[serde(serialize_with = "reason_str")]
        reason: TripReason,
        /// Ceilings learned so far.
        trips: u32,
        /// Operations that wait for the probe.
        waiting: u32,
    },
    /// Back to normal.
    #[serde(rename = "breaker.scope.closed")]
    BreakerClosed {
        /// Which scope.
        #[serde(serialize_with = "display")]
        scope: Scope,
        /// Why it was open.
        #[serde(serialize_with = "reason_str")]
        reason: TripReason,
        /// Ceilings learned so far.
        trips: u32,
    },
    /// A budget had no room.
    #[serde(rename = "budget.reservation.denied")]
    ReservationDenied {
        /// At which scope.
        #[serde(serialize_with = "display")]
        scope: Scope,
        /// Which wall.
        #[serde(serialize_with = "display")]
        window: Wall,
        /// When it frees.
        #[serde(serialize_with = "instant::serialize_option")]
        frees_at: Option<SystemTime>,
        /// Whose.
        lane: Lane,
        /// How much was asked, in the unit that the wall counts; requests where it counts none.
        cost: u64,
    },
    /// An operation waits.
    #[serde(rename = "operation.send.deferred")]
    OperationDeferred {
        /// Which; a permit has no id.
        operation_id: Option<Arc<str>>,
        /// Its mailbox.
        mailbox: Option<Arc<str>>,
        /// Its lane.
        lane: Lane,
        /// What binds it.
        #[serde(serialize_with = "display")]
        constraint: Wall,
        /// Until when.
        #[serde(serialize_with = "instant::serialize_option")]
        until: Option<SystemTime>,
    },
    /// An operation was set aside for a person.
    #[serde(rename = "operation.send.quarantined")]
    OperationQuarantined {
        /// Which.
        operation_id: Option<Arc<str>>,
        /// Its mailbox.
        mailbox: Option<Arc<str>>,
        /// Its lane.
        lane: Lane,
        /// Why.
        reason: QuarantineCause,
    },
    /// An operation ended without being accepted: its attempts or its time are used up.
    #[serde(rename = "operation.send.exhausted")]
    OperationExhausted {
        /// Which.
        operation_id: Option<Arc<str>>,
        /// Its mailbox.
        mailbox: Option<Arc<str>>,
        /// Its lane.
        lane: Lane,
        /// What is used up.
        reason: ExhaustCause,
        /// Attempts that counted.
        attempts: u32,
        /// Whether one of them may have been accepted.
        maybe_sent: bool,
    },
    /// A person let it go on.
    #[serde(rename = "operation.send.released")]
    OperationReleased {
        /// Which.
        operation_id: Option<Arc<str>>,
        /// Its mailbox.
        mailbox: Option<Arc<str>>,
        /// Its lane.
        lane: Lane,
    },
    /// Background reached its share while foreground wants the rest.
    #[serde(rename = "lane.background.capped")]
    BackgroundCapped {
        /// At which scope.
        #[serde(serialize_with = "display")]
        scope: Scope,
        /// The share.
        #[serde(serialize_with = "display")]
        share: crate::engine::Ratio,
        /// Background operations waiting.
        depth: u32,
        /// The age of the oldest, where known.
        #[serde(rename = "oldest_age_ms", serialize_with = "millis_option")]
        oldest_age: Option<Duration>,
    },
    /// A lane's queue is full; new operations are refused.
    #[serde(rename = "lane.queue.full")]
    QueueFull {
        /// At which scope.
        #[serde(serialize_with = "display")]
        scope: Scope,
        /// Which lane.
        lane: Lane,
        /// Its bound.
        depth: u32,
        /// The age of the oldest, where known.
        #[serde(rename = "oldest_age_ms", serialize_with = "millis_option")]
        oldest_age: Option<Duration>,
    },
    /// Resumptions after a cooldown were laid out.
    #[serde(rename = "resume.wave.planned")]
    ResumePlanned {
        /// Which scope.
        #[serde(serialize_with = "display")]
        scope: Scope,
        /// How many.
        count: u32,
        /// Over which span.
        #[serde(rename = "spread_ms", serialize_with = "millis")]
        spread: Duration,
        /// The first.
        #[serde(serialize_with = "instant::serialize_option")]
        first_at: Option<SystemTime>,
        /// The last.
        #[serde(serialize_with = "instant::serialize_option")]
        last_at: Option<SystemTime>,
    },
    /// The last of them went on.
    #[serde(rename = "resume.wave.finished")]
    ResumeFinished {
        /// Which scope.
        #[serde(serialize_with = "display")]
        scope: Scope,
        /// How many.
        count: u32,
        /// Over which span they went.
        #[serde(rename = "spread_ms", serialize_with = "millis")]
        spread: Duration,
        /// When the wave began.
        #[serde(serialize_with = "instant::serialize_option")]
        first_at: Option<SystemTime>,
        /// When the last of them went.
        #[serde(serialize_with = "instant::serialize_option")]
        last_at: Option<SystemTime>,
    },
    /// An attempt ended.
    #[serde(rename = "send.attempt.finished")]
    AttemptFinished {
        /// Whose; a permit has no id.
        operation_id: Option<Arc<str>>,
        /// Its mailbox.
        mailbox: Option<Arc<str>>,
        /// Its lane.
        lane: Lane,
        /// `accepted`, `throttled`, `transient`, `permanent` or `unknown`.
        outcome: &'static str,
        /// HTTP status or SMTP code.
        status: Option<u16>,
        /// The attempt's number, from 1.
        attempt: u32,
        /// From submit to the start of this attempt.
        #[serde(rename = "wait_ms", serialize_with = "millis")]
        waited: Duration,
    },
    /// A store does not answer.
    #[serde(rename = "store.backend.degraded")]
    StoreDegraded {
        /// `memory`, `sqlite`, `redis`.
        store: &'static str,
        /// What goes on meanwhile.
        policy: StorePolicy,
    },
    /// It answers again.
    #[serde(rename = "store.backend.recovered")]
    StoreRecovered {
        /// `memory`, `sqlite`, `redis`.
        store: &'static str,
        /// What went on meanwhile, and ends now.
        policy: StorePolicy,
    },
    /// A store holds something else than what was to be written of an operation: its row stays as it is.
    #[serde(rename = "store.record.contradicted")]
    StoreContradicted {
        /// `memory`, `sqlite`, `redis`.
        store: &'static str,
        /// Of which mailbox.
        mailbox: Arc<str>,
        /// Which operation, and what of it.
        error: Arc<str>,
    },
    /// A store failed in a way that only a person can mend; the mailbox is held until then.
    #[serde(rename = "store.backend.failed")]
    StoreFailed {
        /// `memory`, `sqlite`, `redis`.
        store: &'static str,
        /// What was asked for it.
        mailbox: Arc<str>,
        /// The store's words: file, row, way out. Nothing of an email.
        error: Arc<str>,
    },
    /// A store holds notes that this version cannot read: what they say is not in force. Reported at the start.
    #[serde(rename = "store.note.unreadable")]
    NoteUnreadable {
        /// `memory`, `sqlite`, `redis`.
        store: &'static str,
        /// What they are about: `hold`, `trip`, `breaker`, `permit`, `admission`.
        note: &'static str,
        /// How many.
        count: u64,
    },
    /// A mailbox's actor failed and was rebuilt from the store.
    #[serde(rename = "mailbox.actor.restarted")]
    ActorRestarted {
        /// Which mailbox.
        mailbox: Arc<str>,
        /// Restarts in the running period.
        restarts: u32,
        /// What happened to it: `panicked`, `stopped`.
        reason: &'static str,
    },
    /// It failed too often, or its store is not usable: it is left alone until a person looks and resumes it.
    #[serde(rename = "mailbox.actor.held")]
    ActorHeld {
        /// Which mailbox.
        mailbox: Arc<str>,
        /// Restarts in the running period.
        restarts: u32,
        /// What happened to it: `panicked`, `stopped`, `store damaged`.
        reason: &'static str,
    },
    /// The provider refused the mailbox or the account itself: nothing leaves it until a person resumes it.
    #[serde(rename = "mailbox.sends.suspended")]
    SendsSuspended {
        /// Which.
        #[serde(serialize_with = "display")]
        scope: Scope,
        /// What has to change: `mailbox` (suspended, full) or `account` (credentials).
        of: Subject,
        /// HTTP status or SMTP code.
        status: Option<u16>,
    },
    /// The transport panicked in an attempt, which counts as unknown.
    #[serde(rename = "send.transport.panicked")]
    TransportPanicked {
        /// From which mailbox.
        mailbox: Arc<str>,
    },
    /// A permit was dropped without a word on how its send ended, which counts as unknown.
    #[serde(rename = "send.permit.abandoned")]
    PermitAbandoned {
        /// Of which mailbox.
        mailbox: Arc<str>,
    },
    /// The scheduler has stopped.
    #[serde(rename = "scheduler.shutdown.finished")]
    ShutdownFinished {
        /// Attempts that ended accepted while it drained.
        accepted: u64,
        /// Operations that go back to the store or their caller.
        returned: u64,
        /// Attempts that nobody knows the end of.
        unknown: u64,
    },
    /// Something happened to an operator's hold.
    #[serde(untagged)]
    Hold(HoldEvent),
}

impl EventKind {
    /// Its public name: `breaker.scope.opened`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        catalogue::name(self)
    }

    /// The level of its `tracing` event. Single sends are at [`Level::Debug`]: live views that want state changes
    /// take what is above.
    #[must_use]
    pub const fn level(&self) -> Level {
        catalogue::level(self)
    }
}

fn display<T: std::fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn reason_str<S: Serializer>(reason: &TripReason, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(reason.as_str())
}

fn millis<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(catalogue::millis(*span))
}

fn millis_option<S: Serializer>(span: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match span {
        Some(span) => millis(span, serializer),
        None => serializer.serialize_none(),
    }
}
