//! The shared outbox: Redis, for processes that send from the same mailboxes.
//!
//! What belongs to one mailbox lies in one slot and is moved by scripts, so that a move is whole or not at all and costs
//! one round trip, however many operations it moves. Every call may be made twice, because one whose answer was lost may
//! have been executed. Every instant in Redis is microseconds of Redis `TIME`: processes whose clocks disagree see the
//! same facts. No decision is taken in Redis that the engine takes.
//!
//! - **Talking** is done by one thread with a runtime of its own (`worker`), over one connection (`link`). Calls that
//!   arrive together go out together.
//! - **Waiting** is bounded: 250 ms for an answer, no retries by the client, and after a silence calls fail at once for
//!   half a second, until the server is asked again.
//! - **Durable** is what the server makes of it: see [`RedisDurability`] and `docs/redis.md`.
//! - **Keys** are described in `names`, scripts in their files.
//!
//! A process takes its operation keys from a range of its own, drawn when the store is opened, so keys of two processes
//! never meet. They are in order of submission within a process, not between processes.

mod address;
mod claim;
mod context;
mod entry;
mod fault;
mod health;
mod insert;
mod instant;
mod job;
mod lease;
mod letters;
mod link;
mod member;
mod mend;
mod names;
mod news;
mod options;
mod purge;
mod read;
mod row;
mod scripts;
#[cfg(feature = "redis-sentinel")]
mod sentinel;
#[cfg(feature = "redis-tls")]
mod tls;
mod trust;
mod value;
mod wire;
mod worker;
mod write;

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::mpsc;

pub use health::RedisDurability;
pub use options::RedisOptions;

use self::address::Address;
use self::context::Context;
use self::instant::Offset;
use self::link::Link;
use self::member::Member;
use self::names::Names;
use self::news::Board;
use self::read::Read;
use self::worker::{CALLS_MAX, Call, Reply};
use super::{
    Claim, Fleet, Inserted, NewOperation, NoteChange, OperationQuery, OperationRecord, Recovery, Store, StoreError,
};
use crate::email::Email;
use crate::engine::mailbox::Record;
use crate::engine::{OperationKey, Timestamp};

/// An outbox in Redis.
///
/// Dropping it never blocks: what has been handed over is still sent to the server.
pub struct RedisStore {
    member: Member,
    address: Address,
    durability: RedisDurability,
    attempts_for: Duration,
}

/// Never with user or password.
impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What is wrong with a URL, without repeating it.
pub(super) fn check_url(url: &str) -> Result<(), &'static str> {
    Address::parse(url).map(drop)
}

/// What is told when the thread is ready.
type Ready = Result<RedisDurability, StoreError>;

impl RedisStore {
    /// Opens the outbox of a server with the default options: `redis://`, `rediss://` (feature `redis-tls`),
    /// `redis+sentinel://` (feature `redis-sentinel`) or `redis+cluster://` (feature `redis-cluster`), with user, password
    /// and the number of the database.
    ///
    /// Blocks until the server has answered, or for as long as `RedisOptions` allow: call it at the start.
    ///
    /// # Errors
    /// [`StoreError`] says why and never repeats the URL: out of reach (`Unavailable`), a URL, user or password that are
    /// wrong (`Unusable`), something else under our keys (`Damaged`).
    pub fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(url, RedisOptions::new())
    }

    /// Opens the outbox of a server. See [`RedisStore::open`].
    ///
    /// # Errors
    /// As [`RedisStore::open`].
    pub fn open_with(url: &str, options: RedisOptions) -> Result<Self, StoreError> {
        let unusable = |reason: &str| StoreError::Unusable { reason: reason.to_owned() };
        let address = Address::parse(url).map_err(|reason| unusable(&format!("the URL of redis: {reason}")))?;
        let address = address.secured(url.starts_with("rediss"), options.ca_file.as_deref())?;
        let names = Names::new(&options.prefix).ok_or_else(|| {
            unusable(&format!("prefix = {:?}: it takes 1 to 32 letters, digits, '-', '_', '.' or ':'", options.prefix))
        })?;
        let (wait, answer) = (options.replica_wait, options.response_timeout);
        if options.replicas > 0 && !(Duration::from_millis(1)..answer).contains(&wait) {
            return Err(unusable(&format!(
                "replica_wait = {wait:?}: it takes 1 ms or more, and less than response_timeout = {answer:?}"
            )));
        }
        let (calls, receiver) = mpsc::channel(CALLS_MAX);
        let member = Member { calls, board: Arc::default() };
        let board = Arc::clone(&member.board);
        let (ready, answer) = std::sync::mpsc::sync_channel(1);
        let at = address.clone();
        let attempts_for = options.attempts_for;
        let thread = thread::Builder::new().name("mailweir-redis".to_owned());
        let run = move || talk(at, options, names, receiver, board, &ready);
        thread
            .spawn(run)
            .map_err(|error| StoreError::Unavailable { reason: format!("no thread for redis: {error}") })?;
        let durability = answer.recv().map_err(|_| link::closed())??;
        Ok(Self { member, address, durability, attempts_for })
    }

    /// What the server said about keeping data, when it was opened.
    #[must_use]
    pub const fn durability(&self) -> &RedisDurability {
        &self.durability
    }

    async fn read<T>(&self, read: impl FnOnce(Reply<T>) -> Read) -> Result<T, StoreError> {
        self.member.call(|reply| Call::Read(read(reply))).await
    }
}

