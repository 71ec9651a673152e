//! Operations per second through the whole scheduler, beside what people write by hand for the same purpose.
//!
//! Both sides serve the same callers in the same process, round by round in turn, over the same no-op transport: 1,000
//! mailboxes, one caller task for each, limits that never bind. The peer is three `governor` limiters and a semaphore
//! per mailbox and one spawned task per send, whose outcome comes back through a channel. It stores nothing, refuses
//! nothing, knows no lanes, no breaker and no restart: it is the price of the limits alone.
//!
//! Not measured: a provider, a disk, a limit that binds. Only the ratio of two rows of one run means anything; the
//! machine's mood is in both. Criterion cannot interleave two routines, which is why it does not drive this.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use mailweir::engine::{Answer, Lane, Limit, Verdict};
use mailweir::transport::{Attempt, Transport};
use mailweir::{Config, Email, Outcome, Scheduler, SchedulerHandle, Submission};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, oneshot};

const MAILBOXES: usize = 1_000;
const EACH: usize = 100;
const CONCURRENCY: u32 = 1_000;
const ROUNDS: usize = 9;

/// Three limits that never bind, as each side writes them.
const OURS: [&str; 3] = ["10_000_000 requests / 1m", "100_000_000 requests / 10m", "1_000_000_000 recipients / 24h"];
const PEERS: NonZeroU32 = NonZeroU32::new(1_000_000_000).expect("not zero");

#[derive(Debug)]
struct NoOp;

impl Transport for NoOp {
    fn send(&self, _: Attempt) -> BoxFuture<'_, Answer> {
        Box::pin(async { Verdict::Accepted.into() })
    }
}

fn mailbox(number: usize) -> Arc<str> {
    Arc::from(format!("box-{number}@contoso.example"))
}

fn email() -> Email {
    let mime = &b"Subject: Your code\r\nMessage-ID: <1@contoso.example>\r\n\r\n123456\r\n"[..];
    Email::from_mime("noreply@contoso.example", ["kim@example.org"], mime).expect("a valid email")
}

/// One way to send `EACH` emails from one mailbox and hear of all of them.
trait Side {
    fn name(&self) -> &'static str;
    fn caller(&self, mailbox: usize) -> BoxFuture<'static, usize>;
}

/// Three limiters and a semaphore per mailbox, one task per send.
struct Peer {
    mailboxes: Vec<Arc<Gate>>,
    transport: Arc<dyn Transport>,
}

struct Gate {
    id: Arc<str>,
    limiters: [DefaultDirectRateLimiter; 3],
    connections: Semaphore,
}

impl Peer {
    fn new() -> Self {
        let quotas = [Quota::per_second(PEERS), Quota::per_minute(PEERS), Quota::per_hour(PEERS)];
        let gate = |number| {
            let limiters = quotas.map(RateLimiter::direct);
            Arc::new(Gate { id: mailbox(number), limiters, connections: Semaphore::new(CONCURRENCY as usize) })
        };
        Self { mailboxes: (0..MAILBOXES).map(gate).collect(), transport: Arc::new(NoOp) }
    }
}

async fn send(gate: Arc<Gate>, transport: Arc<dyn Transport>, id: Arc<str>, email: Email) -> Answer {
    let _connection = gate.connections.acquire().await.expect("never closed");
    for limiter in &gate.limiters {
        limiter.until_ready().await;
    }
    let timeout = std::time::Duration::from_secs(60);
    let mailbox = Arc::clone(&gate.id);
    transport.send(Attempt { operation_id: id, mailbox, lane: Lane::Foreground, number: 1, email, timeout }).await
}

impl Side for Peer {
    fn name(&self) -> &'static str {
        "three governor limiters + semaphore + spawn per send"
    }

    fn caller(&self, mailbox: usize) -> BoxFuture<'static, usize> {
        let (gate, transport) = (Arc::clone(&self.mailboxes[mailbox]), Arc::clone(&self.transport));
        Box::pin(async move {
            let email = email();
            let mut outcomes = Vec::with_capacity(EACH);
            for number in 0..EACH {
                let (sender, outcome) = oneshot::channel();
                let id = Arc::from(format!("{number:036}"));
                let call = send(Arc::clone(&gate), Arc::clone(&transport), id, email.clone());
                tokio::spawn(async move { sender.send(call.await) });
                outcomes.push(outcome);
            }
            let mut accepted = 0;
            for outcome in outcomes {
                let answer = outcome.await.expect("every send answers");
                accepted += usize::from(answer.verdict == Verdict::Accepted);
            }
            accepted
        })
    }
}

/// How a caller hands its emails over.
#[derive(Clone, Copy)]
enum By {
    /// One task per email, as the peer does: a web server's handlers.
    Tasks,
    /// One after the other, each stored before the next.
    Submit,
    /// All in one call.
    SubmitMany,
}

struct Ours {
    name: &'static str,
    scheduler: Scheduler,
    mailboxes: Vec<Arc<str>>,
    lane: Lane,
    by: By,
}

impl Ours {
    async fn start(name: &'static str, application: &[&str], lane: Lane, by: By) -> Self {
        let limits = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("a limit")).collect::<Vec<Limit>>();
        let mut config = Config::default().mailbox_limits(limits(&OURS)).application_limits(limits(application));
        config.mailbox.concurrency = NonZeroU32::new(CONCURRENCY);
        let scheduler = Scheduler::builder(config, NoOp).start().await.expect("starts");
        Self { name, scheduler, mailboxes: (0..MAILBOXES).map(mailbox).collect(), lane, by }
    }
}

