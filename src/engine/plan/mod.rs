//! When would this campaign finish?
//!
//! The answer is not a formula but the engine itself: a copy of the mailbox, and of the shared scopes where there are
//! any, is run forward in virtual time with a latency that is assumed. So reserve, pace, breaker, ramp, floor and every
//! limit of every scope are in it by the same code that will decide then, and a rule that changes changes the plan.
//!
//! It is pure: the copy is all that changes, nothing is drawn by chance, and the same question about the same state has
//! the same answer. Work is bounded: past [`STEPS_MAX`] sends the rest is taken at the rate of the last half.
//!
//! Not promised: the future. Nobody else is taken to submit anything meanwhile, every attempt is taken to be accepted
//! after the same latency, and what waits already is taken at its mean cost per lane and tenant. Operations that are
//! held or of unknown outcome stay out of it.

mod run;

use std::sync::Arc;
use std::time::Duration;

use super::constraint::{Constraint, Wall};
use super::cost::Cost;
use super::lane::Lane;
use super::limit::Limit;
use super::mailbox::Snapshot;
use super::scope::ScopeKind;
use super::shared::{MailboxKey, Shared};
use super::time::Timestamp;

/// Sends that are stepped through one by one: a million took three seconds of one core when measured.
pub const STEPS_MAX: u64 = 2_000_000;

/// The email that is planned for unless another is named: one request, one recipient, 50 kB.
pub const EMAIL: Cost = Cost::email(1, 50_000);

/// What one attempt is assumed to take: the mean of the upstream model's latencies (algorithms 7.1), 40 ms each way
/// and 250 ms of service, lognormal with σ = 0.5.
pub const LATENCY: Duration = Duration::from_millis(375);

/// A question about a mailbox as it stood at an instant. Ask it as often and in as many ways as you like.
#[derive(Clone, Debug)]
pub struct Plan {
    snapshot: Snapshot,
    shared: Option<(Shared, MailboxKey)>,
    limits: Option<Vec<Limit>>,
    count: u64,
    lane: Lane,
    cost: Cost,
    tenant: Option<Arc<str>>,
    latency: Duration,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forecast {
    /// The instant for which it holds.
    pub at: Timestamp,
    /// Operations of the campaign.
    pub count: u64,
    /// When the first of them is sent; `None`: never by itself.
    pub first_send: Option<Timestamp>,
    /// When the last of them is accepted; `None`: never by itself.
    pub finish: Option<Timestamp>,
    /// What holds it for ever, when it does not finish.
    pub blocked_by: Option<Constraint>,
    /// The limit that holds no operation of this cost, when that is why it does not finish.
    pub never_fits: Option<Limit>,
    /// What it waits for, longest first.
    pub bounds: Vec<Bound>,
    /// Operations that waited already, in every lane.
    pub ahead: u64,
    /// Operations that are not counted: held, of unknown outcome, or with a late instant of their own.
    pub left_out: u64,
    /// How the end was found.
    pub method: Method,
    /// The latency that was assumed.
    pub latency: Duration,
}

/// How the end of a campaign was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Send by send.
    Stepped,
    /// Send by send up to [`STEPS_MAX`], and from there at the rate of the last half.
    Extrapolated,
}

/// One constraint, and for how long it was the one that bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bound {
    /// What it is.
    pub wall: Wall,
    /// At which scope.
    pub scope: ScopeKind,
    /// For how long in total.
    pub total: Duration,
    /// First from this instant on.
    pub from: Timestamp,
    /// Last until this one.
    pub until: Timestamp,
}

impl Plan {
    /// `count` emails of the kind of [`EMAIL`] in `lane`, submitted at once at the snapshot's instant.
    #[must_use]
    pub fn new(snapshot: Snapshot, count: u64, lane: Lane) -> Self {
        Self { snapshot, shared: None, limits: None, count, lane, cost: EMAIL, tenant: None, latency: LATENCY }
    }

    /// Under the shared scopes as they stood at the same instant, where `mailbox` is this one.
    #[must_use]
    pub fn with_shared(mut self, shared: Shared, mailbox: MailboxKey) -> Self {
        self.shared = Some((shared.alone(), mailbox));
        self
    }

    /// What if the mailbox had these limits? What was sent already counts under them, as after a live reload.
    #[must_use]
    pub fn with_limits(mut self, limits: impl IntoIterator<Item = Limit>) -> Self {
        self.limits = Some(limits.into_iter().collect());
        self
    }

    /// Emails of this cost each: all that an attempt takes, so with two requests where the transport makes two.
    #[must_use]
    pub fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    /// Of this tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: Option<Arc<str>>) -> Self {
        self.tenant = tenant;
        self
    }

    /// With attempts that take this long, at least a microsecond.
    #[must_use]
    pub fn latency(mut self, latency: Duration) -> Self {
        self.latency = latency.max(Duration::from_micros(1));
        self
    }

    /// Answers it. Takes about three microseconds per email, up to [`STEPS_MAX`] of them: for large campaigns call it where
    /// blocking is allowed.
    #[must_use]
    pub fn forecast(&self) -> Forecast {
        run::forecast(self)
    }
}

impl Forecast {
    /// The constraint that bound longest.
    #[must_use]
    pub fn binding(&self) -> Option<&Bound> {
        self.bounds.first()
    }

    /// From the question to the end; `None`: it does not finish by itself.
    #[must_use]
    pub fn takes(&self) -> Option<Duration> {
        self.finish.map(|finish| finish.since(self.at))
    }
}
