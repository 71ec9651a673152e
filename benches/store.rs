//! The SQLite outbox beside SQLite itself, in one run: what durable submits cost over the bare writes they consist of.
//!
//! A disk has fast and slow days, and a machine has other work, so what counts is the ratio of what was measured side by
//! side: the sides take turns of a few commits each, in an order that rotates, into files of the same schema in one
//! folder, and the ratio is the median over the turns. Before that every file is written until its write-ahead log has
//! been around once, so that nobody pays for making the log longer. *bare* is what a program would do by hand: one
//! thread, prepared statements, the same rows of operation, email and counts, one transaction per batch,
//! `synchronous = FULL`, SQLite's own checkpoints. *call* is one submission of the batch; *calls* are as many
//! submissions of one each, under way at once, that find into commits by themselves.
//!
//! *cpu* is processor time per operation, user and system, of every thread that works for the side; *turns* is how
//! often a thread of *calls* waited for another one, per operation.
//!
//! Run with `cargo bench --features sqlite --bench store`. `MAILWEIR_BENCH_FOLDER` names another disk than that of
//! the temporary folder, `MAILWEIR_BENCH_TURNS` another number of turns, `MAILWEIR_BENCH_CELL` one cell alone, such as
//! `1024x128`. Ratios come first, then criterion's figures, unless `-- --ratios` asks for the former alone.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use futures::future::join_all;
use mailweir::Email;
use mailweir::engine::{Cost, Lane, OperationKey, Timestamp};
use mailweir::store::{NewOperation, SqliteOptions, SqliteStore, Store};
use rusqlite::{Connection, OpenFlags, Statement};
use tokio::runtime::{Builder, Runtime};

const SIZES: [usize; 2] = [1_024, 20_480];
const BATCHES: [u64; 4] = [1, 16, 128, 1_024];
/// Turns per ratio; each side has one in each.
const TURNS: usize = 31;
/// Bytes of emails written to each file beforehand: more than the log grows to.
const WARM_BYTES: usize = 80 << 20;

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
        let payload = connection
            .prepare("INSERT INTO payload (key, sender, recipients, mime, size) VALUES (?1, ?2, ?3, ?4, length(?4))")?;
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

/// Processor time of a thread, or of all of this process's, in nanoseconds. Zero where the system does not tell.
fn cpu(threads: Threads) -> u64 {
    let time = |file: &Path| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.split_whitespace().next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or(0)
    };
    match threads {
        Threads::This => time(Path::new("/proc/thread-self/schedstat")),
        Threads::All => {
            let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
            tasks.map(|task| time(&task.path().join("schedstat"))).sum()
        }
    }
}

