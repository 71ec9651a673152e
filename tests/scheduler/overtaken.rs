//! What is overtaken while it is written: claims by records that fail, rows by holds, orders by restarts.

use std::time::Duration;

use mailweir::engine::{OperationState, Sent, Timestamp};
use mailweir::scheduler::{HoldScope, Order, OrderAnswer};
use mailweir::store::{NoteBody, Store};
use mailweir::transport::Verdict;
use mailweir::{Outcome, Scheduler};
use tokio::time::{sleep, timeout};

use crate::faulty::{Faulty, out_of_reach};
use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

async fn over(store: &Faulty, transport: &Scripted) -> Scheduler {
    builder(unlimited(), transport.clone()).store(store.clone()).start_on_current_thread().await.expect("starts")
}

fn order() -> Order {
    Order::new("a look")
}

/// How many requests of people are kept.
async fn requests(store: &Faulty) -> usize {
    let notes = store.recover(Timestamp::EPOCH, None).await.expect("a store").notes;
    notes.iter().filter(|note| matches!(note.body, NoteBody::Request(_))).count()
}

#[test]
fn a_release_whose_record_fails_is_not_taken_for_an_operation_that_is_gone() {
    paused(|| async {
        let (store, transport) = (Faulty::default(), Scripted::accepting());
        let scheduler = over(&store, &transport).await;
        let handle = scheduler.handle();
        handle.hold(HoldScope::Mailbox(MAILBOX.into()), order()).await.expect("held");
        drop(handle.submit(foreground("aside")).await.expect("taken in"));
        handle.quarantine("aside", order()).await.expect("an answer");
        handle.resume(HoldScope::Mailbox(MAILBOX.into()), order()).await.expect("resumed");
        store.faults().record = Some(out_of_reach());
        let released = handle.release("aside", order());
        let mended = async {
            sleep(SECOND * 5).await;
            assert_eq!(transport.count(), 0, "its release is not written");
            store.faults().record = None;
        };
        let (released, ()) = tokio::join!(released, mended);
        assert!(matches!(released.expect("an answer"), OrderAnswer::Done { .. }));
        sleep(MINUTE).await;
        let record = store.operation("aside").await.expect("a store").expect("stored");
        assert_eq!((record.state, transport.count()), (OperationState::Accepted, 1));
    });
}

#[test]
fn a_promised_cancel_is_kept_until_its_record_is_written() {
    paused(|| async {
        let store = Faulty::default();
        let transport = Scripted::new(|_| async {
            sleep(SECOND * 10).await;
            Verdict::Transient { sent: Sent::No, retry_after: None }.into()
        });
        let scheduler = over(&store, &transport).await;
        let handle = scheduler.handle();
        let ticket = handle.submit(foreground("one")).await.expect("taken in");
        sleep(SECOND).await;
        assert!(matches!(handle.cancel("one", order()).await.expect("an answer"), OrderAnswer::Requested { .. }));
        assert_eq!(requests(&store).await, 1);
        store.faults().record = Some(out_of_reach());
        sleep(SECOND * 20).await;
        assert_eq!(requests(&store).await, 1, "a crash now must not forget it");
        store.faults().record = None;
        let outcome = timeout(MINUTE, ticket.outcome()).await.expect("in time").expect("an outcome");
        assert!(matches!(outcome, Outcome::Cancelled { maybe_sent: false }), "{outcome:?}");
        sleep(SECOND * 5).await;
        assert_eq!(requests(&store).await, 0);
    });
}

#[test]
fn a_hold_that_was_answered_while_a_row_was_written_stops_it() {
    paused(|| async {
        let scopes = [HoldScope::All, HoldScope::Tenant("acme".into()), HoldScope::Campaign("spring".into())];
        for scope in scopes {
            let (store, transport) = (Faulty::late(SECOND), Scripted::accepting());
            let scheduler = over(&store, &transport).await;
            let handle = scheduler.handle();
            // Stored after a second, claimed after the next.
            let held = async { handle.submit(submission("held").tenant("acme").campaign("spring")).await };
            let hold = async {
                sleep(SECOND / 2).await;
                handle.hold(scope.clone(), order()).await
            };
            let (ticket, facts) = tokio::join!(held, hold);
            facts.expect("held");
            assert_eq!(transport.count(), 0, "{scope:?}: its row is being written");
            sleep(MINUTE).await;
            assert_eq!(transport.count(), 0, "{scope:?}");
            handle.resume(scope.clone(), order()).await.expect("resumed");
            let outcome = ticket.expect("taken in").outcome().await;
            assert!(matches!(outcome, Ok(Outcome::Accepted { .. })), "{scope:?}: {outcome:?}");
        }
    });
}

#[test]
fn a_hold_of_a_quarantined_operation_outlives_the_process_and_its_release() {
    paused(|| async {
        let (store, transport) = (Faulty::default(), Scripted::accepting());
        let scheduler = over(&store, &transport).await;
        let handle = scheduler.handle();
        let mailbox = HoldScope::Mailbox(MAILBOX.into());
        handle.hold(mailbox.clone(), order()).await.expect("held");
        drop(handle.submit(foreground("aside")).await.expect("taken in"));
        handle.quarantine("aside", order()).await.expect("an answer");
        let scope = HoldScope::Operation("aside".into());
        handle.hold(scope.clone(), order().expires_in(MINUTE * 60)).await.expect("held");
        handle.resume(mailbox, order()).await.expect("resumed");
        scheduler.shutdown().await;
        let scheduler = over(&store, &transport).await;
        let handle = scheduler.handle();
        handle.release("aside", order()).await.expect("an answer");
        sleep(MINUTE).await;
        assert_eq!(transport.count(), 0, "it is held");
        handle.resume(scope, order()).await.expect("resumed");
        sleep(SECOND).await;
        assert_eq!(transport.count(), 1);
    });
}
