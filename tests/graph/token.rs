//! One token request for many sends; renewed early, once after a 401, and never hammered.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use mailweir::engine::{Answer, Sent, Subject, Verdict};
use mailweir::transport::graph::{Credentials, GraphOptions, GraphTransport};
use mailweir::transport::{Attempt, Transport};

use super::server::{Request, Server, Step, accepted, answer, status, token};
use super::{HandClock, attempt};

const SECRET: &str = "s3cr3t-value";
const TOKEN: &str = "/oauth2/v2.0/token";

fn transport(server: &Server, clock: &Arc<HandClock>) -> GraphTransport {
    let credentials = Credentials::new("contoso.example", "client-1", SECRET).authority(server.url());
    let options = GraphOptions::default().base_url(server.url());
    GraphTransport::new(credentials, options, Arc::<HandClock>::clone(clock)).expect("valid options")
}

fn is_token(request: &Request) -> bool {
    request.line.contains(TOKEN)
}

async fn send_many(transport: &GraphTransport, count: usize) -> Vec<Answer> {
    join_all((0..count).map(|_| transport.send(attempt()))).await
}

#[tokio::test]
async fn many_sends_at_once_fetch_one_token() {
    let server = Server::start(|r, _| if is_token(r) { token("t1", 3_600) } else { accepted() }).await;
    let transport = transport(&server, &Arc::default());
    assert!(send_many(&transport, 40).await.iter().all(|answer| answer.verdict == Verdict::Accepted));
    let seen = server.seen(TOKEN);
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].line, "POST /contoso.example/oauth2/v2.0/token HTTP/1.1");
    let form = String::from_utf8_lossy(&seen[0].body).into_owned();
    assert!(form.contains("grant_type=client_credentials&client_id=client-1&client_secret=s3cr3t-value"), "{form}");
    assert!(form.ends_with("scope=https%3A%2F%2Fgraph.microsoft.com%2F.default"), "{form}");
    assert!(server.seen("sendMail").iter().all(|r| r.header("authorization") == Some("Bearer t1")));
}

#[tokio::test]
async fn secrets_never_print() {
    let server = Server::start(|r, _| if is_token(r) { token("t0ken-value", 3_600) } else { accepted() }).await;
    let transport = transport(&server, &Arc::default());
    transport.send(attempt()).await;
    let shown = format!("{transport:?} {:?}", Credentials::new("t", "c", SECRET));
    assert!(!shown.contains(SECRET) && !shown.contains("t0ken-value"), "{shown}");
}

#[tokio::test]
async fn a_token_is_renewed_in_the_last_fifth_of_its_life_by_one_send() {
    let server = Server::start(|r, n| if is_token(r) { token(&format!("t{n}"), 1_000) } else { accepted() }).await;
    let clock = Arc::<HandClock>::default();
    let transport = transport(&server, &clock);
    send_many(&transport, 1).await;
    clock.advance(799);
    send_many(&transport, 10).await;
    assert_eq!(server.count(TOKEN), 1);
    clock.advance(1);
    send_many(&transport, 10).await;
    assert_eq!(server.count(TOKEN), 2);
}

#[tokio::test]
async fn a_failed_early_renewal_goes_on_with_the_old_token_until_it_expires() {
    let server = Server::start(|r, n| match (is_token(r), n) {
        (true, 0) => token("t1", 1_000),
        (true, _) => Step::Write(answer("503 Service Unavailable", &[("retry-after", "30")], "")),
        (false, _) => accepted(),
    })
    .await;
    let clock = Arc::<HandClock>::default();
    let transport = transport(&server, &clock);
    send_many(&transport, 1).await;
    clock.advance(800);
    assert!(send_many(&transport, 10).await.iter().all(|answer| answer.verdict == Verdict::Accepted));
    assert_eq!(server.count(TOKEN), 2, "one renewal was tried, then the authority was left alone");
    clock.advance(29);
    send_many(&transport, 3).await;
    assert_eq!(server.count(TOKEN), 2);
    clock.advance(171);
    let sent = server.count("sendMail");
    let verdict = transport.send(attempt()).await.verdict;
    let after = Some(Duration::from_secs(30));
    assert_eq!(verdict, Verdict::Transient { sent: Sent::No, retry_after: after }, "expired");
    assert_eq!(server.count("sendMail"), sent);
}

