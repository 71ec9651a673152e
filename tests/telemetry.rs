//! The event catalogue: what `tracing` subscribers and live views are promised.
#![cfg(feature = "runtime")]

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mailweir::engine::operation::{ExhaustCause, QuarantineCause};
use mailweir::engine::{
    Constraint, Cost, Event, Lane, OperationKey, Ratio, Scope, ScopeKind, Subject, Timestamp, TripReason, Unit, Wall,
};
use mailweir::telemetry::{
    AttemptLabel, Context, EventKind, HeldScope, HoldEvent, Level, Redaction, SchedulerEvent, StorePolicy, Telemetry,
    system_time,
};
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::SubscriberExt as _;

/// 2026-11-30T09:00:00Z.
const NINE: Timestamp = Timestamp::from_micros(1_796_029_200_000_000);

/// Writes every event and span it sees as one line.
#[derive(Clone, Debug, Default)]
struct Capture(Arc<Mutex<Vec<String>>>);

impl Capture {
    fn lines(&self) -> Vec<String> {
        self.0.lock().expect("no test panics while it holds the lock").clone()
    }

    fn push(&self, meta: &tracing::Metadata<'_>, fields: Fields) {
        let line = format!("{} {} {}{}", meta.target(), meta.name(), meta.level().as_str().to_lowercase(), fields.0);
        self.0.lock().expect("no test panics while it holds the lock").push(line);
    }
}

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Capture {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.push(event.metadata(), fields);
    }

    fn on_new_span(
        &self,
        span: &tracing::span::Attributes<'_>,
        _: &tracing::Id,
        _: tracing_subscriber::layer::Context<'_, S>,
    ) {
        let mut fields = Fields::default();
        span.record(&mut fields);
        self.push(span.metadata(), fields);
    }

    fn on_record(
        &self,
        _: &tracing::Id,
        values: &tracing::span::Record<'_>,
        _: tracing_subscriber::layer::Context<'_, S>,
    ) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        self.0.lock().expect("no test panics while it holds the lock").push(format!("recorded{}", fields.0));
    }

    fn on_follows_from(&self, _: &tracing::Id, _: &tracing::Id, _: tracing_subscriber::layer::Context<'_, S>) {
        self.0.lock().expect("no test panics while it holds the lock").push("follows from".to_owned());
    }
}

#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "\n    {} = {value:?}", field.name()).expect("a string takes everything");
    }
}

fn captured(f: impl FnOnce()) -> Vec<String> {
    let capture = Capture::default();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(capture.clone()), f);
    capture.lines()
}

fn mailbox() -> Scope {
    Scope::Mailbox("alerts@contoso.example".into())
}

fn breaker_events() -> Vec<Event> {
    let until = NINE.after(Duration::from_secs(60));
    vec![
        Event::BreakerOpened {
            scope: mailbox(),
            reason: TripReason::Sustained429,
            cooldown: Duration::from_secs(60),
            until,
            trips: 1,
            waiting: 240,
        },
        Event::BreakerExtended {
            scope: Scope::Tenant("acme".into()),
            reason: TripReason::Manual,
            cooldown: Duration::from_secs(60),
            until,
            trips: 1,
            waiting: 12,
        },
        Event::BreakerHalfOpened { scope: mailbox(), reason: TripReason::Sustained429, trips: 1, waiting: 240 },
        Event::BreakerClosed { scope: Scope::Application, reason: TripReason::Health, trips: 0 },
    ]
}

fn lane_events() -> Vec<Event> {
    let wall = Wall::Window { unit: Unit::Recipients, seconds: 86_400 };
    vec![
        Event::ReservationDenied {
            scope: mailbox(),
            wall,
            frees_at: NINE.after(Duration::from_millis(1_500)),
            lane: Lane::Background,
            cost: Cost::email(12, 4_096),
        },
        Event::BackgroundCapped { scope: mailbox(), share: Ratio::percent(50), depth: 1_300 },
        Event::QueueFull { scope: mailbox(), lane: Lane::Foreground, depth: 10_000 },
    ]
}

