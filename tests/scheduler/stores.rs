//! Stores that take their time, fail, and come back.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use mailweir::engine::mailbox::Record;
use mailweir::engine::{OperationKey, OperationState, Timestamp};
use mailweir::store::{
    Claim, Inserted, MemoryStore, NewOperation, NoteChange, OperationQuery, OperationRecord, Recovery, Store,
    StoreError,
};
use mailweir::telemetry::EventKind;
use mailweir::{Email, Outcome, Submission, SubmitError};

use crate::support::*;

/// A memory store behind a wire: each call takes a while, and fails while the wire is cut.
#[derive(Clone, Debug, Default)]
struct Wire {
    inner: MemoryStore,
    cut: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
}

impl Wire {
    fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::Relaxed);
    }

    fn call<'a, T: Send>(
        &'a self,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(20)).await;
            if self.cut.load(Ordering::Relaxed) {
                return Err(StoreError::Unavailable { reason: "the wire is cut".to_owned() });
            }
            call.await
        })
    }
}

impl Store for Wire {
    fn kind(&self) -> &'static str {
        "wire"
    }

    fn recover(&self, since: Timestamp, mailbox: Option<Arc<str>>) -> BoxFuture<'_, Result<Recovery, StoreError>> {
        self.call(async move { self.inner.recover(since, mailbox).await })
    }

    fn insert(&self, batch: Vec<NewOperation>) -> BoxFuture<'_, Result<Vec<Inserted>, StoreError>> {
        self.call(async move { self.inner.insert(batch).await })
    }

    fn claim(&self, batch: Vec<Claim>) -> BoxFuture<'_, Result<Vec<Option<Email>>, StoreError>> {
        self.call(async move { self.inner.claim(batch).await })
    }

    fn keep(&self, batch: Arc<[NoteChange]>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(async move { self.inner.keep(batch).await })
    }

    fn record(&self, batch: Arc<[Record]>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(async move { self.inner.record(batch).await })
    }

    fn email(&self, key: OperationKey) -> BoxFuture<'_, Result<Option<Email>, StoreError>> {
        self.inner.email(key)
    }

    fn operation(&self, id: &str) -> BoxFuture<'_, Result<Option<OperationRecord>, StoreError>> {
        self.inner.operation(id)
    }

    fn operations(&self, query: OperationQuery) -> BoxFuture<'_, Result<Vec<OperationRecord>, StoreError>> {
        self.inner.operations(query)
    }

    fn counts(&self) -> BoxFuture<'_, Result<[u64; 10], StoreError>> {
        self.inner.counts()
    }
}

#[test]
fn what_arrives_while_a_call_runs_shares_the_next_one() {
    paused(|| async {
        let (store, transport) = (Wire::default(), Scripted::accepting());
        let built = builder(unlimited(), transport.clone()).store(store.clone());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        let before = store.calls.load(Ordering::Relaxed);
        let submits = (0..200).map(|n| {
            let handle = handle.clone();
            tokio::spawn(async move {
                let ticket = handle.submit(foreground(&format!("op-{n:03}"))).await.expect("stored");
                ticket.outcome().await.expect("an outcome")
            })
        });
        for submit in futures::future::join_all(submits).await {
            assert!(matches!(submit, Ok(Outcome::Accepted { .. })));
        }
        assert!(transport.ids().is_sorted(), "in order of submission");
        let calls = store.calls.load(Ordering::Relaxed) - before;
        assert!(calls < 20, "{calls} calls for 200 operations");
    });
}

#[test]
fn a_cut_wire_refuses_what_is_new_and_loses_nothing_that_was_taken_in() {
    paused(|| async {
        let (store, transport) = (Wire::default(), Scripted::slow(Duration::from_secs(1)));
        let mut config = unlimited();
        config.mailbox.concurrency = 1.try_into().ok();
        let built = builder(config, transport.clone()).store(store.clone());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        let mut events = handle.events();
        let mut tickets = Vec::new();
        for id in ["one", "two", "three"] {
            tickets.push(handle.submit(foreground(id)).await.expect("stored"));
        }
        store.cut(true);
        let error = handle.submit(foreground("four")).await.expect_err("the wire is cut");
        assert!(matches!(&error, SubmitError::Store { id, .. } if &**id == "four"), "{error}");
        assert!(error.is_retryable());
        tokio::time::sleep(Duration::from_secs(30)).await;
        // One was in flight; nothing new is sent without its attempt row.
        assert_eq!(transport.count(), 1);
        store.cut(false);
        let again = error.into_submission().expect("handed back");
        tickets.push(handle.submit(again).await.expect("stored"));
        for ticket in tickets {
            let id = ticket.operation_id().to_string();
            let outcome = ticket.outcome().await.expect("an outcome");
            assert!(matches!(outcome, Outcome::Accepted { .. }), "{id}: {outcome:?}");
        }
        assert_eq!(transport.count(), 4);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(handle.counts().await.expect("a store")[OperationState::Accepted as usize], 4);
        let mut words = Vec::new();
        while let Some(Some(Ok(event))) = futures::FutureExt::now_or_never(events.next()) {
            match event.kind {
                EventKind::StoreDegraded { store: "wire", .. } => words.push("degraded"),
                EventKind::StoreRecovered { store: "wire", .. } => words.push("recovered"),
                _ => {}
            }
        }
        assert_eq!(words, ["degraded", "recovered"]);
    });
}

