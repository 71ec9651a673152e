//! The settings that are neither the engine's nor the store's: actors, intake, telemetry, shutdown, transport.

use std::time::Duration;

use super::error::ConfigError;
use super::secret::Secret;
use crate::engine::Cost;
use crate::engine::policy::ProviderPolicy;

/// The mailbox actors.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActorsConfig {
    /// Mailbox actors alive at once; above it, idle ones are passivated early, then submissions are refused.
    pub live_max: usize,
    /// An actor without work or trouble is stopped after this long; what it has used is kept. 90 s: a minute's window is
    /// forgotten by then, and a live one takes several times the bytes (`docs/benchmarks.md`).
    pub passivate_after: Duration,
    /// Most submissions that wait for one mailbox's actor, per lane.
    pub actor_queue_capacity: usize,
    /// Rebuilds of one actor within [`ActorsConfig::restart_period`]; after that its mailbox is held and reported.
    pub restarts_max: u32,
    /// See [`ActorsConfig::restarts_max`].
    pub restart_period: Duration,
    /// What a panic in an actor does.
    pub on_panic: OnPanic,
}

impl Default for ActorsConfig {
    fn default() -> Self {
        Self {
            live_max: 100_000,
            passivate_after: Duration::from_secs(90),
            actor_queue_capacity: 1_024,
            restarts_max: 5,
            restart_period: Duration::from_secs(60),
            on_panic: OnPanic::Restart,
        }
    }
}

/// What a panic in an actor does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnPanic {
    /// The actor is rebuilt from the store; the others go on.
    #[default]
    Restart,
    /// The process ends, for operators whose supervisor starts it again.
    Abort,
}

/// What is taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubmitConfig {
    /// Longest operation id, in bytes.
    pub operation_id_bytes_max: usize,
    /// Most recipients of one email. Exchange Online allows 500 unless an administrator set another number.
    pub recipients_max: u32,
    /// Largest email with its headers, before the transport encodes it, in bytes.
    pub size_max: u64,
    /// Longest cooldown of an admission key. While a key counts its mailbox's actor stays, and the store keeps a note.
    pub admission_cooldown_max: Duration,
    /// Most admission keys that count at once in one mailbox. Above it a new one is refused.
    pub admission_keys_max: usize,
    /// Longest time that a submission, or a release, may give an operation. Until then it keeps its place, and its bytes
    /// are in the store.
    pub deadline_max: Duration,
    /// Domains whose recipients are not external; empty: the domain of the mailbox.
    pub own_domains: Vec<String>,
    /// Which mailboxes may send.
    pub mailboxes: Mailboxes,
}

impl Default for SubmitConfig {
    fn default() -> Self {
        Self {
            operation_id_bytes_max: 255,
            recipients_max: 500,
            size_max: 25_000_000,
            admission_cooldown_max: Duration::from_secs(86_400),
            admission_keys_max: 100_000,
            deadline_max: Duration::from_secs(30 * 86_400),
            own_domains: Vec::new(),
            mailboxes: Mailboxes::Any,
        }
    }
}

/// What is known of orders that have ended: holds, and breakers opened by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OrdersConfig {
    /// How long each can be asked about after its end.
    pub ended_for: Duration,
    /// Most of them; the oldest give way.
    pub ended_max: usize,
}

impl Default for OrdersConfig {
    fn default() -> Self {
        Self { ended_for: Duration::from_secs(7 * 86_400), ended_max: 1_000 }
    }
}

/// Which mailboxes may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mailboxes {
    /// Any; those without a table have the limits of `[mailbox]`.
    #[default]
    Any,
    /// Those with a table `[mailboxes."…"]`, and no other: the list is closed.
    Listed,
}

/// What events and metrics show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TelemetryConfig {
    /// How mailbox ids are shown.
    pub mailbox_redaction: Redaction,
}

/// How an id is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Redaction {
    /// As it is.
    #[default]
    None,
    /// As a hash: the same id gives the same hash.
    Hash,
    /// Not at all.
    Omit,
}

/// How the scheduler stops.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownConfig {
    /// How long attempts in flight may take to end before they are counted as unknown.
    pub drain_deadline: Duration,
}

impl Default for ShutdownConfig {
    fn default() -> Self {
        // An attempt may take 60 s, plus the 5 s that the guard allows on top (algorithms 8).
        Self { drain_deadline: Duration::from_secs(65) }
    }
}

/// How emails leave, for programs that take their transport from the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransportConfig {
    /// Which transport.
    pub kind: TransportKind,
    /// How long an email that was taken may not show where a look-up looks.
    pub visibility_delay: Duration,
    /// How long the provider drops a second email with the key of the first; `None`: what is known of the transport,
    /// [`TransportKind::dedupe_window`].
    pub dedupe_window: Option<Duration>,
    /// The settings of the Graph transport.
    pub graph: GraphConfig,
}

impl Default for TransportConfig {
    fn default() -> Self {
        let visibility_delay = ProviderPolicy::default().visibility_delay;
        Self { kind: TransportKind::default(), visibility_delay, dedupe_window: None, graph: GraphConfig::default() }
    }
}

