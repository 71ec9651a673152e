//! The cooldown is one: what extends it, what never shortens it, and what an operator does to it.

use std::sync::Arc;
use std::time::Duration;

use mailweir::Lane;
use mailweir::clock::{Clock, TokioClock};
use mailweir::config::Config;
use mailweir::engine::breaker::{BreakerFacts, BreakerState};
use mailweir::engine::{Scope, Throttle, ThrottleKind, Timestamp, TripReason};
use mailweir::scheduler::{HoldScope, Order, Scheduler, SchedulerHandle};
use mailweir::telemetry::EventKind;
use mailweir::transport::{Answer, Verdict};

use crate::support::*;

fn throttled(retry_after: Option<u64>) -> Answer {
    let retry_after = retry_after.map(Duration::from_secs);
    Verdict::Throttled(Throttle { retry_after, scope: None, kind: ThrottleKind::Rate }).into()
}

async fn start(config: Config, answers: Vec<(Duration, Answer)>) -> (Scheduler, Record) {
    let clock = Arc::new(TokioClock::starting_at(START));
    let record = Record::of(Listed::new(answers), Arc::clone(&clock));
    let builder = Scheduler::builder(config, record.clone()).clock(clock as Arc<dyn Clock>).seeds([1, 2]);
    (builder.start_on_current_thread().await.expect("the scheduler starts"), record)
}

async fn breaker(handle: &SchedulerHandle, scope: &Scope) -> BreakerFacts {
    let breakers = handle.breakers().await.expect("an answer");
    breakers.into_iter().find(|(of, _)| of == scope).map(|(_, facts)| facts).unwrap_or_default()
}

/// Three attempts in flight are throttled after 1, 2 and 3 s: when the cooldown ends by each look, and by the sends.
async fn ends(hints: [Option<u64>; 3]) -> ([Timestamp; 3], Timestamp) {
    let mut config = unlimited();
    config.mailbox.concurrency = 3.try_into().ok();
    let answers = hints.into_iter().enumerate().map(|(n, hint)| (seconds(n as u64 + 1), throttled(hint))).collect();
    let (scheduler, record) = start(config, answers).await;
    let handle = scheduler.handle();
    let scope = Scope::Mailbox(MAILBOX.into());
    let batch = (0..3).map(|n| submission(MAILBOX, &format!("op-{n}"), Lane::Foreground));
    let tickets = handle.submit_many(batch).await;
    let mut looks = [START; 3];
    tokio::time::sleep(millis(500)).await;
    for look in &mut looks {
        tokio::time::sleep(seconds(1)).await;
        let facts = breaker(&handle, &scope).await;
        assert_eq!(facts.state, BreakerState::Open);
        *look = facts.until.expect("it has an end");
    }
    for ticket in tickets {
        accepted(ticket.expect("taken in")).await;
    }
    (looks, record.flights()[3].started)
}

#[test]
fn a_later_shorter_retry_after_never_shortens_the_cooldown() {
    paused(|| async {
        let (looks, probe) = ends([Some(60), Some(5), None]).await;
        assert_eq!(looks, [looks[0]; 3]);
        assert!(looks[0] >= START.after(seconds(61)), "{looks:?}");
        assert!(looks[0] <= probe && probe < looks[0].after(millis(50)), "{probe:?} of {looks:?}");
    });
}

#[test]
fn a_later_longer_retry_after_of_the_same_overload_extends_it() {
    paused(|| async {
        let (looks, probe) = ends([Some(10), Some(90), Some(20)]).await;
        assert!(looks[1] >= START.after(seconds(92)), "{looks:?}");
        assert_eq!(looks[1], looks[2]);
        assert!(probe >= looks[2], "{probe:?} of {looks:?}");
    });
}

#[test]
fn an_operators_trip_is_never_shortened_and_his_close_lets_go_at_every_scope() {
    paused(|| async {
        for scope in [Scope::Mailbox(MAILBOX.into()), Scope::Tenant("acme".into()), Scope::Application] {
            let (scheduler, record) = start(unlimited(), Vec::new()).await;
            let handle = scheduler.handle();
            let mut events = handle.events();
            for minutes in [10, 1] {
                handle.trip(scope.clone(), Order::new("a test").expires_in(MINUTE * minutes)).await.expect("tripped");
                let facts = breaker(&handle, &scope).await;
                let expected = (BreakerState::Open, Some(TripReason::Manual), Some(START.after(MINUTE * 10)));
                assert_eq!((facts.state, facts.reason, facts.until), expected, "{scope}");
            }
            let waits = submission(MAILBOX, "waits", Lane::Foreground).tenant("acme");
            let ticket = handle.submit(waits).await.expect("taken in");
            tokio::time::sleep(MINUTE * 2).await;
            assert_eq!(record.count(), 0, "{scope}");
            handle.close(scope.clone(), Order::new("done")).await.expect("closed");
            accepted(ticket).await;
            assert_eq!(breaker(&handle, &scope).await.state, BreakerState::Closed, "{scope}");
            let turns: Vec<_> = seen(&mut events)
                .into_iter()
                .filter_map(|event| match event.kind {
                    EventKind::BreakerOpened { scope: of, reason: TripReason::Manual, .. } if of == scope => {
                        Some("opened")
                    }
                    EventKind::BreakerClosed { scope: of, reason, .. } if of == scope => {
                        assert_eq!(reason, TripReason::Manual, "{scope}: why it was open");
                        Some("closed")
                    }
                    _ => None,
                })
                .collect();
            assert_eq!((turns.first(), turns.last()), (Some(&"opened"), Some(&"closed")), "{scope}: {turns:?}");
        }
    });
}

#[test]
fn a_tripped_breaker_ends_by_itself_with_one_probe_at_a_time() {
    paused(|| async {
        let (scheduler, record) = start(unlimited(), Vec::new()).await;
        let handle = scheduler.handle();
        handle.trip(Scope::Application, Order::new("a test").expires_in(seconds(90))).await.expect("tripped");
        let batch = (0..50).map(|n| submission(&format!("m{n}@example.org"), &format!("op-{n}"), Lane::Foreground));
        for ticket in handle.submit_many(batch).await {
            accepted(ticket.expect("taken in")).await;
        }
        let flights = record.flights();
        assert!(flights[0].started >= START.after(seconds(90)), "{:?}", flights[0]);
        assert!(flights[0].ended.is_some_and(|ended| ended <= flights[1].started), "the second probe waits");
        assert!(flights[1].ended.is_some_and(|ended| ended <= flights[2].started), "and so does everybody else");
    });
}

#[test]
fn a_hold_has_an_expiry_and_no_throttle_ends_it_earlier() {
    paused(|| async {
        let answers = vec![(seconds(2), throttled(Some(5)))];
        let (scheduler, record) = start(unlimited(), answers).await;
        let handle = scheduler.handle();
        let first = handle.submit(submission(MAILBOX, "first", Lane::Foreground)).await.expect("taken in");
        tokio::time::sleep(seconds(1)).await;
        let held = handle.hold(HoldScope::All, Order::new("a look").expires_in(seconds(120))).await.expect("held");
        assert_eq!((handle.holds(), held.until), (vec![held.clone()], START.after(seconds(121))));
        let second = handle.submit(submission("b@example.org", "second", Lane::Foreground)).await.expect("taken in");
        accepted(first).await;
        accepted(second).await;
        let starts: Vec<_> = record.flights().iter().map(|flight| flight.started).collect();
        assert_eq!(starts.len(), 3);
        assert!(starts[1] >= held.until && starts[2] >= held.until, "{starts:?}");
        assert!(handle.holds().is_empty(), "it is over");
    });
}
