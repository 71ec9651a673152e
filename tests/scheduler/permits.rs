//! Permit mode: capacity for callers who send by themselves.

use std::time::Duration;

use mailweir::engine::Sent;
use mailweir::engine::mailbox::Refusal;
use mailweir::scheduler::{PermitError, TryAcquire};
use mailweir::telemetry::EventKind;
use mailweir::transport::Verdict;
use mailweir::{Cost, Lane};

use crate::support::*;

const ONE: Cost = Cost::ONE_REQUEST;

#[test]
fn a_permit_is_granted_while_there_is_room_and_charged() {
    paused(|| async {
        let scheduler = start(limited("2 requests / 1m"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        for _ in 0..2 {
            let permit = handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("room");
            assert_eq!(permit.mailbox(), MAILBOX);
            permit.settle(Verdict::Accepted);
        }
        match handle.try_acquire(MAILBOX, ONE, Lane::Foreground).await.expect("an answer") {
            TryAcquire::Deferred { until, constraints } => {
                assert!(until.since(START) >= Duration::from_secs(59), "{until}");
                assert!(constraints.iter().any(|constraint| constraint.binding));
            }
            other => panic!("{other:?}"),
        }
        let _third = handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("after the window");
    });
}

#[test]
fn a_try_grants_defers_or_refuses_and_leaves_nothing_waiting() {
    paused(|| async {
        let scheduler = start(limited("1 requests / 1m"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let heavy = Cost { requests: 2, ..ONE };
        let refused = handle.try_acquire(MAILBOX, heavy, Lane::Foreground).await.expect("an answer");
        assert!(matches!(refused, TryAcquire::Refused(Refusal::CostAboveCapacity { .. })), "{refused:?}");
        let granted = handle.try_acquire(MAILBOX, ONE, Lane::Foreground).await.expect("an answer");
        let TryAcquire::Granted(permit) = granted else { panic!("{granted:?}") };
        let deferred = handle.try_acquire(MAILBOX, ONE, Lane::Foreground).await.expect("an answer");
        assert!(matches!(deferred, TryAcquire::Deferred { .. }), "{deferred:?}");
        assert_eq!(handle.mailbox(MAILBOX).await.expect("facts").waiting, [0, 0]);
        permit.settle(Verdict::Accepted);
    });
}

#[test]
fn a_try_at_a_full_lane_says_to_come_back() {
    paused(|| async {
        let mut config = limited("1 requests / 1m");
        config.queue.foreground_max = 1;
        let scheduler = start(config, Scripted::accepting()).await;
        let handle = scheduler.handle();
        let _held = handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("room");
        let full = handle.try_acquire(MAILBOX, ONE, Lane::Foreground).await.expect_err("the lane is full");
        assert!(matches!(full, PermitError::QueueFull { depth_max: 1, .. }) && full.is_retryable(), "{full:?}");
    });
}

#[test]
fn an_unsent_permit_gives_its_charge_back() {
    paused(|| async {
        let scheduler = start(limited("1 requests / 1h"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        for _ in 0..3 {
            let permit = handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("given back");
            permit.settle(Verdict::Transient { sent: Sent::No, retry_after: None });
        }
    });
}

#[test]
fn a_permit_that_is_dropped_keeps_its_charge_and_is_reported() {
    paused(|| async {
        let scheduler = start(limited("1 requests / 1h"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let mut events = handle.events();
        drop(handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("room"));
        let deferred = handle.try_acquire(MAILBOX, ONE, Lane::Foreground).await.expect("an answer");
        assert!(matches!(deferred, TryAcquire::Deferred { .. }), "{deferred:?}");
        let mut abandoned = 0;
        while let Some(Some(Ok(event))) = futures::FutureExt::now_or_never(events.next()) {
            abandoned += usize::from(matches!(event.kind, EventKind::PermitAbandoned { .. }));
        }
        assert_eq!(abandoned, 1);
    });
}

#[test]
fn giving_up_the_wait_gives_up_the_place_and_charges_nothing() {
    paused(|| async {
        let scheduler = start(limited("1 requests / 1m"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let first = handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("room");
        {
            let waiting = handle.acquire(MAILBOX, ONE, Lane::Foreground);
            let gave_up = tokio::time::timeout(Duration::from_secs(5), waiting).await;
            assert!(gave_up.is_err(), "there was no room");
        }
        first.settle(Verdict::Accepted);
        let facts = handle.mailbox(MAILBOX).await.expect("facts");
        assert_eq!((facts.waiting, facts.in_flight), ([0, 0], [0, 0]));
        let second = handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("the next window");
        second.settle(Verdict::Accepted);
    });
}

#[test]
fn a_permit_that_was_granted_to_a_caller_who_had_stopped_waiting_charges_nothing_and_is_no_event() {
    paused(|| async {
        let scheduler = start(limited("1 requests / 1h"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let mut events = handle.events();
        {
            let mut waiting = Box::pin(handle.acquire(MAILBOX, ONE, Lane::Foreground));
            assert!(futures::FutureExt::now_or_never(waiting.as_mut()).is_none());
            // In flight: the permit lies in the channel, and nobody has looked.
            let mut asked = 0;
            while handle.mailbox(MAILBOX).await.expect("facts").in_flight != [1, 0] {
                asked += 1;
                assert!(asked < 100, "it is never granted");
            }
        }
        let again = handle.try_acquire(MAILBOX, ONE, Lane::Foreground).await.expect("an answer");
        let TryAcquire::Granted(permit) = again else { panic!("its charge stayed: {again:?}") };
        permit.settle(Verdict::Accepted);
        while let Some(Some(Ok(event))) = futures::FutureExt::now_or_never(events.next()) {
            assert!(!matches!(event.kind, EventKind::PermitAbandoned { .. }), "nobody had it to abandon it");
        }
    });
}

#[test]
fn a_throttled_permit_opens_the_breaker_for_every_send() {
    paused(|| async {
        let transport = Scripted::accepting().begin();
        let scheduler = start(unlimited(), transport.clone()).await;
        let handle = scheduler.handle();
        let permit = handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("room");
        permit.settle(throttled(Some(Duration::from_secs(30))));
        let ticket = handle.submit(foreground("after")).await.expect("taken in");
        let _ = ticket.outcome().await;
        assert!(transport.instants()[0] >= Duration::from_secs(30), "{:?}", transport.instants());
    });
}

#[test]
fn a_permit_request_is_judged_like_a_submission() {
    paused(|| async {
        let scheduler = start(unlimited(), Scripted::accepting()).await;
        let error = scheduler.handle().acquire("a\nb", ONE, Lane::Foreground).await.expect_err("a line break");
        assert!(matches!(error, PermitError::Invalid(_)), "{error}");
        assert!(!error.is_retryable());
    });
}

#[test]
fn permits_that_were_not_used_or_not_settled_say_nothing_of_the_provider() {
    paused(|| async {
        let scheduler = start(limited("100 requests / 1h"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        for _ in 0..20 {
            handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("room").give_back();
            drop(handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("room"));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let open = handle.breakers().await.expect("facts");
        assert!(open.is_empty(), "{open:?}");
        let granted = handle.try_acquire(MAILBOX, ONE, Lane::Foreground).await.expect("an answer");
        assert!(matches!(granted, TryAcquire::Granted(_)), "{granted:?}");
    });
}
