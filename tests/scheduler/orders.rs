//! Orders that are refused change nothing, and orders that stand outlive a rebuilt engine.

use std::error::Error;
use std::time::Duration;

use mailweir::engine::Scope;
use mailweir::scheduler::{AskError, HoldScope, Order, SchedulerHandle};
use mailweir::telemetry::EventKind;
use mailweir::{Outcome, Submission};

use crate::support::*;

const MINUTE: Duration = Duration::from_secs(60);

fn is_invalid<T: std::fmt::Debug>(answer: Result<T, AskError>) -> bool {
    matches!(answer, Err(AskError::Invalid(_)))
}

async fn every_way_in_refuses(handle: &SchedulerHandle, id: &str) {
    let (hold, scope) = (HoldScope::Mailbox(id.into()), Scope::Mailbox(id.into()));
    assert!(is_invalid(handle.mailbox(id).await), "mailbox({id:?})");
    assert!(is_invalid(handle.explain_mailbox(id).await), "explain_mailbox({id:?})");
    assert!(is_invalid(handle.hold(hold.clone(), Order::new("a look")).await), "hold({id:?})");
    assert!(is_invalid(handle.resume(hold, Order::new("done")).await), "resume({id:?})");
    assert!(is_invalid(handle.trip(scope.clone(), Order::new("a look")).await), "trip({id:?})");
    assert!(is_invalid(handle.close(scope, Order::new("done")).await), "close({id:?})");
    assert!(is_invalid(handle.sabotage(id).await), "sabotage({id:?})");
}

