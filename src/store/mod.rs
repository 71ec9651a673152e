//! The outbox: what was accepted, and what was attempted.
//!
//! Every call takes a batch, so that whatever arrived while the last commit ran shares the next one. Every write is
//! idempotent by operation key and attempt number, because a call whose answer was lost may have been executed.
//!
//! Beside operations and attempts a store keeps notes (`note`): holds, breakers' memories, permits, admission keys.
//!
//! Calls take effect in the order in which their futures are first polled. The scheduler polls records, notes, claims
//! and inserts of one mailbox together, so a store that queues to a writer puts them into one commit, in that order.

mod attachment;
mod error;
pub mod fleet;
#[cfg(feature = "test-util")]
pub mod hub;
mod kept;
mod memory;
mod note;
mod outline;
mod packed;
mod pages;
mod query;
#[cfg(feature = "redis")]
mod redis;
mod rules;
mod slab;
#[cfg(feature = "sqlite")]
mod sqlite;
mod url;

pub use crate::engine::crashes::CrashNote;
pub use attachment::Attachment;
pub use error::{DamagedEmail, StoreError};
pub use fleet::Fleet;
pub use memory::MemoryStore;
pub use note::{
    AdmissionNote, EndedHow, EndedNote, KeyHash, KeySecret, Note, NoteBody, NoteChange, NoteKey, NoteKind, OrderNote,
    PermitNote, RequestNote, WideningNote,
};
pub use outline::{Apart, Horizons, Outline};
pub use pages::Pages;
pub use query::{OperationQuery, Remaining};
#[cfg(feature = "redis")]
pub use redis::{RedisDurability, RedisOptions, RedisStore};
#[cfg(all(feature = "sqlite", feature = "test-util"))]
pub use sqlite::{CommitPoint, CommitProbe, Fate};
#[cfg(feature = "sqlite")]
pub use sqlite::{PayloadRetention, SqliteOptions, SqliteStore};
pub use url::{OpenError, open};

pub(crate) use packed::{IdView, PackedId};
pub(crate) use slab::{Keyed, Slab};

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use crate::email::Email;
use crate::engine::mailbox::Record;
use crate::engine::operation::OrderWords;
use crate::engine::{Cost, Lane, Leaves, OperationKey, OperationState, Timestamp};

/// An operation to be stored.
#[derive(Clone, Debug)]
pub struct NewOperation {
    /// The engine's handle; unique, rising.
    pub key: OperationKey,
    /// The idempotency key.
    pub id: Arc<str>,
    /// Fingerprint of mailbox, lane, campaign, email and the tenant that the submission named: the same id with another
    /// fingerprint is a conflict.
    pub fingerprint: u64,
    /// The mailbox it leaves from.
    pub mailbox: Arc<str>,
    /// Its lane.
    pub lane: Lane,
    /// Its tenant.
    pub tenant: Option<Arc<str>>,
    /// Its campaign.
    pub campaign: Option<Arc<str>>,
    /// What one attempt takes.
    pub cost: Cost,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// Not sent before this.
    pub not_before: Timestamp,
    /// Not sent after this.
    pub deadline: Timestamp,
    /// What to send.
    pub email: Email,
    /// Kept with it, in the same step, unless it is a conflict: the admission key that it came under.
    pub note: Option<Note>,
}

impl NewOperation {
    /// Its row as it is first written: in its lane, or admitted where it has to wait for its instant first.
    #[must_use]
    pub fn first_row(&self) -> OperationRecord {
        let waits = self.not_before > self.submitted_at;
        OperationRecord {
            key: self.key,
            id: Arc::clone(&self.id),
            mailbox: Arc::clone(&self.mailbox),
            lane: self.lane,
            tenant: self.tenant.clone(),
            campaign: self.campaign.clone(),
            cost: self.cost,
            state: if waits { OperationState::Admitted } else { OperationState::Queued },
            submitted_at: self.submitted_at,
            not_before: self.not_before,
            deadline: self.deadline,
            changed_at: self.submitted_at,
            next_at: None,
            attempts: 0,
            rows: 0,
            last_status: None,
            provider_id: None,
            maybe_sent: false,
            order: None,
        }
    }
}

/// What became of one insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It is durable from here on.
    New,
    /// The same id with the same content was there.
    Existing(Box<OperationRecord>),
    /// The same id with other content was there; nothing was stored.
    Conflict,
}

