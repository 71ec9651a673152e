//! What a call costs, in rows that it looks at: a clock would show the machine.

use std::collections::BTreeMap;

use futures::FutureExt;
use proptest::prelude::*;

use super::run::{self, Cursor, Front, NIL};
use super::*;
use crate::engine::operation::Transition;
use crate::engine::{Cost, Lane, Leaves};

const MANY: u64 = 100_000;
const LIMIT: usize = 10;

const fn at(second: u64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000 + second * 1_000_000)
}

fn new(key: u64, mailboxes: u64) -> NewOperation {
    let email = Email::from_mime("a@contoso.example", ["b@fabrikam.example"], &b"Subject: x\r\n\r\nx\r\n"[..]);
    NewOperation {
        key: OperationKey(key),
        id: format!("operation-{key}").into(),
        fingerprint: 1,
        mailbox: format!("mailbox-{}@contoso.example", key % mailboxes).into(),
        lane: Lane::ALL[(key / 7 % 2) as usize],
        tenant: (!key.is_multiple_of(3)).then(|| format!("tenant-{}", key % 3).into()),
        campaign: (!key.is_multiple_of(5)).then(|| format!("campaign-{}", key % 11).into()),
        cost: Cost::email(1, 1_000),
        submitted_at: at(0),
        // A tenth waits for tomorrow.
        not_before: at(if key.is_multiple_of(10) { 86_400 } else { 0 }),
        deadline: at(100_000),
        email: email.expect("valid"),
        note: None,
    }
}

fn record(key: u64, transition: Transition) -> Record {
    let (state, attempts) = (transition.to(), transition.attempts_after(0));
    let (status, provider_id, order) = (None, None, None);
    let (key, at, next_at, maybe_sent) = (OperationKey(key), at(2), None, false);
    Record {
        key,
        transition,
        state,
        at,
        next_at,
        attempts,
        status,
        provider_id,
        maybe_sent,
        leaves: Leaves::after(transition),
        order,
    }
}

/// A tenth admitted; of the others one in three sent, one in three lost, one in three queued.
fn full(operations: u64) -> MemoryStore {
    let store = MemoryStore::new();
    let mut rows = store.rows();
    for key in 1..=operations {
        rows.insert(new(key, operations / 20));
        if key % 3 != 0 && !key.is_multiple_of(10) {
            let claim = Claim { key: OperationKey(key), attempt: 1, at: at(1), cost: Cost::email(1, 1_000) };
            assert!(rows.claim(claim).is_some());
            let end = if key % 3 == 1 { Transition::Accept } else { Transition::Lose };
            rows.record(&record(key, end)).expect("listed");
        }
    }
    drop(rows);
    store
}

/// Every way to narrow a query, by one of the names that there are.
fn queries() -> Vec<OperationQuery> {
    let mut queries = Vec::new();
    for state in std::iter::once(None).chain(OperationState::ALL.map(Some)) {
        for lane in [None, Some(Lane::Foreground), Some(Lane::Background)] {
            for names in 0..8 {
                for eligible_at in [None, Some(at(50))] {
                    let named = |bit: u32, name: &str| (names >> bit & 1 == 1).then(|| name.into());
                    queries.push(OperationQuery {
                        state,
                        mailbox: named(0, "mailbox-41@contoso.example"),
                        lane,
                        tenant: named(1, "tenant-2"),
                        campaign: named(2, "campaign-3"),
                        eligible_at,
                        limit: LIMIT,
                    });
                }
            }
        }
    }
    queries
}

#[test]
fn a_query_looks_at_as_many_rows_as_it_answers_with_however_many_there_are() {
    let store = full(MANY);
    let rows = store.rows();
    let mut answered = 0;
    for query in queries() {
        let found = search::search(&rows.rows, &rows.shelves, &query);
        // A bound on rows, of 100,000; none of these has to pass over one that may not go yet.
        assert!(found.looked_at <= LIMIT, "{query:?} looked at {}", found.looked_at);
        assert!(found.rows.len() == found.looked_at, "{query:?}");
        answered += found.rows.len();
    }
    assert!(answered > 600, "{answered}");
}

