//! A panic in one mailbox's engine is that mailbox's matter.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use mailweir::engine::OperationState;
use mailweir::scheduler::{HoldScope, Order};
use mailweir::telemetry::EventKind;
use mailweir::transport::Answer;
use mailweir::{Outcome, Submission, SubmitError};

use crate::support::*;

fn from(mailbox: &str, id: &str) -> Submission {
    Submission::new(mailbox, email()).operation_id(id)
}

#[test]
fn a_rebuilt_mailbox_keeps_its_operations_and_tickets_and_nobody_else_notices() {
    paused(|| async {
        let transport = Scripted::slow(Duration::from_secs(2));
        let mut config = unlimited();
        config.mailbox.concurrency = 1.try_into().ok();
        let scheduler = start(config, transport.clone()).await;
        let handle = scheduler.handle();
        let mut events = handle.events();
        let flying = handle.submit(from("a@example.org", "flying")).await.expect("taken in");
        let queued = handle.submit(from("a@example.org", "queued")).await.expect("taken in");
        let other = handle.submit(from("b@example.org", "other")).await.expect("taken in");
        handle.sabotage("a@example.org").await.expect("told");
        // The next step panics: its insert is stored, its ticket given.
        let third = handle.submit(from("a@example.org", "third")).await.expect("stored before the panic");
        for ticket in [flying, queued, other, third] {
            let id = ticket.operation_id().to_string();
            let outcome = ticket.outcome().await.expect("tickets survive");
            assert!(matches!(outcome, Outcome::Accepted { .. }), "{id}: {outcome:?}");
        }
        let mut ids = transport.ids();
        ids.sort_unstable();
        assert_eq!(ids, ["flying", "other", "queued", "third"], "nothing was sent twice");
        let mut restarted = Vec::new();
        while let Some(Some(Ok(event))) = futures::FutureExt::now_or_never(events.next()) {
            if let EventKind::ActorRestarted { mailbox, .. } = event.kind {
                restarted.push(mailbox.to_string());
            }
        }
        assert_eq!(restarted, ["a@example.org"]);
    });
}

#[test]
fn a_rebuilt_ledger_remembers_what_was_sent() {
    paused(|| async {
        let transport = Scripted::accepting().begin();
        let scheduler = start(limited("3 requests / 1m"), transport.clone()).await;
        let handle = scheduler.handle();
        for id in ["one", "two", "three"] {
            let ticket = handle.submit(foreground(id)).await.expect("room");
            assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
        }
        handle.sabotage(MAILBOX).await.expect("told");
        let ticket = handle.submit(foreground("four")).await.expect("stored");
        assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
        let instants = transport.instants();
        assert!(instants[3] - instants[0] >= Duration::from_secs(60), "{instants:?}");
    });
}

#[test]
fn a_mailbox_that_fails_too_often_is_held_until_an_operator_resumes_it() {
    paused(|| async {
        let mut config = unlimited();
        config.actors.restarts_max = 2;
        let scheduler = start(config, Scripted::accepting()).await;
        let handle = scheduler.handle();
        let mut events = handle.events();
        let mut tickets = Vec::new();
        for id in ["one", "two", "three"] {
            handle.sabotage(MAILBOX).await.expect("told");
            tickets.push(handle.submit(submission(id)).await.expect("stored"));
        }
        let error = handle.submit(submission("four")).await.expect_err("held");
        assert!(matches!(error, SubmitError::MailboxHeld { .. }), "{error}");
        assert!(error.into_submission().is_some());
        let record = handle.operation("three").await.expect("a store").expect("stored");
        assert!(!record.state.is_final(), "{:?}", record.state);
        let mut held = 0;
        while let Some(Some(Ok(event))) = futures::FutureExt::now_or_never(events.next()) {
            held += usize::from(matches!(event.kind, EventKind::ActorHeld { restarts: 2, .. }));
        }
        assert_eq!(held, 1);
        handle.resume(HoldScope::Mailbox(MAILBOX.into()), Order::new("done")).await.expect("told");
        for ticket in tickets {
            let outcome = ticket.outcome().await.expect("tickets survive");
            assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
        }
        assert_eq!(handle.counts().await.expect("a store")[OperationState::Accepted as usize], 3);
    });
}

#[test]
fn the_shared_budgets_are_rebuilt_and_whoever_waited_there_is_served() {
    paused(|| async {
        let transport = Scripted::slow(Duration::from_millis(300)).begin();
        let config = unlimited().application_limits(["3 requests / 1m".parse().expect("a limit")]);
        let scheduler = start(config, transport.clone()).await;
        let handle = scheduler.handle();
        let mut events = handle.events();
        let batch =
            (0..9).map(|n| from(&format!("m{n}@example.org"), &format!("op-{n}")).lane(mailweir::Lane::Foreground));
        let tickets = handle.submit_many(batch).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(transport.count(), 3);
        handle.sabotage_shared().expect("told");
        for ticket in tickets {
            let outcome = ticket.expect("taken in").outcome().await;
            assert!(matches!(outcome, Ok(Outcome::Accepted { .. })), "{outcome:?}");
        }
        let instants = transport.instants();
        assert_eq!(instants.len(), 9);
        for window in instants.windows(4) {
            assert!(window[3] - window[0] >= Duration::from_secs(60), "{instants:?}");
        }
        let mut restarted = 0;
        while let Some(Some(Ok(event))) = futures::FutureExt::now_or_never(events.next()) {
            restarted += usize::from(matches!(event.kind, EventKind::ActorRestarted { .. }));
        }
        assert_eq!(restarted, 1);
    });
}

/// A send that never ends, and panics when it is given up.
struct Sore;

impl Future for Sore {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Answer> {
        Poll::Pending
    }
}

impl Drop for Sore {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "a test asked for this panic");
    }
}

#[test]
fn an_attempt_that_panics_when_it_is_given_up_is_unknown_like_any_other() {
    paused(|| async {
        let scheduler = start(unlimited(), Scripted::new(|_| Sore)).await;
        let ticket = scheduler.handle().submit(foreground("one")).await.expect("taken in");
        let outcome = tokio::time::timeout(Duration::from_secs(600), ticket.outcome()).await;
        assert_eq!(outcome.expect("nobody waits for ever"), Ok(Outcome::Unknown));
    });
}
