//! The keys of `[store]` and its tables.

use std::time::Duration;

use super::{DAY, HOUR, MINUTE, MS, SECOND, YEAR};
use crate::config::codec::{Count, Line, Or, Size, Span};
use crate::config::key::{Key, Reload, within};
use crate::config::outbox::{MemoryStoreConfig, RedisStoreConfig, SqliteStoreConfig, StoreConfig};

/// Rows that no outbox of ours will ever hold.
const ROWS_MAX: u64 = 1_000_000_000;
/// A file that holds less than its own tables and a few emails is of no use.
const FILE_BYTES_MIN: u64 = 1_000_000;
/// SQLite ends at 4,294,967,294 pages, and a page has 4,096 bytes: rounded down.
const FILE_BYTES_MAX: u64 = 17_000_000_000_000;

/// A store is opened once: everything here changes with a restart.
pub(super) fn store() -> Vec<Key<StoreConfig>> {
    let mut keys: Vec<Key<StoreConfig>> = keys![Restart; url: Line(4_096)];
    keys.extend(within("memory", memory(), |store: &StoreConfig| &store.memory, |store| &mut store.memory));
    keys.extend(within("sqlite", sqlite(), |store: &StoreConfig| &store.sqlite, |store| &mut store.sqlite));
    keys.extend(within("redis", redis(), |store: &StoreConfig| &store.redis, |store| &mut store.redis));
    keys
}

pub(super) fn memory() -> Vec<Key<MemoryStoreConfig>> {
    keys![Restart;
        live_max: Count(1, 100_000_000),
        ended_max: Count(0, 100_000_000),
        notes_max: Count(1, 100_000_000),
    ]
}

pub(super) fn sqlite() -> Vec<Key<SqliteStoreConfig>> {
    keys![Restart;
        live_max: Count(1, ROWS_MAX),
        ended_max: Count(0, ROWS_MAX),
        ended_for: Span(Duration::ZERO, 2 * YEAR),
        attempts_for: Span(MINUTE, 2 * YEAR),
        payloads_for: Span(Duration::ZERO, 2 * YEAR),
        payloads_max: Count(1, ROWS_MAX),
        notes_max: Count(1, ROWS_MAX),
        file_bytes_max: Or("unlimited", Size(FILE_BYTES_MIN, FILE_BYTES_MAX)),
        lock_wait: Span(Duration::ZERO, HOUR),
        busy_wait: Span(Duration::ZERO, MINUTE),
    ]
}

pub(super) fn redis() -> Vec<Key<RedisStoreConfig>> {
    keys![Restart;
        prefix: Line(32),
        live_max: Count(1, ROWS_MAX),
        ended_max: Count(0, ROWS_MAX),
        ended_for: Span(Duration::ZERO, 2 * YEAR),
        attempts_for: Span(MINUTE, 2 * YEAR),
        notes_max: Count(1, ROWS_MAX),
        response_timeout: Span(10 * MS, MINUTE),
        connection_timeout: Span(10 * MS, MINUTE),
        retry_after: Span(10 * MS, MINUTE),
        replicas: Count(0, 100),
        replica_wait: Span(MS, MINUTE),
        ca_file: Line(4_096),
        clock_refresh: Span(SECOND, DAY),
        clock_grain: Span(Duration::from_micros(1), SECOND),
    ]
}
