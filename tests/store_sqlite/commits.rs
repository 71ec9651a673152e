//! Who shares a commit, and who fails alone.

use std::io::{Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use futures::future::join_all;
use mailweir::engine::operation::Transition;
use mailweir::engine::{OperationKey, OperationState};
use mailweir::store::{CommitPoint, CommitProbe, Fate, NewOperation, SqliteOptions, SqliteStore, Store, StoreError};

use crate::support::*;

/// An outbox whose first commit waits until it is let go, and which counts its commits.
struct Gated {
    store: SqliteStore,
    gate: mpsc::SyncSender<()>,
    commits: Arc<AtomicU64>,
    place: Place,
}

fn gated() -> Gated {
    gated_at(Place::new())
}

fn gated_at(place: Place) -> Gated {
    let (gate, opened) = mpsc::sync_channel(1);
    let commits = Arc::new(AtomicU64::new(0));
    let (count, opened) = (Arc::clone(&commits), Mutex::new(opened));
    let probe = CommitProbe::new(move |point| {
        match point {
            CommitPoint::Before(1) => opened.lock().unwrap().recv().unwrap(),
            CommitPoint::After(number) => count.store(number, Ordering::SeqCst),
            _ => {}
        }
        Fate::GoOn
    });
    let store = place.open_with(SqliteOptions::new().commit_probe(probe));
    Gated { store, gate, commits, place }
}

impl Gated {
    /// Hands all of it over while the first commit is held back, then lets it go.
    async fn at_once(&self, batches: Vec<Vec<NewOperation>>) -> Vec<bool> {
        let calls = join_all(batches.into_iter().map(|batch| self.store.insert(batch)));
        let (answers, ()) = futures::join!(calls, async { self.gate.send(()).unwrap() });
        answers.into_iter().map(|answer| answer.is_ok()).collect()
    }
}

#[test]
fn what_arrives_while_a_commit_runs_shares_the_next() {
    let gated = gated();
    block_on(async {
        let answers = gated.at_once((1..=500).map(|key| vec![new(key)]).collect()).await;
        assert_eq!(answers, [true; 500]);
        assert!(gated.commits.load(Ordering::SeqCst) <= 2, "500 calls in {:?} commits", gated.commits);
        assert_eq!(gated.store.counts().await.unwrap()[OperationState::Queued as usize], 500);
    });
}

#[test]
fn a_lone_call_has_its_commit_at_once() {
    let gated = gated();
    gated.gate.send(()).unwrap();
    block_on(async {
        for key in 1..=5 {
            gated.store.insert(vec![new(key)]).await.unwrap();
            assert_eq!(gated.commits.load(Ordering::SeqCst), key);
        }
    });
}

#[test]
fn a_commit_is_bounded_in_bytes() {
    let gated = gated();
    block_on(async {
        // 2 MB each: four reach the bound of 8 MiB with what is nearest above it, so twelve need three at least.
        let answers = gated.at_once((1..=12).map(|key| vec![sized(key, 2 << 20)]).collect()).await;
        assert_eq!(answers, [true; 12]);
        let commits = gated.commits.load(Ordering::SeqCst);
        assert!((3..=4).contains(&commits), "{commits}");
    });
}

#[test]
fn a_call_that_cannot_be_done_fails_alone() {
    let gated = gated();
    block_on(async {
        let taken = |key, id: u64| NewOperation { key: OperationKey(key), ..new(id) };
        let batches =
            vec![vec![new(1)], vec![new(2)], vec![new(5), taken(2, 9)], vec![new(3)], vec![taken(1, 8)], vec![new(4)]];
        assert_eq!(gated.at_once(batches).await, [true, true, false, true, false, true]);
        for (key, is_there) in [(1, true), (2, true), (3, true), (4, true), (5, false), (8, false), (9, false)] {
            assert_eq!(found(&gated.store, key).await.is_some(), is_there, "operation {key}");
        }
        assert_eq!(gated.store.counts().await.unwrap().iter().sum::<u64>(), 4);
    });
}

#[test]
fn a_key_beyond_what_the_file_can_hold_is_refused() {
    let place = Place::new();
    let store = place.open();
    block_on(async {
        let key = i64::MAX.unsigned_abs();
        store.insert(vec![NewOperation { key: OperationKey(key), ..new(1) }]).await.unwrap();
        let beyond = store.insert(vec![new(2), NewOperation { key: OperationKey(key + 1), ..new(3) }]).await;
        assert!(matches!(beyond, Err(StoreError::Contradiction { .. })), "{beyond:?}");
        assert_eq!(found(&store, 2).await, None);
        assert_eq!(store.recover(at(0), None).await.unwrap().last_key, Some(OperationKey(key)));
    });
}

#[test]
fn another_programs_transaction_is_waited_for_and_then_told() {
    let place = Place::new();
    let store = place.open_with(SqliteOptions::new().busy_wait(Duration::from_millis(1)));
    block_on(async {
        store.insert(vec![new(1)]).await.unwrap();
        let shell = place.shell();
        shell.execute_batch("BEGIN IMMEDIATE").unwrap();
        let error = store.insert(vec![new(2)]).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("end that program's transaction"), "{error}");
        assert!(found(&store, 1).await.is_some(), "reads go on");
        shell.execute_batch("COMMIT").unwrap();
        store.insert(vec![new(2)]).await.unwrap();
        // A reader holds up nobody.
        shell.execute_batch("BEGIN; SELECT count(*) FROM operations").unwrap();
        store.record(record(2, Transition::Cancel, 5)).await.unwrap();
        assert_eq!(state(&store, 2).await, OperationState::Cancelled);
    });
}

