//! The witness: it starts, kills, starts again, and compares what it was told with what arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use mailweir::clock::{Clock, SystemClock};
use mailweir::engine::{OperationState, Timestamp};
use mailweir::store::{OperationQuery, OperationRecord, Recovery, SqliteStore, Store};
use mailweir::upstream::http::UpstreamServer;
use mailweir::upstream::{Arrival, Random, Upstream, check};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::child::{Ends, Task, kept, lost, spawn};
use crate::{Mode, config, id, limits, model};

/// Kills, unless the variable says how many.
const KILLS: u64 = 10;
const KILLS_AT_LEAST_ONCE: u64 = 6;
const KILLS_VARIABLE: &str = "MAILWEIR_TEST_KILLS";
const SEED_VARIABLE: &str = "MAILWEIR_TEST_SEED";
/// Operations that the first life adds: more than the limits let through in many lives, so that each life would send at
/// once if it had a window of its own.
const BACKLOG: u64 = 40;
/// Operations that each life adds.
const NEW: u64 = 6;
/// Most lines of a life before it is killed: some are killed while they submit, some while they send, some idle.
const LINES_MAX: u64 = 90;

/// What is known of a run.
struct Run {
    runtime: Runtime,
    server: UpstreamServer,
    url: String,
    folder: TempDir,
    random: Random,
    /// Numbers that a child was told to submit.
    given: u64,
    /// Numbers that a child said were kept.
    kept: BTreeSet<u64>,
    /// Numbers that a child said were unknown before it sent them again.
    lost: BTreeSet<u64>,
    mode: Mode,
}

impl Run {
    fn new(seed: u64, mode: Mode) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let clock = SystemClock::new();
        let server = UpstreamServer::start(Upstream::new(model(), seed), move || clock.now());
        let server = runtime.block_on(server).unwrap();
        let (url, folder, random) = (server.url(), tempfile::tempdir().unwrap(), Random::stream(seed, 1));
        Self {
            runtime,
            server,
            url,
            folder,
            random,
            given: BACKLOG,
            kept: BTreeSet::new(),
            lost: BTreeSet::new(),
            mode,
        }
    }

    fn task(&mut self, ends: Ends) -> Task<'_> {
        self.given += NEW;
        let numbers = (1..=self.given).filter(|number| !self.kept.contains(number)).collect();
        Task { file: self.folder.path().join("outbox.db"), upstream: &self.url, numbers, mode: self.mode, ends }
    }

    fn hear(&mut self, line: &str) {
        self.kept.extend(kept(line));
        self.lost.extend(lost(line));
    }

    /// One life, killed at a random instant.
    fn life(&mut self) {
        let lines_max = 1 + self.random.below(LINES_MAX);
        let (mut child, out) = spawn(&self.task(Ends::Killed));
        let mut lines = BufReader::new(out).lines().map_while(Result::ok);
        assert!(lines.any(|line| line == "ready"), "the child ended before it began");
        for _ in 0..lines_max {
            let line = lines.next().expect("it lives until it is killed");
            self.hear(&line);
            if line == "done" {
                break;
            }
        }
        child.kill().unwrap();
        // What it had said before it died counts.
        lines.for_each(|line| self.hear(&line));
        child.wait().unwrap();
    }

    /// The last life: it ends by itself when everything has.
    fn last_life(&mut self) {
        let (mut child, out) = spawn(&self.task(Ends::ByItself));
        let lines: Vec<String> = BufReader::new(out).lines().map_while(Result::ok).collect();
        lines.iter().for_each(|line| self.hear(line));
        assert!(child.wait().unwrap().success() && lines.iter().any(|line| line == "done"), "it ended as it should");
        assert_eq!(self.kept.len() as u64, self.given, "whatever was submitted is kept by now");
    }

    /// Everything the file knows, and everything the upstream does.
    fn end(self) -> (BTreeMap<String, OperationRecord>, Recovery, Vec<Arrival>) {
        let log = self.server.log();
        let (rows, recovery) = self.runtime.block_on(async {
            self.server.shutdown().await;
            let store = SqliteStore::open(self.folder.path().join("outbox.db")).unwrap();
            let everything = OperationQuery { limit: usize::MAX, ..OperationQuery::default() };
            let rows = store.operations(everything).await.unwrap();
            (rows, store.recover(Timestamp::EPOCH, None).await.unwrap())
        });
        (rows.into_iter().map(|row| (row.id.to_string(), row)).collect(), recovery, log)
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a whole number")))
}

