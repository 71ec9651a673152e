//! Recovery, queries and counts, held against a plain scan.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use mailweir::engine::operation::Transition as T;
use mailweir::engine::{Lane, OperationState as S};
use mailweir::store::{Horizons, NewOperation, NoteChange, NoteKey, NoteKind, OperationQuery, OperationRecord, Store};

use crate::fixture::*;

pub(crate) fn recovery_holds_what_is_not_over_in_order_of_key(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        for (state, key) in S::ALL.into_iter().rev().zip(1..) {
            bring(store, key, state).await;
        }
        let recovery = store.recover(at(0), None).await.unwrap();
        let states: Vec<_> = recovery.operations.iter().map(|operation| operation.state).collect();
        assert_eq!(states, [S::Unknown, S::Deferred, S::Attempting, S::Queued, S::Admitted]);
        for operation in &recovery.operations {
            assert_eq!(*operation, found(store, operation.key.0).await);
        }
        assert_last_key(store, recovery.last_key, Some(10));
    }
    .boxed()
}

pub(crate) fn recovery_is_whole_and_in_order_however_long_it_is(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        let mut there = 0;
        // It is handed over in pages of 1,024 rows.
        for count in [0, 1, 1_023, 1_024, 1_025, 2_049] {
            // Lanes and states in another order than the keys.
            let lane = |key: u64| Lane::ALL[(key / 5 % 2) as usize];
            let batch: Vec<_> = (there + 1..=count).map(|key| NewOperation { lane: lane(key), ..new(key) }).collect();
            store.insert(batch).await.unwrap();
            let seventh = |part: u64| (there + 1..=count).filter(move |key| key % 7 == part);
            let tried = seventh(1).chain(seventh(2)).map(|key| claim(key, 1, key + 1));
            store.claim(tried.collect()).await.unwrap();
            for (part, transition) in [(1, T::Throttle), (3, T::Cancel)] {
                let records = seventh(part).map(|key| record(key, transition, key + 2));
                store.record(records.collect()).await.unwrap();
            }
            let whole = store.recover(at(0), None).await.unwrap().operations;
            let keys: Vec<u64> = whole.iter().map(|operation| operation.key.0).collect();
            let expected: Vec<u64> = (1..=count).filter(|key| key % 7 != 3).collect();
            assert_eq!((whole.len(), keys), (expected.len(), expected));
            let one = store.recover(at(0), Some(new(1).mailbox)).await.unwrap();
            assert_eq!(one.operations, whole);
            for operation in whole.iter().filter(|operation| operation.key.0 % 500 < 8) {
                assert_eq!(*operation, found(store, operation.key.0).await);
            }
            there = count;
        }
    }
    .boxed()
}

pub(crate) fn recovery_holds_attempts_from_the_very_instant_on(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        for (key, second) in [(1, 30), (2, 10), (3, 20)] {
            insert(store, key).await;
            claimed(store, key, 1, second).await;
        }
        recorded(store, 2, T::Accept, 40).await;
        let keys = async |since| {
            let attempts = store.recover(since, None).await.unwrap().attempts;
            attempts.iter().map(|attempt| attempt.key.0).collect::<Vec<_>>()
        };
        assert_eq!(keys(at(10)).await, [2, 3, 1], "in order of claim, what has ended included");
        assert_eq!(keys(at(10).after(Duration::from_micros(1))).await, [3, 1]);
        let first = store.recover(at(0), None).await.unwrap().attempts.remove(0);
        assert_eq!((first.finished_at, first.cost, first.lane), (Some(at(40)), claim(2, 1, 10).cost, Lane::Foreground));
    }
    .boxed()
}

pub(crate) fn recovery_of_one_mailbox_holds_nothing_of_another(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        let other = NewOperation { mailbox: "alerts@contoso.example".into(), tenant: Some("acme".into()), ..new(2) };
        store.insert(vec![new(1), other]).await.unwrap();
        claimed(store, 1, 1, 5).await;
        claimed(store, 2, 1, 6).await;
        let recovery = store.recover(at(0), Some("alerts@contoso.example".into())).await.unwrap();
        assert_eq!(recovery.operations, [found(store, 2).await]);
        assert_eq!(recovery.attempts.iter().map(|attempt| attempt.key.0).collect::<Vec<_>>(), [2]);
        assert_eq!(recovery.attempts[0].tenant.as_deref(), Some("acme"));
        assert_last_key(store, recovery.last_key, Some(2));
        let nobody = store.recover(at(0), Some("nobody@contoso.example".into())).await.unwrap();
        assert_eq!((nobody.operations.len(), nobody.attempts.len()), (0, 0));
        assert_last_key(store, nobody.last_key, Some(2));
    }
    .boxed()
}

