//! What one decision costs: the engines alone, in nanoseconds and, under callgrind, in instructions.
//!
//! A decision is one input, worked off: everything that may go now is granted, what can never go is refused, and the
//! instant is named until which the rest waits. A replay plays the inputs of a recorded run; its figures are per
//! decision, and `decisions each second` is what criterion prints as elements.
//!
//! One cycle is an operation's whole life in the engine: it enters its lane, is charged and claimed, sent, and settled
//! as accepted; every effect is drained and the deadline asked for, as the shell does it. Denied cases are those that
//! run most often on a busy mailbox: a wake-up that finds nothing to do, and an arrival behind a head that waits.
//!
//! Nanoseconds depend on the machine and its mood; instructions do not. `cargo bench --bench engine` measures the
//! former, `scripts/bench-callgrind` the latter: it runs one case a fixed number of times (`-- --fixed CASE COUNT`)
//! under callgrind, twice, and divides the difference, so neither start-up nor warm-up is in the figure. `-- --rates`
//! prints decisions a second of processor time.

mod rates;
mod replay;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use mailweir::engine::mailbox::{AskShared, Effect, Input, Mailbox};
use mailweir::engine::operation::{Operation, OperationKey, OperationKind};
use mailweir::engine::policy::{MailboxPolicy, ScopePolicy};
use mailweir::engine::{Cost, Lane, Timestamp, Verdict};

/// Cycles before the first counted one: more than the longest window holds.
const WARM_UP: u64 = 10_000;
/// Between two sends: below the pace of the tightest limit, so that every cycle is granted.
const APART: Duration = Duration::from_secs(10);
const ROUND_TRIP: Duration = Duration::from_millis(300);

const FOUR: [&str; 4] = ["30 requests / 1m", "10_000 recipients / 24h", "10_000 requests / 10m", "150MB / 5m"];

fn engine(limits: &[&str]) -> Mailbox {
    let limits = limits.iter().map(|text| text.parse().expect("a limit")).collect();
    let scope = ScopePolicy { limits, concurrency: std::num::NonZeroU32::new(4) };
    let policy = MailboxPolicy { scope, ..MailboxPolicy::default() };
    let mut engine = Mailbox::new(Arc::from("noreply@contoso.example"), Arc::new(policy));
    engine.handle(Timestamp::from_micros(1), Input::AskShared(AskShared::OnTrouble));
    engine
}

/// One engine and the instant it is at.
struct Bench {
    engine: Mailbox,
    now: Timestamp,
    key: u64,
    lane: Lane,
}

impl Bench {
    fn new(limits: &[&str], lane: Lane) -> Self {
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        let mut bench = Self { engine: engine(limits), now, key: 0, lane };
        for _ in 0..WARM_UP {
            bench.cycle();
        }
        bench
    }

    /// The same with a full window and `waiting` operations behind it.
    fn denied(limits: &[&str], lane: Lane, waiting: u64) -> Self {
        let mut bench = Self::new(limits, lane);
        bench.now = bench.now.after(Duration::from_secs(3_600));
        // Concurrency is 4: what is sent ends at once, until the window is full.
        for _ in 0..60 {
            bench.enqueue();
            while let Some(effect) = bench.engine.poll_effect() {
                bench.answer(&effect);
            }
        }
        for _ in 0..waiting {
            bench.enqueue();
            bench.drain();
        }
        bench
    }

    fn enqueue(&mut self) {
        self.key += 1;
        let operation = Operation {
            key: OperationKey(self.key),
            id_hash: self.key,
            lane: self.lane,
            kind: OperationKind::Send,
            tenant: None,
            campaign: None,
            cost: Cost::email(1, 75_000),
            submitted_at: self.now,
            not_before: self.now,
            deadline: self.now.after(Duration::from_secs(86_400)),
            attempts: 0,
        };
        self.engine.handle(self.now, Input::Enqueue(operation));
    }

