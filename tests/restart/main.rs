//! Nothing lost, nothing sent twice: a process that is killed at random instants under load, and started again over the
//! same file until everything has come to an end.
//!
//! The process is this test binary, told to run one ignored test: a scheduler over a `SqliteStore` that sends through the
//! Graph transport, over real HTTP, to an upstream in the parent. The parent believes two witnesses only: the lines that
//! the child printed before it died (what it was told is kept), and the upstream's log (what arrived). Children of
//! one run share the budget, so a restart that granted a fresh window would show in the log.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod child;
mod parent;
mod poison;

use std::time::Duration;

use mailweir::Config;
use mailweir::upstream::{Latency, LogNormal, Model, Refusals, UpstreamLimit};

/// The mailboxes, in turn. The first has half of everything, so that its own limit binds once the application's does not.
pub(crate) const MAILBOXES: [&str; 4] =
    ["news@contoso.example", "alerts@contoso.example", "news@contoso.example", "noreply@contoso.example"];
/// Long enough that a new process is up before the last one's window has passed.
const WINDOW: Duration = Duration::from_secs(2);
const MAILBOX_REQUESTS: u64 = 10;
const APPLICATION_REQUESTS: u64 = 25;

/// The id of an operation, which is its `Message-ID` at the upstream too.
pub(crate) fn id(number: u64) -> String {
    format!("<restart-{number}@contoso.example>")
}

/// What the upstream enforces.
pub(crate) fn limits() -> [UpstreamLimit; 2] {
    let application = UpstreamLimit::requests(APPLICATION_REQUESTS, WINDOW);
    [UpstreamLimit::requests(MAILBOX_REQUESTS, WINDOW), application.at_scope(mailweir::engine::ScopeKind::Application)]
}

/// The upstream: strict, and slow enough that a kill finds requests under way.
pub(crate) fn model() -> Model {
    let way = LogNormal::new(Duration::from_millis(5), mailweir::engine::Ratio::percent(50));
    let mut model = Model::new(limits());
    model.refusals = Refusals::Counted;
    model.latency = Latency {
        up: way,
        service: LogNormal::new(Duration::from_millis(60), mailweir::engine::Ratio::percent(50)),
        down: way,
        refusal: Duration::from_millis(5),
        longest: Duration::from_millis(500),
    };
    model
}

/// The same limits, as the scheduler is told.
pub(crate) fn config() -> Config {
    let seconds = WINDOW.as_secs();
    let limit = |amount: u64| format!("{amount} requests / {seconds}s").parse().expect("a limit");
    let mut config =
        Config::default().mailbox_limits([limit(MAILBOX_REQUESTS)]).application_limits([limit(APPLICATION_REQUESTS)]);
    config.mailbox.concurrency = std::num::NonZeroU32::new(3);
    // What was under way at a kill keeps its charge for as long as it could still arrive.
    config.retry.attempt_timeout = Duration::from_secs(1);
    config.guard.request_deadline_max = Duration::from_millis(1_200);
    config
}
