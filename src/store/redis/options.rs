//! What a Redis outbox keeps, for how long, where it ends, and how long it waits for the server.
//!
//! Redis holds everything in memory, so the bounds are lower than those of a file, and those on operations and notes
//! hold for each mailbox: a bound on all of them together would be one number that every mailbox's script needs, in one
//! place of a Cluster. What bounds all of them is the server's `maxmemory`, with the policy `noeviction`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::config::RedisStoreConfig;

/// Options of a Redis outbox.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RedisOptions {
    /// Before every key: 1 to 32 letters, digits, `-`, `_`, `.` or `:`. Outboxes with different prefixes share a server
    /// and nothing else.
    pub prefix: String,
    /// Operations of one mailbox that are live or quarantined, at most; a submission above it is refused.
    pub live_max: u64,
    /// Operations of one mailbox that have ended, at most; the oldest are forgotten first. Quarantined ones wait for a
    /// person.
    pub ended_max: u64,
    /// How long an operation that has ended can be asked about. Its id can be used again afterwards.
    pub ended_for: Duration,
    /// How long attempts are kept. Budgets are rebuilt from them: a limit that counts them for longer is refused at the
    /// start. Eight days, as on disk: a window of a week and its margin.
    pub attempts_for: Duration,
    /// Notes of one mailbox, at most. A permit or an admission key that would add one above it is refused; holds and
    /// breakers are kept all the same.
    pub notes_max: u64,
    /// How long one call waits for the server's answer. Past it the call may have been executed.
    pub response_timeout: Duration,
    /// How long connecting may take.
    pub connection_timeout: Duration,
    /// How long calls fail at once after the server did not answer, before it is asked again: a frozen server costs one
    /// response timeout in each such span, not one per call.
    pub retry_after: Duration,
    /// Replicas that should have a write before it is answered (`WAIT`); 0: none is waited for. It makes what a failover
    /// loses less, and cannot make it nothing: past `replica_wait` the write is answered all the same. Not in a Cluster.
    pub replicas: u32,
    /// How long replicas are waited for, below `response_timeout`. Where there were too few, the next writes do not wait
    /// for `clock_refresh`.
    pub replica_wait: Duration,
    /// For `rediss://`: a file with the certificates of whoever signed the server's, as PEM; `None`: the built-in web
    /// roots. It is read when the store is opened.
    pub ca_file: Option<PathBuf>,
    /// How often the server is asked for its time.
    pub clock_refresh: Duration,
    /// The finest difference between the server's clock and ours that is followed: stores that are opened one after the
    /// other read the same instants as long as each knows the server's clock to half of it.
    pub clock_grain: Duration,
    /// The clock whose instants the store is given: the scheduler's, where it has one of its own.
    pub clock: Arc<dyn Clock>,
}

impl RedisOptions {
    /// The defaults, those of `[store.redis]`. Where the numbers come from: 250 ms without retries is what was measured to keep a frozen or dead
    /// server from holding the scheduler up; ended operations can be asked about for two days; replicas are waited for by
    /// choice, for less than half of what an answer may take.
    #[must_use]
    pub fn new() -> Self {
        Self::from(&RedisStoreConfig::default())
    }

    /// With another prefix.
    #[must_use]
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// With another bound on live operations.
    #[must_use]
    pub fn live_max(self, live_max: u64) -> Self {
        Self { live_max, ..self }
    }

    /// With another bound on operations that have ended.
    #[must_use]
    pub fn ended_max(self, ended_max: u64) -> Self {
        Self { ended_max, ..self }
    }

    /// With another time for which an ended operation can be asked about.
    #[must_use]
    pub fn ended_for(self, ended_for: Duration) -> Self {
        Self { ended_for, ..self }
    }

    /// With another time for which attempts are kept.
    #[must_use]
    pub fn attempts_for(self, attempts_for: Duration) -> Self {
        Self { attempts_for, ..self }
    }

