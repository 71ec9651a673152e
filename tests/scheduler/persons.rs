//! What a person orders about one operation: quarantine, release, resolve, and cancelling what was set aside.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use mailweir::Outcome;
use mailweir::engine::mailbox::Refusal;
use mailweir::engine::operation::QuarantineCause;
use mailweir::engine::policy::DuplicatePolicy;
use mailweir::engine::{OperationState, Resolution, Sent, Timestamp};
use mailweir::scheduler::{AskError, Events, Order, OrderAnswer, SchedulerHandle};
use mailweir::store::{OperationRecord, SqliteStore};
use mailweir::submission::InvalidSubmission;
use mailweir::telemetry::EventKind;
use mailweir::transport::Verdict;
use tokio::time::sleep;

use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn order() -> Order {
    Order::new("a look").by("kim")
}

/// So many seconds after the tests' world begins.
fn in_a_while(seconds: u32) -> SystemTime {
    SystemTime::UNIX_EPOCH + START.since(Timestamp::EPOCH) + SECOND * seconds
}

async fn record(handle: &SchedulerHandle, id: &str) -> OperationRecord {
    handle.operation(id).await.expect("a store").expect("stored")
}

const fn done(state: OperationState) -> OrderAnswer {
    OrderAnswer::Done { state }
}

const QUARANTINED: OrderAnswer = done(OperationState::Quarantined);
const CANCELLED: OrderAnswer = done(OperationState::Cancelled);

/// What became of operations so far: set aside and why, or released.
fn moves(events: &mut Events) -> Vec<(String, Option<QuarantineCause>)> {
    let mut moves = Vec::new();
    while let Some(Some(Ok(event))) = events.next().now_or_never() {
        assert!(!format!("{event:?}").contains("kim"), "an operator's words are for people: {event:?}");
        match event.kind {
            EventKind::OperationQuarantined { operation_id: Some(id), reason, .. } => {
                moves.push((id.to_string(), Some(reason)));
            }
            EventKind::OperationReleased { operation_id: Some(id), .. } => moves.push((id.to_string(), None)),
            _ => {}
        }
    }
    moves
}

#[test]
fn what_a_person_sets_aside_is_not_sent_until_it_is_released_and_tells_who_did_it() {
    paused(|| async {
        let transport = Scripted::accepting();
        let scheduler = start(limited("1 requests / 1m"), transport.clone()).await;
        let handle = scheduler.handle();
        let mut events = handle.events();
        let [_sent, aside] = ["sent", "aside"].map(|id| handle.submit(foreground(id)));
        drop(_sent.await.expect("taken in"));
        let aside = aside.await.expect("taken in");
        assert_eq!(handle.quarantine("aside", order()).await.expect("an answer"), QUARANTINED);
        assert_eq!(aside.outcome().await, Ok(Outcome::Quarantined));
        sleep(HOUR).await;
        assert_eq!(transport.ids(), ["sent"]);
        let row = record(&handle, "aside").await;
        let note = row.order.expect("noted");
        assert_eq!(
            (row.state, &*note.reason, note.by.as_deref()),
            (OperationState::Quarantined, "a look", Some("kim"))
        );
        assert_eq!(
            handle.quarantine("aside", order()).await.expect("an answer"),
            OrderAnswer::TooLate { state: OperationState::Quarantined }
        );
        let released = handle.release("aside", Order::new("it was right")).await.expect("an answer");
        assert!(matches!(released, OrderAnswer::Done { .. }), "{released:?}");
        let outcome = handle.ticket("aside").await.expect("known").outcome().await;
        assert!(matches!(outcome, Ok(Outcome::Accepted { .. })), "{outcome:?}");
        let note = record(&handle, "aside").await.order.expect("noted");
        assert_eq!((&*note.reason, note.by.as_deref()), ("it was right", None), "the last order is told");
        let aside = || "aside".to_owned();
        assert_eq!(moves(&mut events), [(aside(), Some(QuarantineCause::Operator)), (aside(), None)]);
    });
}

