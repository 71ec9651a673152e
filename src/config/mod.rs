//! The configuration: plain values with defaults, checked as a whole, turned into the engine's policies.
//!
//! [`Config`] is a struct of public fields that programs fill without TOML. With the feature `config` the same
//! struct is read from a TOML file, in which every key is known or refused: a key that is spelled wrong and silently
//! ignored is a limit that is not kept. The sections are the engine's own policy types, so there is no second set of
//! numbers to keep in step.
//!
//! Not promised: that a valid configuration is wise. `mailweir check` prints what its limits come to.

mod callers;
mod codec;
mod error;
mod human;
pub(crate) mod id;
mod key;
mod keys;
mod mailboxes;
mod outbox;
mod reload;
mod rules;
mod secret;
mod settings;
mod source;
mod throughput;
mod value;

#[cfg(feature = "config")]
mod blank;
#[cfg(feature = "config")]
mod document;
#[cfg(feature = "sim")]
mod fields;
#[cfg(feature = "config")]
mod lookup;
#[cfg(feature = "config")]
mod preset;
#[cfg(feature = "config")]
mod print;
#[cfg(feature = "config")]
mod suggest;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

#[cfg(feature = "sim")]
pub(crate) use codec::{Codec, Count, Limits, Line, Or, Share, Size, Span, Word};
#[cfg(feature = "sim")]
pub(crate) use document::{overlay, text_of};
#[cfg(feature = "sim")]
pub(crate) use fields::{Fields, Sheet};
#[cfg(feature = "sim")]
pub(crate) use human::parse_duration;
#[cfg(feature = "sim")]
pub(crate) use value::{Value, Wrong};

pub use error::{ConfigError, Invalid, Place, Problem, ProblemKind};
pub use human::{parse_size, show_duration, show_size};
pub use key::{Reload, Setting};
pub use mailboxes::{MailboxOverride, Policies};
pub use outbox::{MemoryStoreConfig, RedisStoreConfig, SqliteStoreConfig, StoreConfig};
pub use reload::{Change, ConfigDiff};
pub use secret::Secret;
pub use settings::{
    ActorsConfig, GraphConfig, GraphMode, Mailboxes, OnPanic, OrdersConfig, Redaction, ShutdownConfig, SubmitConfig,
    TelemetryConfig, TransportConfig, TransportKind,
};
pub use source::Source;
pub use throughput::{Binds, LimitFacts, Rate, ScopeFacts};

use crate::engine::callers::CallersPolicy;
use crate::engine::policy::{
    BreakerPolicy, FleetPolicy, GuardPolicy, LanesPolicy, MailboxPolicy, QueuePolicy, ResumePolicy, RetryPolicy,
    ScopePolicy, SharedPolicy,
};

/// The limits of a mailbox when nobody says otherwise: those of Exchange Online and of Graph's Outlook API
/// (Defender "outbound limits" and Graph throttling-limits, as of November 2026).
const MAILBOX_LIMITS: [&str; 4] =
    ["30 requests / 1m", "10_000 recipients / 24h", "10_000 requests / 10m", "150MB / 5m"];

/// Graph's limit for everything that one application does (Graph throttling-limits, since September 2023).
const APPLICATION_LIMITS: [&str; 1] = ["130_000 requests / 10s"];

