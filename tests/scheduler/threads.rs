//! The scheduler on its own thread, under runtimes as programs have them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mailweir::{Lane, Outcome, Scheduler, Submission};

use crate::support::*;

async fn ten_thousand() {
    let transport = Scripted::accepting();
    let scheduler = Scheduler::builder(unlimited(), transport.clone()).start().await.expect("starts");
    let accepted = Arc::new(AtomicUsize::new(0));
    let mut callers = Vec::new();
    for caller in 0..4 {
        let (handle, accepted) = (scheduler.handle(), Arc::clone(&accepted));
        callers.push(tokio::spawn(async move {
            let batch = (0..2_500).map(|n| {
                let mailbox = format!("m{}@example.org", n % 100);
                Submission::new(mailbox, email()).operation_id(format!("{caller}-{n}")).lane(Lane::Foreground)
            });
            for ticket in handle.submit_many(batch).await {
                if let Ok(Outcome::Accepted { .. }) = ticket.expect("taken in").outcome().await {
                    accepted.fetch_add(1, Ordering::Relaxed);
                }
            }
        }));
    }
    for caller in callers {
        caller.await.expect("no caller panics");
    }
    assert_eq!(accepted.load(Ordering::Relaxed), 10_000);
    assert_eq!(transport.count(), 10_000);
    let report = scheduler.shutdown().await;
    assert_eq!((report.returned, report.unknown), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_submissions_from_four_tasks_of_a_multi_thread_runtime_end() {
    ten_thousand().await;
}

#[tokio::test]
async fn ten_thousand_submissions_in_a_current_thread_runtime_end() {
    ten_thousand().await;
}

#[tokio::test]
async fn a_handle_works_in_another_runtime() {
    let scheduler = Scheduler::builder(unlimited(), Scripted::accepting()).start().await.expect("starts");
    let handle = scheduler.handle();
    let elsewhere = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async move {
            let ticket = handle.submit(submission("elsewhere")).await.expect("taken in");
            ticket.outcome().await.expect("an outcome")
        })
    });
    let outcome = tokio::task::spawn_blocking(|| elsewhere.join().expect("no panic")).await.expect("joined");
    assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
}
