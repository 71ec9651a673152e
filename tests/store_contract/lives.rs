//! The life of an operation, one record at a time.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use mailweir::engine::mailbox::Record;
use mailweir::engine::operation::{OrderWords, Transition as T};
use mailweir::engine::{OperationKey, OperationState as S};
use mailweir::store::StoreError;

use crate::fixture::*;

pub(crate) fn of_all_pairs_of_state_and_transition_only_the_listed_ones_happen(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        let mut key = 0;
        for from in S::ALL {
            for transition in T::ALL {
                key += 1;
                bring(store, key, from).await;
                let before = found(store, key).await;
                let answer = store.record([record(key, transition, 1_000 + key)].into()).await;
                match transition.apply(from) {
                    // A claim is no record, but it may be told as one.
                    Ok(to) => {
                        assert_eq!(answer, Ok(()), "{transition} from {from}");
                        let after = found(store, key).await;
                        assert_eq!((after.state, after.changed_at), (to, at(1_000 + key)), "{transition} from {from}");
                    }
                    // The claim that it takes back was never written.
                    Err(_) if transition == T::Void && matches!(from, S::Admitted | S::Queued | S::Deferred) => {
                        assert_eq!(answer, Ok(()), "{transition} from {from}");
                        assert_eq!(found(store, key).await, before, "{transition} from {from}");
                    }
                    Err(illegal) => {
                        let told = answer.unwrap_err();
                        assert!(matches!(told, StoreError::Contradiction { .. }), "{told}");
                        assert!(told.to_string().contains(&illegal.to_string()), "{told}");
                        assert_eq!(found(store, key).await, before, "{transition} from {from}");
                    }
                }
            }
        }
    }
    .boxed()
}

pub(crate) fn a_record_that_is_repeated_changes_nothing(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        for (transition, key) in T::ALL.into_iter().zip(1..) {
            bring(store, key, transition.from_states()[0]).await;
            recorded(store, key, transition, 200).await;
            let (before, counts) = (found(store, key).await, store.counts().await);
            recorded(store, key, transition, 200).await;
            assert_eq!(found(store, key).await, before, "{transition}");
            assert_eq!(store.counts().await, counts, "{transition}");
        }
    }
    .boxed()
}

pub(crate) fn a_whole_batch_that_is_repeated_changes_nothing(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        for (first, key) in [T::Retry, T::Throttle, T::Void].into_iter().zip(1..) {
            bring(store, key, S::Attempting).await;
            // Its last attempt failed and its time is up, within one microsecond.
            let attempts = first.attempts_after(0);
            let last = Record { attempts, ..record(key, T::Exhaust, 200) };
            let batch: std::sync::Arc<[Record]> = [record(key, first, 200), last].into();
            store.record(batch.clone()).await.unwrap();
            let before = found(store, key).await;
            assert_eq!((before.state, before.attempts), (S::Exhausted, attempts));
            assert_eq!(store.record(batch).await, Ok(()));
            assert_eq!(found(store, key).await, before);
        }
    }
    .boxed()
}

pub(crate) fn a_record_of_an_earlier_attempt_does_not_end_the_live_one(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        insert(store, 1).await;
        claimed(store, 1, 1, 5).await;
        recorded(store, 1, T::Throttle, 6).await;
        claimed(store, 1, 2, 70).await;
        recorded(store, 1, T::Throttle, 6).await;
        let live = found(store, 1).await;
        assert_eq!((live.state, live.changed_at), (S::Attempting, at(70)));
        assert_eq!(store.recover(at(0), None).await.unwrap().attempts[1].finished_at, None);
        // After a restart with the clock set back, a live attempt is lost "before" it was claimed.
        recorded(store, 1, T::Lose, 50).await;
        assert_eq!(found(store, 1).await.state, S::Unknown);
    }
    .boxed()
}

pub(crate) fn what_stands_beside_an_impossible_record_is_done(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        for key in 1..=3 {
            bring(store, key, S::Attempting).await;
        }
        let batch = [record(1, T::Accept, 200), record(2, T::Find, 200), record(3, T::Throttle, 200)];
        let told = store.record(batch.into()).await.unwrap_err();
        assert!(told.to_string().contains("operation 2"), "{told}");
        let states = [found(store, 1).await.state, found(store, 2).await.state, found(store, 3).await.state];
        assert_eq!(states, [S::Accepted, S::Attempting, S::Deferred]);
    }
    .boxed()
}

