//! Random operations, fed to a store that outlives the process and to the one in memory: every answer is the same.
//!
//! Ids, keys, attempt numbers and instants come from small ranges, so that repetitions, stale calls, taken keys and
//! impossible records are common. Now and then the store is closed and opened again, which must show in no answer.

use std::sync::Arc;

use mailweir::engine::mailbox::Record;
use mailweir::engine::operation::{OrderWords, Transition};
use mailweir::engine::{Lane, OperationKey, OperationState};
use mailweir::store::{
    Claim, Inserted, MemoryStore, NewOperation, Note, NoteChange, NoteKey, NoteKind, OperationQuery, Store, StoreError,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::fixture::*;

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<NewOperation>),
    Claim(Vec<Claim>),
    Record(Vec<Record>),
    Keep(Vec<NoteChange>),
    Recover { since: u64, mailbox: Option<Arc<str>> },
    Ask(OperationQuery),
    Reopen,
}

const KEYS: std::ops::Range<u64> = 1..7;

fn mailboxes() -> impl Strategy<Value = Arc<str>> {
    select(vec!["a@contoso.example", "b@contoso.example"]).prop_map(Arc::from)
}

fn tenants() -> impl Strategy<Value = Option<Arc<str>>> {
    select(vec![None, Some("acme"), Some("a@contoso.example")]).prop_map(|tenant| tenant.map(Arc::from))
}

fn campaigns() -> impl Strategy<Value = Option<Arc<str>>> {
    select(vec![None, Some("spring"), Some("acme")]).prop_map(|campaign| campaign.map(Arc::from))
}

fn operations() -> impl Strategy<Value = NewOperation> {
    let content =
        (mailboxes(), (tenants(), campaigns()), select(Lane::ALL.to_vec()), 0..2_u64, proptest::option::of(changes()));
    (KEYS, KEYS, content, 0..4_u64, 0..8_u64).prop_map(
        |(key, id, (mailbox, (tenant, campaign), lane, fingerprint, note), wait, second)| NewOperation {
            note: note.and_then(|change| match change {
                NoteChange::Keep(note) => Some(note),
                NoteChange::Drop(_) => None,
            }),
            id: format!("operation-{id}").into(),
            fingerprint,
            mailbox,
            tenant,
            campaign,
            lane,
            submitted_at: at(second),
            not_before: at((second + wait).saturating_sub(2)),
            email: email(&format!("email-{key}-{second}")),
            ..new(key)
        },
    )
}

/// Batches in which no key stands twice: the scheduler mints a new one for each.
fn batches() -> impl Strategy<Value = Vec<NewOperation>> {
    vec(operations(), 1..4).prop_map(|mut batch| {
        batch.sort_by_key(|new| new.key);
        batch.dedup_by_key(|new| new.key);
        batch
    })
}

fn changes() -> impl Strategy<Value = NoteChange> {
    let name = (select(NoteKind::ALL.to_vec()), proptest::option::of(mailboxes()), 0..3_u64);
    (name, 0..10_u64, select(vec![None, Some(5), Some(900)])).prop_map(|((kind, mailbox, name), second, until)| {
        let key = NoteKey { kind, mailbox, name: format!("note-{name}").into() };
        match until {
            None => NoteChange::Drop(key),
            Some(until) => NoteChange::Keep(Note { until: at(until), ..order(key, second) }),
        }
    })
}

fn records() -> impl Strategy<Value = Record> {
    let order = OrderWords { reason: "a look".into(), by: Some("kim".into()), deadline: None };
    let later = OrderWords { by: None, deadline: Some(at(5_000)), ..order.clone() };
    let order = select(vec![None, Some(Arc::new(order)), Some(Arc::new(later))]);
    let facts = (0..3_u32, select(vec![None, Some(202), Some(429)]), select(vec![None, Some("request")]), order);
    // A claim is never recorded: `claim` writes it, with its attempt row.
    let recorded =
        Transition::ALL.into_iter().filter(|transition| *transition != Transition::Claim).collect::<Vec<_>>();
    (KEYS, select(recorded), 0..10_u64, facts).prop_map(
        |(key, transition, second, (attempts, status, provider_id, order))| Record {
            attempts,
            order,
            status,
            provider_id: provider_id.map(Into::into),
            maybe_sent: attempts == 2,
            ..record(key, transition, second)
        },
    )
}

fn queries() -> impl Strategy<Value = OperationQuery> {
    let state = proptest::option::of(select(OperationState::ALL.to_vec()));
    let lane = proptest::option::of(select(Lane::ALL.to_vec()));
    let eligible_at = proptest::option::of((0..80_u64).prop_map(at));
    let narrowed = (proptest::option::of(mailboxes()), tenants(), campaigns());
    (state, narrowed, lane, eligible_at, 0..6_usize).prop_map(
        |(state, (mailbox, tenant, campaign), lane, eligible_at, limit)| OperationQuery {
            state,
            mailbox,
            lane,
            tenant,
            campaign,
            eligible_at,
            limit,
        },
    )
}