/// The thread: opens, says how that went, and works until the store is dropped.
fn talk(
    address: Address,
    options: RedisOptions,
    names: Names,
    calls: mpsc::Receiver<Call>,
    board: Arc<Board>,
    ready: &std::sync::mpsc::SyncSender<Ready>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            // Whoever opens it is waiting.
            drop(ready.send(Err(StoreError::Unavailable { reason: format!("no runtime for redis: {error}") })));
            return;
        }
    };
    runtime.block_on(async {
        match begin(address, options, names).await {
            Err(error) => drop(ready.send(Err(error))),
            Ok((context, durability)) => {
                drop(ready.send(Ok(durability)));
                worker::run(context, calls, board).await;
            }
        }
    });
}

async fn begin(
    address: Address,
    options: RedisOptions,
    names: Names,
) -> Result<(Context, RedisDurability), StoreError> {
    let offset = Offset::new(options.clock_grain);
    let options = Rc::new(options);
    let link = Link::new(address, &names, Rc::clone(&options), offset.clone());
    health::rights(&link, &names).await?;
    let generation = scripts::call(&scripts::GENERATION, &[&names.global("generation")]);
    let generation = value::number(Some(link.one(generation).await?))?.unsigned_abs();
    let durability = health::ask(&link).await;
    Ok((Context::new(link, names, options, offset, generation), durability))
}

impl Store for RedisStore {
    fn kind(&self) -> &'static str {
        "redis"
    }

    fn attempts_for(&self) -> Duration {
        self.attempts_for
    }

    fn recover(&self, since: Timestamp, mailbox: Option<Arc<str>>) -> BoxFuture<'_, Result<Recovery, StoreError>> {
        self.read(move |reply| Read::Recover(since, mailbox, reply)).boxed()
    }

    fn insert(&self, batch: Vec<NewOperation>) -> BoxFuture<'_, Result<Vec<Inserted>, StoreError>> {
        self.member.call(|reply| Call::Insert(batch, reply)).boxed()
    }

    fn claim(&self, batch: Vec<Claim>) -> BoxFuture<'_, Result<Vec<Option<Email>>, StoreError>> {
        self.member.call(|reply| Call::Claim(batch, reply)).boxed()
    }

    fn keep(&self, batch: Arc<[NoteChange]>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.member.call(|reply| Call::Keep(batch, reply)).boxed()
    }

    fn record(&self, batch: Arc<[Record]>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.member.call(|reply| Call::Record(batch, reply)).boxed()
    }

    fn email(&self, key: OperationKey) -> BoxFuture<'_, Result<Option<Email>, StoreError>> {
        self.read(move |reply| Read::Email(key, reply)).boxed()
    }

    fn operation(&self, id: &str) -> BoxFuture<'_, Result<Option<OperationRecord>, StoreError>> {
        let id: Arc<str> = id.into();
        self.read(move |reply| Read::Operation(id, reply)).boxed()
    }

    fn operations(&self, query: OperationQuery) -> BoxFuture<'_, Result<Vec<OperationRecord>, StoreError>> {
        self.read(move |reply| Read::Operations(query, reply)).boxed()
    }

    fn counts(&self) -> BoxFuture<'_, Result<[u64; 10], StoreError>> {
        self.read(Read::Counts).boxed()
    }

    fn fleet(&self) -> Option<Arc<dyn Fleet>> {
        Some(Arc::new(self.member.clone()))
    }
}
