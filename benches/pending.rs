//! A restart with a million pending operations, from the start of a process to its first send.
//!
//! The outbox is written by one process and opened by another, so that what is measured of memory is the restart's
//! alone. The second one is a program as any other: it opens the SQLite file, starts a scheduler over it with a
//! transport that takes everything at once, and sends. Then it is asked what a console asks. A third one defers nine in
//! ten of them, as a long outage does, and asks the store what may go.
//!
//! Run with `cargo bench --features sqlite --bench pending`. `MAILWEIR_BENCH_PENDING` sets another number of operations,
//! `MAILWEIR_BENCH_MAILBOXES` of mailboxes, `MAILWEIR_BENCH_FOLDER` another disk. Wanted: first send within 3 s, at most
//! 600 MB resident, 5 ms per question.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt, ready};
use mailweir::clock::{Clock, SystemClock};
use mailweir::engine::mailbox::Record;
use mailweir::engine::operation::Transition;
use mailweir::engine::{Cost, Lane, OperationKey, OperationState, Timestamp};
use mailweir::store::{Claim, NewOperation, OperationQuery, SqliteOptions, SqliteStore, Store};
use mailweir::transport::{Answer, Attempt, Transport, Verdict};
use mailweir::{Config, Email, Scheduler};
use tokio::sync::Notify;

/// Tells a process which part it has.
const PART: &str = "MAILWEIR_BENCH_PART";
const FILE: &str = "MAILWEIR_BENCH_FILE";

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn mailboxes() -> u64 {
    number("MAILWEIR_BENCH_MAILBOXES", 1_000).max(1)
}

fn mailbox(n: u64) -> Arc<str> {
    format!("news-{}@contoso.example", n % mailboxes()).into()
}

fn open(file: &Path) -> SqliteStore {
    SqliteStore::open_with(file, SqliteOptions::new().live_max(100_000_000)).expect("an outbox")
}

#[expect(clippy::disallowed_methods, reason = "a bench reads the clock")]
fn begin() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a bench reads the clock")]
fn since(begun: Instant) -> Duration {
    begun.elapsed()
}

/// Writes the outbox, as a process that is killed leaves it.
async fn fill(file: &Path) {
    let (store, count) = (open(file), number("MAILWEIR_BENCH_PENDING", 1_000_000));
    let now = SystemClock::new().now();
    let mime: Vec<u8> = b"Subject: bench\r\n\r\n".iter().copied().cycle().take(1_024).collect();
    let email = Email::from_mime("noreply@contoso.example", ["ann@fabrikam.example"], mime).expect("a valid email");
    let operation = |key: u64| NewOperation {
        key: OperationKey(key),
        id: format!("01890a5d-ac96-774b-bcce-{key:012x}").into(),
        fingerprint: key,
        mailbox: mailbox(key),
        lane: if key.is_multiple_of(10) { Lane::Foreground } else { Lane::Background },
        tenant: Some(format!("tenant-{}", key % 20).into()),
        campaign: Some("spring".into()),
        cost: Cost::email(1, 1_400),
        submitted_at: now,
        not_before: now,
        deadline: now.after(Duration::from_secs(86_400)),
        email: email.clone(),
        note: None,
    };
    for first in (1..=count).step_by(1_024) {
        let batch = (first..=count.min(first + 1_023)).map(operation).collect();
        store.insert(batch).await.expect("there is room");
    }
    // Not closed: the log is there, as after a kill.
    std::process::exit(0);
}

/// Takes everything, and counts it.
#[derive(Debug, Default)]
struct Sink {
    sent: Arc<(AtomicU64, Notify)>,
}

impl Transport for Sink {
    fn send(&self, _: Attempt) -> BoxFuture<'_, Answer> {
        self.sent.0.fetch_add(1, Ordering::Relaxed);
        self.sent.1.notify_one();
        ready(Verdict::Accepted.into()).boxed()
    }
}

/// Kilobytes of this process that `/proc` tells under `name`.
fn kilobytes(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kilobytes| kilobytes.parse().ok()).unwrap_or(0)
}

