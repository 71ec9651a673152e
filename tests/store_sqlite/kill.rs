//! A process that is killed while it writes, again and again, on one file.
//!
//! The child is this test binary, told to run one ignored test. It prints a line for every call that was answered;
//! whatever it has printed has to be there afterwards.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use futures::future::join_all;
use mailweir::engine::OperationState;
use mailweir::engine::operation::Transition;
use mailweir::store::{OperationQuery, SqliteStore, Store};

use crate::support::*;

const FILE: &str = "MAILWEIR_TEST_OUTBOX";
const CHILD: &str = "kill::the_child_that_writes_until_it_is_killed";
/// Calls under way at once in the child.
const WRITERS: u64 = 16;

/// A child that writes into `file`, with its answered calls. One of them has been read already: it is at work.
pub(crate) fn spawn(file: &Path) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([CHILD, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(FILE, file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The harness begins the line with the name of the test.
    assert!(lines.any(|line| line.unwrap().ends_with("ready")), "the child ended before it began");
    (child, lines)
}

#[test]
#[ignore = "a part of the other tests, in a process of its own"]
fn the_child_that_writes_until_it_is_killed() {
    let Some(file) = std::env::var_os(FILE) else { return };
    block_on(async {
        let store = SqliteStore::open(file).unwrap();
        let last = store.recover(at(0), None).await.unwrap().last_key.map_or(0, |key| key.0);
        println!("ready");
        join_all((1..=WRITERS).map(|writer| write(&store, last + writer))).await;
    });
}

/// Every `WRITERS`th operation from `first` on, until the process ends.
async fn write(store: &SqliteStore, first: u64) {
    for key in (first..).step_by(WRITERS as usize) {
        store.insert(vec![sized(key, 200 + (key % 8) as usize * 1_000)]).await.unwrap();
        println!("stored {key}");
        assert!(store.claim(vec![claim(key, 1, 10)]).await.unwrap()[0].is_some());
        println!("claimed {key}");
        if key % 2 == 0 {
            store.record(record(key, Transition::Accept, 11)).await.unwrap();
            println!("accepted {key}");
        }
    }
}

/// What a child was answered last about each operation.
type Answered = BTreeMap<u64, String>;

fn note(answered: &mut Answered, line: &str) {
    // A line that was cut off by the kill says nothing.
    if let Some((what, key)) = line.split_once(' ')
        && let Ok(key) = key.parse()
    {
        answered.insert(key, what.to_owned());
    }
}

async fn assert_all_there(store: &SqliteStore, answered: &Answered) {
    let everything = OperationQuery { limit: usize::MAX, ..OperationQuery::default() };
    let rows = store.operations(everything).await.unwrap();
    let rows: BTreeMap<u64, _> = rows.into_iter().map(|row| (row.key.0, row)).collect();
    let attempts = store.recover(at(0), None).await.unwrap().attempts;
    let attempts: BTreeMap<u64, _> = attempts.into_iter().map(|attempt| (attempt.key.0, attempt)).collect();
    for (key, what) in answered {
        let row = rows.get(key).unwrap_or_else(|| panic!("operation {key} was {what} and is gone"));
        let least = match what.as_str() {
            "stored" => OperationState::Queued,
            "claimed" => OperationState::Attempting,
            _ => OperationState::Accepted,
        };
        assert!(row.state >= least, "operation {key} was {what} and is {}", row.state);
        assert_eq!(attempts.contains_key(key), row.rows > 0, "an attempting operation has its row");
    }
    let mut counts = [0; 10];
    rows.values().for_each(|row| counts[row.state as usize] += 1);
    assert_eq!(store.counts().await, Ok(counts));
    for row in rows.values() {
        let is_over = row.state == OperationState::Accepted;
        let email = store.email(row.key).await.unwrap();
        assert_eq!(email, (!is_over).then(|| sized(row.key.0, 200 + (row.key.0 % 8) as usize * 1_000).email));
    }
}

#[test]
fn everything_that_was_answered_survives_kill_9() {
    let place = Place::new();
    let mut answered = Answered::new();
    for round in 0..12_usize {
        let (mut child, mut lines) = spawn(&place.file());
        for _ in 0..1 + round * 37 {
            note(&mut answered, &lines.next().expect("it writes until it is killed").unwrap());
        }
        child.kill().unwrap();
        lines.map_while(Result::ok).for_each(|line| note(&mut answered, &line));
        child.wait().unwrap();
        block_on(async {
            let store = place.open();
            assert_all_there(&store, &answered).await;
            store.close().await.unwrap();
        });
        let verdict: String = place.shell().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(verdict, "ok");
    }
    assert!(answered.len() > 500, "{} operations under load", answered.len());
}
