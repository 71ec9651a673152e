//! People who press a button more than once, and programs that do it for them.

use std::time::Duration;

use mailweir::engine::OperationState;
use mailweir::store::OperationQuery;
use mailweir::{Email, Lane, Outcome, Submission};

use crate::support::*;

/// One request for a reset of kim's password, by whoever asks. No id: each asks by itself.
fn request(caller: &str, lane: Lane) -> Submission {
    let mime = b"Subject: Reset your password\r\n\r\nHello.\r\n".to_vec();
    let email = Email::from_mime(MAILBOX, ["kim@example.org"], mime).expect("an email");
    let submission = Submission::new(MAILBOX, email).lane(lane).caller(caller);
    submission.admission_key("reset:kim", Duration::from_secs(120))
}

#[test]
fn four_clicks_a_form_and_an_agent_within_one_cooldown_are_one_operation() {
    paused(|| async {
        let mut model = model();
        model.blocks = vec![block(Duration::from_secs(30))];
        let mut config = unlimited();
        config.callers.ceiling = Some("1 emails / 1h".parse().expect("a ceiling"));
        let mut desk = Desk::new(config, model).await;
        let mut tickets = Vec::new();
        // The first meets a throttle, so all others come while it waits for the provider's cooldown.
        for n in 0..4 {
            tickets.push(desk.handle.submit(request("web", Lane::Foreground)).await.expect("a ticket"));
            desk.wait_until(Duration::from_secs(n + 1)).await;
        }
        tickets.push(desk.handle.submit(request("contact-form", Lane::Foreground)).await.expect("a ticket"));
        tickets.push(desk.handle.submit(request("agent", Lane::Background)).await.expect("a ticket"));
        let id = tickets[0].operation_id();
        assert!(tickets.iter().all(|ticket| ticket.operation_id() == id), "{tickets:?}");
        let query = OperationQuery { limit: 10, ..OperationQuery::default() };
        let all = desk.handle.operations(query).await.expect("a store");
        assert_eq!((all.len(), all[0].state), (1, OperationState::Deferred));
        for ticket in tickets {
            let outcome = ticket.outcome().await.expect("an outcome");
            assert!(matches!(outcome, Outcome::Accepted { attempts: 2, .. }), "{outcome:?}");
        }
        assert_eq!(desk.attempts(), [("throttled", Some(429)), ("accepted", Some(202))]);
        assert_eq!(desk.copies_and_requests(), (1, 2));
        // The agent's own ceiling is untouched: its repeat was no email.
        let late = request("agent", Lane::Background).admission_key("reset:ann", Duration::from_secs(120));
        let _other = desk.handle.submit(late).await.expect("another key is another email");
    });
}

#[test]
fn a_click_after_the_cooldown_is_a_new_operation() {
    paused(|| async {
        let desk = Desk::new(unlimited(), model()).await;
        let first = desk.handle.submit(request("web", Lane::Foreground)).await.expect("a ticket");
        let id = first.operation_id();
        assert!(matches!(first.outcome().await, Ok(Outcome::Accepted { .. })));
        desk.wait_until(Duration::from_secs(119)).await;
        let repeat = desk.handle.submit(request("web", Lane::Foreground)).await.expect("a ticket");
        assert_eq!(repeat.operation_id(), id);
        assert!(matches!(repeat.outcome().await, Ok(Outcome::Accepted { .. })), "told how the first one ended");
        desk.wait_until(Duration::from_secs(121)).await;
        let second = desk.handle.submit(request("web", Lane::Foreground)).await.expect("a ticket");
        assert_ne!(second.operation_id(), id);
        assert!(matches!(second.outcome().await, Ok(Outcome::Accepted { .. })));
        assert_eq!(desk.copies_and_requests(), (2, 2));
    });
}