#[test]
fn an_operation_whose_attempt_is_live_is_set_aside_when_that_has_ended_unless_it_was_accepted() {
    paused(|| async {
        let transport = Scripted::new(|attempt| {
            let failed = Verdict::Transient { sent: Sent::Maybe, retry_after: None };
            let verdict = if &*attempt.operation_id == "fails" { failed } else { Verdict::Accepted };
            async move {
                sleep(SECOND).await;
                verdict.into()
            }
        });
        let scheduler = start(unlimited(), transport.clone()).await;
        let handle = scheduler.handle();
        let requested = OrderAnswer::Requested { state: OperationState::Attempting };
        for (id, sabotage) in [("fails", true), ("works", false)] {
            let ticket = handle.submit(foreground(id)).await.expect("taken in");
            sleep(SECOND / 2).await;
            assert_eq!(handle.quarantine(id, order()).await.expect("an answer"), requested);
            if sabotage {
                // A rebuilt engine takes the attempt for unknown, and has to be told again.
                handle.sabotage(MAILBOX).await.expect("told");
            }
            let outcome = ticket.outcome().await.expect("an outcome");
            sleep(SECOND * 2).await;
            let row = record(&handle, id).await;
            if id == "fails" {
                assert_eq!((row.state, row.order.is_some()), (OperationState::Quarantined, true), "{outcome:?}");
            } else {
                assert_eq!((row.state, row.order), (OperationState::Accepted, None), "{outcome:?}");
            }
        }
        assert_eq!(transport.ids(), ["fails", "works"]);
    });
}

#[test]
fn releasing_what_is_not_quarantined_says_where_it_is_and_nothing_is_sent_twice() {
    paused(|| async {
        let transport = Scripted::slow(SECOND);
        let scheduler = start(unlimited(), transport.clone()).await;
        let handle = scheduler.handle();
        let error = handle.release("nobody", order()).await.expect_err("unknown");
        assert!(matches!(error, AskError::NoOperation { .. }), "{error}");
        let error = handle.release("nobody", order().expires_in(SECOND)).await.expect_err("an expiry");
        assert!(error.to_string().contains("expires_in"), "{error}");
        let later = foreground("one").not_before(in_a_while(10));
        drop(handle.submit(later).await.expect("taken in"));
        let waits = OrderAnswer::NotInState { state: OperationState::Admitted };
        assert_eq!(handle.release("one", order()).await.expect("an answer"), waits);
        assert_eq!(handle.quarantine("one", order()).await.expect("an answer"), QUARANTINED);
        sleep(HOUR).await;
        // Both have read the same row; the second one's has grown old.
        let (first, second) = futures::join!(handle.release("one", order()), handle.release("one", order()));
        assert!(matches!(first, Ok(OrderAnswer::Done { .. })), "{first:?}");
        assert!(matches!(second, Ok(OrderAnswer::NotInState { .. })), "{second:?}");
        sleep(SECOND * 5).await;
        let late = OrderAnswer::TooLate { state: OperationState::Accepted };
        assert_eq!(handle.release("one", order()).await.expect("an answer"), late);
        assert_eq!(handle.resolve("one", Resolution::Absent, order()).await.expect("an answer"), late);
        assert_eq!(transport.count(), 1);
    });
}

#[test]
fn a_release_after_the_deadline_is_refused_unless_it_brings_a_new_one() {
    paused(|| async {
        let transport = Scripted::accepting();
        let scheduler = start(limited("1 requests / 1h"), transport.clone()).await;
        let handle = scheduler.handle();
        drop(handle.submit(foreground("first")).await.expect("taken in"));
        drop(handle.submit(foreground("late").deadline(HOUR * 2)).await.expect("taken in"));
        assert_eq!(handle.quarantine("late", order()).await.expect("an answer"), QUARANTINED);
        sleep(HOUR * 3).await;
        for given in [order(), order().deadline(Duration::ZERO)] {
            let error = handle.release("late", given).await.expect_err("too late");
            assert!(error.to_string().contains("Order::deadline") && !error.is_retryable(), "{error}");
        }
        assert_eq!(record(&handle, "late").await.state, OperationState::Quarantined, "it stays where it was");
        let error = handle.release("late", order().deadline(HOUR * 24 * 30 + SECOND)).await.expect_err("too far");
        assert!(matches!(error, AskError::Invalid(InvalidSubmission::DeadlineTooFar { .. })), "{error}");
        let order = order().deadline(HOUR);
        assert!(matches!(handle.release("late", order.clone()).await, Ok(OrderAnswer::Done { .. })));
        let outcome = handle.ticket("late").await.expect("known").outcome().await;
        assert!(matches!(outcome, Ok(Outcome::Accepted { .. })), "{outcome:?}");
        let deadline = record(&handle, "late").await.deadline.since(START);
        assert!(deadline >= HOUR * 4 && deadline < HOUR * 4 + SECOND, "{deadline:?}");
        let error = handle.cancel("late", order).await.expect_err("a deadline");
        assert!(error.to_string().contains("deadline"), "{error}");
    });
}