/// An attempt row to be written before the first byte leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose.
    pub key: OperationKey,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// When.
    pub at: Timestamp,
    /// What it takes.
    pub cost: Cost,
}

/// What the store knows of one operation.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct OperationRecord {
    /// The engine's handle.
    pub key: OperationKey,
    /// The idempotency key.
    pub id: Arc<str>,
    /// The mailbox it leaves from.
    pub mailbox: Arc<str>,
    /// Its lane.
    pub lane: Lane,
    /// Its tenant.
    pub tenant: Option<Arc<str>>,
    /// Its campaign.
    pub campaign: Option<Arc<str>>,
    /// What one attempt takes.
    pub cost: Cost,
    /// Where it is.
    pub state: OperationState,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// Not sent before this.
    pub not_before: Timestamp,
    /// Not sent after this.
    pub deadline: Timestamp,
    /// When its state last changed.
    pub changed_at: Timestamp,
    /// Earliest next attempt, where there is one.
    pub next_at: Option<Timestamp>,
    /// Attempts that count, so far.
    pub attempts: u32,
    /// The highest number of an attempt row written, so that no number is used twice.
    pub rows: u32,
    /// HTTP status or SMTP code of the last attempt.
    pub last_status: Option<u16>,
    /// The provider's id, where it gave one.
    pub provider_id: Option<String>,
    /// It has ended, or was set aside, while an attempt of it may have been accepted without anybody knowing: to submit
    /// it anew can send it twice.
    pub maybe_sent: bool,
    /// What the person said who last moved it: cancelled, set aside, released or settled it. A deadline given with it
    /// is the operation's own.
    pub order: Option<Arc<OrderWords>>,
}

/// An attempt that budgets are rebuilt from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// Whose.
    pub key: OperationKey,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// The mailbox it left from.
    pub mailbox: Arc<str>,
    /// The lane.
    pub lane: Lane,
    /// The tenant.
    pub tenant: Option<Arc<str>>,
    /// What it took.
    pub cost: Cost,
    /// When it was claimed.
    pub claimed_at: Timestamp,
    /// When it ended; `None`: not known to have ended.
    pub finished_at: Option<Timestamp>,
    /// What of its cost counts on, by the release table.
    pub leaves: Leaves,
}

/// What a store still holds when it is opened.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Every operation that is not final, in order of key.
    pub operations: Pages<OperationRecord>,
    /// Attempts claimed at or after the instant that was asked for, in order of claim.
    pub attempts: Vec<AttemptRecord>,
    /// The highest key ever given out; in a shared store, one above which this process alone gives out keys.
    pub last_key: Option<OperationKey>,
    /// Notes in order of their keys; some may be over.
    pub notes: Vec<Note>,
    /// Notes that were passed over because this version cannot read them, by kind. Never their names: those can be
    /// people's words.
    pub unreadable: BTreeMap<NoteKind, u64>,
    /// Under which admission keys are hashed here.
    pub secret: KeySecret,
}