/// Everything that can be set. [`Config::default`] equals `config/default.toml`, where every key is explained.
///
/// ```
/// use mailweir::config::{Config, MailboxOverride};
///
/// let mut config = Config::default();
/// config.lanes.background_share = mailweir::engine::Ratio::percent(40);
/// let own = MailboxOverride::default().set("retry.attempts_max", "3")?;
/// let config = config.mailbox_override("alerts@contoso.example", own);
/// let policies = config.policies()?;
/// assert_eq!(policies.mailbox("alerts@contoso.example").retry.attempts_max.get(), 3);
/// assert_eq!(policies.mailbox("noreply@contoso.example").retry.attempts_max.get(), 8);
/// # Ok::<(), mailweir::config::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Where operations live, and what is kept of them.
    pub store: StoreConfig,
    /// The limits of every mailbox without its own.
    pub mailbox: ScopePolicy,
    /// The limits of every tenant.
    pub tenant: ScopePolicy,
    /// The limits of everything that this application sends.
    pub application: ScopePolicy,
    /// Safety margins.
    pub guard: GuardPolicy,
    /// The foreground/background split.
    pub lanes: LanesPolicy,
    /// The circuit breakers.
    pub breaker: BreakerPolicy,
    /// Attempts, backoff, unknown outcomes.
    pub retry: RetryPolicy,
    /// How resumptions are laid out.
    pub resume: ResumePolicy,
    /// Bounds on what waits.
    pub queue: QueuePolicy,
    /// Several processes over one store.
    pub fleet: FleetPolicy,
    /// The mailbox actors.
    pub actors: ActorsConfig,
    /// What is taken in.
    pub submit: SubmitConfig,
    /// Ceilings per caller.
    pub callers: CallersPolicy,
    /// What is known of orders that have ended.
    pub orders: OrdersConfig,
    /// What events and metrics show.
    pub telemetry: TelemetryConfig,
    /// How the scheduler stops.
    pub shutdown: ShutdownConfig,
    /// How emails leave.
    pub transport: TransportConfig,
    /// What single mailboxes do differently.
    pub mailboxes: BTreeMap<Arc<str>, MailboxOverride>,
    origins: source::Origins,
}

impl Default for Config {
    fn default() -> Self {
        // Concurrency 4 at the mailbox and none at the application: Microsoft's wording moved between the two scopes
        // (per app and mailbox until 2023, "regardless of mailbox" since). Four in flight for a whole application
        // would hold ten thousand mailboxes to four sends at once on a reading that every earlier source and every
        // field report but one contradicts, so the wider gate is there to be set, and off.
        Self {
            store: StoreConfig::default(),
            mailbox: ScopePolicy { limits: limits(&MAILBOX_LIMITS), concurrency: NonZeroU32::new(4) },
            tenant: ScopePolicy::default(),
            application: ScopePolicy { limits: limits(&APPLICATION_LIMITS), concurrency: None },
            guard: GuardPolicy::default(),
            lanes: LanesPolicy::default(),
            breaker: BreakerPolicy::default(),
            retry: RetryPolicy::default(),
            resume: ResumePolicy::default(),
            queue: QueuePolicy::default(),
            fleet: FleetPolicy::default(),
            actors: ActorsConfig::default(),
            submit: SubmitConfig::default(),
            callers: CallersPolicy::default(),
            orders: OrdersConfig::default(),
            telemetry: TelemetryConfig::default(),
            shutdown: ShutdownConfig::default(),
            transport: TransportConfig::default(),
            mailboxes: BTreeMap::new(),
            origins: source::Origins::default(),
        }
    }
}

fn limits(texts: &[&str]) -> Vec<crate::engine::Limit> {
    texts.iter().map(|text| text.parse().expect("the limits in this file are well formed")).collect()
}

impl Config {
    /// Sets the limits of every mailbox without its own.
    #[must_use]
    pub fn mailbox_limits(mut self, limits: impl IntoIterator<Item = crate::engine::Limit>) -> Self {
        self.mailbox.limits = limits.into_iter().collect();
        self
    }

    /// Sets the limits of everything that this application sends.
    #[must_use]
    pub fn application_limits(mut self, limits: impl IntoIterator<Item = crate::engine::Limit>) -> Self {
        self.application.limits = limits.into_iter().collect();
        self
    }

    /// Sets what one mailbox does differently.
    #[must_use]
    pub fn mailbox_override(mut self, id: impl Into<Arc<str>>, own: MailboxOverride) -> Self {
        self.mailboxes.insert(id.into(), own);
        self
    }

