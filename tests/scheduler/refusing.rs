//! Stores that say no for good, and stores that do not answer when an engine has to be rebuilt.

use std::time::Duration;

use mailweir::engine::OperationState;
use mailweir::scheduler::{AskError, Events, HoldScope, Order, OrderAnswer};
use mailweir::store::StoreError;
use mailweir::telemetry::EventKind;
use mailweir::{Outcome, Scheduler, SubmitError};
use tokio::time::{sleep, timeout};

use crate::faulty::{Faulty, out_of_reach};
use crate::support::*;

async fn start_over(store: &Faulty, config: mailweir::Config, transport: &Scripted) -> Scheduler {
    builder(config, transport.clone()).store(store.clone()).start_on_current_thread().await.expect("starts")
}

fn seen(events: &mut Events, wanted: impl Fn(&EventKind) -> bool) -> usize {
    let mut count = 0;
    while let Some(Some(Ok(event))) = futures::FutureExt::now_or_never(events.next()) {
        count += usize::from(wanted(&event.kind));
    }
    count
}

#[test]
fn a_contradicted_record_is_reported_and_not_written_again() {
    // It was kept and written every second for ever, with every later record behind it.
    paused(|| async {
        let (store, transport) = (Faulty::default(), Scripted::accepting());
        let scheduler = start_over(&store, unlimited(), &transport).await;
        let handle = scheduler.handle();
        let mut events = handle.events();
        store.faults().recorded = Some(StoreError::Contradiction { reason: "a test".to_owned() });
        let ticket = handle.submit(foreground("one")).await.expect("stored");
        assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
        sleep(Duration::from_secs(1)).await;
        let calls = store.record_calls();
        sleep(Duration::from_secs(60)).await;
        assert_eq!(store.record_calls(), calls, "nothing is written again");
        assert_eq!(seen(&mut events, |kind| matches!(kind, EventKind::StoreContradicted { store: "faulty", .. })), 1);
        // And the mailbox can be rebuilt.
        handle.sabotage(MAILBOX).await.expect("told");
        let ticket = handle.submit(foreground("two")).await.expect("stored");
        let outcome = timeout(Duration::from_secs(5), ticket.outcome()).await.expect("soon");
        assert!(matches!(outcome, Ok(Outcome::Accepted { .. })), "{outcome:?}");
    });
}

#[test]
fn a_damaged_store_holds_the_mailbox_and_what_it_did_not_take_is_written_when_it_is_resumed() {
    paused(|| async {
        let (store, transport) = (Faulty::default(), Scripted::accepting());
        let scheduler = start_over(&store, unlimited(), &transport).await;
        let handle = scheduler.handle();
        let mut events = handle.events();
        store.faults().record = Some(StoreError::Damaged { reason: "a test".to_owned() });
        let mut words = handle.events();
        let ticket = handle.submit(foreground("one")).await.expect("stored");
        assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
        sleep(Duration::from_secs(1)).await;
        let calls = store.record_calls();
        sleep(Duration::from_secs(60)).await;
        assert_eq!(store.record_calls(), calls, "it will not work until a person mends it");
        let held = |kind: &EventKind| matches!(kind, EventKind::ActorHeld { reason: "store damaged", .. });
        assert_eq!(seen(&mut events, held), 1);
        let told = |kind: &EventKind| {
            let EventKind::StoreFailed { store, mailbox, error } = kind else { return false };
            (*store, &**mailbox) == ("faulty", MAILBOX) && error.contains("damaged") && error.contains("a test")
        };
        assert_eq!(seen(&mut words, told), 1, "in the store's own words");
        let error = handle.submit(foreground("two")).await.expect_err("held");
        assert!(matches!(error, SubmitError::MailboxHeld { .. }), "{error}");
        // Resumed too early, it is held again.
        handle.resume(HoldScope::Mailbox(MAILBOX.into()), Order::new("done")).await.expect("told");
        sleep(Duration::from_secs(1)).await;
        assert_eq!((store.record_calls(), seen(&mut events, held)), (calls + 1, 1));
        store.faults().record = None;
        handle.resume(HoldScope::Mailbox(MAILBOX.into()), Order::new("done")).await.expect("told");
        let ticket = handle.submit(foreground("two")).await.expect("stored");
        assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
        let record = handle.operation("one").await.expect("a store").expect("stored");
        assert_eq!((record.state, transport.count()), (OperationState::Accepted, 2), "and nothing was sent twice");
    });
}

