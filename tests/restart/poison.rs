//! A mail that kills its process: after three of them it is set aside, and everything else is sent.
//!
//! The process is this test binary again, with a transport of its own that aborts on one operation, as a library does that
//! runs out of memory or ends the process by itself. No test can catch it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use mailweir::config::OnPanic;
use mailweir::engine::policy::DuplicatePolicy;
use mailweir::engine::{OperationState, Resolution, Timestamp};
use mailweir::scheduler::{HoldScope, Order};
use mailweir::store::{CrashNote, NoteBody, OperationQuery, OperationRecord, SqliteStore, Store};
use mailweir::transport::{Answer, Attempt, Transport, Verdict};
use mailweir::{Config, Email, Lane, Scheduler, SchedulerHandle, Submission};

const TEST: &str = "poison::the_child_that_dies_of_one_mail";
const FILE: &str = "MAILWEIR_TEST_POISON_OUTBOX";
const MODE: &str = "MAILWEIR_TEST_POISON_MODE";
const LIFE_MAX: Duration = Duration::from_secs(60);
const MAILBOX: &str = "news@contoso.example";
const OTHERS: usize = 12;

/// What kills the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The transport aborts.
    Transport,
    /// The engine panics, and the configuration says that a panic ends the process.
    Engine,
}

impl Mode {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Engine => "engine",
        }
    }
}

#[derive(Debug)]
struct Fatal;

impl Transport for Fatal {
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Answer> {
        async move {
            if &*attempt.operation_id == "bad" {
                tokio::time::sleep(Duration::from_millis(20)).await;
                std::process::abort();
            }
            println!("sent {}.", attempt.operation_id);
            tokio::time::sleep(Duration::from_millis(60)).await;
            Verdict::Accepted.into()
        }
        .boxed()
    }
}

fn config(mode: Mode) -> Config {
    let mut config = Config::default().mailbox_limits([]).application_limits([]);
    config.mailbox.concurrency = std::num::NonZeroU32::new(4);
    config.retry.duplicates = DuplicatePolicy::AtLeastOnce;
    config.retry.backoff = Duration::from_millis(50);
    // What was under way at a death keeps its connection for as long as it could still arrive.
    config.retry.attempt_timeout = Duration::from_secs(1);
    config.guard.request_deadline_max = Duration::from_millis(1_200);
    if mode == Mode::Engine {
        config.actors.on_panic = OnPanic::Abort;
    }
    config
}

#[tokio::test]
#[ignore = "a part of the other tests, in a process of its own"]
async fn the_child_that_dies_of_one_mail() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let mode = if std::env::var(MODE).unwrap() == Mode::Engine.as_str() { Mode::Engine } else { Mode::Transport };
    tokio::time::timeout(LIFE_MAX, live(file.into(), mode)).await.expect("everything ends in time");
}

async fn live(file: PathBuf, mode: Mode) {
    let scheduler = Scheduler::builder(config(mode), Fatal).store(SqliteStore::open(file).unwrap());
    let scheduler = scheduler.start().await.unwrap();
    let handle = scheduler.handle();
    if mode == Mode::Engine {
        // Nothing is sent before the engine is to break.
        handle.hold(HoldScope::Mailbox(MAILBOX.into()), Order::new("a test")).await.unwrap();
        handle.sabotage_operation(MAILBOX, "bad").await.unwrap();
    }
    for number in 0..=OTHERS {
        let id = if number == OTHERS / 2 { "bad".to_owned() } else { format!("good-{number}") };
        let mime = format!("From: {MAILBOX}\r\nSubject: {id}\r\n\r\n{id}\r\n").into_bytes();
        let email = Email::from_mime(MAILBOX, ["ann@fabrikam.example"], mime).unwrap();
        let submission = Submission::new(MAILBOX, email).lane(Lane::Foreground).operation_id(id);
        drop(handle.submit(submission).await.unwrap());
    }
    if mode == Mode::Engine {
        if !handle.operation("bad").await.unwrap().unwrap().state.is_final() {
            drop(handle.cancel("bad", Order::new("it breaks")).await);
            std::future::pending::<()>().await;
        }
        handle.resume(HoldScope::Mailbox(MAILBOX.into()), Order::new("a test")).await.unwrap();
    }
    while !has_ended(&handle).await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    scheduler.shutdown().await;
}

/// Somebody looks for what the last process left unknown, and finds that it is not there.
async fn has_ended(handle: &SchedulerHandle) -> bool {
    let all = OperationQuery { limit: 1_000, ..OperationQuery::default() };
    let rows = handle.operations(all).await.unwrap();
    for row in rows.iter().filter(|row| row.state == OperationState::Unknown) {
        drop(handle.resolve(&row.id, Resolution::Absent, Order::new("it is not there")).await);
    }
    rows.iter().all(|row| row.state.is_final())
}

/// One life; true: it ended by itself.
fn life(file: &Path, mode: Mode) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([TEST, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(FILE, file)
        .env(MODE, mode.as_str())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().unwrap().success()
}

async fn read(file: &Path) -> (Vec<OperationRecord>, Vec<CrashNote>) {
    let store = SqliteStore::open(file).unwrap();
    let rows = store.operations(OperationQuery { limit: 1_000, ..OperationQuery::default() }).await.unwrap();
    let notes = store.recover(Timestamp::EPOCH, None).await.unwrap().notes;
    let count = |body| if let NoteBody::Crash(count) = body { Some(count) } else { None };
    (rows, notes.into_iter().filter_map(|note| count(note.body)).collect())
}

async fn dies_three_times_and_no_more(mode: Mode) -> CrashNote {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("outbox.db");
    for died in 1..=3 {
        assert!(!life(&file, mode), "{mode:?}: process {died} dies");
    }
    assert!(life(&file, mode), "{mode:?}: the fourth lives");
    let (rows, kept) = read(&file).await;
    assert_eq!(rows.len(), OTHERS + 1);
    for row in rows {
        let expected = if &*row.id == "bad" { OperationState::Quarantined } else { OperationState::Accepted };
        assert_eq!(row.state, expected, "{mode:?}: {row:?}");
    }
    assert_eq!(kept.len(), 1, "{kept:?}");
    kept[0]
}

#[tokio::test]
async fn a_mail_of_which_the_process_dies_three_times_is_set_aside_and_all_others_are_sent() {
    let kept = dies_three_times_and_no_more(Mode::Transport).await;
    assert_eq!((kept.panics, kept.deaths), (0, 3));
}

#[tokio::test]
async fn a_mail_on_which_the_engine_ends_the_process_is_set_aside_as_well() {
    let kept = dies_three_times_and_no_more(Mode::Engine).await;
    assert_eq!((kept.panics, kept.deaths), (3, 0), "the process wrote whose fault it was");
}
