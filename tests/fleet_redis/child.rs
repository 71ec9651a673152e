//! One process: it does what it is told on its input, and prints a line for whatever happens.

use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use mailweir::clock::SystemClock;
use mailweir::engine::mailbox::Outcome;
use mailweir::scheduler::Order;
use mailweir::store::{RedisOptions, RedisStore};
use mailweir::transport::graph::{Credentials, GraphOptions, GraphTransport};
use mailweir::upstream::http::ServerOptions;
use mailweir::{Email, Lane, Scheduler, SchedulerHandle, Submission};

use crate::{MAILBOX, config, id};

pub(crate) const TEST: &str = "child::the_process_that_does_what_it_is_told";
pub(crate) const REDIS: &str = "MAILWEIR_TEST_REDIS";
pub(crate) const UPSTREAM: &str = "MAILWEIR_TEST_UPSTREAM";
/// Longest life of a process that nobody ends: the longest run, and then something hangs.
const LIFE_MAX: Duration = Duration::from_secs(3_600);
/// Lines that wait to be obeyed.
const LINES_MAX: usize = 64;
/// Before what was refused for now is submitted again.
const AGAIN: Duration = Duration::from_millis(100);

#[tokio::test]
#[ignore = "a part of the other tests, in a process of its own"]
async fn the_process_that_does_what_it_is_told() {
    let Some(server) = std::env::var_os(REDIS) else { return };
    let url = server.into_string().unwrap();
    tokio::time::timeout(LIFE_MAX, live(&url)).await.expect("it is ended in time");
}

async fn live(url: &str) {
    // One replica, where there is one: what a failover must not lose.
    let replicas = u32::from(url.starts_with("redis+sentinel"));
    let store = RedisStore::open_with(url, RedisOptions::new().replicas(replicas)).unwrap();
    let scheduler = Scheduler::builder(config(), transport()).store(store).start().await.unwrap();
    let (lines, mut told) = tokio::sync::mpsc::channel(LINES_MAX);
    // Its end closes the channel, and with it the process.
    std::thread::spawn(move || {
        std::io::stdin().lock().lines().map_while(Result::ok).try_for_each(|line| lines.blocking_send(line))
    });
    // The harness has begun a line with the name of the test.
    println!("\nready");
    while let Some(line) = told.recv().await {
        let words: Vec<&str> = line.split(' ').collect();
        let handle = scheduler.handle();
        match *words.as_slice() {
            ["submit", number] => drop(tokio::spawn(submit(handle, number.parse().unwrap()))),
            ["cancel", number] => drop(tokio::spawn(cancel(handle, number.parse().unwrap()))),
            ["owner", question] => {
                let word = if handle.mailbox(MAILBOX).await.is_ok() { "yes" } else { "no" };
                println!("owner {question} {word}.");
            }
            ["end"] => break,
            ref other => panic!("{other:?}"),
        }
    }
    let report = scheduler.shutdown().await;
    println!("ended {report:?}");
}

fn transport() -> GraphTransport {
    let url = std::env::var(UPSTREAM).unwrap();
    let known = ServerOptions::default();
    let credentials = Credentials::new("contoso", known.client_id, known.client_secret).authority(&*url);
    let options = GraphOptions::default().base_url(url);
    GraphTransport::new(credentials, options, Arc::new(SystemClock::new())).unwrap()
}

/// Every fourth is background.
fn submission(number: u64) -> Submission {
    let mime = format!("From: {MAILBOX}\r\nMessage-ID: {}\r\nSubject: {number}\r\n\r\n{number}\r\n", id(number));
    let email = Email::from_mime(MAILBOX, ["ann@fabrikam.example"], mime.into_bytes()).unwrap();
    let lane = if number.is_multiple_of(4) { Lane::Background } else { Lane::Foreground };
    Submission::new(MAILBOX, email).lane(lane).operation_id(id(number))
}

/// Submits until it is kept, and waits for its end.
async fn submit(handle: SchedulerHandle, number: u64) {
    let ticket = loop {
        match handle.submit(submission(number)).await {
            Ok(ticket) => break ticket,
            Err(error) if error.is_retryable() => tokio::time::sleep(AGAIN).await,
            Err(error) => panic!("{number}: {error}"),
        }
    };
    println!("kept {number}.");
    if let Ok(outcome) = ticket.outcome().await {
        println!("outcome {number} {}.", word(&outcome));
    }
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Accepted { .. } => "accepted",
        Outcome::Unknown => "unknown",
        Outcome::Cancelled { .. } => "cancelled",
        _ => "another end",
    }
}

async fn cancel(handle: SchedulerHandle, number: u64) {
    match handle.cancel(&id(number), Order::new("nobody wants it")).await {
        Ok(answer) => println!("cancel {number} {answer:?}."),
        Err(error) => println!("cancel {number} failed: {error}."),
    }
}
