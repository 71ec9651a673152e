//! The threads that read, each on a connection of its own.
//!
//! Reads see what is committed and wait for no write. Two threads, so that a long one (a recovery of a million) does
//! not hold up a question about one operation.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::mpsc;

use super::open;
use super::options::SqliteOptions;
use crate::store::StoreError;

/// Threads that read.
const READERS: usize = 2;
/// Reads that wait for a thread, at most; above it they wait to be handed over.
const READS_MAX: usize = 256;

/// One read. It answers by itself.
pub(super) struct Read(pub(super) Box<dyn FnOnce(&Connection) + Send>);

impl fmt::Debug for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Read")
    }
}

/// Starts the threads; they end when the sender is gone.
pub(super) fn start(file: &Path, options: &SqliteOptions) -> Result<mpsc::Sender<Read>, StoreError> {
    let (sender, receiver) = mpsc::channel::<Read>(READS_MAX);
    let receiver = Arc::new(Mutex::new(receiver));
    for _ in 0..READERS {
        let connection = open::connect(file, options)?;
        let receiver = Arc::clone(&receiver);
        let run = move || {
            while let Some(Read(read)) = next(&receiver) {
                read(&connection);
            }
        };
        // It ends by itself; nobody waits for it.
        drop(open::spawn("mailweir-sqlite-read", file, run)?);
    }
    Ok(sender)
}

fn next(receiver: &Mutex<mpsc::Receiver<Read>>) -> Option<Read> {
    receiver.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv()
}
