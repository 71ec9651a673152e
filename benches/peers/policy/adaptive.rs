//! AWS-style adaptive retry: a client-side token bucket whose rate follows what was accepted, as CUBIC does, under
//! exponential backoff with full jitter. After the published description of the "adaptive" mode; its floor of half a
//! request a second is part of it. One limiter per mailbox, as one client per mailbox has.

use std::collections::VecDeque;
use std::time::Duration;

use mailweir::engine::Timestamp;

use super::backoff::{Backoff, full_jitter};
use super::{Heard, Policy, Setup};

const BETA: f64 = 0.7;
const SCALE: f64 = 0.4;
const SMOOTH: f64 = 0.8;
const RATE_MIN: f64 = 0.5;

#[derive(Clone, Default)]
struct Limiter {
    enabled: bool,
    fill_rate: f64,
    capacity_max: f64,
    capacity: f64,
    filled_at: f64,
    measured: f64,
    bucket: f64,
    requests: f64,
    last_rate_max: f64,
    throttled_at: f64,
    window: f64,
}

impl Limiter {
    fn refill(&mut self, now: f64) {
        self.capacity = (self.capacity + (now - self.filled_at).max(0.0) * self.fill_rate).min(self.capacity_max);
        self.filled_at = now;
    }

    /// Takes a token, or says in how many seconds there is one.
    fn acquire(&mut self, now: f64) -> Result<(), f64> {
        if !self.enabled {
            return Ok(());
        }
        self.refill(now);
        if self.capacity >= 1.0 {
            self.capacity -= 1.0;
            return Ok(());
        }
        Err((1.0 - self.capacity) / self.fill_rate)
    }

    fn update(&mut self, now: f64, throttled: bool) {
        let bucket = (now * 2.0).floor() / 2.0;
        self.requests += 1.0;
        if bucket > self.bucket {
            let rate = self.requests / (bucket - self.bucket);
            self.measured = rate * SMOOTH + self.measured * (1.0 - SMOOTH);
            (self.requests, self.bucket) = (0.0, bucket);
        }
        let wanted = if throttled {
            let rate = if self.enabled { self.measured.min(self.fill_rate) } else { self.measured };
            (self.last_rate_max, self.throttled_at, self.enabled) = (rate, now, true);
            self.window = (rate * (1.0 - BETA) / SCALE).cbrt();
            rate * BETA
        } else {
            self.window = (self.last_rate_max * (1.0 - BETA) / SCALE).cbrt();
            SCALE * (now - self.throttled_at - self.window).powi(3) + self.last_rate_max
        };
        let rate = wanted.min(2.0 * self.measured);
        self.refill(now);
        self.fill_rate = rate.max(RATE_MIN);
        self.capacity_max = rate.max(1.0);
        self.capacity = self.capacity.min(self.capacity_max);
    }
}

pub(crate) struct Adaptive {
    backoff: Backoff,
    limiters: Vec<Limiter>,
    mailbox_of: std::rc::Rc<[usize]>,
    /// Past their backoff, without a token yet.
    waiting: Vec<VecDeque<usize>>,
    /// Mailboxes with somebody waiting for a token, and until when.
    blocked: std::collections::BTreeMap<usize, Timestamp>,
    start: Option<Timestamp>,
}

impl Adaptive {
    pub(crate) fn new(setup: Setup) -> Self {
        Self {
            limiters: vec![Limiter::default(); setup.mailboxes],
            waiting: vec![VecDeque::new(); setup.mailboxes],
            mailbox_of: std::rc::Rc::clone(&setup.mailbox_of),
            blocked: std::collections::BTreeMap::new(),
            backoff: full_jitter(setup),
            start: None,
        }
    }

    fn seconds(&mut self, now: Timestamp) -> f64 {
        now.since(*self.start.get_or_insert(now)).as_secs_f64() + 1.0
    }
}

impl Policy for Adaptive {
    fn submit(&mut self, now: Timestamp, job: usize) {
        self.backoff.submit(now, job);
    }

    fn heard(&mut self, now: Timestamp, job: usize, heard: Heard) {
        let seconds = self.seconds(now);
        self.limiters[self.mailbox_of[job]].update(seconds, heard.status == Some(429));
        self.backoff.heard(now, job, heard);
    }

    fn next(&mut self, now: Timestamp, free: &dyn Fn(usize) -> bool) -> Option<usize> {
        let seconds = self.seconds(now);
        while let Some(job) = self.backoff.next(now, &|_| true) {
            let mailbox = self.mailbox_of[job];
            self.waiting[mailbox].push_back(job);
            self.blocked.entry(mailbox).or_insert(now);
        }
        let open: Vec<usize> =
            self.blocked.iter().filter(|(m, at)| **at <= now && free(**m)).map(|(m, _)| *m).collect();
        for mailbox in open {
            match self.limiters[mailbox].acquire(seconds) {
                Ok(()) => {
                    let job = self.waiting[mailbox].pop_front();
                    if self.waiting[mailbox].is_empty() {
                        self.blocked.remove(&mailbox);
                    }
                    return job;
                }
                Err(wait) => {
                    let wait = Duration::from_secs_f64(wait.clamp(0.001, 60.0));
                    self.blocked.insert(mailbox, now.after(wait));
                }
            }
        }
        None
    }

    fn deadline(&self) -> Option<Timestamp> {
        // A mailbox without a free connection is looked at when one comes back.
        [self.backoff.deadline(), self.blocked.values().copied().min()].into_iter().flatten().min()
    }
}
