//! Deadlines that pass while the store is away, and mailboxes that have no engine for it.

use std::time::Duration;

use mailweir::clock::{Clock, TokioClock};
use mailweir::engine::OperationState;
use mailweir::engine::mailbox::Outcome;
use mailweir::scheduler::{HoldScope, Order, SchedulerHandle, Ticket};
use mailweir::store::{Store, StoreError};
use mailweir::transport::Verdict;
use mailweir::{Config, Scheduler};
use tokio::time::{sleep, timeout};

use crate::faulty::{Faulty, out_of_reach};
use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

const UNSENT: Outcome = Outcome::Exhausted { attempts: 0, throttled: None, maybe_sent: false };
const MAYBE_SENT: Outcome = Outcome::Exhausted { attempts: 0, throttled: None, maybe_sent: true };

async fn start_over(store: &Faulty, config: Config, transport: &Scripted) -> Scheduler {
    builder(config, transport.clone()).store(store.clone()).start_on_current_thread().await.expect("starts")
}

async fn submit(handle: &SchedulerHandle, id: &str, deadline: Duration) -> Ticket {
    handle.submit(foreground(id).deadline(deadline)).await.expect("taken in")
}

/// What the store has of it.
async fn stored(store: &Faulty, id: &str) -> (OperationState, bool) {
    let record = store.operation(id).await.expect("a store").expect("stored");
    (record.state, record.maybe_sent)
}

/// Waits for a ticket until a second after `deadline`, and says that it was not told before.
async fn told(ticket: Ticket, begun: &TokioClock, deadline: Duration) -> Outcome {
    let elapsed = || begun.now().since(START);
    let left = deadline.saturating_sub(elapsed()) + SECOND * 2;
    let outcome = timeout(left, ticket.outcome()).await.expect("in time").expect("an outcome");
    assert!(elapsed() >= deadline, "{:?} of {deadline:?}", elapsed());
    outcome
}

async fn mend(handle: &SchedulerHandle) {
    handle.resume(HoldScope::Mailbox(MAILBOX.into()), Order::new("mended")).await.expect("told");
}

#[test]
fn a_mailbox_held_for_its_store_tells_at_the_deadline_and_writes_it_when_it_is_resumed() {
    paused(|| async {
        let (store, transport) = (Faulty::default(), Scripted::slow(SECOND));
        let scheduler = start_over(&store, limited("1 requests / 1h"), &transport).await;
        let (handle, begun) = (scheduler.handle(), TokioClock::starting_at(START));
        let sent = submit(&handle, "sent", HOUR).await;
        let [waits, later] = [submit(&handle, "waits", MINUTE * 10).await, submit(&handle, "later", HOUR * 9).await];
        store.faults().record = Some(StoreError::Damaged { reason: "a test".to_owned() });
        assert!(matches!(sent.outcome().await, Ok(Outcome::Accepted { .. })));
        sleep(SECOND).await;
        assert!(handle.mailbox(MAILBOX).await.is_err(), "it is held");
        assert_eq!(told(waits, &begun, MINUTE * 10).await, UNSENT);
        assert_eq!(stored(&store, "waits").await, (OperationState::Queued, false), "the store is away");
        sleep(HOUR * 3).await;
        assert_eq!(transport.ids(), ["sent"]);
        store.faults().record = None;
        mend(&handle).await;
        assert!(matches!(later.outcome().await, Ok(Outcome::Accepted { .. })), "what has time goes");
        assert_eq!(stored(&store, "waits").await, (OperationState::Exhausted, false));
        assert_eq!(transport.ids(), ["sent", "later"], "nothing after its deadline");
    });
}

