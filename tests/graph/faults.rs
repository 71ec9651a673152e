//! Lost before the first byte, lost after it, and everything between.

use std::time::Duration;

use futures::future::BoxFuture;
use mailweir::engine::{Sent, ThrottleKind, Verdict};
use mailweir::transport::graph::{GraphOptions, GraphTransport, Token, TokenError, TokenSource};
use mailweir::transport::{Attempt, Transport};

use super::server::{Accept, Server, Step, accepted, answer};
use super::{attempt, fixed, fixed_with};

const NOT_SENT: Verdict = Verdict::Transient { sent: Sent::No, retry_after: None };

/// The address of a port on which nobody listens.
async fn nobody() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    listener.local_addr().expect("an address").to_string()
}

#[tokio::test]
async fn a_refused_connection_gives_the_charge_back() {
    let transport = fixed(&format!("http://{}", nobody().await));
    assert_eq!(transport.send(attempt()).await.verdict, NOT_SENT);
}

#[tokio::test]
async fn a_failed_tls_handshake_gives_the_charge_back() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    assert_eq!(fixed(&format!("https://{address}")).send(attempt()).await.verdict, NOT_SENT);
}

#[tokio::test]
async fn a_connection_that_is_never_made_gives_the_charge_back() {
    // Accepted by the kernel, never answered: the TLS handshake hangs until the connect timeout.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    let options = GraphOptions::default().base_url(url).connect_timeout(Duration::from_millis(50));
    assert_eq!(fixed_with(options).send(attempt()).await.verdict, NOT_SENT);
}

#[derive(Debug)]
struct Stuck;

impl TokenSource for Stuck {
    fn token<'a>(&'a self, _: Option<&'a Token>) -> BoxFuture<'a, Result<Token, TokenError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn time_that_runs_out_before_there_is_a_token_gives_the_charge_back() {
    let server = Server::start(|_, _| accepted()).await;
    let options = GraphOptions::default().base_url(server.url());
    let transport = GraphTransport::with_tokens(std::sync::Arc::new(Stuck), options).expect("valid options");
    let answer = transport.send(Attempt { timeout: Duration::from_millis(20), ..attempt() }).await;
    assert_eq!(answer.verdict, NOT_SENT);
    assert_eq!(server.count(""), 0);
}

#[tokio::test]
async fn time_that_runs_out_while_connecting_was_not_accepted() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let transport = fixed(&format!("https://{}", listener.local_addr().expect("an address")));
    let answer = transport.send(Attempt { timeout: Duration::from_millis(50), ..attempt() }).await;
    assert_eq!(answer.verdict, Verdict::Transient { sent: Sent::Maybe, retry_after: None });
}

#[tokio::test]
async fn time_that_runs_out_after_the_body_leaves_it_unknown() {
    let server = Server::start(|_, _| Step::Hang).await;
    let answer = fixed(&server.url()).send(Attempt { timeout: Duration::from_millis(300), ..attempt() }).await;
    assert_eq!((answer.verdict, answer.status), (Verdict::Unknown, None));
    assert_eq!(server.count("sendMail"), 1, "it had arrived");
}

#[tokio::test]
async fn a_connection_closed_before_the_head_or_the_body_is_read_is_never_given_back() {
    for how in [Accept::CloseAtOnce, Accept::CloseAfterHead] {
        let server = Server::start_with(move |_| how, |_, _| accepted()).await;
        let verdict = fixed(&server.url()).send(attempt()).await.verdict;
        let kept = matches!(verdict, Verdict::Unknown | Verdict::Transient { sent: Sent::Maybe, .. });
        assert!(kept, "{how:?}: {verdict:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_lost_or_cut_in_its_head_leaves_it_unknown() {
    for cut in ["", "HTTP/1.1 202 Acc", "HTTP/1.1 202 Accepted\r\ncontent-le", "SMTP ready\r\n\r\n"] {
        let server = Server::start(move |_, _| Step::WriteAndClose(cut.to_owned())).await;
        assert_eq!(fixed(&server.url()).send(attempt()).await.verdict, Verdict::Unknown, "{cut:?}");
        assert_eq!(server.count("sendMail"), 1, "{cut:?}: not repeated");
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_in_its_body_still_says_its_status() {
    let cut = answer("429 Too Many Requests", &[("retry-after", "7")], &" ".repeat(500));
    let cut = cut[..cut.len() - 400].to_owned();
    let server = Server::start(move |_, _| Step::WriteAndClose(cut.clone())).await;
    match fixed(&server.url()).send(attempt()).await.verdict {
        Verdict::Throttled(throttle) => {
            assert_eq!(throttle.retry_after, Some(Duration::from_secs(7)));
            assert_eq!(throttle.kind, ThrottleKind::Rate);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_answer_whose_body_never_ends_is_judged_at_the_deadline() {
    let head = "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 99\r\nretry-after: 3\r\n\r\n{";
    let server = Server::start(move |_, _| Step::Write(head.to_owned())).await;
    let answer = fixed(&server.url()).send(Attempt { timeout: Duration::from_millis(500), ..attempt() }).await;
    assert_eq!(answer.status, Some(429));
}

#[tokio::test]
async fn an_endless_body_is_read_up_to_its_bound() {
    let body = " ".repeat(1_000_000);
    let server = Server::start(move |_, _| Step::Write(answer("400 Bad Request", &[], &body))).await;
    assert_eq!(fixed(&server.url()).send(attempt()).await.status, Some(400));
}

#[tokio::test]
async fn a_pooled_connection_that_the_server_closed_never_sends_twice() {
    // Every answer is followed by a close that no header announces, as load balancers do with idle connections.
    let server = Server::start(|_, _| Step::WriteAndClose(answer("202 Accepted", &[], ""))).await;
    let transport = fixed(&server.url());
    for number in 1..=50 {
        let before = server.count("sendMail");
        let verdict = transport.send(Attempt { number, ..attempt() }).await.verdict;
        let arrived = server.count("sendMail") - before;
        match verdict {
            Verdict::Accepted => assert_eq!(arrived, 1),
            Verdict::Unknown | Verdict::Transient { sent: Sent::Maybe, .. } => assert_eq!(arrived, 0, "not repeated"),
            other => panic!("{other:?}"),
        }
    }
}