/// Each is claimed, and deferred to second 100; the youngest of each `one_in` to second 40.
fn deferred(operations: u64, one_in: u64) -> MemoryStore {
    let store = MemoryStore::new();
    let mut rows = store.rows();
    for key in 1..=operations {
        rows.insert(NewOperation { not_before: at(0), ..new(key, operations / 20) });
        let claim = Claim { key: OperationKey(key), attempt: 1, at: at(1), cost: Cost::email(1, 1_000) };
        assert!(rows.claim(claim).is_some());
        let next_at = Some(at(if key.is_multiple_of(one_in) { 40 } else { 100 }));
        rows.record(&Record { next_at, ..record(key, Transition::Throttle) }).expect("listed");
    }
    drop(rows);
    store
}

#[test]
fn what_may_go_is_found_past_a_long_run_that_may_not() {
    let store = deferred(MANY, MANY);
    let rows = store.rows();
    for query in queries() {
        let found = search::search(&rows.rows, &rows.shelves, &query);
        assert!(found.looked_at <= 2 * LIMIT, "{query:?} looked at {}", found.looked_at);
    }
    let all = OperationQuery { limit: LIMIT, ..OperationQuery::default() };
    let found = |second| {
        search::search(&rows.rows, &rows.shelves, &OperationQuery { eligible_at: Some(at(second)), ..all.clone() })
    };
    assert_eq!(found(50).rows.iter().map(|row| row.key.0).collect::<Vec<_>>(), [MANY]);
    // All of them may go.
    let due = found(100);
    assert_eq!(due.rows.iter().map(|row| row.key.0).collect::<Vec<_>>(), (1..=LIMIT as u64).collect::<Vec<_>>());
    assert!(due.looked_at <= 2 * LIMIT, "{}", due.looked_at);
}

#[test]
fn what_may_go_is_found_among_many_that_may_not_and_many_younger_ones_that_may() {
    let store = deferred(MANY, 1);
    let mut rows = store.rows();
    // The older half has failed once more.
    for key in 1..=MANY / 2 {
        let claim = Claim { key: OperationKey(key), attempt: 2, at: at(3), cost: Cost::email(1, 1_000) };
        assert!(rows.claim(claim).is_some());
        let again = Record { next_at: Some(at(100)), at: at(4), ..record(key, Transition::Throttle) };
        rows.record(&again).expect("listed");
    }
    let query = OperationQuery { limit: LIMIT, eligible_at: Some(at(50)), ..OperationQuery::default() };
    let found = search::search(&rows.rows, &rows.shelves, &query);
    let expected: Vec<u64> = (MANY / 2 + 1..).take(LIMIT).collect();
    assert_eq!(found.rows.iter().map(|row| row.key.0).collect::<Vec<_>>(), expected);
    // Those of one block that may go, and a row of the runs for each.
    assert!(found.looked_at <= 2 * 4_096, "{}", found.looked_at);
}

#[test]
fn every_query_finds_what_a_scan_finds() {
    [full(2_000), deferred(2_000, 7)].iter().for_each(assert_found_as_by_a_scan);
}

fn assert_found_as_by_a_scan(store: &MemoryStore) {
    let rows = store.rows();
    let mut all: Vec<OperationRecord> = rows.rows.iter().map(|row| row.record(rows.shelves.places())).collect();
    all.sort_by_key(|record| record.key);
    for query in queries() {
        let found: Vec<u64> = rows.query(&query).iter().map(|record| record.key.0).collect();
        let expected: Vec<u64> = all.iter().filter(|record| query.wants(record)).map(|record| record.key.0).collect();
        assert_eq!(found, expected[..LIMIT.min(expected.len())], "{query:?}");
    }
}

