//! Where operations live, and what each kind of store keeps, for how long, and where it ends.
//!
//! Each kind has a table of its own, because what is wise differs: a file has room for a week, a server's memory for
//! less. The stores' own options say the same in code, and take their defaults from here.

use std::time::Duration;

use crate::redact::without_credentials;

const DAY: Duration = Duration::from_secs(86_400);

/// Where operations live, for programs that take their store from the configuration: `store::open` opens it. A scheduler
/// has the store that its builder was given.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreConfig {
    /// `memory:`, `sqlite:PATH`, or the URL of a Redis server.
    pub url: String,
    /// Of an outbox in memory.
    pub memory: MemoryStoreConfig,
    /// Of an outbox in a file.
    pub sqlite: SqliteStoreConfig,
    /// Of an outbox in Redis.
    pub redis: RedisStoreConfig,
}

impl StoreConfig {
    /// The kind of store that the URL names, as the tables are called; `None`: no kind that is known.
    #[must_use]
    pub fn kind(&self) -> Option<&'static str> {
        match self.url.split_once(':')?.0 {
            "memory" => Some("memory"),
            "sqlite" => Some("sqlite"),
            "redis" | "rediss" | "redis+cluster" | "rediss+cluster" | "redis+sentinel" | "rediss+sentinel" => {
                Some("redis")
            }
            _ => None,
        }
    }
}

/// Without user and password of the URL.
impl std::fmt::Debug for StoreConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreConfig")
            .field("url", &without_credentials(&self.url))
            .field("memory", &self.memory)
            .field("sqlite", &self.sqlite)
            .field("redis", &self.redis)
            .finish()
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            url: "sqlite:mailweir.db".to_owned(),
            memory: MemoryStoreConfig::default(),
            sqlite: SqliteStoreConfig::default(),
            redis: RedisStoreConfig::default(),
        }
    }
}

/// Bounds of an outbox in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStoreConfig {
    /// Operations that are live or quarantined, at most; a submission above it is refused.
    pub live_max: usize,
    /// Operations that have ended, at most; the oldest are forgotten first, with their attempts.
    pub ended_max: usize,
    /// Notes (holds, breakers, permits, admission keys), at most.
    pub notes_max: usize,
}

impl Default for MemoryStoreConfig {
    fn default() -> Self {
        Self { live_max: 2_000_000, ended_max: 200_000, notes_max: 1_000_000 }
    }
}

/// What an outbox in a file keeps. `store::SqliteOptions` says the same in code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqliteStoreConfig {
    /// Operations that are live or quarantined, at most; a submission above it is refused.
    pub live_max: u64,
    /// Operations that have ended, at most; the oldest are forgotten first. Quarantined ones wait for a person.
    pub ended_max: u64,
    /// How long an operation that has ended can be asked about, and its id stands for it.
    pub ended_for: Duration,
    /// How long attempts are kept. Budgets are rebuilt from them: longer than a limit counts.
    pub attempts_for: Duration,
    /// How long an email's bytes are kept after its operation's end; zero: removed with it.
    pub payloads_for: Duration,
    /// Emails kept beyond their end, at most; the oldest go first.
    pub payloads_max: u64,
    /// Notes (holds, breakers, permits, admission keys), at most.
    pub notes_max: u64,
    /// Bytes of the file, at most; `None`: as large as its disk allows. The write-ahead log comes on top.
    pub file_bytes_max: Option<u64>,
    /// How long opening waits for another process to let go of the file.
    pub lock_wait: Duration,
    /// How long a write waits for a transaction of another program.
    pub busy_wait: Duration,
}

impl Default for SqliteStoreConfig {
    fn default() -> Self {
        Self {
            live_max: 2_000_000,
            ended_max: 1_000_000,
            ended_for: DAY.saturating_mul(7),
            attempts_for: DAY.saturating_mul(8),
            payloads_for: Duration::ZERO,
            payloads_max: 100_000,
            notes_max: 1_000_000,
            file_bytes_max: None,
            lock_wait: Duration::from_secs(1),
            busy_wait: Duration::from_secs(5),
        }
    }
}

/// What an outbox in Redis keeps, and how long it waits. Bounds on operations and notes hold for each mailbox.
/// `store::RedisOptions` says the same in code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisStoreConfig {
    /// Before every key: 1 to 32 letters, digits, `-`, `_`, `.` or `:`.
    pub prefix: String,
    /// Operations of one mailbox that are live or quarantined, at most.
    pub live_max: u64,
    /// Operations of one mailbox that have ended, at most; the oldest are forgotten first.
    pub ended_max: u64,
    /// How long an operation that has ended can be asked about, and its id stands for it.
    pub ended_for: Duration,
    /// How long attempts are kept. Budgets are rebuilt from them: longer than a limit counts.
    pub attempts_for: Duration,
    /// Notes of one mailbox, at most.
    pub notes_max: u64,
    /// How long one call waits for the server's answer.
    pub response_timeout: Duration,
    /// How long connecting may take.
    pub connection_timeout: Duration,
    /// How long calls fail at once after the server did not answer.
    pub retry_after: Duration,
    /// Replicas that should have a write before it is answered; 0: none is waited for.
    pub replicas: u32,
    /// How long replicas are waited for: less than `response_timeout`.
    pub replica_wait: Duration,
    /// The certificates of whoever signed the server's, as PEM; empty: the built-in web roots.
    pub ca_file: String,
    /// How often the server is asked for its time.
    pub clock_refresh: Duration,
    /// The finest difference between the server's clock and ours that is followed.
    pub clock_grain: Duration,
}

impl Default for RedisStoreConfig {
    fn default() -> Self {
        Self {
            prefix: "mailweir".to_owned(),
            live_max: 1_000_000,
            ended_max: 10_000,
            ended_for: DAY.saturating_mul(2),
            attempts_for: DAY.saturating_mul(8),
            notes_max: 100_000,
            response_timeout: Duration::from_millis(250),
            connection_timeout: Duration::from_millis(250),
            retry_after: Duration::from_millis(500),
            replicas: 0,
            replica_wait: Duration::from_millis(100),
            ca_file: String::new(),
            clock_refresh: Duration::from_secs(10),
            clock_grain: Duration::from_millis(1),
        }
    }
}
