//! Sends through Microsoft Graph: `POST /v1.0/users/{mailbox}/sendMail` with the MIME in base64, or with
//! [`GraphMode::DraftThenSend`] through a draft.
//!
//! 202 is the only answer that is taken for accepted, and it means that a draft was saved: refusals by the recipient
//! limits arrive later, as reports in the sender's inbox.
//!
//! `sendMail` has no idempotency key (`client-request-id` is for support cases), so what cannot be told apart from a
//! sent email is [`Verdict::Unknown`], and [`reconcile`](Transport::reconcile) looks for its `Message-ID` in Sent Items.
//! That takes the `Mail.Read` permission beside `Mail.Send`.
//!
//! One attempt is one wire request, through a draft two, but for one case: a 401 renews the token once and repeats the
//! request once, since a request that was refused for its token was not accepted. A batch renews once as well, whether
//! it was refused as a whole or some of its items were: those alone go again, in one request. Nothing else is repeated
//! here, by us or by the HTTP client.
//!
//! Graph takes recipients from the headers, not from an envelope. Recipients of the envelope that no header names are
//! added as `Bcc`; an email whose headers name somebody outside its envelope is refused.
//!
//! What is not promised: nothing here was tried against the live service. That it decodes a `text/plain` body within
//! `$batch` is undocumented, one more reason why batches are off by default.

mod batch;
mod configured;
mod draft;
mod encode;
mod left;
mod options;
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod parsers;
mod recipients;
mod reconcile;
mod token;
mod wire;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use tokio::time::Sleep;

pub use crate::config::GraphMode;
pub use options::{BATCH_MAX, Credentials, GraphError, GraphOptions, PlainHttp};
pub use token::{ClientCredentials, Token, TokenError, TokenSource};

use super::{Attempt, Transport};
use crate::clock::Clock;
use crate::engine::{Answer, Cost, Lane, Sent, Subject, Verdict};
use crate::signals::{BODY_BYTES_MAX, judge_with};
use batch::Item;
use wire::{Bearer, Call, Wire};

/// Sends emails through Microsoft Graph.
#[derive(Debug)]
pub struct GraphTransport {
    base: String,
    options: GraphOptions,
    tokens: Arc<dyn TokenSource>,
    wire: Wire,
    left: left::Leftovers,
}

impl GraphTransport {
    /// A transport with tokens by client credentials.
    ///
    /// # Errors
    /// [`GraphError`] names the setting and what is allowed. Nothing is sent; see [`check`](Self::check).
    pub fn new(credentials: Credentials, options: GraphOptions, clock: Arc<dyn Clock>) -> Result<Self, GraphError> {
        // A client of its own: the authority may be on this machine while Graph is not, or the other way round.
        let http = wire::client(&GraphOptions { base_url: credentials.authority.clone(), ..options.clone() })?;
        let tokens = ClientCredentials::new(http, credentials, options.plain_http, clock)?;
        Self::with_tokens(Arc::new(tokens), options)
    }

    /// A transport with tokens from elsewhere, such as a managed identity.
    ///
    /// # Errors
    /// [`GraphError`] names the setting and what is allowed.
    pub fn with_tokens(tokens: Arc<dyn TokenSource>, options: GraphOptions) -> Result<Self, GraphError> {
        options.check()?;
        let base = options::base("base_url", &options.base_url, options.plain_http)?;
        let base = if base.ends_with("/v1.0") { base } else { base + "/v1.0" };
        let wire = Wire::new(wire::client(&options)?, Arc::clone(&tokens));
        Ok(Self { base, options, tokens, wire, left: left::Leftovers::default() })
    }

