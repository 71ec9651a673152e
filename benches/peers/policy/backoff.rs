//! Every message for itself: send, and on a refusal come back later.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
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
    /// Due, without a connection: per mailbox, by who came first.
    ready: Vec<BTreeSet<(u64, usize)>>,
    /// The first of each mailbox that may have a connection, so that nobody looks through a storm for one.
    heads: BTreeSet<(u64, usize)>,
    /// Mailboxes that had none when asked.
    full: Vec<bool>,
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
            delay,
            due: BinaryHeap::new(),
            came: 0,
            ready: vec![BTreeSet::new(); setup.mailboxes],
            heads: BTreeSet::new(),
            full: vec![false; setup.mailboxes],
            setup,
        }
    }

    fn at(&mut self, at: Timestamp, job: usize) {
        self.came += 1;
        self.due.push(Reverse((at, self.came, job)));
    }
}

impl Backoff {
    /// A connection of the job's mailbox is free again.
    pub(crate) fn freed(&mut self, job: usize) {
        let mailbox = self.setup.mailbox_of[job];
        if std::mem::replace(&mut self.full[mailbox], false) {
            self.heads.extend(self.ready[mailbox].first().map(|(came, _)| (*came, mailbox)));
        }
    }

    fn put(&mut self, came: u64, job: usize) {
        let mailbox = self.setup.mailbox_of[job];
        let before = self.ready[mailbox].first().map(|(came, _)| *came);
        self.ready[mailbox].insert((came, job));
        if !self.full[mailbox] && before.is_none_or(|before| came < before) {
            self.heads.extend(Some((came, mailbox)));
            before.into_iter().for_each(|before| {
                self.heads.remove(&(before, mailbox));
            });
        }
    }
}

impl Policy for Backoff {
    fn submit(&mut self, now: Timestamp, job: usize) {
        self.at(now, job);
    }

    fn heard(&mut self, now: Timestamp, job: usize, heard: Heard) {
        self.freed(job);
        if heard.status != Some(202) {
            self.tries[job] += 1;
            let delay = (self.delay)(&mut self.random, self.tries[job], heard.retry_after);
            self.at(now.after(delay), job);
        }
    }

    fn next(&mut self, now: Timestamp, free: &dyn Fn(usize) -> bool) -> Option<usize> {
        while let Some(Reverse((_, came, job))) = self.due.peek().copied().filter(|Reverse((at, ..))| *at <= now) {
            self.due.pop();
            self.put(came, job);
        }
        while let Some((_, mailbox)) = self.heads.pop_first() {
            if !free(mailbox) {
                self.full[mailbox] = true;
                continue;
            }
            let first = self.ready[mailbox].pop_first();
            self.heads.extend(self.ready[mailbox].first().map(|(came, _)| (*came, mailbox)));
            return first.map(|(_, job)| job);
        }
        None
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }
}
