//! The upstream at work: one arrival, one decision, in a fixed order.
//!
//! Blocks and penalties, then concurrency, then every limit at once; only when all of them have room is anything
//! charged, and then every limit is. Faults are drawn once per arrival from a stream of their own, latencies from
//! another, each foreign client from another: switching one off leaves the draws of the rest as they were.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Cost, Ratio, Scope, ScopeKind, ThrottleKind, Timestamp};

use super::decision::{ArrivalRequest, Decision, Delivery, Handle, Refusal, RetryAfter};
use super::foreign::Source;
use super::log::{Arrival, Log, Origin};
use super::model::{Faults, Model, Refusals, RetryAfterPolicy};
use super::random::{LogNormal, Random};
use super::schedule::Schedule;
use super::scopes::{Scopes, Who};
use super::window::Charge;

/// From this window on, an overflow is a quota and no rate.
const QUOTA_WINDOW: Duration = Duration::from_secs(86_400);
/// Longest Retry-After, where a limit can never take the cost.
const RETRY_AFTER_MAX_S: u64 = 86_400;

/// How long the parts of one attempt take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyPlan {
    /// From the client's first byte to the arrival.
    pub up: Duration,
    /// From the arrival to the answer.
    pub service: Duration,
    /// From the answer to the client.
    pub down: Duration,
}

/// A provider in virtual time. Deterministic: the same model, seed and calls give the same log.
#[derive(Clone, Debug)]
pub struct Upstream {
    model: Model,
    scopes: Scopes,
    sources: Vec<Source>,
    faults: Random,
    latencies: Random,
    /// The latest instant seen; an earlier one is taken as this one.
    now: Timestamp,
    /// Requests that hold a concurrency slot.
    slots: BTreeMap<u64, Slot>,
    /// Completions announced for later.
    completions: BTreeSet<(Timestamp, u64)>,
    last_handle: u64,
    log: Log,
}

#[derive(Clone, Debug)]
struct Slot {
    mailbox: Arc<str>,
    tenant: Option<Arc<str>>,
    lingers: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    RequestLost,
    CutBeforeBody,
    ErrorBeforeCharge,
    ErrorAfterCharge,
    TimeoutAfterAcceptance,
    CutAfterBody,
    ResponseLost,
    ResponseDuplicated,
    AcceptedWithRetryAfter,
    /// Not drawn: the request itself is bad.
    Invalid(u16),
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Errand {
    /// To send an email.
    Send,
    /// To prepare that.
    Prepare,
}

/// Why a request is refused, and until when by what is known.
#[derive(Clone, Copy, Debug)]
struct Reason {
    refusal: Refusal,
    until: Timestamp,
}

impl Upstream {
    /// An upstream that has seen nothing yet.
    #[must_use]
    pub fn new(model: Model, seed: u64) -> Self {
        let sources = model.foreign.iter().cloned().zip(16..);
        Self {
            scopes: Scopes::new(&model.limits, &model.concurrency),
            sources: sources.map(|(foreign, n)| Source::new(foreign, Random::stream(seed, n))).collect(),
            faults: Random::stream(seed, 1),
            latencies: Random::stream(seed, 2),
            now: Timestamp::EPOCH,
            slots: BTreeMap::new(),
            completions: BTreeSet::new(),
            last_handle: 0,
            log: Log::new(model.log_entries_max),
            model,
        }
    }

    /// What it is.
    #[must_use]
    pub const fn model(&self) -> &Model {
        &self.model
    }

    /// What arrived.
    #[must_use]
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// Draws how long the next attempt takes. One call per attempt.
    pub fn plan_latency(&mut self) -> LatencyPlan {
        let latency = self.model.latency;
        let mut draw = |span: LogNormal| span.draw(&mut self.latencies).min(latency.longest);
        LatencyPlan { up: draw(latency.up), service: draw(latency.service), down: draw(latency.down) }
    }