fn operation_events() -> Vec<Event> {
    let constraint = |wall| Constraint::exact(wall, ScopeKind::Mailbox, Timestamp::NEVER).as_binding();
    let finished = |outcome, status| Event::AttemptFinished {
        key: OperationKey(7),
        lane: Lane::Foreground,
        outcome,
        status,
        attempt: 2,
        waited: Duration::from_millis(61_250),
    };
    let deferred = |wall, until| Event::OperationDeferred {
        key: OperationKey(7),
        lane: Lane::Foreground,
        constraint: constraint(wall),
        until,
    };
    vec![
        deferred(Wall::Cooldown, NINE),
        deferred(Wall::Hold, Timestamp::NEVER),
        Event::OperationQuarantined { key: OperationKey(7), lane: Lane::Foreground, cause: QuarantineCause::Poison },
        Event::OperationExhausted {
            key: OperationKey(7),
            lane: Lane::Foreground,
            cause: ExhaustCause::Deadline,
            attempts: 2,
            maybe_sent: true,
        },
        Event::OperationReleased { key: OperationKey(7), lane: Lane::Foreground },
        Event::ResumePlanned {
            scope: mailbox(),
            count: 240,
            spread: Duration::from_secs(480),
            first_at: NINE,
            last_at: NINE.after(Duration::from_secs(480)),
        },
        Event::ResumeFinished {
            scope: mailbox(),
            count: 240,
            spread: Duration::from_secs(500),
            first_at: NINE,
            last_at: NINE.after(Duration::from_secs(500)),
        },
        finished("accepted", Some(202)),
        finished("unknown", None),
        Event::MailboxSuspended { scope: mailbox(), of: Subject::Account, status: Some(401) },
    ]
}

fn hold_events() -> impl Iterator<Item = HoldEvent> {
    let scope = |kind, id: &str| HeldScope { kind, id: Some(id.into()) };
    let (watch, reason) = (Duration::from_secs(60), TripReason::Sustained429);
    let started = HoldEvent::PartStarted { scope: scope("tenant", "acme"), count: 100, watch };
    let held = scope("mailbox", "alerts@contoso.example");
    let stopped = HoldEvent::PartStopped { scope: held.clone(), left: 7, throttled: mailbox(), reason };
    let reason = TripReason::FailedOperations;
    let failed = HoldEvent::PartStopped { scope: held, left: 0, throttled: mailbox(), reason };
    let finished = HoldEvent::PartFinished { scope: HeldScope { kind: "all", id: None }, count: 100 };
    let ended = HoldEvent::Ended {
        scope: scope("campaign", "spring"),
        how: "replaced",
        since: system_time(NINE),
        until: system_time(NINE.after(Duration::from_secs(300))),
    };
    [started, stopped, failed, finished, ended].into_iter()
}

fn shell_events() -> Vec<EventKind> {
    let mailbox: Arc<str> = "alerts@contoso.example".into();
    vec![
        EventKind::StoreDegraded { store: "redis", policy: StorePolicy::Half },
        EventKind::StoreRecovered { store: "redis", policy: StorePolicy::Half },
        EventKind::StoreContradicted {
            store: "redis",
            mailbox: mailbox.clone(),
            error: "the store holds something else: operation 7: transition 4 is not listed".into(),
        },
        EventKind::StoreFailed {
            store: "sqlite",
            mailbox: mailbox.clone(),
            error: "the store is damaged or not ours: /var/lib/outbox.db, of alerts@contoso.example: state 12".into(),
        },
        EventKind::NoteUnreadable { store: "sqlite", note: "breaker", count: 2 },
        EventKind::ActorRestarted { mailbox: mailbox.clone(), restarts: 1, reason: "panicked" },
        EventKind::ActorHeld { mailbox: mailbox.clone(), restarts: 5, reason: "panicked" },
        EventKind::TransportPanicked { mailbox: mailbox.clone() },
        EventKind::PermitAbandoned { mailbox },
        EventKind::ShutdownFinished { accepted: 3, returned: 120, unknown: 1 },
    ]
    .into_iter()
    .chain(hold_events().map(EventKind::Hold))
    .collect()
}

/// Every event there is, through `telemetry`, in the order of the catalogue.
fn emit_all(telemetry: &Telemetry) -> Vec<SchedulerEvent> {
    let (mailbox, operation_id) = ("alerts@contoso.example".into(), "reset-01JAZ8YF4Q".into());
    let context = Context {
        mailbox: Some(&mailbox),
        operation_id: Some(&operation_id),
        oldest_age: Some(Duration::from_secs(90)),
    };
    let engine = [breaker_events(), lane_events(), operation_events()].concat();
    let mut all: Vec<_> = engine.iter().map(|event| telemetry.emit(NINE, event, &context)).collect();
    all.extend(shell_events().into_iter().map(|kind| telemetry.report(NINE, kind)));
    all
}

#[test]
fn the_catalogue_of_tracing_events_is_what_it_was() {
    let lines = captured(|| drop(emit_all(&Telemetry::default())));
    insta::assert_snapshot!("catalogue", lines.join("\n"));
}

#[test]
fn the_json_of_live_events_is_what_it_was() {
    let json: Vec<_> = emit_all(&Telemetry::default())
        .iter()
        .map(|event| serde_json::to_string(event).expect("an event has no map with odd keys"))
        .collect();
    insta::assert_snapshot!("live_events", json.join("\n"));
}

