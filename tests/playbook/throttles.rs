//! An ordinary 429, and a budget that is used up.

use std::time::Duration;

use mailweir::engine::{Limit, OperationState};
use mailweir::telemetry::EventKind;
use mailweir::{Outcome, SubmitError};

use crate::support::*;

#[test]
fn an_ordinary_429_defers_the_operation_for_the_time_it_names_and_costs_no_attempt() {
    paused(|| async {
        let mut model = model();
        model.blocks = vec![block(Duration::from_secs(20))];
        let mut desk = Desk::new(unlimited(), model).await;
        let ticket = desk.handle.submit(reset("one")).await.expect("stored");
        desk.wait_until(Duration::from_secs(5)).await;
        let record = desk.record("one").await;
        assert_eq!((record.state, record.attempts, record.rows), (OperationState::Deferred, 0, 1));
        assert_eq!(record.last_status, Some(429));
        let next_at = record.next_at.expect("an instant");
        assert!(next_at >= START.after(Duration::from_secs(20)), "{next_at}: the provider's wait and a margin");
        let waits = desk.handle.explain("one").await.expect("an answer");
        assert!(waits.iter().any(|constraint| constraint.binding), "{waits:?}");
        let events = desk.events();
        let opened = events.iter().find_map(|kind| match kind {
            EventKind::BreakerOpened { cooldown, waiting, .. } => Some((*cooldown, *waiting)),
            _ => None,
        });
        let (cooldown, _) = opened.expect("the breaker opened");
        assert!(cooldown >= Duration::from_secs(20) && cooldown < Duration::from_secs(22), "{cooldown:?}");
        let outcome = ticket.outcome().await.expect("an outcome");
        assert!(matches!(outcome, Outcome::Accepted { attempts: 2, .. }), "{outcome:?}");
        assert!(desk.names().contains(&"breaker.scope.half_opened"), "it went as the probe");
        assert_eq!(desk.copies_and_requests(), (1, 2));
    });
}

#[test]
fn an_exhausted_budget_makes_a_send_wait_without_asking_the_provider() {
    paused(|| async {
        let limit: Limit = "1 requests / 1m".parse().expect("a limit");
        let mut config = unlimited();
        config.mailbox.limits = vec![limit];
        let mut desk = Desk::new(config, model()).await;
        let first = desk.handle.submit(reset("one")).await.expect("stored");
        assert!(matches!(first.outcome().await, Ok(Outcome::Accepted { .. })));
        let hurried = reset("hurried").max_wait(Duration::from_secs(10));
        let refused = desk.handle.submit(hurried).await.expect_err("it would wait a minute");
        assert!(matches!(refused, SubmitError::Refused { .. }) && refused.retry_after().is_some(), "{refused}");
        let hopeless = reset("hopeless").deadline(Duration::from_secs(10));
        let refused = desk.handle.submit(hopeless).await.expect_err("never in time");
        assert_eq!((refused.field(), refused.is_retryable()), (Some("deadline"), false));
        let second = desk.handle.submit(reset("two")).await.expect("stored");
        desk.wait_until(Duration::from_secs(30)).await;
        let record = desk.record("two").await;
        assert_eq!((record.state, record.attempts, record.rows), (OperationState::Queued, 0, 0), "a wait uses none");
        assert_eq!(desk.copies_and_requests(), (1, 1));
        let outcome = second.outcome().await.expect("an outcome");
        assert!(matches!(outcome, Outcome::Accepted { attempts: 1, .. }), "{outcome:?}");
        let names = desk.names();
        assert!(names.contains(&"budget.reservation.denied"), "{names:?}");
        assert!(!names.contains(&"breaker.scope.opened"), "O: a local wait never feeds the breaker");
    });
}

#[test]
fn throttles_until_the_deadline_exhaust_the_operation_and_say_why() {
    paused(|| async {
        let mut model = model();
        model.blocks = vec![block(Duration::from_secs(7_200))];
        let mut desk = Desk::new(unlimited(), model).await;
        let ticket = desk.handle.submit(reset("one").deadline(10 * MINUTE)).await.expect("stored");
        let outcome = ticket.outcome().await.expect("an outcome");
        assert!(
            matches!(outcome, Outcome::Exhausted { attempts: 0, throttled: Some(_), maybe_sent: false }),
            "{outcome:?}"
        );
        assert_eq!(desk.state("one").await, OperationState::Exhausted);
        assert!(desk.attempts().iter().all(|attempt| *attempt == ("throttled", Some(429))));
        assert_eq!(desk.copies_and_requests().0, 0);
    });
}

#[test]
fn attempts_that_fail_for_another_reason_are_used_up_one_by_one() {
    paused(|| async {
        let mut model = model();
        model.faults.error_after_charge = mailweir::upstream::Schedule::always(mailweir::engine::Ratio::ONE);
        let mut config = unlimited();
        config.retry.attempts_max = 3.try_into().expect("not zero");
        let mut desk = Desk::new(config, model).await;
        let ticket = desk.handle.submit(reset("one")).await.expect("stored");
        let outcome = ticket.outcome().await.expect("an outcome");
        assert!(
            matches!(outcome, Outcome::Exhausted { attempts: 3, throttled: None, maybe_sent: false }),
            "{outcome:?}"
        );
        let record = desk.record("one").await;
        assert_eq!((record.state, record.attempts, record.last_status), (OperationState::Exhausted, 3, Some(503)));
        assert_eq!(desk.attempts(), [("transient", Some(503)); 3]);
        assert_eq!(desk.copies_and_requests(), (0, 3));
    });
}