#[test]
fn a_panic_while_the_wire_is_cut_is_mended_when_it_is_back() {
    paused(|| async {
        let (store, transport) = (Wire::default(), Scripted::slow(Duration::from_secs(2)));
        let mut config = unlimited();
        config.mailbox.concurrency = 1.try_into().ok();
        let built = builder(config, transport.clone()).store(store.clone());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        let flying = handle.submit(foreground("flying")).await.expect("stored");
        let waits = handle.submit(foreground("waits")).await.expect("stored");
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle.sabotage(MAILBOX).await.expect("told");
        store.cut(true);
        // The answer of the attempt in flight meets the panic.
        tokio::time::sleep(Duration::from_secs(20)).await;
        store.cut(false);
        for ticket in [flying, waits] {
            let id = ticket.operation_id().to_string();
            let outcome = ticket.outcome().await.expect("tickets survive");
            // The answer that met the panic is lost with the engine's step; it is never sent again by itself.
            let accepted = matches!(outcome, Outcome::Accepted { .. });
            assert!(accepted || (id == "flying" && outcome == Outcome::Unknown), "{id}: {outcome:?}");
        }
        assert_eq!(transport.count(), 2);
    });
}

#[test]
fn a_batch_that_meets_the_bound_of_its_lane_is_taken_in_up_to_it() {
    paused(|| async {
        let mut config = limited("1 requests / 1h");
        config.queue.background_max = 5;
        let built = builder(config, Scripted::accepting()).store(Wire::default());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        let answers = scheduler.handle().submit_many((0..20).map(|n| submission(&format!("bg-{n:02}")))).await;
        let taken: Vec<bool> = answers.iter().map(Result::is_ok).collect();
        // Nothing has been sent while the batch was judged: the bound holds to the item.
        assert_eq!(taken.iter().filter(|taken| **taken).count(), 5, "{taken:?}");
        assert!(taken[..5].iter().all(|taken| *taken));
    });
}

#[test]
fn a_repeat_under_an_admission_key_gets_the_first_ones_ticket() {
    paused(|| async {
        let transport = Scripted::slow(Duration::from_secs(1));
        let built = builder(unlimited(), transport.clone()).store(Wire::default());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        let press = || Submission::new(MAILBOX, email()).admission_key("reset:kim", Duration::from_secs(60));
        // Three at once: two of them arrive while the first is being stored.
        let answers = handle.submit_many([press(), press(), press()]).await;
        let tickets: Vec<_> = answers.into_iter().map(|answer| answer.expect("taken in")).collect();
        let id = tickets[0].operation_id();
        assert!(tickets.iter().all(|ticket| ticket.operation_id() == id));
        for ticket in tickets {
            assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
        }
        tokio::time::sleep(Duration::from_secs(50)).await;
        let late = handle.submit(press()).await.expect("a neutral answer");
        assert_eq!(late.operation_id(), id);
        assert!(matches!(late.outcome().await, Ok(Outcome::Accepted { .. })));
        assert_eq!(transport.count(), 1);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let next = handle.submit(press()).await.expect("the cooldown is over");
        assert_ne!(next.operation_id(), id);
        assert!(matches!(next.outcome().await, Ok(Outcome::Accepted { .. })));
        assert_eq!(transport.count(), 2);
    });
}

#[test]
fn a_repeat_whose_key_ended_while_it_waited_is_answered_although_the_store_fails() {
    paused(|| async {
        let store = Wire::default();
        let built = builder(unlimited(), Scripted::accepting()).store(store.clone());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        // A store call takes 20 ms, so the key ends while its operation is being stored.
        let brief = Duration::from_millis(5);
        let pressed = |id: &str, key: &str| {
            let (handle, submission) = (handle.clone(), submission(id).admission_key(key, brief));
            tokio::spawn(async move { handle.submit(submission).await })
        };
        store.cut(true);
        let (first, repeat) = (pressed("first", "button"), pressed("repeat", "button"));
        tokio::time::sleep(Duration::from_millis(10)).await;
        let other = pressed("other", "another");
        for task in [first, repeat, other] {
            let answered = tokio::time::timeout(Duration::from_secs(60), task).await.expect("nobody waits for ever");
            let error = answered.expect("no panic").expect_err("the wire is cut");
            assert!(matches!(error, SubmitError::Store { .. }), "{error}");
        }
    });
}

#[test]
fn repeats_that_wait_for_a_slow_store_are_bounded_and_the_others_share_one_ticket() {
    paused(|| async {
        let transport = Scripted::accepting();
        let built = builder(unlimited(), transport.clone()).store(Wire::default());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        let submits = (0..1_100).map(|n| {
            // Two lanes, because each takes in fewer at once than that.
            let submission = submission(&format!("op-{n}")).lane(mailweir::Lane::ALL[n % 2]);
            handle.submit(submission.admission_key("button", Duration::from_secs(600)))
        });
        let (mut operations, mut refused) = (std::collections::BTreeSet::new(), 0);
        for answer in futures::future::join_all(submits).await {
            match answer {
                Ok(ticket) => drop(operations.insert(ticket.operation_id().to_string())),
                Err(SubmitError::QueueFull { depth_max: 1_024, .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((operations.len(), refused), (1, 1_100 - 1 - 1_024), "the first, and as many as may wait for it");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(transport.count(), 1);
        let late = submission("late").admission_key("button", Duration::from_secs(600));
        assert!(handle.submit(late).await.is_ok(), "those who waited do not count any more");
    });
}