#[test]
fn a_release_into_a_full_lane_is_refused_with_its_bound() {
    paused(|| async {
        let mut config = limited("1 requests / 1h");
        config.queue.foreground_max = 2;
        let scheduler = start(config, Scripted::accepting()).await;
        let handle = scheduler.handle();
        for id in ["sent", "aside", "waits", "fills"] {
            drop(handle.submit(foreground(id)).await.expect("taken in"));
            if id == "aside" {
                assert_eq!(handle.quarantine(id, order()).await.expect("an answer"), QUARANTINED);
            }
        }
        let error = handle.release("aside", order()).await.expect_err("no room");
        assert!(matches!(error, AskError::Refused(Refusal::QueueFull { depth_max: 2, .. })), "{error}");
        assert!(error.is_retryable());
    });
}

/// A scheduler with one operation of which nobody knows whether it was sent, and no look-up that could tell.
async fn unknown(duplicates: DuplicatePolicy) -> (mailweir::Scheduler, Scripted) {
    let mut config = unlimited();
    config.retry.duplicates = duplicates;
    let transport = Scripted::new(|attempt| {
        let verdict = if attempt.number == 1 { Verdict::Unknown } else { Verdict::Accepted };
        async move { verdict.into() }
    });
    let scheduler = start(config, transport.clone()).await;
    let ticket = scheduler.handle().submit(foreground("one")).await.expect("taken in");
    assert_eq!(ticket.outcome().await, Ok(Outcome::Unknown));
    (scheduler, transport)
}

#[test]
fn an_unknown_is_settled_by_a_person_at_once() {
    paused(|| async {
        let accepted = done(OperationState::Accepted);
        let cases = [
            (Resolution::Accepted, DuplicatePolicy::AtMostOnce, accepted, 1),
            (Resolution::Accepted, DuplicatePolicy::AtLeastOnce, accepted, 1),
            (Resolution::Absent, DuplicatePolicy::AtMostOnce, QUARANTINED, 1),
            (Resolution::Absent, DuplicatePolicy::AtLeastOnce, done(OperationState::Deferred), 2),
        ];
        for (resolution, duplicates, expected, sends) in cases {
            let (scheduler, transport) = unknown(duplicates).await;
            let handle = scheduler.handle();
            assert_eq!(handle.resolve("one", resolution, order()).await.expect("an answer"), expected);
            sleep(SECOND * 30).await;
            assert_eq!(transport.count(), sends, "{resolution:?}, {duplicates:?}");
            let row = record(&handle, "one").await;
            assert_eq!(&*row.order.expect("noted").reason, "a look");
            if expected == QUARANTINED {
                // A person who is sure of it has it sent, whatever the policy says.
                assert!(handle.release("one", order()).await.is_ok());
                sleep(SECOND).await;
                assert_eq!((transport.count(), record(&handle, "one").await.state), (2, OperationState::Accepted));
            }
        }
    });
}

#[test]
fn an_unknown_is_set_aside_at_once_and_its_cancellation_waits() {
    paused(|| async {
        let (scheduler, transport) = unknown(DuplicatePolicy::AtMostOnce).await;
        let handle = scheduler.handle();
        let requested = OrderAnswer::Requested { state: OperationState::Unknown };
        assert_eq!(handle.cancel("one", order()).await.expect("an answer"), requested);
        assert_eq!(handle.quarantine("one", order()).await.expect("an answer"), QUARANTINED);
        assert_eq!(handle.cancel("one", order()).await.expect("an answer"), CANCELLED);
        assert_eq!(
            handle.release("one", order()).await.expect("an answer"),
            OrderAnswer::TooLate { state: OperationState::Cancelled }
        );
        sleep(HOUR).await;
        assert_eq!(transport.count(), 1);
    });
}

#[test]
fn a_quarantined_operation_is_found_again_after_its_mailbox_was_passivated() {
    paused(|| async {
        let mut config = unlimited();
        config.actors.passivate_after = SECOND * 5;
        let transport = Scripted::accepting();
        let scheduler = start(config, transport.clone()).await;
        let handle = scheduler.handle();
        for id in ["one", "two"] {
            drop(handle.submit(foreground(id).not_before(in_a_while(2))).await.expect("taken in"));
            assert_eq!(handle.quarantine(id, order()).await.expect("an answer"), QUARANTINED);
        }
        sleep(SECOND * 60).await;
        assert!(handle.mailboxes().await.is_empty(), "the actor is gone");
        assert!(matches!(handle.release("one", order()).await, Ok(OrderAnswer::Done { .. })));
        assert_eq!(handle.cancel("two", order()).await.expect("an answer"), CANCELLED);
        sleep(SECOND * 60).await;
        assert_eq!(transport.ids(), ["one"]);
    });
}

