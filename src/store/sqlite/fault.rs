//! What SQLite's errors mean to those who use the store: which file, what is wrong, and the way out.

use std::fmt;
use std::path::Path;

use rusqlite::ErrorCode;

use crate::store::StoreError;

/// Why something inside the store did not work.
#[derive(Debug)]
pub(super) enum Fault {
    /// SQLite says so.
    Sql(rusqlite::Error),
    /// A row does not hold what this version writes.
    Row(String),
    /// It is an answer, and the store is well.
    Answer(StoreError),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl Fault {
    /// Whether the whole store is concerned, for a while: its disk is full, or somebody holds it. Not damage, which may
    /// be one page's.
    pub(super) fn may_pass(&self) -> bool {
        use ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull, OperationInterrupted, OutOfMemory, SystemIoFailure};
        let Self::Sql(error) = self else { return false };
        matches!(
            error.sqlite_error_code(),
            Some(DiskFull | DatabaseBusy | DatabaseLocked | SystemIoFailure | OutOfMemory | OperationInterrupted)
        )
    }

    /// Whether there is no room.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull))
    }

    /// As a caller sees it.
    pub(super) fn at(self, file: &Path) -> StoreError {
        match self {
            Self::Sql(error) => sql(file, &error),
            Self::Row(reason) => damaged(file, reason),
            Self::Answer(error) => error,
        }
    }
}

/// An error about `file` that a person has to mend.
pub(super) fn damaged(file: &Path, what: impl fmt::Display) -> StoreError {
    StoreError::Damaged {
        reason: format!(
            "{}: {what}; nothing was changed: keep a copy of the file and of those beside it, then restore a backup or \
             move them away to begin an empty outbox",
            file.display()
        ),
    }
}

/// An error about `file`, which is sound.
pub(super) fn unusable(file: &Path, what: impl fmt::Display) -> StoreError {
    StoreError::Unusable { reason: format!("{}: {what}", file.display()) }
}

/// An error about `file` that may pass.
pub(super) fn unavailable(file: &Path, what: impl fmt::Display) -> StoreError {
    StoreError::Unavailable { reason: format!("{}: {what}", file.display()) }
}

/// There is no room for more.
pub(super) fn full(file: &Path) -> StoreError {
    StoreError::Full {
        bound: format!(
            "{}: its disk, or its bound `file_bytes_max`, has no room left: free or raise it",
            file.display()
        ),
    }
}

fn sql(file: &Path, error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => full(file),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            unavailable(file, "another program holds it locked: end that program's transaction")
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            unusable(file, "it or its folder is read-only: make both writable for this user")
        }
        Some(ErrorCode::CannotOpen) => {
            unusable(file, "it cannot be opened: make it and its folder readable and writable for this user")
        }
        Some(ErrorCode::NotADatabase) => damaged(file, "it is not an SQLite file"),
        Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory | ErrorCode::OperationInterrupted) => {
            unavailable(file, error)
        }
        _ => damaged(file, error),
    }
}
