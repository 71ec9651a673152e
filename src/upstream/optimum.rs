//! The best any sender could do: the yardstick of every ratio.
//!
//! A clairvoyant that knows the phase of every window, has no latency, and sends each operation at the first instant
//! at which every limit takes it. By the greedy theorem (algorithms 1.2, T6) no schedule finishes earlier. Foreground
//! goes first from its arrival on, as in any scheduler worth comparing with.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Cost, Lane, Timestamp};

use super::limit::UpstreamLimit;
use super::scopes::{Scopes, Who};
use super::window::Charge;

/// One email to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// When it is submitted.
    pub at: Timestamp,
    /// The mailbox it leaves from.
    pub mailbox: Arc<str>,
    /// That mailbox's tenant.
    pub tenant: Option<Arc<str>>,
    /// What it takes.
    pub cost: Cost,
    /// Its lane.
    pub lane: Lane,
}

/// The best schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Optimum {
    /// When each job is accepted, in the order given; `None`: never, its cost is above what a limit can hold.
    pub accepted_at: Vec<Option<Timestamp>>,
    /// From the first submission to the last acceptance.
    pub makespan: Duration,
}

/// Computes the best schedule of `jobs` under `limits`, whose scales may change over time. Takes
/// O(jobs × mailboxes) steps.
#[must_use]
pub fn optimum(limits: &[UpstreamLimit], jobs: &[Job]) -> Optimum {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&n| (jobs[n].at, n));
    let mut run = Run {
        scopes: Scopes::new(limits, &[]),
        jobs,
        coming: order.into(),
        waiting: BTreeMap::new(),
        accepted_at: vec![None; jobs.len()],
    };
    let first = run.coming.front().map_or(Timestamp::EPOCH, |&n| jobs[n].at);
    let mut now = first;
    while let Some(next) = run.step(now) {
        now = next;
    }
    let last = run.accepted_at.iter().flatten().max().copied().unwrap_or(first);
    Optimum { makespan: last.since(first), accepted_at: run.accepted_at }
}

struct Run<'a> {
    scopes: Scopes,
    jobs: &'a [Job],
    coming: VecDeque<usize>,
    waiting: BTreeMap<Arc<str>, [VecDeque<usize>; 2]>,
    accepted_at: Vec<Option<Timestamp>>,
}

impl Run<'_> {
    /// Sends what can go at `now`; the next instant at which something may change.
    fn step(&mut self, now: Timestamp) -> Option<Timestamp> {
        while let Some(n) = self.coming.front().copied().filter(|&n| self.jobs[n].at <= now) {
            self.coming.pop_front();
            let lanes = self.waiting.entry(Arc::clone(&self.jobs[n].mailbox)).or_default();
            lanes[self.jobs[n].lane as usize].push_back(n);
        }
        let mut wake = self.send_all(now)?;
        if let Some(&n) = self.coming.front() {
            wake = wake.min(self.jobs[n].at);
        }
        (wake < Timestamp::NEVER).then_some(wake)
    }

    /// Sends heads of queues, foreground first, until none fits; when the next one does. `None`: nothing is left.
    fn send_all(&mut self, now: Timestamp) -> Option<Timestamp> {
        if self.waiting.is_empty() && self.coming.is_empty() {
            return None;
        }
        let change = self.scopes.next_change(now);
        let mut wake = change.filter(|_| !self.waiting.is_empty()).unwrap_or(Timestamp::NEVER);
        while let Some((n, fits)) = self.next_to_go(now, change.is_none(), &mut wake) {
            let job = &self.jobs[n];
            if fits {
                let who = Who { mailbox: &job.mailbox, tenant: job.tenant.as_ref() };
                self.scopes.charge(now, who, &job.cost, Charge::Accepted);
                self.accepted_at[n] = Some(now);
            }
            if let Some(lanes) = self.waiting.get_mut(&job.mailbox) {
                lanes[job.lane as usize].pop_front();
                if lanes.iter().all(VecDeque::is_empty) {
                    self.waiting.remove(&job.mailbox);
                }
            }
        }
        Some(wake)
    }

    /// The first head that fits (`true`), or that never will under limits that are `settled` (`false`).
    fn next_to_go(&mut self, now: Timestamp, settled: bool, wake: &mut Timestamp) -> Option<(usize, bool)> {
        for n in self.heads() {
            let job = &self.jobs[n];
            let who = Who { mailbox: &job.mailbox, tenant: job.tenant.as_ref() };
            match self.scopes.shortage(now, who, &job.cost) {
                None => return Some((n, true)),
                Some(shortage) if settled && shortage.ready_at == Timestamp::NEVER => return Some((n, false)),
                Some(shortage) => *wake = shortage.ready_at.min(*wake),
            }
        }
        None
    }

    /// The next job of each mailbox, foreground before background, then by submission.
    fn heads(&self) -> Vec<usize> {
        let mut heads: Vec<usize> =
            self.waiting.values().filter_map(|lanes| lanes.iter().find_map(VecDeque::front)).copied().collect();
        heads.sort_by_key(|&n| (self.jobs[n].lane, self.jobs[n].at, n));
        heads
    }
}