async fn one(handle: SchedulerHandle, submission: Submission) -> usize {
    let ticket = handle.submit(submission).await.expect("taken in");
    usize::from(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })))
}

async fn submit(handle: SchedulerHandle, mailbox: Arc<str>, lane: Lane, by: By) -> usize {
    let email = email();
    let submission = || Submission::new(Arc::clone(&mailbox), email.clone()).lane(lane);
    let mut tickets = Vec::with_capacity(EACH);
    match by {
        By::Tasks => {
            let tasks: Vec<_> = (0..EACH).map(|_| tokio::spawn(one(handle.clone(), submission()))).collect();
            let mut accepted = 0;
            for task in tasks {
                accepted += task.await.expect("no task panics");
            }
            return accepted;
        }
        By::Submit => {
            for _ in 0..EACH {
                tickets.push(handle.submit(submission()).await.expect("taken in"));
            }
        }
        By::SubmitMany => {
            let answers = handle.submit_many((0..EACH).map(|_| submission())).await;
            tickets.extend(answers.into_iter().map(|answer| answer.expect("taken in")));
        }
    }
    let mut accepted = 0;
    for ticket in tickets {
        let outcome = ticket.outcome().await.expect("an outcome");
        accepted += usize::from(matches!(outcome, Outcome::Accepted { .. }));
    }
    accepted
}

impl Side for Ours {
    fn name(&self) -> &'static str {
        self.name
    }

    fn caller(&self, mailbox: usize) -> BoxFuture<'static, usize> {
        let mailbox = Arc::clone(&self.mailboxes[mailbox]);
        Box::pin(submit(self.scheduler.handle(), mailbox, self.lane, self.by))
    }
}

/// What one round showed.
#[derive(Clone, Copy)]
struct Round {
    per_second: f64,
    /// Processor time per operation, all threads together, in microseconds. Other processes do not move it much.
    cpu: f64,
}

/// Processor time of this process so far, in microseconds, in steps of a hundredth of a second. Zero where there is no
/// `/proc`.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_whitespace()).into_iter().flatten();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() * 10_000.0
}

/// Every caller once.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn round(runtime: &Runtime, side: &dyn Side) -> Round {
    let (begun, cpu_before) = (Instant::now(), cpu());
    let accepted: usize = runtime.block_on(async {
        let callers: Vec<_> = (0..MAILBOXES).map(|mailbox| tokio::spawn(side.caller(mailbox))).collect();
        let mut accepted = 0;
        for caller in callers {
            accepted += caller.await.expect("no caller panics");
        }
        accepted
    });
    assert_eq!(accepted, MAILBOXES * EACH, "{}: every operation is accepted", side.name());
    Round { per_second: accepted as f64 / begun.elapsed().as_secs_f64(), cpu: (cpu() - cpu_before) / accepted as f64 }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn sides(runtime: &Runtime) -> Vec<Box<dyn Side>> {
    const APPLICATION: &[&str] = &["1_000_000_000 requests / 10s"];
    let rows: [(&str, &[&str], Lane, By); 8] = [
        ("submit, a task each, foreground", &[], Lane::Foreground, By::Tasks),
        ("submit, a task each, background", &[], Lane::Background, By::Tasks),
        ("submit, foreground", &[], Lane::Foreground, By::Submit),
        ("submit_many, foreground", &[], Lane::Foreground, By::SubmitMany),
        ("submit, background", &[], Lane::Background, By::Submit),
        ("submit_many, background", &[], Lane::Background, By::SubmitMany),
        ("submit, foreground, application limit", APPLICATION, Lane::Foreground, By::Submit),
        ("submit_many, foreground, application limit", APPLICATION, Lane::Foreground, By::SubmitMany),
    ];
    let only = std::env::var("ROWS").ok();
    let wanted = |number: usize| only.as_ref().is_none_or(|only| only.split(',').any(|row| row == number.to_string()));
    let mut sides: Vec<Box<dyn Side>> = Vec::new();
    if wanted(0) {
        sides.push(Box::new(Peer::new()));
    }
    for (number, (name, application, lane, by)) in rows.into_iter().enumerate() {
        if wanted(number + 1) {
            sides.push(Box::new(runtime.block_on(Ours::start(name, application, lane, by))));
        }
    }
    sides
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("runtime");
    let sides = sides(&runtime);
    // The first round starts the actors and fills the allocator: not counted.
    for side in &sides {
        round(&runtime, &**side);
    }
    let rounds: usize = std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let mut rates = vec![Vec::new(); sides.len()];
    for _ in 0..rounds {
        for (side, rates) in sides.iter().zip(&mut rates) {
            rates.push(round(&runtime, &**side));
        }
    }
    let peers = rates[0].clone();
    println!("{MAILBOXES} mailboxes, {EACH} operations each, median of {rounds} interleaved rounds");
    println!("{:54} {:>10} {:>6} {:>8}", "", "per second", "ratio", "cpu each");
    for (side, rounds) in sides.iter().zip(rates) {
        let ratios = rounds.iter().zip(&peers).map(|(round, peer)| round.per_second / peer.per_second);
        let ratio = median(ratios.collect());
        let per_second = median(rounds.iter().map(|round| round.per_second).collect());
        let cpu = median(rounds.iter().map(|round| round.cpu).collect());
        println!("{:54} {per_second:10.0} {ratio:6.2} {cpu:5.1} us", side.name());
    }
}
