//! A store whose table of notes is full: what stops the sending still works, and only what needs a note is refused.

use std::time::Duration;

use mailweir::engine::Scope;
use mailweir::scheduler::{HoldScope, Order, Scheduler, TryAcquire};
use mailweir::store::{MemoryStore, NoteBody, Store, StoreError};
use mailweir::transport::Verdict;
use mailweir::{Cost, Lane, Submission, SubmitError};

use crate::support::*;

const ONE: Cost = Cost::ONE_REQUEST;

async fn started(store: &MemoryStore) -> Scheduler {
    let built = builder(unlimited(), Scripted::accepting()).store(store.clone());
    built.start_on_current_thread().await.expect("starts")
}

fn keyed(id: &str) -> Submission {
    submission(id).admission_key(id, Duration::from_secs(600))
}

fn is_full<T>(answer: &Result<T, SubmitError>) -> bool {
    matches!(answer, Err(SubmitError::Store { source: StoreError::Full { .. }, .. }))
}

#[test]
fn admission_keys_that_fill_the_notes_take_nobody_the_emergency_stop() {
    paused(|| async {
        let store = MemoryStore::default().notes_max(1);
        let scheduler = started(&store).await;
        let handle = scheduler.handle();
        drop(handle.submit(keyed("first")).await.expect("taken in"));
        assert!(is_full(&handle.submit(keyed("second")).await));
        handle.hold(HoldScope::All, Order::new("stop")).await.expect("held");
        handle.trip(Scope::Application, Order::new("stop")).await.expect("tripped");
        handle.trip(Scope::Mailbox(MAILBOX.into()), Order::new("stop")).await.expect("tripped");
        drop(scheduler);
        let next = started(&store).await;
        assert_eq!((next.handle().holds().len(), next.handle().trips().len()), (1, 2));
    });
}

#[test]
fn plain_submissions_are_stored_beside_keyed_ones_that_find_no_room() {
    paused(|| async {
        let scheduler = started(&MemoryStore::default().notes_max(0)).await;
        let batch = vec![submission("plain-1"), keyed("keyed-1"), submission("plain-2"), keyed("keyed-2")];
        let answers = scheduler.handle().submit_many(batch).await;
        assert_eq!(answers.iter().map(is_full).collect::<Vec<_>>(), [false, true, false, true]);
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 2);
    });
}

#[test]
fn the_end_of_a_permit_is_kept_beside_a_new_one_that_finds_no_room() {
    paused(|| async {
        let store = MemoryStore::default().notes_max(1);
        let scheduler = started(&store).await;
        let handle = scheduler.handle();
        let permit = handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("room");
        permit.settle(Verdict::Accepted);
        let next = handle.try_acquire(MAILBOX, ONE, Lane::Foreground).await.expect("an answer");
        assert!(matches!(next, TryAcquire::Deferred { .. }), "{next:?}");
        let notes = store.recover(START, None).await.expect("a store").notes;
        let ends = notes.iter().filter_map(|note| match &note.body {
            NoteBody::Permit(permit) => Some(permit.finished_at),
            _ => None,
        });
        assert_eq!(ends.map(|end| end.is_some()).collect::<Vec<_>>(), [true]);
    });
}
