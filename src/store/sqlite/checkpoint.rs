//! Taking the write-ahead log over into the file, off the way of submissions.
//!
//! The writer only counts what it wrote. Every few megabytes a thread of its own takes over what has been committed;
//! the writer goes on meanwhile. Taking over ends no log: it begins anew only when nobody reads in it, and two readers
//! by turns, each begun before the other ended, keep it for ever. So above its bound the writer itself empties it between
//! two transactions: nothing is committed while it waits for those who read, and who begins to read meanwhile finds all
//! of it in the file and is not waited for. That is the brake. The longer the log, the longer it waits. A reader that
//! stays in a transaction for longer, such as a shell, can hold the log; it then grows until the reader ends.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

use super::open;
use super::options::SqliteOptions;
use crate::store::StoreError;

/// The log is taken over after about so many bytes. Each time costs the disk two syncs that the writer's own have to
/// wait for, so seldom; a restart reads the log once, which at this length takes no time that anybody would see.
const EVERY_BYTES: usize = 16 << 20;
/// Above so many bytes the writer empties it itself.
pub(super) const LOG_BYTES_MAX: i64 = 64 << 20;
/// A frame of the log holds one page.
pub(super) const PAGE_BYTES: i64 = 4_096;
/// So long the writer waits for those who read, for each [`LOG_BYTES_MAX`] of the log: longer than most questions take,
/// and not felt once in [`EVERY_BYTES`]. At most `busy_wait`, as for any other transaction.
const WAIT: Duration = Duration::from_millis(250);

/// When the log is taken over, and when it is emptied, in bytes.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    every: usize,
    max: i64,
}

#[derive(Debug)]
pub(super) struct Checkpointer {
    ring: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    written: AtomicUsize,
    /// The log's length when it was last taken over, in bytes.
    length: Arc<AtomicI64>,
    bounds: Bounds,
    busy_wait: Duration,
}

impl Checkpointer {
    pub(super) fn start(file: &Path, options: &SqliteOptions) -> Result<Self, StoreError> {
        Self::bounded(file, options, Bounds { every: EVERY_BYTES, max: LOG_BYTES_MAX })
    }

    fn bounded(file: &Path, options: &SqliteOptions, bounds: Bounds) -> Result<Self, StoreError> {
        let connection = open::connect(file, options)?;
        let (ring, rings) = sync_channel(1);
        let length = Arc::new(AtomicI64::new(0));
        let mark = Arc::clone(&length);
        let run = move || {
            while rings.recv() == Ok(()) {
                mark.store(take_over(&connection), Ordering::Relaxed);
            }
        };
        let thread = open::spawn("mailweir-sqlite-log", file, run)?;
        let (ring, thread, written) = (Some(ring), Some(thread), AtomicUsize::new(0));
        Ok(Self { ring, thread, written, length, bounds, busy_wait: open::busy_wait(options) })
    }

    /// The writer has committed about so many bytes, and is between two transactions.
    pub(super) fn wrote(&self, writer: &Connection, bytes: usize) {
        let written = self.written.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let length = self.length.load(Ordering::Relaxed);
        if length > self.bounds.max {
            self.empty(writer, length);
        } else if written >= self.bounds.every {
            self.written.store(0, Ordering::Relaxed);
            // A bell that has been rung and not heard yet will do for these too.
            let _ = self.ring.as_ref().map(|ring| ring.try_send(()));
        }
    }

    /// Takes it over here and now.
    pub(super) fn take_over(&self, writer: &Connection) {
        self.written.store(0, Ordering::Relaxed);
        self.length.store(0, Ordering::Relaxed);
        take_over(writer);
    }

    /// Empties it, if those who read end in time; otherwise it is tried again after some more was written.
    fn empty(&self, writer: &Connection, length: i64) {
        self.written.store(0, Ordering::Relaxed);
        self.length.store(0, Ordering::Relaxed);
        let times = u32::try_from(length / self.bounds.max).unwrap_or(u32::MAX);
        let wait = WAIT.saturating_mul(times).min(self.busy_wait);
        // A wait that cannot be set is the usual one.
        drop(writer.busy_timeout(wait));
        drop(writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
        drop(writer.busy_timeout(self.busy_wait));
    }

    /// Takes all of it over, so that the file is whole without its log.
    pub(super) fn finish(&mut self, writer: &Connection) {
        self.stop();
        // What a reader of another program still needs stays, and is taken over at the next start.
        drop(writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
    }

    /// Ends the thread, when it has done what it is at.
    pub(super) fn stop(&mut self) {
        self.ring = None;
        if let Some(thread) = self.thread.take() {
            // If it has panicked, the log is taken over later.
            drop(thread.join());
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Takes over what no reader needs; answers with the bytes of the log. It begins anew with the first write after all
/// of it was taken over, so under steady writing its length is what counts, not what is left in it. A failure is met
/// again by the next one, and by the writer when the log is full.
fn take_over(connection: &Connection) -> i64 {
    let frames = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i64>(1));
    frames.unwrap_or(0).saturating_mul(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_never_ends_holds_the_log_and_not_the_writer() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new().busy_wait(Duration::from_millis(20));
        let opened = open::open(&folder.path().join("outbox.db"), &options).unwrap();
        let writer = &opened.connection;
        let checkpointer =
            Checkpointer::bounded(&opened.file, &options, Bounds { every: 1 << 20, max: 4_096 }).unwrap();
        let reader = open::connect(&opened.file, &options).unwrap();
        writer.execute_batch("CREATE TABLE filling (bytes BLOB NOT NULL)").unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM filling").unwrap();
        let length = || std::fs::metadata(crate::store::sqlite::lock::beside(&opened.file, "-wal")).unwrap().len();
        for _ in 0..3 {
            writer.execute("INSERT INTO filling VALUES (zeroblob(?1))", [64 << 10]).unwrap();
            checkpointer.empty(writer, 1 << 20);
            assert!(length() > 0, "somebody reads in it");
        }
        reader.execute_batch("COMMIT").unwrap();
        checkpointer.empty(writer, 1 << 20);
        assert_eq!(length(), 0);
    }
}
