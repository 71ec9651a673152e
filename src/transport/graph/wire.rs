//! One call to Graph: a token, a request, at most one repeat after a 401, and how far it came if it was lost.
//!
//! Whether a lost attempt can have been accepted is decided by one fact: whether the HTTP client ever asked for the
//! request's body. Without the body there is no email. The client's own error kinds do not tell: the same
//! "connection closed" comes before and after the body. So the body itself tells, and stops at a [`Gate`].
//!
//! The client repeats nothing: its retries and redirects are off, and a gated body cannot be cloned anyway.
//! One thing is left in it and wanted: a request that was queued on a pooled connection and never started, because
//! the server had closed that connection, moves to another connection. No byte of it had left.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use futures::future::{Either, select};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use super::options::{GraphError, GraphOptions, is_loopback};
use super::token::{Token, TokenError, TokenSource};
use crate::engine::{Answer, Sent, Subject, Verdict};

/// What to send.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) content_type: &'static str,
    /// Empty for a GET, and for a POST whose address says it all.
    pub(super) body: String,
    /// Longest answer that is read.
    pub(super) reply_bytes_max: usize,
}

impl Call {
    /// Whether it does something and has no body.
    fn acts_by_its_head(&self) -> bool {
        self.method != Method::GET && self.body.is_empty()
    }
}

/// What came back. The body may be cut.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// The token of an attempt, over all of its requests: whatever answers 401, they share one renewal.
#[derive(Debug, Default)]
pub(super) struct Bearer {
    last: Option<Token>,
    refused: Option<Token>,
}

impl Bearer {
    /// The last token was answered 401. Whether there may be another.
    pub(super) fn renews(&mut self) -> bool {
        if self.refused.is_none() {
            self.refused = self.last.take();
            return self.refused.is_some();
        }
        false
    }
}

/// The way to Graph.
#[derive(Debug)]
pub(super) struct Wire {
    http: reqwest::Client,
    tokens: Arc<dyn TokenSource>,
}

/// An HTTP client that sends once.
pub(super) fn client(options: &GraphOptions) -> Result<reqwest::Client, GraphError> {
    let builder = reqwest::Client::builder()
        .retry(reqwest::retry::never())
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .connect_timeout(options.connect_timeout)
        .pool_idle_timeout(options.idle_timeout)
        .user_agent(concat!("mailweir/", env!("CARGO_PKG_VERSION")));
    // A proxy from the environment cannot reach this machine's own loopback.
    let builder = if is_loopback(&options.base_url) { builder.no_proxy() } else { builder };
    builder.build().map_err(|source| GraphError::Client { source })
}

impl Wire {
    pub(super) fn new(http: reqwest::Client, tokens: Arc<dyn TokenSource>) -> Self {
        Self { http, tokens }
    }

    /// Makes the call before `deadline`. An answer instead of a reply says how far it came.
    pub(super) async fn call(&self, call: &Call, deadline: Pin<&mut Sleep>) -> Result<Reply, Answer> {
        self.call_as(&mut Bearer::default(), call, deadline).await
    }

    /// The same for one of several requests of an attempt.
    pub(super) async fn call_as(
        &self,
        bearer: &mut Bearer,
        call: &Call,
        mut deadline: Pin<&mut Sleep>,
    ) -> Result<Reply, Answer> {
        loop {
            // Bytes of a request that was answered 401 have left, though nothing was accepted.
            let before = if bearer.refused.is_some() { Sent::Maybe } else { Sent::No };
            let token = match within(deadline.as_mut(), self.tokens.token(bearer.refused.as_ref())).await {
                None => return Err(not_accepted(before)),
                Some(Err(error)) => return Err(without_token(error, before)),
                Some(Ok(token)) => token,
            };
            bearer.last = Some(token.clone());
            let gate = Arc::new(Gate::default());
            let sent = within(deadline.as_mut(), self.request(call, token.expose(), &gate)).await;
            let mut response = match sent {
                Some(Err(error)) if never_left(&error) => return Err(lost(&gate, before)),
                // Its head is all of it: nothing tells how far that came.
                None | Some(Err(_)) if call.acts_by_its_head() => return Err(Verdict::Unknown.into()),
                None | Some(Err(_)) => return Err(lost(&gate, Sent::Maybe)),
                Some(Ok(response)) => response,
            };
            if response.status() == StatusCode::UNAUTHORIZED && bearer.renews() {
                // It was not accepted, so it may be repeated; the second 401 is the answer.
                continue;
            }
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let mut body = Vec::new();
            if status != StatusCode::ACCEPTED.as_u16() {
                // What is lost from here on is detail: the status has been said.
                let _ = within(deadline.as_mut(), fill(&mut response, &mut body, call.reply_bytes_max)).await;
            }
            return Ok(Reply { status, headers, body });
        }
    }

    async fn request(&self, call: &Call, token: &str, gate: &Arc<Gate>) -> Result<reqwest::Response, reqwest::Error> {
        let mut request = self.http.request(call.method.clone(), &call.url).headers(call.headers.clone());
        if call.acts_by_its_head() {
            // Graph refuses a POST that does not say so.
            request = request.header(CONTENT_LENGTH, HeaderValue::from_static("0"));
        } else if !call.body.is_empty() {
            let body = Gated { inner: call.body.clone().into(), gate: Arc::clone(gate) };
            let content_type = HeaderValue::from_static(call.content_type);
            request = request.header(CONTENT_TYPE, content_type).body(reqwest::Body::wrap(body));
        }
        request.bearer_auth(token).send().await
    }
}