#[test]
fn a_mailbox_whose_engine_cannot_be_rebuilt_tells_at_the_deadline() {
    paused(|| async {
        let (store, transport) = (Faulty::default(), Scripted::slow(SECOND));
        let scheduler = start_over(&store, limited("1 requests / 1h"), &transport).await;
        let (handle, begun) = (scheduler.handle(), TokioClock::starting_at(START));
        drop(submit(&handle, "sent", HOUR).await);
        let waits = submit(&handle, "waits", MINUTE * 10).await;
        sleep(SECOND * 2).await;
        store.faults().recover = Some(out_of_reach());
        handle.sabotage(MAILBOX).await.expect("told");
        drop(submit(&handle, "panics", HOUR * 9).await);
        assert_eq!(told(waits, &begun, MINUTE * 10).await, UNSENT);
        // Back before the window has room again: nothing of it is sent then.
        store.faults().recover = None;
        sleep(MINUTE * 30).await;
        assert_eq!(stored(&store, "waits").await, (OperationState::Exhausted, false));
        sleep(HOUR * 3).await;
        assert_eq!(transport.ids(), ["sent", "panics"]);
    });
}

#[test]
fn a_live_engine_whose_records_are_not_taken_has_its_ends_told_at_the_deadline() {
    paused(|| async {
        let (store, transport) = (Faulty::default(), Scripted::slow(SECOND));
        let scheduler = start_over(&store, limited("1 requests / 1h"), &transport).await;
        let (handle, begun) = (scheduler.handle(), TokioClock::starting_at(START));
        drop(submit(&handle, "sent", HOUR).await);
        let [waits, stopped] =
            [submit(&handle, "waits", MINUTE * 10).await, submit(&handle, "stopped", HOUR * 2).await];
        sleep(SECOND * 2).await;
        store.faults().record = Some(out_of_reach());
        // Cancelled, but not written: it is not told before a crash could not undo it.
        let cancelled = tokio::task::spawn_local({
            let handle = handle.clone();
            async move { handle.cancel("stopped", Order::new("a test")).await }
        });
        assert_eq!(told(waits, &begun, MINUTE * 10).await, UNSENT);
        assert!(!cancelled.is_finished(), "an order is confirmed when it is written");
        assert_eq!(told(stopped, &begun, HOUR * 2).await, Outcome::Cancelled { maybe_sent: false });
        for id in ["waits", "stopped"] {
            assert_eq!(stored(&store, id).await, (OperationState::Queued, false));
        }
        store.faults().record = None;
        sleep(SECOND * 2).await;
        assert_eq!(stored(&store, "waits").await, (OperationState::Exhausted, false));
        assert_eq!(stored(&store, "stopped").await, (OperationState::Cancelled, false));
        assert!(cancelled.await.expect("it runs").is_ok());
        assert_eq!(transport.ids(), ["sent"]);
    });
}

#[test]
fn an_attempt_that_outlasts_its_engine_and_its_deadline_is_told_when_it_has_ended() {
    paused(|| async {
        let store = Faulty::default();
        let transport = Scripted::new(|attempt| {
            let id = attempt.operation_id.to_string();
            async move {
                sleep(if id == "first" { SECOND } else { SECOND * 30 }).await;
                if id == "lost" { Verdict::Unknown.into() } else { Verdict::Accepted.into() }
            }
        });
        let scheduler = start_over(&store, unlimited(), &transport).await;
        let (handle, begun) = (scheduler.handle(), TokioClock::starting_at(START));
        store.faults().record = Some(StoreError::Damaged { reason: "a test".to_owned() });
        drop(submit(&handle, "first", HOUR).await);
        let [taken, lost] = [submit(&handle, "taken", SECOND * 10).await, submit(&handle, "lost", SECOND * 10).await];
        assert!(matches!(told(taken, &begun, SECOND * 30).await, Outcome::Accepted { attempts: 1, .. }));
        assert_eq!(told(lost, &begun, SECOND * 30).await, MAYBE_SENT);
        sleep(HOUR).await;
        store.faults().record = None;
        mend(&handle).await;
        sleep(SECOND).await;
        assert_eq!(
            stored(&store, "taken").await,
            (OperationState::Accepted, false),
            "what was told is what is written"
        );
        assert_eq!(stored(&store, "lost").await, (OperationState::Exhausted, true));
        sleep(HOUR * 24).await;
        assert_eq!(transport.count(), 3, "nothing is sent twice");
    });
}
