//! The process that is killed: it submits what it is told to, sends, and prints a line for whatever happens.

use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use mailweir::clock::SystemClock;
use mailweir::engine::{OperationState, Resolution};
use mailweir::scheduler::Order;
use mailweir::store::{OperationQuery, SqliteStore};
use mailweir::transport::graph::{Credentials, GraphOptions, GraphTransport};
use mailweir::upstream::http::ServerOptions;
use mailweir::{Email, Lane, Scheduler, SchedulerHandle, Submission};

use crate::{MAILBOXES, Mode, config, id, number};

const TEST: &str = "child::the_child_that_sends_until_it_is_killed";
const FILE: &str = "MAILWEIR_TEST_OUTBOX";
const UPSTREAM: &str = "MAILWEIR_TEST_UPSTREAM";
const NUMBERS: &str = "MAILWEIR_TEST_NUMBERS";
const ENDS: &str = "MAILWEIR_TEST_ENDS";
const AGAIN: &str = "MAILWEIR_TEST_AT_LEAST_ONCE";
/// Submissions under way at once.
const SUBMITTERS: usize = 8;
/// Longest life of a child that nobody kills: beyond it something hangs.
const LIFE_MAX: Duration = Duration::from_secs(120);
/// How often it looks whether everything has come to an end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a child is for.
pub(crate) struct Task<'a> {
    pub(crate) file: PathBuf,
    pub(crate) upstream: &'a str,
    /// The operations to submit; those of earlier lives are in the file.
    pub(crate) numbers: Vec<u64>,
    pub(crate) mode: Mode,
    /// Whether it ends by itself when everything has.
    pub(crate) ends: Ends,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    Killed,
    ByItself,
}

/// A line that says that operation `number` is kept.
pub(crate) fn kept(line: &str) -> Option<u64> {
    told("kept ", line)
}

/// A line that says that operation `number` was unknown, and is to be sent again.
pub(crate) fn lost(line: &str) -> Option<u64> {
    told("lost ", line)
}

fn told(word: &str, line: &str) -> Option<u64> {
    // A line that was cut off by the kill says nothing: its end is missing.
    line.strip_prefix(word)?.strip_suffix('.')?.parse().ok()
}

/// Starts one.
pub(crate) fn spawn(task: &Task<'_>) -> (Child, ChildStdout) {
    let numbers: Vec<String> = task.numbers.iter().map(u64::to_string).collect();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([TEST, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(FILE, &task.file)
        .env(UPSTREAM, task.upstream)
        .env(NUMBERS, numbers.join(" "))
        .stdout(Stdio::piped());
    if task.mode == Mode::AtLeastOnce {
        command.env(AGAIN, "yes");
    }
    if task.ends == Ends::ByItself {
        command.env(ENDS, "yes");
    }
    let mut child = command.spawn().unwrap();
    let out = child.stdout.take().unwrap();
    (child, out)
}

#[tokio::test]
#[ignore = "a part of the other test, in a process of its own"]
async fn the_child_that_sends_until_it_is_killed() {
    let Some(file) = std::env::var_os(FILE) else { return };
    tokio::time::timeout(LIFE_MAX, live(file.into())).await.expect("everything ends in time");
}

async fn live(file: PathBuf) {
    let numbers: Vec<u64> =
        std::env::var(NUMBERS).unwrap().split_whitespace().map(|number| number.parse().unwrap()).collect();
    let mode = if std::env::var_os(AGAIN).is_some() { Mode::AtLeastOnce } else { Mode::AtMostOnce };
    let scheduler = Scheduler::builder(config(mode), transport()).store(SqliteStore::open(file).unwrap());
    let scheduler = scheduler.start().await.unwrap();
    let handle = scheduler.handle();
    // The harness has begun a line with the name of the test.
    println!("\nready");
    let mut events = handle.events();
    let told = tokio::spawn(async move {
        while events.next().await.is_some() {
            println!("event")
        }
    });
    futures::stream::iter(numbers).for_each_concurrent(SUBMITTERS, |number| submit(&handle, number)).await;
    let mut look = tokio::time::interval(LOOK_EVERY);
    while !has_ended(&handle, mode).await {
        look.tick().await;
    }
    println!("done");
    if std::env::var_os(ENDS).is_none() {
        std::future::pending::<()>().await;
    }
    told.abort();
    scheduler.shutdown().await;
}

fn transport() -> GraphTransport {
    let url = std::env::var(UPSTREAM).unwrap();
    let known = ServerOptions::default();
    let credentials = Credentials::new("contoso", known.client_id, known.client_secret).authority(&*url);
    let options = GraphOptions::default().base_url(url);
    GraphTransport::new(credentials, options, Arc::new(SystemClock::new())).unwrap()
}

async fn submit(handle: &SchedulerHandle, number: u64) {
    let mailbox = MAILBOXES[number as usize % MAILBOXES.len()];
    let mime = format!("From: {mailbox}\r\nMessage-ID: {}\r\nSubject: {number}\r\n\r\n{number}\r\n", id(number));
    let email = Email::from_mime(mailbox, ["ann@fabrikam.example"], mime.into_bytes()).unwrap();
    // Mostly foreground: a forgotten window shows as a burst, and background has no bursts.
    let lane = if number.is_multiple_of(5) { Lane::Background } else { Lane::Foreground };
    let submission = Submission::new(mailbox, email).lane(lane).operation_id(id(number));
    let _detached = handle.submit(submission).await.unwrap();
    println!("kept {number}.");
}

/// Says of every unknown that it is not there, although nobody has looked.
async fn send_again(handle: &SchedulerHandle) {
    let query = OperationQuery { state: Some(OperationState::Unknown), limit: 1_000, ..OperationQuery::default() };
    for row in handle.operations(query).await.unwrap() {
        println!("lost {}.", number(&row.id));
        drop(handle.resolve(&row.id, Resolution::Absent, Order::new("it is not there")).await);
    }
}

/// Whether every operation is final, or unknown and to stay so.
async fn has_ended(handle: &SchedulerHandle, mode: Mode) -> bool {
    if mode == Mode::AtLeastOnce {
        send_again(handle).await;
    }
    let stays = |state| mode == Mode::AtMostOnce && state == OperationState::Unknown;
    let counts = handle.counts().await.unwrap();
    let states = OperationState::ALL.into_iter().zip(counts);
    states.filter(|(state, _)| !state.is_final() && !stays(*state)).all(|(_, count)| count == 0)
}