/// Whether no byte of the request left: names, refusals, TLS and connect timeouts; or it could not even be built.
fn never_left(error: &reqwest::Error) -> bool {
    error.is_connect() || error.is_builder()
}

fn not_accepted(sent: Sent) -> Answer {
    Verdict::Transient { sent, retry_after: None }.into()
}

/// The answer of a request that was given up: `sent` if its body never began, for then it cannot have been accepted.
fn lost(gate: &Gate, sent: Sent) -> Answer {
    match gate.shut() {
        Passed::Nothing => not_accepted(sent),
        Passed::Something => Verdict::Unknown.into(),
    }
}

fn without_token(error: TokenError, sent: Sent) -> Answer {
    match error {
        TokenError::Refused { status, correlation_id, .. } => {
            // Where a token was refused with a 401 before, a request has left.
            let of = match sent {
                Sent::No => Subject::Credentials,
                Sent::Maybe => Subject::Account,
            };
            Answer { status: Some(status), provider_id: correlation_id, ..Verdict::Permanent { of }.into() }
        }
        TokenError::Unavailable { status, retry_after, .. } => {
            Answer { status, ..Verdict::Transient { sent, retry_after }.into() }
        }
    }
}

/// What a body passes through. Once shut before it began, it never begins: a connection task that comes to it an
/// instant after the deadline must not send what was just reported as not sent.
#[derive(Debug, Default)]
struct Gate(AtomicU8);

const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const SHUT: u8 = 2;

/// Whether anything went through a gate before it was shut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passed {
    Nothing,
    Something,
}

impl Gate {
    /// Whether the body may go on.
    fn begin(&self) -> bool {
        match self.0.compare_exchange(WAITING, BEGUN, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(state) => state == BEGUN,
        }
    }

    fn shut(&self) -> Passed {
        match self.0.compare_exchange(WAITING, SHUT, Ordering::AcqRel, Ordering::Acquire) {
            Err(BEGUN) => Passed::Something,
            _ => Passed::Nothing,
        }
    }
}

/// A body behind a gate.
struct Gated {
    inner: reqwest::Body,
    gate: Arc<Gate>,
}

impl Body for Gated {
    type Data = <reqwest::Body as Body>::Data;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if !self.gate.begin() {
            return Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, "given up before it began"))));
        }
        Pin::new(&mut self.inner).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(io::Error::other)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// What `future` yields, unless `deadline` comes first.
async fn within<T>(deadline: Pin<&mut Sleep>, future: impl Future<Output = T>) -> Option<T> {
    match select(pin!(future), deadline).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}

/// Up to `max` bytes of a response's body; what came before an error is kept.
pub(super) async fn bounded(response: &mut reqwest::Response, max: usize) -> Vec<u8> {
    let mut body = Vec::new();
    fill(response, &mut body, max).await;
    body
}

async fn fill(response: &mut reqwest::Response, body: &mut Vec<u8>, max: usize) {
    while body.len() < max {
        let Ok(Some(chunk)) = response.chunk().await else { return };
        body.extend_from_slice(chunk.get(..max - body.len()).unwrap_or(&chunk));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(body: &mut Gated) -> Option<Result<usize, io::ErrorKind>> {
        let mut cx = Context::from_waker(futures::task::noop_waker_ref());
        match Pin::new(body).poll_frame(&mut cx) {
            Poll::Ready(frame) => frame.map(|frame| match frame {
                Ok(frame) => Ok(frame.data_ref().map_or(0, |data| data.len())),
                Err(error) => Err(error.kind()),
            }),
            Poll::Pending => panic!("a body in memory is ready"),
        }
    }

    fn gated() -> (Gated, Arc<Gate>) {
        let gate = Arc::new(Gate::default());
        (Gated { inner: "email".to_owned().into(), gate: Arc::clone(&gate) }, gate)
    }

    #[test]
    fn a_body_whose_gate_was_shut_before_it_began_never_begins() {
        let (mut body, gate) = gated();
        assert_eq!(gate.shut(), Passed::Nothing);
        assert_eq!(poll(&mut body), Some(Err(io::ErrorKind::TimedOut)));
        assert_eq!(gate.shut(), Passed::Nothing, "still");
        assert_eq!(lost(&gate, Sent::No).verdict, Verdict::Transient { sent: Sent::No, retry_after: None });
    }

    #[test]
    fn a_body_that_began_goes_on_and_leaves_the_outcome_unknown() {
        let (mut body, gate) = gated();
        assert_eq!(body.size_hint().exact(), Some(5));
        assert_eq!(poll(&mut body), Some(Ok(5)));
        assert_eq!(gate.shut(), Passed::Something);
        assert_eq!(poll(&mut body), None, "to its end");
        assert_eq!(lost(&gate, Sent::No).verdict, Verdict::Unknown);
    }
}
