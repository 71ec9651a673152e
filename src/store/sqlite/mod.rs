//! The embedded outbox: one SQLite file, durable when a call returns.
//!
//! An outbox is judged by its restart and by who can look inside. SQLite comes back from a kill with a million
//! operations in well under a second, its format will be readable for decades, and the `sqlite3` shell opens it; that
//! is worth more here than the throughput of a store that keeps a log alone.
//!
//! - **Writing.** One thread writes. It commits what has arrived together (`writer`), in WAL mode with
//!   `synchronous = FULL`: a call is answered after the sync that holds it.
//! - **Reading.** Two threads with connections of their own; no call ever blocks the thread that polls it.
//! - **Emails** lie in a table of their own, are written once, and go when their operation ends, or when
//!   [`PayloadRetention`] says.
//! - **One process per file, one scheduler per store.** A second one is refused, with the file named. Read with `sqlite3 -readonly` whenever
//!   you like: the views are described in `schema`.
//! - **Trouble** is told at the start: a damaged, foreign, locked, read-only or newer file is an error that names the
//!   file and the way out. It is never replaced by an empty one.
//!
//! What is not promised: durability on a disk that lies about its syncs; and that damage within the write-ahead log is
//! told apart from a commit that a crash cut off (SQLite checks each commit and stops at the first that is not whole).

mod call;
mod checkpoint;
mod fault;
mod lock;
mod names;
mod notes;
mod open;
mod options;
#[cfg(feature = "test-util")]
mod probe;
mod purge;
mod read;
mod reader;
mod recovery;
mod reply;
mod row;
mod schema;
mod tally;
mod unused;
mod write;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

pub use options::{PayloadRetention, SqliteOptions};
#[cfg(feature = "test-util")]
pub use probe::{CommitPoint, CommitProbe, Fate};

use self::call::{CALLS_MAX, Call, Reply};
use self::checkpoint::Checkpointer;
use self::fault::{Fault, unavailable};
use self::open::Opened;
use self::reader::Read;
use self::writer::{End, Writer};
use super::attachment::Place;
use super::{
    Attachment, Claim, Horizons, Inserted, NewOperation, NoteChange, OperationQuery, OperationRecord, Outline,
    Recovery, Store, StoreError,
};
use crate::email::Email;
use crate::engine::mailbox::Record;
use crate::engine::{OperationKey, Timestamp};

/// An outbox in one SQLite file.
///
/// Dropping it never blocks: what has been handed over is still written, and the file is let go of afterwards.
/// [`SqliteStore::close`] waits for that.
#[derive(Debug)]
pub struct SqliteStore {
    calls: mpsc::Sender<Call>,
    reads: mpsc::Sender<Read>,
    file: Arc<Path>,
    attempts_for: Duration,
    place: Place,
}

