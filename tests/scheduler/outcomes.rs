//! How operations end, and what follows a throttle, a failure, a timeout.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use mailweir::engine::breaker::BreakerState;
use mailweir::engine::plan::EMAIL;
use mailweir::engine::{Cost, Lane, OperationState, Scope, Sent, Subject};
use mailweir::telemetry::EventKind;
use mailweir::transport::{Answer, Attempt, Transport, Verdict};
use mailweir::{Outcome, Submission};

use crate::support::*;

/// Answers the n-th attempt with the n-th verdict, and accepts from then on.
fn verdicts(list: Vec<Verdict>) -> Scripted {
    let next = AtomicU32::new(0);
    Scripted::new(move |_| {
        let at = next.fetch_add(1, Ordering::Relaxed) as usize;
        let verdict = list.get(at).cloned().unwrap_or(Verdict::Accepted);
        async move { verdict.into() }
    })
    .begin()
}

#[test]
fn a_throttle_opens_one_cooldown_and_costs_no_attempt() {
    paused(|| async {
        let wait = Duration::from_secs(20);
        let transport = verdicts(vec![throttled(Some(wait))]);
        let scheduler = start(unlimited(), transport.clone()).await;
        let handle = scheduler.handle();
        let ticket = handle.submit(foreground("one")).await.expect("taken in");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let breakers = handle.breakers().await.expect("an answer");
        assert_eq!(breakers.len(), 1);
        assert_eq!(breakers[0].0, Scope::Mailbox(MAILBOX.into()));
        assert_eq!(breakers[0].1.state, BreakerState::Open);
        let explained = handle.explain("one").await.expect("an answer");
        assert!(explained.iter().any(|constraint| constraint.binding), "{explained:?}");
        let outcome = ticket.outcome().await.expect("an outcome");
        assert!(matches!(outcome, Outcome::Accepted { attempts: 2, .. }), "{outcome:?}");
        let record = handle.operation("one").await.expect("a store").expect("stored");
        assert_eq!((record.attempts, record.rows), (0, 2));
        let gap = transport.instants()[1] - transport.instants()[0];
        assert!(gap >= wait && gap < wait + Duration::from_secs(3), "{gap:?}");
    });
}

#[test]
fn a_transient_failure_is_retried_with_backoff_until_attempts_are_used_up() {
    paused(|| async {
        let transport = Scripted::new(|_| async { Verdict::Transient { sent: Sent::Maybe, retry_after: None }.into() });
        let mut config = unlimited();
        config.retry.attempts_max = 3.try_into().expect("not zero");
        let scheduler = start(config, transport.clone()).await;
        let ticket = scheduler.handle().submit(foreground("one")).await.expect("taken in");
        let outcome = ticket.outcome().await.expect("an outcome");
        assert!(matches!(outcome, Outcome::Exhausted { attempts: 3, .. }), "{outcome:?}");
        assert_eq!(transport.count(), 3);
    });
}

#[test]
fn a_permanent_answer_is_never_repeated() {
    paused(|| async {
        let answer = Answer { status: Some(400), ..Verdict::Permanent { of: Subject::Message }.into() };
        let transport = Scripted::new(move |_| {
            let answer = answer.clone();
            async move { answer }
        });
        let scheduler = start(unlimited(), transport.clone()).await;
        let ticket = scheduler.handle().submit(submission("one")).await.expect("taken in");
        let outcome = ticket.outcome().await.expect("an outcome");
        assert!(matches!(outcome, Outcome::Rejected { of: Subject::Message, status: Some(400) }), "{outcome:?}");
        assert_eq!(transport.count(), 1);
    });
}

#[test]
fn an_attempt_that_outlasts_its_deadline_is_unknown_and_not_repeated() {
    paused(|| async {
        let transport = Scripted::slow(Duration::from_secs(7_200));
        let scheduler = start(unlimited(), transport.clone()).await;
        let handle = scheduler.handle();
        let ticket = handle.submit(submission("one")).await.expect("taken in");
        assert_eq!(ticket.outcome().await, Ok(Outcome::Unknown));
        let record = handle.operation("one").await.expect("a store").expect("stored");
        assert_eq!(record.state, OperationState::Unknown);
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        let record = handle.operation("one").await.expect("a store").expect("stored");
        assert_eq!((record.state, transport.count()), (OperationState::Quarantined, 1));
    });
}

#[test]
fn a_panicking_transport_is_an_unknown_outcome_and_an_event() {
    paused(|| async {
        let transport = Scripted::new(|attempt| {
            let bad = &*attempt.operation_id == "bad";
            async move {
                assert!(!bad, "the transport's own mistake");
                Verdict::Accepted.into()
            }
        });
        let scheduler = start(unlimited(), transport.clone()).await;
        let handle = scheduler.handle();
        let mut events = handle.events();
        let bad = handle.submit(submission("bad")).await.expect("taken in");
        assert_eq!(bad.outcome().await, Ok(Outcome::Unknown));
        let good = handle.submit(submission("good")).await.expect("taken in");
        assert!(matches!(good.outcome().await, Ok(Outcome::Accepted { .. })));
        let mut panicked = 0;
        while let Some(Some(Ok(event))) = futures::FutureExt::now_or_never(events.next()) {
            panicked += usize::from(matches!(event.kind, EventKind::TransportPanicked { .. }));
        }
        assert_eq!(panicked, 1);
    });
}

