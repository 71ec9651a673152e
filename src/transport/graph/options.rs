//! Where Graph is, who we are, and how much to ask of it at once.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use reqwest::Url;
use secrecy::SecretString;

use crate::config::GraphMode;
use crate::redact::without_credentials;
use crate::signals::Unavailable;

/// Most requests that one `$batch` takes (Microsoft Graph JSON batching, 2025).
pub const BATCH_MAX: usize = 20;

/// Whether a base URL may be plain `http`, over which a token is readable by anyone on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlainHttp {
    /// On this machine only: `localhost`, 127.0.0.0/8, ::1.
    #[default]
    Loopback,
    /// Anywhere. For a test network that nobody else can listen on.
    Anywhere,
}

/// Settings of a [`GraphTransport`](super::GraphTransport).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GraphOptions {
    /// In one request or in two: see [`GraphMode`].
    pub mode: GraphMode,
    /// Scheme, host and optional port; `/v1.0` is added where it is not there.
    pub base_url: String,
    /// Longest wait for a connection, names and TLS included. Keep it below the attempts' timeout: what fails here
    /// gives its charge back, what fails later may not.
    pub connect_timeout: Duration,
    /// How long an unused connection is kept. Short: a connection that the server closes just as a request is written
    /// to it leaves that request unknown.
    pub idle_timeout: Duration,
    /// How to take a 503 that gives no reason.
    pub unavailable: Unavailable,
    /// Most attempts in one `$batch`, from 1 (off, the default) to [`BATCH_MAX`]. Every inner request counts against
    /// every limit, so a batch saves round trips only, and one lost connection makes all of it unknown.
    pub batch_max: usize,
    /// Most bytes of one `$batch` body; Graph takes requests of about 4 MB.
    pub batch_bytes_max: usize,
    /// Whether plain `http` is allowed.
    pub plain_http: PlainHttp,
}

impl Default for GraphOptions {
    fn default() -> Self {
        Self {
            mode: GraphMode::default(),
            base_url: "https://graph.microsoft.com".to_owned(),
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(20),
            unavailable: Unavailable::default(),
            batch_max: 1,
            batch_bytes_max: 4_000_000,
            plain_http: PlainHttp::default(),
        }
    }
}

impl GraphOptions {
    /// These options with another base URL: a national cloud, or the local upstream.
    #[must_use]
    pub fn base_url(mut self, base_url: impl Into<String>) -> Self {
        self.base_url = base_url.into();
        self
    }

    /// These options with another way to send.
    #[must_use]
    pub const fn mode(mut self, mode: GraphMode) -> Self {
        self.mode = mode;
        self
    }

    /// These options with another bound on connecting.
    #[must_use]
    pub const fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// These options with another reading of a bare 503.
    #[must_use]
    pub const fn unavailable(mut self, unavailable: Unavailable) -> Self {
        self.unavailable = unavailable;
        self
    }

    /// These options with batches of up to `batch_max` attempts.
    #[must_use]
    pub const fn batch_max(mut self, batch_max: usize) -> Self {
        self.batch_max = batch_max;
        self
    }

    /// These options with batches of up to `batch_bytes_max` bytes.
    #[must_use]
    pub const fn batch_bytes_max(mut self, batch_bytes_max: usize) -> Self {
        self.batch_bytes_max = batch_bytes_max;
        self
    }

    /// These options with another rule for plain `http`.
    #[must_use]
    pub const fn plain_http(mut self, plain_http: PlainHttp) -> Self {
        self.plain_http = plain_http;
        self
    }

    pub(super) fn check(&self) -> Result<(), GraphError> {
        if !(1..=BATCH_MAX).contains(&self.batch_max) {
            return Err(GraphError::BatchMax { value: self.batch_max });
        }
        if self.mode == GraphMode::DraftThenSend && self.batch_max > 1 {
            return Err(GraphError::DraftsInBatches { batch_max: self.batch_max });
        }
        Ok(())
    }
}

/// An application's credentials for the client-credentials grant. The secret never prints.
#[derive(Clone)]
pub struct Credentials {
    pub(super) authority: String,
    pub(super) tenant_id: String,
    pub(super) client_id: String,
    pub(super) client_secret: SecretString,
    pub(super) scope: String,
}

/// Shows where, not what.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("authority", &self.authority)
            .field("tenant_id", &self.tenant_id)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

impl Credentials {
    /// The credentials of an application registered in Entra ID, for the worldwide cloud.
    pub fn new(tenant_id: impl Into<String>, client_id: impl Into<String>, client_secret: impl Into<String>) -> Self {
        Self {
            authority: "https://login.microsoftonline.com".to_owned(),
            tenant_id: tenant_id.into(),
            client_id: client_id.into(),
            client_secret: SecretString::from(client_secret.into()),
            scope: "https://graph.microsoft.com/.default".to_owned(),
        }
    }

    /// These credentials at another authority; `/{tenant}/oauth2/v2.0/token` is added.
    #[must_use]
    pub fn authority(mut self, authority: impl Into<String>) -> Self {
        self.authority = authority.into();
        self
    }

    /// These credentials for another scope; national clouds have their own.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = scope.into();
        self
    }
}

/// Why a Graph transport was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// Not a URL that can be built on.
    #[error("`{field}` is `{value}`: use scheme, host and optional port, as in https://graph.microsoft.com")]
    Url {
        /// `base_url` or `authority`.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// Plain `http` to another machine.
    #[error("`{field}` is `{value}`: over plain http tokens are readable on the way; use https, or allow plain http")]
    PlainHttp {
        /// `base_url` or `authority`.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// A tenant that is no single path segment.
    #[error("`tenant_id` is empty or not a plain name: use the directory's id or one of its domains")]
    TenantId,
    /// More, or fewer, requests than a batch takes.
    #[error("`batch_max` is {value}: use 1 (off) to 20")]
    BatchMax {
        /// Its value.
        value: usize,
    },
    /// Drafts are sent one by one.
    #[error("`batch_max` is {batch_max} and `mode` sends drafts, which take no batches: use 1, or the other mode")]
    DraftsInBatches {
        /// Its value.
        batch_max: usize,
    },
    /// The HTTP client could not be built.
    #[error("the HTTP client could not be built")]
    Client {
        /// Why.
        #[source]
        source: reqwest::Error,
    },
}

/// A base URL that paths can be added to, without its last slash.
pub(super) fn base(field: &'static str, value: &str, plain_http: PlainHttp) -> Result<String, GraphError> {
    let refuse = || GraphError::Url { field, value: without_credentials(value) };
    let url: Url = value.parse().map_err(|_| refuse())?;
    let bare =
        url.query().is_none() && url.fragment().is_none() && url.username().is_empty() && url.password().is_none();
    if !bare || !url.has_host() || !matches!(url.scheme(), "http" | "https") {
        return Err(refuse());
    }
    if url.scheme() == "http" && plain_http == PlainHttp::Loopback && !is_loopback(value) {
        return Err(GraphError::PlainHttp { field, value: value.to_owned() });
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Whether `url` names this machine.
pub(super) fn is_loopback(url: &str) -> bool {
    let url = url.parse::<Url>().ok();
    url.as_ref().and_then(Url::host_str).is_some_and(|host| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}
