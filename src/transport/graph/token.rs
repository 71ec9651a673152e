//! Access tokens: one request for many senders, renewed before they expire.
//!
//! A hundred sends that find no token must not ask for a hundred: one fetches, the others wait for it and share what
//! came, a failure included. After a failure the authority is left alone for a while, so that a wrong secret or an
//! outage there is not hammered at the rate of the queue. Within the last fifth of a token's life one send renews it,
//! for a moment at most, and the others go on with the old one.
//!
//! Nothing is spawned: whoever fetches does so in its own attempt. The failure is written down before the wait, so an
//! attempt that ends while the authority hangs leaves the pause behind, and the next one does not hang in its turn.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures::future::BoxFuture;
use http::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::options::{Credentials, GraphError, PlainHttp, base};
use super::wire::bounded;
use crate::clock::Clock;
use crate::engine::Timestamp;
use crate::signals::wait_hint;

/// Longest a token request may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The same while the old token is still good: nobody has to wait for the new one. Far above what the authority takes.
const TIMEOUT_EARLY: Duration = Duration::from_secs(2);
/// Longest a token is believed, whatever it says; Entra's live an hour or a day.
pub(super) const LIFETIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// What RFC 6749 (5.1) leaves open: an answer without `expires_in`.
const LIFETIME_UNSAID: Duration = Duration::from_secs(300);
/// First pause after a failure; doubles up to the next bound.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Longest token that is taken; Entra's have two to five kilobytes.
const TOKEN_BYTES_MAX: usize = 32 * 1024;

/// An access token. Never prints.
#[derive(Clone)]
pub struct Token {
    secret: Arc<SecretString>,
    serial: u64,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("serial", &self.serial).finish_non_exhaustive()
    }
}

impl Token {
    /// A token; `serial` tells it from the one before, so that a refused token is renewed once and not once per send.
    pub fn new(secret: impl Into<String>, serial: u64) -> Self {
        Self { secret: Arc::new(SecretString::from(secret.into())), serial }
    }

    pub(super) fn expose(&self) -> &str {
        self.secret.expose_secret()
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        self.serial == other.serial
    }
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The authority refused the credentials, in its own words (RFC 6749, 5.2): a person has to mend them.
    #[error("the authority answered {status} `{code}`: check tenant id, client id, secret and their expiry")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Its error code, such as `invalid_client`.
        code: String,
        /// Its id of the request, for support cases.
        correlation_id: Option<String>,
    },
    /// The authority is out of reach or busy, or somebody else answered in its place; the same request may work later.
    #[error("the authority is not available ({reason})")]
    Unavailable {
        /// HTTP status, if it answered.
        status: Option<u16>,
        /// What went wrong.
        reason: String,
        /// How long it asked to be left alone.
        retry_after: Option<Duration>,
    },
}

impl TokenError {
    /// Whether the same request may work later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}

/// Where access tokens come from.
pub trait TokenSource: fmt::Debug + Send + Sync + 'static {
    /// A token that is valid now; never `refused`, which Graph answered 401 to.
    ///
    /// # Cancel safety
    /// May be dropped at any time; later calls start anew, [`ClientCredentials`] after its pause.
    fn token<'a>(&'a self, refused: Option<&'a Token>) -> BoxFuture<'a, Result<Token, TokenError>>;
}

/// Tokens by the client-credentials grant (RFC 6749, 4.4).
#[derive(Debug)]
pub struct ClientCredentials {
    http: reqwest::Client,
    url: String,
    credentials: Credentials,
    clock: Arc<dyn Clock>,
    cached: ArcSwapOption<Cached>,
    flight: tokio::sync::Mutex<Flight>,
    serial: AtomicU64,
}

#[derive(Debug)]
struct Cached {
    token: Token,
    refresh_at: Timestamp,
    expires_at: Timestamp,
}

/// What the last fetch left behind; held by whoever fetches.
#[derive(Debug, Default)]
struct Flight {
    failed: Option<TokenError>,
    failures: u32,
    retry_at: Timestamp,
}

impl Flight {
    /// Writes a failure down, the one after `failures` others.
    fn fail(&mut self, failures: u32, now: Timestamp, error: TokenError) {
        let pause = (PAUSE_MIN * (1 << failures.min(6))).min(PAUSE_MAX);
        let asked = match &error {
            TokenError::Unavailable { retry_after, .. } => retry_after.unwrap_or_default(),
            TokenError::Refused { .. } => PAUSE_MAX,
        };
        self.failures = failures.saturating_add(1);
        self.retry_at = now.after(pause.max(asked));
        self.failed = Some(error);
    }
}

fn unanswered(reason: &str) -> TokenError {
    TokenError::Unavailable { status: None, reason: reason.to_owned(), retry_after: None }
}

