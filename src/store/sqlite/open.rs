//! The way in: which file this is, whether it is ours, and whether it is whole.
//!
//! What is there is never replaced and never begun anew. A missing file is made whole beside its place and moved there
//! in one step, so a crash while it is made leaves either none or a whole one; a file of no bytes is therefore not
//! ours. A file of another program is told by its head, before SQLite gets to touch it.
//!
//! Not promised: that a large file is read through at the start. Up to [`CHECKED_BYTES_MAX`] it is; beyond, damage is
//! told by the call that meets it.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::checkpoint::{LOG_BYTES_MAX, PAGE_BYTES};
use super::fault::{Fault, damaged, unavailable, unusable};
use super::lock::{Lock, beside};
use super::options::SqliteOptions;
use super::schema::{self, APPLICATION_ID};
use crate::store::StoreError;

/// Files up to this size are read through before they are used.
const CHECKED_BYTES_MAX: u64 = 64 << 20;
/// What every SQLite file begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// The head that tells whose file it is.
const HEAD_BYTES: usize = 100;
/// Where the head holds the application's number.
const APPLICATION_ID_AT: usize = 68;

/// The outbox, locked, checked and of this version.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) lock: Lock,
    pub(super) file: PathBuf,
}

pub(super) fn open(path: &Path, options: &SqliteOptions) -> Result<Opened, StoreError> {
    let file = place(path)?;
    let lock = Lock::take(&file, options.lock_wait)?;
    match head(&file)? {
        Some(head) => check_head(&file, &head)?,
        None => create(&file, options)?,
    }
    let connection = connect(&file, options)?;
    upgrade(&file, &connection)?;
    check_pages(&file, &connection)?;
    Ok(Opened { connection, lock, file })
}

/// The file's full path, links followed, so that one file has one lock.
fn place(path: &Path) -> Result<PathBuf, StoreError> {
    if let Ok(file) = fs::canonicalize(path) {
        return Ok(file);
    }
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        // An outbox on a volume that is not mounted is not an outbox that was never made.
        let to = fs::read_link(path).unwrap_or_default();
        return Err(unusable(
            path,
            format_args!("it is a link to {}, which is not there: mount it, or remove the link", to.display()),
        ));
    }
    let name = path.file_name().ok_or_else(|| unusable(path, "it names no file: name one in an existing folder"))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::canonicalize(folder)
        .map_err(|error| unusable(path, format_args!("its folder cannot be used ({error}): create it first")))?;
    Ok(folder.join(name))
}

/// The first bytes of the file; `None` where there is no file.
fn head(file: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let opened = match File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(unusable(file, format_args!("it cannot be read ({error}): make it readable for this user")));
        }
    };
    let mut head = Vec::with_capacity(HEAD_BYTES);
    match opened.take(HEAD_BYTES as u64).read_to_end(&mut head) {
        Ok(_) => Ok(Some(head)),
        Err(error) => Err(unusable(file, format_args!("it cannot be read ({error}): name a file, not a folder"))),
    }
}

fn check_head(file: &Path, head: &[u8]) -> Result<(), StoreError> {
    if head.is_empty() {
        return Err(damaged(file, "it holds 0 bytes, and an outbox is never empty"));
    }
    if head.len() < HEAD_BYTES || !head.starts_with(MAGIC) {
        return Err(damaged(file, "it is not an SQLite file"));
    }
    let id = &head[APPLICATION_ID_AT..APPLICATION_ID_AT + 4];
    if id != APPLICATION_ID.to_be_bytes() {
        return Err(damaged(file, "it is an SQLite file of another program"));
    }
    Ok(())
}

/// Makes a new outbox in one step.
fn create(file: &Path, options: &SqliteOptions) -> Result<(), StoreError> {
    let log = beside(file, "-wal");
    if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        return Err(damaged(file, "it is missing, and its log is still there: put it back beside its log"));
    }
    let draft = beside(file, "-new");
    let told = |error| unusable(file, format_args!("it cannot be created ({error}): make its folder writable"));
    for left in [draft.clone(), beside(&draft, "-journal")] {
        match fs::remove_file(&left) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(told(error)),
            _ => {}
        }
    }
    write_draft(&draft, options).map_err(|fault| fault.at(file))?;
    fs::rename(&draft, file).map_err(told)?;
    // The new name is durable when the folder is.
    file.parent().map_or(Ok(()), |folder| File::open(folder).and_then(|folder| folder.sync_all())).map_err(told)
}

fn write_draft(draft: &Path, options: &SqliteOptions) -> Result<(), Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(draft, flags)?;
    connection.execute_batch(&format!(
        "PRAGMA page_size = {PAGE_BYTES}; PRAGMA synchronous = FULL; PRAGMA application_id = {APPLICATION_ID}"
    ))?;
    bound(&connection, options)?;
    schema::migrate(&connection, 0)?;
    connection.close().map_err(|(_, error)| error.into())
}

fn bound(connection: &Connection, options: &SqliteOptions) -> rusqlite::Result<()> {
    let Some(bytes) = options.file_bytes_max else { return Ok(()) };
    let pages = bytes / PAGE_BYTES.unsigned_abs();
    connection.query_row(&format!("PRAGMA max_page_count = {}", pages.max(1)), [], |_| Ok(()))
}

