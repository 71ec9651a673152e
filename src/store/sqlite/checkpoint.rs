//! Taking the write-ahead log over into the file, off the way of submissions.
//!
//! The writer only counts what it wrote. Every few megabytes a thread of its own takes over what has been committed;
//! the writer goes on meanwhile. Should the log outgrow its bound because that thread cannot follow, the writer does
//! it itself between two transactions: that is the brake. A reader that stays in a transaction can hold the log for
//! longer; it then grows until the reader ends.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::open;
use super::options::SqliteOptions;
use crate::store::StoreError;

/// The log is taken over after about so many bytes. Each time costs the disk two syncs that the writer's own have to
/// wait for, so seldom; a restart reads the log once, which at this length takes no time that anybody would see.
const EVERY_BYTES: usize = 16 << 20;
/// Above so many bytes the writer takes it over itself.
pub(super) const LOG_BYTES_MAX: i64 = 64 << 20;
/// A frame of the log holds one page.
pub(super) const PAGE_BYTES: i64 = 4_096;

#[derive(Debug)]
pub(super) struct Checkpointer {
    ring: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    written: AtomicUsize,
    is_long: Arc<AtomicBool>,
}

impl Checkpointer {
    pub(super) fn start(file: &Path, options: &SqliteOptions) -> Result<Self, StoreError> {
        let connection = open::connect(file, options)?;
        let (ring, rings) = sync_channel(1);
        let is_long = Arc::new(AtomicBool::new(false));
        let mark = Arc::clone(&is_long);
        let run = move || {
            while rings.recv() == Ok(()) {
                mark.store(take_over(&connection) > LOG_BYTES_MAX, Ordering::Relaxed);
            }
        };
        let thread = open::spawn("mailweir-sqlite-log", file, run)?;
        Ok(Self { ring: Some(ring), thread: Some(thread), written: AtomicUsize::new(0), is_long })
    }

    /// The writer has committed about so many bytes, and is between two transactions.
    pub(super) fn wrote(&self, writer: &Connection, bytes: usize) {
        let written = self.written.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.is_long.load(Ordering::Relaxed) {
            self.take_over(writer);
        } else if written >= EVERY_BYTES {
            self.written.store(0, Ordering::Relaxed);
            // A bell that has been rung and not heard yet will do for these too.
            let _ = self.ring.as_ref().map(|ring| ring.try_send(()));
        }
    }

    /// Takes it over here and now.
    pub(super) fn take_over(&self, writer: &Connection) {
        self.written.store(0, Ordering::Relaxed);
        self.is_long.store(false, Ordering::Relaxed);
        take_over(writer);
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