    fn answer(&mut self, effect: &Effect) {
        match effect {
            Effect::Claim { key, .. } => self.engine.handle(self.now, Input::Claimed { key: *key }),
            Effect::Send { key, .. } => {
                let answer = Verdict::Accepted.into();
                self.engine.handle(self.now, Input::Finished { key: *key, answer });
            }
            _ => {}
        }
    }

    fn drain(&mut self) {
        while let Some(effect) = self.engine.poll_effect() {
            black_box(effect);
        }
        black_box(self.engine.poll_deadline());
    }

    /// An operation's whole life.
    fn cycle(&mut self) {
        self.now = self.now.after(APART);
        self.enqueue();
        self.drain();
        let key = OperationKey(self.key);
        self.engine.handle(self.now, Input::Claimed { key });
        self.drain();
        self.now = self.now.after(ROUND_TRIP);
        self.engine.handle(self.now, Input::Finished { key, answer: Verdict::Accepted.into() });
        self.drain();
    }

    /// A wake-up that finds nothing to do.
    fn wake(&mut self) {
        self.engine.handle(self.now, Input::Wake);
        self.drain();
    }

    /// An arrival behind a head that waits, and its cancellation.
    fn arrive(&mut self) {
        self.enqueue();
        self.drain();
        self.engine.handle(self.now, Input::Cancel { key: OperationKey(self.key) });
        self.drain();
    }
}

type Step = fn(&mut Bench);

/// Name, what to start from, what to do.
type Case = (&'static str, fn() -> Bench, Step);

const CASES: [Case; 8] = [
    ("cycle/1-limit/foreground", || Bench::new(&FOUR[..1], Lane::Foreground), Bench::cycle),
    ("cycle/1-limit/background", || Bench::new(&FOUR[..1], Lane::Background), Bench::cycle),
    ("cycle/4-limits/foreground", || Bench::new(&FOUR, Lane::Foreground), Bench::cycle),
    ("cycle/4-limits/background", || Bench::new(&FOUR, Lane::Background), Bench::cycle),
    ("denied-wake/4-limits/foreground", || Bench::denied(&FOUR, Lane::Foreground, 1_000), Bench::wake),
    ("denied-wake/4-limits/background", || Bench::denied(&FOUR, Lane::Background, 1_000), Bench::wake),
    ("arrive-and-cancel/4-limits/foreground", || Bench::denied(&FOUR, Lane::Foreground, 1_000), Bench::arrive),
    ("arrive-and-cancel/4-limits/background", || Bench::denied(&FOUR, Lane::Background, 1_000), Bench::arrive),
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--fixed") {
        return fixed(&arguments[at + 1..]);
    }
    if arguments.iter().any(|argument| argument == "--rates") {
        return rates::print();
    }
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for (name, start, step) in CASES {
        let mut bench = start();
        criterion.bench_function(name, |bencher| bencher.iter(|| step(&mut bench)));
    }
    let mut group = criterion.benchmark_group("decisions");
    for (name, record) in replay::REPLAYS {
        let recording = record();
        group.throughput(Throughput::Elements(recording.decisions() as u64));
        group.bench_function(name, |bencher| bencher.iter(|| recording.play(usize::MAX)));
    }
    group.finish();
    criterion.final_summary();
}

/// Runs one case a fixed number of steps, or a replay for a number of decisions, for callgrind. Without arguments: names the cases.
fn fixed(arguments: &[String]) {
    let [name, count] = arguments else {
        let names = CASES.iter().map(|(name, ..)| name).chain(replay::REPLAYS.iter().map(|(name, _)| name));
        return names.for_each(|name| println!("{name}"));
    };
    let count: u64 = count.parse().expect("a number of steps");
    if let Some((_, record)) = replay::REPLAYS.iter().find(|(case, _)| case == name) {
        return replay::play(&record(), count);
    }
    let (_, start, step) = CASES.iter().find(|(case, ..)| case == name).expect("the name of a case");
    let mut bench = start();
    (0..count).for_each(|_| step(&mut bench));
}