    /// With another bound on notes.
    #[must_use]
    pub fn notes_max(self, notes_max: u64) -> Self {
        Self { notes_max, ..self }
    }

    /// With another wait for an answer.
    #[must_use]
    pub fn response_timeout(self, response_timeout: Duration) -> Self {
        Self { response_timeout, ..self }
    }

    /// With another wait for a connection.
    #[must_use]
    pub fn connection_timeout(self, connection_timeout: Duration) -> Self {
        Self { connection_timeout, ..self }
    }

    /// With another span between two tries.
    #[must_use]
    pub fn retry_after(self, retry_after: Duration) -> Self {
        Self { retry_after, ..self }
    }

    /// With writes that wait for so many replicas.
    #[must_use]
    pub fn replicas(self, replicas: u32) -> Self {
        Self { replicas, ..self }
    }

    /// With another wait for replicas.
    #[must_use]
    pub fn replica_wait(self, replica_wait: Duration) -> Self {
        Self { replica_wait, ..self }
    }

    /// With a file of certificates by which the server's is checked.
    #[must_use]
    pub fn ca_file(self, ca_file: impl Into<PathBuf>) -> Self {
        Self { ca_file: Some(ca_file.into()), ..self }
    }

    /// With another span between two looks at the server's clock.
    #[must_use]
    pub fn clock_refresh(self, clock_refresh: Duration) -> Self {
        Self { clock_refresh, ..self }
    }

    /// With a coarser or finer difference between the clocks.
    #[must_use]
    pub fn clock_grain(self, clock_grain: Duration) -> Self {
        Self { clock_grain, ..self }
    }

    /// With the clock that the instants it is given come from.
    #[must_use]
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }
}

/// What `[store.redis]` says, by the system's clock.
impl From<&RedisStoreConfig> for RedisOptions {
    fn from(config: &RedisStoreConfig) -> Self {
        Self {
            prefix: config.prefix.clone(),
            live_max: config.live_max,
            ended_max: config.ended_max,
            ended_for: config.ended_for,
            attempts_for: config.attempts_for,
            notes_max: config.notes_max,
            response_timeout: config.response_timeout,
            connection_timeout: config.connection_timeout,
            retry_after: config.retry_after,
            replicas: config.replicas,
            replica_wait: config.replica_wait,
            ca_file: (!config.ca_file.is_empty()).then(|| config.ca_file.clone().into()),
            clock_refresh: config.clock_refresh,
            clock_grain: config.clock_grain,
            clock: Arc::new(SystemClock::new()),
        }
    }
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_becomes_its_option() {
        let spans = [11, 12, 13, 14, 15, 16, 17, 18].map(Duration::from_secs);
        let config = RedisStoreConfig {
            prefix: "outbox".to_owned(),
            live_max: 1,
            ended_max: 2,
            notes_max: 3,
            replicas: 4,
            ended_for: spans[0],
            attempts_for: spans[1],
            response_timeout: spans[2],
            connection_timeout: spans[3],
            retry_after: spans[4],
            replica_wait: spans[5],
            ca_file: "ca.pem".to_owned(),
            clock_refresh: spans[6],
            clock_grain: spans[7],
        };
        let by_hand = RedisOptions {
            ended_for: spans[0],
            attempts_for: spans[1],
            response_timeout: spans[2],
            connection_timeout: spans[3],
            retry_after: spans[4],
            replica_wait: spans[5],
            clock_refresh: spans[6],
            clock_grain: spans[7],
            ca_file: Some("ca.pem".into()),
            replicas: 4,
            ..RedisOptions::new().prefix("outbox").live_max(1).ended_max(2).notes_max(3)
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let configured = RedisOptions::from(&config).clock(Arc::clone(&clock));
        assert_eq!(format!("{configured:?}"), format!("{:?}", by_hand.clock(clock)));
        assert_eq!(RedisOptions::new().ca_file, None, "an empty path is none");
    }
}
