//! The transport to the simulated upstream: no socket, the injected clock, tokio's timers.
//!
//! Under paused time a whole day of sends runs in seconds and replays from the upstream's seed. The answers are read
//! the way a provider's are: a Retry-After as text, a scope only where the header names it, and nothing of what the
//! upstream knows but does not say. A caller that drops the future before the request has arrived has not sent it;
//! one that drops it later has, and hears nothing: the scheduler's own timeout ends a send whose answer is lost.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;

use super::{Answer, Attempt, Sent, Throttle, ThrottleKind, Transport, Verdict};
use crate::clock::Clock;
use crate::engine::{Cost, Timestamp};
use crate::upstream::{ArrivalRequest, Decision, Delivery, RetryAfter, ScopeHeader, Upstream};

/// Longest Retry-After that is believed; longer ones are cut to it.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);

/// Sends to an [`Upstream`] in this process.
#[derive(Debug)]
pub struct SimulatedTransport {
    upstream: Arc<Mutex<Upstream>>,
    clock: Arc<dyn Clock>,
    tenants: BTreeMap<Arc<str>, Arc<str>>,
    known: BTreeMap<Arc<str>, (Cost, Option<Arc<str>>)>,
    reconciles: bool,
    visible_after: Duration,
}

impl SimulatedTransport {
    /// A transport to `upstream`, which may be shared with a checker. `clock` must run with tokio's timers.
    #[must_use]
    pub fn new(upstream: Arc<Mutex<Upstream>>, clock: Arc<dyn Clock>) -> Self {
        Self {
            upstream,
            clock,
            tenants: BTreeMap::new(),
            known: BTreeMap::new(),
            reconciles: true,
            visible_after: Duration::ZERO,
        }
    }

    /// The same, with the tenants that mailboxes belong to; others belong to none.
    #[must_use]
    pub fn tenants(mut self, tenants: impl IntoIterator<Item = (Arc<str>, Arc<str>)>) -> Self {
        self.tenants = tenants.into_iter().collect();
        self
    }

    /// The same, with what single operations take and the tenants that they belong to, by id; others are counted.
    #[must_use]
    pub fn known(mut self, known: impl IntoIterator<Item = (Arc<str>, Cost, Option<Arc<str>>)>) -> Self {
        self.known = known.into_iter().map(|(id, cost, tenant)| (id, (cost, tenant))).collect();
        self
    }

    /// The same, unable to look up what became of an unknown.
    #[must_use]
    pub const fn without_reconciliation(mut self) -> Self {
        self.reconciles = false;
        self
    }

    /// The same, whose look-ups see an email only this long after it was taken.
    #[must_use]
    pub const fn visible_after(mut self, delay: Duration) -> Self {
        self.visible_after = delay;
        self
    }

    fn upstream(&self) -> MutexGuard<'_, Upstream> {
        self.upstream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request(&self, attempt: &Attempt) -> ArrivalRequest {
        let (key, lane) = (Arc::clone(&attempt.operation_id), Some(attempt.lane));
        let mailbox = Arc::clone(&attempt.mailbox);
        if let Some((cost, tenant)) = self.known.get(&attempt.operation_id) {
            return ArrivalRequest { mailbox, tenant: tenant.clone(), cost: *cost, key, lane };
        }
        let own_domain = attempt.mailbox.rsplit_once('@').map_or("", |(_, domain)| domain);
        let (tenant, cost) = (self.tenants.get(&mailbox).cloned(), attempt.email.cost(&[own_domain]));
        ArrivalRequest { mailbox, tenant, cost, key, lane }
    }

    async fn attempt(&self, attempt: Attempt) -> Answer {
        let request = self.request(&attempt);
        let plan = self.upstream().plan_latency();
        tokio::time::sleep(plan.up).await;
        let (now, decision, scope_header) = {
            let mut upstream = self.upstream();
            let now = self.clock.now();
            let decision = upstream.arrive(now, &request);
            // Announced at once, so that a dropped future frees its slot all the same.
            upstream.complete(now.after(decision.service_or(plan.service)), decision.handle);
            (now, decision, upstream.model().scope_header)
        };
        match decision.delivery {
            Delivery::Lost => pending().await,
            Delivery::Cut if decision.status.is_none() => return Verdict::Unknown.into(),
            _ => tokio::time::sleep(decision.service_or(plan.service)).await,
        }
        if decision.delivery == Delivery::Cut {
            return Verdict::Unknown.into();
        }
        tokio::time::sleep(plan.down).await;
        let hint = decision.retry_after.as_ref().and_then(|value| match value {
            RetryAfter::Seconds(seconds) => Some(Duration::from_secs(*seconds).min(RETRY_AFTER_MAX)),
            RetryAfter::Date(at) => Some(at.since(now)).filter(|wait| *wait <= RETRY_AFTER_MAX),
            RetryAfter::Text(text) => seconds(text),
        });
        answer(&decision, hint, scope_header)
    }
}

impl Transport for SimulatedTransport {
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Answer> {
        Box::pin(self.attempt(attempt))
    }

    fn reconcile(&self, attempt: Attempt) -> BoxFuture<'_, Option<bool>> {
        let taken = self.reconciles.then(|| {
            let (upstream, now) = (self.upstream(), self.clock.now());
            let visible = |at: Timestamp| at.after(self.visible_after) <= now;
            let mut taken = upstream.log().client().rev().filter(|arrival| arrival.executed);
            taken.any(|arrival| arrival.key == attempt.operation_id && visible(arrival.at))
        });
        Box::pin(async move { taken })
    }
}

/// What a provider's parser would make of it.
fn answer(decision: &Decision, hint: Option<Duration>, scope_header: ScopeHeader) -> Answer {
    let verdict = match decision.status {
        Some(202) => Verdict::Accepted,
        Some(429) => Verdict::Throttled(Throttle {
            retry_after: hint,
            scope: decision.refusal.filter(|_| scope_header != ScopeHeader::Absent).map(|refusal| refusal.scope),
            kind: decision.refusal.map_or(ThrottleKind::Rate, |refusal| refusal.kind),
        }),
        Some(503) => Verdict::Transient { sent: Sent::Maybe, retry_after: hint },
        _ => Verdict::Unknown,
    };
    Answer { verdict, usage: decision.usage, status: decision.status, provider_id: None }
}

/// Seconds as providers write them: decimals are rounded up, of a list the longest counts, anything else is no hint.
fn seconds(text: &str) -> Option<Duration> {
    let parts = text.split(',').map(|part| {
        let (whole, fraction) = part.trim().split_once('.').unwrap_or((part.trim(), ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let rounded_up = u64::from(fraction.bytes().any(|byte| byte != b'0'));
        let whole = whole.parse::<u64>().ok().filter(|_| digits(whole) && digits(fraction))?;
        Some(Duration::from_secs(whole.saturating_add(rounded_up)).min(RETRY_AFTER_MAX))
    });
    parts.collect::<Option<Vec<_>>>()?.into_iter().max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_read_as_providers_write_them() {
        let rows = [
            ("120", Some(120)),
            ("0", Some(0)),
            ("2.128", Some(3)),
            ("0.249", Some(1)),
            ("3.0", Some(3)),
            ("30,120", Some(120)),
            ("30, soon", None),
            ("", None),
            ("-5", None),
            ("+5", None),
            ("soon", None),
            ("1e3", None),
            ("99999999999", Some(86_400)),
            ("99999999999999999999999", None),
        ];
        for (text, expected) in rows {
            assert_eq!(seconds(text), expected.map(Duration::from_secs), "{text:?}");
        }
    }
}