/// How often threads of this process have gone to sleep by themselves. Zero where the system does not tell.
fn sleeps() -> u64 {
    let count = |file: &Path| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.map(|task| count(&task.path().join("status"))).sum()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Threads {
    /// The one that asks.
    This,
    All,
}

const SIDES: usize = 3;

/// The three sides of one cell.
struct Cell {
    bare: Bare,
    stores: [SqliteStore; 2],
    sources: [Source; SIDES],
    batch: u64,
}

/// What one side took for one operation.
#[derive(Clone, Copy)]
struct Took {
    micros: f64,
    cpu: f64,
    sleeps: f64,
}

impl Cell {
    fn new(folder: &Path, bytes: usize, batch: u64) -> Self {
        let mut cell = Self {
            bare: Bare::new(&folder.join("bare.db")).expect("the schema"),
            stores: ["call.db", "calls.db"].map(|name| open(&folder.join(name))),
            sources: std::array::from_fn(|_| Source::new(bytes)),
            batch,
        };
        let count = (WARM_BYTES / bytes) as u64;
        for side in 0..SIDES {
            for _ in 0..count.div_ceil(256) {
                let batch = cell.sources[side].batch(256);
                match side {
                    0 => cell.bare.write(&batch).expect("there is room"),
                    _ => block_on(call(&cell.stores[side - 1], batch)),
                }
            }
        }
        cell
    }

    fn write(&mut self, side: usize, batch: Vec<NewOperation>) {
        match side {
            0 => self.bare.write(&batch).expect("there is room"),
            1 => block_on(call(&self.stores[0], batch)),
            _ => block_on(calls(&self.stores[1], batch)),
        }
    }

    fn turn(&mut self, side: usize, rounds: u64) -> Took {
        let batches: Vec<_> = (0..rounds).map(|_| self.sources[side].batch(self.batch)).collect();
        let threads = if side == 0 { Threads::This } else { Threads::All };
        let (before, slept) = (cpu(threads), sleeps());
        let took = timed(|| batches.into_iter().for_each(|batch| self.write(side, batch)));
        let (spent, slept) = (cpu(threads).saturating_sub(before), sleeps().saturating_sub(slept));
        let each = rounds as f64 * self.batch as f64;
        Took { micros: took.as_secs_f64() * 1e6 / each, cpu: spent as f64 / 1e3 / each, sleeps: slept as f64 / each }
    }
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// Whether a cell is to be measured.
fn is_wanted(bytes: usize, batch: u64) -> bool {
    std::env::var("MAILWEIR_BENCH_CELL").map_or(true, |cell| cell == format!("{bytes}x{batch}"))
}

fn scratch() -> tempfile::TempDir {
    let folder = std::env::var_os("MAILWEIR_BENCH_FOLDER").map_or_else(std::env::temp_dir, Into::into);
    tempfile::tempdir_in(folder).expect("a scratch folder")
}

/// Every turn of one cell: what each side took in it.
fn turns(bytes: usize, batch: u64, turns: usize) -> Vec<[Took; SIDES]> {
    let folder = scratch();
    let mut cell = Cell::new(folder.path(), bytes, batch);
    let rounds = (128 / batch).clamp(1, 16);
    let mut all = Vec::with_capacity(turns);
    for turn in 0..turns {
        let mut took = [Took { micros: 0.0, cpu: 0.0, sleeps: 0.0 }; SIDES];
        for place in 0..SIDES {
            let side = (turn + place) % SIDES;
            took[side] = cell.turn(side, rounds);
        }
        all.push(took);
    }
    all
}

fn ratios() {
    println!("durable submits: operations/s, how fast against the bare writes (wanted: 0.80), cpu in us per operation");
    println!(
        "{:>7} {:>6} {:>10} {:>10} {:>6} {:>10} {:>6} {:>8} {:>8} {:>8} {:>7}",
        "bytes", "batch", "bare", "call", "", "calls", "", "cpu bare", "call", "calls", "turns"
    );
    let count = number("MAILWEIR_BENCH_TURNS").map_or(TURNS, |turns| usize::try_from(turns).unwrap_or(TURNS)).max(1);
    for bytes in SIZES {
        for batch in BATCHES.into_iter().filter(|batch| is_wanted(bytes, *batch)) {
            let turns = turns(bytes, batch, count);
            let rate = |side: usize| 1e6 / median(turns.iter().map(|took| took[side].micros));
            let ratio = |side: usize| median(turns.iter().map(|took| took[0].micros / took[side].micros));
            let cpu = |side: usize| turns.iter().map(|took| took[side].cpu).sum::<f64>() / turns.len() as f64;
            println!(
                "{bytes:>7} {batch:>6} {:>10.0} {:>10.0} {:>6.2} {:>10.0} {:>6.2} {:>8.1} {:>8.1} {:>8.1} {:>7.3}",
                rate(0),
                rate(1),
                ratio(1),
                rate(2),
                ratio(2),
                cpu(0),
                cpu(1),
                cpu(2),
                turns.iter().map(|took| took[2].sleeps).sum::<f64>() / turns.len() as f64
            );
        }
    }
}

fn criterion_figures() {
    let mut criterion =
        Criterion::default().configure_from_args().sample_size(10).warm_up_time(Duration::from_millis(300));
    let mut group = criterion.benchmark_group("store/durable-submit");
    for bytes in SIZES {
        for batch in BATCHES {
            let folder = scratch();
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
        black_box(turns(1_024, 1, 1));
        return;
    }
    ratios();
    let only_ratios = std::env::args().any(|argument| argument == "--ratios");
    if !only_ratios && std::env::var_os("MAILWEIR_BENCH_CELL").is_none() {
        criterion_figures();
    }
}