/// A connection to the existing file, as every one of ours is set.
pub(super) fn connect(file: &Path, options: &SqliteOptions) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(file, flags)
        .map_err(Fault::from)
        .and_then(|connection| {
            set(&connection, options)?;
            Ok(connection)
        })
        .map_err(|fault| fault.at(file))
}

/// The wait for other programs, cut to what SQLite takes: it counts milliseconds in 31 bits, which is 24 days.
pub(super) fn busy_wait(options: &SqliteOptions) -> Duration {
    options.busy_wait.min(Duration::from_millis(i32::MAX.unsigned_abs().into()))
}

fn set(connection: &Connection, options: &SqliteOptions) -> Result<(), Fault> {
    if connection.is_readonly("main")? {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_READONLY);
        return Err(rusqlite::Error::SqliteFailure(code, None).into());
    }
    // Closing moves nothing by itself: a file that is refused stays as it is, to the last byte.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.busy_timeout(busy_wait(options))?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(Fault::Row(format!("it keeps a journal of kind `{mode}`, not a write-ahead log")));
    }
    // FULL: a commit is on the disk when it returns. fullfsync: where a plain sync stops at the disk's own cache.
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
         PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;
         PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384",
    )?;
    // The writer decides when the log is taken over, and what is left of it afterwards.
    connection.query_row("PRAGMA wal_autocheckpoint = 0", [], |_| Ok(()))?;
    connection.query_row(&format!("PRAGMA journal_size_limit = {LOG_BYTES_MAX}"), [], |_| Ok(()))?;
    Ok(bound(connection, options)?)
}

/// Brings an older file to this version; refuses a newer one.
fn upgrade(file: &Path, connection: &Connection) -> Result<(), StoreError> {
    let version: i32 = connection
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(|error| Fault::from(error).at(file))?;
    if version > schema::VERSION {
        let what = format!(
            "it was written by a newer version (schema {version}; this one reads up to {}): start that version, or \
             restore a backup made before it",
            schema::VERSION
        );
        return Err(unusable(file, what));
    }
    schema::migrate(connection, version).map_err(|error| Fault::from(error).at(file))
}

/// Reads a small file through, and holds a large one's length against what its head says.
fn check_pages(file: &Path, connection: &Connection) -> Result<(), StoreError> {
    let told = |error: rusqlite::Error| Fault::from(error).at(file);
    let size = fs::metadata(file).map_err(|error| unavailable(file, error))?.len();
    let log = fs::metadata(beside(file, "-wal")).map_or(0, |log| log.len());
    let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).map_err(told)?;
    let claimed = pages.saturating_mul(PAGE_BYTES).unsigned_abs();
    if log == 0 && claimed > size {
        return Err(damaged(file, format_args!("it was cut off: {size} bytes of {claimed} are there")));
    }
    if size > CHECKED_BYTES_MAX {
        return Ok(());
    }
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(told)?;
    if verdict == "ok" { Ok(()) } else { Err(damaged(file, verdict)) }
}

/// A named thread of ours.
pub(super) fn spawn(
    name: &str,
    file: &Path,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StoreError> {
    let told = |error| unavailable(file, format_args!("no thread could be started for it: {error}"));
    thread::Builder::new().name(name.to_owned()).spawn(run).map_err(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_syncs_each_commit_and_leaves_the_log_to_the_writer() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new();
        let opened = open(&folder.path().join("outbox.db"), &options).unwrap();
        let other = connect(&opened.file, &options).unwrap();
        for connection in [&opened.connection, &other] {
            let ask =
                |what: &str| connection.query_row(&format!("PRAGMA {what}"), [], |row| row.get::<_, i64>(0)).unwrap();
            let settings = ["synchronous", "foreign_keys", "wal_autocheckpoint", "fullfsync", "page_size"].map(ask);
            assert_eq!(settings, [2, 1, 0, 1, PAGE_BYTES]);
        }
    }

    #[test]
    fn a_wait_without_end_is_as_long_as_sqlite_can_wait() {
        let folder = tempfile::tempdir().unwrap();
        for wait in [Duration::from_secs(25 * 86_400), Duration::MAX] {
            let opened = open(&folder.path().join("outbox.db"), &SqliteOptions::new().busy_wait(wait)).unwrap();
            let waits: i64 = opened.connection.query_row("PRAGMA busy_timeout", [], |row| row.get(0)).unwrap();
            assert_eq!(waits, i64::from(i32::MAX));
        }
    }

    #[test]
    fn a_migration_that_was_not_reached_is_run_at_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("outbox.db");
        // What a crash between creation and the first migration of an older program would leave.
        let draft = Connection::open(&file).unwrap();
        draft.execute_batch(&format!("PRAGMA application_id = {APPLICATION_ID}")).unwrap();
        drop(draft);
        let opened = open(&file, &SqliteOptions::new()).unwrap();
        let version: i32 = opened.connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        assert_eq!(version, schema::VERSION);
    }
}
