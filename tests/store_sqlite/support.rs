//! Short words for what is put into an outbox, and scratch files for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mailweir::Email;
use mailweir::engine::mailbox::Record;
use mailweir::engine::operation::Transition;
use mailweir::engine::{Cost, Lane, Leaves, OperationKey, OperationState, Timestamp};
use mailweir::store::{Claim, NewOperation, OperationRecord, SqliteOptions, SqliteStore, Store};
use tempfile::TempDir;

/// A folder for one outbox.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder().join("outbox.db")
    }

    pub(crate) fn open(&self) -> SqliteStore {
        SqliteStore::open(self.file()).unwrap()
    }

    pub(crate) fn open_with(&self, options: SqliteOptions) -> SqliteStore {
        SqliteStore::open_with(self.file(), options).unwrap()
    }

    /// An outbox of `count` operations that was closed in good order.
    pub(crate) fn filled(count: u64) -> Self {
        let place = Self::new();
        block_on(async {
            let store = place.open();
            store.insert((1..=count).map(new).collect()).await.unwrap();
            store.close().await.unwrap();
        });
        place
    }

    /// The file as another program sees it.
    pub(crate) fn shell(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.file()).unwrap()
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

pub(crate) fn at(second: u64) -> Timestamp {
    Timestamp::from_micros((1_700_000_000 + second) * 1_000_000)
}

/// The email of operation `key`: its bytes can be told from any other's.
pub(crate) fn email(key: u64, bytes: usize) -> Email {
    let head = format!("Subject: {key}\r\n\r\n");
    let body = key.to_le_bytes().into_iter().cycle();
    let mime: Vec<u8> = head.into_bytes().into_iter().chain(body).take(bytes).collect();
    Email::from_mime("noreply@contoso.example", ["ann@fabrikam.example"], mime).unwrap()
}

pub(crate) fn new(key: u64) -> NewOperation {
    sized(key, 1_024)
}

pub(crate) fn sized(key: u64, bytes: usize) -> NewOperation {
    NewOperation {
        key: OperationKey(key),
        id: format!("operation-{key}").into(),
        fingerprint: key,
        mailbox: "noreply@contoso.example".into(),
        lane: Lane::Background,
        tenant: Some("acme".into()),
        campaign: None,
        cost: Cost::email(1, 4_096),
        submitted_at: at(0),
        not_before: at(0),
        deadline: at(900),
        email: email(key, bytes),
        note: None,
    }
}

pub(crate) fn claim(key: u64, attempt: u32, second: u64) -> Claim {
    Claim { key: OperationKey(key), attempt, at: at(second), cost: Cost::email(1, 4_096) }
}

pub(crate) fn record(key: u64, transition: Transition, second: u64) -> Arc<[Record]> {
    let record = Record {
        key: OperationKey(key),
        transition,
        state: transition.to(),
        at: at(second),
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

pub(crate) async fn found(store: &SqliteStore, key: u64) -> Option<OperationRecord> {
    store.operation(&format!("operation-{key}")).await.unwrap()
}

pub(crate) async fn state(store: &SqliteStore, key: u64) -> OperationState {
    found(store, key).await.unwrap_or_else(|| panic!("operation {key} is gone")).state
}
