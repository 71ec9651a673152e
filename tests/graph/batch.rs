//! `$batch`: one request, one answer per item.

use std::sync::Arc;

use mailweir::engine::{Sent, Subject, Throttle, ThrottleKind, Verdict};
use mailweir::transport::graph::{Credentials, GraphOptions, GraphTransport};
use mailweir::transport::{Attempt, Transport};
use serde_json::json;

use super::server::{Request, Server, Step, accepted, answer, status, token};
use super::{HandClock, attempt, fixed_with};

fn attempts(count: u32) -> Vec<Attempt> {
    (1..=count).map(|number| Attempt { operation_id: format!("op-{number}").into(), number, ..attempt() }).collect()
}

fn options(server: &Server) -> GraphOptions {
    GraphOptions::default().base_url(server.url()).batch_max(20)
}

fn outer(body: &serde_json::Value) -> Step {
    Step::Write(answer("200 OK", &[("content-type", "application/json")], &body.to_string()))
}

#[tokio::test]
async fn a_batch_is_one_request_and_every_item_gets_its_own_verdict() {
    let server = Server::start(|_, _| {
        outer(&json!({ "responses": [
            { "id": "3", "status": 424, "body": { "error": { "code": "FailedDependency" } } },
            { "id": "2", "status": 429, "headers": { "Retry-After": "10" },
              "body": { "error": { "code": "ApplicationThrottled", "message": "over its MailboxConcurrency limit" } } },
            { "id": "1", "status": 202, "headers": {}, "body": null },
        ]}))
    })
    .await;
    let transport = fixed_with(options(&server));
    assert_eq!(transport.batch_max(), 20);
    let verdicts: Vec<_> = transport.send_many(attempts(4)).await.into_iter().map(|a| a.verdict).collect();
    let retry_after = Some(std::time::Duration::from_secs(10));
    assert_eq!(
        verdicts,
        [
            Verdict::Accepted,
            Verdict::Throttled(Throttle { retry_after, scope: None, kind: ThrottleKind::Concurrency }),
            Verdict::Transient { sent: Sent::Maybe, retry_after: None },
            Verdict::Unknown,
        ]
    );
    assert_eq!(server.count(""), 1);
    let seen = &server.seen("/v1.0/$batch")[0];
    let requests = seen.json()["requests"].clone();
    assert_eq!(requests.as_array().map(Vec::len), Some(4));
    assert_eq!(requests[0]["id"], "1");
    assert_eq!(requests[0]["method"], "POST");
    assert_eq!(requests[0]["url"], "/users/noreply@contoso.example/sendMail");
    assert_eq!(requests[0]["headers"]["Content-Type"], "text/plain");
    assert_ne!(requests[0]["headers"]["client-request-id"], requests[1]["headers"]["client-request-id"]);
    assert!(requests[0]["body"].as_str().is_some_and(|body| !body.is_empty()));
}

#[tokio::test]
async fn a_lost_batch_leaves_every_item_unknown() {
    let server = Server::start(|_, _| Step::WriteAndClose(String::new())).await;
    let answers = fixed_with(options(&server)).send_many(attempts(3)).await;
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|answer| answer.verdict == Verdict::Unknown));
    assert_eq!(server.count("$batch"), 1);
}

#[tokio::test]
async fn a_batch_without_a_token_renews_once_and_repeats_once() {
    let server = Server::start(|_, n| match n {
        0 => status("401 Unauthorized"),
        _ => outer(&json!({ "responses": [{ "id": "1", "status": 202 }, { "id": "2", "status": 202 }] })),
    })
    .await;
    let answers = fixed_with(options(&server)).send_many(attempts(2)).await;
    assert!(answers.iter().all(|answer| answer.verdict == Verdict::Accepted));
    assert_eq!(server.count("$batch"), 2);
}

#[tokio::test]
async fn an_item_whose_token_ran_out_is_sent_alone() {
    let server = Server::start(|request, _| {
        if request.line.contains("$batch") {
            outer(&json!({ "responses": [{ "id": "1", "status": 401 }, { "id": "2", "status": 202 }] }))
        } else {
            accepted()
        }
    })
    .await;
    let answers = fixed_with(options(&server)).send_many(attempts(2)).await;
    assert!(answers.iter().all(|answer| answer.verdict == Verdict::Accepted));
    assert_eq!((server.count("$batch"), server.count("sendMail")), (1, 1));
}