/// A mailbox whose engine has panicked and whose store does not answer.
async fn rebuilding(store: &Faulty) -> Scheduler {
    let scheduler = start_over(store, limited("1 requests / 1h"), &Scripted::accepting()).await;
    let handle = scheduler.handle();
    for id in ["sent", "waits"] {
        let _ticket = handle.submit(foreground(id)).await.expect("stored");
    }
    store.faults().recover = Some(out_of_reach());
    handle.sabotage(MAILBOX).await.expect("told");
    let _ticket = handle.submit(foreground("panics")).await.expect("stored");
    sleep(Duration::from_secs(3)).await;
    scheduler
}

#[test]
fn shutdown_ends_although_a_mailbox_is_being_rebuilt_and_its_store_does_not_answer() {
    paused(|| async {
        let scheduler = rebuilding(&Faulty::default()).await;
        let report = timeout(Duration::from_secs(60), scheduler.shutdown()).await.expect("it does not hang");
        assert_eq!((report.accepted, report.returned, report.unknown), (0, 2, 0));
    });
}

#[test]
fn questions_to_every_mailbox_are_answered_although_one_is_being_rebuilt() {
    paused(|| async {
        let store = Faulty::default();
        let scheduler = rebuilding(&store).await;
        let handle = scheduler.handle();
        let soon = Duration::from_secs(5);
        assert!(timeout(soon, handle.breakers()).await.expect("soon").expect("answered").is_empty());
        assert!(timeout(soon, handle.mailboxes()).await.expect("soon").is_empty());
        let campaign = HoldScope::Campaign("autumn".into());
        timeout(soon, handle.hold(campaign, Order::new("a test"))).await.expect("soon").expect("noted");
        let facts = timeout(soon, handle.mailbox(MAILBOX)).await.expect("soon");
        assert!(matches!(facts, Err(AskError::NotNow { .. })), "{facts:?}");
        let cancelled = timeout(soon, handle.cancel("waits", Order::new("a test"))).await.expect("soon");
        assert!(matches!(cancelled, Err(AskError::NotNow { .. })), "{cancelled:?}");
        // A policy that came meanwhile is the rebuilt engine's.
        timeout(soon, handle.reconfigure(unlimited())).await.expect("soon").expect("valid");
        store.faults().recover = None;
        sleep(Duration::from_secs(5)).await;
        for id in ["sent", "waits", "panics"] {
            let ticket = handle.ticket(id).await.expect("known");
            let outcome = timeout(soon, ticket.outcome()).await.expect("no hour passes");
            assert!(matches!(outcome, Ok(Outcome::Accepted { .. })), "{id}: {outcome:?}");
        }
    });
}

#[test]
fn an_order_that_no_engine_heard_is_not_confirmed() {
    paused(|| async {
        let scheduler = start(limited("1 requests / 1h"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        for id in ["sent", "waits"] {
            let _ticket = handle.submit(foreground(id)).await.expect("stored");
        }
        // The step of the cancellation itself panics: the rebuilt engine knows nothing of it.
        handle.sabotage(MAILBOX).await.expect("told");
        let cancelled = handle.cancel("waits", Order::new("a test")).await;
        assert!(matches!(cancelled, Err(AskError::NotNow { .. })), "{cancelled:?}");
        // Asked again, it is done; an order that is noted, as a trip is, reaches the engine after this one.
        assert!(matches!(
            handle.cancel("waits", Order::new("a test")).await,
            Ok(OrderAnswer::Done { state: OperationState::Cancelled })
        ));
        handle.sabotage(MAILBOX).await.expect("told");
        handle.trip(mailweir::engine::Scope::Mailbox(MAILBOX.into()), Order::new("a test")).await.expect("noted");
        assert_eq!(handle.breakers().await.expect("answered").len(), 1);
    });
}