    /// Checks every bound and every rule between keys.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with every problem that was found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let problems = rules::check(self);
        if problems.is_empty() { Ok(()) } else { Err(Invalid::in_code(problems).into()) }
    }

    /// The engine's policies, once the configuration is checked.
    ///
    /// # Errors
    /// As [`Config::validate`].
    pub fn policies(&self) -> Result<Policies, ConfigError> {
        self.validate()?;
        Ok(Policies::of(self))
    }

    /// The policy of one mailbox. For many mailboxes take [`Config::policies`], which shares them and checks them.
    #[must_use]
    pub fn mailbox_policy(&self, id: &str) -> Arc<MailboxPolicy> {
        let base = self.base_policy();
        Arc::new(self.mailboxes.get(id).map_or_else(|| base.clone(), |own| own.apply(&base, &keys::of_mailbox())))
    }

    /// The policy of the shared scopes.
    #[must_use]
    pub fn shared_policy(&self) -> Arc<SharedPolicy> {
        Arc::new(self.shared())
    }

    /// The tenant of a mailbox's operations when a submission names none.
    #[must_use]
    pub fn tenant_of(&self, mailbox: &str) -> Option<&Arc<str>> {
        self.mailboxes.get(mailbox)?.tenant.as_ref()
    }

    /// Whether this mailbox may send at all.
    ///
    /// # Errors
    /// [`ConfigError::UnknownMailbox`] when the list of mailboxes is closed and this one is not on it.
    pub fn permit_mailbox(&self, mailbox: &str) -> Result<(), ConfigError> {
        match self.submit.mailboxes {
            Mailboxes::Listed if !self.mailboxes.contains_key(mailbox) => {
                Err(ConfigError::UnknownMailbox { mailbox: mailbox.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Where the value of a key such as `lanes.background_share` came from.
    #[must_use]
    pub fn source(&self, key: &str) -> Source {
        if let Some(source) = self.origins.source(key) {
            return source;
        }
        let known = keys::of_config();
        let as_default = known.iter().find(|known| known.path == key).map(|known| {
            let default = Self::default();
            known.show(&default) == known.show(self)
        });
        if as_default.unwrap_or(true) { Source::Default } else { Source::Program }
    }

    /// Where a mailbox's value of a key such as `limits` or `lanes.background_share` came from.
    #[must_use]
    pub fn mailbox_source(&self, mailbox: &str, key: &str) -> Source {
        let whole = key.split('[').next().unwrap_or(key);
        if self.mailboxes.get(mailbox).is_some_and(|own| own.has(whole)) {
            let place = self.origins.place_in_file(&mailbox_key(mailbox, key));
            return Source::Override { line: place.map(|place| place.line) };
        }
        self.source(&keys::base_of(key))
    }

    /// Every key, what it holds and where that came from; those of single mailboxes last.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        let base = keys::of_config().into_iter().map(|key| Setting {
            value: key.show(self).to_string(),
            source: self.source(&key.path),
            reload: key.reload,
            key: key.path,
        });
        let own = self.mailboxes.iter().flat_map(|(id, own)| {
            own.names().map(move |name| Setting {
                key: mailbox_key(id, name),
                value: own.shown(name).map(|value| value.to_string()).unwrap_or_default(),
                source: self.mailbox_source(id, name),
                reload: Reload::Live,
            })
        });
        base.chain(own).collect()
    }

    fn base_policy(&self) -> MailboxPolicy {
        MailboxPolicy {
            scope: self.mailbox.clone(),
            guard: self.guard.clone(),
            lanes: self.lanes.clone(),
            breaker: self.breaker.clone(),
            retry: self.retry.clone(),
            resume: self.resume.clone(),
            queue: self.queue.clone(),
            provider: self.transport.provider(),
            fleet: self.fleet.clone(),
        }
    }

    fn shared(&self) -> SharedPolicy {
        SharedPolicy {
            application: self.application.clone(),
            tenant: self.tenant.clone(),
            guard: self.guard.clone(),
            lanes: self.lanes.clone(),
            breaker: self.breaker.clone(),
            resume: self.resume.clone(),
        }
    }
}

/// The full key of one mailbox's setting.
fn mailbox_key(mailbox: &str, key: &str) -> String {
    format!("mailboxes.{}.{key}", value::quoted(mailbox))
}
