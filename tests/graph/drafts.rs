//! Draft first, then send: what is lost on the way can be looked up, and no draft is made twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mailweir::email::Email;
use mailweir::engine::{Cost, Sent, Subject, Verdict};
use mailweir::transport::graph::{GraphError, GraphMode, GraphOptions, GraphTransport};
use mailweir::transport::{Attempt, Transport};

use super::server::{Request, Server, Step, accepted, answer, status};
use super::{Fixed, attempt, fixed_with};

const NOT_SENT: Verdict = Verdict::Transient { sent: Sent::Maybe, retry_after: None };
const FOUND: &str = r#"{"value":[{"id":"left=","internetMessageId":"<1@contoso.example>"}]}"#;
const NOTHING: &str = r#"{"value":[]}"#;
const SENT: &str = r#"{"value":[{"internetMessageId":"<1@contoso.example>"}]}"#;

const BOTH: &str = r#"{"error":{"code":"ErrorItemNotFound","innerError":{"code":"MailboxNotEnabledForRESTAPI"}}}"#;

fn drafts(server: &Server) -> GraphTransport {
    fixed_with(GraphOptions::default().base_url(server.url()).mode(GraphMode::DraftThenSend))
}

fn ok(body: &str) -> Step {
    Step::Write(answer("200 OK", &[("content-type", "application/json")], body))
}