#[test]
fn the_recovery_of_a_mailbox_looks_at_its_own_rows() {
    let store = full(MANY);
    let rows = store.rows();
    let found = search::of_mailbox(&rows.rows, &rows.shelves, "mailbox-41@contoso.example");
    assert_eq!(found.len(), 20);
    drop(rows);
    let recovery = store.recover(at(0), Some("mailbox-41@contoso.example".into())).now_or_never().expect("ready");
    assert!(recovery.expect("in memory").operations.len() < 20);
}

#[test]
fn what_is_forgotten_leaves_nothing() {
    let store = MemoryStore::with_bounds(1_000, 10);
    let mut rows = store.rows();
    for key in 1..=1_000 {
        rows.insert(new(key, 50));
        rows.record(&record(key, Transition::Cancel)).expect("listed");
    }
    assert_eq!((rows.rows.len(), rows.by_id.len(), rows.finals.len()), (10, 10, 10));
    let all = OperationQuery { limit: usize::MAX, ..OperationQuery::default() };
    assert_eq!(
        rows.query(&all).iter().map(|record| record.key.0).collect::<Vec<_>>(),
        (991..=1_000).collect::<Vec<_>>()
    );
    assert!(rows.shelves.is_slim(10), "{:?}", rows.shelves);
}

proptest! {
    #[test]
    fn a_run_agrees_with_an_ordered_set(steps in proptest::collection::vec((any::<bool>(), 0_u64..200), 0..600)) {
        let (mut rows, mut root, mut shelves) = (Slab::default(), NIL, Shelves::default());
        let mut model = BTreeMap::new();
        for (insert, key) in steps {
            let first = model.first_key_value().map(|(key, _)| *key);
            if insert && !model.contains_key(&key) {
                let at = rows.insert(Row::new(new(key, 1), &mut shelves));
                model.insert(key, at);
                let front = if first.is_none_or(|first| key < first) { Front::Changed } else { Front::Same };
                prop_assert_eq!(run::insert(&mut rows, &mut root, at), front);
            } else if !insert && let Some(at) = model.remove(&key) {
                let front = if first == Some(key) { Front::Changed } else { Front::Same };
                prop_assert_eq!(run::remove(&mut rows, &mut root, at), front);
                rows.remove(OperationKey(key));
            }
            let keys: Vec<u64> = Cursor::new(&rows, root).map(|row| row.key.0).collect();
            prop_assert_eq!(&keys, &model.keys().copied().collect::<Vec<_>>());
            prop_assert_eq!(run::first(&rows, root).map(|key| key.0), keys.first().copied());
        }
    }

}

#[test]
fn a_run_is_shallow_whatever_keys_it_has() {
    for step in [1, 2, 3, 64, 1_000, 4_181, 1 << 20, 1 << 40] {
        let (mut rows, mut root, mut shelves) = (Slab::default(), NIL, Shelves::default());
        for key in 1..=4_096 {
            let at = rows.insert(Row::new(new(key * step, 1), &mut shelves));
            run::insert(&mut rows, &mut root, at);
        }
        assert!(depth(&rows, root) <= 48, "{} for 4,096 rows, {step} apart", depth(&rows, root));
    }
}

fn depth(rows: &Slab<Row>, at: u32) -> usize {
    if at == NIL {
        return 0;
    }
    let [left, right] = rows.at(at).links;
    1 + depth(rows, left).max(depth(rows, right))
}

#[test]
fn the_defaults_of_the_configuration_are_the_defaults() {
    let bounds = |store: &MemoryStore| {
        let rows = store.rows();
        (rows.live_max, rows.final_max, rows.kept.max)
    };
    let configured = MemoryStore::from(&crate::config::MemoryStoreConfig::default());
    assert_eq!(bounds(&configured), bounds(&MemoryStore::new()));
}
