//! What an SQLite outbox keeps, for how long, and where it ends.
//!
//! Every bound stands here with its unit. The defaults suit one busy service: what a person may still ask about is
//! kept for a week, and what has ended costs no mail its place.

use std::time::Duration;

use crate::config::SqliteStoreConfig;

/// What becomes of an email's bytes when its operation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PayloadRetention {
    /// Removed in the transaction that ends it.
    Remove,
    /// Kept for a while: for support, or to be sent once more by hand.
    Keep {
        /// How long after the end.
        span: Duration,
        /// At most this many emails; the oldest go first.
        count_max: u64,
    },
}

/// Options of an SQLite outbox.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SqliteOptions {
    /// Operations that are live or quarantined, at most; a submission above it is refused.
    pub live_max: u64,
    /// Operations that have ended, at most; the oldest are forgotten first. Quarantined ones wait for a person.
    pub ended_max: u64,
    /// How long an operation that has ended can be asked about. Its id can be used again afterwards.
    pub ended_for: Duration,
    /// How long attempts are kept. Budgets are rebuilt from them: at least twice the longest window of any limit.
    pub attempts_for: Duration,
    /// Notes kept, at most (holds, breakers, permits, admission keys). A permit or an admission key that would add one
    /// above it is refused; holds and breakers are kept all the same.
    pub notes_max: u64,
    /// What becomes of an email's bytes at the end. They never outlive their operation's row.
    pub payloads: PayloadRetention,
    /// Bytes of the file, at most; `None`: as large as its disk allows. The write-ahead log comes on top.
    pub file_bytes_max: Option<u64>,
    /// How long opening waits for another process to let go of the file.
    pub lock_wait: Duration,
    /// How long a write waits for a transaction of another program, such as the `sqlite3` shell. More than
    /// SQLite can wait (2³¹ ms, 24 days) is cut to that.
    pub busy_wait: Duration,
    /// Looks at every commit, and can make one fail.
    #[cfg(feature = "test-util")]
    pub commit_probe: Option<super::probe::CommitProbe>,
}

impl SqliteOptions {
    /// The defaults, those of `[store.sqlite]`.
    #[must_use]
    pub fn new() -> Self {
        Self::from(&SqliteStoreConfig::default())
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

    /// With another rule for the bytes of what has ended.
    #[must_use]
    pub fn payloads(self, payloads: PayloadRetention) -> Self {
        Self { payloads, ..self }
    }

    /// With a bound on the file.
    #[must_use]
    pub fn file_bytes_max(self, file_bytes_max: u64) -> Self {
        Self { file_bytes_max: Some(file_bytes_max), ..self }
    }

    /// With another wait for the file's lock.
    #[must_use]
    pub fn lock_wait(self, lock_wait: Duration) -> Self {
        Self { lock_wait, ..self }
    }

    /// With another wait for other programs' transactions.
    #[must_use]
    pub fn busy_wait(self, busy_wait: Duration) -> Self {
        Self { busy_wait, ..self }
    }

    /// With something that looks at every commit.
    #[cfg(feature = "test-util")]
    #[must_use]
    pub fn commit_probe(self, probe: super::probe::CommitProbe) -> Self {
        Self { commit_probe: Some(probe), ..self }
    }
}

/// What `[store.sqlite]` says.
impl From<&SqliteStoreConfig> for SqliteOptions {
    fn from(config: &SqliteStoreConfig) -> Self {
        let span = config.payloads_for;
        let payloads = if span.is_zero() {
            PayloadRetention::Remove
        } else {
            PayloadRetention::Keep { span, count_max: config.payloads_max }
        };
        Self {
            live_max: config.live_max,
            ended_max: config.ended_max,
            ended_for: config.ended_for,
            attempts_for: config.attempts_for,
            notes_max: config.notes_max,
            payloads,
            file_bytes_max: config.file_bytes_max,
            lock_wait: config.lock_wait,
            busy_wait: config.busy_wait,
            #[cfg(feature = "test-util")]
            commit_probe: None,
        }
    }
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_becomes_its_option() {
        let [ended, attempts, lock, busy] = [11, 12, 13, 14].map(Duration::from_secs);
        let mut config = SqliteStoreConfig::default();
        (config.live_max, config.ended_max, config.notes_max, config.file_bytes_max) = (1, 2, 3, Some(4));
        (config.ended_for, config.attempts_for, config.lock_wait, config.busy_wait) = (ended, attempts, lock, busy);
        let by_hand = SqliteOptions::new().live_max(1).ended_max(2).notes_max(3).file_bytes_max(4);
        let by_hand = by_hand.ended_for(ended).attempts_for(attempts).lock_wait(lock).busy_wait(busy);
        assert_eq!(format!("{:?}", SqliteOptions::from(&config)), format!("{by_hand:?}"));
        assert_eq!(SqliteOptions::new().payloads, PayloadRetention::Remove);
    }

    #[test]
    fn payloads_are_kept_where_a_span_is_set() {
        let hour = Duration::from_secs(3_600);
        let mut config = SqliteStoreConfig::default();
        (config.payloads_for, config.payloads_max) = (hour, 7);
        let kept = SqliteOptions::from(&config).payloads;
        assert_eq!(kept, PayloadRetention::Keep { span: hour, count_max: 7 });
    }
}