/// An authority that gave one token, and then takes requests and never answers.
async fn hanging() -> Server {
    Server::start(|r, n| match (is_token(r), n) {
        (true, 0) => token("t1", 1_000),
        (true, _) => Step::Hang,
        (false, _) => accepted(),
    })
    .await
}

#[tokio::test]
async fn an_authority_that_hangs_holds_no_send_back_whose_token_is_good() {
    let (server, clock) = (hanging().await, Arc::<HandClock>::default());
    let transport = transport(&server, &clock);
    send_many(&transport, 1).await;
    clock.advance(800);
    for _ in 0..3 {
        assert_eq!(transport.send(attempt()).await.verdict, Verdict::Accepted, "the attempt has twenty seconds");
    }
    assert_eq!(server.count(TOKEN), 2, "tried once, then left alone");
    clock.advance(1);
    send_many(&transport, 1).await;
    assert_eq!(server.count(TOKEN), 3, "the pause is over");
}

#[tokio::test]
async fn an_attempt_that_ends_while_the_authority_hangs_leaves_the_pause_behind() {
    let (server, clock) = (hanging().await, Arc::<HandClock>::default());
    let transport = transport(&server, &clock);
    let short = || Attempt { timeout: Duration::from_millis(200), ..attempt() };
    send_many(&transport, 1).await;
    for (wait, asked, pause) in [(800, 2, 1), (1, 3, 2)] {
        clock.advance(wait);
        let verdict = transport.send(short()).await.verdict;
        assert_eq!(verdict, Verdict::Transient { sent: Sent::No, retry_after: None }, "it ended first");
        assert_eq!(transport.send(short()).await.verdict, Verdict::Accepted, "the next does not hang in its turn");
        assert_eq!(server.count(TOKEN), asked, "left alone for {pause} s");
    }
    // Without a token there is nothing to go on with, and still nothing to hang on.
    clock.advance(199);
    transport.send(short()).await;
    let verdict = transport.send(short()).await.verdict;
    let after = Some(Duration::from_secs(4));
    assert_eq!(verdict, Verdict::Transient { sent: Sent::No, retry_after: after });
    assert_eq!(server.count(TOKEN), 4);
}

#[tokio::test]
async fn a_401_renews_once_for_all_and_repeats_once_each() {
    let server = Server::start(|r, n| match r.header("authorization") {
        None => token(&format!("t{n}"), 3_600),
        Some("Bearer t0") => status("401 Unauthorized"),
        Some(_) => accepted(),
    })
    .await;
    let transport = transport(&server, &Arc::default());
    assert!(send_many(&transport, 10).await.iter().all(|answer| answer.verdict == Verdict::Accepted));
    assert_eq!(server.count(TOKEN), 2, "one renewal for ten refusals");
    let refused = server.seen("sendMail").iter().filter(|r| r.header("authorization") == Some("Bearer t0")).count();
    assert_eq!(server.count("sendMail"), refused + 10);
}

#[tokio::test]
async fn a_second_401_is_the_answer() {
    let server =
        Server::start(|r, n| if is_token(r) { token(&format!("t{n}"), 3_600) } else { status("401 Unauthorized") })
            .await;
    let answer = transport(&server, &Arc::default()).send(attempt()).await;
    assert_eq!((answer.verdict, answer.status), (Verdict::Permanent { of: Subject::Account }, Some(401)));
    assert_eq!((server.count(TOKEN), server.count("sendMail")), (2, 2));
}

#[tokio::test]
async fn a_401_followed_by_a_lost_authority_was_not_accepted_and_keeps_its_charge() {
    let server = Server::start(|r, n| match (is_token(r), n) {
        (true, 0) => token("t", 3_600),
        (true, _) => status("500 Internal Server Error"),
        (false, _) => status("401 Unauthorized"),
    })
    .await;
    let answer = transport(&server, &Arc::default()).send(attempt()).await;
    assert_eq!(answer.verdict, Verdict::Transient { sent: Sent::Maybe, retry_after: None });
}