    /// Decides a request at the instant of its arrival. An instant before the last one is taken as the last one.
    pub fn arrive(&mut self, now: Timestamp, request: &ArrivalRequest) -> Decision {
        self.arrive_on(now, request, Errand::Send)
    }

    /// Decides a request that prepares a send and is none, such as the creation of a draft: it meets the limits, is
    /// charged and fails like any other, is answered 201, and the log never has it as an email that was taken.
    pub fn arrive_preparing(&mut self, now: Timestamp, request: &ArrivalRequest) -> Decision {
        self.arrive_on(now, request, Errand::Prepare)
    }

    fn arrive_on(&mut self, now: Timestamp, request: &ArrivalRequest, errand: Errand) -> Decision {
        let now = self.advance(now);
        let fault = self.draw_fault(now);
        let delivery = match fault {
            Some(Fault::RequestLost) => return not_arrived(Delivery::Lost),
            Some(Fault::CutBeforeBody) => return not_arrived(Delivery::Cut),
            Some(Fault::CutAfterBody) => Delivery::Cut,
            Some(Fault::ResponseLost) => Delivery::Lost,
            Some(Fault::ResponseDuplicated) => Delivery::Twice,
            _ => Delivery::Once,
        };
        let decision = self.receive(now, request, (fault, errand), Origin::Client);
        Decision { delivery, ..decision }
    }

    /// Decides a request that is bad in itself, to be answered `status` (4xx): it meets the limits and is charged like
    /// any other, but nothing is taken and no fault befalls it.
    pub fn arrive_invalid(&mut self, now: Timestamp, request: &ArrivalRequest, status: u16) -> Decision {
        let now = self.advance(now);
        self.receive(now, request, (Some(Fault::Invalid(status)), Errand::Send), Origin::Client)
    }

    /// The service of `handle` is over at `at`, which may lie ahead: its slot is free from then on.
    pub fn complete(&mut self, at: Timestamp, handle: Handle) {
        if let Some(slot) = self.slots.get(&handle.0) {
            self.completions.insert((at.after(slot.lingers), handle.0));
            self.release(self.now);
        }
    }

    /// Another client spends `cost` at once, whether it fits or not.
    pub fn burn(&mut self, now: Timestamp, mailbox: &Arc<str>, tenant: Option<&Arc<str>>, cost: Cost) {
        let now = self.advance(now);
        self.scopes.charge(now, Who { mailbox, tenant }, &cost, Charge::Accepted);
        let request = ArrivalRequest {
            mailbox: Arc::clone(mailbox),
            tenant: tenant.cloned(),
            cost,
            key: "burn".into(),
            lane: None,
        };
        self.record(now, &request, (202, true), Origin::Foreign);
    }

    /// Lets foreign traffic and announced completions happen up to `now`. [`Upstream::arrive`] does so by itself.
    pub fn advance(&mut self, now: Timestamp) -> Timestamp {
        let now = now.max(self.now);
        loop {
            let next = self.sources.iter_mut().enumerate().map(|(n, source)| (source.next(now), n)).min();
            let Some((at, n)) = next.filter(|(at, _)| *at <= now) else {
                break;
            };
            let request = self.sources[n].take(at);
            let _ = self.receive(at, &request, (None, Errand::Send), Origin::Foreign);
        }
        self.release(now);
        self.now = now;
        now
    }

    fn release(&mut self, now: Timestamp) {
        while let Some((at, handle)) = self.completions.first().copied().filter(|(at, _)| *at <= now) {
            self.completions.remove(&(at, handle));
            if let Some(slot) = self.slots.remove(&handle) {
                self.scopes.leave(now, Who { mailbox: &slot.mailbox, tenant: slot.tenant.as_ref() });
            }
        }
    }

