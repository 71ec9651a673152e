//! The shared outbox beside the server itself, in one run: what a claim costs over the bare script that it consists of.
//!
//! A machine has other work, so what counts is the ratio of what was measured side by side: both sides take turns, in an
//! order that alternates, on operations of their own in one server, and the ratio is the median over the turns. *bare* is
//! what a program would do by hand: the same script with the same arguments, in a pipeline over one multiplexed
//! connection. *store* is as many calls of `Store::claim`, under way at once, that find into pipelines by themselves.
//!
//! Bytes and commands per send are the server's own count of what it read and wrote, and its monitor's of what it was
//! sent, for an insert, a claim and a record.
//!
//! Run with `cargo bench --features redis --bench redis_store`. `MAILWEIR_BENCH_TURNS` takes another number of turns.

#![allow(clippy::unwrap_used, reason = "a bench that cannot go on says where")]

#[path = "../tests/redis_server/mod.rs"]
mod redis_server;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use mailweir::Email;
use mailweir::clock::{Clock, SystemClock};
use mailweir::engine::mailbox::Record;
use mailweir::engine::operation::Transition;
use mailweir::engine::{Cost, Lane, OperationKey};
use mailweir::store::{Claim, NewOperation, RedisOptions, RedisStore, Store};
use redis::aio::MultiplexedConnection;
use redis_server::RedisServer;

const TURNS: usize = 31;
/// Claims per turn and side.
const CLAIMS: u64 = 2_048;
/// Lone claims whose round trips are taken.
const ROUND_TRIPS: u64 = 2_000;
/// Bytes of an email.
const EMAIL: usize = 1_024;

/// As the store builds it.
const CLAIM: &str = concat!(
    include_str!("../src/store/redis/scripts/row.lua"),
    "\n",
    include_str!("../src/store/redis/scripts/lease.lua"),
    "\n",
    include_str!("../src/store/redis/scripts/claim.lua"),
    "\n",
);

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn instant() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn since(start: Instant) -> Duration {
    start.elapsed()
}

fn mailbox(key: u64, width: u64) -> Arc<str> {
    format!("{}@contoso.example", key % width).into()
}

/// Operation `key` in one of `width` mailboxes.
fn operation(key: u64, width: u64, bytes: usize) -> NewOperation {
    let at = SystemClock::new().now();
    let mime: Vec<u8> = b"Subject: bench\r\n\r\n".iter().copied().cycle().take(bytes).collect();
    NewOperation {
        key: OperationKey(key),
        id: format!("01890a5d-ac96-774b-bcce-{key:012x}").into(),
        fingerprint: key,
        mailbox: mailbox(key, width),
        lane: Lane::Background,
        tenant: None,
        campaign: None,
        cost: Cost::email(1, 1_400),
        submitted_at: at,
        not_before: at,
        deadline: at.after(Duration::from_secs(86_400)),
        email: Email::from_mime("noreply@contoso.example", ["ann@fabrikam.example"], mime).unwrap(),
        note: None,
    }
}

fn claim(key: u64) -> Claim {
    Claim { key: OperationKey(key), attempt: 1, at: SystemClock::new().now(), cost: Cost::email(1, 1_400) }
}

async fn fill(store: &RedisStore, keys: std::ops::Range<u64>, width: u64) {
    let keys: Vec<u64> = keys.collect();
    for some in keys.chunks(256) {
        store.insert(some.iter().map(|key| operation(*key, width, EMAIL)).collect()).await.unwrap();
    }
}

/// The script with the arguments that the store gives it, for claims of one mailbox.
fn bare_claim(hash: &str, keys: &[u64], width: u64) -> redis::Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(hash).arg(1).arg(format!("mailweir:{{m:{}}}", mailbox(keys[0], width)));
    command.arg(172_800_000_000_u64).arg("1").arg("");
    let at = SystemClock::new().now().as_micros();
    for key in keys {
        command.arg(format!("{key:016x}")).arg(1).arg(at).arg(at).arg("1|1|0|0|1400");
    }
    command
}