/// What a start knows after its outline and the mailboxes that were left for later is what one reading would have told.
pub(crate) fn an_outline_and_what_it_leaves_apart_are_the_whole(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        let in_mailbox = |key: u64, mailbox: &str| NewOperation { mailbox: mailbox.into(), ..new(key) };
        let [waits, spent, old, idle] = ["waits", "spent", "old", "idle"].map(|name| format!("{name}@contoso.example"));
        let batch = [(1, &waits), (2, &spent), (3, &old), (4, &waits), (5, &idle)];
        store.insert(batch.map(|(key, mailbox)| in_mailbox(key, mailbox)).into()).await.unwrap();
        for (key, second) in [(1, 30), (2, 20), (3, 5)] {
            claimed(store, key, 1, second).await;
            recorded(store, key, T::Accept, second + 1).await;
        }
        recorded(store, 5, T::Cancel, 6).await;
        let key = NoteKey { kind: NoteKind::Trip, mailbox: Some(idle.clone().into()), name: "idle".into() };
        store.keep([NoteChange::Keep(order(key, 7))].into()).await.unwrap();

        let outline = store.outline(Horizons { mailboxes: at(10), shared: at(25) }).await.unwrap();
        let whole = store.recover(at(10), None).await.unwrap();
        let (here, apart) = (outline.recovery, outline.apart);
        assert_last_key(store, here.last_key, Some(5));
        assert_eq!(here.notes, whole.notes);
        assert_eq!(here.secret, whole.secret);
        let Some(apart) = apart else {
            assert_eq!((here.operations, here.attempts), (whole.operations, whole.attempts), "everything is here");
            return;
        };
        assert_eq!(here.operations, [], "left for later");
        assert_eq!(
            here.attempts.iter().map(|attempt| attempt.key.0).collect::<Vec<_>>(),
            [1],
            "what others have to know"
        );
        assert_eq!(apart.waiting.iter().map(|id| &**id).collect::<Vec<_>>(), [&*waits]);
        assert_eq!(apart.charged.iter().map(|id| &**id).collect::<Vec<_>>(), [&*waits, &*spent], "not what is too old");
        let rows = store.recover(at(10), Some(waits.as_str().into())).await.unwrap();
        assert_eq!(rows.operations, whole.operations);
    }
    .boxed()
}

const MAILBOXES: [&str; 3] = ["a@contoso.example", "b@contoso.example", "c@contoso.example"];
const TENANTS: [Option<&str>; 3] = [None, Some("acme"), Some("umbrella")];
const CAMPAIGNS: [Option<&str>; 4] = [None, Some("spring"), Some("summer"), Some("spring")];

/// Ninety operations: every mailbox with every tenant, campaigns, lanes and states mixed.
async fn fill(store: &dyn Store) {
    for key in 1..=90_u64 {
        let place = key as usize;
        let operation = NewOperation {
            mailbox: MAILBOXES[place % 3].into(),
            tenant: TENANTS[place / 3 % 3].map(Into::into),
            campaign: CAMPAIGNS[place / 5 % 4].map(Into::into),
            lane: Lane::ALL[place / 9 % 2],
            ..new(key)
        };
        store.insert(vec![operation]).await.unwrap();
        match key % 4 {
            0 => recorded(store, key, T::Cancel, 200).await,
            1 => claimed(store, key, 1, 200).await,
            _ => {}
        }
    }
}

pub(crate) fn every_query_finds_what_a_scan_finds_oldest_first(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        fill(store).await;
        let all = store.operations(OperationQuery { limit: usize::MAX, ..OperationQuery::default() }).await.unwrap();
        assert_eq!(all.iter().map(|found| found.key.0).collect::<Vec<_>>(), (1..=90).collect::<Vec<_>>());
        let states = [None, Some(S::Queued), Some(S::Attempting), Some(S::Cancelled), Some(S::Unknown)];
        let mailboxes = [None, Some(MAILBOXES[0]), Some(MAILBOXES[2]), Some("nobody@contoso.example")];
        let tenants = [None, Some("acme"), Some("umbrella"), Some("nobody")];
        for state in states {
            for mailbox in mailboxes {
                for tenant in tenants {
                    for lane in [None, Some(Lane::Foreground), Some(Lane::Background)] {
                        let (mailbox, tenant): (Option<Arc<str>>, Option<Arc<str>>) =
                            (mailbox.map(Into::into), tenant.map(Into::into));
                        let narrowed = OperationQuery { state, mailbox, lane, tenant, limit: 4, ..Default::default() };
                        each_way_through_a_campaign(store, &all, narrowed).await;
                    }
                }
            }
        }
    }
    .boxed()
}

