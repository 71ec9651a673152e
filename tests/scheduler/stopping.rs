//! Shutdown, drop, and starting again over the same store.

use std::time::Duration;

use mailweir::clock::{Clock, TokioClock};
use mailweir::engine::{OperationState, ScopeKind, Throttle, ThrottleKind, Timestamp};
use mailweir::scheduler::{StartError, TicketError};
use mailweir::store::{MemoryStore, NoteKind, Store};
use mailweir::transport::Verdict;
use mailweir::{Config, Outcome, Scheduler, SubmitError};

use crate::faulty::Faulty;
use crate::support::*;

#[test]
fn shutdown_ends_what_is_in_flight_and_leaves_the_rest_in_the_store() {
    paused(|| async {
        let transport = Scripted::slow(Duration::from_secs(3));
        let mut config = unlimited();
        config.mailbox.concurrency = 2.try_into().ok();
        let store = MemoryStore::new();
        let built = builder(config.clone(), transport.clone()).store(store.clone());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        let mut tickets = Vec::new();
        for n in 0..5 {
            tickets.push(handle.submit(foreground(&format!("op-{n}"))).await.expect("taken in"));
        }
        let report = scheduler.shutdown().await;
        assert_eq!((report.accepted, report.returned, report.unknown), (2, 3, 0));
        let late = handle.submit(foreground("late")).await.expect_err("closed");
        assert!(matches!(late, SubmitError::ShuttingDown { .. }), "{late}");
        assert_eq!(late.into_submission(), Some(foreground("late")));
        let mut interrupted = 0;
        for ticket in tickets {
            let id = ticket.operation_id();
            match ticket.outcome().await {
                Ok(outcome) => assert!(matches!(outcome, Outcome::Accepted { .. })),
                Err(error) => {
                    assert_eq!(error, TicketError::Interrupted { operation_id: id.clone() });
                    assert!(error.to_string().contains(&*id));
                    interrupted += 1;
                }
            }
        }
        assert_eq!((interrupted, transport.count()), (3, 2));

        let again = builder(config, transport.clone()).store(store).start_on_current_thread().await.expect("starts");
        let handle = again.handle();
        for n in 0..5 {
            let ticket = handle.ticket(&format!("op-{n}")).await.expect("known");
            assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })), "op-{n}");
        }
        assert_eq!(transport.count(), 5, "nothing was sent twice");
        // Keys go on above those of the first life.
        let next = handle.submit(foreground("next")).await.expect("taken in");
        assert!(matches!(next.outcome().await, Ok(Outcome::Accepted { .. })));
        let (old, new) = (handle.operation("op-4").await, handle.operation("next").await);
        assert!(new.expect("a store").expect("stored").key > old.expect("a store").expect("stored").key);
    });
}

#[test]
fn attempts_that_outlast_the_drain_are_counted_as_unknown() {
    paused(|| async {
        let mut config = unlimited();
        config.shutdown.drain_deadline = Duration::from_secs(10);
        let store = MemoryStore::new();
        let transport = Scripted::slow(Duration::from_secs(50));
        let built = builder(config.clone(), transport.clone()).store(store.clone());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        let ticket = scheduler.handle().submit(foreground("slow")).await.expect("taken in");
        let clock = TokioClock::starting_at(START);
        let report = scheduler.shutdown().await;
        assert_eq!((report.accepted, report.returned, report.unknown), (0, 0, 1));
        assert!(clock.now() < START.after(Duration::from_secs(11)));
        assert_eq!(ticket.outcome().await, Ok(Outcome::Unknown));

        let built = builder(config, transport.clone()).store(store);
        let again = built.start_on_current_thread().await.expect("starts");
        let record = again.handle().operation("slow").await.expect("a store").expect("stored");
        assert_eq!(record.state, OperationState::Unknown, "an attempt that is given up is unknown");
        assert_eq!(transport.count(), 1, "and it is not repeated");
    });
}