impl TransportConfig {
    /// What the engine needs to know of the provider.
    #[must_use]
    pub fn provider(&self) -> ProviderPolicy {
        let dedupe_window = self.dedupe_window.unwrap_or_else(|| self.kind.dedupe_window());
        ProviderPolicy { visibility_delay: self.visibility_delay, dedupe_window }
    }

    /// What one attempt of the configured transport takes, of what the email counts.
    #[must_use]
    pub const fn cost(&self, counted: Cost) -> Cost {
        match self.kind {
            TransportKind::Simulated => counted,
            TransportKind::Graph => self.graph.mode.cost(counted),
        }
    }
}

/// The transports that a configuration can name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportKind {
    /// Nothing leaves the machine.
    #[default]
    Simulated,
    /// Microsoft Graph.
    Graph,
}

impl TransportKind {
    /// How long the provider is sure to drop a second email with the key of the first, where nobody says otherwise.
    ///
    /// Zero for both. Graph's `sendMail` documents no idempotency, and `client-request-id` is for support cases
    /// (microsoft-graph-docs-contrib#921; Microsoft Q&A 5882045, 2026). Exchange drops duplicates by Message-ID and
    /// submit time, for an hour at most (Exchange team blog, July 2004): a second net, no guarantee.
    #[must_use]
    pub const fn dedupe_window(self) -> Duration {
        match self {
            Self::Simulated | Self::Graph => Duration::ZERO,
        }
    }
}

/// How an email goes to Graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GraphMode {
    /// `sendMail`: one request. What is lost after the body can only be looked for in Sent Items.
    #[default]
    SendMail,
    /// A draft is created, then sent: two requests. A draft that is still there was not sent, for sure; one that is
    /// gone is looked for in Sent Items.
    DraftThenSend,
}

impl GraphMode {
    /// What one attempt takes, of what the email counts: one request more where a draft comes first.
    #[must_use]
    pub const fn cost(self, counted: Cost) -> Cost {
        match self {
            Self::SendMail => counted,
            Self::DraftThenSend => Cost { requests: counted.requests.saturating_add(1), ..counted },
        }
    }
}

/// The Graph transport.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphConfig {
    /// In one request or in two.
    pub mode: GraphMode,
    /// Where the API is: scheme, host and optional port.
    pub base_url: String,
    /// Who issues tokens.
    pub authority: String,
    /// What tokens are for; national clouds have their own.
    pub scope: String,
    /// The directory (tenant) id of the application's registration.
    pub tenant: String,
    /// The application (client) id.
    pub client_id: String,
    /// The client secret itself. Better kept outside the file: see the next two.
    pub client_secret: Secret,
    /// The environment variable that holds it.
    pub client_secret_env: String,
    /// The file that holds it; line breaks at its end are cut off.
    pub client_secret_file: String,
    /// Most sends in one `$batch`; 1 means that batches are not used. Graph takes 20 at most.
    pub batch_max: usize,
    /// Most bytes of one `$batch`.
    pub batch_bytes_max: u64,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long an unused connection is kept.
    pub idle_timeout: Duration,
}

impl Default for GraphConfig {
    fn default() -> Self {
        Self {
            mode: GraphMode::default(),
            base_url: "https://graph.microsoft.com".to_owned(),
            authority: "https://login.microsoftonline.com".to_owned(),
            scope: "https://graph.microsoft.com/.default".to_owned(),
            tenant: String::new(),
            client_id: String::new(),
            client_secret: Secret::default(),
            client_secret_env: String::new(),
            client_secret_file: String::new(),
            batch_max: 1,
            batch_bytes_max: 4_000_000,
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(20),
        }
    }
}

/// Longest secret file that is read.
const SECRET_BYTES_MAX: u64 = 64 * 1_024;

impl GraphConfig {
    /// The client secret, from wherever the configuration says it is kept.
    ///
    /// # Errors
    /// [`ConfigError::SecretMissing`] when that place has none.
    pub fn secret(&self) -> Result<Secret, ConfigError> {
        if !self.client_secret_env.is_empty() {
            // Not the error's own words: for a value that is no Unicode they would show it.
            let found = std::env::var(&self.client_secret_env).map_err(|error| match error {
                std::env::VarError::NotPresent => "no such environment variable",
                std::env::VarError::NotUnicode(_) => "its value is not UTF-8",
            });
            return not_empty("transport.graph.client_secret_env", &self.client_secret_env, found);
        }
        if !self.client_secret_file.is_empty() {
            let found = read_secret(&self.client_secret_file);
            return not_empty("transport.graph.client_secret_file", &self.client_secret_file, found);
        }
        let found = Ok::<_, &str>(self.client_secret.expose().to_owned());
        not_empty("transport.graph.client_secret", "", found)
    }
}

fn read_secret(path: &str) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)?.take(SECRET_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn not_empty<E: std::fmt::Display>(
    key: &'static str,
    value: &str,
    found: Result<String, E>,
) -> Result<Secret, ConfigError> {
    let missing = |reason: String| ConfigError::SecretMissing { key, value: value.to_owned(), reason };
    match found {
        Ok(text) if text.is_empty() => Err(missing("it is empty".to_owned())),
        Ok(text) => Ok(Secret::new(text)),
        Err(error) => Err(missing(error.to_string())),
    }
}