fn steps() -> impl Strategy<Value = Step> {
    let claims = (KEYS, 1..5_u32, 0..10_u64).prop_map(|(key, attempt, second)| claim(key, attempt, second));
    let recover = (0..10_u64, proptest::option::of(mailboxes()));
    prop_oneof![
        4 => batches().prop_map(Step::Insert),
        4 => vec(claims, 1..4).prop_map(Step::Claim),
        6 => vec(records(), 1..4).prop_map(Step::Record),
        3 => vec(changes(), 1..4).prop_map(Step::Keep),
        1 => recover.prop_map(|(since, mailbox)| Step::Recover { since, mailbox }),
        2 => queries().prop_map(Step::Ask),
        1 => Just(Step::Reopen),
    ]
}

/// Which error; its words name a file in one store and none in the other.
fn kind(error: &StoreError) -> std::mem::Discriminant<StoreError> {
    std::mem::discriminant(error)
}

async fn compare(step: &Step, disk: &dyn Store, memory: &dyn Store) {
    match step {
        Step::Insert(batch) => {
            let (mine, theirs) = (disk.insert(batch.clone()).await, memory.insert(batch.clone()).await);
            let kinds = |answer: Result<Vec<Inserted>, StoreError>| answer.map_err(|error| kind(&error));
            assert_eq!(kinds(mine), kinds(theirs), "{step:?}");
        }
        Step::Claim(batch) => {
            assert_eq!(disk.claim(batch.clone()).await, memory.claim(batch.clone()).await, "{step:?}");
        }
        Step::Record(batch) => {
            let batch: Arc<[Record]> = batch.clone().into();
            assert_eq!(disk.record(batch.clone()).await, memory.record(batch).await, "{step:?}");
        }
        Step::Keep(batch) => {
            let batch: Arc<[NoteChange]> = batch.clone().into();
            assert_eq!(disk.keep(batch.clone()).await, memory.keep(batch).await, "{step:?}");
        }
        Step::Recover { since, mailbox } => {
            let mine = disk.recover(at(*since), mailbox.clone()).await.unwrap();
            let theirs = memory.recover(at(*since), mailbox.clone()).await.unwrap();
            assert_eq!(mine.operations, theirs.operations, "{step:?}");
            assert_eq!(mine.attempts, theirs.attempts, "{step:?}");
            assert_last_key(disk, mine.last_key, theirs.last_key.map(|key| key.0));
            // What is over goes by and by, in each store at its own pace.
            let lasting = |notes: Vec<Note>| notes.into_iter().filter(|note| note.until > at(10)).collect::<Vec<_>>();
            assert_eq!(lasting(mine.notes), lasting(theirs.notes), "{step:?}");
        }
        Step::Ask(query) => {
            assert_eq!(disk.operations(query.clone()).await, memory.operations(query.clone()).await, "{step:?}");
        }
        Step::Reopen => {}
    }
}

async fn compare_all(disk: &dyn Store, memory: &dyn Store) {
    let everything = OperationQuery { limit: usize::MAX, ..OperationQuery::default() };
    compare(&Step::Ask(everything), disk, memory).await;
    compare(&Step::Recover { since: 0, mailbox: None }, disk, memory).await;
    assert_eq!(disk.counts().await, memory.counts().await);
    for key in KEYS {
        let key = OperationKey(key);
        assert_eq!(disk.email(key).await, memory.email(key).await);
    }
}

#[cfg(feature = "sqlite")]
proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_store_on_disk_answers_like_the_one_in_memory(steps in vec(steps(), 1..40)) {
        use mailweir::store::SqliteStore;
        block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("outbox.db");
            let memory = MemoryStore::new();
            let mut disk = SqliteStore::open(&file).unwrap();
            for step in &steps {
                if matches!(step, Step::Reopen) {
                    disk.close().await.unwrap();
                    disk = SqliteStore::open(&file).unwrap();
                }
                compare(step, &disk, &memory).await;
            }
            compare_all(&disk, &memory).await;
        });
    }
}

/// Every case has a prefix of its own on one server. A store that is opened again knows nothing of what it knew.
#[cfg(feature = "redis")]
#[test]
fn a_shared_store_answers_like_the_one_in_memory() {
    use mailweir::store::RedisStore;
    let server = crate::redis_server::RedisServer::start();
    let options = redis_options();
    let case = std::sync::atomic::AtomicU64::new(0);
    let run = |steps: Vec<Step>| {
        let case = case.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let options = options.clone().prefix(format!("case-{case}"));
        block_on(async {
            let memory = MemoryStore::new();
            let mut shared = RedisStore::open_with(&server.url(), options.clone()).unwrap();
            for step in &steps {
                if matches!(step, Step::Reopen) {
                    shared = RedisStore::open_with(&server.url(), options.clone()).unwrap();
                }
                compare(step, &shared, &memory).await;
            }
            compare_all(&shared, &memory).await;
        });
        Ok(())
    };
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 128,
        source_file: Some(file!()),
        ..ProptestConfig::default()
    });
    runner.run(&vec(steps(), 1..40), run).unwrap();
}
