//! Stores to test, and short words for what is put into them.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use mailweir::Email;
use mailweir::engine::mailbox::Record;
use mailweir::engine::operation::Transition;
use mailweir::engine::{Cost, Lane, Leaves, OperationKey, OperationState, Timestamp};
use mailweir::store::{
    Claim, Inserted, MemoryStore, NewOperation, Note, NoteBody, NoteChange, NoteKey, NoteKind, OperationRecord,
    OrderNote, Store,
};

/// How much a store may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) live: u32,
    pub(crate) ended: u32,
    pub(crate) notes: u32,
}

/// Enough for every behaviour that is not about bounds.
const WIDE: Bounds = Bounds { live: 10_000, ended: 10_000, notes: 10_000 };

/// A store with what it stands on.
pub(crate) struct Kept {
    pub(crate) store: Arc<dyn Store>,
    _stands_on: Option<Box<dyn std::any::Any + Send + Sync>>,
}

/// What a behaviour is given: a store, and a way to others.
pub(crate) struct Given {
    kept: Kept,
    make: fn(Bounds) -> Kept,
}

impl Given {
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.kept.store
    }

    pub(crate) fn another(&self, bounds: Bounds) -> Kept {
        (self.make)(bounds)
    }
}

pub(crate) fn memory(bounds: Bounds) -> Kept {
    let store = MemoryStore::with_bounds(bounds.live as usize, bounds.ended as usize);
    let store = store.notes_max(bounds.notes as usize);
    Kept { store: Arc::new(store), _stands_on: None }
}

#[cfg(feature = "sqlite")]
pub(crate) fn sqlite(bounds: Bounds) -> Kept {
    use mailweir::store::{SqliteOptions, SqliteStore};
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new().live_max(bounds.live.into()).ended_max(bounds.ended.into());
    let options = options.notes_max(bounds.notes.into());
    let store = SqliteStore::open_with(folder.path().join("outbox.db"), options).unwrap();
    Kept { store: Arc::new(store), _stands_on: Some(Box::new(folder)) }
}

/// A clock that is a day slow: claims are stamped by the server's clock where that is later than what is asked for.
#[cfg(feature = "redis")]
#[derive(Debug)]
struct Yesterday(mailweir::clock::SystemClock, Timestamp);

#[cfg(feature = "redis")]
impl mailweir::clock::Clock for Yesterday {
    fn now(&self) -> Timestamp {
        at(0).before(Duration::from_secs(86_400)).after(self.0.now().since(self.1))
    }
}

/// Options whose clock reads the day before [`at`]`(0)`, and is measured once, to a second: a server that answers late on
/// a busy machine moves no instant.
#[cfg(feature = "redis")]
pub(crate) fn redis_options() -> mailweir::store::RedisOptions {
    use mailweir::clock::{Clock, SystemClock};
    let clock = SystemClock::new();
    // Whole seconds apart, so that every store that is opened finds the same distance to the server's clock.
    let start = Timestamp::from_micros(clock.now().as_micros() / 1_000_000 * 1_000_000);
    let options = mailweir::store::RedisOptions::new().clock(Arc::new(Yesterday(clock, start)));
    options
        .clock_refresh(Duration::from_secs(3_600))
        .clock_grain(Duration::from_secs(1))
        .response_timeout(Duration::from_secs(5))
}

#[cfg(feature = "redis")]
pub(crate) fn redis(bounds: Bounds) -> Kept {
    let server = crate::redis_server::RedisServer::start();
    let options = redis_options().live_max(bounds.live.into()).ended_max(bounds.ended.into());
    let options = options.notes_max(bounds.notes.into());
    let store = mailweir::store::RedisStore::open_with(&server.url(), options).unwrap();
    Kept { store: Arc::new(store), _stands_on: Some(Box::new(server)) }
}

/// A store of one process knows the highest key ever given out; one that is shared gives each process keys of its own, all
/// of them above what was ever given out before.
#[track_caller]
pub(crate) fn assert_last_key(store: &dyn Store, found: Option<OperationKey>, expected: Option<u64>) {
    let expected = expected.map(OperationKey);
    assert!(found == expected || (store.kind() == "redis" && found > expected), "{found:?}, not {expected:?}");
}

/// Runs a behaviour to its end.
pub(crate) fn run(make: fn(Bounds) -> Kept, behaviour: for<'a> fn(&'a Given) -> BoxFuture<'a, ()>) {
    let given = Given { kept: make(WIDE), make };
    block_on(behaviour(&given));
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// `second` seconds after a morning in 2023.
pub(crate) fn at(second: u64) -> Timestamp {
    Timestamp::from_micros((1_700_000_000 + second) * 1_000_000)
}

