//! Answers that get lost. Whatever happens on the way, the provider has one copy or none, and the state says which is
//! known.

use std::time::Duration;

use mailweir::Outcome;
use mailweir::config::Config;
use mailweir::engine::policy::DuplicatePolicy;
use mailweir::engine::{OperationState, Ratio};
use mailweir::upstream::{LogNormal, Model, Schedule};

use crate::support::*;

fn at_least_once() -> Config {
    let mut config = unlimited();
    config.retry.duplicates = DuplicatePolicy::AtLeastOnce;
    config
}

/// The first attempt meets a fault.
fn faulty(set: fn(&mut Model) -> &mut Schedule<Ratio>) -> Model {
    let mut model = model();
    *set(&mut model) = at_first();
    model
}

/// A reset whose first attempt was lost: its ticket says so, and nothing is sent meanwhile.
async fn lost(desk: &mut Desk, status: Option<u16>) {
    let ticket = desk.handle.submit(reset("one")).await.expect("stored");
    assert_eq!(ticket.outcome().await, Ok(Outcome::Unknown), "said at once, as what it is");
    let record = desk.record("one").await;
    assert_eq!((record.state, record.attempts, record.rows), (OperationState::Unknown, 0, 1));
    assert_eq!(desk.attempts(), [("unknown", status)]);
}

async fn assert_found(mut desk: Desk, status: Option<u16>, by: Duration) {
    lost(&mut desk, status).await;
    desk.wait_until(by).await;
    assert_eq!(desk.state("one").await, OperationState::Accepted, "transition 9");
    desk.wait_until(Duration::from_secs(7_200)).await;
    assert_eq!(desk.copies_and_requests(), (1, 1), "never repeated");
}

#[test]
fn a_timeout_after_acceptance_is_unknown_and_then_found() {
    paused(|| async {
        let desk = Desk::new(unlimited(), faulty(|model| &mut model.faults.response_lost)).await;
        // A minute until the attempt is given up, a minute until the first look.
        assert_found(desk, None, Duration::from_secs(125)).await;
    });
}

#[test]
fn a_504_after_acceptance_is_unknown_and_then_found() {
    paused(|| async {
        let desk = Desk::new(unlimited(), faulty(|model| &mut model.faults.timeout_after_acceptance)).await;
        assert_found(desk, Some(504), Duration::from_secs(65)).await;
    });
}

#[test]
fn a_connection_cut_after_the_body_is_unknown_and_then_found() {
    paused(|| async {
        let desk = Desk::new(unlimited(), faulty(|model| &mut model.faults.cut_after_body)).await;
        assert_found(desk, None, Duration::from_secs(65)).await;
    });
}

#[test]
fn a_response_that_comes_too_late_is_unknown_and_then_found() {
    paused(|| async {
        let mut model = model();
        model.latency.service = LogNormal::new(Duration::from_secs(90), Ratio::ZERO);
        let desk = Desk::new(unlimited(), model).await;
        assert_found(desk, None, Duration::from_secs(125)).await;
    });
}

#[test]
fn a_connection_cut_before_the_body_is_unknown_and_set_aside_where_duplicates_are_forbidden() {
    paused(|| async {
        let mut desk = Desk::new(unlimited(), faulty(|model| &mut model.faults.cut_before_body)).await;
        lost(&mut desk, None).await;
        desk.wait_until(29 * MINUTE).await;
        assert_eq!(desk.state("one").await, OperationState::Unknown, "absent, and yet not sent again");
        desk.wait_until(31 * MINUTE).await;
        assert_eq!(
            desk.state("one").await,
            OperationState::Unknown,
            "it was looked for once more, and may still be found"
        );
        desk.wait_until(32 * MINUTE).await;
        assert_eq!(desk.state("one").await, OperationState::Quarantined, "transition 11: for a person");
        assert_eq!(desk.copies_and_requests().0, 0);
    });
}