#[tokio::test]
async fn more_than_fits_is_split_and_one_alone_needs_no_batch() {
    let server = Server::start(|request, _| {
        if request.line.contains("$batch") {
            let count = request.json()["requests"].as_array().map_or(0, Vec::len);
            let responses: Vec<_> = (1..=count).map(|id| json!({ "id": id.to_string(), "status": 202 })).collect();
            outer(&json!({ "responses": responses }))
        } else {
            accepted()
        }
    })
    .await;
    let transport = fixed_with(options(&server));
    let answers = transport.send_many(attempts(41)).await;
    assert_eq!(answers.len(), 41);
    assert!(answers.iter().all(|answer| answer.verdict == Verdict::Accepted));
    assert_eq!((server.count("$batch"), server.count("sendMail")), (2, 1));
    assert!(transport.send_many(Vec::new()).await.is_empty());
}

#[tokio::test]
async fn an_item_that_cannot_be_sent_does_not_spoil_its_batch() {
    let server = Server::start(|_, _| {
        outer(&json!({ "responses": [{ "id": "1", "status": 202 }, { "id": "2", "status": 202 }] }))
    })
    .await;
    let mut attempts = attempts(3);
    attempts[1].mailbox = "..".into();
    let verdicts: Vec<_> =
        fixed_with(options(&server)).send_many(attempts).await.into_iter().map(|a| a.verdict).collect();
    assert_eq!(verdicts, [Verdict::Accepted, Verdict::Permanent { of: Subject::Mailbox }, Verdict::Accepted]);
}

const TOKEN: &str = "/oauth2/v2.0/token";

/// With tokens that the server gives and refuses.
fn with_tokens(server: &Server) -> GraphTransport {
    let credentials = Credentials::new("contoso.example", "client-1", "secret").authority(server.url());
    GraphTransport::new(credentials, options(server), Arc::<HandClock>::default()).expect("valid options")
}

/// An answer to each item of a batch: `statuses` in turn.
fn each(request: &Request, statuses: &[u16]) -> Step {
    let count = request.json()["requests"].as_array().map_or(0, Vec::len);
    let statuses = statuses.iter().cycle().take(count).enumerate();
    let responses: Vec<_> =
        statuses.map(|(at, status)| json!({ "id": (at + 1).to_string(), "status": status })).collect();
    outer(&json!({ "responses": responses }))
}

const REFUSED: (Verdict, Option<u16>) = (Verdict::Permanent { of: Subject::Account }, Some(401));

#[tokio::test]
async fn a_batch_that_is_refused_twice_is_not_sent_item_by_item() {
    let server = Server::start(|request, n| match request.line.contains(TOKEN) {
        true => token(&format!("t{n}"), 3_600),
        false => status("401 Unauthorized"),
    })
    .await;
    let answers = with_tokens(&server).send_many(attempts(20)).await;
    assert_eq!(answers.len(), 20);
    assert!(answers.into_iter().all(|answer| (answer.verdict, answer.status) == REFUSED));
    assert_eq!((server.count("$batch"), server.count(TOKEN), server.count("")), (2, 2, 4), "one renewal for all");
}

#[tokio::test]
async fn items_whose_token_ran_out_go_once_more_together_and_no_others() {
    let server = Server::start(|request, n| match request.header("authorization") {
        None => token(&format!("t{n}"), 3_600),
        Some("Bearer t0") => each(request, &[401, 202, 401, 503]),
        Some(_) => each(request, &[202]),
    })
    .await;
    let answers = with_tokens(&server).send_many(attempts(20)).await;
    for (at, answer) in answers.into_iter().enumerate() {
        let expected = if at % 4 == 3 { Some(503) } else { Some(202) };
        assert_eq!(answer.status, expected, "{at}");
    }
    assert_eq!((server.count("$batch"), server.count(TOKEN), server.count("")), (2, 2, 4));
    let again = server.seen("$batch")[1].json()["requests"].clone();
    let first = server.seen("$batch")[0].json()["requests"].clone();
    assert_eq!(again.as_array().map(Vec::len), Some(10), "every second one");
    assert_eq!(again[1]["headers"]["client-request-id"], first[2]["headers"]["client-request-id"]);
}

#[tokio::test]
async fn items_that_are_refused_under_the_new_token_too_are_answered() {
    for whole_first in [false, true] {
        let server = Server::start(move |request, n| match request.header("authorization") {
            None => token(&format!("t{n}"), 3_600),
            Some("Bearer t0") if whole_first => status("401 Unauthorized"),
            Some(_) => each(request, &[401]),
        })
        .await;
        let answers = with_tokens(&server).send_many(attempts(20)).await;
        assert!(answers.into_iter().all(|answer| (answer.verdict, answer.status) == REFUSED));
        assert_eq!((server.count("$batch"), server.count(TOKEN), server.count("")), (2, 2, 4), "{whole_first}");
    }
}