#[test]
fn an_attempt_that_is_still_out_for_a_rebuilt_engine_is_waited_for() {
    paused(|| async {
        let transport = Scripted::slow(SECOND * 10);
        let scheduler = start(unlimited(), transport.clone()).await;
        let handle = scheduler.handle();
        let ticket = handle.submit(foreground("one")).await.expect("taken in");
        sleep(SECOND).await;
        handle.sabotage(MAILBOX).await.expect("told");
        drop(handle.submit(foreground("two")).await.expect("taken in"));
        sleep(SECOND).await;
        assert_eq!(record(&handle, "one").await.state, OperationState::Unknown);
        let out = OrderAnswer::NotInState { state: OperationState::Attempting };
        assert_eq!(handle.quarantine("one", order()).await.expect("an answer"), out);
        assert_eq!(handle.resolve("one", Resolution::Absent, order()).await.expect("an answer"), out);
        assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
        assert_eq!(transport.count(), 2);
    });
}

/// A life of the scheduler over a file on disk, on the tests' clock. Accepts what has the bytes of `one`.
async fn life(path: &std::path::Path) -> (mailweir::Scheduler, Arc<SqliteStore>, Scripted) {
    let store = Arc::new(SqliteStore::open(path).expect("a file"));
    let transport = Scripted::new(|attempt| {
        let ours = attempt.email == email_of("one");
        async move { if ours { Verdict::Accepted } else { Verdict::Unknown }.into() }
    });
    let scheduler = builder(unlimited(), transport.clone()).store(Arc::clone(&store));
    (scheduler.start().await.expect("the scheduler starts"), store, transport)
}

#[test]
fn a_quarantined_operation_of_an_earlier_life_is_released_from_disk_with_its_own_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("outbox.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let (scheduler, store, _) = life(&path).await;
        let handle = scheduler.handle();
        let later = mailweir::Submission::new(MAILBOX, email_of("one")).operation_id("one").not_before(in_a_while(600));
        drop(handle.submit(later.deadline(HOUR)).await.expect("taken in"));
        assert_eq!(handle.quarantine("one", order()).await.expect("an answer"), QUARANTINED);
        let _ = scheduler.shutdown().await;
        store.close().await.expect("closed");
        let (scheduler, store, _) = life(&path).await;
        let handle = scheduler.handle();
        let before = record(&handle, "one").await;
        let note = before.order.expect("noted");
        assert_eq!(
            (before.state, &*note.reason, note.by.as_deref()),
            (OperationState::Quarantined, "a look", Some("kim"))
        );
        let answer = handle.release("one", Order::new("go on").deadline(HOUR * 2)).await.expect("an answer");
        assert_eq!(answer, done(OperationState::Queued), "it waits for its own instant");
        let _ = scheduler.shutdown().await;
        store.close().await.expect("closed");
        let (scheduler, store, transport) = life(&path).await;
        let handle = scheduler.handle();
        let after = record(&handle, "one").await;
        assert_eq!((after.state, &*after.order.expect("noted").reason), (OperationState::Queued, "go on"));
        assert!(after.deadline.since(before.deadline) > HOUR / 2, "{} {}", before.deadline, after.deadline);
        assert_eq!(transport.count(), 0);
        let _ = scheduler.shutdown().await;
        store.close().await.expect("closed");
    });
}

#[test]
fn what_is_released_on_disk_is_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("outbox.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let (scheduler, store, transport) = life(&path).await;
        let handle = scheduler.handle();
        let lost = handle.submit(foreground("one")).await.expect("taken in");
        assert_eq!(lost.outcome().await, Ok(Outcome::Unknown), "its bytes are others");
        assert_eq!(handle.quarantine("one", order()).await.expect("an answer"), QUARANTINED);
        assert!(matches!(handle.release("one", order()).await, Ok(OrderAnswer::Done { .. })));
        // The answer to the release comes when it is written, and by then the attempt may have ended.
        while transport.count() < 2 || record(&handle, "one").await.state != OperationState::Unknown {
            tokio::task::yield_now().await;
        }
        assert_eq!(transport.count(), 2, "the same bytes again");
        let _ = scheduler.shutdown().await;
        store.close().await.expect("closed");
    });
}
