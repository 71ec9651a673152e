//! Every message for itself: send, and on a refusal come back later.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use mailweir::engine::Timestamp;
use mailweir::upstream::Random;

use super::{Heard, Policy, Setup};

/// How long until the next try.
type Delay = fn(&mut Random, tries: u32, retry_after: Option<Duration>) -> Duration;

pub(crate) struct Backoff {
    setup: Setup,
    random: Random,
    delay: Delay,
    tries: Vec<u32>,
    /// By instant, then by who came first.
    due: BinaryHeap<Reverse<(Timestamp, u64, usize)>>,
    came: u64,
    /// Due, without a connection.
    ready: std::collections::BTreeSet<(u64, usize)>,
}

/// Retry-After where there is one, else full jitter over 1 s · 2^k up to 300 s.
pub(crate) fn full_jitter(setup: Setup) -> Backoff {
    Backoff::new(setup, |random, tries, retry_after| {
        let most = 1_000_000_u64.saturating_mul(1 << tries.min(16)).min(300_000_000);
        Duration::from_micros(random.below(most)).max(retry_after.unwrap_or_default())
    })
}

/// A queue that hands a refused message out again after 30 s.
pub(crate) fn redelivery(setup: Setup) -> Backoff {
    Backoff::new(setup, |_, _, _| Duration::from_secs(30))
}

impl Backoff {
    fn new(setup: Setup, delay: Delay) -> Self {
        Self {
            random: Random::stream(setup.seed, 0xBAC),
            tries: vec![0; setup.jobs.len()],
            setup,
            delay,
            due: BinaryHeap::new(),
            came: 0,
            ready: std::collections::BTreeSet::new(),
        }
    }

    fn at(&mut self, at: Timestamp, job: usize) {
        self.came += 1;
        self.due.push(Reverse((at, self.came, job)));
    }
}

impl Policy for Backoff {
    fn submit(&mut self, now: Timestamp, job: usize) {
        self.at(now, job);
    }

    fn heard(&mut self, now: Timestamp, job: usize, heard: Heard) {
        if heard.status != Some(202) {
            self.tries[job] += 1;
            let delay = (self.delay)(&mut self.random, self.tries[job], heard.retry_after);
            self.at(now.after(delay), job);
        }
    }

    fn next(&mut self, now: Timestamp, free: &dyn Fn(usize) -> bool) -> Option<usize> {
        while let Some(Reverse((_, came, job))) = self.due.peek().copied().filter(|Reverse((at, ..))| *at <= now) {
            self.due.pop();
            self.ready.insert((came, job));
        }
        let found = self.ready.iter().copied().find(|(_, job)| free(self.setup.mailbox_of[*job]))?;
        self.ready.remove(&found);
        Some(found.1)
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }
}