/// Kills a process again and again; what it printed, what its file knows and what arrived.
fn kill(mode: Mode, kills: u64) {
    let kills = number(KILLS_VARIABLE).unwrap_or(kills);
    let seed = number(SEED_VARIABLE).unwrap_or_else(|| SystemClock::new().now().as_micros());
    println!("{SEED_VARIABLE}={seed} {KILLS_VARIABLE}={kills} {mode:?}");
    let mut run = Run::new(seed, mode);
    for _ in 0..kills {
        run.life();
    }
    run.last_life();
    let (given, lost) = (run.given, run.lost.clone());
    let (rows, recovery, log) = run.end();

    let executions = check::executions(&log);
    let mut states = BTreeMap::<OperationState, u64>::new();
    for number in 1..=given {
        let row = rows.get(&id(number)).unwrap_or_else(|| panic!("operation {number} was kept and is gone"));
        let times = executions.get(&*row.id).copied().unwrap_or(0);
        match (mode, row.state) {
            (Mode::AtMostOnce, OperationState::Accepted) => assert_eq!(times, 1, "operation {number} is accepted"),
            (Mode::AtMostOnce, OperationState::Unknown) => assert!(times <= 1, "{number} was taken {times} times"),
            (Mode::AtLeastOnce, OperationState::Accepted) => {
                assert!(times >= 1, "operation {number} is accepted");
                assert!(times == 1 || lost.contains(&number), "{number} was never unknown, and taken {times} times");
                assert!(times <= u64::from(row.attempts) + 1, "{number} was taken {times} times: {row:?}");
            }
            (_, other) => panic!("operation {number} is {other}: nothing but a kill came between it and its end"),
        }
        *states.entry(row.state).or_default() += 1;
    }
    assert_eq!(rows.len() as u64, given, "and nothing else is in the file");
    assert_no_more_than_was_written_ahead(&rows, &recovery, &log);

    let counts = check::counts(&log);
    assert_eq!(counts.refused, 0, "{counts:?}");
    assert!(mode == Mode::AtLeastOnce || counts.duplicates == 0, "{counts:?}");
    let most = limits().map(|limit| (check::max_in_window(&log, &limit), limit.amount));
    for (most, amount) in most {
        assert!(most <= amount, "{most} in a window of {amount}");
    }
    println!(
        "{kills} kills, {given} operations, {} lost: {states:?}; {counts:?}; most in a window {most:?}",
        lost.len()
    );
    let unknown = states.get(&OperationState::Unknown).copied().unwrap_or(0);
    assert!(unknown < given / 2, "a kill makes unknown what was under way, not the rest");
    assert!(most.iter().all(|(most, amount)| most * 3 >= amount * 2), "the limits were felt: {most:?}");
}

#[test]
fn killed_at_random_instants_it_loses_nothing_sends_nothing_twice_and_keeps_every_window() {
    kill(Mode::AtMostOnce, KILLS);
}

#[test]
fn killed_at_random_instants_under_at_least_once_it_sends_twice_only_what_was_unknown() {
    kill(Mode::AtLeastOnce, KILLS_AT_LEAST_ONCE);
}

/// Each arrival has an attempt row of its own, and no operation has two live attempts.
fn assert_no_more_than_was_written_ahead(
    rows: &BTreeMap<String, OperationRecord>,
    recovery: &Recovery,
    log: &[Arrival],
) {
    let mut arrivals = BTreeMap::<&Arc<str>, u32>::new();
    log.iter().for_each(|arrival| *arrivals.entry(&arrival.key).or_default() += 1);
    for (key, arrived) in arrivals {
        let row = rows.get(&**key).unwrap_or_else(|| panic!("{key} arrived and is not in the file"));
        assert!(arrived <= row.rows, "{key} arrived {arrived} times with {} attempt rows", row.rows);
    }
    // One whose end nobody knows is live until its deadline.
    let mut open = BTreeMap::<_, Vec<Timestamp>>::new();
    for attempt in recovery.attempts.iter().filter(|attempt| attempt.finished_at.is_none()) {
        open.entry(attempt.key).or_default().push(attempt.claimed_at);
    }
    let deadline = config(Mode::AtLeastOnce).guard.request_deadline_max;
    for (key, mut claims) in open {
        claims.sort_unstable();
        assert!(claims.windows(2).all(|pair| pair[1].since(pair[0]) >= deadline), "{key:?}: {claims:?}");
    }
}
