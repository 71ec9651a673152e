//! A store that one scheduler alone may use: a second one over it does not start, and sends nothing twice.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mailweir::Scheduler;
use mailweir::clock::{Clock, SystemClock};
use mailweir::engine::Timestamp;
use mailweir::scheduler::StartError;
#[cfg(feature = "sqlite")]
use mailweir::store::SqliteStore;
use mailweir::store::{MemoryStore, Store, StoreError};

use crate::support::*;

async fn over(store: &Arc<dyn Store>, transport: &Scripted) -> Result<Scheduler, StartError> {
    Scheduler::builder(unlimited(), transport.clone()).store(Arc::clone(store)).start().await
}

fn refusal(second: Result<Scheduler, StartError>) -> String {
    match second {
        Err(StartError::Store(error @ StoreError::Unusable { .. })) => error.to_string(),
        other => panic!("a second scheduler began: {other:?}"),
    }
}

/// What waits is sent once, whoever tries to begin beside the one that has it; `named` is in what he is told.
async fn one_at_a_time(store: Arc<dyn Store>, named: &str) {
    let transport = Scripted::accepting();
    let first = over(&store, &transport).await.expect("the first starts");
    let later = foreground("once").not_before(
        SystemTime::UNIX_EPOCH + SystemClock::new().now().since(Timestamp::EPOCH) + Duration::from_millis(300),
    );
    let ticket = first.handle().submit(later).await.expect("taken in");
    let told = refusal(over(&store, &transport).await);
    assert!(told.contains(named) && told.contains("await its shutdown"), "{told}");
    ticket.outcome().await.expect("an outcome");
    assert_eq!(transport.ids(), ["once"]);

    // A handle that outlives its scheduler is in nobody's way.
    let kept = first.handle();
    let _ = first.shutdown().await;
    let second = over(&store, &transport).await.expect("starts after a shutdown");
    drop(second);
    let third = over(&store, &transport).await.expect("starts after a drop");
    let told = refusal(over(&store, &transport).await);
    assert!(told.contains(named), "{told}");
    let ticket = third.handle().submit(foreground("again")).await.expect("taken in");
    ticket.outcome().await.expect("an outcome");
    assert_eq!(transport.ids(), ["once", "again"]);
    drop(kept);
}

#[tokio::test]
async fn a_second_scheduler_over_a_store_in_memory_is_refused_while_the_first_lives() {
    one_at_a_time(Arc::new(MemoryStore::new()), "in memory").await;
}

#[tokio::test]
async fn a_clone_of_a_store_in_memory_is_the_same_store() {
    let store = MemoryStore::new();
    let first = Scheduler::builder(unlimited(), Scripted::accepting()).store(store.clone()).start().await;
    let first = first.expect("starts");
    let _ = refusal(Scheduler::builder(unlimited(), Scripted::accepting()).store(store.clone()).start().await);
    drop(first);
    let _ = Scheduler::builder(unlimited(), Scripted::accepting()).store(store).start().await.expect("starts");
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_second_scheduler_over_one_file_is_refused_and_told_which() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::new(SqliteStore::open(folder.path().join("outbox.db")).expect("an outbox"));
    one_at_a_time(store, "outbox.db").await;
}

/// A start that fails for another reason lets the store go.
#[tokio::test]
async fn a_start_that_was_given_up_leaves_the_store_free() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let transport = Scripted::accepting();
    drop(over(&store, &transport));
    let starting = Scheduler::builder(unlimited(), transport.clone()).store(Arc::clone(&store));
    let _ = tokio::time::timeout(Duration::ZERO, starting.start()).await;
    let _ = over(&store, &transport).await.expect("starts");
}
