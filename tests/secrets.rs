//! Nothing that an email says, and no secret, reaches a log, an event, an error or a `Debug` output.
//!
//! Each test plants words that occur nowhere else, drives everything that could show them, and searches all of it. The
//! subscriber takes every level of every crate, because a library below us that logs a header leaks it just the same.
#![cfg(feature = "runtime")]

use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use mailweir::transport::{Answer, Attempt, Sent, Subject, Throttle, ThrottleKind, Transport, Verdict};
use mailweir::{Config, Email, Lane, Scheduler, Submission};

const MAILBOX: &str = "noreply@contoso.example";
const RECIPIENT: &str = "planted-recipient@fabrikam.example";
const PLANTED: [&str; 4] = ["planted-recipient", "planted-subject", "planted-body", "planted-secret"];

/// Everything that was logged or shown.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<u8>>>);

impl Seen {
    /// The one subscriber of this process, at every level of every crate: actors live on threads of their own.
    fn everything() -> &'static Self {
        static SEEN: OnceLock<Seen> = OnceLock::new();
        SEEN.get_or_init(|| {
            let seen = Self::default();
            let writer = seen.clone();
            let subscriber = tracing_subscriber::fmt()
                .with_max_level(tracing::Level::TRACE)
                .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
                .with_writer(move || writer.clone())
                .finish();
            tracing::subscriber::set_global_default(subscriber).expect("no other subscriber in this process");
            seen
        })
    }

    fn show(&self, what: &impl Debug) {
        self.add(format!("{what:?} {what:#?}\n").as_bytes());
    }

    fn show_error(&self, error: &dyn std::error::Error) {
        let mut next = Some(error);
        while let Some(error) = next {
            self.add(format!("{error} {error:?}\n").as_bytes());
            next = error.source();
        }
    }

    fn add(&self, bytes: &[u8]) {
        self.0.lock().expect("no writer panics").extend_from_slice(bytes);
    }

    #[track_caller]
    fn expect_clean(&self, proof: &str) {
        let text = String::from_utf8_lossy(&self.0.lock().expect("no writer panics")).into_owned();
        assert!(text.contains(proof), "{proof:?} was not seen, so nothing was watched");
        for word in PLANTED {
            if let Some(at) = text.find(word) {
                let around: String = text[at.saturating_sub(200)..].chars().take(400).collect();
                panic!("{word} was shown: ...{around}...");
            }
        }
    }
}

impl io::Write for Seen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Answers in turn with every verdict there is, and shows the attempt it was given.
#[derive(Debug, Default)]
struct Every(Mutex<usize>);

impl Transport for Every {
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Answer> {
        Seen::everything().show(&attempt);
        let turn = {
            let mut turn = self.0.lock().expect("no holder panics");
            *turn += 1;
            *turn
        };
        let retry_after = Some(Duration::from_millis(10));
        let throttle = Throttle { retry_after, scope: None, kind: ThrottleKind::Rate };
        let verdict = match turn {
            1 => Verdict::Throttled(throttle),
            2 => Verdict::Transient { sent: Sent::No, retry_after: None },
            3 => Verdict::Transient { sent: Sent::Maybe, retry_after: None },
            4 => Verdict::Permanent { of: Subject::Message },
            5 => Verdict::Unknown,
            _ => Verdict::Accepted,
        };
        Box::pin(async { verdict.into() })
    }
}

fn email() -> Email {
    let mime = format!("From: {MAILBOX}\r\nTo: {RECIPIENT}\r\nSubject: planted-subject\r\n\r\nplanted-body\r\n");
    Email::from_mime(MAILBOX, [RECIPIENT], mime.into_bytes()).expect("a well-formed email")
}

fn submission(id: &str) -> Submission {
    Submission::new(MAILBOX, email()).lane(Lane::Foreground).operation_id(id)
}

