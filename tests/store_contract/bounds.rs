//! Where a store ends: at its bound, and not one before.

use futures::FutureExt;
use futures::future::BoxFuture;
use mailweir::engine::OperationState as S;
use mailweir::engine::operation::Transition as T;
use mailweir::store::{Inserted, StoreError};

use crate::fixture::*;

const THREE: Bounds = Bounds { live: 3, ended: 3, notes: 3 };

#[track_caller]
fn assert_full(answer: Result<Vec<Inserted>, StoreError>) {
    let error = answer.expect_err("there is no room");
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(error.is_retryable());
    assert!(error.to_string().contains('3'), "names the bound: {error}");
}

pub(crate) fn a_store_takes_its_last_operation_and_refuses_the_next(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let kept = given.another(THREE);
        let store = &*kept.store;
        for key in 1..=3 {
            insert(store, key).await;
        }
        assert_full(store.insert(vec![new(4)]).await);
        assert_eq!(store.operation("operation-4").await, Ok(None));
        assert_eq!(store.counts().await.unwrap()[S::Queued as usize], 3);
    }
    .boxed()
}

pub(crate) fn a_batch_that_does_not_fit_leaves_nothing(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let kept = given.another(THREE);
        let store = &*kept.store;
        insert(store, 1).await;
        assert_full(store.insert(vec![new(2), new(3), new(4)]).await);
        assert_eq!(store.operation("operation-2").await, Ok(None));
        // What is there already takes no room, and a batch that fills the rest fits.
        let answer = store.insert(vec![new(1), new(2), new(3)]).await.unwrap();
        assert_eq!(answer[1..], [Inserted::New, Inserted::New]);
    }
    .boxed()
}

pub(crate) fn a_full_store_still_knows_what_it_has(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let kept = given.another(THREE);
        let store = &*kept.store;
        for key in 1..=3 {
            insert(store, key).await;
        }
        let there = Inserted::Existing(Box::new(new(1).first_row()));
        assert_eq!(store.insert(vec![new(1)]).await, Ok(vec![there]));
        claimed(store, 2, 1, 10).await;
        recorded(store, 2, T::Throttle, 11).await;
        assert_full(store.insert(vec![new(4)]).await);
    }
    .boxed()
}

pub(crate) fn an_end_makes_room_for_another(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let kept = given.another(THREE);
        let store = &*kept.store;
        for key in 1..=3 {
            insert(store, key).await;
        }
        recorded(store, 2, T::Cancel, 10).await;
        insert(store, 4).await;
        assert_full(store.insert(vec![new(5)]).await);
    }
    .boxed()
}

pub(crate) fn what_has_ended_is_forgotten_oldest_first(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let kept = given.another(THREE);
        let store = &*kept.store;
        for key in [5, 3, 1, 4] {
            insert(store, key).await;
            recorded(store, key, T::Cancel, 10 * (6 - key)).await;
        }
        // Ended at 10, 30, 50, 20: what ended last is there, however old its key is.
        insert(store, 9).await;
        let mut left = Vec::new();
        for key in [1, 3, 4, 5] {
            left.extend(store.operation(&format!("operation-{key}")).await.unwrap().map(|found| found.key.0));
        }
        assert_eq!(left.len(), 3, "three are kept, not two: {left:?}");
        assert!(left.contains(&1) && left.contains(&3), "{left:?}");
        assert_eq!(store.counts().await.unwrap()[S::Cancelled as usize], 3);
    }
    .boxed()
}

pub(crate) fn the_last_key_outlives_what_is_forgotten(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let kept = given.another(Bounds { live: 3, ended: 0, notes: 3 });
        let store = &*kept.store;
        for key in [7, 5] {
            insert(store, key).await;
            recorded(store, key, T::Cancel, 10).await;
        }
        insert(store, 6).await;
        recorded(store, 6, T::Cancel, 20).await;
        assert_last_key(store, store.recover(at(0), None).await.unwrap().last_key, Some(7));
    }
    .boxed()
}
