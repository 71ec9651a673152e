//! The store that a configuration names, with what the configuration says it keeps.
//!
//! A program that reads its store from `[store]` opens it here, so that every program takes the same texts and refuses
//! the others in the same words. Nothing stands in for what is refused: a program that was told a file and quietly kept
//! its emails in memory would lose them at its next restart.
//!
//! Not opened here: stores of your own, and those with what no configuration can say, such as a clock. Hand them to the
//! scheduler's builder.

use std::sync::Arc;

use super::{MemoryStore, Store, StoreError};
use crate::config::StoreConfig;
use crate::redact::without_credentials;

/// What this build opens, in words.
const ALLOWED: &str = match (cfg!(feature = "sqlite"), cfg!(feature = "redis")) {
    (false, false) => "\"memory:\"",
    (true, false) => "\"memory:\" or \"sqlite:PATH\"",
    (false, true) => "\"memory:\" or \"redis://USER:PASSWORD@HOST:PORT/DATABASE\"",
    (true, true) => "\"memory:\", \"sqlite:PATH\" or \"redis://USER:PASSWORD@HOST:PORT/DATABASE\"",
};

/// Why the store that `store.url` names was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It names no store that this build has.
    #[error("store.url = {url:?}: {reason}; allowed in this build: {ALLOWED}")]
    Url {
        /// The value, without what may be a password.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// It names one, which did not open.
    #[error("store.url = {url:?}: the store did not open")]
    Store {
        /// The value.
        url: String,
        /// What the store said, and the way out.
        #[source]
        source: StoreError,
    },
}

impl OpenError {
    /// Whether the same call may work later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Url { .. } => false,
            Self::Store { source, .. } => source.is_retryable(),
        }
    }
}

/// Opens what `store.url` names, with the settings of that kind: `memory:`, or with the feature `sqlite` `sqlite:PATH`,
/// where PATH is the file as the system takes it (relative to the working directory, nothing in it is decoded). A file
/// that is not there is created. With the feature `redis` `redis://USER:PASSWORD@HOST:PORT/DATABASE`, of which all but
/// the host may be left out, with `redis-tls` `rediss://` too, with `redis-cluster` `redis+cluster://HOST:PORT,HOST:PORT`,
/// and with `redis-sentinel` `redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER/DATABASE`.
///
/// Settings of the other kinds change nothing here; a configuration that was read or validated has none.
///
/// Blocks while a file is checked, or until a server has answered: call it at the start, not on the way of a send.
///
/// ```
/// let mut config = mailweir::Config::default();
/// config.store.url = "memory:".to_owned();
/// config.store.memory.live_max = 1_000;
/// let store = mailweir::store::open(&config.store)?;
/// assert_eq!(mailweir::store::Store::kind(&store), "memory");
/// # Ok::<(), mailweir::store::OpenError>(())
/// ```
///
/// # Errors
/// [`OpenError`] names the key, the value and the way out.
pub fn open(config: &StoreConfig) -> Result<Arc<dyn Store>, OpenError> {
    let url = &*config.url;
    let refused = |reason| OpenError::Url { url: without_credentials(url), reason };
    let (scheme, rest) = url.split_once(':').ok_or_else(|| refused("it has no scheme"))?;
    match scheme {
        "memory" if rest.is_empty() => Ok(Arc::new(MemoryStore::from(&config.memory))),
        "memory" => Err(refused("nothing follows the colon of \"memory:\"")),
        "sqlite" if rest.is_empty() => Err(refused("the path of the file is missing")),
        // What other programs write for "in memory", and for a path in a URL: taken as paths they would be files of
        // surprising names.
        "sqlite" if rest == ":memory:" => Err(refused("a store in memory is \"memory:\"")),
        "sqlite" if rest.starts_with("//") => Err(refused("the path follows the colon, without //")),
        "sqlite" => sqlite(config, rest),
        "redis" | "rediss" | "redis+cluster" | "rediss+cluster" | "redis+sentinel" | "rediss+sentinel" => redis(config),
        _ => Err(refused("no store has this scheme")),
    }
}