#[tokio::test]
async fn refused_credentials_are_the_accounts_and_are_not_tried_again_at_once() {
    let body = r#"{"error":"invalid_client","error_description":"secret expired","correlation_id":"c-1"}"#;
    let server = Server::start(move |_, _| Step::Write(answer("401 Unauthorized", &[], body))).await;
    let clock = Arc::<HandClock>::default();
    let transport = transport(&server, &clock);
    for answer in send_many(&transport, 20).await {
        assert_eq!((answer.verdict, answer.status), (Verdict::Permanent { of: Subject::Credentials }, Some(401)));
        assert_eq!(answer.provider_id.as_deref(), Some("c-1"));
    }
    assert_eq!((server.count(TOKEN), server.count("sendMail")), (1, 0), "twenty sends, one question");
    let error = transport.check().await.expect_err("refused");
    assert!(!error.is_retryable());
    assert!(error.to_string().contains("invalid_client") && !error.to_string().contains("expired\""), "{error}");
    clock.advance(60);
    transport.send(attempt()).await;
    assert_eq!(server.count(TOKEN), 2, "asked again after a minute: somebody may have mended it");
}

#[tokio::test]
async fn a_refusal_that_names_no_oauth_error_says_nothing_about_the_credentials() {
    for (line, body) in [
        ("403 Forbidden", "<html><body>Blocked by the proxy</body></html>"),
        ("404 Not Found", ""),
        ("407 Proxy Authentication Required", r#"{"message":"log in"}"#),
        ("400 Bad Request", r#"{"error":{"code":"BadRequest"}}"#),
    ] {
        let server = Server::start(move |_, _| Step::Write(answer(line, &[], body))).await;
        let clock = Arc::<HandClock>::default();
        let transport = transport(&server, &clock);
        let verdict = transport.send(attempt()).await.verdict;
        assert!(matches!(verdict, Verdict::Transient { sent: Sent::No, .. }), "{line}: {verdict:?}");
        let error = transport.check().await.expect_err("no token");
        assert!(error.is_retryable() && error.to_string().contains("named no OAuth error"), "{error}");
        clock.advance(1);
        transport.send(attempt()).await;
        assert_eq!(server.count(TOKEN), 2, "{line}: asked again soon");
    }
}

#[tokio::test]
async fn a_token_that_has_expired_already_is_not_asked_for_with_every_send() {
    let server = Server::start(|r, _| if is_token(r) { token("t", 0) } else { accepted() }).await;
    let transport = transport(&server, &Arc::default());
    send_many(&transport, 20).await;
    assert_eq!((server.count(TOKEN), server.count("sendMail")), (1, 0));
    let error = transport.check().await.expect_err("no token");
    assert!(error.is_retryable() && error.to_string().contains("`expires_in` is 0"), "{error}");
}

#[tokio::test]
async fn an_authority_in_trouble_is_asked_at_growing_intervals() {
    let server = Server::start(|_, _| status("503 Service Unavailable")).await;
    let clock = Arc::<HandClock>::default();
    let transport = transport(&server, &clock);
    for (pause, asked) in [(0, 1), (0, 1), (1, 2), (1, 2), (1, 3), (3, 3), (1, 4)] {
        clock.advance(pause);
        let verdict = transport.send(attempt()).await.verdict;
        assert!(matches!(verdict, Verdict::Transient { sent: Sent::No, .. }), "{verdict:?}");
        assert_eq!(server.count(TOKEN), asked, "after {pause} s more");
    }
    assert_eq!(server.count("sendMail"), 0);
}

#[tokio::test]
async fn an_answer_that_is_no_token_is_not_used() {
    for body in [
        "",
        "{}",
        r#"{"token_type":"mac","access_token":"t"}"#,
        r#"{"token_type":"Bearer","access_token":""}"#,
        r#"{"token_type":"Bearer","access_token":"t\r\nx: y"}"#,
        r#"{"token_type":"Bearer","access_token":"t","expires_in":"soon"}"#,
        r#"{"token_type":"Bearer","access_token":"t","expires_in":0}"#,
        r#"{"token_type":"Bearer","access_token":"t","expires_in":"0"}"#,
    ] {
        let server = Server::start(move |_, _| Step::Write(answer("200 OK", &[], body))).await;
        let verdict = transport(&server, &Arc::default()).send(attempt()).await.verdict;
        assert!(matches!(verdict, Verdict::Transient { sent: Sent::No, .. }), "{body}: {verdict:?}");
        assert_eq!(server.count("sendMail"), 0);
    }
    let text = r#"{"token_type":"bearer","access_token":"t","expires_in":"3599"}"#;
    let server =
        Server::start(move |r, _| if is_token(r) { Step::Write(answer("200 OK", &[], text)) } else { accepted() })
            .await;
    assert_eq!(transport(&server, &Arc::default()).send(attempt()).await.verdict, Verdict::Accepted);
}