impl ClientCredentials {
    pub(super) fn new(
        http: reqwest::Client,
        credentials: Credentials,
        plain_http: PlainHttp,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, GraphError> {
        let authority = base("authority", &credentials.authority, plain_http)?;
        let tenant = credentials.tenant_id.as_str();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        if tenant.is_empty() || tenant.starts_with('.') || !tenant.chars().all(plain) {
            return Err(GraphError::TenantId);
        }
        let url = format!("{authority}/{tenant}/oauth2/v2.0/token");
        let (cached, flight) = (ArcSwapOption::empty(), tokio::sync::Mutex::default());
        Ok(Self { http, url, credentials, clock, cached, flight, serial: AtomicU64::new(0) })
    }

    async fn obtain(&self, refused: Option<&Token>) -> Result<Token, TokenError> {
        match self.usable(refused) {
            Some(cached) if self.clock.now() < cached.refresh_at => Ok(cached.token.clone()),
            Some(cached) => {
                // Still good: one renews, the others go on, and so does that one if it fails.
                let Ok(mut flight) = self.flight.try_lock() else { return Ok(cached.token.clone()) };
                Ok(self.renew(&mut flight, TIMEOUT_EARLY).await.unwrap_or_else(|_| cached.token.clone()))
            }
            None => {
                let mut flight = self.flight.lock().await;
                match self.usable(refused) {
                    Some(cached) => Ok(cached.token.clone()),
                    None => self.renew(&mut flight, TIMEOUT).await,
                }
            }
        }
    }

    fn usable(&self, refused: Option<&Token>) -> Option<Arc<Cached>> {
        let now = self.clock.now();
        self.cached
            .load_full()
            .filter(|cached| now < cached.expires_at && !refused.is_some_and(|refused| cached.token.is(refused)))
    }

    async fn renew(&self, flight: &mut Flight, timeout: Duration) -> Result<Token, TokenError> {
        let now = self.clock.now();
        if let Some(failed) = flight.failed.clone().filter(|_| now < flight.retry_at) {
            return Err(paused(failed, flight.retry_at.since(now)));
        }
        // Whoever gives up during the fetch does not come back to say so.
        let failures = flight.failures;
        flight.fail(failures, now, unanswered("did not answer in time"));
        match self.fetch(timeout).await {
            Ok((secret, lifetime)) => {
                *flight = Flight::default();
                let token = Token::new(secret, self.serial.fetch_add(1, Ordering::Relaxed));
                // Counted from before the request left, so never longer than the authority meant.
                let (refresh_at, expires_at) = (now.after(lifetime * 4 / 5), now.after(lifetime));
                self.cached.store(Some(Arc::new(Cached { token: token.clone(), refresh_at, expires_at })));
                Ok(token)
            }
            Err(error) => {
                flight.fail(failures, self.clock.now(), error.clone());
                Err(error)
            }
        }
    }

    async fn fetch(&self, timeout: Duration) -> Result<(String, Duration), TokenError> {
        let form = [
            ("grant_type", "client_credentials"),
            ("client_id", &self.credentials.client_id),
            ("client_secret", self.credentials.client_secret.expose_secret()),
            ("scope", &self.credentials.scope),
        ];
        let lost =
            |error: reqwest::Error| unanswered(if error.is_timeout() { "timed out" } else { "could not be reached" });
        let mut response = self.http.post(&self.url).form(&form).timeout(timeout).send().await.map_err(lost)?;
        let body = bounded(&mut response, TOKEN_BYTES_MAX * 2).await;
        let (status, hint) = (response.status(), wait_hint(response.headers()));
        if status == StatusCode::OK { granted(&body) } else { Err(refused(status, hint, &body)) }
    }
}

impl TokenSource for ClientCredentials {
    fn token<'a>(&'a self, refused: Option<&'a Token>) -> BoxFuture<'a, Result<Token, TokenError>> {
        Box::pin(self.obtain(refused))
    }
}

/// The same failure, with what is left of the pause as its hint.
fn paused(mut failed: TokenError, left: Duration) -> TokenError {
    if let TokenError::Unavailable { retry_after, .. } = &mut failed {
        *retry_after = Some(left);
    }
    failed
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    token_type: String,
    #[serde(default)]
    expires_in: Option<Seconds>,
}

/// A number; older endpoints write it as a string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Seconds {
    Number(u64),
    Text(String),
}

pub(super) fn granted(body: &[u8]) -> Result<(String, Duration), TokenError> {
    let unusable = |reason: &str| TokenError::Unavailable {
        status: Some(StatusCode::OK.as_u16()),
        reason: format!("its answer is no token: {reason}"),
        retry_after: None,
    };
    let granted: Granted = serde_json::from_slice(body).map_err(|_| unusable("not the expected JSON"))?;
    let token = granted.access_token;
    if !granted.token_type.eq_ignore_ascii_case("bearer") {
        return Err(unusable("not a bearer token"));
    }
    if token.is_empty() || token.len() > TOKEN_BYTES_MAX || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(unusable("empty, too long or not printable"));
    }
    let seconds = match granted.expires_in {
        None => None,
        Some(Seconds::Number(seconds)) => Some(seconds),
        Some(Seconds::Text(text)) => Some(text.trim().parse().map_err(|_| unusable("a lifetime that is no number"))?),
    };
    if seconds == Some(0) {
        return Err(unusable("it has expired already (`expires_in` is 0)"));
    }
    Ok((token, seconds.map_or(LIFETIME_UNSAID, Duration::from_secs).min(LIFETIME_MAX)))
}

#[derive(Default, Deserialize)]
struct RefusedBody {
    #[serde(default)]
    error: String,
    #[serde(default)]
    correlation_id: Option<String>,
}

pub(super) fn refused(status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> TokenError {
    let body: RefusedBody = serde_json::from_slice(body).unwrap_or_default();
    let word =
        |text: &String| text.len() <= 64 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    let code = Some(body.error).filter(word).unwrap_or_default();
    // The authority names an error (RFC 6749, 5.2). An answer without one is from a proxy on the way, and says nothing
    // about the credentials.
    let named = !code.is_empty();
    let busy = matches!(code.as_str(), "temporarily_unavailable" | "server_error");
    if busy || !named || !status.is_client_error() || matches!(status.as_u16(), 408 | 429) {
        return TokenError::Unavailable {
            status: Some(status.as_u16()),
            reason: format!("it answered {status}{}", if named { "" } else { " and named no OAuth error" }),
            retry_after,
        };
    }
    TokenError::Refused { status: status.as_u16(), code, correlation_id: body.correlation_id.filter(word) }
}