#[test]
fn dropping_the_scheduler_stops_it_and_everything_is_refused() {
    paused(|| async {
        let scheduler = start(limited("1 requests / 1h"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let sent = handle.submit(submission("sent")).await.expect("taken in");
        assert!(matches!(sent.outcome().await, Ok(Outcome::Accepted { .. })));
        let waits = handle.submit(submission("waits")).await.expect("taken in");
        drop(scheduler);
        assert!(matches!(waits.outcome().await, Err(TicketError::Interrupted { .. })));
        assert!(matches!(handle.submit(submission("late")).await, Err(SubmitError::ShuttingDown { .. })));
        assert!(handle.mailbox(MAILBOX).await.is_err());
    });
}

#[test]
fn a_ledger_survives_a_restart_over_the_same_store() {
    paused(|| async {
        let (store, transport) = (MemoryStore::new(), Scripted::accepting().begin());
        let config = limited("2 requests / 1m");
        let clock = std::sync::Arc::new(TokioClock::starting_at(START));
        for id in ["one", "two", "three"] {
            let built = Scheduler::builder(config.clone(), transport.clone()).clock(clock.clone());
            let scheduler = built.store(store.clone()).start_on_current_thread().await.expect("starts");
            let ticket = scheduler.handle().submit(foreground(id)).await.expect("taken in");
            assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
            scheduler.shutdown().await;
        }
        let instants = transport.instants();
        assert!(instants[2] - instants[0] >= Duration::from_secs(60), "a restart grants no window: {instants:?}");
    });
}

#[test]
fn starting_outside_a_runtime_is_an_error_and_no_panic() {
    let start = Scheduler::builder(Config::default(), Scripted::accepting()).start();
    let started = futures::FutureExt::now_or_never(start).expect("it need not wait to see that");
    let error = started.expect_err("there is no runtime");
    assert!(matches!(error, StartError::NoRuntime), "{error}");
    assert!(!error.is_retryable());
}

#[test]
fn starting_in_a_runtime_without_a_timer_is_an_error_and_no_panic() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let start = Scheduler::builder(Config::default(), Scripted::accepting()).start();
    let error = runtime.block_on(start).expect_err("there is no timer");
    assert!(matches!(error, StartError::NoTimer), "{error}");
}

#[test]
fn the_shared_ledger_survives_a_restart_over_the_same_store() {
    paused(|| async {
        let (store, transport) = (MemoryStore::new(), Scripted::accepting().begin());
        let config = unlimited().application_limits(["2 requests / 1m".parse().expect("a limit")]);
        let clock = std::sync::Arc::new(TokioClock::starting_at(START));
        for id in ["one", "two", "three"] {
            let built = Scheduler::builder(config.clone(), transport.clone()).clock(clock.clone());
            let scheduler = built.store(store.clone()).start_on_current_thread().await.expect("starts");
            let from = mailweir::Submission::new(format!("{id}@example.org"), email());
            let ticket = scheduler.handle().submit(from).await.expect("taken in");
            assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
            scheduler.shutdown().await;
        }
        let instants = transport.instants();
        assert!(instants[2] - instants[0] >= Duration::from_secs(60), "a restart grants no window: {instants:?}");
    });
}

/// Stops in the middle of an attempt that meets a throttle of the whole application, over a store that keeps notes after
/// `keeping`: how long the shutdown took, and whether the cooldown was in the store then.
async fn stopped_in_a_throttle(keeping: Duration) -> (Duration, bool) {
    let store = Faulty::default();
    let transport = Scripted::new(|_| async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let retry_after = Some(Duration::from_secs(600));
        let throttle = Throttle { retry_after, scope: Some(ScopeKind::Application), kind: ThrottleKind::Rate };
        Verdict::Throttled(throttle).into()
    });
    let mut config = unlimited();
    config.shutdown.drain_deadline = Duration::from_secs(5);
    let scheduler = builder(config, transport).store(store.clone()).start_on_current_thread().await.expect("starts");
    drop(scheduler.handle().submit(foreground("one")).await.expect("taken in"));
    store.faults().keeping = Some(keeping);
    let clock = TokioClock::starting_at(START);
    let report = scheduler.shutdown().await;
    assert_eq!((report.accepted, report.returned, report.unknown), (0, 1, 0));
    let kept = store.recover(Timestamp::EPOCH, None).await.expect("a store").notes;
    (clock.now().since(START), kept.iter().any(|note| note.key.kind == NoteKind::Breaker))
}

#[test]
fn a_shutdown_leaves_a_cooldown_of_the_application_in_the_store() {
    paused(|| async {
        let (took, kept) = stopped_in_a_throttle(Duration::from_millis(500)).await;
        assert!(kept, "the next process would send into it");
        assert!(took < Duration::from_secs(4), "{took:?}");
    });
}

#[test]
fn a_shutdown_waits_a_second_beyond_its_deadline_at_most_for_what_the_shared_scopes_write() {
    paused(|| async {
        let (took, kept) = stopped_in_a_throttle(Duration::from_secs(3_600)).await;
        assert!(!kept && took <= Duration::from_millis(6_010), "{took:?}");
    });
}
