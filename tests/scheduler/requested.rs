//! What a person was told would follow the end of an attempt follows it, whatever becomes of the process meanwhile.

use std::time::Duration;

use futures::future::{BoxFuture, ready};
use mailweir::Outcome;
use mailweir::config::Config;
use mailweir::engine::OperationState;
use mailweir::engine::policy::DuplicatePolicy;
use mailweir::scheduler::{Order, OrderAnswer, SchedulerHandle};
use mailweir::store::{NoteKind, Store};
use mailweir::transport::{Answer, Attempt, Transport, Verdict};

use crate::lives::Lives;
use crate::support::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Loses every first attempt, and knows later that nothing arrived.
#[derive(Clone, Debug)]
struct Losing(Scripted);

impl Transport for Losing {
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Answer> {
        self.0.send(attempt)
    }

    fn reconcile(&self, _: Attempt) -> BoxFuture<'_, Option<bool>> {
        Box::pin(ready(Some(false)))
    }
}

fn losing() -> Losing {
    Losing(Scripted::new(|attempt| {
        let verdict = if attempt.number == 1 { Verdict::Unknown } else { Verdict::Accepted };
        async move { verdict.into() }
    }))
}

fn at_least_once() -> Config {
    let mut config = unlimited();
    config.retry.duplicates = DuplicatePolicy::AtLeastOnce;
    config
}

/// One operation of which nobody knows, and which a person wants to end.
async fn asked_for(handle: &SchedulerHandle) {
    drop(handle.submit(foreground("one")).await.expect("taken in"));
    tokio::time::sleep(MINUTE / 2).await;
    let answer = handle.cancel("one", Order::new("wrong list").by("kim")).await.expect("an answer");
    assert_eq!(answer, OrderAnswer::Requested { state: OperationState::Unknown });
}

/// Cancelled in its row and for whoever asks by submitting it again, and both say whether it may have been sent.
async fn assert_cancelled(handle: &SchedulerHandle, maybe_sent: bool) {
    let row = handle.operation("one").await.expect("a store").expect("stored");
    assert_eq!((row.state, row.maybe_sent), (OperationState::Cancelled, maybe_sent));
    let again = handle.submit(foreground("one")).await.expect("the same operation");
    assert_eq!(again.outcome().await, Ok(Outcome::Cancelled { maybe_sent }));
    let words = row.order.expect("said by somebody");
    assert_eq!((&*words.reason, words.by.as_deref()), ("wrong list", Some("kim")));
}

#[test]
fn a_cancellation_that_was_promised_outlives_a_kill_and_nothing_is_sent_after_it() {
    paused(|| async {
        let (mut lives, first, second) = (Lives::new(), losing(), losing());
        asked_for(&lives.begin_with(at_least_once(), first.clone()).await).await;
        let handle = lives.begin_with(at_least_once(), second.clone()).await;
        tokio::time::sleep(MINUTE * 60).await;
        assert_eq!((first.0.count(), second.0.count()), (1, 0), "sent again after its cancellation was promised");
        assert_cancelled(&handle, false).await;
        let left = lives.store().recover(START, None).await.expect("a store").notes;
        assert!(left.iter().all(|note| note.key.kind != NoteKind::Request), "{left:?}");
    });
}

#[test]
fn a_promised_cancellation_of_what_nobody_can_look_up_ends_cancelled_with_its_words() {
    paused(|| async {
        let (mut lives, transport) = (Lives::new(), losing().0);
        let handle = lives.begin(unlimited(), &transport).await;
        asked_for(&handle).await;
        tokio::time::sleep(MINUTE * 60).await;
        assert_cancelled(&handle, true).await;
        assert_eq!(transport.count(), 1);
    });
}

#[test]
fn a_promised_quarantine_outlives_a_kill() {
    paused(|| async {
        let (mut lives, transport) = (Lives::new(), Scripted::slow(MINUTE / 2));
        let handle = lives.begin(at_least_once(), &transport).await;
        drop(handle.submit(foreground("one")).await.expect("taken in"));
        tokio::time::sleep(MINUTE / 6).await;
        let answer = handle.quarantine("one", Order::new("a look")).await.expect("an answer");
        assert_eq!(answer, OrderAnswer::Requested { state: OperationState::Attempting });
        let handle = lives.begin(at_least_once(), &transport).await;
        tokio::time::sleep(MINUTE).await;
        let row = handle.operation("one").await.expect("a store").expect("stored");
        assert_eq!(row.state, OperationState::Quarantined);
        assert_eq!(&*row.order.expect("said by somebody").reason, "a look");
    });
}
