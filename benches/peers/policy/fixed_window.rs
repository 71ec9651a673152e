//! Reservation in a counter per calendar window, as a script in Redis keeps it: a message that finds the window full is
//! put back for up to 30 s, spread by a hash of its id. The counter stands in for Redis here, which never fails.

use std::collections::HashMap;
use std::time::Duration;

use mailweir::engine::spread::fnv1a;
use mailweir::engine::{Ratio, Timestamp};

use super::backoff::{Backoff, redelivery};
use super::{Heard, Policy, Setup};

const SPREAD: u64 = 30_000_000;

pub(crate) struct FixedWindow {
    setup_limits: Vec<(u64, u64, mailweir::engine::Unit)>,
    mailbox_of: std::rc::Rc<[usize]>,
    jobs: std::rc::Rc<[mailweir::upstream::Job]>,
    counts: HashMap<(usize, usize), (u64, u64)>,
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

impl FixedWindow {
    fn new(setup: Setup, share: Ratio) -> Self {
        let micros = |window: Duration| u64::try_from(window.as_micros()).expect("a window of years");
        let limit = |limit: &mailweir::engine::Limit| {
            (share.floor_of(limit.amount()).max(1), micros(limit.window()), limit.unit())
        };
        Self {
            setup_limits: setup.limits.iter().map(limit).collect(),
            mailbox_of: std::rc::Rc::clone(&setup.mailbox_of),
            jobs: std::rc::Rc::clone(&setup.jobs),
            counts: HashMap::new(),
            puts: vec![0; setup.jobs.len()],
            queue: redelivery(setup),
        }
    }

    /// Reserves in every window or in none.
    fn reserve(&mut self, now: Timestamp, job: usize) -> bool {
        let mailbox = self.mailbox_of[job];
        let cost = self.jobs[job].cost;
        let used = |counts: &HashMap<_, (u64, u64)>, index: usize, width: u64| {
            let window = now.as_micros() / width;
            counts.get(&(mailbox, index)).filter(|(at, _)| *at == window).map_or(0, |(_, count)| *count)
        };
        let fits = self.setup_limits.iter().enumerate().all(|(index, (amount, width, unit))| {
            let used = used(&self.counts, index, *width);
            // What is larger than the derated limit goes alone.
            used == 0 || used + cost.of(*unit) <= *amount
        });
        if fits {
            for (index, (_, width, unit)) in self.setup_limits.iter().enumerate() {
                let count = used(&self.counts, index, *width) + cost.of(*unit);
                self.counts.insert((mailbox, index), (now.as_micros() / width, count));
            }
        }
        fits
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
}
