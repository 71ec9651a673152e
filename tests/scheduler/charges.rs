//! What is judged at the door counts all that was taken in before, and all that an attempt does.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use mailweir::clock::{Clock, TokioClock};
use mailweir::engine::mailbox::Refusal;
use mailweir::engine::{Answer, Lane, ScopeKind, Sent, Subject, Throttle, ThrottleKind, Verdict};
use mailweir::store::{MemoryStore, Store};
use mailweir::transport::{Attempt, Transport};
use mailweir::{Cost, Scheduler, SubmitError};

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

fn with(text: &str) -> mailweir::engine::Limit {
    text.parse().expect("a limit")
}

/// What the mailbox's windows hold after an attempt that ended so: before a restart, and after it.
async fn used_around_a_restart(verdict: Verdict) -> [Vec<u64>; 2] {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(START));
    let limits = ["100 requests / 24h", "10000 recipients / 24h", "9000 external recipients / 24h", "50MB / 24h"];
    let config = unlimited().mailbox_limits(limits.map(with));
    let told = verdict.clone();
    let transport = Scripted::new(move |_| {
        let answer = Answer::from(told.clone());
        async move { answer }
    })
    .begin();
    let mut used = Vec::new();
    for life in 0..2 {
        let built = Scheduler::builder(config.clone(), transport.clone()).clock(Arc::clone(&clock));
        let scheduler = built.store(Arc::clone(&store)).start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        if life == 0 {
            let cost = Cost { requests: 1, recipients: 500, external_recipients: 300, quota_units: 0, bytes: 4_096 };
            drop(handle.submit(foreground("one").cost(cost)).await.expect("taken in"));
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert_eq!(transport.count(), 1, "{verdict:?}");
        }
        let windows = handle.mailbox(MAILBOX).await.expect("facts").windows;
        used.push(windows.iter().map(|window| window.used.iter().sum()).collect::<Vec<u64>>());
        let _ = scheduler.shutdown().await;
    }
    used.try_into().expect("two lives")
}

#[test]
fn a_restart_charges_what_was_charged_before_it_however_the_attempt_ended() {
    paused(|| async {
        let throttled =
            |scope, kind| Verdict::Throttled(Throttle { retry_after: Some(Duration::from_secs(600)), scope, kind });
        let transient = |sent| Verdict::Transient { sent, retry_after: Some(Duration::from_secs(600)) };
        let (rate, crowded) = (ThrottleKind::Rate, ThrottleKind::Concurrency);
        for (verdict, expected) in [
            (Verdict::Accepted, [1, 500, 300, 4_096]),
            (Verdict::Permanent { of: Subject::Message }, [1, 0, 0, 4_096]),
            (throttled(None, rate), [1, 500, 300, 4_096]),
            (throttled(Some(ScopeKind::Application), rate), [1, 0, 0, 0]),
            (throttled(Some(ScopeKind::Tenant), ThrottleKind::Quota), [1, 0, 0, 0]),
            (throttled(None, crowded), [1, 0, 0, 0]),
            (transient(Sent::No), [0, 0, 0, 0]),
            (transient(Sent::Maybe), [1, 500, 300, 4_096]),
            (Verdict::Unknown, [1, 500, 300, 4_096]),
        ] {
            let [before, after] = used_around_a_restart(verdict.clone()).await;
            assert_eq!(before, expected, "{verdict:?}, before");
            let nothing = |used: &[u64]| used.iter().all(|used| *used == 0);
            assert!(after == before || (nothing(&after) && nothing(&before)), "{verdict:?}: {after:?}, not {before:?}");
        }
    });
}

/// What was rejected gave its recipients back, to the application too, and a restart does not take them again.
#[test]
fn recipients_of_rejected_emails_are_free_after_a_restart() {
    paused(|| async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(START));
        let limits = || [with("10000 recipients / 24h")];
        let config = unlimited().mailbox_limits(limits()).application_limits(limits());
        let refusing = Scripted::new(|_| async { Answer::from(Verdict::Permanent { of: Subject::Message }) }).begin();
        let cost = Cost { requests: 1, recipients: 500, external_recipients: 0, quota_units: 0, bytes: 1_000 };
        for (life, transport) in [refusing, Scripted::accepting()].into_iter().enumerate() {
            let built = Scheduler::builder(config.clone(), transport.clone()).clock(Arc::clone(&clock));
            let scheduler = built.store(Arc::clone(&store)).start_on_current_thread().await.expect("starts");
            for n in 0..18 {
                let ticket = scheduler.handle().submit(foreground(&format!("{life}-{n}")).cost(cost)).await;
                ticket.expect("taken in").outcome().await.expect("an outcome");
            }
            assert_eq!(transport.count(), 18);
            assert!(clock.now().since(START) < Duration::from_secs(3_600), "nothing waited for a window");
            let _ = scheduler.shutdown().await;
        }
    });
}
