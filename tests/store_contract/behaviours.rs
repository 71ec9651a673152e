//! Going in, and getting emails back out to be sent.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use mailweir::engine::operation::Transition;
use mailweir::engine::{Cost, Lane, OperationKey, OperationState, Timestamp};
use mailweir::store::{Inserted, NewOperation, StoreError};

use crate::fixture::*;

pub(crate) fn an_operation_is_found_by_its_id_as_it_was_given(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        let operation = NewOperation {
            tenant: Some("acme".into()),
            campaign: Some("spring \u{1f33c}".into()),
            lane: Lane::Background,
            deadline: Timestamp::NEVER,
            cost: Cost { requests: 1, recipients: 500, external_recipients: 3, quota_units: 7, bytes: 1 << 40 },
            ..new(7)
        };
        assert_eq!(store.insert(vec![operation.clone()]).await, Ok(vec![Inserted::New]));
        assert_eq!(store.operation("operation-7").await, Ok(Some(operation.first_row())));
        assert_eq!(store.operation("operation-8").await, Ok(None));
    }
    .boxed()
}

pub(crate) fn an_operation_that_has_to_wait_is_admitted_and_any_other_queued(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        let waits = NewOperation { not_before: at(1).after(Duration::from_micros(1)), ..new(1) };
        let past = NewOperation { not_before: at(0), ..new(3) };
        store.insert(vec![waits, new(2), past]).await.unwrap();
        let states = [found(store, 1).await.state, found(store, 2).await.state, found(store, 3).await.state];
        assert_eq!(states, [OperationState::Admitted, OperationState::Queued, OperationState::Queued]);
    }
    .boxed()
}

pub(crate) fn the_same_id_and_content_is_the_same_operation(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        insert(store, 1).await;
        claimed(store, 1, 1, 5).await;
        let again = NewOperation { key: OperationKey(2), submitted_at: at(6), email: email("other"), ..new(1) };
        let there = found(store, 1).await;
        assert_eq!(there.state, OperationState::Attempting);
        assert_eq!(store.insert(vec![again]).await, Ok(vec![Inserted::Existing(Box::new(there))]));
        assert_eq!(store.email(OperationKey(1)).await, Ok(Some(new(1).email)));
        assert_eq!(store.recover(at(0), None).await.unwrap().operations.len(), 1);
    }
    .boxed()
}

pub(crate) fn the_same_id_with_other_content_is_a_conflict(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        insert(store, 1).await;
        let other = NewOperation { key: OperationKey(2), fingerprint: 9, email: email("other"), ..new(1) };
        assert_eq!(store.insert(vec![other, new(3)]).await, Ok(vec![Inserted::Conflict, Inserted::New]));
        assert_eq!(found(store, 1).await, new(1).first_row());
        assert_eq!(store.email(OperationKey(2)).await, Ok(None));
        assert_eq!(found(store, 3).await, new(3).first_row());
    }
    .boxed()
}

pub(crate) fn a_batch_may_name_an_id_twice(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        let again = NewOperation { key: OperationKey(2), ..new(1) };
        let other = NewOperation { key: OperationKey(3), fingerprint: 9, ..new(1) };
        let there = Inserted::Existing(Box::new(new(1).first_row()));
        let answer = store.insert(vec![new(1), again, other]).await;
        assert_eq!(answer, Ok(vec![Inserted::New, there, Inserted::Conflict]));
    }
    .boxed()
}

pub(crate) fn a_key_of_another_operation_is_refused_with_the_whole_batch(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        insert(store, 1).await;
        let taken = NewOperation { key: OperationKey(1), ..new(3) };
        let refused = store.insert(vec![new(2), taken]).await;
        assert!(matches!(refused, Err(StoreError::Contradiction { .. })), "{refused:?}");
        assert!(!refused.unwrap_err().is_retryable());
        assert_eq!(store.operation("operation-2").await, Ok(None));
        assert_eq!(store.operation("operation-3").await, Ok(None));
        assert_eq!(found(store, 1).await, new(1).first_row());
    }
    .boxed()
}

pub(crate) fn an_insert_that_nobody_waits_for_is_done(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        drop(store.insert(vec![new(1)]).now_or_never());
        let recovery = store.recover(at(0), None).await.unwrap();
        assert_eq!(recovery.operations, [new(1).first_row()]);
    }
    .boxed()
}

