//! The Graph transport over real sockets. Nothing sleeps: a test waits for what it asserts.
#![cfg(feature = "graph")]

mod batch;
mod drafts;
mod faults;
mod server;
mod token;
#[cfg(feature = "upstream")]
mod upstream;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use mailweir::clock::Clock;
use mailweir::email::Email;
use mailweir::engine::{Lane, Subject, Timestamp, Verdict};
use mailweir::transport::graph::{
    Credentials, GraphError, GraphOptions, GraphTransport, PlainHttp, Token, TokenError, TokenSource,
};
use mailweir::transport::{Attempt, Transport};

use server::{Server, accepted, answer, status};

const MIME: &str =
    "From: noreply@contoso.example\r\nTo: ann@fabrikam.example\r\nMessage-ID: <1@contoso.example>\r\n\r\nHello\r\n";

/// A clock that tests move by hand.
#[derive(Debug, Default)]
struct HandClock(AtomicU64);

impl HandClock {
    fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}

/// A source that always has a token.
#[derive(Debug)]
struct Fixed;

impl TokenSource for Fixed {
    fn token<'a>(&'a self, _: Option<&'a Token>) -> BoxFuture<'a, Result<Token, TokenError>> {
        Box::pin(async { Ok(Token::new("t", 0)) })
    }
}

fn fixed(url: &str) -> GraphTransport {
    fixed_with(GraphOptions::default().base_url(url))
}

fn fixed_with(options: GraphOptions) -> GraphTransport {
    GraphTransport::with_tokens(Arc::new(Fixed), options).expect("valid options")
}

fn email() -> Email {
    Email::from_mime("noreply@contoso.example", ["ann@fabrikam.example"], MIME.as_bytes()).expect("a valid email")
}

fn attempt() -> Attempt {
    Attempt {
        operation_id: "reset-1".into(),
        mailbox: "noreply@contoso.example".into(),
        lane: Lane::Foreground,
        number: 1,
        email: email(),
        timeout: Duration::from_secs(20),
    }
}

#[tokio::test]
async fn an_email_goes_out_as_base64_mime_with_its_correlation() {
    let server = Server::start(|_, _| accepted()).await;
    let transport = fixed(&server.url());
    let answer = transport.send(attempt()).await;
    assert_eq!((answer.verdict, answer.status), (Verdict::Accepted, Some(202)));
    assert_eq!(answer.provider_id.as_deref(), Some("graph-1"));
    let second = Attempt { number: 2, lane: Lane::Background, mailbox: "a/b?c@contoso.example".into(), ..attempt() };
    transport.send(second).await;

    let versioned = fixed(&format!("{}/v1.0/", server.url()));
    versioned.send(attempt()).await;

    let seen = server.seen("sendMail");
    assert_eq!(seen[2].line, seen[0].line, "the version may stand in the base URL");
    assert_eq!(seen[0].line, "POST /v1.0/users/noreply@contoso.example/sendMail HTTP/1.1");
    assert_eq!(seen[1].line, "POST /v1.0/users/a%2Fb%3Fc@contoso.example/sendMail HTTP/1.1");
    assert_eq!(seen[0].header("content-type"), Some("text/plain"));
    assert_eq!(seen[0].header("authorization"), Some("Bearer t"));
    assert_eq!(STANDARD.decode(&seen[0].body).expect("base64"), MIME.as_bytes());
    assert_eq!(seen[0].header("x-ms-throttle-priority"), Some("high"));
    assert_eq!(seen[1].header("x-ms-throttle-priority"), Some("low"));
    let id = seen[0].header("client-request-id").expect("a correlation id");
    assert!(uuid::Uuid::try_parse(id).is_ok(), "{id}");
    assert_eq!(seen[1].header("client-request-id"), Some(id), "the same in every attempt");
}

#[tokio::test]
async fn only_202_is_accepted_and_nothing_is_repeated_or_followed() {
    for (line, expected) in [
        ("202 Accepted", Verdict::Accepted),
        ("200 OK", Verdict::Unknown),
        ("307 Temporary Redirect", Verdict::Permanent { of: Subject::Account }),
        ("500 Internal Server Error", Verdict::Unknown),
        ("504 Gateway Timeout", Verdict::Unknown),
    ] {
        let fields = [("location", "/elsewhere"), ("retry-after", "0")];
        let server = Server::start(move |_, _| server::Step::Write(answer(line, &fields, ""))).await;
        assert_eq!(fixed(&server.url()).send(attempt()).await.verdict, expected, "{line}");
        assert_eq!(server.count(""), 1, "{line}: one attempt is one request");
    }
    for line in ["429 Too Many Requests", "503 Service Unavailable"] {
        let server = Server::start(move |_, _| status(line)).await;
        fixed(&server.url()).send(attempt()).await;
        assert_eq!(server.count(""), 1, "{line}: retries are the scheduler's");
    }
}

