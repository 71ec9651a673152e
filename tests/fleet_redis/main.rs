//! Several processes, one Redis server, one mailbox: nothing lost, nothing sent twice, no window exceeded.
//!
//! Each process is this test binary, told to run one ignored test: a scheduler over a `RedisStore` that sends through the
//! Graph transport, over real HTTP, to an upstream in the parent. It does what the parent writes to it. The parent
//! believes the lines that a process printed, the upstream's log, and what it reads from the store itself.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod bench;
mod chaos;
mod child;
mod process;
#[path = "../redis_server/mod.rs"]
mod redis_server;
#[path = "../replay/mod.rs"]
mod replay;
mod runs;
#[cfg(feature = "redis-sentinel")]
mod sentinel;

use std::time::Duration;

use mailweir::Config;
use mailweir::engine::Ratio;
use mailweir::upstream::{Latency, LogNormal, Model, Refusals, UpstreamLimit};

pub(crate) const MAILBOX: &str = "news@contoso.example";
const WINDOW: Duration = Duration::from_secs(2);
pub(crate) const REQUESTS: u64 = 20;
pub(crate) const CONCURRENCY: u64 = 4;

/// The id of an operation, which is its `Message-ID` at the upstream too.
pub(crate) fn id(number: u64) -> String {
    format!("<fleet-{number}@contoso.example>")
}

/// What the upstream enforces.
pub(crate) fn limit() -> UpstreamLimit {
    UpstreamLimit::requests(REQUESTS, WINDOW)
}

/// The upstream: strict, and slow enough that a kill finds requests under way.
pub(crate) fn model() -> Model {
    let way = LogNormal::new(Duration::from_millis(5), Ratio::percent(50));
    let mut model = Model::new([limit()]);
    model.refusals = Refusals::Counted;
    model.latency = Latency {
        up: way,
        service: LogNormal::new(Duration::from_millis(60), Ratio::percent(50)),
        down: way,
        refusal: Duration::from_millis(5),
        longest: Duration::from_millis(500),
    };
    model
}

/// The same limit, as the schedulers are told, and leases about as short as a configuration file may name.
pub(crate) fn config() -> Config {
    let limit = format!("{REQUESTS} requests / {}s", WINDOW.as_secs()).parse().expect("a limit");
    let mut config = Config::default().mailbox_limits([limit]).application_limits([]);
    config.mailbox.concurrency = std::num::NonZeroU32::new(CONCURRENCY as u32);
    // What was under way at a kill keeps its charge for as long as it could still arrive.
    config.retry.attempt_timeout = Duration::from_secs(1);
    config.guard.request_deadline_max = Duration::from_millis(1_200);
    config.fleet.lease_ttl = Duration::from_secs(4);
    config.fleet.renew_every = Duration::from_secs(1);
    config.fleet.lease_margin = Duration::from_secs(1);
    config.fleet.adopt_every = Duration::from_secs(1);
    config.fleet.poll_every = Duration::from_secs(1);
    config.fleet.grace = Duration::from_secs(3);
    config
}
