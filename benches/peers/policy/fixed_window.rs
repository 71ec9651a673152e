//! Reservation in a counter per calendar window, in a real Redis: a script adds to every window of a message or to none. A
//! message that finds a window full is put back for up to 30 s, spread by a hash of its id.
//!
//! Time is virtual, so the number of the window, which is part of a counter's key, is worked out from it, and nothing
//! expires: a run begins with an empty database. A counter only rises, so what the server has said of a full window is not
//! asked again in it; it is counted all the same, as every look is a round trip where this runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mailweir::engine::spread::fnv1a;
use mailweir::engine::{Ratio, Timestamp};

use super::backoff::{Backoff, redelivery};
use super::{Heard, Policy, Setup};

const SPREAD: u64 = 30_000_000;

/// Databases of the server: more than there are runs at once, so that each has one of its own.
pub(crate) const DATABASES: u64 = 1_024;
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Keys: a counter for each window. Arguments: cost and amount for each. Answers the number of the first that is full,
/// or 0 and all of them have been added to. What is larger than a limit goes alone.
const RESERVE: &str = "
for at, key in ipairs(KEYS) do
    local used = tonumber(redis.call('GET', key) or '0')
    if used > 0 and used + tonumber(ARGV[2 * at - 1]) > tonumber(ARGV[2 * at]) then return at end
end
for at, key in ipairs(KEYS) do redis.call('INCRBY', key, ARGV[2 * at - 1]) end
return 0";

pub(crate) struct FixedWindow {
    /// Amount, width in microseconds, unit.
    limits: Vec<(u64, u64, mailweir::engine::Unit)>,
    mailbox_of: std::rc::Rc<[usize]>,
    jobs: std::rc::Rc<[mailweir::upstream::Job]>,
    server: redis::Connection,
    script: redis::Script,
    /// By mailbox and limit: the window that was full, and for which cost.
    full: HashMap<(usize, usize), (u64, u64)>,
    asked: u64,
    queue: Backoff,
    puts: Vec<u64>,
}

/// A sixth below the limit, as those do who have met two of their windows inside one of the provider's.
pub(crate) fn derated(setup: Setup) -> FixedWindow {
    FixedWindow::new(setup, Ratio::ppm(833_333))
}

pub(crate) fn whole(setup: Setup) -> FixedWindow {
    FixedWindow::new(setup, Ratio::ONE)
}

/// An empty database.
fn connect(url: &str) -> redis::RedisResult<redis::Connection> {
    let mut server = redis::Client::open(url)?.get_connection()?;
    let database = RUNS.fetch_add(1, Ordering::Relaxed) % DATABASES;
    redis::pipe().cmd("SELECT").arg(database).ignore().cmd("FLUSHDB").ignore().exec(&mut server)?;
    Ok(server)
}

impl Drop for FixedWindow {
    fn drop(&mut self) {
        // Room for the next one; a server that is gone needs none.
        let _ = redis::cmd("FLUSHDB").exec(&mut self.server);
    }
}

impl FixedWindow {
    fn new(setup: Setup, share: Ratio) -> Self {
        let micros = |window: Duration| u64::try_from(window.as_micros()).expect("a window of years");
        let limit = |limit: &mailweir::engine::Limit| {
            (share.floor_of(limit.amount()).max(1), micros(limit.window()), limit.unit())
        };
        Self {
            limits: setup.limits.iter().map(limit).collect(),
            mailbox_of: std::rc::Rc::clone(&setup.mailbox_of),
            jobs: std::rc::Rc::clone(&setup.jobs),
            server: connect(&setup.redis).expect("the bench's own server answers"),
            script: redis::Script::new(RESERVE),
            full: HashMap::new(),
            asked: 0,
            puts: vec![0; setup.jobs.len()],
            queue: redelivery(setup),
        }
    }

    /// Reserves in every window or in none.
    fn reserve(&mut self, now: Timestamp, job: usize) -> bool {
        let mailbox = self.mailbox_of[job];
        let cost = self.jobs[job].cost;
        self.asked += 1;
        let is_known = |(index, (_, width, unit)): (usize, &(u64, u64, mailweir::engine::Unit))| {
            let full = self.full.get(&(mailbox, index));
            full.is_some_and(|(window, least)| *window == now.as_micros() / width && cost.of(*unit) >= *least)
        };
        if self.limits.iter().enumerate().any(is_known) {
            return false;
        }
        let mut call = self.script.prepare_invoke();
        for (index, (amount, width, unit)) in self.limits.iter().enumerate() {
            call.key(format!("{mailbox}:{index}:{}", now.as_micros() / width));
            call.arg(cost.of(*unit)).arg(*amount);
        }
        let full: usize = call.invoke(&mut self.server).expect("the bench's own server answers");
        let Some(index) = full.checked_sub(1) else { return true };
        let (_, width, unit) = self.limits[index];
        self.full.insert((mailbox, index), (now.as_micros() / width, cost.of(unit)));
        false
    }

    fn put_back(&mut self, now: Timestamp, job: usize, at_least: Duration) {
        self.puts[job] += 1;
        let hash = fnv1a(&[job.to_be_bytes(), self.puts[job].to_be_bytes()].concat());
        let spread = Duration::from_micros(1_000 + hash % SPREAD);
        self.queue.submit(now.after(at_least.max(spread)), job);
    }
}

impl Policy for FixedWindow {
    fn submit(&mut self, now: Timestamp, job: usize) {
        self.queue.submit(now, job);
    }

    fn heard(&mut self, now: Timestamp, job: usize, heard: Heard) {
        self.queue.freed(job);
        if heard.status != Some(202) {
            self.put_back(now, job, heard.retry_after.unwrap_or_default());
        }
    }

    fn next(&mut self, now: Timestamp, free: &dyn Fn(usize) -> bool) -> Option<usize> {
        while let Some(job) = self.queue.next(now, free) {
            if self.reserve(now, job) {
                return Some(job);
            }
            self.put_back(now, job, Duration::ZERO);
        }
        None
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.queue.deadline()
    }

    fn asked(&self) -> u64 {
        self.asked
    }
}