fn memory(when: &str) {
    println!("  resident {when}: {} MB, at most {} MB", kilobytes("VmRSS") / 1_024, kilobytes("VmHWM") / 1_024);
}

async fn reopen(file: &Path) {
    let begun = begin();
    let store = Arc::new(open(file));
    println!("opened after {:.2?}", since(begun));
    let (sink, mut config) = (Sink::default(), Config::default());
    // Nothing but the restart is measured: one email each minute and mailbox.
    config = config.mailbox_limits(["1 requests / 1m".parse().expect("a limit")]);
    let sent = Arc::clone(&sink.sent);
    let started = Scheduler::builder(config, sink).store(Arc::clone(&store)).start().await;
    let scheduler = started.expect("it starts");
    println!("started after {:.2?}", since(begun));
    reach(&sent, 1).await;
    println!("first send after {:.2?}", since(begun));
    memory("at the first send");
    // Each sends once, when it has been read.
    reach(&sent, mailboxes().min(number("MAILWEIR_BENCH_PENDING", 1_000_000))).await;
    println!("all mailboxes sent after {:.2?}", since(begun));
    memory("when all mailboxes are up");
    ask(&scheduler).await;
    memory("after the questions");
    drop(scheduler);
}

/// Nine in ten have had an attempt that failed: the older half of them goes on in an hour, the younger in twenty minutes.
async fn defer(file: &Path) {
    let (store, count) = (open(file), number("MAILWEIR_BENCH_PENDING", 1_000_000));
    let now = SystemClock::new().now();
    let (minutes, last) = (|n: u64| now.after(Duration::from_secs(60 * n)), count / 10 * 9);
    for first in (1..=last).step_by(1_024) {
        let keys = first..=last.min(first + 1_023);
        let cost = Cost::email(1, 1_400);
        let claims = keys.map(|key| Claim { key: OperationKey(key), attempt: 1, at: now, cost });
        let claims: Vec<Claim> = claims.collect();
        let claimed = store.claim(claims.clone()).await.expect("there is room");
        let claimed = claims.iter().zip(claimed).filter(|(_, email)| email.is_some());
        let record = |key: OperationKey| Record {
            key,
            transition: Transition::Retry,
            state: OperationState::Deferred,
            at: now,
            next_at: Some(minutes(if key.0 <= last / 2 { 60 } else { 20 })),
            attempts: 1,
            status: Some(503),
            provider_id: None,
            maybe_sent: false,
            leaves: mailweir::engine::Leaves::All,
            order: None,
        };
        store.record(claimed.map(|(claim, _)| record(claim.key)).collect()).await.expect("there is room");
    }
    println!("deferred: {}", store.counts().await.expect("it is whole")[OperationState::Deferred as usize]);
    for (when, instant) in [("now", now), ("in half an hour", minutes(30)), ("in two hours", minutes(120))] {
        ask_what_may_go(&store, when, instant).await;
    }
    store.close().await.expect("it was open");
}

async fn ask_what_may_go(store: &SqliteStore, when: &str, instant: Timestamp) {
    let query = OperationQuery { eligible_at: Some(instant), limit: 100, ..OperationQuery::default() };
    let (mailbox, tenant, campaign) = (Some(mailbox(3)), Some(Arc::from("tenant-3")), Some(Arc::from("spring")));
    let state = Some(OperationState::Deferred);
    for (name, query) in [
        ("", query.clone()),
        (" in a lane", OperationQuery { lane: Some(Lane::Foreground), ..query.clone() }),
        (" of a mailbox", OperationQuery { mailbox: mailbox.clone(), ..query.clone() }),
        (" of a tenant", OperationQuery { tenant: tenant.clone(), ..query.clone() }),
        (" of a campaign", OperationQuery { campaign: campaign.clone(), ..query.clone() }),
        (" of a campaign in a mailbox", OperationQuery { campaign, mailbox: mailbox.clone(), ..query.clone() }),
        (" and are deferred", OperationQuery { state, ..query.clone() }),
        (" and are deferred, of a mailbox", OperationQuery { state, mailbox, ..query.clone() }),
        (" and are deferred, of a tenant", OperationQuery { state, tenant, ..query }),
    ] {
        let (mut took, mut answered) = (Vec::new(), 0);
        for _ in 0..21 {
            let begun = begin();
            answered = black_box(store.operations(query.clone()).await.expect("it is whole")).len();
            took.push(since(begun));
        }
        tell(&format!("{answered} that may go {when}{name}"), took);
    }
}