pub(crate) fn a_record_of_an_unknown_operation_is_ignored(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        assert_eq!(store.record([record(5, T::Accept, 1)].into()).await, Ok(()));
        assert_eq!(store.counts().await, Ok([0; 10]));
        assert_last_key(store, store.recover(at(0), None).await.unwrap().last_key, None);
    }
    .boxed()
}

pub(crate) fn an_attempt_number_is_never_used_twice(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        insert(store, 1).await;
        claimed(store, 1, 1, 5).await;
        recorded(store, 1, T::Void, 6).await;
        assert_eq!(found(store, 1).await.rows, 1, "the number is used up, the attempt is not");
        assert_eq!(found(store, 1).await.attempts, 0);
        assert_eq!(store.claim(vec![claim(1, 1, 7)]).await, Ok(vec![None]));
        claimed(store, 1, 2, 8).await;
    }
    .boxed()
}

pub(crate) fn a_void_attempt_leaves_no_charge(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        insert(store, 1).await;
        claimed(store, 1, 1, 5).await;
        recorded(store, 1, T::Throttle, 6).await;
        claimed(store, 1, 2, 70).await;
        recorded(store, 1, T::Void, 71).await;
        let attempts = store.recover(at(0), None).await.unwrap().attempts;
        assert_eq!(attempts.iter().map(|attempt| attempt.attempt).collect::<Vec<_>>(), [1]);
        assert_eq!(attempts[0].finished_at, Some(at(6)));
    }
    .boxed()
}

pub(crate) fn a_lost_attempt_is_not_known_to_have_ended(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        insert(store, 1).await;
        claimed(store, 1, 1, 5).await;
        recorded(store, 1, T::Lose, 60).await;
        recorded(store, 1, T::Find, 90).await;
        let attempts = store.recover(at(0), None).await.unwrap().attempts;
        assert_eq!((attempts[0].claimed_at, attempts[0].finished_at), (at(5), None));
    }
    .boxed()
}

pub(crate) fn status_and_provider_id_stay_until_there_are_newer_ones(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        insert(store, 1).await;
        claimed(store, 1, 1, 5).await;
        let throttled = Record { status: Some(429), ..record(1, T::Throttle, 6) };
        store.record([throttled].into()).await.unwrap();
        assert_eq!(found(store, 1).await.last_status, Some(429));
        assert_eq!(found(store, 1).await.next_at, Some(at(66)));
        claimed(store, 1, 2, 70).await;
        assert_eq!(found(store, 1).await.next_at, None, "it goes now");
        recorded(store, 1, T::Lose, 71).await;
        assert_eq!(found(store, 1).await.last_status, Some(429));
        let accepted = Record { provider_id: Some("request-9".into()), status: Some(202), ..record(1, T::Find, 80) };
        store.record([accepted].into()).await.unwrap();
        let end = found(store, 1).await;
        assert_eq!((end.last_status, end.provider_id.as_deref()), (Some(202), Some("request-9")));
        assert_eq!(end.key, OperationKey(1));
    }
    .boxed()
}

pub(crate) fn what_a_person_said_stands_in_the_row_until_the_next_one_says_something(
    given: &Given,
) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        insert(store, 1).await;
        let order = |reason: &str, by: Option<&str>, deadline| {
            Some(Arc::new(OrderWords { reason: reason.into(), by: by.map(Into::into), deadline }))
        };
        let words = order("a look", Some("kim"), None);
        let aside = Record { order: words, maybe_sent: true, status: Some(504), ..record(1, T::Quarantine, 5) };
        store.record([aside].into()).await.unwrap();
        let before = found(store, 1).await;
        assert_eq!((before.state, before.order), (S::Quarantined, order("a look", Some("kim"), None)));
        assert_eq!((before.maybe_sent, before.last_status), (true, Some(504)));
        assert!(store.email(OperationKey(1)).await.unwrap().is_some(), "it may be sent yet");
        let released = Record { order: order("go on", None, Some(at(9_000))), ..record(1, T::Release, 6) };
        store.record([released.clone()].into()).await.unwrap();
        store.record([released].into()).await.unwrap();
        let after = found(store, 1).await;
        assert_eq!((after.state, after.order.clone()), (S::Queued, order("go on", None, None)));
        assert_eq!((before.deadline == after.deadline, after.deadline), (false, at(9_000)));
        claimed(store, 1, 1, 7).await;
        recorded(store, 1, T::Accept, 8).await;
        let last = found(store, 1).await;
        assert_eq!(last.order, after.order, "whoever let it go on is still told");
        assert_eq!((last.maybe_sent, last.last_status), (true, Some(504)), "and that it may have been sent before");
    }
    .boxed()
}