#[cfg(feature = "sqlite")]
fn sqlite(config: &StoreConfig, path: &str) -> Result<Arc<dyn Store>, OpenError> {
    match super::SqliteStore::open_with(path, (&config.sqlite).into()) {
        Ok(store) => Ok(Arc::new(store)),
        Err(source) => Err(OpenError::Store { url: config.url.clone(), source }),
    }
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(config: &StoreConfig, _: &str) -> Result<Arc<dyn Store>, OpenError> {
    let reason = "this build has no SQLite; build it with the feature sqlite";
    Err(OpenError::Url { url: config.url.clone(), reason })
}

#[cfg(feature = "redis")]
fn redis(config: &StoreConfig) -> Result<Arc<dyn Store>, OpenError> {
    let url = &*config.url;
    if let Err(reason) = super::redis::check_url(url) {
        return Err(OpenError::Url { url: without_credentials(url), reason });
    }
    match super::RedisStore::open_with(url, (&config.redis).into()) {
        Ok(store) => Ok(Arc::new(store)),
        Err(source) => Err(OpenError::Store { url: without_credentials(url), source }),
    }
}

#[cfg(not(feature = "redis"))]
fn redis(config: &StoreConfig) -> Result<Arc<dyn Store>, OpenError> {
    let reason = "this build has no Redis; build it with the feature redis";
    Err(OpenError::Url { url: without_credentials(&config.url), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(url: &str) -> Result<Arc<dyn Store>, OpenError> {
        super::open(&StoreConfig { url: url.to_owned(), ..StoreConfig::default() })
    }

    #[test]
    fn memory_is_opened() {
        assert_eq!(open("memory:").map(|store| store.kind()), Ok("memory"));
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn a_file_is_created_at_its_path_and_one_that_cannot_be_is_an_error_with_its_cause() {
        use std::error::Error;

        let folder = tempfile::tempdir().expect("a scratch folder");
        let file = folder.path().join("out box.db");
        assert_eq!(open(&format!("sqlite:{}", file.display())).map(|store| store.kind()), Ok("sqlite"));
        assert!(file.exists());
        let nowhere = format!("sqlite:{}", folder.path().join("missing").join("outbox.db").display());
        let error = open(&nowhere).expect_err("there is no such folder");
        assert!(error.to_string().contains(&nowhere), "{error}");
        assert!(error.source().is_some_and(|source| source.to_string().contains("outbox.db")), "{error:?}");
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn what_the_configuration_says_of_it_reaches_the_file() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let mut config =
            StoreConfig { url: format!("sqlite:{}", folder.path().join("a.db").display()), ..StoreConfig::default() };
        config.sqlite.attempts_for = std::time::Duration::from_secs(77);
        let store = super::open(&config).expect("a new file");
        assert_eq!(store.attempts_for(), config.sqlite.attempts_for);
        config.sqlite.lock_wait = std::time::Duration::ZERO;
        let error = super::open(&config).expect_err("it is open already, and nobody waits");
        assert!(error.is_retryable(), "{error:?}");
    }

    #[cfg(not(feature = "sqlite"))]
    #[test]
    fn a_build_without_sqlite_says_so() {
        let error = open("sqlite:outbox.db").expect_err("it is not built in");
        assert_eq!(
            error.to_string(),
            "store.url = \"sqlite:outbox.db\": this build has no SQLite; build it with the feature sqlite; \
             allowed in this build: \"memory:\""
        );
    }

    #[cfg(feature = "redis")]
    #[test]
    fn a_server_that_is_not_there_is_an_error_that_may_pass_and_shows_no_password() {
        use std::error::Error;

        let error = open("redis://ann:hunter2@127.0.0.1:1").expect_err("nobody listens");
        assert!(error.is_retryable(), "{error:?}");
        let source = error.source().map(ToString::to_string).unwrap_or_default();
        assert!(source.contains("refuses the connection"), "{source}");
        assert!(
            !format!("{error} {error:?}").contains("hunter2") && error.to_string().contains("127.0.0.1:1"),
            "{error}"
        );
    }

    #[test]
    fn a_url_of_no_store_is_refused_with_key_value_and_what_is_allowed() {
        for (url, reason) in [
            ("", "it has no scheme"),
            ("outbox.db", "it has no scheme"),
            ("memory:x", "nothing follows"),
            ("sqlite:", "the path of the file is missing"),
            ("sqlite::memory:", "a store in memory is"),
            ("sqlite:///var/lib/outbox.db", "without //"),
            ("redis:127.0.0.1:6379", if cfg!(feature = "redis") { "it needs a host" } else { "no Redis" }),
            ("SQLite:outbox.db", "no store has this scheme"),
            ("postgres://localhost/outbox", "no store has this scheme"),
        ] {
            let error = open(url).expect_err(url);
            assert!(!error.is_retryable());
            let text = error.to_string();
            assert!(text.starts_with(&format!("store.url = {url:?}: ")) && text.contains(reason), "{text}");
            assert!(text.ends_with(&format!("allowed in this build: {ALLOWED}")), "{text}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        for url in ["redis://user:hunter2@cache:none/0", "redis://cache:1x?password=hunter2", "x://a@hunter2@cache"] {
            let error = open(url).expect_err(url);
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
            assert!(error.to_string().contains("cache"), "{error}");
        }
    }
}
