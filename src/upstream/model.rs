//! What the upstream is: the plain description of a scenario's provider.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Ratio, Scope, Timestamp};

use super::foreign::Foreign;
use super::limit::{ConcurrencyLimit, UpstreamLimit};
use super::random::LogNormal;
use super::schedule::Schedule;

/// Everything the upstream does. Start from [`Model::new`] or a profile and set the fields that matter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Model {
    /// Every one of them holds at once.
    pub limits: Vec<UpstreamLimit>,
    /// Bounds on requests in flight; the lowest of each scope holds.
    pub concurrency: Vec<ConcurrencyLimit>,
    /// Whether a refused request counts against the limits.
    pub refusals: Refusals,
    /// The Retry-After of a 429.
    pub retry_after: RetryAfterPolicy,
    /// A 2xx tells its usage from this share on; `None`: never.
    pub usage_from: Option<Ratio>,
    /// The scope header of a 429.
    pub scope_header: ScopeHeader,
    /// How long things take.
    pub latency: Latency,
    /// What goes wrong.
    pub faults: Faults,
    /// Spans in which a scope is refused outright.
    pub blocks: Vec<Block>,
    /// What early retries earn.
    pub penalty: Option<Penalty>,
    /// Other clients.
    pub foreign: Vec<Foreign>,
    /// Most arrivals the log keeps.
    pub log_entries_max: usize,
}

impl Model {
    /// An upstream with these limits that tells the exact Retry-After, counts no refusal and never fails.
    #[must_use]
    pub fn new(limits: impl IntoIterator<Item = UpstreamLimit>) -> Self {
        Self {
            limits: limits.into_iter().collect(),
            concurrency: Vec::new(),
            refusals: Refusals::NotCounted,
            retry_after: RetryAfterPolicy::Exact,
            usage_from: None,
            scope_header: ScopeHeader::Absent,
            latency: Latency::default(),
            faults: Faults::default(),
            blocks: Vec::new(),
            penalty: None,
            foreign: Vec::new(),
            log_entries_max: 4_000_000,
        }
    }

    /// The same with a factor on every limit over time.
    #[must_use]
    pub fn scaled(mut self, scale: &Schedule<Ratio>) -> Self {
        for limit in &mut self.limits {
            limit.scale = scale.clone();
        }
        self
    }
}

impl Default for Model {
    fn default() -> Self {
        Self::new([])
    }
}

/// Whether a 429 is charged to every limit, as Microsoft says it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Refusals {
    /// It is not.
    #[default]
    NotCounted,
    /// It is. A storm of retries then keeps the window full by itself.
    Counted,
}

/// What a 429 says about the wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryAfterPolicy {
    /// Nothing.
    None,
    /// Whole seconds until this cost fits, this refusal counted; at least 1.
    #[default]
    Exact,
    /// The same as an HTTP date.
    Date,
    /// Always this many seconds.
    Constant(u64),
    /// Always this text.
    Malformed(Arc<str>),
}

/// How a 429 names the scope that refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScopeHeader {
    /// It does not.
    #[default]
    Absent,
    /// `Scope/Limit/ApplicationId/ResourceId`.
    Path,
    /// One word.
    Word,
}

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// From the client's first byte to the arrival.
    pub up: LogNormal,
    /// From the arrival to the answer of a request that was let in.
    pub service: LogNormal,
    /// From the answer to the client.
    pub down: LogNormal,
    /// Service time of a 429.
    pub refusal: Duration,
    /// Longest single draw.
    pub longest: Duration,
}

impl Latency {
    /// No latency at all.
    pub const ZERO: Self = Self {
        up: LogNormal::ZERO,
        service: LogNormal::ZERO,
        down: LogNormal::ZERO,
        refusal: Duration::ZERO,
        longest: Duration::ZERO,
    };
}

impl Default for Latency {
    /// 40 ms up and down, 250 ms of service, σ 0.5 each; a 429 takes 10 ms (algorithms 7.1).
    fn default() -> Self {
        let way = LogNormal::new(Duration::from_millis(40), Ratio::percent(50));
        Self {
            up: way,
            service: LogNormal::new(Duration::from_millis(250), Ratio::percent(50)),
            down: way,
            refusal: Duration::from_millis(10),
            longest: Duration::from_secs(600),
        }
    }
}

/// Probabilities of faults over time. At most one happens to a request; together they are cut at 100 %.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Faults {
    /// The request is lost on the way: no arrival, no answer.
    pub request_lost: Schedule<Ratio>,
    /// The connection is closed before the body was read: no arrival.
    pub cut_before_body: Schedule<Ratio>,
    /// 503 before anything is charged.
    pub error_before_charge: Schedule<Ratio>,
    /// 503 after the charge; the email is not taken.
    pub error_after_charge: Schedule<Ratio>,
    /// 504 although the email was taken.
    pub timeout_after_acceptance: Schedule<Ratio>,
    /// How long such a request keeps its concurrency slot after its answer.
    pub timeout_lingers: Duration,
    /// The connection is closed after the body was read and the request served, without an answer.
    pub cut_after_body: Schedule<Ratio>,
    /// The answer is lost: the client waits for ever.
    pub response_lost: Schedule<Ratio>,
    /// The answer comes twice. An HTTP connection cannot carry that: the HTTP form answers once.
    pub response_duplicated: Schedule<Ratio>,
    /// A 202 carries `Retry-After: 1`, which means nothing (msgraph-sdk-java#1487).
    pub accepted_with_retry_after: Schedule<Ratio>,
}

/// A span in which everything of a scope is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Of which scope.
    pub scope: Scope,
    /// From when.
    pub from: Timestamp,
    /// Until when (exclusive).
    pub until: Timestamp,
}

/// The penalty box: a mailbox that is refused too often is refused for longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Penalty {
    /// This many refusals …
    pub refusals: u32,
    /// … within this span …
    pub within: Duration,
    /// … close the mailbox for this long.
    pub lasts: Duration,
    /// What an arrival meanwhile does.
    pub early: Early,
}

/// What an arrival does to a running penalty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Early {
    /// Nothing.
    #[default]
    Ignored,
    /// It starts the penalty anew.
    Restarts,
}