fn created() -> Step {
    Step::Write(answer("201 Created", &[], r#"{"body":{"content":"x"},"id":"new+/=","isDraft":true}"#))
}

fn not_found(code: &str) -> Step {
    Step::Write(answer("404 Not Found", &[], &format!(r#"{{"error":{{"code":"{code}","message":"x"}}}}"#)))
}

fn gone() -> Step {
    not_found("ErrorItemNotFound")
}

/// What an unlicensed mailbox answers, or one that moved away.
fn no_mailbox() -> Step {
    not_found("MailboxNotEnabledForRESTAPI")
}

fn is_post(request: &Request, path: &str) -> bool {
    request.line.starts_with("POST ") && request.line.contains(path)
}

fn second() -> Attempt {
    Attempt { number: 2, ..attempt() }
}

/// Requests by their method and the end of their path.
fn lines(server: &Server) -> Vec<String> {
    let short = |request: Request| {
        let path = request.line.replace("/v1.0/users/noreply@contoso.example", "").replace(" HTTP/1.1", "");
        path.split('?').next().unwrap_or_default().to_owned()
    };
    server.seen("").into_iter().map(short).collect()
}

#[tokio::test]
async fn an_email_goes_out_in_two_requests_and_is_charged_as_two() {
    let server = Server::start(|request, _| if is_post(request, "/send ") { accepted() } else { created() }).await;
    let transport = drafts(&server);
    assert_eq!(transport.cost(Cost::email(3, 900)), Cost { requests: 2, ..Cost::email(3, 900) });
    assert_eq!(fixed_with(GraphOptions::default()).cost(Cost::ONE_REQUEST), Cost::ONE_REQUEST);
    let answer = transport.send(attempt()).await;
    assert_eq!((answer.verdict, answer.status), (Verdict::Accepted, Some(202)));
    assert_eq!(lines(&server), ["POST /messages", "POST /messages/new%2B%2F%3D/send"]);
    let seen = server.seen("");
    assert_eq!(seen[0].header("content-type"), Some("text/plain"));
    assert_eq!((seen[1].header("content-length"), seen[1].body.len()), (Some("0"), 0));
    assert_eq!(seen[0].header("client-request-id"), seen[1].header("client-request-id"));
}

#[tokio::test]
async fn several_attempts_at_once_are_drafts_too() {
    let server = Server::start(|request, _| if is_post(request, "/send ") { accepted() } else { created() }).await;
    let two = vec![attempt(), Attempt { operation_id: "reset-2".into(), ..attempt() }];
    let answers = drafts(&server).send_many(two).await;
    assert!(answers.iter().all(|answer| answer.verdict == Verdict::Accepted), "{answers:?}");
    assert_eq!((server.count("/messages"), server.count("sendMail"), server.count("batch")), (4, 0, 0));
}

#[tokio::test]
async fn an_answer_that_is_lost_before_the_send_is_an_ordinary_failure() {
    for step in [Step::WriteAndClose(String::new()), status("504 Gateway Timeout"), status("202 Accepted"), ok("{}")] {
        let server = Server::start(move |_, _| step.clone()).await;
        assert_eq!(drafts(&server).send(attempt()).await.verdict, NOT_SENT);
        assert_eq!(lines(&server), ["POST /messages"], "nothing was sent");
    }
}

#[tokio::test]
async fn a_draft_whose_creation_was_lost_is_found_and_sent_and_no_second_one_is_made() {
    let server = Server::start(|request, _| match request {
        request if is_post(request, "/messages ") => Step::WriteAndClose(String::new()),
        request if is_post(request, "/send ") => accepted(),
        _ => ok(FOUND),
    })
    .await;
    let transport = drafts(&server);
    assert_eq!(transport.send(attempt()).await.verdict, NOT_SENT);
    assert_eq!(transport.send(second()).await.verdict, Verdict::Accepted);
    let expected = ["POST /messages", "GET /mailFolders/drafts/messages", "POST /messages/left%3D/send"];
    assert_eq!(lines(&server), expected);
}

#[tokio::test]
async fn what_an_earlier_attempt_sent_is_found_and_not_sent_again() {
    let server = Server::start(|request, _| if request.line.contains("drafts") { ok(NOTHING) } else { ok(SENT) }).await;
    assert_eq!(drafts(&server).send(second()).await.verdict, Verdict::Accepted);
    assert_eq!(lines(&server), ["GET /mailFolders/drafts/messages", "GET /mailFolders/sentitems/messages"]);
}

#[tokio::test]
async fn a_second_attempt_that_finds_neither_draft_nor_email_makes_a_draft() {
    let server = Server::start(|request, _| match request {
        request if is_post(request, "/messages ") => created(),
        request if is_post(request, "/send ") => accepted(),
        _ => ok(NOTHING),
    })
    .await;
    assert_eq!(drafts(&server).send(second()).await.verdict, Verdict::Accepted);
    assert_eq!(lines(&server).len(), 4);
}

#[tokio::test]
async fn a_look_that_is_refused_sends_nothing() {
    for (line, expected) in [
        ("403 Forbidden", Verdict::Permanent { of: Subject::Account }),
        ("504 Gateway Timeout", NOT_SENT),
        ("503 Service Unavailable", NOT_SENT),
    ] {
        let server = Server::start(move |_, _| status(line)).await;
        assert_eq!(drafts(&server).send(second()).await.verdict, expected, "{line}");
        assert_eq!(lines(&server).len(), 1, "{line}");
    }
}

#[tokio::test]
async fn a_throttled_draft_is_kept_and_sent_by_the_next_attempt() {
    let sends = Arc::new(AtomicUsize::new(0));
    let server = Server::start(move |request, _| match request {
        request if is_post(request, "/send ") => match sends.fetch_add(1, Ordering::Relaxed) {
            0 => Step::Write(answer("429 Too Many Requests", &[("retry-after", "7")], "")),
            _ => accepted(),
        },
        _ => created(),
    })
    .await;
    let transport = drafts(&server);
    assert!(matches!(transport.send(attempt()).await.verdict, Verdict::Throttled(_)));
    assert_eq!(transport.send(second()).await.verdict, Verdict::Accepted);
    let send = "POST /messages/new%2B%2F%3D/send";
    assert_eq!(lines(&server), ["POST /messages", send, send], "one draft");
}

#[tokio::test]
async fn a_send_that_was_lost_is_unknown_and_its_draft_tells() {
    for (now, expected) in [
        (ok(r#"{"isDraft":true}"#), Some(false)),
        (ok(r#"{"isDraft":false}"#), Some(true)),
        (status("503 Service Unavailable"), None),
        (ok("{}"), None),
    ] {
        for lost in [Step::WriteAndClose(String::new()), status("504 Gateway Timeout")] {
            let (now, lost) = (now.clone(), lost.clone());
            let server = Server::start(move |request, _| match request {
                request if is_post(request, "/send ") => lost.clone(),
                request if is_post(request, "/messages ") => created(),
                _ => now.clone(),
            })
            .await;
            let transport = drafts(&server);
            assert_eq!(transport.send(attempt()).await.verdict, Verdict::Unknown);
            assert_eq!(transport.reconcile(attempt()).await, expected);
            assert_eq!(lines(&server).last().map(String::as_str), Some("GET /messages/new%2B%2F%3D"));
        }
    }
}

#[tokio::test]
async fn a_draft_that_is_not_there_was_sent_only_if_sent_items_say_so() {
    for (in_drafts, in_sent, expected) in [
        (ok(NOTHING), ok(SENT), Some(true)),
        (ok(NOTHING), ok(NOTHING), Some(false)),
        (ok(FOUND), ok(SENT), Some(false)),
        (ok(NOTHING), no_mailbox(), None),
        (no_mailbox(), no_mailbox(), None),
    ] {
        for now in [gone(), no_mailbox(), status("404 Not Found")] {
            let (case, now) = (format!("{in_drafts:?} {in_sent:?} {now:?}"), now.clone());
            let (in_drafts, in_sent) = (in_drafts.clone(), in_sent.clone());
            let server = Server::start(move |request, _| match request {
                request if is_post(request, "/send ") => status("504 Gateway Timeout"),
                request if is_post(request, "/messages ") => created(),
                request if request.line.contains("/drafts/") => in_drafts.clone(),
                request if request.line.contains("/sentitems/") => in_sent.clone(),
                _ => now.clone(),
            })
            .await;
            let transport = drafts(&server);
            assert_eq!(transport.send(attempt()).await.verdict, Verdict::Unknown);
            assert_eq!(transport.reconcile(attempt()).await, expected, "{case}");
            assert_eq!(lines(&server)[2..4], ["GET /messages/new%2B%2F%3D", "GET /mailFolders/drafts/messages"]);
        }
    }
}

#[tokio::test]
async fn a_send_that_finds_nothing_is_unknown_only_if_the_item_is_what_is_gone() {
    let mailbox = Verdict::Permanent { of: Subject::Mailbox };
    for (refusal, expected) in [
        (gone(), Verdict::Unknown),
        (no_mailbox(), mailbox.clone()),
        (status("404 Not Found"), mailbox.clone()),
        (Step::Write(answer("404 Not Found", &[], BOTH)), mailbox),
    ] {
        let case = format!("{refusal:?}");
        let server = Server::start(move |request, n| match request {
            request if is_post(request, "/send ") && n == 1 => refusal.clone(),
            request if is_post(request, "/send ") => accepted(),
            request if is_post(request, "/messages ") => created(),
            _ => ok(FOUND),
        })
        .await;
        let transport = drafts(&server);
        let answer = transport.send(attempt()).await;
        assert_eq!((answer.verdict, answer.status), (expected, Some(404)), "{case}");
        // The draft has moved: it is found by its `Message-ID` and sent under its new id.
        assert_eq!(transport.send(second()).await.verdict, Verdict::Accepted, "{case}");
        assert_eq!(lines(&server)[2..], ["GET /mailFolders/drafts/messages", "POST /messages/left%3D/send"], "{case}");
    }
}

#[tokio::test]
async fn a_draft_that_moved_is_sent_under_the_id_that_its_look_up_found() {
    let server = Server::start(|request, _| match request {
        request if is_post(request, "/new%2B%2F%3D/send ") => status("504 Gateway Timeout"),
        request if is_post(request, "/left%3D/send ") => accepted(),
        request if is_post(request, "/messages ") => created(),
        request if request.line.contains("/drafts/") => ok(FOUND),
        _ => gone(),
    })
    .await;
    let transport = drafts(&server);
    assert_eq!(transport.send(attempt()).await.verdict, Verdict::Unknown);
    assert_eq!(transport.reconcile(attempt()).await, Some(false));
    assert_eq!(transport.send(second()).await.verdict, Verdict::Accepted);
    assert_eq!(lines(&server)[4..], ["POST /messages/left%3D/send"]);
}

#[tokio::test]
async fn after_a_creation_that_was_refused_the_next_attempt_is_two_requests_too() {
    for line in ["429 Too Many Requests", "403 Forbidden"] {
        let server = Server::start(move |request, n| match request {
            _ if n < 3 => status(line),
            request if is_post(request, "/send ") => accepted(),
            request if is_post(request, "/messages ") => created(),
            _ => ok(NOTHING),
        })
        .await;
        let transport = drafts(&server);
        for number in 1..=3 {
            assert_ne!(transport.send(Attempt { number, ..attempt() }).await.verdict, Verdict::Accepted);
        }
        assert_eq!(transport.send(Attempt { number: 4, ..attempt() }).await.verdict, Verdict::Accepted);
        let (create, send) = ("POST /messages", "POST /messages/new%2B%2F%3D/send");
        assert_eq!(lines(&server), [create, create, create, create, send], "{line}");
    }
}

#[tokio::test]
async fn a_creation_that_was_lost_is_looked_for_also_when_another_was_refused() {
    let (throttled, lost) = (status("429 Too Many Requests"), Step::WriteAndClose(String::new()));
    for (first, then) in [(throttled.clone(), lost.clone()), (lost, throttled)] {
        let case = format!("{first:?}");
        let creations = AtomicUsize::new(0);
        let server = Server::start(move |request, _| match request {
            request if is_post(request, "/messages ") => match creations.fetch_add(1, Ordering::Relaxed) {
                0 => first.clone(),
                1 => then.clone(),
                _ => created(),
            },
            request if is_post(request, "/send ") => accepted(),
            _ => ok(NOTHING),
        })
        .await;
        let transport = drafts(&server);
        for number in 1..=2 {
            assert_ne!(transport.send(Attempt { number, ..attempt() }).await.verdict, Verdict::Accepted);
        }
        let before = lines(&server).len();
        assert_eq!(transport.send(Attempt { number: 3, ..attempt() }).await.verdict, Verdict::Accepted);
        let looks = ["GET /mailFolders/drafts/messages", "GET /mailFolders/sentitems/messages"];
        assert_eq!(lines(&server)[before..before + 2], looks, "{case}");
    }
}

#[tokio::test]
async fn time_that_runs_out_while_a_draft_is_sent_leaves_it_unknown() {
    let server = Server::start(|request, _| if is_post(request, "/send ") { Step::Hang } else { created() }).await;
    let attempt = Attempt { timeout: std::time::Duration::from_millis(500), ..attempt() };
    assert_eq!(drafts(&server).send(attempt).await.verdict, Verdict::Unknown);
}

#[tokio::test]
async fn after_a_restart_a_draft_that_is_there_was_not_sent_and_sent_items_decide_else() {
    for (in_drafts, in_sent, expected) in [
        (FOUND, NOTHING, Some(false)),
        (NOTHING, SENT, Some(true)),
        (NOTHING, NOTHING, Some(false)),
        ("{}", SENT, None),
    ] {
        let server =
            Server::start(move |request, _| if request.line.contains("drafts") { ok(in_drafts) } else { ok(in_sent) })
                .await;
        assert_eq!(drafts(&server).reconcile(attempt()).await, expected, "{in_drafts} {in_sent}");
    }
}

#[tokio::test]
async fn an_email_without_a_message_id_gets_one_that_every_attempt_has() {
    let server =
        Server::start(|request, _| if is_post(request, "/send ") { status("504 Gateway Timeout") } else { created() });
    let server = server.await;
    let nameless = || {
        let mime = &b"To: ann@fabrikam.example\r\n\r\nHello\r\n"[..];
        let email = Email::from_mime("noreply@contoso.example", ["ann@fabrikam.example"], mime);
        Attempt { email: email.expect("a valid email"), ..attempt() }
    };
    for _ in 0..2 {
        drafts(&server).send(nameless()).await;
    }
    let bodies: Vec<Vec<u8>> = server.seen("/messages").into_iter().map(|request| request.body).collect();
    assert_eq!(bodies[0], bodies[2], "the same bytes");
    let decoded = base64::Engine::decode(&super::STANDARD, &bodies[0]).expect("base64");
    let text = String::from_utf8(decoded).expect("text");
    let rest = text.strip_prefix("Message-ID: <").expect("an id in front");
    assert!(rest.contains("@contoso.example>\r\nTo: ann@fabrikam.example\r\n\r\nHello"), "{text}");
}

#[test]
fn drafts_take_no_batches() {
    let options = GraphOptions::default().mode(GraphMode::DraftThenSend).batch_max(2);
    let error = GraphTransport::with_tokens(Arc::new(Fixed), options).expect_err("refused");
    assert!(matches!(error, GraphError::DraftsInBatches { batch_max: 2 }));
}
