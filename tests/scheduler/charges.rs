//! What is judged at the door counts all that was taken in before, and all that an attempt does.

use std::time::Duration;

use futures::future::BoxFuture;
use mailweir::engine::mailbox::Refusal;
use mailweir::engine::{Answer, Lane};
use mailweir::transport::{Attempt, Transport};
use mailweir::{Cost, SubmitError};

use crate::support::*;

#[test]
fn a_burst_of_callers_who_bear_no_wait_is_taken_in_as_far_as_the_window_goes() {
    paused(|| async {
        let scheduler = start(limited("2 requests / 1m"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let burst = (0..10).map(|n| foreground(&format!("now-{n}")).max_wait(Duration::from_secs(5)));
        let answers = handle.submit_many(burst).await;
        let taken = answers.iter().filter(|answer| answer.is_ok()).count();
        assert_eq!(taken, 2);
        let too_long =
            |error: &SubmitError| matches!(error, SubmitError::Refused { refusal: Refusal::WaitTooLong { .. }, .. });
        assert!(answers.iter().filter_map(|answer| answer.as_ref().err()).all(too_long), "{answers:?}");
    });
}

/// A transport whose every attempt is two requests.
#[derive(Debug)]
struct Doubled(Scripted);

impl Transport for Doubled {
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Answer> {
        self.0.send(attempt)
    }

    fn cost(&self, counted: Cost) -> Cost {
        Cost { requests: 2, ..counted }
    }
}

#[test]
fn a_named_cost_counts_the_requests_that_the_transport_makes() {
    paused(|| async {
        let scheduler = start(limited("2 requests / 1m"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let none = foreground("none").cost(Cost { requests: 0, ..Cost::ONE_REQUEST });
        let error = handle.submit(none).await.expect_err("it would go past every limit");
        assert!(error.to_string().contains("cost.requests is 0"), "{error}");
        let permit = handle.acquire(MAILBOX, Cost { requests: 0, ..Cost::ONE_REQUEST }, Lane::Foreground).await;
        assert!(permit.is_err_and(|error| error.to_string().contains("cost.requests is 0")));
        scheduler.shutdown().await;
        let scheduler = start(limited("2 requests / 1m"), Doubled(Scripted::accepting())).await;
        let handle = scheduler.handle();
        let named = Cost { external_recipients: 1, ..Cost::ONE_REQUEST };
        let ticket = handle.submit(foreground("named").cost(named)).await.expect("room");
        ticket.outcome().await.expect("sent");
        assert_eq!(handle.mailbox(MAILBOX).await.expect("facts").windows[0].used.iter().sum::<u64>(), 2);
    });
}
