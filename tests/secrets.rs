//! Nothing of an email's content and no credential reaches an event, an error or a debug form.
//!
//! A whole life at the loudest level: every target at TRACE, those of the libraries below included, every field and
//! span, every panic message. The provider is hostile: whatever it is told, it says back in headers and bodies. Ids of
//! mailboxes and operations may be shown; recipients, names, subjects, bodies, secrets and tokens may not.

#[path = "graph/server.rs"]
#[allow(dead_code, reason = "shared with the tests of the Graph transport")]
mod server;

use std::error::Error;
use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use mailweir::clock::SystemClock;
use mailweir::config::{Config, Secret};
use mailweir::scheduler::{Events, HoldScope, Order, SchedulerHandle};
use mailweir::store::OperationQuery;
use mailweir::telemetry::{EventKind, SchedulerEvent};
use mailweir::transport::graph::{Credentials, GraphOptions, GraphTransport, Token};
use mailweir::transport::{Answer, Attempt, Transport};
use mailweir::{Email, Lane, Outcome, Scheduler, Submission, Ticket};
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::SubscriberExt as _;

use server::{Request, Server, Step, accepted, answer, token};

const RECIPIENT: &str = "rcpt-7f3a@fabrikam.example";
const HIDDEN_RECIPIENT: &str = "bcc-91c2@fabrikam.example";
const NAME: &str = "Kim Displayname";
const SUBJECT: &str = "Subject-of-the-letter";
const BODY: &str = "Body-of-the-letter";
const HEADER: &str = "Value-of-a-header";
const CLIENT_SECRET: &str = "Client-secret-value";
const TOKEN: &str = "Access-token-value";
const STORE_PASSWORD: &str = "Store-password-value";
const ADMISSION_KEY: &str = "reset:kim-4d1e";

/// What must not be shown, and how base64 would begin to hide it.
const NEEDLES: [&str; 11] = [
    "rcpt-7f3a",
    "bcc-91c2",
    "Displayname",
    SUBJECT,
    BODY,
    HEADER,
    CLIENT_SECRET,
    TOKEN,
    STORE_PASSWORD,
    "kim-4d1e",
    "RnJvbTog",
];

/// Everything that was said, from anywhere in the process.
#[derive(Clone, Debug, Default)]
struct Ears(Arc<Mutex<String>>);

impl Ears {
    fn hear(&self, what: impl FnOnce(&mut String)) {
        let mut heard = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        what(&mut heard);
        heard.push('\n');
    }

    /// A value in its debug form.
    fn debug(&self, value: &impl Debug) {
        self.hear(|heard| write!(heard, "{value:?} {value:#?}").expect("a string takes everything"));
    }

    /// An error with all that is below it.
    fn error(&self, error: &(impl Error + 'static)) {
        self.debug(&error);
        let mut next: Option<&dyn Error> = Some(error);
        while let Some(error) = next {
            self.hear(|heard| write!(heard, "{error}").expect("a string takes everything"));
            next = error.source();
        }
    }

    fn text(&self) -> String {
        self.0.lock().expect("no panic while it is held").clone()
    }

    fn assert_silent(&self) {
        let text = self.text();
        for needle in NEEDLES {
            let line = text.lines().find(|line| line.contains(needle));
            assert_eq!(line, None, "{needle:?} was shown");
        }
    }
}

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Ears {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        self.hear(|heard| {
            write!(heard, "{} {}", event.metadata().target(), event.metadata().name()).expect("a string");
            event.record(&mut Fields(heard));
        });
    }

    fn on_new_span(
        &self,
        span: &tracing::span::Attributes<'_>,
        _: &tracing::Id,
        _: tracing_subscriber::layer::Context<'_, S>,
    ) {
        self.hear(|heard| {
            write!(heard, "{} {}", span.metadata().target(), span.metadata().name()).expect("a string");
            span.record(&mut Fields(heard));
        });
    }

    fn on_record(
        &self,
        _: &tracing::Id,
        values: &tracing::span::Record<'_>,
        _: tracing_subscriber::layer::Context<'_, S>,
    ) {
        self.hear(|heard| values.record(&mut Fields(heard)));
    }
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).expect("a string takes everything");
    }
}

fn email() -> Email {
    let parts = Email::parts().from("noreply@contoso.example").to(format!("{NAME} <{RECIPIENT}>"));
    let parts = parts.bcc(HIDDEN_RECIPIENT).subject(SUBJECT).text(BODY).header("X-Note", HEADER);
    parts.build().expect("an email")
}

/// An email that Graph takes: its recipients are those of its headers.
fn letter() -> Email {
    let mime = format!(
        "From: noreply@contoso.example\r\nMessage-ID: <1@contoso.example>\r\nTo: {NAME} <{RECIPIENT}>\r\nSubject: {SUBJECT}\r\n\r\n{BODY}\r\n"
    );
    Email::from_mime("noreply@contoso.example", [RECIPIENT], mime.into_bytes()).expect("an email")
}