#[test]
fn an_id_that_no_submission_may_have_starts_no_actor_and_is_in_no_event() {
    paused(|| async {
        let scheduler = start(unlimited(), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let mut events = handle.events();
        for id in ["", "a@example.org\r\nBcc: all", "a\u{1b}[2J@example.org", &"x".repeat(257)] {
            every_way_in_refuses(&handle, id).await;
        }
        assert!(handle.mailboxes().await.is_empty(), "nothing was started");
        assert!(handle.holds().is_empty() && handle.trips().is_empty());
        assert!(futures::FutureExt::now_or_never(events.next()).is_none(), "and nothing reported");
        let longest = "x".repeat(256);
        assert_eq!(handle.mailbox(longest.as_str()).await.expect("at the limit").waiting, [0, 0]);
    });
}

#[test]
fn labels_and_reasons_of_orders_are_bounded_and_one_line() {
    paused(|| async {
        let scheduler = start(unlimited(), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let (label, reason) = ("t".repeat(128), "r".repeat(512));
        for scope in [HoldScope::Tenant("a\nb".into()), HoldScope::Campaign("c".repeat(129).into())] {
            assert!(is_invalid(handle.hold(scope.clone(), Order::new("a look")).await), "{scope:?}");
        }
        assert!(is_invalid(handle.trip(Scope::Tenant("t".repeat(129).into()), Order::new("a look")).await));
        for reason in ["", "two\nlines", &"r".repeat(513)] {
            assert!(is_invalid(handle.hold(HoldScope::All, Order::new(reason)).await), "{reason:?}");
            let error = handle.trip(Scope::Application, Order::new(reason)).await.expect_err("no reason");
            assert!(error.to_string().contains("reason") && !error.is_retryable(), "{error}");
        }
        for by in ["", "kim\nand all", &"k".repeat(129)] {
            assert!(is_invalid(handle.hold(HoldScope::All, Order::new("a look").by(by)).await), "{by:?}");
            let error = handle.cancel("nobody", Order::new("a look").by(by)).await.expect_err("no name");
            assert!(error.to_string().contains("by") && matches!(error, AskError::Invalid(_)), "{error}");
        }
        assert!(handle.holds().is_empty() && handle.trips().is_empty());
        let held = handle.hold(HoldScope::Tenant(label.as_str().into()), Order::new(reason.as_str())).await;
        assert_eq!(&*held.expect("at the limits").reason, reason);
        let order = Order::new(reason.as_str()).by(label.as_str());
        let tripped = handle.trip(Scope::Tenant(label.as_str().into()), order).await.expect("at the limits");
        assert_eq!((&*tripped.reason, tripped.by.as_deref()), (reason.as_str(), Some(label.as_str())));
    });
}

#[test]
fn a_trip_is_listed_with_its_reason_until_it_ends_and_the_event_keeps_the_reason_to_itself() {
    paused(|| async {
        let scheduler = start(unlimited(), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let mut events = handle.events();
        let scope = Scope::Mailbox(MAILBOX.into());
        let facts = handle
            .trip(scope.clone(), Order::new("kim@example.org complained").expires_in(MINUTE))
            .await
            .expect("tripped");
        assert_eq!((&facts.scope, &*facts.reason), (&scope, "kim@example.org complained"));
        assert_eq!(facts.until.since(START), MINUTE);
        let longer =
            handle.trip(scope.clone(), Order::new("still").expires_in(MINUTE * 2)).await.expect("tripped again");
        assert_eq!(handle.trips(), [longer], "a later one takes its place");
        let all = handle.trip(Scope::Application, Order::new("all of it")).await.expect("tripped");
        assert_eq!(all.until.since(START), MINUTE * 5, "breaker.manual_expiry");
        handle.close(Scope::Application, Order::new("done")).await.expect("closed");
        assert_eq!(handle.trips().len(), 1);
        tokio::time::sleep(MINUTE * 2).await;
        assert!(handle.trips().is_empty(), "it ended by itself");
        let mut opened = 0;
        while let Some(Some(Ok(event))) = futures::FutureExt::now_or_never(events.next()) {
            opened += usize::from(matches!(event.kind, EventKind::BreakerOpened { .. }));
            assert!(!format!("{event:?}").contains("complained"), "an operator's words are for people: {event:?}");
        }
        assert!(opened >= 2, "{opened}");
    });
}

#[test]
fn holds_and_trips_say_who_ordered_them_and_what_is_done_once_takes_no_expiry() {
    paused(|| async {
        let scheduler = start(limited("1 requests / 1h"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let order = Order::new("a look").by("kim");
        let held = handle.hold(HoldScope::All, order.clone()).await.expect("held");
        let tripped = handle.trip(Scope::Application, order.clone()).await.expect("tripped");
        assert_eq!((handle.holds(), handle.trips()), (vec![held.clone()], vec![tripped.clone()]));
        assert_eq!((held.by.as_deref(), tripped.by.as_deref()), (Some("kim"), Some("kim")));
        let waits = handle.submit(foreground("waits")).await.expect("stored");
        let error = handle.cancel("waits", order.clone().expires_in(MINUTE)).await.expect_err("an expiry");
        assert!(error.to_string().contains("expires_in") && !error.is_retryable(), "{error}");
        assert!(handle.cancel("waits", order).await.is_ok());
        assert_eq!(waits.outcome().await, Ok(Outcome::Cancelled { maybe_sent: false }));
    });
}

#[test]
fn an_order_that_fails_is_not_listed_and_leaves_what_was_ordered_before() {
    paused(|| async {
        let mut config = unlimited();
        config.actors.live_max = 1;
        let scheduler = start(config, Scripted::slow(MINUTE)).await;
        let handle = scheduler.handle();
        let error =
            handle.hold(HoldScope::Operation("nobody".into()), Order::new("a look")).await.expect_err("unknown");
        assert!(matches!(error, AskError::NoOperation { .. }), "{error}");
        assert!(handle.holds().is_empty(), "an unknown operation is not held");
        let _busy = handle.submit(foreground("busy")).await.expect("taken in");
        let other = "other@contoso.example";
        let error = handle.hold(HoldScope::Mailbox(other.into()), Order::new("a look")).await.expect_err("no room");
        assert!(matches!(error, AskError::Busy { .. }), "{error}");
        assert!(handle.holds().is_empty(), "nobody was told of it");
        let error = handle.trip(Scope::Mailbox(other.into()), Order::new("a look")).await.expect_err("no room");
        assert!(matches!(error, AskError::Busy { .. }), "{error}");
        assert!(handle.trips().is_empty(), "nobody was told of it");
        let before = handle.hold(HoldScope::All, Order::new("first")).await.expect("held");
        let _report = scheduler.shutdown().await;
        let error = handle.hold(HoldScope::All, Order::new("second")).await.expect_err("stopping");
        assert!(matches!(error, AskError::ShuttingDown), "{error}");
        assert_eq!(handle.holds(), [before]);
    });
}

#[test]
fn a_held_operation_stays_held_when_its_engine_is_rebuilt() {
    paused(|| async {
        let transport = Scripted::accepting();
        let scheduler = start(unlimited(), transport.clone()).await;
        let handle = scheduler.handle();
        let mailbox = HoldScope::Mailbox(MAILBOX.into());
        handle.hold(mailbox.clone(), Order::new("a look")).await.expect("held");
        let held = handle.submit(foreground("held")).await.expect("taken in");
        let operation = HoldScope::Operation("held".into());
        handle.hold(operation.clone(), Order::new("not this one").expires_in(MINUTE * 60)).await.expect("held");
        handle.resume(mailbox, Order::new("done")).await.expect("resumed");
        handle.sabotage(MAILBOX).await.expect("told");
        let other = handle.submit(foreground("other")).await.expect("stored before the panic");
        assert!(matches!(other.outcome().await, Ok(Outcome::Accepted { .. })));
        tokio::time::sleep(MINUTE).await;
        assert_eq!(transport.ids(), ["other"], "a panic lifts no hold");
        assert_eq!(handle.holds().len(), 1);
        handle.resume(operation, Order::new("done")).await.expect("resumed");
        assert!(matches!(held.outcome().await, Ok(Outcome::Accepted { .. })));
    });
}

#[test]
fn a_breaker_opened_by_hand_stays_open_when_its_engine_is_rebuilt() {
    paused(|| async {
        for scope in [Scope::Mailbox(MAILBOX.into()), Scope::Application] {
            let transport = Scripted::accepting();
            let scheduler = start(unlimited(), transport.clone()).await;
            let handle = scheduler.handle();
            handle.trip(scope.clone(), Order::new("a look").expires_in(MINUTE * 60)).await.expect("tripped");
            if scope == Scope::Application {
                handle.sabotage_shared().expect("told");
            } else {
                handle.sabotage(MAILBOX).await.expect("told");
            }
            let ticket = handle.submit(foreground("one")).await.expect("stored");
            tokio::time::sleep(MINUTE).await;
            assert_eq!(transport.count(), 0, "{scope}: a panic closes no breaker");
            handle.close(scope.clone(), Order::new("done")).await.expect("closed");
            assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })), "{scope}");
        }
    });
}

#[test]
fn a_configuration_with_a_key_that_needs_a_restart_is_refused_whole_and_named() {
    paused(|| async {
        let transport = Scripted::accepting();
        let scheduler = start(limited("2 requests / 1m"), transport.clone()).await;
        let handle = scheduler.handle();
        let _tickets = handle.submit_many((0..8).map(|n| foreground(&format!("fg-{n}")))).await;
        let mut new = limited("4 requests / 1m");
        new.actors.restarts_max += 1;
        new.store.url = "sqlite:other.db".to_owned();
        let error = handle.reconfigure(new.clone()).await.expect_err("two keys need a restart");
        assert!(matches!(error, AskError::Config(_)) && !error.is_retryable(), "{error}");
        let source = error.source().expect("the keys").to_string();
        assert!(source.contains("store.url") && source.contains("actors.restarts_max"), "{source}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(transport.count(), 2, "the old limit is in force");
        let fresh = Submission::new("fresh@contoso.example", email()).operation_id("fresh");
        drop(handle.submit(fresh).await.expect("taken in"));
        let facts = handle.mailbox("fresh@contoso.example").await.expect("facts");
        assert_eq!(facts.windows[0].limit.amount(), 2, "for mailboxes that start now too");
        handle.reconfigure(limited("4 requests / 1m")).await.expect("what may change live does");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(transport.count(), 5);
    });
}
