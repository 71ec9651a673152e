//! What arrives at the upstream and what it answers.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Cost, Lane, Ratio, ScopeKind, ThrottleKind, Timestamp};

/// One request as the upstream sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivalRequest {
    /// The mailbox it sends from.
    pub mailbox: Arc<str>,
    /// The tenant that mailbox belongs to; without one no tenant limit applies.
    pub tenant: Option<Arc<str>>,
    /// What it takes.
    pub cost: Cost,
    /// The client's idempotency key or `Message-ID`. The upstream does not dedupe by it; the log keeps it.
    pub key: Arc<str>,
    /// The client's lane, where it gives a hint.
    pub lane: Option<Lane>,
}

/// Names an arrival until its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub(super) u64);

/// What the upstream made of one request, and what the client hears of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Decision {
    /// To be completed when the service is over, whatever the client hears.
    pub handle: Handle,
    /// HTTP status: 202 (201 of what only prepares a send), 429, 503 or 504, or the 4xx of a bad request. `None`: the request never arrived.
    pub status: Option<u16>,
    /// Whether the email was taken, or what was asked for was done. True with 504 or no answer, too.
    pub executed: bool,
    /// How the answer reaches the client.
    pub delivery: Delivery,
    /// The Retry-After header.
    pub retry_after: Option<RetryAfter>,
    /// The usage header: used share of the limit that is closest to full.
    pub usage: Option<Ratio>,
    /// What refused it.
    pub refusal: Option<Refusal>,
    /// How long the service takes where the answer decides it: refusals are quick.
    pub service: Option<Duration>,
}

impl Decision {
    /// How long the service takes.
    #[must_use]
    pub fn service_or(&self, planned: Duration) -> Duration {
        self.service.unwrap_or(planned)
    }
}

/// How an answer reaches the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Delivery {
    /// Once.
    Once,
    /// Twice. A client that matches answers to requests has to ignore the second.
    Twice,
    /// Never: the client waits until it gives up.
    Lost,
    /// Never, and the connection is closed.
    Cut,
}

/// What refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// At which scope.
    pub scope: ScopeKind,
    /// What overflowed.
    pub kind: ThrottleKind,
}

/// The value of a Retry-After header.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryAfter {
    /// Whole seconds.
    Seconds(u64),
    /// An HTTP date; compare it with the answer's own `Date`.
    Date(Timestamp),
    /// Whatever the scenario wants, well-formed or not.
    Text(RetryAfterText),
}

/// A header value as it stands.
pub type RetryAfterText = Arc<str>;