#[test]
fn background_yields_to_foreground_that_comes_later() {
    paused(|| async {
        let transport = Scripted::accepting().begin();
        let scheduler = start(limited("10 requests / 1m"), transport.clone()).await;
        let handle = scheduler.handle();
        let campaign = (0..30).map(|n| submission(&format!("bg-{n:02}")));
        let campaign = handle.submit_many(campaign).await;
        assert!(campaign.iter().all(Result::is_ok));
        tokio::time::sleep(Duration::from_secs(30)).await;
        let ticket = handle.submit(foreground("fg")).await.expect("taken in");
        assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
        let ids = transport.ids();
        assert_eq!(ids.last().map(String::as_str), Some("fg"), "{ids:?}");
        assert!(ids.len() < 30);
    });
}

#[test]
fn no_window_is_exceeded_by_a_flood() {
    paused(|| async {
        let transport = Scripted::slow(Duration::from_millis(300)).begin();
        let scheduler = start(limited("10 requests / 1m"), transport.clone()).await;
        let handle = scheduler.handle();
        let flood = handle.submit_many((0..60).map(|n| foreground(&format!("fg-{n:02}")))).await;
        for ticket in flood {
            let outcome = ticket.expect("taken in").outcome().await.expect("an outcome");
            assert!(matches!(outcome, Outcome::Accepted { .. }));
        }
        let instants = transport.instants();
        assert_eq!(instants.len(), 60);
        for window in instants.windows(11) {
            assert!(window[10] - window[0] >= Duration::from_secs(60), "{window:?}");
        }
    });
}

/// Takes batches, and answers the items whose id ends in an odd digit with a rejection.
#[derive(Clone, Debug, Default)]
struct Batching {
    sizes: Arc<std::sync::Mutex<Vec<usize>>>,
}

impl Transport for Batching {
    fn send(&self, _: Attempt) -> BoxFuture<'_, Answer> {
        Box::pin(async { Verdict::Unknown.into() })
    }

    fn batch_max(&self) -> usize {
        20
    }

    fn send_many(&self, attempts: Vec<Attempt>) -> BoxFuture<'_, Vec<Answer>> {
        self.sizes.lock().expect("not poisoned").push(attempts.len());
        let judge = |attempt: &Attempt| match attempt.operation_id.as_bytes().last() {
            Some(digit) if digit % 2 == 1 => Verdict::Permanent { of: Subject::Message }.into(),
            _ => Verdict::Accepted.into(),
        };
        let answers = attempts.iter().map(judge).collect();
        Box::pin(async move { answers })
    }
}

#[test]
fn each_item_of_a_batch_has_its_own_outcome() {
    paused(|| async {
        let transport = Batching::default();
        let scheduler = start(unlimited(), transport.clone()).await;
        let answers = scheduler.handle().submit_many((0..50).map(|n| submission(&format!("item-{n:02}")))).await;
        for (n, ticket) in answers.into_iter().enumerate() {
            let outcome = ticket.expect("taken in").outcome().await.expect("an outcome");
            assert_eq!(matches!(outcome, Outcome::Rejected { .. }), n % 2 == 1, "{n}: {outcome:?}");
        }
        let sizes = transport.sizes.lock().expect("not poisoned").clone();
        assert!(sizes.iter().all(|size| *size <= 20), "{sizes:?}");
        assert!(sizes.len() < 50, "batches were used: {sizes:?}");
    });
}

/// Takes two requests for each email.
#[derive(Debug)]
struct InTwo;

impl Transport for InTwo {
    fn send(&self, _: Attempt) -> BoxFuture<'_, Answer> {
        Box::pin(async { Verdict::Accepted.into() })
    }

    fn cost(&self, counted: Cost) -> Cost {
        Cost { requests: 2, ..counted }
    }
}

#[test]
fn a_live_plan_counts_the_requests_of_the_transport() {
    paused(|| async {
        let scheduler = start(limited("30 requests / 1m"), InTwo).await;
        let plan = scheduler.handle().plan(300, MAILBOX, Lane::Background).await.expect("a plan");
        let two = plan.forecast().takes().expect("it finishes").as_secs_f64();
        let one = plan.cost(EMAIL).forecast().takes().expect("it finishes").as_secs_f64();
        assert!((1.9..2.3).contains(&(two / one)), "{two} s, {one} s");
    });
}

#[test]
fn mailboxes_do_not_wait_for_each_other() {
    paused(|| async {
        let transport = Scripted::accepting();
        let scheduler = start(limited("1 requests / 1h"), transport.clone()).await;
        let handle = scheduler.handle();
        for n in 0..50 {
            let from = Submission::new(format!("m{n}@example.org"), email());
            let ticket = handle.submit(from).await.expect("taken in");
            assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
        }
        assert_eq!(transport.count(), 50);
    });
}