    /// Fetches a token, so that wrong credentials are known at the start and not at the first email.
    ///
    /// # Errors
    /// What the token source says.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn check(&self) -> Result<(), TokenError> {
        self.tokens.token(None).await.map(drop)
    }

    async fn send_one(&self, attempt: Attempt) -> Answer {
        if self.options.mode == GraphMode::DraftThenSend {
            return self.send_draft(attempt).await;
        }
        match item(&attempt, 0) {
            Ok(item) => self.send_item(item, &mut Bearer::default(), pin!(tokio::time::sleep(attempt.timeout))).await,
            Err(answer) => answer,
        }
    }

    async fn send_item(&self, item: Item, bearer: &mut Bearer, deadline: Pin<&mut Sleep>) -> Answer {
        let call = Call {
            method: Method::POST,
            url: format!("{}{}", self.base, item.path),
            headers: item.headers,
            content_type: "text/plain",
            body: item.body,
            reply_bytes_max: BODY_BYTES_MAX,
        };
        match self.wire.call_as(bearer, &call, deadline).await {
            Ok(reply) => judge_with(self.options.unavailable, reply.status, &reply.headers, &reply.body),
            Err(answer) => answer,
        }
    }

    async fn send_all(&self, attempts: Vec<Attempt>) -> Vec<Answer> {
        if self.options.mode == GraphMode::DraftThenSend {
            return join_all(attempts.into_iter().map(|attempt| self.send_draft(attempt))).await;
        }
        let timeout = attempts.iter().map(|attempt| attempt.timeout).min().unwrap_or(Duration::ZERO);
        let mut answers: Vec<Answer> = vec![Verdict::Unknown.into(); attempts.len()];
        let mut items = Vec::with_capacity(attempts.len());
        for (index, attempt) in attempts.iter().enumerate() {
            match item(attempt, index) {
                Ok(item) => items.push(item),
                Err(answer) => answers[index] = answer,
            }
        }
        let batches = batch::split(items, self.options.batch_max, self.options.batch_bytes_max);
        let sent = join_all(batches.into_iter().map(|batch| self.send_batch(batch, timeout))).await;
        for (index, answer) in sent.into_iter().flatten() {
            answers[index] = answer;
        }
        answers
    }

    async fn send_batch(&self, items: Vec<Item>, timeout: Duration) -> Vec<(usize, Answer)> {
        let (mut deadline, mut bearer) = (pin!(tokio::time::sleep(timeout)), Bearer::default());
        let indexes: Vec<usize> = items.iter().map(|item| item.index).collect();
        let mut answers = self.send_together(&items, &mut bearer, deadline.as_mut()).await;
        let (places, again): (Vec<usize>, Vec<Item>) =
            items.into_iter().enumerate().filter(|(place, _)| is_unauthorized(&answers[*place])).unzip();
        // Their token ran out between the batch and them. Where the whole batch was refused, it was renewed already.
        if !again.is_empty() && bearer.renews() {
            let repeated = self.send_together(&again, &mut bearer, deadline.as_mut()).await;
            for (place, answer) in places.into_iter().zip(repeated) {
                answers[place] = sent_before(answer);
            }
        }
        indexes.into_iter().zip(answers).collect()
    }

    /// One request for all of `items`; one answer for each.
    async fn send_together(&self, items: &[Item], bearer: &mut Bearer, deadline: Pin<&mut Sleep>) -> Vec<Answer> {
        if let [item] = items {
            return vec![self.send_item(item.clone(), bearer, deadline).await];
        }
        let call = Call {
            method: Method::POST,
            url: format!("{}/$batch", self.base),
            headers: HeaderMap::new(),
            content_type: "application/json",
            body: batch::request(items),
            reply_bytes_max: batch::reply_bytes_max(items.len()),
        };
        match self.wire.call_as(bearer, &call, deadline).await {
            Ok(reply) => batch::answers(&reply, items.len(), self.options.unavailable),
            Err(answer) => vec![answer; items.len()],
        }
    }
}

fn is_unauthorized(answer: &Answer) -> bool {
    answer.status == Some(StatusCode::UNAUTHORIZED.as_u16())
}

/// The same answer for an item of which bytes had left before.
fn sent_before(mut answer: Answer) -> Answer {
    if let Verdict::Transient { sent, .. } = &mut answer.verdict {
        *sent = Sent::Maybe;
    }
    answer
}

/// What to send for an attempt, or why nothing is sent.
fn item(attempt: &Attempt, index: usize) -> Result<Item, Answer> {
    let path = encode::user_path(&attempt.mailbox, "sendMail").ok_or_else(|| refused(Subject::Mailbox))?;
    let message_id = encode::message_id(attempt);
    let body = encode::body(&attempt.email, message_id.as_deref()).ok_or_else(|| refused(Subject::Message))?;
    Ok(Item { index, path, headers: headers(attempt), body })
}

fn refused(of: Subject) -> Answer {
    Verdict::Permanent { of }.into()
}

/// What every request of an attempt carries.
fn headers(attempt: &Attempt) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(id) = HeaderValue::try_from(encode::correlation_id(&attempt.operation_id)) {
        headers.insert(HeaderName::from_static("client-request-id"), id);
    }
    let priority = match attempt.lane {
        Lane::Foreground => "high",
        Lane::Background => "low",
    };
    headers.insert(HeaderName::from_static("x-ms-throttle-priority"), HeaderValue::from_static(priority));
    headers
}

impl Transport for GraphTransport {
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Answer> {
        Box::pin(self.send_one(attempt))
    }

    /// Two requests where a draft comes first.
    fn cost(&self, counted: Cost) -> Cost {
        self.options.mode.cost(counted)
    }

    fn batch_max(&self) -> usize {
        self.options.batch_max
    }

    fn send_many(&self, attempts: Vec<Attempt>) -> BoxFuture<'_, Vec<Answer>> {
        Box::pin(self.send_all(attempts))
    }

    /// Looks in the mailbox's Sent Items for the email's `Message-ID`, or for the one that it was sent with because it had
    /// none (made of the operation's id, so every attempt has the same). `None` where its own has no form that can be asked for, or without an answer. Where a
    /// draft came first, that is looked at first: still there, not sent; gone, Drafts and then Sent Items tell.
    ///
    /// `Some(false)` right after the send proves nothing: Sent Items is filled later. Ask again after the visibility
    /// delay.
    fn reconcile(&self, attempt: Attempt) -> BoxFuture<'_, Option<bool>> {
        Box::pin(async move {
            if self.options.mode == GraphMode::DraftThenSend {
                return self.reconcile_draft(attempt).await;
            }
            let id = encode::message_id(&attempt)?;
            let call = reconcile::call(&self.base, &attempt.mailbox, &id)?;
            let reply = self.wire.call(&call, pin!(tokio::time::sleep(attempt.timeout))).await.ok()?;
            reconcile::found(&reply, &id)
        })
    }
}
