//! The SQLite outbox beside SQLite itself, in one run: what durable submits cost over the bare writes they consist of.
//!
//! A disk has fast and slow days, so what counts is the ratio: both sides write by turns, into files of the same schema
//! on the same disk. *bare* is one thread with prepared statements that writes the same rows in one transaction and
//! commits with `synchronous = FULL`. *call* is one submission of the batch; *calls* are as many submissions of one
//! each, under way at once, that find into commits by themselves.
//!
//! Run with `cargo bench --features sqlite --bench store`. Ratios come first, then a million pending operations
//! (`MAILWEIR_BENCH_PENDING` sets another number; 0 leaves it out), then criterion's own figures.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use futures::future::join_all;
use mailweir::Email;
use mailweir::engine::{Cost, Lane, OperationKey, OperationState, Timestamp};
use mailweir::store::{NewOperation, OperationQuery, SqliteOptions, SqliteStore, Store};
use rusqlite::{Connection, OpenFlags, Statement};
use tokio::runtime::{Builder, Runtime};

const SIZES: [usize; 2] = [1_024, 20_480];
const BATCHES: [u64; 4] = [1, 16, 128, 1_024];
/// Turns per ratio; each side has one in each.
const TURNS: usize = 15;

fn now() -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000)
}

thread_local! {
    /// One for all calls: making a runtime would cost more than a commit.
    static RUNTIME: Runtime = Builder::new_current_thread().build().expect("a runtime");
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.with(|runtime| runtime.block_on(future))
}

/// Makes operations with rising keys.
struct Source {
    next: u64,
    email: Email,
}

impl Source {
    fn new(bytes: usize) -> Self {
        let mime: Vec<u8> = b"Subject: bench\r\n\r\n".iter().copied().cycle().take(bytes).collect();
        let email = Email::from_mime("noreply@contoso.example", ["ann@fabrikam.example"], mime).expect("a valid email");
        Self { next: 1, email }
    }

    fn operation(&mut self) -> NewOperation {
        let key = self.next;
        self.next += 1;
        NewOperation {
            key: OperationKey(key),
            id: format!("01890a5d-ac96-774b-bcce-{key:012x}").into(),
            fingerprint: key,
            mailbox: "noreply@contoso.example".into(),
            lane: Lane::Background,
            tenant: None,
            campaign: None,
            cost: Cost::email(1, 1_400),
            submitted_at: now(),
            not_before: now(),
            deadline: now().after(Duration::from_secs(86_400)),
            email: self.email.clone(),
            note: None,
        }
    }

    fn batch(&mut self, count: u64) -> Vec<NewOperation> {
        (0..count).map(|_| self.operation()).collect()
    }
}

fn open(file: &Path) -> SqliteStore {
    SqliteStore::open_with(file, SqliteOptions::new().live_max(100_000_000)).expect("a new outbox")
}

/// The same file without the store.
struct Bare {
    connection: &'static Connection,
    operation: Statement<'static>,
    payload: Statement<'static>,
    tally: Statement<'static>,
}

impl Bare {
    fn new(file: &Path) -> rusqlite::Result<Self> {
        block_on(open(file).close()).expect("the schema");
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        // Lives as long as the process, so that its statements can stand beside it.
        let connection: &'static Connection = Box::leak(Box::new(Connection::open_with_flags(file, flags)?));
        connection.execute_batch(
            "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA cache_size = -16384;
             INSERT INTO name (nr, text) VALUES (1, 'noreply@contoso.example');
             INSERT INTO tally VALUES (0, 1, 0), (1, 1, 0)",
        )?;
        let operation = connection.prepare(
            "INSERT INTO operation (key, id, fingerprint, mailbox, lane, requests, recipients, external_recipients,
             quota_units, bytes, state, submitted_at, not_before, deadline, changed_at)
             VALUES (?1, ?2, ?3, 1, 1, 1, 1, 0, 0, 1400, 1, ?4, ?4, ?5, ?4)",
        )?;
        let payload = connection.prepare("INSERT INTO payload VALUES (?1, ?2, ?3, ?4)")?;
        let tally = connection.prepare("UPDATE tally SET operations = operations + ?1 WHERE state = 1")?;
        Ok(Self { connection, operation, payload, tally })
    }

    fn write(&mut self, batch: &[NewOperation]) -> rusqlite::Result<()> {
        let stamp = |instant: Timestamp| instant.as_micros().cast_signed();
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        for new in batch {
            let (key, email) = (new.key.0.cast_signed(), &new.email);
            self.operation.execute((key, &*new.id, key, stamp(new.submitted_at), stamp(new.deadline)))?;
            self.payload.execute((key, email.sender(), "ann@fabrikam.example", email.mime()))?;
        }
        self.tally.execute([batch.len().cast_signed()])?;
        self.connection.execute_batch("COMMIT")
    }
}

async fn call(store: &SqliteStore, batch: Vec<NewOperation>) {
    black_box(store.insert(batch).await.expect("there is room"));
}

async fn calls(store: &SqliteStore, batch: Vec<NewOperation>) {
    for answer in join_all(batch.into_iter().map(|new| store.insert(vec![new]))).await {
        black_box(answer.expect("there is room"));
    }
}

