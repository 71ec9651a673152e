//! Runs one peer against the upstream, event by event.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use mailweir::engine::{Lane, Timestamp};
use mailweir::upstream::{ArrivalRequest, Delivery, Job, Profile, RetryAfter, Upstream};

use crate::policy::{Heard, Peer, Policy, Setup};
use crate::report::{Cell, Overhead};
use crate::scenario::{self, START, Scenario};

/// A client gives an answer up after this.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);

enum Happening {
    Submit(usize),
    Arrive { job: usize, down: Duration },
    Hear { job: usize, heard: Heard },
    Wake,
    Burn,
}

struct Arena<'a> {
    jobs: Rc<[Job]>,
    mailbox_of: Vec<usize>,
    concurrency: u32,
    in_flight: Vec<u32>,
    upstream: Upstream,
    policy: Box<dyn Policy + 'a>,
    agenda: BTreeMap<(Timestamp, u64), Happening>,
    sequence: u64,
    armed: Option<(Timestamp, u64)>,
    wakes: u64,
    ended: Vec<Option<Timestamp>>,
    left: usize,
}

pub(crate) fn run(scenario: &Scenario, profile: Profile, seed: u64, peer: &Peer, redis: &str) -> Cell {
    let jobs: Rc<[Job]> = scenario.jobs(seed).into();
    let mut numbers = BTreeMap::new();
    let mailbox_of: Vec<usize> = jobs
        .iter()
        .map(|job| {
            let next = numbers.len();
            *numbers.entry(job.mailbox.clone()).or_insert(next)
        })
        .collect();
    let setup = Setup {
        limits: scenario.limits.clone(),
        concurrency: scenario.concurrency,
        shortest: scenario.shortest(),
        mailboxes: numbers.len(),
        mailbox_of: mailbox_of.clone().into(),
        jobs: Rc::clone(&jobs),
        seed,
        redis: redis.to_owned(),
    };
    let mut arena = Arena {
        mailbox_of,
        concurrency: scenario.concurrency,
        in_flight: vec![0; numbers.len()],
        upstream: Upstream::new(scenario.model(profile, seed), seed),
        policy: (peer.make)(setup),
        agenda: BTreeMap::new(),
        sequence: 0,
        armed: None,
        wakes: 0,
        ended: vec![None; jobs.len()],
        left: jobs.len(),
        jobs,
    };
    for job in 0..arena.jobs.len() {
        arena.put(arena.jobs[job].at, Happening::Submit(job));
    }
    if let Some((after, _)) = scenario.burn {
        arena.put(START.after(after), Happening::Burn);
    }
    arena.go(START.after(scenario.cut_off), scenario);
    let Arena { jobs, ended, upstream, wakes, policy, .. } = arena;
    let cost = Overhead { wakes, store_calls: policy.asked(), transactions: 0 };
    Cell::read(scenario, profile, seed, (&jobs, &ended), &upstream, cost)
}

impl Arena<'_> {
    fn put(&mut self, at: Timestamp, happening: Happening) -> (Timestamp, u64) {
        self.sequence += 1;
        self.agenda.insert((at, self.sequence), happening);
        (at, self.sequence)
    }

    fn go(&mut self, until: Timestamp, scenario: &Scenario) {
        while self.left > 0 {
            let Some(((now, sequence), happening)) = self.agenda.pop_first() else { return };
            if now > until {
                return;
            }
            match happening {
                Happening::Submit(job) => self.policy.submit(now, job),
                Happening::Arrive { job, down } => self.arrive(now, job, down),
                Happening::Hear { job, heard } => self.hear(now, job, heard),
                Happening::Wake if self.armed.is_some_and(|armed| armed.1 == sequence) => {
                    self.armed = None;
                    self.wakes += 1;
                }
                Happening::Wake => continue,
                Happening::Burn => {
                    let count = scenario.burn.map_or(0, |burn| burn.1);
                    let cost = mailweir::engine::Cost { requests: count, ..mailweir::engine::Cost::ONE_REQUEST };
                    self.upstream.burn(now, &scenario::name(0), None, cost);
                }
            }
            self.pump(now);
        }
    }

    /// Sends whatever the policy wants to send and has a connection for, then arms one timer.
    fn pump(&mut self, now: Timestamp) {
        loop {
            let (in_flight, most) = (&self.in_flight, self.concurrency);
            let Some(job) = self.policy.next(now, &|mailbox| in_flight[mailbox] < most) else { break };
            self.in_flight[self.mailbox_of[job]] += 1;
            let plan = self.upstream.plan_latency();
            self.put(now.after(plan.up), Happening::Arrive { job, down: plan.down });
        }
        let wanted = self.policy.deadline().filter(|at| *at > now);
        if self.armed.map(|armed| armed.0) != wanted {
            if let Some(armed) = self.armed.take() {
                self.agenda.remove(&armed);
            }
            self.armed = wanted.map(|at| self.put(at, Happening::Wake));
        }
    }

    fn arrive(&mut self, now: Timestamp, job: usize, down: Duration) {
        let Job { mailbox, tenant, cost, lane, .. } = self.jobs[job].clone();
        let request = ArrivalRequest { mailbox, tenant, cost, key: job.to_string().into(), lane: Some(lane) };
        let decision = self.upstream.arrive(now, &request);
        let planned = self.upstream.plan_latency().service;
        let answered = now.after(decision.service_or(planned));
        self.upstream.complete(answered, decision.handle);
        let lost = Heard { status: None, retry_after: None };
        let (at, heard) = match decision.delivery {
            Delivery::Lost => (now.after(CLIENT_TIMEOUT), lost),
            Delivery::Cut => (answered, lost),
            _ => {
                let retry_after = decision.retry_after.as_ref().and_then(|value| match value {
                    RetryAfter::Seconds(seconds) => Some(Duration::from_secs(*seconds)),
                    RetryAfter::Date(date) => Some(date.since(answered)),
                    _ => None,
                });
                (answered.after(down), Heard { status: decision.status, retry_after })
            }
        };
        self.put(at, Happening::Hear { job, heard });
    }

    fn hear(&mut self, now: Timestamp, job: usize, heard: Heard) {
        self.in_flight[self.mailbox_of[job]] -= 1;
        let done = heard.status == Some(202);
        if done && self.ended[job].is_none() {
            self.ended[job] = Some(now);
            self.left -= 1;
        }
        self.policy.heard(now, job, heard);
    }
}

/// Whether a job is a person's.
pub(crate) fn is_foreground(job: &Job) -> bool {
    job.lane == Lane::Foreground
}
