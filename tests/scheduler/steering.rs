//! Cancel, hold, resume, trip, close, new limits, passivation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mailweir::engine::breaker::BreakerState;
use mailweir::engine::{OperationState, Scope, Subject, Verdict, Wall};
use mailweir::scheduler::{AskError, HoldScope, Order, OrderAnswer};
use mailweir::{Lane, Outcome, Submission};

use crate::support::*;

#[test]
fn a_waiting_operation_is_cancelled_and_a_live_one_stops_when_it_has_ended() {
    paused(|| async {
        let transport = Scripted::slow(Duration::from_secs(5));
        let mut config = unlimited();
        config.mailbox.concurrency = 1.try_into().ok();
        let scheduler = start(config, transport.clone()).await;
        let handle = scheduler.handle();
        let live = handle.submit(foreground("live")).await.expect("taken in");
        let waits = handle.submit(foreground("waits")).await.expect("taken in");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(
            handle.cancel("waits", Order::new("a test")).await.expect("an answer"),
            OrderAnswer::Done { state: OperationState::Cancelled }
        );
        assert_eq!(waits.outcome().await, Ok(Outcome::Cancelled { maybe_sent: false }));
        assert_eq!(
            handle.cancel("live", Order::new("a test")).await.expect("an answer"),
            OrderAnswer::Requested { state: OperationState::Attempting }
        );
        assert!(matches!(live.outcome().await, Ok(Outcome::Accepted { .. })), "it was accepted before it could stop");
        assert_eq!(
            handle.cancel("live", Order::new("a test")).await.expect("an answer"),
            OrderAnswer::TooLate { state: OperationState::Accepted }
        );
        let error = handle.cancel("nobody", Order::new("a test")).await.expect_err("no such operation");
        assert!(matches!(error, AskError::NoOperation { .. }), "{error}");
        assert_eq!(transport.ids(), ["live"]);
        let record = handle.operation("waits").await.expect("a store").expect("stored");
        assert_eq!(record.state, OperationState::Cancelled);
    });
}

#[test]
fn a_hold_of_each_scope_stops_and_its_resume_lets_go() {
    paused(|| async {
        let scopes = [
            HoldScope::All,
            HoldScope::Mailbox(MAILBOX.into()),
            HoldScope::Tenant("acme".into()),
            HoldScope::Campaign("spring".into()),
        ];
        for scope in scopes {
            let transport = Scripted::accepting();
            let scheduler = start(unlimited(), transport.clone()).await;
            let handle = scheduler.handle();
            let facts = handle.hold(scope.clone(), Order::new("a look")).await.expect("held");
            assert_eq!(handle.holds(), [facts]);
            let held = submission("held").tenant("acme").campaign("spring");
            let ticket = handle.submit(held).await.expect("taken in");
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(transport.count(), 0, "{scope:?}");
            let explained = handle.explain("held").await.expect("an answer");
            assert!(explained.iter().any(|it| it.binding && it.wall == Wall::Hold), "{scope:?}: {explained:?}");
            handle.resume(scope.clone(), Order::new("done")).await.expect("resumed");
            assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })), "{scope:?}");
            assert!(handle.holds().is_empty());
        }
    });
}

#[test]
fn a_hold_ends_by_itself() {
    paused(|| async {
        let transport = Scripted::accepting().begin();
        let scheduler = start(unlimited(), transport.clone()).await;
        let handle = scheduler.handle();
        let scope = HoldScope::Mailbox(MAILBOX.into());
        handle.hold(scope, Order::new("lunch").expires_in(Duration::from_secs(90))).await.expect("held");
        let ticket = handle.submit(submission("after")).await.expect("taken in");
        assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
        let at = transport.instants()[0];
        assert!(at >= Duration::from_secs(90) && at < Duration::from_secs(92), "{at:?}");
    });
}

#[test]
fn a_breaker_is_tripped_and_closed_by_hand_at_either_kind_of_scope() {
    paused(|| async {
        for scope in [Scope::Mailbox(MAILBOX.into()), Scope::Application] {
            let transport = Scripted::accepting();
            let scheduler = start(unlimited(), transport.clone()).await;
            let handle = scheduler.handle();
            handle
                .trip(scope.clone(), Order::new("a look").expires_in(Duration::from_secs(600)))
                .await
                .expect("tripped");
            let ticket = handle.submit(foreground("one")).await.expect("taken in");
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(transport.count(), 0, "{scope}");
            let breakers = handle.breakers().await.expect("an answer");
            assert!(
                breakers.iter().any(|(at, facts)| *at == scope && facts.state == BreakerState::Open),
                "{scope}: {breakers:?}"
            );
            handle.close(scope.clone(), Order::new("done")).await.expect("closed");
            assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })), "{scope}");
        }
    });
}