    fn receive(
        &mut self,
        now: Timestamp,
        request: &ArrivalRequest,
        (fault, errand): (Option<Fault>, Errand),
        origin: Origin,
    ) -> Decision {
        let decision = if fault == Some(Fault::ErrorBeforeCharge) {
            Decision { status: Some(503), service: Some(self.model.latency.refusal), ..not_arrived(Delivery::Once) }
        } else if let Some(reason) = self.reason(now, request, origin) {
            self.refuse(now, request, reason)
        } else {
            self.admit(now, request, (fault, errand), origin)
        };
        let taken = decision.executed && errand == Errand::Send;
        self.record(now, request, (decision.status.unwrap_or(0), taken), origin);
        decision
    }

    /// Why it is refused: blocked or penalised, too many at once, or over a limit.
    fn reason(&mut self, now: Timestamp, request: &ArrivalRequest, origin: Origin) -> Option<Reason> {
        let who = who(request);
        let blocked = self.model.blocks.iter().filter(|block| block.from <= now && now < block.until);
        let blocked =
            blocked.filter(|block| holds(&block.scope, request)).map(|block| (block.until, block.scope.kind()));
        let penalised = self.model.penalty.and_then(|penalty| self.scopes.penalised(now, who, &penalty));
        let closed = blocked.chain(penalised.map(|until| (until, ScopeKind::Mailbox))).max();
        if let Some((until, scope)) = closed {
            return Some(Reason { refusal: Refusal { scope, kind: ThrottleKind::Rate }, until });
        }
        if origin == Origin::Client
            && self.scopes.bounds_in_flight()
            && let Some(scope) = self.scopes.saturated(now, who)
        {
            let refusal = Refusal { scope, kind: ThrottleKind::Concurrency };
            return Some(Reason { refusal, until: now.after(Duration::from_secs(1)) });
        }
        self.scopes.shortage(now, who, &request.cost).map(|shortage| {
            let kind = if shortage.window >= QUOTA_WINDOW { ThrottleKind::Quota } else { ThrottleKind::Rate };
            Reason { refusal: Refusal { scope: shortage.scope, kind }, until: shortage.ready_at }
        })
    }

    fn refuse(&mut self, now: Timestamp, request: &ArrivalRequest, reason: Reason) -> Decision {
        let (who, mut until) = (who(request), reason.until);
        if self.model.refusals == Refusals::Counted {
            self.scopes.charge(now, who, &request.cost, Charge::Refused);
            if reason.refusal.kind != ThrottleKind::Concurrency {
                let counted = self.scopes.shortage(now, who, &request.cost);
                until = counted.map_or(until, |shortage| shortage.ready_at.max(until));
            }
        }
        if let Some(penalty) = self.model.penalty {
            until = self.scopes.refused(now, who, &penalty).max(until);
        }
        if until == Timestamp::NEVER {
            until = self.scopes.next_change(now).unwrap_or(until);
        }
        Decision {
            status: Some(429),
            retry_after: retry_after(&self.model.retry_after, now, until),
            refusal: Some(reason.refusal),
            service: Some(self.model.latency.refusal),
            ..not_arrived(Delivery::Once)
        }
    }

    fn admit(
        &mut self,
        now: Timestamp,
        request: &ArrivalRequest,
        (fault, errand): (Option<Fault>, Errand),
        origin: Origin,
    ) -> Decision {
        let who = who(request);
        self.scopes.charge(now, who, &request.cost, Charge::Accepted);
        let usage = self.model.usage_from.map(|from| (from, self.scopes.usage(now, who)));
        let (status, executed) = match fault {
            Some(Fault::ErrorAfterCharge) => (503, false),
            Some(Fault::TimeoutAfterAcceptance) => (504, true),
            Some(Fault::Invalid(status)) => (status, false),
            _ if errand == Errand::Prepare => (201, true),
            _ => (202, true),
        };
        let lingers = if status == 504 { self.model.faults.timeout_lingers } else { Duration::ZERO };
        Decision {
            handle: if origin == Origin::Client { self.occupy(now, request, lingers) } else { Handle(0) },
            status: Some(status),
            executed,
            retry_after: (fault == Some(Fault::AcceptedWithRetryAfter)).then_some(RetryAfter::Seconds(1)),
            usage: usage.filter(|(from, usage)| status == 202 && usage >= from).map(|(_, usage)| usage),
            ..not_arrived(Delivery::Once)
        }
    }

