//! What is kept beside the operations.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use mailweir::engine::breaker::BreakerMemory;
use mailweir::engine::operation::{OrderWords, Requested};
use mailweir::engine::{Cost, Lane, Leaves, OperationKey, Timestamp};
use mailweir::store::{
    AdmissionNote, CrashNote, EndedHow, EndedNote, Inserted, NewOperation, Note, NoteBody, NoteChange, NoteKey,
    NoteKind, OrderNote, PermitNote, RequestNote, StoreError,
};

use crate::fixture::*;

const MAILBOX: &str = "noreply@contoso.example";

fn admission(name: &str, id: &str) -> Note {
    let key = NoteKey { kind: NoteKind::Admission, mailbox: Some(MAILBOX.into()), name: name.into() };
    let body = NoteBody::Admission(AdmissionNote { id: id.into() });
    Note { key, at: at(1), until: at(900), body }
}

/// One note of each kind, in order of their keys.
fn one_of_each() -> Vec<Note> {
    let permit = PermitNote {
        key: OperationKey(7),
        lane: Lane::Background,
        tenant: Some("acme".into()),
        cost: Cost { requests: 1, recipients: 500, external_recipients: 3, quota_units: 7, bytes: 1 << 40 },
        claimed_at: at(3),
        finished_at: None,
        leaves: Leaves::Refused,
    };
    let memory: BreakerMemory =
        serde_json::from_str(&format!(r#"{{"trips": 3, "background_paused_until": {}}}"#, at(60).as_micros())).unwrap();
    let words = |reason: &str| OrderNote { reason: reason.into(), ..OrderNote::default() };
    let ended = EndedNote {
        ordered: Some(words("a look")),
        lifted: Some(words("done")),
        how: EndedHow::Part,
        since: Some(at(1)),
        until: Some(Timestamp::NEVER),
        ended_at: Some(at(4)),
    };
    let order = OrderWords { reason: "wrong list".into(), by: Some("kim".into()), deadline: None };
    let request = RequestNote { wants: Requested::Cancel, order: Arc::new(order) };
    let bodies = [
        NoteBody::Order(OrderNote {
            reason: "a \"quoted\" reason \u{1f33c}".into(),
            by: Some("kim".into()),
            ..OrderNote::default()
        }),
        NoteBody::Order(OrderNote { reason: "no name".into(), by: None, ..OrderNote::default() }),
        NoteBody::Breaker(Box::new(memory)),
        NoteBody::Permit(permit),
        NoteBody::Admission(AdmissionNote { id: "operation-7".into() }),
        NoteBody::Ended(Box::new(ended)),
        NoteBody::Request(Box::new(request)),
        NoteBody::Crash(CrashNote { panics: 2, deaths: 1, attempt: 3 }),
    ];
    assert_eq!(bodies.len(), NoteKind::ALL.len(), "one of each");
    let notes = NoteKind::ALL.into_iter().zip(bodies).map(|(kind, body)| {
        let mailbox = (kind > NoteKind::Trip).then(|| MAILBOX.into());
        Note { key: NoteKey { kind, mailbox, name: "the name".into() }, at: at(5), until: Timestamp::NEVER, body }
    });
    notes.collect()
}

pub(crate) fn a_note_is_read_back_as_it_was_kept_whatever_it_says(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        let kept = one_of_each();
        keep(store, kept.iter().rev().cloned().map(NoteChange::Keep)).await;
        assert_eq!(notes(store, None).await, kept);
    }
    .boxed()
}

pub(crate) fn the_last_word_about_a_key_counts_and_saying_it_twice_changes_nothing(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        let batch = [
            NoteChange::Keep(order(hold("all"), 1)),
            NoteChange::Drop(hold("mailbox:a")),
            NoteChange::Keep(order(hold("mailbox:a"), 2)),
            NoteChange::Keep(order(hold("all"), 3)),
            NoteChange::Keep(order(hold("mailbox:b"), 4)),
            NoteChange::Drop(hold("mailbox:b")),
        ];
        for _ in 0..2 {
            keep(store, batch.clone()).await;
            assert_eq!(notes(store, None).await, [order(hold("all"), 3), order(hold("mailbox:a"), 2)]);
        }
        keep(store, [NoteChange::Drop(hold("all")), NoteChange::Drop(hold("nobody"))]).await;
        assert_eq!(notes(store, None).await, [order(hold("mailbox:a"), 2)]);
    }
    .boxed()
}

pub(crate) fn a_mailbox_reads_its_own_notes_back_and_no_others(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        let of = |mailbox: Option<&str>| NoteKey { mailbox: mailbox.map(Into::into), ..hold("same") };
        let keys = [None, Some("a@contoso.example"), Some("b@contoso.example")].map(of);
        keep(store, keys.iter().cloned().map(|key| NoteChange::Keep(order(key, 1)))).await;
        assert_eq!(notes(store, Some("b@contoso.example")).await, [order(keys[2].clone(), 1)]);
        assert_eq!(notes(store, Some("nobody@contoso.example")).await, []);
        keep(store, [NoteChange::Drop(keys[1].clone())]).await;
        assert_eq!(notes(store, None).await.len(), 2, "the same name elsewhere is another note");
    }
    .boxed()
}