async fn each_way_through_a_campaign(store: &dyn Store, all: &[OperationRecord], narrowed: OperationQuery) {
    for campaign in [None, Some("spring"), Some("nothing")] {
        for eligible_at in [None, Some(at(40))] {
            let query = OperationQuery { campaign: campaign.map(Into::into), eligible_at, ..narrowed.clone() };
            let expected: Vec<_> = all.iter().filter(|record| query.wants(record)).take(4).cloned().collect();
            assert_eq!(store.operations(query.clone()).await, Ok(expected), "{query:?}");
        }
    }
}

pub(crate) fn a_query_answers_with_its_limit_and_not_one_more(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        for key in 1..=3 {
            insert(store, key).await;
        }
        for (limit, expected) in [(0, 0), (2, 2), (3, 3), (4, 3), (usize::MAX, 3)] {
            for state in [None, Some(S::Queued)] {
                let query = OperationQuery { state, limit, ..OperationQuery::default() };
                assert_eq!(store.operations(query).await.unwrap().len(), expected, "limit {limit}");
            }
        }
    }
    .boxed()
}

pub(crate) fn a_query_that_names_no_limit_finds_a_hundred(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        store.insert((1..=101).map(new).collect()).await.unwrap();
        let found = store.operations(OperationQuery::default()).await.unwrap();
        assert_eq!(found.iter().map(|found| found.key.0).collect::<Vec<_>>(), (1..=100).collect::<Vec<_>>());
    }
    .boxed()
}

pub(crate) fn the_oldest_eligible_operation_is_past_those_that_cannot_go_yet(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        // Deferred to second 159, and admitted for seconds 500, 200 and 5; then those that are not eligible at all.
        bring(store, 1, S::Deferred).await;
        for (key, second) in [(2, 500), (3, 200), (4, 5)] {
            store.insert(vec![NewOperation { not_before: at(second), ..new(key) }]).await.unwrap();
        }
        for (key, state) in [(5, S::Attempting), (6, S::Unknown), (7, S::Quarantined), (8, S::Accepted)] {
            bring(store, key, state).await;
        }
        bring(store, 9, S::Queued).await;
        store.insert(vec![NewOperation { mailbox: MAILBOXES[0].into(), ..new(10) }]).await.unwrap();
        store.insert(vec![NewOperation { lane: Lane::Background, ..new(11) }]).await.unwrap();
        let eligible = async |eligible_at, mailbox: Option<&str>| {
            let (lane, mailbox) = (Some(Lane::Foreground), mailbox.map(Into::into));
            let query = OperationQuery { lane, mailbox, eligible_at: Some(eligible_at), ..OperationQuery::default() };
            let found = store.operations(query).await.unwrap();
            found.iter().map(|found| found.key.0).collect::<Vec<_>>()
        };
        let instant = Duration::from_micros(1);
        assert_eq!(eligible(at(0), None).await, [0_u64; 0], "nothing was submitted yet");
        assert_eq!(eligible(at(159).before(instant), None).await, [4, 9, 10]);
        assert_eq!(eligible(at(159), None).await, [1, 4, 9, 10]);
        assert_eq!(eligible(at(200), None).await, [1, 3, 4, 9, 10]);
        assert_eq!(eligible(at(500), None).await, [1, 2, 3, 4, 9, 10]);
        assert_eq!(eligible(at(500), Some(MAILBOXES[0])).await, [10]);
        let background =
            OperationQuery { lane: Some(Lane::Background), eligible_at: Some(at(500)), ..OperationQuery::default() };
        assert_eq!(store.operations(background).await, Ok(vec![found(store, 11).await]));
    }
    .boxed()
}

pub(crate) fn counts_follow_every_step(given: &Given) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        assert_eq!(store.counts().await, Ok([0; 10]));
        let mut expected = [0; 10];
        for (state, key) in S::ALL.into_iter().cycle().zip(1..=30) {
            bring(store, key, state).await;
            expected[state as usize] += 1;
            assert_eq!(store.counts().await, Ok(expected));
        }
        // A repetition counts nothing.
        store.insert(vec![new(2)]).await.unwrap();
        assert_eq!(store.counts().await, Ok(expected));
    }
    .boxed()
}