/// Waits until so many were sent.
async fn reach(sent: &(AtomicU64, Notify), count: u64) {
    while sent.0.load(Ordering::Relaxed) < count {
        sent.1.notified().await;
    }
}

async fn ask(scheduler: &Scheduler) {
    let handle = scheduler.handle();
    let (mailbox, tenant) = (Some(mailbox(3)), Some(Arc::from("tenant-3")));
    let query = OperationQuery { limit: 100, ..OperationQuery::default() };
    let state = Some(OperationState::Queued);
    let queries = [
        ("by state", OperationQuery { state, ..query.clone() }),
        ("by state and lane", OperationQuery { state, lane: Some(Lane::Foreground), ..query.clone() }),
        ("by mailbox", OperationQuery { mailbox: mailbox.clone(), ..query.clone() }),
        ("by mailbox and state", OperationQuery { mailbox, state, ..query.clone() }),
        ("by tenant", OperationQuery { tenant: tenant.clone(), ..query.clone() }),
        ("by tenant and state", OperationQuery { tenant, state, ..query.clone() }),
        ("of a state that none is in", OperationQuery { state: Some(OperationState::Rejected), ..query.clone() }),
        ("of all", query),
    ];
    for (name, query) in queries {
        let mut took = Vec::new();
        for _ in 0..21 {
            let begun = begin();
            black_box(handle.operations(query.clone()).await.expect("it is whole"));
            took.push(since(begun));
        }
        tell(&format!("100 {name}"), took);
    }
    let mut took = Vec::new();
    for _ in 0..21 {
        let begun = begin();
        black_box(handle.counts().await.expect("it is whole"));
        took.push(since(begun));
    }
    tell("counts", took);
    let mut took = Vec::new();
    for key in (7..2_100_u64).step_by(100) {
        let begun = begin();
        black_box(handle.operation(&format!("01890a5d-ac96-774b-bcce-{key:012x}")).await.expect("it is whole"));
        took.push(since(begun));
    }
    tell("one by id", took);
}

/// The first answer is of cold pages, those after it of warm ones.
fn tell(name: &str, mut took: Vec<Duration>) {
    let first = took[0];
    took.sort_unstable();
    let part = |percent: usize| took[(took.len() - 1) * percent / 100];
    println!(
        "{name}: first {first:.2?}, median {:.2?}, 95 in 100 within {:.2?}, longest {:.2?}",
        part(50),
        part(95),
        part(100)
    );
}

/// This binary again, in another part.
fn part(name: &str, file: &Path) {
    let this = std::env::current_exe().expect("this binary");
    let status = Command::new(this).env(PART, name).env(FILE, file).status().expect("it starts");
    assert!(status.success(), "{name}: {status}");
}

fn main() {
    // `cargo test --benches` only wants to see it start.
    let is_test = std::env::args().any(|argument| argument == "--test");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let file = std::env::var_os(FILE).map(PathBuf::from);
    match (std::env::var(PART).ok().as_deref(), file) {
        (Some("fill"), Some(file)) => runtime.block_on(fill(&file)),
        (Some("reopen"), Some(file)) => runtime.block_on(reopen(&file)),
        (Some("defer"), Some(file)) => runtime.block_on(defer(&file)),
        _ if is_test => {}
        _ => {
            let folder = std::env::var_os("MAILWEIR_BENCH_FOLDER").map_or_else(std::env::temp_dir, Into::into);
            let folder = tempfile::tempdir_in(folder).expect("a scratch folder");
            let file = folder.path().join("pending.db");
            part("fill", &file);
            part("reopen", &file);
            part("defer", &file);
        }
    }
}