impl SqliteStore {
    /// Opens the outbox at `path` with the default options, and creates it where there is no file.
    ///
    /// Blocks while it checks the file and waits for its lock: call it at the start, not on the way of a send.
    ///
    /// # Errors
    /// [`StoreError`] names the file and the way out: used by another process (`Unavailable`), read-only or newer
    /// (`Unusable`), damaged, of no bytes or another program's (`Damaged`), no room (`Full`). The file stays as it is.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path, SqliteOptions::new())
    }

    /// Opens the outbox at `path`. See [`SqliteStore::open`].
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn open_with(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, StoreError> {
        let opened = open::open(path.as_ref(), &options)?;
        let file: Arc<Path> = opened.file.as_path().into();
        let reads = reader::start(&file, &options)?;
        let checkpointer = Checkpointer::start(&file, &options)?;
        // What the writer needs is made here, so that what is wrong is told here.
        Writer::new(&file, (&opened.connection, &opened.lock), &checkpointer, &options)
            .map_err(|fault| fault.at(&file))?;
        let (calls, receiver) = mpsc::channel(CALLS_MAX);
        let attempts_for = options.attempts_for;
        let run = move || write(opened, checkpointer, receiver, &options);
        drop(open::spawn("mailweir-sqlite-write", &file, run)?);
        Ok(Self { calls, reads, file, attempts_for, place: Place::default() })
    }

    /// The file, as it was found.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Writes what has been handed over, and lets go of the file. Calls after it fail.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], when it was closed before.
    ///
    /// # Cancel safety
    /// Dropped after its first poll, the store closes all the same.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.call(Call::Close).await
    }

    async fn call<T>(&self, call: impl FnOnce(Reply<T>) -> Call) -> Result<T, StoreError> {
        let (reply, answer) = reply::promise();
        let closed = || unavailable(&self.file, "it is closed: open it again");
        self.calls.send(call(reply)).await.map_err(|_| closed())?;
        answer.await.ok_or_else(closed)?
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let closed = || unavailable(&self.file, "its readers are gone: open it again");
        let file = Arc::clone(&self.file);
        let read = Read(Box::new(move |connection| {
            // Who has stopped listening is told nothing.
            drop(reply.send(read(connection).map_err(|fault| fault.at(&file))));
        }));
        self.reads.send(read).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

/// The writer's thread: writes to the end, takes the log over, lets go of the file, and says so.
fn write(opened: Opened, mut checkpointer: Checkpointer, mut calls: mpsc::Receiver<Call>, options: &SqliteOptions) {
    let Opened { connection, lock, file } = opened;
    let end = match Writer::new(&file, (&connection, &lock), &checkpointer, options) {
        Ok(writer) => writer.run(&mut calls),
        // It was made once before this thread began; who calls finds it closed.
        Err(_) => End::Died,
    };
    calls.close();
    if !matches!(end, End::Died) {
        checkpointer.finish(&connection);
    }
    drop(checkpointer);
    drop(connection);
    drop(lock);
    if let End::Closed(reply) = end {
        reply.keep(Ok(()));
    }
}

impl Store for SqliteStore {
    fn kind(&self) -> &'static str {
        "sqlite"
    }

    fn attach(&self) -> Result<Attachment, StoreError> {
        self.place.take().ok_or_else(|| {
            let way_out = "a scheduler of this process runs over it: drop that one or await its shutdown first, or open \
                a file per scheduler";
            fault::unusable(&self.file, way_out)
        })
    }

    fn attempts_for(&self) -> Duration {
        self.attempts_for
    }

    fn recover(&self, since: Timestamp, mailbox: Option<Arc<str>>) -> BoxFuture<'_, Result<Recovery, StoreError>> {
        async move {
            // It sees everything that was handed over before it.
            self.call(Call::Settle).await?;
            self.read(move |connection| recovery::of(connection, since, mailbox.as_deref())).await
        }
        .boxed()
    }

    fn outline(&self, since: Horizons) -> BoxFuture<'_, Result<Outline, StoreError>> {
        async move {
            self.call(Call::Settle).await?;
            self.read(move |connection| recovery::outline(connection, since)).await
        }
        .boxed()
    }

    fn insert(&self, batch: Vec<NewOperation>) -> BoxFuture<'_, Result<Vec<Inserted>, StoreError>> {
        self.call(|reply| Call::Insert(batch, reply)).boxed()
    }

    fn claim(&self, batch: Vec<Claim>) -> BoxFuture<'_, Result<Vec<Option<Email>>, StoreError>> {
        self.call(|reply| Call::Claim(batch, reply)).boxed()
    }

    fn keep(&self, batch: Arc<[NoteChange]>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(|reply| Call::Keep(batch, reply)).boxed()
    }

    fn record(&self, batch: Arc<[Record]>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(|reply| Call::Record(batch, reply)).boxed()
    }

    fn email(&self, key: OperationKey) -> BoxFuture<'_, Result<Option<Email>, StoreError>> {
        self.read(move |connection| read::email(connection, key)).boxed()
    }

    fn operation(&self, id: &str) -> BoxFuture<'_, Result<Option<OperationRecord>, StoreError>> {
        let id: Arc<str> = id.into();
        self.read(move |connection| read::operation(connection, &id)).boxed()
    }

    fn operations(&self, query: OperationQuery) -> BoxFuture<'_, Result<Vec<OperationRecord>, StoreError>> {
        self.read(move |connection| read::operations(connection, &query)).boxed()
    }

    fn counts(&self) -> BoxFuture<'_, Result<[u64; 10], StoreError>> {
        self.read(tally::counts).boxed()
    }
}
