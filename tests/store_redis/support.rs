//! Short words for what is put into an outbox, and clocks that are wrong.

use std::sync::Arc;
use std::time::Duration;

use mailweir::Email;
use mailweir::clock::{Clock, SystemClock};
use mailweir::engine::mailbox::Record;
use mailweir::engine::operation::Transition;
use mailweir::engine::{Cost, Lane, Leaves, OperationKey, OperationState, Timestamp};
use mailweir::store::{Claim, NewOperation, OperationRecord, RedisOptions, RedisStore, Store, StoreError};

pub(crate) const MAILBOX: &str = "noreply@contoso.example";

/// The system's clock, some way off.
#[derive(Debug)]
pub(crate) struct Skewed {
    clock: SystemClock,
    seconds: i64,
}

impl Skewed {
    pub(crate) fn by(seconds: i64) -> Arc<Self> {
        Arc::new(Self { clock: SystemClock::new(), seconds })
    }
}

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        let micros = self.clock.now().as_micros();
        Timestamp::from_micros(micros.saturating_add_signed(self.seconds * 1_000_000))
    }
}

pub(crate) fn now() -> Timestamp {
    SystemClock::new().now()
}

/// Waits longer than usual, so that a busy machine is not taken for a broken one, and tries again soon.
pub(crate) fn options() -> RedisOptions {
    let wait = Duration::from_secs(1);
    RedisOptions::new().retry_after(Duration::from_millis(50)).response_timeout(wait).connection_timeout(wait)
}

pub(crate) fn open(url: &str) -> RedisStore {
    RedisStore::open_with(url, options()).unwrap()
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

pub(crate) fn new(key: u64) -> NewOperation {
    let at = now();
    let mime = format!("Subject: {key}\r\n\r\nbody {key}\r\n").into_bytes();
    NewOperation {
        key: OperationKey(key),
        id: format!("operation-{key}").into(),
        fingerprint: key,
        mailbox: MAILBOX.into(),
        lane: Lane::Background,
        tenant: Some("acme".into()),
        campaign: None,
        cost: Cost::email(1, 4_096),
        submitted_at: at,
        not_before: at,
        deadline: at.after(Duration::from_secs(900)),
        email: Email::from_mime(MAILBOX, ["ann@fabrikam.example"], mime).unwrap(),
        note: None,
    }
}

pub(crate) fn claim(key: u64, attempt: u32) -> Claim {
    Claim { key: OperationKey(key), attempt, at: now(), cost: Cost::email(1, 4_096) }
}

pub(crate) fn record(key: u64, transition: Transition) -> Arc<[Record]> {
    let record = Record {
        key: OperationKey(key),
        transition,
        state: transition.to(),
        at: now(),
        next_at: None,
        attempts: transition.attempts_after(0),
        status: None,
        provider_id: None,
        maybe_sent: false,
        leaves: Leaves::after(transition),
        order: None,
    };
    [record].into()
}

pub(crate) async fn found(store: &RedisStore, key: u64) -> Option<OperationRecord> {
    store.operation(&format!("operation-{key}")).await.unwrap()
}

pub(crate) async fn state(store: &RedisStore, key: u64) -> OperationState {
    found(store, key).await.unwrap_or_else(|| panic!("operation {key} is gone")).state
}

/// Calls again until the store is in reach, as the scheduler does; a bound instead of forever.
pub(crate) async fn until_in_reach<T>(mut call: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    for _ in 0..500 {
        match call().await {
            Err(StoreError::Unavailable { .. }) => tokio::time::sleep(Duration::from_millis(10)).await,
            answer => return answer.unwrap(),
        }
    }
    panic!("the store did not come back into reach");
}

#[track_caller]
pub(crate) fn assert_unavailable<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    assert!(matches!(answer, Err(StoreError::Unavailable { .. })), "{answer:?}");
}
