//! A start over a store that has its mailboxes read one by one.

use std::time::Duration;

use mailweir::scheduler::{AskError, HoldScope, Order, Scheduler};
use mailweir::{Lane, Outcome, Submission, SubmitError};
use tokio::time::timeout;

use crate::faulty::{Faulty, out_of_reach};
use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);

fn mailbox(number: usize) -> String {
    format!("box-{number}@contoso.example")
}

fn submission_of(number: usize, id: &str) -> Submission {
    Submission::new(mailbox(number), email()).operation_id(format!("{number}-{id}")).lane(Lane::Foreground)
}

/// A store in which a life that was killed has left two operations in each of `count` mailboxes, after one sent.
async fn left_behind(count: usize) -> Faulty {
    let (store, transport) = (Faulty::default(), Scripted::accepting());
    let built = builder(limited("1 requests / 1h"), transport.clone()).store(store.clone());
    let scheduler = built.start_on_current_thread().await.expect("starts");
    for number in 0..count {
        for id in ["sent", "first", "second"] {
            drop(scheduler.handle().submit(submission_of(number, id)).await.expect("taken in"));
        }
    }
    tokio::time::sleep(SECOND).await;
    assert_eq!(transport.count(), count, "one of each mailbox");
    store
}

async fn next_life(store: &Faulty, transport: &Scripted) -> Scheduler {
    let built = builder(unlimited(), transport.clone()).store(store.apart(SECOND));
    built.start_on_current_thread().await.expect("starts")
}

#[test]
fn the_first_mailboxes_send_while_others_are_read_and_none_is_forgotten() {
    paused(|| async {
        let (store, transport) = (left_behind(10).await, Scripted::accepting());
        let scheduler = next_life(&store, &transport).await;
        // A reading takes a second, and a claim another one.
        for (halves, sent) in [(3, 0), (2, 8), (2, 16), (2, 20)] {
            tokio::time::sleep(halves * SECOND / 2).await;
            assert_eq!(transport.count(), sent, "four are read at once");
        }
        let ids = transport.ids();
        for number in 0..10 {
            let of_one: Vec<&String> = ids.iter().filter(|id| id.starts_with(&format!("{number}-"))).collect();
            assert_eq!(of_one, [&format!("{number}-first"), &format!("{number}-second")], "in order, each once");
        }
        scheduler.shutdown().await;
    });
}

#[test]
fn whoever_submits_or_asks_waits_until_his_mailbox_is_read() {
    paused(|| async {
        let (store, transport) = (left_behind(6).await, Scripted::accepting());
        let scheduler = next_life(&store, &transport).await;
        let handle = scheduler.handle();
        let (facts, again, new) = tokio::join!(
            handle.mailbox(mailbox(5)),
            handle.submit(submission_of(5, "first")),
            handle.submit(submission_of(5, "new")),
        );
        let facts = facts.expect("an answer");
        assert_eq!(facts.waiting[0] + facts.in_flight[0], 2, "what waited before");
        for ticket in [again, new] {
            let outcome = ticket.expect("taken in").outcome().await.expect("told");
            assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
        }
        let of_one: Vec<String> = transport.ids().into_iter().filter(|id| id.starts_with("5-")).collect();
        assert_eq!(of_one, ["5-first", "5-second", "5-new"]);
        scheduler.shutdown().await;
    });
}

#[test]
fn a_mailbox_that_cannot_be_read_says_so_and_is_read_again() {
    paused(|| async {
        let (store, transport) = (left_behind(1).await, Scripted::accepting());
        store.faults().recover = Some(out_of_reach());
        let scheduler = next_life(&store, &transport).await;
        let handle = scheduler.handle();
        tokio::time::sleep(SECOND * 3 / 2).await;
        let refused = handle.mailbox(mailbox(0)).await;
        assert!(matches!(refused, Err(AskError::NotNow { .. })), "{refused:?}");
        store.faults().recover = None;
        tokio::time::sleep(SECOND * 5).await;
        assert_eq!(transport.ids(), ["0-first", "0-second"]);
        scheduler.shutdown().await;
    });
}

