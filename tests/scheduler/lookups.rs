//! A record is old as soon as it is read, and what it says is not done again.

use std::time::Duration;

use mailweir::engine::OperationState;
use mailweir::scheduler::{Order, OrderAnswer};
use mailweir::{Outcome, Scheduler, SubmitError};
use tokio::time::{sleep, timeout};

use crate::faulty::{Faulty, out_of_reach};
use crate::support::*;

const LATE: Duration = Duration::from_millis(20);

async fn start_over(store: &Faulty, config: mailweir::Config, transport: &Scripted) -> Scheduler {
    builder(config, transport.clone()).store(store.clone()).start_on_current_thread().await.expect("starts")
}

/// The insert is answered at 20 ms, the claim at 40; the attempt ends at 65.
fn accepted_after_25_ms() -> Scripted {
    Scripted::slow(Duration::from_millis(25))
}

#[test]
fn a_ticket_asked_for_while_the_attempt_ends_tells_how_it_ended() {
    // The record was read before the attempt ended and came when the desk had forgotten it: the operation was queued
    // again, the store refused its claim, and the ticket of an accepted email said "cancelled".
    paused(|| async {
        let (store, transport) = (Faulty::late(LATE), accepted_after_25_ms());
        let scheduler = start_over(&store, unlimited(), &transport).await;
        let handle = scheduler.handle();
        let first = handle.submit(foreground("one")).await.expect("stored");
        sleep(Duration::from_millis(30)).await;
        let second = handle.ticket("one").await.expect("known");
        for ticket in [first, second] {
            let outcome = timeout(Duration::from_secs(1), ticket.outcome()).await.expect("soon");
            assert!(matches!(outcome, Ok(Outcome::Accepted { .. })), "{outcome:?}");
        }
        assert_eq!(transport.count(), 1);
    });
}

#[test]
fn a_submission_repeated_while_the_attempt_ends_is_told_how_it_ended() {
    paused(|| async {
        let (store, transport) = (Faulty::late(LATE), accepted_after_25_ms());
        let scheduler = start_over(&store, unlimited(), &transport).await;
        let handle = scheduler.handle();
        let first = handle.submit(foreground("one")).await.expect("stored");
        sleep(Duration::from_millis(30)).await;
        let again = handle.submit(foreground("one")).await.expect("the same one");
        for ticket in [first, again] {
            let outcome = timeout(Duration::from_secs(1), ticket.outcome()).await.expect("soon");
            assert!(matches!(outcome, Ok(Outcome::Accepted { .. })), "{outcome:?}");
        }
        assert_eq!(transport.count(), 1);
    });
}

#[test]
fn a_ticket_asked_for_while_the_operation_is_cancelled_does_not_queue_it_again() {
    paused(|| async {
        let (store, transport) = (Faulty::late(LATE), Scripted::accepting());
        let scheduler = start_over(&store, limited("1 requests / 1h"), &transport).await;
        let handle = scheduler.handle();
        let first = handle.submit(foreground("one")).await.expect("stored");
        assert!(matches!(first.outcome().await, Ok(Outcome::Accepted { .. })));
        let waits = handle.submit(foreground("two")).await.expect("stored");
        sleep(Duration::from_millis(100)).await;
        let (cancelled, ticket) = futures::join!(handle.cancel("two", Order::new("a test")), handle.ticket("two"));
        assert!(matches!(cancelled, Ok(OrderAnswer::Done { state: OperationState::Cancelled })), "{cancelled:?}");
        for ticket in [waits, ticket.expect("known")] {
            let outcome = timeout(Duration::from_secs(1), ticket.outcome()).await.expect("at once");
            assert_eq!(outcome, Ok(Outcome::Cancelled { maybe_sent: false }));
        }
        sleep(Duration::from_secs(7_200)).await;
        assert_eq!(transport.count(), 1);
    });
}

#[test]
fn an_insert_whose_answer_was_lost_is_taken_up_when_it_is_repeated() {
    paused(|| async {
        let (store, transport) = (Faulty::late(LATE), Scripted::accepting());
        let scheduler = start_over(&store, unlimited(), &transport).await;
        let handle = scheduler.handle();
        store.faults().inserted = Some(out_of_reach());
        let error = handle.submit(foreground("one")).await.expect_err("the answer was lost");
        assert!(matches!(error, SubmitError::Store { .. }), "{error}");
        let again = error.into_submission().expect("handed back");
        let tickets = handle.submit_many([again.clone(), again]).await;
        for ticket in tickets {
            let outcome = timeout(Duration::from_secs(1), ticket.expect("the same one").outcome()).await.expect("soon");
            assert!(matches!(outcome, Ok(Outcome::Accepted { .. })), "{outcome:?}");
        }
        assert_eq!(transport.count(), 1);
        let record = handle.operation("one").await.expect("a store").expect("stored");
        assert_eq!(record.state, OperationState::Accepted);
    });
}
