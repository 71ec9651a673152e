//! One call to Graph: a token, a request, at most one repeat after a 401, and how far it came if it was lost.
//!
//! Whether a lost attempt can have been accepted is decided by one fact: whether the HTTP client ever asked for the
//! request's body. Without the body there is no email. The client's own error kinds do not tell: the same
//! "connection closed" comes before and after the body. So the body itself reports ([`Tracked`]).
//!
//! The client repeats nothing: its retries and redirects are off, and a body that reports cannot be cloned anyway.
//! One thing is left in it and wanted: a request that was queued on a pooled connection and never started, because
//! the server had closed that connection, moves to another connection. No byte of it had left.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use futures::future::{Either, select};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use super::options::{GraphError, GraphOptions, is_loopback};
use super::token::{TokenError, TokenSource};
use crate::engine::{Answer, Sent, Subject, Verdict};

/// What to send.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) content_type: &'static str,
    /// Empty for a GET.
    pub(super) body: String,
    /// Longest answer that is read.
    pub(super) reply_bytes_max: usize,
}

/// What came back. The body may be cut.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
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
    pub(super) async fn call(&self, call: &Call, mut deadline: Pin<&mut Sleep>) -> Result<Reply, Answer> {
        let progress = Arc::new(Progress::default());
        let mut refused = None;
        loop {
            let token = match within(deadline.as_mut(), self.tokens.token(refused.as_ref())).await {
                None => return Err(progress.lost().into()),
                Some(Err(error)) => return Err(progress.without_token(error)),
                Some(Ok(token)) => token,
            };
            let sent = within(deadline.as_mut(), self.request(call, token.expose(), &progress)).await;
            let mut response = match sent {
                None => return Err(progress.lost().into()),
                Some(Err(error)) => return Err(progress.failed(&error).into()),
                Some(Ok(response)) => response,
            };
            if response.status() == StatusCode::UNAUTHORIZED && refused.is_none() {
                // It was not accepted, so it may be repeated; the second 401 is the answer.
                progress.refused();
                refused = Some(token);
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

    async fn request(
        &self,
        call: &Call,
        token: &str,
        progress: &Arc<Progress>,
    ) -> Result<reqwest::Response, reqwest::Error> {
        progress.asked();
        let mut request = self.http.request(call.method.clone(), &call.url).headers(call.headers.clone());
        if !call.body.is_empty() {
            let body = Tracked { inner: call.body.clone().into(), progress: Arc::clone(progress) };
            let content_type = HeaderValue::from_static(call.content_type);
            request = request.header(CONTENT_TYPE, content_type).body(reqwest::Body::wrap(body));
        }
        request.bearer_auth(token).send().await
    }
}

/// How far an attempt has come.
#[derive(Debug, Default)]
pub(super) struct Progress(AtomicU8);

/// Nothing was handed to the HTTP client.
const NOTHING: u8 = 0;
/// A request was, and its body was not begun: the head may have left, the email has not.
const ASKED: u8 = 1;
/// A request was answered 401: bytes left, the email was not accepted.
const REFUSED: u8 = 2;
/// The body was begun: anything may have happened.
const BEGUN: u8 = 3;

impl Progress {
    fn asked(&self) {
        let _ = self.0.compare_exchange(NOTHING, ASKED, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn refused(&self) {
        self.0.store(REFUSED, Ordering::Relaxed);
    }

    fn begun(&self) {
        self.0.store(BEGUN, Ordering::Relaxed);
    }

    /// The verdict when time ran out.
    fn lost(&self) -> Verdict {
        match self.0.load(Ordering::Relaxed) {
            NOTHING => Verdict::Transient { sent: Sent::No, retry_after: None },
            BEGUN => Verdict::Unknown,
            _ => Verdict::Transient { sent: Sent::Maybe, retry_after: None },
        }
    }

    /// The verdict when the client gave up.
    fn failed(&self, error: &reqwest::Error) -> Verdict {
        // `is_connect` covers names, refusals, TLS and connect timeouts; `is_builder` means it never started.
        let unsent = self.0.load(Ordering::Relaxed) <= ASKED && (error.is_connect() || error.is_builder());
        if unsent { Verdict::Transient { sent: Sent::No, retry_after: None } } else { self.lost() }
    }

    fn without_token(&self, error: TokenError) -> Answer {
        let sent = if self.0.load(Ordering::Relaxed) == NOTHING { Sent::No } else { Sent::Maybe };
        match error {
            TokenError::Refused { status, correlation_id, .. } => Answer {
                status: Some(status),
                provider_id: correlation_id,
                ..Verdict::Permanent { of: Subject::Account }.into()
            },
            TokenError::Unavailable { status, retry_after, .. } => {
                Answer { status, ..Verdict::Transient { sent, retry_after }.into() }
            }
        }
    }
}

/// A body that notes when it is first asked for.
struct Tracked {
    inner: reqwest::Body,
    progress: Arc<Progress>,
}

impl Body for Tracked {
    type Data = <reqwest::Body as Body>::Data;
    type Error = <reqwest::Body as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        self.progress.begun();
        Pin::new(&mut self.inner).poll_frame(cx)
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