/// Where operations live. Implementations never decide: they write, find and report.
pub trait Store: Debug + Send + Sync + 'static {
    /// `memory`, `sqlite`, `redis`: for events.
    fn kind(&self) -> &'static str;

    /// Everything that is not final, the attempts claimed since `since`, and the notes; of one mailbox, or of all.
    fn recover(&self, since: Timestamp, mailbox: Option<Arc<str>>) -> BoxFuture<'_, Result<Recovery, StoreError>>;

    /// What a start has to know before the first grant. A store that finds the rows of one mailbox without looking at
    /// all of them names the mailboxes and leaves their rows for later ([`Store::recover`] of one); by default
    /// everything is read at once.
    fn outline(&self, since: Horizons) -> BoxFuture<'_, Result<Outline, StoreError>> {
        async move { Ok(Outline { recovery: self.recover(since.mailboxes, None).await?, apart: None }) }.boxed()
    }

    /// Stores new operations: all of the batch, or nothing when there is no room for it. When it returns, those
    /// answered [`Inserted::New`] are durable.
    fn insert(&self, batch: Vec<NewOperation>) -> BoxFuture<'_, Result<Vec<Inserted>, StoreError>>;

    /// Writes attempt rows, and answers each with what to send (`None`: no such live operation).
    ///
    /// Where some of that can no longer be read, [`StoreError::EmailDamaged`] names all of it, and nothing of the batch is
    /// written: who claims again leaves those out.
    fn claim(&self, batch: Vec<Claim>) -> BoxFuture<'_, Result<Vec<Option<Email>>, StoreError>>;

    /// Keeps and forgets notes, in order: all of the batch, or nothing when there is no room for it. A bound on notes is
    /// for the kinds that need room ([`NoteKind::needs_room`]) and no others. Durable when it returns. Shared, because the scheduler keeps the batch to write it again if it fails.
    fn keep(&self, batch: Arc<[NoteChange]>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Records transitions, in order; never a claim, which [`Store::claim`] writes with its attempt row. A record with a person's order replaces the row's, and its deadline if the order
    /// gives one. Shared, because the scheduler keeps the batch to write it again if it fails.
    fn record(&self, batch: Arc<[Record]>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// What to send for an operation that is not final; `None` when there is no such operation.
    fn email(&self, key: OperationKey) -> BoxFuture<'_, Result<Option<Email>, StoreError>>;

    /// One operation by its id.
    fn operation(&self, id: &str) -> BoxFuture<'_, Result<Option<OperationRecord>, StoreError>>;

    /// Operations by state, mailbox, lane, tenant, and whether they could go; oldest first.
    fn operations(&self, query: OperationQuery) -> BoxFuture<'_, Result<Vec<OperationRecord>, StoreError>>;

    /// Operations per state, in the order of [`OperationState::ALL`]. Kept incrementally.
    fn counts(&self) -> BoxFuture<'_, Result<[u64; 10], StoreError>>;

    /// A scheduler begins over it, and lives as long as it keeps the answer. A store that one alone may use refuses a
    /// second one ([`StoreError::Unusable`]) until the first is dropped or shut down: both would send what waits. By
    /// default any number may.
    fn attach(&self) -> Result<Attachment, StoreError> {
        Ok(Attachment::default())
    }

    /// How long attempts are kept for [`Store::recover`]. A limit that counts them for longer is refused: a restart would
    /// forget a part of its window. [`Duration::MAX`], the default: for as long as they may be asked for.
    fn attempts_for(&self) -> Duration {
        Duration::MAX
    }

    /// What several schedulers over this store have in common; `None`: one scheduler has it to itself.
    fn fleet(&self) -> Option<Arc<dyn Fleet>> {
        None
    }
}

/// A store that is shared: with the scheduler, and with whoever closes it afterwards.
impl<S: Store + ?Sized> Store for Arc<S> {
    fn kind(&self) -> &'static str {
        (**self).kind()
    }

    fn recover(&self, since: Timestamp, mailbox: Option<Arc<str>>) -> BoxFuture<'_, Result<Recovery, StoreError>> {
        (**self).recover(since, mailbox)
    }

    fn outline(&self, since: Horizons) -> BoxFuture<'_, Result<Outline, StoreError>> {
        (**self).outline(since)
    }

    fn insert(&self, batch: Vec<NewOperation>) -> BoxFuture<'_, Result<Vec<Inserted>, StoreError>> {
        (**self).insert(batch)
    }

    fn claim(&self, batch: Vec<Claim>) -> BoxFuture<'_, Result<Vec<Option<Email>>, StoreError>> {
        (**self).claim(batch)
    }

    fn keep(&self, batch: Arc<[NoteChange]>) -> BoxFuture<'_, Result<(), StoreError>> {
        (**self).keep(batch)
    }

    fn record(&self, batch: Arc<[Record]>) -> BoxFuture<'_, Result<(), StoreError>> {
        (**self).record(batch)
    }

    fn email(&self, key: OperationKey) -> BoxFuture<'_, Result<Option<Email>, StoreError>> {
        (**self).email(key)
    }

    fn operation(&self, id: &str) -> BoxFuture<'_, Result<Option<OperationRecord>, StoreError>> {
        (**self).operation(id)
    }

    fn operations(&self, query: OperationQuery) -> BoxFuture<'_, Result<Vec<OperationRecord>, StoreError>> {
        (**self).operations(query)
    }

    fn counts(&self) -> BoxFuture<'_, Result<[u64; 10], StoreError>> {
        (**self).counts()
    }

    fn attach(&self) -> Result<Attachment, StoreError> {
        (**self).attach()
    }

    fn attempts_for(&self) -> Duration {
        (**self).attempts_for()
    }

    fn fleet(&self) -> Option<Arc<dyn Fleet>> {
        (**self).fleet()
    }
}
