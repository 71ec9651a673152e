//! Callers who stop waiting while their submissions wait for a store call.

use std::time::Duration;

use mailweir::{Scheduler, Submission, SubmitError};
use tokio::time::{sleep, timeout};

use crate::faulty::Faulty;
use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);
/// How long a commit takes.
const COMMIT: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_millis(100);

/// A scheduler in the middle of a commit, in which "first" is stored.
async fn in_a_commit(config: mailweir::Config, store: &Faulty, transport: &Scripted) -> Scheduler {
    let built = builder(config, transport.clone()).store(store.clone());
    let scheduler = built.start_on_current_thread().await.expect("starts");
    store.faults().late = Some(COMMIT);
    let handle = scheduler.handle();
    tokio::spawn(async move { handle.submit(foreground("first")).await.map(drop) });
    sleep(Duration::from_millis(10)).await;
    scheduler
}

#[test]
fn who_has_gone_before_the_store_was_asked_stores_nothing_and_sends_nothing() {
    paused(|| async {
        let (store, transport) = (Faulty::default(), Scripted::accepting());
        let scheduler = in_a_commit(unlimited(), &store, &transport).await;
        let handle = scheduler.handle();
        let one = timeout(PATIENCE, handle.submit(foreground("gone")));
        let several = timeout(PATIENCE, handle.submit_many([foreground("gone too"), foreground("and this")]));
        let (one, several) = tokio::join!(one, several);
        assert!(one.is_err() && several.is_err(), "the commit takes longer");
        // Without an id of one's own: it is believed that nothing happened.
        let again = handle.submit(Submission::new(MAILBOX, email())).await.expect("taken in");
        let again = again.operation_id().to_string();
        sleep(SECOND * 10).await;
        assert_eq!(transport.ids(), ["first".to_owned(), again]);
        assert_eq!(handle.counts().await.expect("a store").iter().sum::<u64>(), 2, "stored");
    });
}

#[test]
fn the_next_one_under_an_admission_key_takes_the_place_of_one_that_has_gone() {
    paused(|| async {
        let (store, transport) = (Faulty::default(), Scripted::accepting());
        let scheduler = in_a_commit(unlimited(), &store, &transport).await;
        let handle = scheduler.handle();
        let pressed = |id: &str| foreground(id).admission_key("button", SECOND * 600);
        let (gone, stays) = tokio::join!(timeout(PATIENCE, handle.submit(pressed("gone"))), async {
            sleep(Duration::from_millis(20)).await;
            handle.submit(pressed("stays")).await
        });
        assert!(gone.is_err(), "the commit takes longer");
        assert_eq!(&*stays.expect("taken in").operation_id(), "stays");
        sleep(SECOND * 10).await;
        assert_eq!(transport.ids(), ["first", "stays"]);
    });
}

#[test]
fn who_has_gone_takes_no_room_in_the_lane() {
    paused(|| async {
        let (store, transport) = (Faulty::default(), Scripted::accepting());
        let mut config = limited("1 requests / 1h");
        config.queue.background_max = 3;
        let scheduler = in_a_commit(config, &store, &transport).await;
        let handle = scheduler.handle();
        for id in ["gone", "gone too"] {
            assert!(timeout(PATIENCE, handle.submit(submission(id))).await.is_err(), "the commit takes longer");
        }
        sleep(SECOND * 10).await;
        for id in ["one", "two", "three"] {
            drop(handle.submit(submission(id)).await.expect("there is room"));
        }
        let refused = handle.submit(submission("four")).await.expect_err("no room for another");
        assert!(matches!(refused, SubmitError::Refused { .. } | SubmitError::QueueFull { .. }), "{refused}");
    });
}