struct Sides {
    store: RedisStore,
    bare: MultiplexedConnection,
    hash: String,
    next: u64,
}

impl Sides {
    async fn of(server: &RedisServer) -> Self {
        let options = RedisOptions::new().response_timeout(Duration::from_secs(5));
        let store = RedisStore::open_with(&server.url(), options).unwrap();
        let client = redis::Client::open(server.url()).unwrap();
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(5)));
        let mut bare = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        let hash = redis::cmd("SCRIPT").arg("LOAD").arg(CLAIM).query_async(&mut bare).await.unwrap();
        Self { store, bare, hash, next: 1 }
    }

    /// New operations, spread over `width` mailboxes.
    async fn fresh(&mut self, count: u64, width: u64) -> Vec<u64> {
        let keys = self.next..self.next + count;
        self.next = keys.end;
        fill(&self.store, keys.clone(), width).await;
        keys.collect()
    }

    /// Claims under way at once, each call of `batch` claims of one mailbox; in the same pipelines for the bare side.
    async fn store_side(&self, calls: &[Vec<u64>], at_once: usize) -> Duration {
        let start = instant();
        for some in calls.chunks(at_once) {
            let sent = some.iter().map(|keys| self.store.claim(keys.iter().map(|key| claim(*key)).collect()));
            for answer in join_all(sent).await {
                assert!(answer.unwrap().iter().all(Option::is_some));
            }
        }
        since(start)
    }

    async fn bare_side(&mut self, calls: &[Vec<u64>], at_once: usize, width: u64) -> Duration {
        let start = instant();
        for some in calls.chunks(at_once) {
            let mut pipeline = redis::Pipeline::with_capacity(some.len());
            for keys in some {
                pipeline.add_command(bare_claim(&self.hash, keys, width));
            }
            let answers: Vec<Vec<Option<Vec<u8>>>> = pipeline.query_async(&mut self.bare).await.unwrap();
            assert!(answers.iter().flatten().all(Option::is_some));
        }
        since(start)
    }
}

/// Calls of `batch` keys of one mailbox each.
fn calls(keys: &[u64], batch: usize, width: u64) -> Vec<Vec<u64>> {
    let mut by_mailbox: Vec<Vec<u64>> = vec![Vec::new(); usize::try_from(width).unwrap()];
    for key in keys {
        by_mailbox[usize::try_from(key % width).unwrap()].push(*key);
    }
    let mut calls: Vec<Vec<u64>> = Vec::new();
    for keys in by_mailbox {
        calls.extend(keys.chunks(batch).map(<[u64]>::to_vec));
    }
    calls
}

async fn throughput(server: &RedisServer, width: u64, batch: usize, at_once: usize) {
    let mut sides = Sides::of(server).await;
    server.say(&["FLUSHDB"]);
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for turn in 0..turns() {
        let keys = sides.fresh(2 * CLAIMS, width).await;
        let (mine, theirs) = keys.split_at(CLAIMS as usize);
        let (mine, theirs) = (calls(mine, batch, width), calls(theirs, batch, width));
        let (store, bare) = if turn % 2 == 0 {
            let store = sides.store_side(&mine, at_once).await;
            (store, sides.bare_side(&theirs, at_once, width).await)
        } else {
            let bare = sides.bare_side(&theirs, at_once, width).await;
            (sides.store_side(&mine, at_once).await, bare)
        };
        ratios.push(bare.as_secs_f64() / store.as_secs_f64());
        rates.push(CLAIMS as f64 / store.as_secs_f64());
    }
    println!(
        "claims, {batch:>2} per call, {at_once:>2} calls at once, {width:>3} mailboxes: {:>7.0}/s, store / bare = {:.2}",
        median(&mut rates),
        median(&mut ratios)
    );
}