pub(crate) fn a_note_that_comes_with_an_operation_is_kept_with_it_unless_it_is_a_conflict(
    given: &Given,
) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        let with = |note: Note, new: NewOperation| NewOperation { note: Some(note), ..new };
        let first = admission("one", "operation-1");
        store.insert(vec![with(first.clone(), new(1)), new(2)]).await.unwrap();
        assert_eq!(notes(store, Some(MAILBOX)).await, std::slice::from_ref(&first));
        // The same operation under another key: both lead to it.
        let second = admission("two", "operation-1");
        let again = NewOperation { key: OperationKey(3), ..new(1) };
        let answer = store.insert(vec![with(second.clone(), again)]).await.unwrap();
        assert!(matches!(answer[0], Inserted::Existing(_)));
        assert_eq!(notes(store, None).await, [first, second]);
        let other = NewOperation { key: OperationKey(4), fingerprint: 9, ..new(1) };
        let answer = store.insert(vec![with(admission("three", "operation-1"), other)]).await.unwrap();
        assert_eq!(answer, [Inserted::Conflict]);
        assert_eq!(notes(store, None).await.len(), 2);
    }
    .boxed()
}

pub(crate) fn a_note_that_is_over_goes_and_one_that_is_not_stays(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        let ends = [100, 101, 102].map(|second| Note { until: at(second), ..order(hold(&format!("{second}")), 1) });
        keep(store, ends.clone().map(NoteChange::Keep)).await;
        assert_eq!(notes(store, None).await.len(), 3);
        keep(store, [NoteChange::Keep(order(hold("zz"), 101))]).await;
        assert_eq!(notes(store, None).await, [ends[2].clone(), order(hold("zz"), 101)], "at its instant it is over");
    }
    .boxed()
}

/// A permit's charge, kept at `second` for an hour.
fn charge(name: &str, second: u64) -> Note {
    let key = NoteKey { kind: NoteKind::Permit, mailbox: Some(MAILBOX.into()), name: name.into() };
    let (key_of, lane, cost) = (OperationKey(second), Lane::Foreground, Cost::ONE_REQUEST);
    let permit = PermitNote {
        key: key_of,
        lane,
        tenant: None,
        cost,
        claimed_at: at(second),
        finished_at: None,
        leaves: Leaves::All,
    };
    Note { key, at: at(second), until: at(second + 3_600), body: NoteBody::Permit(permit) }
}

pub(crate) fn a_store_keeps_its_last_note_and_refuses_the_next(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let kept = given.another(Bounds { live: 10, ended: 10, notes: 3 });
        let store = &*kept.store;
        let note = |name: &str, second| NoteChange::Keep(charge(name, second));
        keep(store, [note("a", 1), note("b", 1)]).await;
        let two: [NoteChange; 3] = [note("c", 1), note("a", 2), note("d", 1)];
        let full = store.keep(two.into()).await.unwrap_err();
        assert!(matches!(full, StoreError::Full { .. }) && full.to_string().contains('3'), "{full}");
        assert_eq!(notes(store, None).await, [charge("a", 1), charge("b", 1)], "all of it or nothing");
        keep(store, [note("c", 1), note("a", 2), note("c", 3)]).await;
        let admitted = NewOperation { note: Some(admission("d", "operation-1")), ..new(1) };
        let full = store.insert(vec![admitted.clone()]).await.unwrap_err();
        assert!(matches!(full, StoreError::Full { .. }), "{full}");
        assert_eq!(store.operation("operation-1").await, Ok(None));
        keep(store, [NoteChange::Drop(charge("b", 1).key)]).await;
        assert_eq!(store.insert(vec![admitted]).await, Ok(vec![Inserted::New]));
        // What replaces another needs no room, and what is over leaves some.
        keep(store, [note("a", 4)]).await;
        keep(store, [note("late", 100_000), note("later", 100_000), note("latest", 100_000)]).await;
    }
    .boxed()
}

pub(crate) fn what_stops_the_sending_has_room_in_a_full_store(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let kept = given.another(Bounds { live: 10, ended: 10, notes: 1 });
        let store = &*kept.store;
        keep(store, [NoteChange::Keep(charge("a", 1))]).await;
        let stops: Vec<Note> = one_of_each().into_iter().filter(|note| note.key.kind < NoteKind::Permit).collect();
        assert_eq!(stops.len(), 3);
        keep(store, stops.iter().cloned().map(NoteChange::Keep)).await;
        let read = notes(store, None).await;
        assert!(stops.iter().all(|note| read.contains(note)), "{read:?}");
        // A permit beside them is still one too many.
        let batch = [NoteChange::Keep(charge("b", 1)), NoteChange::Drop(stops[0].key.clone())];
        assert!(matches!(store.keep(batch.into()).await, Err(StoreError::Full { .. })));
        assert_eq!(notes(store, None).await, read);
    }
    .boxed()
}

pub(crate) fn a_secret_stays_with_its_store(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let (store, other) = (given.store(), given.another(Bounds { live: 1, ended: 1, notes: 1 }));
        let secret = store.recover(at(0), None).await.unwrap().secret;
        insert(store, 1).await;
        let of_one = store.recover(at(0), Some("nobody@contoso.example".into())).await.unwrap().secret;
        assert_eq!(of_one, secret);
        assert_ne!(other.store.recover(at(0), None).await.unwrap().secret, secret);
        assert_ne!(secret, mailweir::store::KeySecret::default());
    }
    .boxed()
}