#[test]
fn a_raised_limit_grants_no_free_window_and_a_lowered_one_counts_from_now() {
    paused(|| async {
        let transport = Scripted::accepting().begin();
        let scheduler = start(limited("2 requests / 1m"), transport.clone()).await;
        let handle = scheduler.handle();
        let flood = handle.submit_many((0..8).map(|n| foreground(&format!("fg-{n}")))).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(transport.count(), 2);
        handle.reconfigure(limited("4 requests / 1m")).await.expect("in force");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(transport.count(), 4, "two more, not four");
        handle.reconfigure(limited("1 requests / 1m")).await.expect("in force");
        tokio::time::sleep(Duration::from_secs(57)).await;
        assert_eq!(transport.count(), 4);
        drop(flood);
    });
}

#[test]
fn a_mailbox_tells_its_facts_and_why_the_next_send_waits() {
    paused(|| async {
        let scheduler = start(limited("3 requests / 1m"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let _tickets = handle.submit_many((0..5).map(|n| foreground(&format!("fg-{n}")))).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let facts = handle.mailbox(MAILBOX).await.expect("facts");
        assert_eq!(facts.waiting, [2, 0]);
        assert_eq!(facts.windows.len(), 1);
        assert_eq!(facts.windows[0].used, [3, 0]);
        let explained = handle.explain_mailbox(MAILBOX).await.expect("an answer");
        let binding: Vec<_> = explained.iter().filter(|constraint| constraint.binding).collect();
        assert_eq!(binding.len(), 1, "{explained:?}");
        assert!(matches!(binding[0].wall, Wall::Window { seconds: 60, .. }), "{explained:?}");
    });
}

#[test]
fn a_passivated_mailbox_keeps_what_it_has_used() {
    paused(|| async {
        let transport = Scripted::accepting().begin();
        let mut config = limited("2 requests / 1h");
        config.actors.passivate_after = Duration::from_secs(60);
        let scheduler = start(config, transport.clone()).await;
        let handle = scheduler.handle();
        for id in ["one", "two"] {
            let ticket = handle.submit(foreground(id)).await.expect("room");
            assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
        }
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert!(handle.mailboxes().await.is_empty(), "the actor is gone");
        let ticket = handle.submit(foreground("three")).await.expect("taken in");
        assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
        assert!(transport.instants()[2] >= Duration::from_secs(3_600), "{:?}", transport.instants());
    });
}

#[test]
fn a_thousand_mailboxes_come_and_go() {
    paused(|| async {
        let mut config = unlimited();
        config.actors.passivate_after = Duration::from_secs(5);
        let transport = Scripted::accepting();
        let scheduler = start(config, transport.clone()).await;
        let handle = scheduler.handle();
        for round in 0..3 {
            let batch = (0..1_000).map(|n| {
                Submission::new(format!("m{n}@example.org"), email())
                    .operation_id(format!("{round}-{n}"))
                    .lane(Lane::Foreground)
            });
            for ticket in handle.submit_many(batch).await {
                let outcome = ticket.expect("taken in").outcome().await;
                assert!(matches!(outcome, Ok(Outcome::Accepted { .. })), "{outcome:?}");
            }
            tokio::time::sleep(Duration::from_secs(20)).await;
            assert!(handle.mailboxes().await.is_empty());
        }
        assert_eq!(transport.count(), 3_000);
    });
}

#[test]
fn resuming_everything_reaches_mailboxes_that_the_provider_suspended() {
    paused(|| async {
        let refuse = Arc::new(AtomicBool::new(true));
        let refuses = Arc::clone(&refuse);
        let transport = Scripted::new(move |_| {
            let refused = refuses.load(Ordering::Relaxed);
            let verdict = if refused { Verdict::Permanent { of: Subject::Credentials } } else { Verdict::Accepted };
            async move { verdict.into() }
        });
        let scheduler = start(unlimited(), transport.clone()).await;
        let handle = scheduler.handle();
        let tickets = [
            handle.submit(foreground("one")).await.expect("taken in"),
            handle.submit(foreground("two")).await.expect("taken in"),
        ];
        tokio::time::sleep(Duration::from_secs(60)).await;
        let before = transport.count();
        assert!(before > 0 && before <= 2, "suspended after {before}");
        refuse.store(false, Ordering::Relaxed);
        handle.resume(HoldScope::All, Order::new("a new secret")).await.expect("resumed");
        for ticket in tickets {
            assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
        }
    });
}