/// Says back whatever it was told: the authorisation, the form, the email.
fn echo(request: &Request) -> String {
    let told = String::from_utf8_lossy(&request.body);
    let bearer = request.header("authorization").unwrap_or_default();
    format!(
        r#"{{"error":{{"code":"ErrorInvalidRecipients {RECIPIENT}","message":"{bearer} {told} {SUBJECT} {BODY}"}}}}"#
    )
}

/// Each mailbox has its own fate.
fn fate(request: &Request) -> Step {
    let path = request.line.split(' ').nth(1).unwrap_or_default();
    if path.contains("/oauth2/") {
        if !path.starts_with("/denied") {
            return token(TOKEN, 3_600);
        }
        let told = String::from_utf8_lossy(&request.body);
        let body = format!(r#"{{"error":"invalid_client","error_description":"{told}","correlation_id":"{told}"}}"#);
        return Step::Write(answer("401 Unauthorized", &[], &body));
    }
    let body = echo(request);
    let loud = [("retry-after", "30"), ("x-note", BODY), ("content-type", "application/json")];
    let say = |status: &str| Step::Write(answer(status, &loud, &body));
    match path {
        path if path.contains("throttled") => say("429 Too Many Requests"),
        path if path.contains("failing") => say("503 Service Unavailable"),
        path if path.contains("refused") => say("400 Bad Request"),
        path if path.contains("forbidden") => say("403 Forbidden"),
        path if path.contains("odd") => say("500 Internal Server Error"),
        path if path.contains("cut") => Step::WriteAndClose(String::new()),
        path if path.contains("garbled") => Step::WriteAndClose(format!("{body}\r\n\r\n")),
        _ => accepted(),
    }
}

/// Panics for one mailbox, with words of its own.
#[derive(Debug)]
struct Moody(GraphTransport);

impl Transport for Moody {
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Answer> {
        assert!(!attempt.mailbox.starts_with("panicking"), "the transport's own mistake");
        self.0.send(attempt)
    }

    fn reconcile(&self, attempt: Attempt) -> BoxFuture<'_, Option<bool>> {
        self.0.reconcile(attempt)
    }
}

fn graph(url: &str, tenant: &str) -> GraphTransport {
    let credentials = Credentials::new(tenant, "client-1", CLIENT_SECRET).authority(url);
    let options = GraphOptions::default().base_url(url);
    GraphTransport::new(credentials, options, Arc::new(SystemClock::new())).expect("valid options")
}

fn submission(mailbox: &str, id: &str) -> Submission {
    Submission::new(format!("{mailbox}@contoso.example"), letter()).operation_id(id).lane(Lane::Foreground)
}

/// Waits for the end of an attempt of this operation.
async fn finished(events: &mut Events, ears: &Ears, id: &str) -> &'static str {
    while let Some(event) = events.next().await {
        let event: SchedulerEvent = event.expect("the reader keeps up");
        ears.debug(&event);
        ears.hear(|heard| heard.push_str(&serde_json::to_string(&event).expect("events serialise")));
        if let EventKind::AttemptFinished { operation_id: Some(of), outcome, .. } = &event.kind
            && &**of == id
        {
            return outcome;
        }
    }
    panic!("the events ended")
}

async fn a_life(handle: &SchedulerHandle, ears: &Ears) {
    let mut events = handle.events();
    let expected = [
        ("fine", "accepted"),
        ("throttled", "throttled"),
        ("failing", "transient"),
        ("refused", "permanent"),
        ("forbidden", "permanent"),
        ("odd", "unknown"),
        ("cut", "unknown"),
        ("garbled", "unknown"),
        ("panicking", "unknown"),
    ];
    for (mailbox, outcome) in expected {
        let id = format!("op-{mailbox}");
        let ticket: Ticket = handle.submit(submission(mailbox, &id)).await.expect("taken in");
        ears.debug(&ticket);
        assert_eq!(finished(&mut events, ears, &id).await, outcome, "{mailbox}");
        ears.debug(&handle.explain(&id).await);
        ears.debug(&handle.mailbox(format!("{mailbox}@contoso.example")).await);
        match outcome {
            "throttled" | "transient" => drop(handle.cancel(&id, Order::new("a test")).await),
            _ => {}
        }
    }
    handle.sabotage("broken@contoso.example").await.expect("told");
    let ticket = handle.submit(submission("broken", "op-broken")).await.expect("stored");
    let outcome: Outcome = ticket.outcome().await.expect("tickets survive");
    ears.debug(&outcome);
    ears.debug(&handle.hold(HoldScope::All, Order::new("a look")).await);
    ears.debug(&handle.breakers().await);
    ears.debug(&handle.operations(OperationQuery::default()).await);
    ears.debug(&handle.operation("op-odd").await);
    ears.error(&handle.cancel("nobody", Order::new("a test")).await.expect_err("no such operation"));
    refusals(handle, ears).await;
}