#[test]
fn calls_after_a_close_say_so() {
    let place = Place::new();
    let store = place.open();
    block_on(async {
        store.close().await.unwrap();
        for error in [store.insert(vec![new(1)]).await.unwrap_err(), store.close().await.unwrap_err()] {
            assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
            assert!(error.to_string().contains("closed"), "{error}");
        }
    });
}

/// Damages the page on which the email of operation `key` begins, while the store has the file open.
fn damage(place: &Place, key: u64) {
    let bytes = std::fs::read(place.file()).unwrap();
    let mark = format!("Subject: {key}\r\n").into_bytes();
    let found = bytes.windows(mark.len()).position(|window| window == mark).expect("its email is in the file");
    // That page and nothing else: the store is at work on the file.
    let mut file = std::fs::OpenOptions::new().write(true).open(place.file()).unwrap();
    file.seek(SeekFrom::Start(u64::try_from(found / 4_096 * 4_096).unwrap())).unwrap();
    file.write_all(&[0xa5; 4_096]).unwrap();
    // Whatever the store has in its memory of the file is old from here on.
    place.shell().execute_batch("CREATE TABLE poke (finger INTEGER)").unwrap();
}

#[test]
fn one_bad_page_fails_only_the_calls_that_need_it() {
    let place = Place::new();
    block_on(async {
        let store = place.open();
        store.insert((1..=60).map(|key| sized(key, 20_000)).collect()).await.unwrap();
        store.claim(vec![claim(50, 1, 5)]).await.unwrap();
        store.close().await.unwrap();
    });
    let gated = gated_at(place);
    damage(&gated.place, 5);
    block_on(async {
        let store = &gated.store;
        // While the first commit is held back the others gather, and share the next.
        let (inserted, guilty, accepted, other, ()) = futures::join!(
            store.insert(vec![new(61)]),
            store.claim(vec![claim(5, 1, 6)]),
            store.record(record(50, Transition::Accept, 6)),
            store.claim(vec![claim(59, 1, 6)]),
            async { gated.gate.send(()).unwrap() },
        );
        let Err(StoreError::EmailDamaged { emails }) = guilty else { panic!("{guilty:?}") };
        assert_eq!((emails.len(), emails[0].key), (1, OperationKey(5)));
        assert!(emails[0].reason.contains("cannot be read"), "{emails:?}");
        assert_eq!(accepted, Ok(()));
        assert_eq!(other.map(|emails| emails.len()), Ok(1));
        assert!(inserted.is_ok(), "{inserted:?}");
        assert_eq!(state(store, 50).await, OperationState::Accepted);
        assert_eq!(state(store, 5).await, OperationState::Queued, "nothing is sent of it");
    });
}

#[test]
fn damaged_emails_are_named_all_at_once_and_the_others_of_their_batch_are_claimed_without_them() {
    let place = Place::filled(6);
    let shell = place.shell();
    for damage in [
        "DELETE FROM payload WHERE key = 2",
        "UPDATE payload SET mime = substr(mime, 1, 600) WHERE key = 3",
        "UPDATE payload SET recipients = 'ann@fabrikam.example' || char(10) || 'nobody' WHERE key = 4",
        "UPDATE payload SET sender = CAST(x'ff' AS TEXT) WHERE key = 5",
    ] {
        assert_eq!(shell.execute(damage, []), Ok(1), "{damage}");
    }
    drop(shell);
    let store = place.open();
    block_on(async {
        let answer = store.claim((1..=6).map(|key| claim(key, 1, 5)).collect()).await;
        let Err(error @ StoreError::EmailDamaged { .. }) = answer else { panic!("{answer:?}") };
        assert!(!error.is_retryable() && error.to_string().contains("the emails of 4 operations"), "{error}");
        let StoreError::EmailDamaged { emails } = error else { unreachable!() };
        let named: Vec<(u64, &str)> = emails.iter().map(|email| (email.key.0, &*email.reason)).collect();
        let [missing, cut, other, unreadable] = named[..] else { panic!("{named:?}") };
        assert_eq!(missing, (2, "its row is missing"));
        assert_eq!(cut, (3, "600 bytes of 1024 are there"));
        assert!(other.0 == 4 && other.1.contains("would not be taken") && !other.1.contains("nobody"), "{other:?}");
        assert_eq!(unreadable, (5, "its sender cannot be read"));
        for key in 1..=6 {
            let found = found(&store, key).await.unwrap();
            assert_eq!((found.state, found.rows), (OperationState::Queued, 0), "nothing of the batch was written");
        }
        assert_eq!(
            store.claim(vec![claim(1, 1, 5), claim(6, 1, 5)]).await,
            Ok(vec![Some(new(1).email), Some(new(6).email)])
        );
        let looked = store.email(OperationKey(3)).await;
        assert!(matches!(looked, Err(StoreError::EmailDamaged { .. })), "{looked:?}");
    });
}

#[test]
fn an_email_of_an_earlier_version_says_nothing_of_its_size() {
    let place = Place::filled(1);
    assert_eq!(place.shell().execute("UPDATE payload SET size = NULL", []), Ok(1));
    let store = place.open();
    block_on(async { assert_eq!(store.claim(vec![claim(1, 1, 5)]).await, Ok(vec![Some(new(1).email)])) });
}
