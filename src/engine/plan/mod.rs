//! When would this campaign finish?
//!
//! The answer is not a formula but the engine itself: a copy of the mailbox, and of the shared scopes where there are
//! any, is run forward in virtual time with a latency that is assumed. So reserve, pace, breaker, ramp, floor and every
//! limit of every scope are in it by the same code that will decide then, and a rule that changes changes the plan.
//!
//! It is pure: the copy is all that changes, nothing is drawn by chance, and the same question about the same state has
//! the same answer. Work is bounded: past [`STEPS_MAX`] sends the rest is taken at the rate of the last half.
//!
//! What if: another limit or concurrency at any scope ([`Plan::limit`], [`Plan::concurrency`]), and other mailboxes
//! beside this one ([`Plan::also_from`]). A what-if does what a live reload would do: the copy is told another policy.
//!
//! Not promised: the future. Nobody else is taken to submit anything meanwhile, every attempt is taken to be accepted
//! after the same latency, and what waits already is taken at its mean cost per lane and tenant and never given up.
//! Operations that are held or of unknown outcome stay out of it, and so does the backlog of mailboxes that are not
//! part of the plan: where the application or the tenant binds, it takes a share that the plan does not see, but for
//! what has asked there already. What the door would refuse (`queue`, `submit`) is not looked at.

mod feed;
mod forecast;
mod member;
mod run;
mod tally;
mod what_if;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

pub use forecast::{Bound, Forecast, Method, Sender};

use super::cost::Cost;
use super::lane::Lane;
use super::limit::Limit;
use super::mailbox::Snapshot;
use super::scope::ScopeKind;
use super::shared::{MailboxKey, Shared};
use what_if::Change;

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
    /// The mailbox that is asked about, then those beside it.
    parts: Vec<Part>,
    shared: Option<Shared>,
    changes: Vec<Change>,
    count: u64,
    lane: Lane,
    cost: Cost,
    latency: Duration,
}

/// One mailbox that the campaign leaves from.
#[derive(Clone, Debug)]
struct Part {
    snapshot: Snapshot,
    key: MailboxKey,
    tenant: Option<Arc<str>>,
}

impl Plan {
    /// `count` emails of the kind of [`EMAIL`] in `lane`, submitted at once at the snapshot's instant.
    #[must_use]
    pub fn new(snapshot: Snapshot, count: u64, lane: Lane) -> Self {
        let parts = vec![Part { snapshot, key: MailboxKey(0), tenant: None }];
        Self { parts, shared: None, changes: Vec::new(), count, lane, cost: EMAIL, latency: LATENCY }
    }

    /// Under the shared scopes as they stood at the same instant, where `mailbox` is this one.
    #[must_use]
    pub fn with_shared(mut self, shared: Shared, mailbox: MailboxKey) -> Self {
        self.shared = Some(shared.alone());
        self.parts[0].key = mailbox;
        self
    }

    /// From another mailbox too, whose plan says how it stands: `handle.plan(0, "second@contoso.example", lane)`. The
    /// emails of both are one pool in this plan's lane and of its cost, and whoever may send next takes the next, so a
    /// faster mailbox sends more: [`Forecast::senders`]. What the other was to have otherwise at its own scope stays its
    /// own, and for the shared scopes it joins this plan's. A mailbox that is part of the plan already adds its emails
    /// only.
    #[must_use]
    pub fn also_from(mut self, other: Self) -> Self {
        let (own, common) = other.changes.into_iter().partition::<Vec<_>, _>(Change::is_of_mailbox);
        for mut part in other.parts {
            if self.parts.iter().any(|here| here.snapshot.name() == part.snapshot.name()) {
                continue;
            }
            part.snapshot.rescope(|policy| own.iter().for_each(|change| change.apply(policy)));
            while self.parts.iter().any(|here| here.key == part.key) {
                part.key = MailboxKey(part.key.0.wrapping_add(1));
            }
            self.parts.push(part);
        }
        self.shared = self.shared.or(other.shared);
        self.changes.extend(common);
        self.count = self.count.saturating_add(other.count);
        self
    }

    /// What if there were this limit at this scope, in place of the one of the same unit and window, or beside the others?
    /// What was sent already counts under it as after a live reload. At [`ScopeKind::Mailbox`] each mailbox of the plan
    /// has it, at [`ScopeKind::Tenant`] each tenant.
    #[must_use]
    pub fn limit(mut self, scope: ScopeKind, limit: Limit) -> Self {
        self.changes.push(Change::limit(scope, limit));
        self
    }

    /// What if this many attempts could be in flight at once at this scope? `None`: any number.
    #[must_use]
    pub fn concurrency(mut self, scope: ScopeKind, most: Option<NonZeroU32>) -> Self {
        self.changes.push(Change::concurrency(scope, most));
        self
    }

    /// Emails of this cost each: all that an attempt takes, so with two requests where the transport makes two.
    #[must_use]
    pub fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    /// Of this tenant, as far as they leave from the mailbox that was asked about.
    #[must_use]
    pub fn tenant(mut self, tenant: Option<Arc<str>>) -> Self {
        self.parts[0].tenant = tenant;
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