#[test]
fn every_engine_event_becomes_exactly_one_tracing_event_of_the_same_name_and_level() {
    let mut shown = Vec::new();
    let lines = captured(|| shown = emit_all(&Telemetry::default()));
    assert_eq!(lines.len(), shown.len());
    for (line, event) in lines.iter().zip(&shown) {
        let level = format!("{:?}", event.kind.level()).to_lowercase();
        let head = line.lines().next().expect("a line");
        assert!(head.ends_with(&format!(" {} {level}", event.name())), "{head} is not {} {level}", event.name());
    }
}

#[test]
fn a_field_that_is_not_known_is_left_out() {
    let lines = captured(|| {
        let telemetry = Telemetry::default();
        for event in operation_events().iter().chain(&lane_events()) {
            telemetry.emit(NINE, event, &Context::default());
        }
    });
    let text = lines.join("\n");
    for absent in ["operation.id", "mailbox =", "oldest_age_ms", "None", "Some"] {
        assert!(!text.contains(absent), "{absent} is in {text}");
    }
}

#[test]
fn no_id_of_a_mailbox_or_tenant_gets_past_a_redaction() {
    for (redaction, left) in [(Redaction::Hashed, 16), (Redaction::Omitted, 0)] {
        let text = captured(|| drop(emit_all(&Telemetry::new(redaction)))).join("\n");
        assert!(!text.contains("contoso") && !text.contains("acme"), "{redaction:?} let an id through: {text}");
        let digits = text.split("breaker.scope = mailbox:").nth(1).map_or(0, |rest| rest.find('\n').unwrap_or(0));
        assert_eq!(digits, left, "{redaction:?}");
    }
}

#[test]
fn live_events_keep_the_ids_that_the_handle_shows_anyway() {
    let all = emit_all(&Telemetry::new(Redaction::Omitted));
    assert!(serde_json::to_string(&all[0]).expect("json").contains(r#""scope":"mailbox:alerts@contoso.example""#));
}

#[test]
fn single_sends_stay_below_info_unless_nobody_knows_how_they_ended() {
    for event in emit_all(&Telemetry::default()) {
        let single = matches!(
            event.kind,
            EventKind::AttemptFinished { .. }
                | EventKind::OperationDeferred { .. }
                | EventKind::ReservationDenied { .. }
        );
        let unknown = matches!(event.kind, EventKind::AttemptFinished { outcome: "unknown", .. });
        match (single, unknown) {
            (true, true) => assert_eq!(event.kind.level(), Level::Warn, "{event:?}"),
            (true, false) => assert_eq!(event.kind.level(), Level::Debug, "{event:?}"),
            (false, _) => {}
        }
    }
}

#[test]
fn an_attempt_has_one_span_that_follows_from_the_submit_and_names_no_email() {
    let lines = captured(|| {
        let (mailbox, operation_id) = ("alerts@contoso.example".into(), "reset-01JAZ8YF4Q".into());
        let label = AttemptLabel { lane: Lane::Foreground, mailbox: &mailbox, operation_id: &operation_id, attempt: 1 };
        let cause = tracing::info_span!("caller").entered();
        let telemetry = Telemetry::default();
        let span = telemetry.attempt_span(&label, cause.id());
        telemetry.mark_failed(&span, "throttled");
    });
    insta::assert_snapshot!("attempt_span", lines.join("\n"));
}

#[derive(Debug)]
struct Taken;

impl mailweir::transport::Transport for Taken {
    fn send(&self, _: mailweir::transport::Attempt) -> futures::future::BoxFuture<'_, mailweir::transport::Answer> {
        Box::pin(async { mailweir::transport::Verdict::Accepted.into() })
    }
}

/// The scheduler forgot the id with the operation, so the event of the attempt that ended it had none.
#[tokio::test]
async fn the_attempt_that_ends_an_operation_still_names_it() {
    let scheduler = mailweir::Scheduler::builder(mailweir::Config::default(), Taken).start().await.expect("it starts");
    let (handle, mut events) = (scheduler.handle(), scheduler.handle().events());
    let mime = &b"Subject: a\r\n\r\nb"[..];
    let email = mailweir::Email::from_mime("a@contoso.example", ["b@fabrikam.example"], mime).expect("a fixed email");
    let submission = mailweir::Submission::new("a@contoso.example", email).operation_id("only");
    handle.submit(submission).await.expect("taken in").outcome().await.expect("sent");
    while let Some(Ok(event)) = events.next().await {
        if let EventKind::AttemptFinished { operation_id, outcome, .. } = event.kind {
            assert_eq!((operation_id.as_deref(), outcome), (Some("only"), "accepted"));
            return;
        }
    }
    panic!("no attempt was told");
}
