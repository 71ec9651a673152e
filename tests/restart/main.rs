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

use std::num::NonZeroU32;
use std::time::Duration;

use mailweir::Config;
use mailweir::engine::policy::DuplicatePolicy;
use mailweir::upstream::{Latency, LogNormal, Model, Refusals, UpstreamLimit};

/// The mailboxes, in turn. The first has half of everything, so that its own limit binds once the application's does not.
pub(crate) const MAILBOXES: [&str; 4] =
    ["news@contoso.example", "alerts@contoso.example", "news@contoso.example", "noreply@contoso.example"];
/// Long enough that a new process is up before the last one's window has passed; and one that outlasts many processes.
const WINDOWS: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];
const MAILBOX_REQUESTS: [u64; 2] = [10, 24];
const APPLICATION_REQUESTS: [u64; 2] = [25, 50];

/// What becomes of an unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It stays unknown.
    AtMostOnce,
    /// Somebody says without a look that it is not there, and it is sent again.
    AtLeastOnce,
}

/// The id of an operation, which is its `Message-ID` at the upstream too.
pub(crate) fn id(number: u64) -> String {
    format!("<restart-{number}@contoso.example>")
}

/// The operation with an id.
pub(crate) fn number(id: &str) -> u64 {
    id.trim_start_matches("<restart-").trim_end_matches("@contoso.example>").parse().expect("one of ours")
}

/// What the upstream enforces.
pub(crate) fn limits() -> [UpstreamLimit; 4] {
    let mailbox = |place: usize| UpstreamLimit::requests(MAILBOX_REQUESTS[place], WINDOWS[place]);
    let application = |place: usize| UpstreamLimit::requests(APPLICATION_REQUESTS[place], WINDOWS[place]);
    let application = |place| application(place).at_scope(mailweir::engine::ScopeKind::Application);
    [mailbox(0), application(0), mailbox(1), application(1)]
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
pub(crate) fn config(mode: Mode) -> Config {
    let limit = |amounts: [u64; 2], place: usize| {
        format!("{} requests / {}s", amounts[place], WINDOWS[place].as_secs()).parse().expect("a limit")
    };
    let limits = |amounts| [limit(amounts, 0), limit(amounts, 1)];
    let mut config =
        Config::default().mailbox_limits(limits(MAILBOX_REQUESTS)).application_limits(limits(APPLICATION_REQUESTS));
    if mode == Mode::AtLeastOnce {
        config.retry.duplicates = DuplicatePolicy::AtLeastOnce;
        config.retry.backoff = Duration::from_millis(100);
        // Every process here dies, and no mail is to blame.
        config.retry.crashes_max = NonZeroU32::new(1_000).expect("not zero");
    }
    config.mailbox.concurrency = NonZeroU32::new(3);
    // What was under way at a kill keeps its charge for as long as it could still arrive.
    config.retry.attempt_timeout = Duration::from_secs(1);
    config.guard.request_deadline_max = Duration::from_millis(1_200);
    config
}