#[tokio::test]
async fn an_email_s_whole_life_shows_nothing_of_it() {
    let seen = Seen::everything();
    let mut config = Config::default();
    config.breaker.ramp = Duration::ZERO;
    config.breaker.health_cooldown = Duration::from_secs(1);
    config.retry.backoff = Duration::from_millis(10);
    let scheduler = Scheduler::builder(config, Every::default()).start().await.expect("it starts");
    let handle = scheduler.handle();
    let mut events = handle.events();

    for n in 0..4 {
        let submitted = submission(&format!("operation-{n}"));
        seen.show(&submitted);
        let ticket = handle.submit(submitted).await.expect("it is taken in");
        seen.show(&ticket);
        seen.show(&ticket.outcome().await);
        let record = handle.operation(&format!("operation-{n}")).await.expect("the store answers");
        seen.show(&record);
        seen.add(serde_json::to_string(&record).expect("a record is JSON").as_bytes());
    }
    let conflict = handle.submit(submission("operation-0").lane(Lane::Background)).await;
    seen.show_error(&conflict.expect_err("the same id with another lane"));
    let invalid = handle.submit(submission("").tenant("acme")).await;
    seen.show_error(&invalid.expect_err("an empty id"));
    seen.show(&(&scheduler, &handle, handle.mailbox(MAILBOX).await, handle.mailboxes().await));
    seen.show(&scheduler.shutdown().await);
    let late = handle.submit(submission("late")).await;
    seen.show_error(&late.expect_err("nothing is taken in any more"));
    drop(handle);
    while let Ok(Some(Ok(event))) = tokio::time::timeout(Duration::from_millis(100), events.next()).await {
        seen.add(serde_json::to_string(&event).expect("an event is JSON").as_bytes());
    }
    for proof in ["breaker.scope.opened", "send.attempt", "operation-3", "recipients: 1"] {
        seen.expect_clean(proof);
    }
}

#[test]
fn an_email_that_is_refused_does_not_show_what_is_wrong_with_it() {
    let seen = Seen::everything();
    let bad = ["planted-recipient", "planted-recipient@\r\nBcc: x@y.example", "<planted-recipient@fabrikam.example>"];
    for recipient in bad {
        seen.show_error(
            &Email::from_mime(MAILBOX, [recipient], &b"Subject: a\r\n\r\n"[..]).expect_err("a bad address"),
        );
    }
    let mime = &b"planted-subject\r\n\r\nplanted-body"[..];
    seen.show_error(&Email::from_mime(MAILBOX, [RECIPIENT], mime).expect_err("no header block"));
    seen.expect_clean("recipients");
}

#[cfg(feature = "config")]
#[test]
fn a_configuration_with_a_mistake_beside_a_secret_does_not_show_the_secret() {
    let seen = Seen::everything();
    let files = [
        "[transport.graph]\nclient_secret = \"planted-secret\"\nclient_sicret = 1\n",
        "[transport.graph]\nclient_sicret = \"planted-secret\"\n",
        "[transport.graph]\nclient_secret = [\"planted-secret\"]\n",
        "[transport.graph]\nclient_secret = \"planted-secret\n",
    ];
    for file in files {
        seen.show_error(&Config::from_toml(file, "planted.toml").expect_err("a mistake in every file"));
    }
    let mut config = Config::default();
    config.transport.graph.client_secret = mailweir::config::Secret::new("planted-secret");
    seen.show(&config);
    seen.expect_clean("client_secret");
}

#[cfg(all(feature = "graph", feature = "upstream"))]
#[tokio::test]
async fn neither_a_client_secret_nor_a_token_nor_an_email_shows_on_its_way_to_graph() {
    use mailweir::clock::{Clock as _, SystemClock};
    use mailweir::transport::graph::{Credentials, GraphOptions, GraphTransport};
    use mailweir::upstream::http::{ServerOptions, UpstreamServer};
    use mailweir::upstream::{Profile, Upstream, UpstreamLimit};

    let seen = Seen::everything();
    let clock = Arc::new(SystemClock::new());
    let limit = UpstreamLimit::requests(1, Duration::from_secs(60));
    let mut known = ServerOptions::default();
    known.client_secret = "planted-secret".to_owned();
    let (upstream, own) = (Upstream::new(Profile::A.model([limit], 7), 7), Arc::clone(&clock));
    let server = UpstreamServer::start_with(upstream, move || own.now(), known.clone()).await.expect("a free port");

    for (secret, verdicts) in [("planted-secret", 2), ("planted-secret-that-is-wrong", 1)] {
        let credentials = Credentials::new("contoso", known.client_id.clone(), secret).authority(server.url());
        let options = GraphOptions::default().base_url(server.url());
        seen.show(&credentials);
        let transport = GraphTransport::new(credentials, options, clock.clone()).expect("valid options");
        if let Err(error) = transport.check().await {
            seen.show_error(&error);
        }
        for number in 1..=verdicts {
            let attempt = Attempt {
                operation_id: "graph-1".into(),
                mailbox: MAILBOX.into(),
                lane: Lane::Foreground,
                number,
                email: email(),
                timeout: Duration::from_secs(10),
            };
            let answer = transport.send(attempt).await;
            seen.show(&answer);
        }
        seen.show(&transport);
    }
    seen.show(&server);
    server.shutdown().await;
    for proof in ["status: Some(202)", "status: Some(429)"] {
        seen.expect_clean(proof);
    }
}
