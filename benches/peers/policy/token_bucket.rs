//! One `governor` limiter per mailbox and limit in wait mode, burst = limit, as its documentation shows it; first come,
//! first served, C workers per mailbox. The library is the real one, driven by its own fake clock.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, FakeRelativeClock};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use mailweir::engine::{Timestamp, Unit};
use mailweir::upstream::Random;

use super::{Heard, Policy, Setup};

type Limiter =
    RateLimiter<NotKeyed, InMemoryState, FakeRelativeClock, NoOpMiddleware<<FakeRelativeClock as Clock>::Instant>>;

/// What one worker of a mailbox does.
#[derive(Clone, Copy)]
struct Worker {
    job: usize,
    /// The limiter it waits at.
    stage: usize,
    /// It sleeps until then.
    until: Timestamp,
}

struct Mailbox {
    limiters: Vec<(Limiter, Unit, u64)>,
    queue: VecDeque<usize>,
    workers: Vec<Worker>,
    sending: u32,
}

pub(crate) struct Wait {
    setup: Setup,
    clock: FakeRelativeClock,
    shown: Option<Timestamp>,
    mailboxes: Vec<Mailbox>,
    /// Mailboxes by when a worker of theirs wakes.
    wakes: BTreeMap<(Timestamp, usize), ()>,
    wakes_of: Vec<Option<Timestamp>>,
    tries: Vec<u32>,
    random: Random,
}

impl Wait {
    pub(crate) fn new(setup: Setup) -> Self {
        let clock = FakeRelativeClock::default();
        let limiter = |limit: &mailweir::engine::Limit| {
            // Bytes by the kilobyte: the library counts in 32 bits.
            let grain = if limit.unit() == Unit::Bytes { 1_000 } else { 1 };
            let burst = NonZeroU32::new(u32::try_from(limit.amount() / grain).expect("32 bits")).expect("not zero");
            let quota = Quota::with_period(limit.window() / burst.get()).expect("a period").allow_burst(burst);
            (RateLimiter::direct_with_clock(quota, clock.clone()), limit.unit(), grain)
        };
        let mailbox = |_| Mailbox {
            limiters: setup.limits.iter().map(limiter).collect(),
            queue: VecDeque::new(),
            workers: Vec::new(),
            sending: 0,
        };
        Self {
            mailboxes: (0..setup.mailboxes).map(mailbox).collect(),
            clock,
            shown: None,
            wakes: BTreeMap::new(),
            wakes_of: vec![None; setup.mailboxes],
            tries: vec![0; setup.jobs.len()],
            random: Random::stream(setup.seed, 0x60B),
            setup,
        }
    }

    fn show(&mut self, now: Timestamp) {
        self.clock.advance(now.since(self.shown.unwrap_or(now)));
        self.shown = Some(now);
    }

    fn arm(&mut self, mailbox: usize) {
        let wanted = self.mailboxes[mailbox].workers.iter().map(|worker| worker.until).min();
        if let Some(at) = self.wakes_of[mailbox].take() {
            self.wakes.remove(&(at, mailbox));
        }
        if let Some(at) = wanted {
            self.wakes.insert((at, mailbox), ());
            self.wakes_of[mailbox] = Some(at);
        }
    }

    /// Lets the workers of one mailbox go on; a job that has passed every limiter.
    fn work(&mut self, now: Timestamp, mailbox: usize) -> Option<usize> {
        let Self { setup, clock, mailboxes, .. } = self;
        let state = &mut mailboxes[mailbox];
        while state.workers.len() + (state.sending as usize) < setup.concurrency as usize {
            let Some(job) = state.queue.pop_front() else { break };
            state.workers.push(Worker { job, stage: 0, until: now });
        }
        for index in 0..state.workers.len() {
            let worker = &mut state.workers[index];
            while worker.until <= now {
                let Some((limiter, unit, grain)) = state.limiters.get(worker.stage) else {
                    let job = worker.job;
                    state.workers.remove(index);
                    state.sending += 1;
                    return Some(job);
                };
                let units = setup.jobs[worker.job].cost.of(*unit).div_ceil(*grain);
                let Some(units) = NonZeroU32::new(u32::try_from(units).expect("32 bits")) else {
                    worker.stage += 1;
                    continue;
                };
                match limiter.check_n(units).expect("no cost above the burst") {
                    Ok(()) => worker.stage += 1,
                    Err(not_until) => {
                        let wait = not_until.wait_time_from(clock.now()).max(Duration::from_micros(1));
                        worker.until = now.after(wait).after(Duration::from_micros(1));
                    }
                }
            }
        }
        None
    }
}

impl Policy for Wait {
    fn submit(&mut self, now: Timestamp, job: usize) {
        let mailbox = self.setup.mailbox_of[job];
        self.mailboxes[mailbox].queue.push_back(job);
        self.wakes.insert((now, mailbox), ());
    }

    fn heard(&mut self, now: Timestamp, job: usize, heard: Heard) {
        let mailbox = self.setup.mailbox_of[job];
        self.mailboxes[mailbox].sending -= 1;
        if heard.status != Some(202) {
            // The worker keeps its message, sleeps, and passes the limiters again.
            self.tries[job] += 1;
            let most = 1_000_000_u64.saturating_mul(1 << self.tries[job].min(16)).min(300_000_000);
            let back_off = Duration::from_micros(self.random.below(most));
            let until = now.after(heard.retry_after.unwrap_or(back_off));
            self.mailboxes[mailbox].workers.push(Worker { job, stage: 0, until });
            self.arm(mailbox);
        }
        self.wakes.insert((now, mailbox), ());
    }

    fn next(&mut self, now: Timestamp, _free: &dyn Fn(usize) -> bool) -> Option<usize> {
        self.show(now);
        while let Some((&(at, mailbox), ())) = self.wakes.first_key_value() {
            if at > now {
                return None;
            }
            if let Some(job) = self.work(now, mailbox) {
                return Some(job);
            }
            self.wakes.remove(&(at, mailbox));
            self.arm(mailbox);
        }
        None
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.wakes.first_key_value().map(|(&(at, _), ())| at)
    }
}