async fn refusals(handle: &SchedulerHandle, ears: &Ears) {
    let other = Submission::new("fine@contoso.example", email()).operation_id("op-fine");
    let bad = [
        other,
        submission("a\r\nb", "x"),
        submission("fine", "one\ntwo"),
        submission("fine", "x").admission_key(ADMISSION_KEY, Duration::MAX),
        submission("fine", "x").deadline(Duration::ZERO),
        submission("fine", "x").cost(mailweir::Cost::email(u32::MAX, u64::MAX)),
        submission("fine", "x").tenant("t".repeat(500)),
    ];
    for bad in bad {
        ears.debug(&bad);
        ears.error(&handle.submit(bad).await.expect_err("refused"));
    }
}

/// Values that hold a secret, in their debug forms, and errors about them.
async fn values(url: &str, ears: &Ears) {
    let attempt = Attempt {
        operation_id: "op".into(),
        mailbox: "noreply@contoso.example".into(),
        lane: Lane::Foreground,
        number: 1,
        email: email(),
        timeout: Duration::from_secs(1),
    };
    ears.debug(&attempt);
    ears.debug(&email());
    ears.debug(
        &Email::parts().to(RECIPIENT).bcc(HIDDEN_RECIPIENT).subject(SUBJECT).text(BODY).header("X-Note", HEADER),
    );
    ears.error(&Email::parts().from(NAME).to(RECIPIENT).subject(SUBJECT).text(BODY).build().expect_err("no sender"));
    let broken = format!("{RECIPIENT}\r\n");
    ears.error(&Email::from_mime("a@b.example", [broken], SUBJECT.as_bytes()).expect_err("a line break"));
    ears.debug(&Credentials::new("tenant", "client-1", CLIENT_SECRET));
    ears.debug(&GraphOptions::default());
    ears.debug(&Token::new(TOKEN, 1));
    let denied = graph(url, "denied");
    ears.debug(&denied);
    let error = denied.check().await.expect_err("the token is denied");
    assert!(error.to_string().contains("invalid_client"), "{error}");
    ears.error(&denied.check().await.expect_err("the token is denied"));
    ears.debug(&denied.send(attempt).await);
    let mut config = Config::default();
    config.transport.graph.client_secret = Secret::new(CLIENT_SECRET);
    config.store.url = format!("redis://user:{STORE_PASSWORD}@cache.example/0");
    ears.debug(&config);
    ears.hear(|heard| heard.push_str(&config.to_toml()));
    let unclosed = format!("[store]\nurl = \"redis://user:{STORE_PASSWORD}@cache.example/0\nx = ");
    ears.error(&Config::from_toml(&unclosed, "a test").expect_err("the text is not closed"));
    let named = format!("https://user:{STORE_PASSWORD}@graph.example");
    let options = GraphOptions::default().base_url(named);
    let refused = GraphTransport::new(Credentials::new("t", "c", CLIENT_SECRET), options, Arc::new(SystemClock::new()));
    ears.error(&refused.map(drop).expect_err("a URL with a password"));
    for setting in config.settings() {
        ears.debug(&setting);
    }
}

#[test]
fn no_content_and_no_secret_is_ever_shown() {
    let ears = Ears::default();
    let subscriber = tracing_subscriber::registry().with(ears.clone());
    tracing::subscriber::set_global_default(subscriber).expect("the only test of this process");
    let panics = ears.clone();
    std::panic::set_hook(Box::new(move |panic| panics.hear(|heard| write!(heard, "{panic}").expect("a string"))));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let run = runtime.expect("a runtime").block_on(async {
        tokio::spawn({
            let ears = ears.clone();
            async move {
                let server = Server::start(|request, _| fate(request)).await;
                values(&server.url(), &ears).await;
                let transport = Moody(graph(&server.url(), "contoso.example"));
                let builder = Scheduler::builder(Config::default(), transport);
                ears.debug(&builder);
                let scheduler = builder.start().await.expect("the scheduler starts");
                ears.debug(&scheduler);
                a_life(&scheduler.handle(), &ears).await;
                ears.debug(&scheduler.shutdown().await);
                server
            }
        })
        .await
    });
    drop(std::panic::take_hook());
    let server = run.unwrap_or_else(|_| panic!("{}", ears.text().lines().last().unwrap_or_default()));

    // The secrets were in play, and the ears were open.
    assert!(server.seen("/oauth2/").iter().any(|it| String::from_utf8_lossy(&it.body).contains(CLIENT_SECRET)));
    assert!(server.seen("sendMail").iter().any(|it| it.header("authorization").is_some_and(|it| it.contains(TOKEN))));
    assert!(server.seen("sendMail").iter().any(|it| it.body.starts_with(b"RnJvbTog")), "From: , in base64");
    let text = ears.text();
    for word in ["breaker.scope.opened", "send.attempt.finished", "send.transport.panicked", "mailbox.actor.restarted"]
    {
        assert!(text.contains(word), "{word} was heard");
    }
    println!("{} lines, {} bytes heard; {} requests", text.lines().count(), text.len(), server.count(""));
    ears.assert_silent();
}
