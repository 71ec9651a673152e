//! A store that leaves its caller in doubt, and a word that is kept back until it is true.
//!
//! Each test pins a fault that the enumeration of crash points (`tests/crash_points`) found.

use std::time::Duration;

use mailweir::engine::OperationState;
use mailweir::scheduler::{Order, OrderAnswer};
use mailweir::{Outcome, SubmitError};
use tokio::time::{sleep, timeout};

use crate::faulty::{Faulty, out_of_reach};
use crate::support::*;

/// The look finds it, and the insert does not: only then does a repeat come on top of a full queue, and by one.
#[test]
fn a_repeat_of_what_is_forgotten_under_it_is_one_more_than_a_full_lane_holds_and_the_only_one() {
    paused(|| async {
        let mut config = limited("1 requests / 1h");
        config.queue.background_max = 2;
        let (store, transport) = (Faulty::default(), Scripted::accepting());
        let built = builder(config, transport.clone()).store(store.clone());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        drop(handle.submit(submission("ended")).await.expect("stored"));
        sleep(Duration::from_secs(1)).await;
        let ended = handle.operation("ended").await.expect("a store").expect("stored");
        for id in ["one", "two"] {
            drop(handle.submit(submission(id)).await.expect("room"));
        }
        // What is known needs no room.
        drop(handle.submit(submission("ended")).await.expect("the same operation"));
        let refused = async |id: &str| {
            let error = handle.submit(submission(id)).await.expect_err("no room");
            assert!(matches!(error, SubmitError::Refused { .. }), "{error}");
        };
        refused("new").await;
        store.faults().forgets = Some(mailweir::store::OperationRecord { id: "gone".into(), ..ended });
        let again = handle.submit(submission("gone")).await.expect("the look had found it");
        for id in ["new", "gone too"] {
            refused(id).await;
        }
        let live = handle.counts().await.expect("a store");
        assert_eq!(live.iter().sum::<u64>(), 4, "ended, two that wait, and one more: {live:?}");
        // It is an operation like any other.
        assert!(matches!(again.outcome().await, Ok(Outcome::Accepted { .. })));
        assert_eq!(transport.ids(), ["ended", "one", "two", "gone"]);
    });
}

#[test]
fn a_cancellation_is_confirmed_when_it_is_written_and_not_before() {
    // It was confirmed at once; a crash before the commit then sent what its caller believed to be cancelled.
    paused(|| async {
        let (store, transport) = (Faulty::default(), Scripted::slow(Duration::from_secs(10)));
        let built = builder(limited("1 requests / 1h"), transport.clone()).store(store.clone());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        drop(handle.submit(foreground("first")).await.expect("stored"));
        let ticket = handle.submit(foreground("second")).await.expect("stored");
        store.faults().record = Some(out_of_reach());
        let cancelling = tokio::spawn({
            let handle = handle.clone();
            async move { handle.cancel("second", Order::new("not needed")).await }
        });
        let outcome = tokio::spawn(ticket.outcome());
        sleep(Duration::from_secs(60)).await;
        assert!(!cancelling.is_finished() && !outcome.is_finished(), "nobody is told what is not written");
        store.faults().record = None;
        let answer = timeout(Duration::from_secs(5), cancelling).await.expect("soon").expect("no panic");
        assert!(matches!(answer, Ok(OrderAnswer::Done { state: OperationState::Cancelled })), "{answer:?}");
        assert!(matches!(outcome.await.expect("no panic"), Ok(Outcome::Cancelled { maybe_sent: false })));
        assert_eq!(transport.count(), 1);
    });
}

#[test]
fn an_operation_whose_insert_was_in_doubt_comes_to_its_end_although_nobody_submits_it_again() {
    // Its row stayed queued until the next start, for nobody knew of it.
    paused(|| async {
        let (store, transport) = (Faulty::default(), Scripted::accepting());
        let built = builder(unlimited(), transport.clone()).store(store.clone());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        store.faults().inserted = Some(out_of_reach());
        let told = scheduler.handle().submit(foreground("one")).await;
        assert!(matches!(told, Err(SubmitError::Store { .. })), "{told:?}");
        sleep(Duration::from_secs(5)).await;
        let row = scheduler.handle().operation("one").await.expect("a store").expect("it was stored");
        assert_eq!((row.state, transport.count()), (OperationState::Accepted, 1));
        // Whoever submits it again meets the same operation.
        let again = scheduler.handle().submit(foreground("one")).await.expect("the same one");
        assert!(matches!(again.outcome().await, Ok(Outcome::Accepted { .. })));
        assert_eq!(transport.count(), 1);
    });
}

#[test]
fn an_operation_whose_claim_was_in_doubt_ends_in_the_store_as_it_did_for_its_caller() {
    // The row said "attempting", from where no end was listed: it stayed there until the next start made it unknown.
    paused(|| async {
        let (store, transport) = (Faulty::default(), Scripted::accepting());
        let built = builder(unlimited(), transport.clone()).store(store.clone());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        for (id, is_written) in [("written", true), ("not-written", false)] {
            if is_written {
                store.faults().claimed = Some(out_of_reach());
            } else {
                store.faults().claim = Some(out_of_reach());
            }
            let ticket = handle.submit(foreground(id)).await.expect("stored");
            let answer = handle.cancel(id, Order::new("not needed")).await;
            assert!(matches!(answer, Ok(OrderAnswer::Done { .. })), "{id}: {answer:?}");
            assert!(matches!(ticket.outcome().await, Ok(Outcome::Cancelled { maybe_sent: false })));
            let row = handle.operation(id).await.expect("a store").expect("it was stored");
            assert_eq!(row.state, OperationState::Cancelled, "{id}");
        }
        assert_eq!(transport.count(), 0);
    });
}

#[test]
fn an_admission_key_stays_taken_until_it_is_known_whether_its_insert_was_done() {
    // The key was free at once: a second click while the first one was stored all the same sent a second email.
    paused(|| async {
        for is_stored in [true, false] {
            let (store, transport) = (Faulty::default(), Scripted::accepting());
            let built = builder(unlimited(), transport.clone()).store(store.clone());
            let scheduler = built.start_on_current_thread().await.expect("starts");
            let handle = scheduler.handle();
            let click = |id: &str| foreground(id).admission_key("reset:kim", Duration::from_secs(600));
            if is_stored {
                store.faults().inserted = Some(out_of_reach());
            } else {
                store.faults().insert = Some(out_of_reach());
            }
            store.faults().operation = Some(out_of_reach());
            let told = handle.submit(click("first")).await;
            assert!(matches!(told, Err(SubmitError::Store { .. })), "{told:?}");
            let clicks: Vec<_> = ["second", "third"]
                .map(|id| {
                    let (handle, click) = (handle.clone(), click(id));
                    tokio::spawn(async move { handle.submit(click).await })
                })
                .into();
            sleep(Duration::from_secs(30)).await;
            assert_eq!(transport.count(), 0, "nobody knows yet");
            assert!(clicks.iter().all(|click| !click.is_finished()));
            store.faults().operation = None;
            for click in clicks {
                let ticket = timeout(Duration::from_secs(5), click).await.expect("soon").expect("no panic");
                let outcome = ticket.expect("one operation").outcome().await;
                assert!(matches!(outcome, Ok(Outcome::Accepted { .. })), "{outcome:?}");
            }
            assert_eq!(transport.ids(), [if is_stored { "first" } else { "second" }]);
            let late = handle.submit(click("fourth")).await.expect("the same one");
            assert!(matches!(late.outcome().await, Ok(Outcome::Accepted { .. })));
            assert_eq!(transport.count(), 1);
        }
    });
}