pub(crate) fn calls_of_one_turn_take_effect_in_their_order(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        let (inserted, claimed, recorded, recovery) = futures::join!(
            store.insert(vec![new(1)]),
            store.claim(vec![claim(1, 1, 5)]),
            store.record([record(1, Transition::Throttle, 6)].into()),
            store.recover(at(0), None),
        );
        assert_eq!(inserted, Ok(vec![Inserted::New]));
        assert_eq!(claimed, Ok(vec![Some(new(1).email)]));
        assert_eq!(recorded, Ok(()));
        assert_eq!(recovery.unwrap().operations.iter().next().unwrap().state, OperationState::Deferred);
    }
    .boxed()
}

pub(crate) fn every_attempt_gets_the_very_same_bytes(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        let bytes: Vec<u8> =
            b"Subject: all bytes\r\n\r\n".iter().copied().chain(0..=255).cycle().take(100_000).collect();
        let email = mailweir::Email::from_mime("a@contoso.example", ["b@x.example", "c@x.example"], bytes).unwrap();
        let operation = NewOperation { email: email.clone(), ..new(1) };
        store.insert(vec![operation]).await.unwrap();
        for attempt in 1..=3 {
            let second = u64::from(attempt) * 10;
            assert_eq!(store.claim(vec![claim(1, attempt, second)]).await, Ok(vec![Some(email.clone())]));
            recorded(store, 1, Transition::Throttle, second + 1).await;
        }
    }
    .boxed()
}

pub(crate) fn a_claim_whose_answer_was_lost_is_answered_again(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        insert(store, 1).await;
        for second in [5, 6] {
            assert_eq!(store.claim(vec![claim(1, 1, second)]).await, Ok(vec![Some(new(1).email)]));
        }
        let recovery = store.recover(at(0), None).await.unwrap();
        assert_eq!(recovery.attempts.len(), 1, "one row");
        assert_eq!(recovery.attempts[0].claimed_at, at(5), "of the first call");
        // The caller took the first claim for lost for good and goes on with the next number.
        claimed(store, 1, 2, 7).await;
        assert_eq!(found(store, 1).await.rows, 2);
    }
    .boxed()
}

pub(crate) fn a_claim_that_may_not_send_is_answered_with_nothing(given: &Given) -> BoxFuture<'_, ()> {
    async {
        use OperationState as S;
        let store = given.store();
        assert_eq!(store.claim(vec![claim(99, 1, 1)]).await, Ok(vec![None]), "no such operation");
        let dead = [S::Unknown, S::Accepted, S::Rejected, S::Exhausted, S::Cancelled, S::Quarantined];
        for (state, key) in dead.into_iter().zip(1..) {
            bring(store, key, state).await;
            let before = found(store, key).await;
            assert_eq!(store.claim(vec![claim(key, 2, 200)]).await, Ok(vec![None]), "{state}");
            assert_eq!(found(store, key).await, before);
        }
        bring(store, 20, S::Deferred).await;
        assert_eq!(store.claim(vec![claim(20, 1, 200)]).await, Ok(vec![None]), "that attempt has ended");
    }
    .boxed()
}

pub(crate) fn an_email_goes_when_its_operation_ends_and_stays_in_quarantine(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        for (state, key) in OperationState::ALL.into_iter().zip(1..) {
            bring(store, key, state).await;
            let is_over = state.is_final() && state != OperationState::Quarantined;
            let expected = (!is_over).then(|| new(key).email);
            assert_eq!(store.email(OperationKey(key)).await, Ok(expected), "{state}");
        }
        bring(store, 20, OperationState::Quarantined).await;
        recorded(store, 20, Transition::Discard, 200).await;
        assert_eq!(store.email(OperationKey(20)).await, Ok(None), "discarded by a person");
        bring(store, 21, OperationState::Quarantined).await;
        recorded(store, 21, Transition::Release, 200).await;
        let released = store.claim(vec![claim(21, 2, 201)]).await;
        assert_eq!(released, Ok(vec![Some(new(21).email)]), "released by a person");
    }
    .boxed()
}