#[tokio::test]
async fn what_graph_cannot_be_told_is_refused_before_anything_is_sent() {
    let server = Server::start(|_, _| accepted()).await;
    let transport = fixed(&server.url());
    for mailbox in ["", "..", "a\nb"] {
        let answer = transport.send(Attempt { mailbox: mailbox.into(), ..attempt() }).await;
        assert_eq!(answer.verdict, Verdict::Permanent { of: Subject::Mailbox }, "{mailbox:?}");
    }
    let stranger = Email::from_mime("noreply@contoso.example", ["bob@fabrikam.example"], MIME.as_bytes());
    let answer = transport.send(Attempt { email: stranger.expect("a valid email"), ..attempt() }).await;
    assert_eq!(answer.verdict, Verdict::Permanent { of: Subject::Message });
    assert_eq!(server.count(""), 0);
}

#[tokio::test]
async fn reconciliation_looks_for_the_message_id_in_sent_items() {
    let bodies = [r#"{"value":[{"internetMessageId":"<1@contoso.example>"}]}"#, r#"{"value":[]}"#, "{}"];
    let server = Server::start(move |_, n| server::Step::Write(answer("200 OK", &[], bodies[n]))).await;
    let transport = fixed(&server.url());
    assert_eq!(transport.reconcile(attempt()).await, Some(true));
    assert_eq!(transport.reconcile(attempt()).await, Some(false));
    assert_eq!(transport.reconcile(attempt()).await, None);
    let seen = server.seen("/mailFolders/sentitems/messages?$filter=internetMessageId%20eq%20%27%3C1@contoso.example");
    assert_eq!(seen.len(), 3, "{:?}", server.seen(""));
    assert!(seen[0].line.starts_with("GET "));

    let odd = of(b"To: ann@fabrikam.example\r\nMessage-ID: not one\r\n\r\n");
    assert_eq!(transport.reconcile(odd).await, None);
    assert_eq!(server.count(""), 3, "nothing to look for, nothing asked");
}

fn of(mime: &[u8]) -> Attempt {
    let email = Email::from_mime("n@contoso.example", ["ann@fabrikam.example"], mime);
    Attempt { email: email.expect("a valid email"), ..attempt() }
}

/// Without one the answer to a lost send could never be looked up.
#[tokio::test]
async fn an_email_without_a_message_id_gets_one_that_every_attempt_and_look_up_shares() {
    let server = Server::start(|request, _| match request.line.starts_with("GET ") {
        true => server::Step::Write(answer("200 OK", &[], r#"{"value":[]}"#)),
        false => accepted(),
    });
    let server = server.await;
    let transport = fixed(&server.url());
    let nameless = || of(b"To: ann@fabrikam.example\r\n\r\nHello\r\n");
    for _ in 0..2 {
        assert_eq!(transport.send(nameless()).await.verdict, Verdict::Accepted);
    }
    let sent: Vec<String> = server.seen("sendMail").iter().map(|request| decoded(&request.body)).collect();
    assert_eq!(sent[0], sent[1]);
    let id = sent[0].strip_prefix("Message-ID: <").and_then(|rest| rest.split_once(">\r\n")).expect("an id").0;
    assert!(sent[0].ends_with(">\r\nTo: ann@fabrikam.example\r\n\r\nHello\r\n"), "{}", sent[0]);
    assert_eq!(transport.reconcile(nameless()).await, Some(false));
    let looked = server.seen("/mailFolders/sentitems/");
    assert!(looked[0].line.contains(id), "{id} in {}", looked[0].line);
}

fn decoded(body: &[u8]) -> String {
    use base64::Engine as _;
    let mime = base64::engine::general_purpose::STANDARD.decode(body).expect("base64");
    String::from_utf8(mime).expect("text")
}

#[test]
fn options_that_cannot_work_are_refused_by_name() {
    let with = |options: GraphOptions| GraphTransport::with_tokens(Arc::new(Fixed), options).map(drop);
    let url = |url: &str| with(GraphOptions::default().base_url(url));
    for good in ["https://graph.microsoft.com", "http://127.0.0.1:1", "http://localhost:1/", "http://[::1]:1"] {
        assert!(url(good).is_ok(), "{good}");
    }
    for bad in ["", "graph.microsoft.com", "ftp://a.example", "https://a.example?x=1", "https://u:p@a.example"] {
        assert!(matches!(url(bad), Err(GraphError::Url { field: "base_url", .. })), "{bad}");
    }
    for plain in ["http://graph.microsoft.com", "http://127.0.0.1.evil.example", "http://10.0.0.1"] {
        assert!(matches!(url(plain), Err(GraphError::PlainHttp { .. })), "{plain}");
        assert!(with(GraphOptions::default().base_url(plain).plain_http(PlainHttp::Anywhere)).is_ok());
    }
    for (batch_max, good) in [(0, false), (1, true), (20, true), (21, false)] {
        assert_eq!(with(GraphOptions::default().batch_max(batch_max)).is_ok(), good, "{batch_max}");
    }
    for tenant in ["", "..", "a/b", "a?b"] {
        let made = GraphTransport::new(
            Credentials::new(tenant, "id", "secret"),
            GraphOptions::default(),
            Arc::new(HandClock::default()),
        );
        assert!(matches!(made, Err(GraphError::TenantId)), "{tenant:?}");
    }
}
