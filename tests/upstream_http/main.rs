//! The upstream over real sockets: each endpoint and each fault as a Graph client meets them. The clock is a number
//! that the test moves, so nothing here waits for a window.
#![cfg(all(feature = "upstream", feature = "graph"))]

mod batch;
mod drafts;
mod faults;
mod sends;
mod tokens;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use mailweir::engine::Timestamp;
use mailweir::upstream::http::{ServerOptions, UpstreamServer};
use mailweir::upstream::{Latency, LogNormal, Model, Upstream, UpstreamLimit};
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
const START_S: u64 = 1_700_000_000;

/// A server, a client with a token, and the clock between them.
pub(crate) struct World {
    pub(crate) server: UpstreamServer,
    pub(crate) client: Client,
    pub(crate) token: String,
    now: Arc<AtomicU64>,
}

impl World {
    pub(crate) async fn new(model: Model) -> Self {
        Self::with(model, ServerOptions::default()).await
    }

    pub(crate) async fn with(mut model: Model, options: ServerOptions) -> Self {
        if model.latency == Latency::default() {
            model.latency = Latency::ZERO;
        }
        let now = Arc::new(AtomicU64::new(START_S * 1_000_000));
        let clock = Arc::clone(&now);
        let read = move || Timestamp::from_micros(clock.load(Ordering::Relaxed));
        let server = UpstreamServer::start_with(Upstream::new(model, 1), read, options).await.expect("a free port");
        let client = Client::builder().no_proxy().build().expect("client");
        let mut world = Self { server, client, token: String::new(), now };
        let answer =
            world.token_request("client_credentials", "mailweir", "upstream-secret").send().await.expect("token");
        world.token = body(answer).await["access_token"].as_str().expect("a token").to_owned();
        world
    }

    /// Moves the clock.
    pub(crate) fn advance(&self, span: Duration) {
        let micros = u64::try_from(span.as_micros()).expect("a short span");
        self.now.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn token_request(&self, grant: &str, id: &str, secret: &str) -> RequestBuilder {
        let form = [("grant_type", grant), ("client_id", id), ("client_secret", secret), ("scope", "x/.default")];
        self.client.post(format!("{}/contoso/oauth2/v2.0/token", self.server.url())).form(&form)
    }

    pub(crate) fn post(&self, path: &str) -> RequestBuilder {
        self.client.post(format!("{}/v1.0/{path}", self.server.url())).bearer_auth(&self.token)
    }

    /// A send of JSON from `a@x.example` to one recipient.
    pub(crate) fn send(&self, id: &str) -> RequestBuilder {
        self.post("users/a@x.example/sendMail").json(&email(id))
    }

    pub(crate) fn mime(&self, mime: &str) -> RequestBuilder {
        let encoded = base64::engine::general_purpose::STANDARD.encode(mime);
        self.post("users/a@x.example/sendMail").header("content-type", "text/plain").body(encoded)
    }

    /// How many copies Sent Items shows.
    pub(crate) async fn copies(&self, id: &str) -> usize {
        let url = format!("{}/v1.0/users/a@x.example/mailFolders/SentItems/messages", self.server.url());
        let filter = format!("internetMessageId eq '{}'", id.replace('\'', "''"));
        let query = format!("{url}?$filter={}", filter.replace(' ', "%20").replace('<', "%3C").replace('>', "%3E"));
        let answer = self.client.get(query).bearer_auth(&self.token).send().await.expect("an answer");
        body(answer).await["value"].as_array().expect("a list").len()
    }

    /// Statuses of the log.
    pub(crate) fn logged(&self) -> Vec<u16> {
        self.server.log().iter().map(|arrival| arrival.status).collect()
    }
}

pub(crate) fn email(id: &str) -> Value {
    json!({"message": {"subject": "s", "internetMessageId": id, "body": {"contentType": "Text", "content": "t"},
        "toRecipients": [{"emailAddress": {"address": "b@y.example"}}]}, "saveToSentItems": true})
}

pub(crate) fn per_minute(requests: u64) -> Model {
    Model::new([UpstreamLimit::requests(requests, MINUTE)])
}

/// A service that takes the given time, nothing else does.
pub(crate) fn slow(model: &mut Model, service: Duration) {
    let service = LogNormal::new(service, mailweir::engine::Ratio::ZERO);
    model.latency = Latency { service, longest: Duration::from_secs(600), ..Latency::ZERO };
}

pub(crate) async fn body(answer: Response) -> Value {
    serde_json::from_str(&answer.text().await.expect("a body")).expect("JSON")
}

pub(crate) fn header(answer: &Response, name: &str) -> Option<String> {
    answer.headers().get(name).map(|value| value.to_str().expect("ASCII").to_owned())
}

/// Lets the server run until `done`.
pub(crate) async fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}
