//! No room left: submissions are refused, what was accepted stays and can still be brought to its end.

use std::io::Write as _;

use mailweir::engine::OperationState;
use mailweir::engine::operation::Transition;
use mailweir::store::{NewOperation, SqliteOptions, SqliteStore, Store, StoreError};

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

/// A disk of its own, or a plain word that this test did not meet one: past what a test captures.
fn disk(size: &str) -> Option<Mounted> {
    let mounted = Mounted::tmpfs(size);
    if mounted.is_none() {
        let word =
            "NOT TESTED on a full file system: this user may not mount one. A bound on the file stands in for it.";
        std::io::stderr().write_all(format!("{word}\n").as_bytes()).unwrap();
    }
    mounted
}

#[test]
fn a_full_disk_refuses_submissions_and_keeps_what_it_has() {
    let Some(mounted) = disk("2m") else { return a_bound_on_the_file_works_like_a_full_disk() };
    block_on(async {
        let store = mounted.place.open();
        let taken = fill(&store).await;
        assert_whole(&store, taken).await;
        store.close().await.unwrap();
        let store = mounted.place.open();
        assert_whole(&store, taken).await;
    });
}

#[test]
fn a_disk_that_others_fill_stops_the_store_and_what_they_free_lets_it_go_on() {
    let Some(mounted) = disk("4m") else { return a_submission_that_does_not_fit_fails_alone() };
    let ballast = mounted.place.folder().join("ballast");
    block_on(async {
        let store = mounted.place.open();
        store.insert((1..=20).map(new).collect()).await.unwrap();
        store.claim(vec![claim(1, 1, 5)]).await.unwrap();
        let mut file = std::fs::File::create(&ballast).unwrap();
        while file.write_all(&[0; 4_096]).is_ok() {}
        // Whatever no longer fits is refused as such, may be tried again, and leaves no half of itself.
        let error = store.insert(vec![sized(21, 200_000)]).await.unwrap_err();
        assert!(matches!(&error, StoreError::Full { bound } if bound.contains("outbox.db")), "{error}");
        let mut told = store.record(record(1, Transition::Accept, 6)).await;
        assert!(told.as_ref().err().is_none_or(StoreError::is_retryable), "{told:?}");
        assert_eq!(found(&store, 21).await, None);
        assert_eq!(store.recover(at(0), None).await.unwrap().operations.len(), if told.is_ok() { 19 } else { 20 });
        drop(file);
        std::fs::remove_file(&ballast).unwrap();
        if told.is_err() {
            told = store.record(record(1, Transition::Accept, 6)).await;
        }
        assert_eq!(told, Ok(()), "by itself, without being opened anew");
        store.insert(vec![sized(21, 200_000)]).await.unwrap();
        assert_eq!(state(&store, 1).await, OperationState::Accepted);
        assert_eq!(store.counts().await.unwrap().iter().sum::<u64>(), 21);
    });
    let verdict: String = mounted.place.shell().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
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

#[test]
fn a_store_that_is_full_of_what_is_overdue_forgets_it_and_goes_on() {
    let place = Place::new();
    block_on(async {
        let options = SqliteOptions::new().file_bytes_max(1 << 20).ended_for(std::time::Duration::from_secs(60));
        let store = place.open_with(options);
        let mut last = 0;
        // All that is there has ended, and not a second of its time is over.
        loop {
            match store.insert((last + 1..=last + 100).map(|key| sized(key, 200)).collect()).await {
                Ok(_) => {}
                Err(StoreError::Full { .. }) => break,
                Err(error) => panic!("{error}"),
            }
            let ends = (last + 1..=last + 100).flat_map(|key| record(key, Transition::Cancel, 1).to_vec());
            store.record(ends.collect()).await.expect("room for ends");
            last += 100;
        }
        assert!(last >= 500, "{last}");
        let later = |key| NewOperation { submitted_at: at(500), deadline: at(9_000), ..sized(key, 200) };
        store.insert((last + 1..=last + 100).map(later).collect()).await.expect("what is overdue makes room");
        assert_eq!(state(&store, last + 100).await, OperationState::Queued);
        assert!(found(&store, 1).await.is_none());
    });
}
