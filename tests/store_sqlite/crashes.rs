//! A crash at every commit of a scenario, before it and after it.
//!
//! Whatever was answered is there. Whatever was not is asked again, as the scheduler does, and the end is the same as
//! without a crash: no operation twice, no attempt twice, nothing counted twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mailweir::engine::OperationKey;
use mailweir::engine::mailbox::Record;
use mailweir::engine::operation::Transition as T;
use mailweir::store::{
    AttemptRecord, Claim, CommitPoint, CommitProbe, Fate, NewOperation, OperationQuery, OperationRecord, SqliteOptions,
    SqliteStore, Store, StoreError,
};

use crate::support::*;

#[derive(Clone, Debug)]
enum Call {
    Insert(Vec<NewOperation>),
    Claim(Vec<Claim>),
    Record(Arc<[Record]>),
}

impl Call {
    async fn make(&self, store: &SqliteStore) -> Result<(), StoreError> {
        match self {
            Self::Insert(batch) => store.insert(batch.clone()).await.map(|_| ()),
            Self::Claim(batch) => {
                let emails = store.claim(batch.clone()).await?;
                for (email, claim) in emails.into_iter().zip(batch) {
                    assert_eq!(email, Some(new(claim.key.0).email), "the very bytes, crash or not");
                }
                Ok(())
            }
            Self::Record(batch) => store.record(Arc::clone(batch)).await,
        }
    }
}

/// Three operations: a 429 and a retry, a loss that is found, a cancellation.
fn scenario() -> Vec<Call> {
    let both = |a: Arc<[Record]>, b: Arc<[Record]>| a.iter().chain(b.iter()).cloned().collect();
    vec![
        Call::Insert(vec![new(1), new(2)]),
        Call::Claim(vec![claim(1, 1, 10)]),
        Call::Insert(vec![new(3), new(4)]),
        Call::Record(record(1, T::Throttle, 11)),
        Call::Claim(vec![claim(2, 1, 12), claim(1, 2, 70)]),
        Call::Record(both(record(1, T::Retry, 71), record(2, T::Lose, 72))),
        Call::Claim(vec![claim(1, 3, 80)]),
        Call::Record(both(record(2, T::Find, 90), record(3, T::Cancel, 90))),
        Call::Record(both(record(4, T::Exhaust, 900), record(1, T::Void, 901))),
        Call::Claim(vec![claim(1, 4, 902)]),
        Call::Record(record(1, T::Accept, 903)),
    ]
}

#[derive(Debug, PartialEq)]
struct End {
    operations: Vec<OperationRecord>,
    attempts: Vec<AttemptRecord>,
    counts: [u64; 10],
    emails: Vec<bool>,
}

async fn end(store: &SqliteStore) -> End {
    let all = OperationQuery { limit: usize::MAX, ..OperationQuery::default() };
    let mut emails = Vec::new();
    for key in 1..=4 {
        emails.push(store.email(OperationKey(key)).await.unwrap().is_some());
    }
    let operations = store.operations(all).await.unwrap();
    let attempts = store.recover(at(0), None).await.unwrap().attempts;
    End { operations, attempts, counts: store.counts().await.unwrap(), emails }
}

/// Runs the scenario with a crash at `fatal`; calls without an answer are made again after it. `None`: no crash.
async fn run(fatal: Option<CommitPoint>) -> (End, u64) {
    let place = Place::new();
    let commits = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&commits);
    let probe = CommitProbe::new(move |point| {
        if let CommitPoint::After(number) = point {
            count.store(number, Ordering::SeqCst);
        }
        if Some(point) == fatal { Fate::Die } else { Fate::GoOn }
    });
    let mut store = place.open_with(SqliteOptions::new().commit_probe(probe));
    for call in scenario() {
        if call.make(&store).await.is_err() {
            drop(store);
            store = place.open();
            call.make(&store).await.expect("the same call, made again after the crash");
        }
    }
    (end(&store).await, commits.load(Ordering::SeqCst))
}

#[test]
fn a_crash_before_or_after_any_commit_loses_nothing_and_doubles_nothing() {
    block_on(async {
        let (expected, commits) = run(None).await;
        assert_eq!(commits, scenario().len() as u64, "each call is a commit of its own here");
        assert_eq!(expected.counts.iter().sum::<u64>(), 4);
        assert_eq!(expected.attempts.len(), 4, "the void one leaves no charge");
        for number in 1..=commits {
            for point in [CommitPoint::Before(number), CommitPoint::After(number)] {
                assert_eq!(run(Some(point)).await.0, expected, "crash at {point:?}");
            }
        }
    });
}

#[test]
fn a_crash_before_a_commit_leaves_nothing_of_it() {
    block_on(async {
        let place = Place::new();
        let fatal = CommitPoint::Before(2);
        let probe = CommitProbe::new(move |point| if point == fatal { Fate::Die } else { Fate::GoOn });
        let store = place.open_with(SqliteOptions::new().commit_probe(probe));
        store.insert(vec![new(1)]).await.unwrap();
        let error = store.insert(vec![new(2), new(3)]).await.unwrap_err();
        assert!(error.is_retryable(), "it may have been executed: {error}");
        drop(store);
        let store = place.open();
        assert_eq!(store.recover(at(0), None).await.unwrap().operations, [new(1).first_row()]);
    });
}