pub(crate) fn email(text: &str) -> Email {
    let mime = format!("Subject: {text}\r\nMessage-ID: <{text}@contoso.example>\r\n\r\n{text}\r\n\u{e9}\u{0}");
    Email::from_mime("noreply@contoso.example", ["ann@fabrikam.example", "bob@fabrikam.example"], mime.into_bytes())
        .unwrap()
}

/// Operation number `key`, submitted at second `key`.
pub(crate) fn new(key: u64) -> NewOperation {
    NewOperation {
        key: OperationKey(key),
        id: format!("operation-{key}").into(),
        fingerprint: u64::MAX - key,
        mailbox: "noreply@contoso.example".into(),
        lane: Lane::Foreground,
        tenant: None,
        campaign: None,
        cost: Cost { requests: 1, recipients: 2, external_recipients: 2, quota_units: 100, bytes: 4_096 },
        submitted_at: at(key),
        not_before: at(key),
        deadline: at(key + 900),
        email: email(&format!("email-{key}")),
        note: None,
    }
}

pub(crate) fn claim(key: u64, attempt: u32, second: u64) -> Claim {
    Claim { key: OperationKey(key), attempt, at: at(second), cost: Cost::email(2, 4_096) }
}

/// The record of a transition that is the first to count, if it counts.
pub(crate) fn record(key: u64, transition: Transition, second: u64) -> Record {
    Record {
        key: OperationKey(key),
        transition,
        state: transition.to(),
        at: at(second),
        next_at: (transition.to() == OperationState::Deferred).then(|| at(second + 60)),
        attempts: transition.attempts_after(0),
        status: None,
        provider_id: None,
        maybe_sent: false,
        leaves: Leaves::after(transition),
        order: None,
    }
}

pub(crate) async fn insert(store: &dyn Store, key: u64) {
    assert_eq!(store.insert(vec![new(key)]).await, Ok(vec![Inserted::New]));
}

pub(crate) async fn claimed(store: &dyn Store, key: u64, attempt: u32, second: u64) {
    let answer = store.claim(vec![claim(key, attempt, second)]).await.unwrap();
    assert!(answer[0].is_some(), "attempt {attempt} of operation {key}");
}

pub(crate) async fn recorded(store: &dyn Store, key: u64, transition: Transition, second: u64) {
    store.record([record(key, transition, second)].into()).await.unwrap();
}

pub(crate) async fn found(store: &dyn Store, key: u64) -> OperationRecord {
    let id = format!("operation-{key}");
    store.operation(&id).await.unwrap().unwrap_or_else(|| panic!("{id} is gone"))
}

/// Brings a new operation into `state`; its last change is at second 100 or before.
pub(crate) async fn bring(store: &dyn Store, key: u64, state: OperationState) {
    use OperationState as S;
    use Transition as T;
    let (attempted, steps): (bool, &[T]) = match state {
        S::Admitted | S::Queued => (false, &[]),
        S::Attempting => (true, &[]),
        S::Deferred => (true, &[T::Throttle]),
        S::Unknown => (true, &[T::Lose]),
        S::Accepted => (true, &[T::Accept]),
        S::Rejected => (true, &[T::Reject]),
        S::Exhausted => (false, &[T::Exhaust]),
        S::Cancelled => (false, &[T::Cancel]),
        S::Quarantined => (true, &[T::Lose, T::GiveUp]),
    };
    let mut operation = new(key);
    if state == S::Admitted {
        operation.not_before = operation.submitted_at.after(Duration::from_secs(1));
    }
    assert_eq!(store.insert(vec![operation]).await, Ok(vec![Inserted::New]));
    if attempted {
        claimed(store, key, 1, 98).await;
    }
    for (step, second) in steps.iter().zip(99..) {
        recorded(store, key, *step, second).await;
    }
    assert_eq!(found(store, key).await.state, state);
}

/// An operator's order under any key, kept at `second` for an hour.
pub(crate) fn order(key: NoteKey, second: u64) -> Note {
    let body =
        NoteBody::Order(OrderNote { reason: format!("since {second}").into(), by: None, ..OrderNote::default() });
    Note { key, at: at(second), until: at(second + 3_600), body }
}

pub(crate) fn hold(name: &str) -> NoteKey {
    NoteKey { kind: NoteKind::Hold, mailbox: None, name: name.into() }
}

/// The notes of one mailbox, or all.
pub(crate) async fn notes(store: &dyn Store, mailbox: Option<&str>) -> Vec<Note> {
    store.recover(at(0), mailbox.map(Into::into)).await.unwrap().notes
}

pub(crate) async fn keep(store: &dyn Store, changes: impl IntoIterator<Item = NoteChange>) {
    store.keep(changes.into_iter().collect()).await.unwrap();
}