async fn latency(server: &RedisServer) {
    let mut sides = Sides::of(server).await;
    server.say(&["FLUSHDB"]);
    let keys = sides.fresh(2 * ROUND_TRIPS, 64).await;
    let (mut store, mut bare) = (Vec::new(), Vec::new());
    for pair in keys.chunks(2) {
        store.push(sides.store_side(&[vec![pair[0]]], 1).await.as_secs_f64());
        bare.push(sides.bare_side(&[vec![pair[1]]], 1, 64).await.as_secs_f64());
    }
    let at = |times: &mut Vec<f64>, part: f64| {
        times.sort_by(f64::total_cmp);
        times[((times.len() - 1) as f64 * part) as usize] * 1e6
    };
    for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
        let (store, bare) = (at(&mut store, part), at(&mut bare, part));
        println!("a lone claim, {name}: store {store:>6.0} us, bare {bare:>6.0} us, ratio {:.2}", store / bare);
    }
}

/// What the server read and wrote, in bytes.
fn moved(server: &RedisServer) -> (u64, u64) {
    let info = server.say(&["INFO", "stats"]);
    let number = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    (number("total_net_input_bytes:"), number("total_net_output_bytes:"))
}

/// One life of operations, `batch` at a time: submitted, claimed, accepted.
async fn lives(store: &RedisStore, keys: std::ops::Range<u64>, batch: usize) {
    let keys: Vec<u64> = keys.collect();
    for some in keys.chunks(batch) {
        store.insert(some.iter().map(|key| operation(*key, 1, EMAIL)).collect()).await.unwrap();
        store.claim(some.iter().map(|key| claim(*key)).collect()).await.unwrap();
        let accept = |key: &u64| Record {
            key: OperationKey(*key),
            transition: Transition::Accept,
            state: Transition::Accept.to(),
            at: SystemClock::new().now(),
            next_at: None,
            attempts: 0,
            status: Some(202),
            provider_id: None,
            maybe_sent: false,
            leaves: mailweir::engine::Leaves::All,
            order: None,
        };
        store.record(some.iter().map(accept).collect()).await.unwrap();
    }
}

async fn per_send(server: &RedisServer, batch: usize) {
    const SENDS: u64 = 640;
    server.say(&["FLUSHDB"]);
    let store = RedisStore::open(&server.url()).unwrap();
    let before = moved(server);
    lives(&store, 1..SENDS + 1, batch).await;
    let after = moved(server);
    let mut monitor = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    monitor.write_all(b"MONITOR\r\n").unwrap();
    let mut seen = vec![0; 5];
    monitor.read_exact(&mut seen).unwrap();
    lives(&store, SENDS + 1..2 * SENDS + 1, batch).await;
    server.say(&["ECHO", "the end"]);
    let mut text = String::new();
    let mut bytes = [0; 65_536];
    while !text.contains("the end") {
        let count = monitor.read(&mut bytes).unwrap();
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    let commands = text.lines().filter(|line| line.contains(" [0 127.")).count() - 1;
    let per = |bytes: u64| bytes as f64 / SENDS as f64;
    println!(
        "per send of {EMAIL} B, {batch:>2} at a time: {:.2} commands, {:.0} B to the server, {:.0} B back",
        commands as f64 / SENDS as f64,
        per(after.0 - before.0),
        per(after.1 - before.1)
    );
}

fn turns() -> usize {
    std::env::var("MAILWEIR_BENCH_TURNS").ok().and_then(|turns| turns.parse().ok()).unwrap_or(TURNS)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    // The store has a thread of its own; this one is the caller's.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = RedisServer::start();
    runtime.block_on(async {
        throughput(&server, 64, 1, 64).await;
        throughput(&server, 64, 16, 16).await;
        throughput(&server, 1, 64, 4).await;
        latency(&server).await;
        per_send(&server, 1).await;
        per_send(&server, 16).await;
        per_send(&server, 64).await;
    });
}