#[test]
fn a_long_mailbox_goes_on_in_order_after_deaths_before_and_while_it_was_read() {
    paused(|| async {
        // Two pages and a bit.
        let ids: Vec<String> = (0..2_100).map(|number| format!("{number:04}")).collect();
        let (store, transport) = (Faulty::default(), Scripted::accepting());
        let scheduler = builder(unlimited(), transport.clone()).store(store.clone());
        let scheduler = scheduler.start_on_current_thread().await.expect("starts");
        let taken_in = scheduler.handle().submit_many(ids.iter().map(|id| in_a_minute(id))).await;
        assert!(taken_in.iter().all(Result::is_ok), "{taken_in:?}");
        drop(scheduler);
        drop(next_life(&store, &transport).await);
        let dies = next_life(&store, &transport).await;
        tokio::time::sleep(SECOND / 2).await;
        drop(dies);
        let scheduler = next_life(&store, &transport).await;
        tokio::time::sleep(SECOND * 70).await;
        assert_eq!(transport.ids(), ids, "in order, each once");
        scheduler.shutdown().await;
    });
}

#[test]
fn whoever_asks_or_orders_all_of_them_waits_for_none_that_is_being_read() {
    paused(|| async {
        let (store, transport) = (left_behind(6).await, Scripted::accepting());
        let scheduler = next_life(&store, &transport).await;
        store.faults().late = Some(Duration::ZERO);
        let handle = scheduler.handle();
        let all = async {
            assert!(handle.mailboxes().await.is_empty(), "those that are being read are left out");
            assert!(handle.breakers().await.expect("an answer").is_empty());
            let campaign = HoldScope::Campaign("spring".into());
            handle.hold(campaign, Order::new("not yet")).await.expect("held");
            handle.hold(HoldScope::Mailbox(mailbox(5).into()), Order::new("not this one")).await.expect("held");
            handle.reconfigure(limited("2 requests / 1h")).await.expect("it holds together");
        };
        timeout(SECOND / 2, all).await.expect("a reading takes a second");
        tokio::time::sleep(SECOND * 5).await;
        let first: Vec<String> = (0..5).map(|number| format!("{number}-first")).collect();
        let mut sent = transport.ids();
        sent.sort();
        assert_eq!(sent, first, "one of the hour is left to each, and one mailbox is held");
        assert_eq!(handle.mailboxes().await.len(), 6);
        scheduler.shutdown().await;
    });
}

#[test]
fn a_shutdown_waits_for_no_mailbox_that_is_being_read() {
    paused(|| async {
        let (store, transport) = (left_behind(6).await, Scripted::accepting());
        let scheduler = next_life(&store, &transport).await;
        store.faults().late = Some(Duration::ZERO);
        let handle = scheduler.handle();
        let submitted = tokio::spawn(async move { handle.submit(submission_of(5, "new")).await });
        let handle = scheduler.handle();
        let asked = tokio::spawn(async move { handle.mailbox(mailbox(5)).await });
        tokio::time::sleep(SECOND / 10).await;
        let report = timeout(SECOND / 2, scheduler.shutdown()).await.expect("a reading takes a second");
        assert_eq!((report.accepted, report.returned, report.unknown), (0, 1, 0), "what was handed over now");
        let submitted = timeout(SECOND, submitted).await.expect("answered").expect("no panic");
        assert!(matches!(submitted, Err(SubmitError::ShuttingDown { .. })), "{submitted:?}");
        let asked = timeout(SECOND, asked).await.expect("answered").expect("no panic");
        assert!(matches!(asked, Err(AskError::ShuttingDown)), "{asked:?}");
        tokio::time::sleep(SECOND * 10).await;
        assert_eq!(transport.count(), 0);
        // Nothing of it is lost.
        let scheduler = next_life(&store, &transport).await;
        tokio::time::sleep(SECOND * 10).await;
        assert_eq!(transport.count(), 12);
        scheduler.shutdown().await;
    });
}
