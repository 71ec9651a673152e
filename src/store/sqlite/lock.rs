//! One process per file.
//!
//! SQLite would let two processes write by turns, and both would send. A lock on a file beside the outbox keeps the
//! second one out; the system takes it away with the process that held it, however that ended. It is a file of its own
//! because closing any handle of the outbox itself would drop SQLite's own locks on it. It stays there, empty.
//!
//! A lock is on a file, and others find it by its name. Who removes a "stale" one takes the name away while the lock is
//! held, and the next process locks a new file of that name. So the name is looked at before each commit: when it leads
//! to another file, nothing is written any more. On Windows a file that is open cannot be removed.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::fault::{unavailable, unusable};
use crate::store::StoreError;

/// How often a held lock is tried.
const TRY_EVERY: Duration = Duration::from_millis(10);

/// The lock, held until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    outbox: PathBuf,
}

/// The file with `suffix` after its name.
pub(super) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

impl Lock {
    /// Takes the lock, waiting up to `wait` for a process that is just ending.
    pub(super) fn take(file: &Path, wait: Duration) -> Result<Self, StoreError> {
        let path = beside(file, "-lock");
        let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = opened.map_err(|error| {
            unusable(file, format_args!("{} cannot be written ({error}): make its folder writable", path.display()))
        })?;
        let mut tries = 1 + wait.as_millis() / TRY_EVERY.as_millis();
        loop {
            match lock.try_lock() {
                Ok(()) => {
                    let lock = Self { file: lock, outbox: file.to_owned() };
                    return lock.check().map(|()| lock);
                }
                Err(TryLockError::WouldBlock) if tries > 1 => {
                    tries -= 1;
                    thread::park_timeout(TRY_EVERY);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(unavailable(
                        file,
                        "another process uses it: end that one, or give this one a file of its own",
                    ));
                }
                Err(TryLockError::Error(error)) => {
                    return Err(unusable(file, format_args!("it cannot be locked ({error}): use a local disk")));
                }
            }
        }
    }

    /// Whether whoever comes next will find this lock.
    ///
    /// # Errors
    /// When its name leads to no file or to another one: then another process may have the outbox.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let path = beside(&self.outbox, "-lock");
        if is_at(&self.file, &path) {
            return Ok(());
        }
        Err(unusable(
            &self.outbox,
            format_args!(
                "{} was removed or replaced while this process held it, so another one may be sending from this outbox: \
                 nothing more is written; end both, start one, and leave that file where it is",
                path.display()
            ),
        ))
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |found: std::fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(ours), Ok(theirs)) => place(ours) == place(theirs),
        (_, Err(error)) => error.kind() != std::io::ErrorKind::NotFound,
        (Err(_), Ok(_)) => true,
    }
}

#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> bool {
    true
}
