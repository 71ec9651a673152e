//! No room left: submissions are refused, what was accepted stays and can still be brought to its end.

use mailweir::engine::OperationState;
use mailweir::engine::operation::Transition;
use mailweir::store::{SqliteOptions, SqliteStore, Store, StoreError};

use crate::files::Mounted;
use crate::support::*;

/// Submits emails of 20 KB until one is refused; the number of those that were taken.
async fn fill(store: &SqliteStore) -> u64 {
    for key in 1.. {
        match store.insert(vec![sized(key, 20_000)]).await {
            Ok(_) => {}
            Err(StoreError::Full { bound }) => {
                assert!(bound.contains("outbox.db"), "{bound}");
                return key - 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("something is always full in the end");
}

async fn assert_whole(store: &SqliteStore, taken: u64) {
    assert!(taken >= 10, "{taken}");
    assert_eq!(store.counts().await.unwrap().iter().sum::<u64>(), taken, "those and no others");
    let recovery = store.recover(at(0), None).await.unwrap();
    assert_eq!(recovery.operations.len() as u64, taken);
    for key in [1, taken] {
        assert_eq!(store.email(mailweir::engine::OperationKey(key)).await, Ok(Some(sized(key, 20_000).email)));
    }
}

/// Ends operations until there is room for another.
async fn drain(store: &SqliteStore, taken: u64) {
    for key in 1..=taken / 2 {
        assert_eq!(store.record(record(key, Transition::Cancel, 50)).await, Ok(()), "operation {key}");
    }
    store.insert(vec![sized(taken + 1, 20_000)]).await.expect("what has ended made room");
    assert_eq!(state(store, taken + 1).await, OperationState::Queued);
}

#[test]
fn a_full_disk_refuses_submissions_and_keeps_what_it_has() {
    let Some(mounted) = Mounted::tmpfs("2m") else {
        // The bound of the file stands in for the disk: SQLite reports both alike.
        return a_bound_on_the_file_works_like_a_full_disk();
    };
    block_on(async {
        let store = mounted.place.open();
        let taken = fill(&store).await;
        assert_whole(&store, taken).await;
        // Room for something else on the same disk, and the store goes on by itself.
        store.close().await.unwrap();
        let store = mounted.place.open();
        assert_whole(&store, taken).await;
    });
}

#[test]
fn a_bound_on_the_file_works_like_a_full_disk() {
    let place = Place::new();
    block_on(async {
        let store = place.open_with(SqliteOptions::new().file_bytes_max(1 << 20));
        let taken = fill(&store).await;
        assert_whole(&store, taken).await;
        drain(&store, taken).await;
        store.close().await.unwrap();
        assert!(std::fs::metadata(place.file()).unwrap().len() <= 1 << 20);
    });
}

#[test]
fn a_submission_that_does_not_fit_fails_alone() {
    let place = Place::new();
    block_on(async {
        let store = place.open_with(SqliteOptions::new().file_bytes_max(1 << 20));
        store.insert(vec![new(1), new(2)]).await.unwrap();
        store.claim(vec![claim(1, 1, 5)]).await.unwrap();
        // One turn: all three can share a commit.
        let (huge, accepted, claimed) = futures::join!(
            store.insert(vec![sized(3, 2 << 20)]),
            store.record(record(1, Transition::Accept, 6)),
            store.claim(vec![claim(2, 1, 6)]),
        );
        assert!(matches!(huge, Err(StoreError::Full { .. })), "{huge:?}");
        assert_eq!(accepted, Ok(()));
        assert_eq!(claimed, Ok(vec![Some(new(2).email)]));
        assert_eq!(state(&store, 1).await, OperationState::Accepted);
        assert_eq!(found(&store, 3).await, None);
    });
}
