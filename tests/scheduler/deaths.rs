//! Panics outside an engine, and panics on the way back from one.

use std::time::Duration;

use mailweir::scheduler::{AskError, Events, HoldScope, Order};
use mailweir::telemetry::EventKind;
use mailweir::{Outcome, SubmitError};
use tokio::time::{sleep, timeout};

use crate::support::*;

/// What befell actors: how often each was restarted, and why; `held` where it was not.
fn fates(events: &mut Events) -> Vec<(String, u32, &'static str)> {
    let mut fates = Vec::new();
    while let Some(Some(Ok(event))) = futures::FutureExt::now_or_never(events.next()) {
        match event.kind {
            EventKind::ActorRestarted { mailbox, restarts, reason } => {
                fates.push((mailbox.to_string(), restarts, reason))
            }
            EventKind::ActorHeld { mailbox, restarts, .. } => fates.push((mailbox.to_string(), restarts, "held")),
            _ => {}
        }
    }
    fates
}

#[test]
fn an_actor_that_dies_outside_its_engine_is_replaced_and_its_operations_go_on() {
    // Nothing was in flight, so nobody rang: callers were told "shutting down" for ever.
    paused(|| async {
        let transport = Scripted::accepting().begin();
        let scheduler = start(limited("1 requests / 1m"), transport.clone()).await;
        let handle = scheduler.handle();
        let mut events = handle.events();
        let sent = handle.submit(foreground("sent")).await.expect("stored");
        assert!(matches!(sent.outcome().await, Ok(Outcome::Accepted { .. })));
        let waits = handle.submit(foreground("waits")).await.expect("stored");
        handle.sabotage_actor(MAILBOX).await.expect("told");
        assert!(waits.outcome().await.is_err(), "the ticket went with the actor");
        let next = handle.submit(foreground("next")).await.expect("taken in by the new one");
        let waits = handle.ticket("waits").await.expect("known");
        for ticket in [waits, next] {
            let outcome = timeout(Duration::from_secs(180), ticket.outcome()).await.expect("in its turn");
            assert!(matches!(outcome, Ok(Outcome::Accepted { .. })), "{outcome:?}");
        }
        let instants = transport.instants();
        assert!(instants[1] - instants[0] >= Duration::from_secs(60), "its ledger was read back: {instants:?}");
        assert_eq!(fates(&mut events), [(MAILBOX.to_owned(), 1, "stopped")]);
    });
}

#[test]
fn an_actor_that_dies_too_often_is_held_until_an_operator_resumes_it() {
    paused(|| async {
        let mut config = unlimited();
        config.actors.restarts_max = 2;
        let scheduler = start(config, Scripted::accepting()).await;
        let handle = scheduler.handle();
        let mut events = handle.events();
        for _ in 0..3 {
            handle.sabotage_actor(MAILBOX).await.expect("told");
            sleep(Duration::from_secs(1)).await;
        }
        let stopped = |restarts| (MAILBOX.to_owned(), restarts, "stopped");
        assert_eq!(fates(&mut events), [stopped(1), stopped(2), (MAILBOX.to_owned(), 2, "held")]);
        let error = handle.submit(submission("held")).await.expect_err("held");
        assert!(matches!(error, SubmitError::MailboxHeld { .. }), "{error}");
        handle.resume(HoldScope::Mailbox(MAILBOX.into()), Order::new("done")).await.expect("told");
        let ticket = handle.submit(submission("resumed")).await.expect("stored");
        assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
    });
}

#[test]
fn the_shared_scopes_outlast_a_panic_outside_their_engine() {
    paused(|| async {
        let transport = Scripted::accepting().begin();
        let config = unlimited().application_limits(["1 requests / 1m".parse().expect("a limit")]);
        let scheduler = start(config, transport.clone()).await;
        let handle = scheduler.handle();
        let mut events = handle.events();
        let sent = handle.submit(foreground("sent")).await.expect("stored");
        assert!(matches!(sent.outcome().await, Ok(Outcome::Accepted { .. })));
        let waits = handle.submit(foreground("waits")).await.expect("stored");
        sleep(Duration::from_secs(1)).await;
        handle.sabotage_shared_actor().expect("told");
        let outcome = timeout(Duration::from_secs(180), waits.outcome()).await.expect("in its turn");
        assert!(matches!(outcome, Ok(Outcome::Accepted { .. })), "{outcome:?}");
        let instants = transport.instants();
        assert!(instants[1] - instants[0] >= Duration::from_secs(60), "{instants:?}");
        assert_eq!(fates(&mut events), [("application".to_owned(), 1, "panicked")]);
    });
}

#[test]
fn shared_scopes_without_an_engine_do_not_say_that_nothing_is_in_the_way() {
    paused(|| async {
        let mut config = unlimited().application_limits(["1 requests / 1m".parse().expect("a limit")]);
        config.actors.restarts_max = 0;
        let scheduler = start(config, Scripted::accepting()).await;
        let handle = scheduler.handle();
        handle.sabotage_shared_actor().expect("told");
        for _ in 0..2 {
            let breakers = handle.breakers().await;
            assert!(
                matches!(&breakers, Err(AskError::NotNow { mailbox }) if &**mailbox == "application"),
                "{breakers:?}"
            );
            let explained = handle.explain_mailbox(MAILBOX).await;
            assert!(matches!(explained, Err(AskError::NotNow { .. })), "{explained:?}");
        }
        handle.resume(HoldScope::All, Order::new("done")).await.expect("told");
        sleep(Duration::from_secs(1)).await;
        assert!(handle.breakers().await.expect("it has an engine again").is_empty());
    });
}

#[test]
fn an_engine_that_panics_while_it_is_rebuilt_is_rebuilt_again() {
    // The store answers without waiting, so the second panic came after the turn had looked for panics: no engine, no
    // timer, until something else rang.
    paused(|| async {
        let scheduler = start(unlimited(), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let mut events = handle.events();
        for _ in 0..3 {
            handle.sabotage(MAILBOX).await.expect("told");
        }
        let ticket = handle.submit(submission("one")).await.expect("stored");
        let outcome = timeout(Duration::from_secs(5), ticket.outcome()).await.expect("soon");
        assert!(matches!(outcome, Ok(Outcome::Accepted { .. })), "{outcome:?}");
        let panicked = |restarts| (MAILBOX.to_owned(), restarts, "panicked");
        assert_eq!(fates(&mut events), [panicked(1), panicked(2), panicked(3)]);
    });
}
