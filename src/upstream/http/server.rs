//! The server: its routes, its start and its end.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::engine::Timestamp;
use crate::upstream::random::Random;
use crate::upstream::{Arrival, Upstream};

use super::answer::{Meta, Reply};
use super::batch;
use super::drafts;
use super::send::{Outcome, Purpose, Sending, Shared, lock, send};
use super::sent_items::{SentItems, filtered_id};
use super::socket::{BoundedListener, Scissors};
use super::text::form_value;
use super::token::{Bearer, Tokens};

/// How long [`UpstreamServer::shutdown`] waits for connections to end.
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

/// How the server is set up. Start from the default and set what matters.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The application's id; any other is refused.
    pub client_id: String,
    /// Its secret; any other is refused.
    pub client_secret: String,
    /// How long a token lasts. Default: an hour.
    pub token_lifetime: Duration,
    /// How long after its acceptance an email appears in Sent Items. Default: 2 s.
    pub sent_items_lag: Duration,
    /// Largest body, in bytes; above it the answer is 413. Default: 4 MB, as at Graph.
    pub body_bytes_max: usize,
    /// Most connections at once; the rest wait. Default: 1,024.
    pub connections_max: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            client_id: "mailweir".to_owned(),
            client_secret: "upstream-secret".to_owned(),
            token_lifetime: Duration::from_secs(3_600),
            sent_items_lag: Duration::from_secs(2),
            body_bytes_max: 4_000_000,
            connections_max: 1_024,
        }
    }
}

/// Leaves the secret out: somebody may point this at a real application's.
impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

/// An [`Upstream`] that listens on a port of the loopback address.
///
/// Dropping it closes the port and lets its connections end by themselves; [`UpstreamServer::shutdown`] waits for
/// them.
pub struct UpstreamServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: Option<JoinHandle<io::Result<()>>>,
}