    fn occupy(&mut self, now: Timestamp, request: &ArrivalRequest, lingers: Duration) -> Handle {
        if !self.scopes.bounds_in_flight() {
            return Handle(0);
        }
        self.scopes.enter(now, who(request));
        self.last_handle += 1;
        let slot = Slot { mailbox: Arc::clone(&request.mailbox), tenant: request.tenant.clone(), lingers };
        self.slots.insert(self.last_handle, slot);
        Handle(self.last_handle)
    }

    fn draw_fault(&mut self, now: Timestamp) -> Option<Fault> {
        let mut draw = self.faults.below(u64::from(Ratio::ONE.as_ppm()));
        probabilities(&self.model.faults).into_iter().find_map(|(fault, probability)| {
            let width = u64::from(probability.at(now).as_ppm());
            let hit = draw < width;
            draw = draw.saturating_sub(width);
            hit.then_some(fault)
        })
    }

    fn record(&mut self, at: Timestamp, request: &ArrivalRequest, (status, executed): (u16, bool), origin: Origin) {
        self.log.push(Arrival {
            at,
            mailbox: Arc::clone(&request.mailbox),
            tenant: request.tenant.clone(),
            cost: request.cost,
            status,
            executed,
            key: Arc::clone(&request.key),
            lane: request.lane,
            origin,
        });
    }
}

const fn probabilities(faults: &Faults) -> [(Fault, &Schedule<Ratio>); 9] {
    [
        (Fault::RequestLost, &faults.request_lost),
        (Fault::CutBeforeBody, &faults.cut_before_body),
        (Fault::ErrorBeforeCharge, &faults.error_before_charge),
        (Fault::ErrorAfterCharge, &faults.error_after_charge),
        (Fault::TimeoutAfterAcceptance, &faults.timeout_after_acceptance),
        (Fault::CutAfterBody, &faults.cut_after_body),
        (Fault::ResponseLost, &faults.response_lost),
        (Fault::ResponseDuplicated, &faults.response_duplicated),
        (Fault::AcceptedWithRetryAfter, &faults.accepted_with_retry_after),
    ]
}

const fn who(request: &ArrivalRequest) -> Who<'_> {
    Who { mailbox: &request.mailbox, tenant: request.tenant.as_ref() }
}

fn holds(scope: &Scope, request: &ArrivalRequest) -> bool {
    match scope {
        Scope::Mailbox(mailbox) => *mailbox == request.mailbox,
        Scope::Tenant(tenant) => Some(tenant) == request.tenant.as_ref(),
        Scope::Application => true,
    }
}

/// A decision that did nothing: the start of every other.
const fn not_arrived(delivery: Delivery) -> Decision {
    Decision {
        handle: Handle(0),
        status: None,
        executed: false,
        delivery,
        retry_after: None,
        usage: None,
        refusal: None,
        service: None,
    }
}

fn retry_after(policy: &RetryAfterPolicy, now: Timestamp, until: Timestamp) -> Option<RetryAfter> {
    let wait = until.since(now);
    let seconds = (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).clamp(1, RETRY_AFTER_MAX_S);
    match policy {
        RetryAfterPolicy::None => None,
        RetryAfterPolicy::Exact => Some(RetryAfter::Seconds(seconds)),
        RetryAfterPolicy::Date => Some(RetryAfter::Date(now.after(Duration::from_secs(seconds)))),
        RetryAfterPolicy::Constant(seconds) => Some(RetryAfter::Seconds(*seconds)),
        RetryAfterPolicy::Malformed(text) => Some(RetryAfter::Text(Arc::clone(text))),
    }
}
