//! Answers that no repeat changes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use mailweir::engine::{OperationState, Subject};
use mailweir::scheduler::{HoldScope, Order, Scheduler};
use mailweir::telemetry::EventKind;
use mailweir::transport::{Answer, Attempt, Transport, Verdict};
use mailweir::{Outcome, SchedulerHandle};

use crate::support::*;

/// Answers the first attempts with a status of Graph, as Graph's parser judges it, and accepts from then on.
#[derive(Clone, Debug)]
struct Refusing {
    status: u16,
    left: Arc<AtomicUsize>,
    sent: Arc<Mutex<Vec<String>>>,
}

impl Transport for Refusing {
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Answer> {
        self.sent.lock().expect("not poisoned").push(attempt.operation_id.to_string());
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        let answer = match left {
            Ok(_) => mailweir::signals::judge(self.status, &Default::default(), b""),
            Err(_) => Verdict::Accepted.into(),
        };
        Box::pin(async move { answer })
    }
}

async fn refusing(status: u16, times: usize) -> (Refusing, Scheduler, SchedulerHandle) {
    let transport = Refusing { status, left: Arc::new(AtomicUsize::new(times)), sent: Arc::default() };
    let clock = Arc::new(mailweir::clock::TokioClock::starting_at(START));
    let builder = Scheduler::builder(unlimited(), transport.clone()).clock(clock).seeds([1, 2]);
    let scheduler = builder.start_on_current_thread().await.expect("the scheduler starts");
    let handle = scheduler.handle();
    (transport, scheduler, handle)
}

#[test]
fn an_email_that_is_refused_for_good_is_rejected_and_the_next_one_goes() {
    for status in [400, 413, 422] {
        paused(|| async move {
            let (transport, _scheduler, handle) = refusing(status, 1).await;
            let mut events = handle.events();
            let ticket = handle.submit(reset("one")).await.expect("stored");
            let outcome = ticket.outcome().await.expect("an outcome");
            assert_eq!(outcome, Outcome::Rejected { of: Subject::Message, status: Some(status) });
            let record = handle.operation("one").await.expect("a store").expect("stored");
            assert_eq!((record.state, record.last_status), (OperationState::Rejected, Some(status)), "transition 12");
            let event = events.next().await.expect("an event").expect("none missed").kind;
            let finished = matches!(event, EventKind::AttemptFinished { outcome: "permanent", status: Some(s), .. } if s == status);
            assert!(finished, "{event:?}");
            let next = handle.submit(reset("two")).await.expect("stored");
            assert!(matches!(next.outcome().await, Ok(Outcome::Accepted { .. })));
            tokio::time::sleep(60 * MINUTE).await;
            assert_eq!(*transport.sent.lock().expect("not poisoned"), ["one", "two"], "never repeated");
        });
    }
}

#[test]
fn a_refused_account_or_mailbox_keeps_its_operations_until_a_person_resumes_it() {
    for status in [401, 403, 404] {
        paused(|| async move {
            let (transport, _scheduler, handle) = refusing(status, 1).await;
            let mut events = handle.events();
            let one = handle.submit(reset("one")).await.expect("stored");
            let two = handle.submit(reset("two").deadline(24 * 60 * MINUTE)).await.expect("stored");
            tokio::time::sleep(60 * MINUTE).await;
            let record = handle.operation("one").await.expect("a store").expect("stored");
            assert_eq!((record.state, record.attempts), (OperationState::Deferred, 0), "transition 13");
            let suspended = std::iter::from_fn(|| futures::FutureExt::now_or_never(events.next()).flatten())
                .filter_map(Result::ok)
                .find(|event| event.kind.name() == "mailbox.sends.suspended");
            assert!(suspended.is_some(), "{status}: said once, as an error");
            let resent = transport.sent.lock().expect("not poisoned").iter().filter(|id| *id == "one").count();
            assert_eq!(resent, 1, "an hour of nothing");
            handle.resume(HoldScope::Mailbox(MAILBOX.into()), Order::new("done")).await.expect("resumed");
            for ticket in [one, two] {
                assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
            }
        });
    }
}