impl fmt::Debug for UpstreamServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl UpstreamServer {
    /// Starts on a free port, in the current tokio runtime. `clock` gives the instants of arrivals and dates.
    ///
    /// # Errors
    /// No port can be bound.
    ///
    /// # Cancel safety
    /// Dropped before it returns, nothing was started.
    pub async fn start(upstream: Upstream, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> io::Result<Self> {
        Self::start_with(upstream, clock, ServerOptions::default()).await
    }

    /// The same with other options.
    ///
    /// # Errors
    /// No port can be bound.
    ///
    /// # Cancel safety
    /// Dropped before it returns, nothing was started.
    pub async fn start_with(
        upstream: Upstream,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        options: ServerOptions,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        // Another port or instant, other tokens and request ids: two servers of one test never accept each other's.
        let seed = clock().as_micros() ^ u64::from(address.port());
        let listener = BoundedListener::new(listener, options.connections_max);
        let shared = Arc::new(Shared {
            upstream: Arc::new(Mutex::new(upstream)),
            clock: Box::new(clock),
            options,
            tokens: Mutex::new(Tokens::new(Random::stream(seed, 1))),
            sent_items: Mutex::new(SentItems::default()),
            drafts: Mutex::default(),
            random: Mutex::new(Random::stream(seed, 2)),
            closing: CancellationToken::new(),
            under_way: TaskTracker::new(),
        });
        let service = router(Arc::clone(&shared)).into_make_service_with_connect_info::<Scissors>();
        let closing = shared.closing.clone().cancelled_owned();
        let serving = tokio::spawn(async { axum::serve(listener, service).with_graceful_shutdown(closing).await });
        Ok(Self { address, shared, serving: Some(serving) })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL: of `/v1.0` as of the token endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What arrived so far, oldest first.
    #[must_use]
    pub fn log(&self) -> Vec<Arrival> {
        lock(&self.shared.upstream).log().iter().cloned().collect()
    }

    /// The model behind it, for burning budget or reading its log in place. Do not hold the lock across a wait.
    #[must_use]
    pub fn upstream(&self) -> Arc<Mutex<Upstream>> {
        Arc::clone(&self.shared.upstream)
    }

    /// Closes the port, answers what is under way without further latency, closes connections that wait for a lost
    /// answer, and waits up to 5 s for all of that.
    ///
    /// # Cancel safety
    /// Dropped before it returns, the server still ends, unwatched.
    pub async fn shutdown(mut self) {
        self.shared.closing.cancel();
        self.shared.under_way.close();
        let Some(mut serving) = self.serving.take() else {
            return;
        };
        let ended = tokio::time::timeout(SHUTDOWN_MAX, async {
            let _ = (&mut serving).await;
            self.shared.under_way.wait().await;
        });
        if ended.await.is_err() {
            serving.abort();
        }
    }
}

impl Drop for UpstreamServer {
    fn drop(&mut self) {
        self.shared.closing.cancel();
    }
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/{tenant}/oauth2/v2.0/token", post(token))
        .route("/v1.0/users/{mailbox}/sendMail", post(send_mail))
        .route("/v1.0/users/{mailbox}/messages", post(drafts::create))
        .route("/v1.0/users/{mailbox}/messages/{id}", get(drafts::get))
        .route("/v1.0/users/{mailbox}/messages/{id}/send", post(drafts::send))
        .route("/v1.0/users/{mailbox}/mailFolders/{folder}/messages", get(messages))
        .route("/v1.0/$batch", post(send_batch))
        .fallback(unknown)
        .with_state(shared)
}

/// What is known of a request before its body is read.
pub(super) struct Front {
    pub(super) meta: Meta,
    pub(super) now: Timestamp,
    tenant: Arc<str>,
}

pub(super) fn front(shared: &Shared, headers: &HeaderMap) -> Result<Front, Box<Response>> {
    let meta = shared.meta(field(headers, "client-request-id"));
    let now = (shared.clock)();
    let message = match lock(&shared.tokens).bearer(field(headers, "authorization").as_deref(), now) {
        Bearer::Tenant(tenant) => return Ok(Front { meta, now, tenant }),
        Bearer::Expired => "Lifetime validation failed, the token is expired.",
        Bearer::Unknown => "Access token is empty or not known.",
    };
    let mut reply = Reply::error(401, "InvalidAuthenticationToken", message, &meta);
    reply.headers.push(("www-authenticate", "Bearer realm=\"\", error=\"invalid_token\"".to_owned()));
    Err(Box::new(reply.response(&meta, now)))
}

async fn read_body(shared: &Shared, front: &Front, body: Body) -> Result<Vec<u8>, Box<Response>> {
    match to_bytes(body, shared.options.body_bytes_max).await {
        Ok(bytes) => Ok(bytes.into()),
        Err(_) => {
            let message = "The maximum request length supported is exceeded.";
            let reply = Reply::error(413, "ErrorMessageSizeExceeded", message, &front.meta);
            Err(Box::new(reply.response(&front.meta, front.now)))
        }
    }
}

fn field(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

async fn send_mail(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(scissors): ConnectInfo<Scissors>,
    Path(mailbox): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    submitted(shared, scissors, (mailbox, Purpose::SendMail), headers, body).await
}

/// Reads a request, has it done, and answers or breaks the connection.
pub(super) async fn submitted(
    shared: Arc<Shared>,
    scissors: Scissors,
    (mailbox, purpose): (String, Purpose),
    headers: HeaderMap,
    body: Body,
) -> Response {
    let read = async {
        let front = front(&shared, &headers)?;
        let body = read_body(&shared, &front, body).await?;
        Ok::<_, Box<Response>>((front, body))
    };
    let (front, body) = match read.await {
        Ok(read) => read,
        Err(response) => return *response,
    };
    let sending = Sending {
        purpose,
        mailbox,
        tenant: front.tenant,
        content_type: field(&headers, "content-type").unwrap_or_default(),
        body,
        lane: batch::lane(field(&headers, "x-ms-throttle-priority").as_deref()),
        meta: front.meta.clone(),
    };
    let sent = detached(&shared, send(Arc::clone(&shared), sending)).await;
    match sent {
        Some(Outcome::Reply(reply, at)) => reply.response(&front.meta, at),
        Some(Outcome::Silence) => {
            shared.closing.cancelled().await;
            cut(&scissors)
        }
        Some(Outcome::Cut) | None => cut(&scissors),
    }
}

/// Runs `work` to its end even if the client hangs up meanwhile: what it sent has arrived. `None`: it panicked.
async fn detached<T: Send + 'static>(shared: &Shared, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
    shared.under_way.spawn(work).await.ok()
}

fn cut(scissors: &Scissors) -> Response {
    scissors.cut();
    Response::new(Body::empty())
}

async fn send_batch(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Body) -> Response {
    let front = match front(&shared, &headers) {
        Ok(front) => front,
        Err(response) => return *response,
    };
    let body = match read_body(&shared, &front, body).await {
        Ok(body) => body,
        Err(response) => return *response,
    };
    let run = batch::run(Arc::clone(&shared), body, Arc::clone(&front.tenant), front.meta.clone());
    let reply = detached(&shared, run).await;
    reply
        .unwrap_or_else(|| Reply::error(500, "generalException", "The request could not be processed.", &front.meta))
        .response(&front.meta, (shared.clock)())
}

async fn messages(
    State(shared): State<Arc<Shared>>,
    Path((mailbox, folder)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let front = match front(&shared, &headers) {
        Ok(front) => front,
        Err(response) => return *response,
    };
    let filter = query.as_deref().and_then(|query| form_value(query, "$filter"));
    let reply = match filter.as_deref().and_then(filtered_id) {
        Some(id) if folder.eq_ignore_ascii_case("drafts") => {
            Reply::new(200, Some(json!({"value": lock(&shared.drafts).find(&mailbox, &id)})))
        }
        _ if !["sentitems", "drafts"].iter().any(|known| folder.eq_ignore_ascii_case(known)) => {
            Reply::error(404, "ErrorItemNotFound", "The specified folder was not found.", &front.meta)
        }
        None => {
            let message = "Only $filter=internetMessageId eq '...' is known.";
            Reply::error(400, "ErrorInvalidUrlQueryFilter", message, &front.meta)
        }
        Some(id) => {
            let found = lock(&shared.sent_items).find(&mailbox, &id, front.now);
            let items = found.iter().map(|copy| json!({"id": copy.number.to_string(), "internetMessageId": id}));
            Reply::new(200, Some(json!({"value": items.collect::<Vec<Value>>()})))
        }
    };
    reply.response(&front.meta, front.now)
}

async fn token(
    State(shared): State<Arc<Shared>>,
    Path(tenant): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let (meta, now) = (shared.meta(field(&headers, "client-request-id")), (shared.clock)());
    let form = to_bytes(body, 65_536).await.unwrap_or_default();
    let form = String::from_utf8_lossy(&form).into_owned();
    let (value, options) = (|name| form_value(&form, name), &shared.options);
    let reply = if value("grant_type").as_deref() != Some("client_credentials") {
        oauth_error(400, "unsupported_grant_type", "Only client_credentials is supported.", &meta)
    } else if value("client_id").as_ref() != Some(&options.client_id) {
        oauth_error(400, "unauthorized_client", "The application was not found in the directory.", &meta)
    } else if value("client_secret").as_ref() != Some(&options.client_secret) {
        oauth_error(401, "invalid_client", "Invalid client secret provided.", &meta)
    } else {
        let token = lock(&shared.tokens).issue(&tenant, now.after(options.token_lifetime));
        let seconds = options.token_lifetime.as_secs();
        Reply::new(200, Some(json!({"token_type": "Bearer", "expires_in": seconds, "access_token": token})))
    };
    reply.response(&meta, now)
}

fn oauth_error(status: u16, error: &str, description: &str, meta: &Meta) -> Reply {
    let body = json!({"error": error, "error_description": description, "trace_id": meta.request_id});
    Reply::new(status, Some(body))
}

async fn unknown(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let meta = shared.meta(field(&headers, "client-request-id"));
    Reply::error(404, "ResourceNotFound", "This upstream has no such resource.", &meta)
        .response(&meta, (shared.clock)())
}