#[test]
fn a_connection_cut_before_the_body_is_repeated_once_it_was_absent_twice() {
    paused(|| async {
        let mut desk = Desk::new(at_least_once(), faulty(|model| &mut model.faults.cut_before_body)).await;
        lost(&mut desk, None).await;
        desk.wait_until(Duration::from_secs(290)).await;
        assert_eq!(desk.state("one").await, OperationState::Unknown, "absent once, at a minute");
        desk.wait_until(Duration::from_secs(310)).await;
        let record = desk.record("one").await;
        assert_eq!((record.state, record.attempts, record.rows), (OperationState::Accepted, 1, 2), "transition 10");
        assert_eq!(desk.copies_and_requests().0, 1);
    });
}

#[test]
fn an_email_that_shows_late_is_not_repeated() {
    paused(|| async {
        // Taken, and not to be seen until after the first look that counts. Absent once is not believed.
        let model = faulty(|model| &mut model.faults.timeout_after_acceptance);
        let mut desk = Desk::seeing_after(at_least_once(), model, Duration::from_secs(90)).await;
        lost(&mut desk, Some(504)).await;
        desk.wait_until(Duration::from_secs(200)).await;
        assert_eq!(desk.state("one").await, OperationState::Unknown);
        desk.wait_until(Duration::from_secs(310)).await;
        assert_eq!(desk.state("one").await, OperationState::Accepted);
        assert_eq!(desk.copies_and_requests(), (1, 1));
    });
}

#[test]
fn where_the_provider_is_known_to_show_emails_late_no_look_before_that_counts() {
    for (declared, copies) in [(Duration::from_secs(400), 1), (MINUTE, 2)] {
        paused(|| async move {
            let mut config = at_least_once();
            config.transport.visibility_delay = declared;
            let model = faulty(|model| &mut model.faults.timeout_after_acceptance);
            // It shows after 390 s: looks at one and five minutes both miss it.
            let mut desk = Desk::seeing_after(config, model, Duration::from_secs(390)).await;
            lost(&mut desk, Some(504)).await;
            desk.wait_until(Duration::from_secs(900)).await;
            assert_eq!(desk.state("one").await, OperationState::Accepted);
            assert_eq!(desk.copies_and_requests().0, copies, "{declared:?}: the setting is what prevents the second");
        });
    }
}

#[test]
fn a_provider_that_remembers_gets_a_lost_email_again_within_the_horizon_and_not_after_it() {
    for (horizon, state) in [(10, OperationState::Accepted), (1, OperationState::Unknown)] {
        paused(|| async move {
            let mut config = at_least_once();
            config.retry.horizon = horizon * MINUTE;
            config.transport.dedupe_window = Some(60 * MINUTE);
            let mut desk = Desk::new(config, faulty(|model| &mut model.faults.cut_before_body)).await;
            let _ticket = desk.handle.submit(reset("one")).await.expect("stored");
            // The lost attempt counts as live for 65 s.
            desk.wait_until(Duration::from_secs(100)).await;
            assert_eq!(desk.state("one").await, state, "{horizon} min");
            let attempts = desk.attempts();
            assert_eq!(attempts.len(), if state == OperationState::Accepted { 2 } else { 1 }, "{attempts:?}");
        });
    }
}

#[test]
fn a_202_with_a_retry_after_is_accepted_and_opens_nothing() {
    paused(|| async {
        let mut desk = Desk::new(unlimited(), faulty(|model| &mut model.faults.accepted_with_retry_after)).await;
        let ticket = desk.handle.submit(reset("one")).await.expect("stored");
        let outcome = ticket.outcome().await.expect("an outcome");
        assert!(matches!(outcome, Outcome::Accepted { attempts: 1, .. }), "{outcome:?}");
        let next = desk.handle.submit(reset("two")).await.expect("stored");
        assert!(matches!(next.outcome().await, Ok(Outcome::Accepted { attempts: 1, .. })));
        assert!(desk.clock_since_start() < Duration::from_secs(1), "the next one did not wait");
        let names = desk.names();
        assert!(!names.contains(&"breaker.scope.opened"), "{names:?}");
        assert_eq!(desk.copies_and_requests(), (2, 2));
    });
}
