//! The oldest operation that could go, and what is left to it.

use std::time::Duration;

use mailweir::engine::{OperationState, Sent};
use mailweir::scheduler::{HoldScope, Order};
use mailweir::store::{OperationQuery, Remaining};
use mailweir::transport::{Answer, Verdict};
use mailweir::{Lane, Outcome};
use tokio::time::sleep;

use crate::support::*;

/// A gateway that answers every attempt with 503, of which nobody knows how far it got.
fn failing() -> Scripted {
    Scripted::new(|_| async {
        Answer { status: Some(503), ..Verdict::Transient { sent: Sent::Maybe, retry_after: None }.into() }
    })
}

#[test]
fn the_oldest_operation_is_told_with_its_last_status_and_what_is_left_to_it() {
    paused(|| async {
        let scheduler = start(unlimited(), failing()).await;
        let handle = scheduler.handle();
        assert_eq!(handle.oldest(Lane::Foreground).await.expect("a store"), None);
        let first = handle.submit(foreground("one")).await.expect("stored");
        sleep(Duration::from_micros(1)).await;
        handle.hold(HoldScope::All, Order::new("a test")).await.expect("held");
        let second = handle.submit(foreground("two")).await.expect("stored");
        let found = handle.oldest(Lane::Foreground).await.expect("a store").expect("a held one");
        assert_eq!(&*found.id, "two", "the first one backs off");
        let whole = Remaining { attempts: 8, time: Duration::from_secs(86_400) };
        assert!(whole.time - handle.remaining(&found).time < Duration::from_secs(1));
        assert_eq!(handle.remaining(&found).attempts, whole.attempts);

        sleep(Duration::from_secs(5)).await;
        let found = handle.oldest(Lane::Foreground).await.expect("a store").expect("its backoff is over");
        assert_eq!((&*found.id, found.state, found.last_status), ("one", OperationState::Deferred, Some(503)));
        assert!(found.next_at.is_some_and(|at| at > found.submitted_at && at.since(START) < Duration::from_secs(5)));
        let left = handle.remaining(&found);
        assert_eq!(left.attempts, 7);
        assert!(whole.time - left.time >= Duration::from_secs(5), "{left:?}");
        assert!(whole.time - left.time < Duration::from_secs(6), "{left:?}");
        assert_eq!(handle.oldest_of(MAILBOX, Lane::Foreground).await.expect("a store").as_ref(), Some(&found));
        assert_eq!(handle.oldest_of("nobody@contoso.example", Lane::Foreground).await.expect("a store"), None);
        assert_eq!(handle.oldest(Lane::Background).await.expect("a store"), None);
        drop((first, second));

        let mut fewer = unlimited();
        fewer.retry.attempts_max = 3.try_into().expect("not zero");
        handle.reconfigure(fewer).await.expect("allowed");
        assert_eq!(handle.remaining(&found).attempts, 2, "by the policy in force");
    });
}

#[test]
fn nothing_is_left_to_what_has_ended() {
    paused(|| async {
        let scheduler = start(unlimited(), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let ticket = handle.submit(foreground("one")).await.expect("stored");
        assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
        sleep(Duration::from_secs(1)).await;
        assert_eq!(handle.oldest(Lane::Foreground).await.expect("a store"), None);
        let all = handle.operations(OperationQuery::default()).await.expect("a store");
        let left: Vec<_> = all.iter().map(|record| handle.remaining(record)).collect();
        assert_eq!(left, [Remaining { attempts: 0, time: Duration::ZERO }]);
    });
}
