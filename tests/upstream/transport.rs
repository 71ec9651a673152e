//! The simulated transport, under paused time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use mailweir::clock::{Clock, TokioClock};
use mailweir::email::Email;
use mailweir::engine::{Lane, Ratio, ScopeKind, Timestamp};
use mailweir::transport::simulated::SimulatedTransport;
use mailweir::transport::{Attempt, Sent, Throttle, ThrottleKind, Transport, Verdict};
use mailweir::upstream::{
    ConcurrencyLimit, Latency, LogNormal, Model, RetryAfterPolicy, Schedule, ScopeHeader, Upstream, UpstreamLimit,
    check,
};

use crate::MINUTE;

const MILLI: Duration = Duration::from_millis(1);

struct World {
    upstream: Arc<Mutex<Upstream>>,
    clock: Arc<TokioClock>,
    transport: SimulatedTransport,
}

/// 40 ms up, 250 ms of service, 60 ms down, exactly.
fn world(mut model: Model) -> World {
    let fixed = |millis| LogNormal::new(MILLI * millis, Ratio::ZERO);
    model.latency = Latency { up: fixed(40), service: fixed(250), down: fixed(60), ..Latency::default() };
    let clock = Arc::new(TokioClock::starting_at(Timestamp::from_micros(1_700_000_000_000_000)));
    let upstream = Arc::new(Mutex::new(Upstream::new(model, 1)));
    let transport = SimulatedTransport::new(Arc::clone(&upstream), Arc::clone(&clock) as Arc<dyn Clock>);
    World { upstream, clock, transport }
}

fn attempt(id: &str) -> Attempt {
    let email =
        Email::from_mime("a@x.example", ["b@x.example", "c@y.example"], *b"Subject: s\r\n\r\nt\r\n").expect("valid");
    Attempt {
        operation_id: id.into(),
        mailbox: "a@x.example".into(),
        lane: Lane::Background,
        number: 1,
        email,
        timeout: MINUTE,
    }
}

fn with(set: impl FnOnce(&mut Model)) -> World {
    let mut model = Model::new([]);
    set(&mut model);
    world(model)
}