#[expect(clippy::disallowed_methods, reason = "a bench reads the clock")]
fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Each side by turns; what each side takes for one operation, in microseconds: bare, one call, many calls.
fn turns(bytes: usize, batch: u64) -> [f64; 3] {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let mut bare = Bare::new(&folder.path().join("bare.db")).expect("the schema");
    let stores = ["call.db", "calls.db"].map(|name| open(&folder.path().join(name)));
    let mut sources = [Source::new(bytes), Source::new(bytes), Source::new(bytes)];
    let rounds = (1_024 / batch).clamp(4, 64);
    let mut spent = [const { Vec::new() }; 3];
    for turn in 0..=TURNS {
        for side in 0..3 {
            let batches: Vec<_> = (0..rounds).map(|_| sources[side].batch(batch)).collect();
            let took = timed(|| {
                for batch in batches {
                    match side {
                        0 => bare.write(&batch).expect("there is room"),
                        1 => block_on(call(&stores[0], batch)),
                        _ => block_on(calls(&stores[1], batch)),
                    }
                }
            });
            // The first turn warms up.
            if turn > 0 {
                spent[side].push(took);
            }
        }
    }
    let each = rounds as f64 * batch as f64;
    spent.map(|mut turns| {
        // The median: a disk that stalls once says nothing about either side.
        turns.sort_unstable();
        turns[TURNS / 2].as_secs_f64() * 1e6 / each
    })
}

fn ratios() {
    println!("durable submits: operations/s, and how fast against the bare writes (wanted: 0.80)");
    println!("{:>7} {:>6} {:>10} {:>10} {:>6} {:>10} {:>6}", "bytes", "batch", "bare", "call", "", "calls", "");
    for bytes in SIZES {
        for batch in BATCHES {
            let [bare, call, calls] = turns(bytes, batch);
            let (rate, ratio) = (|micros: f64| 1e6 / micros, |micros: f64| bare / micros);
            println!(
                "{bytes:>7} {batch:>6} {:>10.0} {:>10.0} {:>6.2} {:>10.0} {:>6.2}",
                rate(bare),
                rate(call),
                ratio(call),
                rate(calls),
                ratio(calls)
            );
        }
    }
}

/// Resident memory of this process in MB, where the system tells.
fn resident_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes / 1_024)
}

/// A restart with `count` pending operations, and what can be asked meanwhile.
fn pending(count: u64) {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let file = folder.path().join("pending.db");
    let mut source = Source::new(1_024);
    let store = open(&file);
    let filled = timed(|| {
        while source.next <= count {
            block_on(call(&store, source.batch(1_024)));
        }
    });
    println!("{count} pending of 1 KB written in {filled:.1?}");
    drop(store);
    let before = resident_mb();
    let mut store = None;
    let opened = timed(|| store = Some(open(&file)));
    let store = store.expect("just opened");
    let mut recovery = None;
    let recovered = timed(|| recovery = Some(block_on(store.recover(Timestamp::EPOCH, None)).expect("it is whole")));
    let recovery = recovery.expect("just read");
    println!(
        "opened in {opened:.0?}, recovered {} operations in {recovered:.0?} (wanted: first send within 3 s); MB: {:?} before, {:?} with all of them",
        recovery.operations.len(),
        before,
        resident_mb()
    );
    let mailbox = Some(Arc::clone(&recovery.operations[0].mailbox));
    let state = Some(OperationState::Queued);
    let queries = [
        ("by state", OperationQuery { state, limit: 100, ..OperationQuery::default() }),
        ("by mailbox", OperationQuery { mailbox: mailbox.clone(), limit: 100, ..OperationQuery::default() }),
        ("by mailbox and state", OperationQuery { mailbox, state, limit: 100, ..OperationQuery::default() }),
        ("of none", OperationQuery { state: Some(OperationState::Unknown), limit: 100, ..OperationQuery::default() }),
    ];
    for (name, query) in queries {
        let took = timed(|| drop(black_box(block_on(store.operations(query)).expect("it is whole"))));
        println!("100 {name}: {took:.2?} (wanted: 5 ms)");
    }
    let took = timed(|| drop(black_box(block_on(store.counts()))));
    println!("counts: {took:.2?}");
}

fn criterion_figures() {
    let mut criterion =
        Criterion::default().configure_from_args().sample_size(10).warm_up_time(Duration::from_millis(300));
    let mut group = criterion.benchmark_group("store/durable-submit");
    for bytes in SIZES {
        for batch in BATCHES {
            let folder = tempfile::tempdir().expect("a scratch folder");
            let store = open(&folder.path().join("outbox.db"));
            let mut source = Source::new(bytes);
            group.throughput(Throughput::Elements(batch)).measurement_time(Duration::from_secs(1));
            group.bench_function(BenchmarkId::new(format!("{bytes}B"), batch), |bencher| {
                bencher.iter_batched(
                    || source.batch(batch),
                    |batch| block_on(call(&store, batch)),
                    criterion::BatchSize::SmallInput,
                );
            });
        }
    }
    group.finish();
    criterion.final_summary();
}

fn main() {
    // `cargo test --benches` only wants to see it start.
    if std::env::args().any(|argument| argument == "--test") {
        black_box(turns(1_024, 1));
        return;
    }
    ratios();
    let count = std::env::var("MAILWEIR_BENCH_PENDING").ok().and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    if count > 0 {
        pending(count);
    }
    criterion_figures();
}
