//! Turns what the engine reports into what people watch: one [`Event`] becomes exactly one `tracing` event with a
//! fixed name, target, level and fields, and one [`SchedulerEvent`] for live views.
//!
//! The engine does not log. It returns events as values, so tests assert on them and a simulation can drop them; the
//! words, levels and field names that operators build filters and dashboards on are chosen here, in one file
//! (`catalogue.rs`, and the folder beside it), and pinned by a snapshot test. Logging where things happen would spread those names over every
//! handler, and a renamed field would pass unnoticed.
//!
//! Nothing here carries a recipient, a subject, a body or a secret: there is no field that could. The ids of
//! mailboxes and tenants pass a [`Redaction`] on their way into `tracing`. [`SchedulerEvent`]s keep them, because the
//! handle that hands them out names mailboxes anyway.
//!
//! Not promised: the fields of the attempt span that follow the messaging conventions of OpenTelemetry, which are
//! still in development; and any event below `info`, which may become rarer when it costs too much.
//!
//! ```
//! use mailweir::engine::{Event, Scope, Timestamp, TripReason};
//! use mailweir::telemetry::{Context, Redaction, Telemetry};
//!
//! let telemetry = Telemetry::new(Redaction::Hashed);
//! let scope = Scope::Mailbox("noreply@contoso.example".into());
//! let closed = Event::BreakerClosed { scope, reason: TripReason::Sustained429, trips: 1 };
//! let shown = telemetry.emit(Timestamp::from_micros(1_000), &closed, &Context::default());
//! assert_eq!(shown.name(), "breaker.scope.closed");
//! ```

mod catalogue;
mod convert;
mod hold;
mod instant;
mod kind;
mod policy;
mod redaction;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use hold::{HeldScope, HoldEvent};
pub use instant::system_time;
pub use kind::{EventKind, Level};
pub use policy::StorePolicy;
pub use redaction::Redaction;

use crate::engine::{Event, Lane, Timestamp};

/// One state change or decision, as live views see it. Serialises to one flat JSON object.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct SchedulerEvent {
    /// When it happened, by the scheduler's clock.
    #[serde(serialize_with = "instant::serialize")]
    pub at: SystemTime,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

impl SchedulerEvent {
    /// Its public name, the same as in `tracing`: `breaker.scope.opened`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.kind.name()
    }
}

/// What the engine does not know of its own event, because it works with numbers: the ids.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The mailbox whose actor reports.
    pub mailbox: Option<&'a Arc<str>>,
    /// The operation's id; permits have none.
    pub operation_id: Option<&'a Arc<str>>,
    /// Age of the oldest operation in the lane that the event is about, where the caller knows it.
    pub oldest_age: Option<Duration>,
}

/// One attempt, as its span names it.
#[derive(Clone, Copy, Debug)]
pub struct AttemptLabel<'a> {
    /// The lane.
    pub lane: Lane,
    /// The mailbox it leaves from.
    pub mailbox: &'a Arc<str>,
    /// The operation's id.
    pub operation_id: &'a Arc<str>,
    /// The attempt's number, from 1.
    pub attempt: u32,
}

/// Emits events. Cheap to clone; holds no subscriber and installs none: that is the host's choice.
#[derive(Clone, Debug, Default)]
pub struct Telemetry {
    redaction: Redaction,
}

impl Telemetry {
    /// Emits with ids of mailboxes and tenants shown as `redaction` says.
    #[must_use]
    pub const fn new(redaction: Redaction) -> Self {
        Self { redaction }
    }

    /// Whether a `tracing` subscriber may want the event of `event`. Single sends are `debug`: at the usual level
    /// nobody does, and thousands a second need not be put into words.
    pub(crate) fn may_be_wanted(event: &Event) -> bool {
        let debug = match event {
            Event::AttemptFinished { outcome, .. } => *outcome != catalogue::UNKNOWN,
            Event::ReservationDenied { .. } | Event::OperationDeferred { .. } | Event::BackgroundCapped { .. } => true,
            _ => false,
        };
        !debug || tracing::level_filters::LevelFilter::current() >= tracing::level_filters::LevelFilter::DEBUG
    }

    /// Emits the `tracing` event of `event` and returns its form for live views.
    pub fn emit(&self, now: Timestamp, event: &Event, context: &Context<'_>) -> SchedulerEvent {
        self.report(now, convert::kind(event, context))
    }

    /// The same for what the shell has to say itself: stores, actors, shutdown.
    pub fn report(&self, now: Timestamp, kind: EventKind) -> SchedulerEvent {
        catalogue::trace(&kind, self.redaction);
        SchedulerEvent { at: system_time(now).unwrap_or(SystemTime::UNIX_EPOCH), kind }
    }

    /// The span of one attempt: enter it around the transport's call and nothing else.
    ///
    /// It is a root of its own and follows from `cause` (the span that submitted the operation), because that one
    /// ended long ago when the operation waited. No span stays open during a wait.
    #[must_use]
    pub fn attempt_span(&self, label: &AttemptLabel<'_>, cause: Option<tracing::Id>) -> tracing::Span {
        let span = catalogue::attempt_span(label, self.redaction);
        if cause.is_some() {
            span.follows_from(cause);
        }
        span
    }

    /// Marks the attempt's span as failed; `outcome` is the word of [`EventKind::AttemptFinished`].
    pub fn mark_failed(&self, span: &tracing::Span, outcome: &'static str) {
        catalogue::mark_failed(span, outcome);
    }
}