#[tokio::test(start_paused = true)]
async fn an_accepted_send_takes_its_latencies_and_is_logged_at_its_arrival() {
    let world = with(|_| {});
    let began = world.clock.now();
    let answer = world.transport.send(attempt("op-1")).await;
    assert_eq!((answer.verdict, answer.status), (Verdict::Accepted, Some(202)));
    let took = world.clock.now().since(began);
    assert!((350..=353).contains(&took.as_millis()), "{took:?}");
    let upstream = world.upstream.lock().expect("not poisoned");
    let arrival = upstream.log().iter().next().expect("one arrival").clone();
    assert!((40..=41).contains(&arrival.at.since(began).as_millis()));
    assert_eq!((&*arrival.key, arrival.lane), ("op-1", Some(Lane::Background)));
    assert_eq!((arrival.cost.recipients, arrival.cost.external_recipients), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_throttle_is_told_as_far_as_its_headers_tell_it() {
    let rows = [
        (RetryAfterPolicy::Exact, ScopeHeader::Absent, Some(60), None),
        (RetryAfterPolicy::Date, ScopeHeader::Word, Some(60), Some(ScopeKind::Application)),
        (RetryAfterPolicy::None, ScopeHeader::Path, None, Some(ScopeKind::Application)),
        (RetryAfterPolicy::Malformed("2.128".into()), ScopeHeader::Absent, Some(3), None),
        (RetryAfterPolicy::Malformed("soon".into()), ScopeHeader::Absent, None, None),
    ];
    for (policy, scope_header, seconds, scope) in rows {
        let mut model = Model::new([UpstreamLimit::requests(1, MINUTE).at_scope(ScopeKind::Application)]);
        (model.retry_after, model.scope_header) = (policy, scope_header);
        let world = world(model);
        let answers = join_all(["1", "2"].map(|id| world.transport.send(attempt(id)))).await;
        let retry_after = seconds.map(Duration::from_secs);
        let expected = Verdict::Throttled(Throttle { retry_after, scope, kind: ThrottleKind::Rate });
        assert_eq!((&answers[0].verdict, &answers[1].verdict), (&Verdict::Accepted, &expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_held_from_arrival_to_the_end_of_service() {
    let world = with(|model| model.concurrency = vec![ConcurrencyLimit::new(ScopeKind::Mailbox, 1)]);
    let after = |wait: Duration| {
        let transport = &world.transport;
        async move {
            tokio::time::sleep(wait).await;
            transport.send(attempt("op")).await.status
        }
    };
    let statuses = join_all([Duration::ZERO, MILLI * 240, MILLI * 260].map(after)).await;
    assert_eq!(statuses, [Some(202), Some(429), Some(202)]);
}

#[tokio::test(start_paused = true)]
async fn each_fault_has_the_verdict_that_a_client_can_reach() {
    type Set = fn(&mut Model) -> &mut Schedule<Ratio>;
    let failed = Verdict::Transient { sent: Sent::Maybe, retry_after: None };
    let rows: [(Set, Verdict, u64); 7] = [
        (|model| &mut model.faults.cut_before_body, Verdict::Unknown, 0),
        (|model| &mut model.faults.cut_after_body, Verdict::Unknown, 1),
        (|model| &mut model.faults.error_before_charge, failed.clone(), 0),
        (|model| &mut model.faults.error_after_charge, failed, 0),
        (|model| &mut model.faults.timeout_after_acceptance, Verdict::Unknown, 1),
        (|model| &mut model.faults.response_duplicated, Verdict::Accepted, 1),
        (|model| &mut model.faults.accepted_with_retry_after, Verdict::Accepted, 1),
    ];
    for (set, verdict, executed) in rows {
        let world = with(|model| *set(model) = Schedule::always(Ratio::ONE));
        assert_eq!(world.transport.send(attempt("op")).await.verdict, verdict);
        let counts = check::counts(world.upstream.lock().expect("not poisoned").log().iter());
        assert_eq!(counts.executed, executed, "{verdict:?}");
        assert_eq!(world.transport.reconcile(attempt("op")).await, Some(executed == 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_never_comes_and_the_email_was_taken() {
    let world = with(|model| model.faults.response_lost = Schedule::always(Ratio::ONE));
    let waited = tokio::time::timeout(MINUTE * 60, world.transport.send(attempt("op"))).await;
    assert!(waited.is_err());
    assert_eq!(world.transport.reconcile(attempt("op")).await, Some(true));
    assert_eq!(world.transport.reconcile(attempt("other")).await, Some(false));
    assert_eq!(world.transport.without_reconciliation().reconcile(attempt("op")).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_send_dropped_before_its_arrival_never_arrives_and_one_dropped_after_it_frees_its_slot() {
    let world = with(|model| model.concurrency = vec![ConcurrencyLimit::new(ScopeKind::Mailbox, 1)]);
    for (patience, arrivals) in [(MILLI * 30, 0), (MILLI * 50, 1)] {
        assert!(tokio::time::timeout(patience, world.transport.send(attempt("op"))).await.is_err());
        assert_eq!(world.upstream.lock().expect("not poisoned").log().len(), arrivals);
    }
    tokio::time::sleep(MILLI * 300).await;
    assert_eq!(world.transport.send(attempt("op")).await.status, Some(202));
}

#[tokio::test(start_paused = true)]
async fn a_mailbox_uses_the_budget_of_the_tenant_it_was_given() {
    let mut model = Model::new([UpstreamLimit::requests(1, MINUTE).at_scope(ScopeKind::Tenant)]);
    model.scope_header = ScopeHeader::Word;
    let world = world(model);
    let statuses = |transport: SimulatedTransport| async move {
        let answers = [transport.send(attempt("1")).await, transport.send(attempt("2")).await];
        answers.map(|answer| answer.status)
    };
    let free = SimulatedTransport::new(Arc::clone(&world.upstream), Arc::clone(&world.clock) as Arc<dyn Clock>);
    assert_eq!(statuses(free).await, [Some(202), Some(202)]);
    let bound = world.transport.tenants([("a@x.example".into(), "contoso".into())]);
    assert_eq!(statuses(bound).await, [Some(202), Some(429)]);
}
