//! What people build, behind one trait.

mod adaptive;
mod backoff;
mod fixed_window;
mod hard_cap;
mod token_bucket;

pub(crate) use fixed_window::DATABASES;

use std::rc::Rc;
use std::time::Duration;

use mailweir::engine::{Limit, Timestamp};
use mailweir::upstream::Job;

/// What a policy is told before the run.
pub(crate) struct Setup {
    pub(crate) limits: Vec<Limit>,
    pub(crate) concurrency: u32,
    pub(crate) shortest: Duration,
    pub(crate) mailboxes: usize,
    pub(crate) mailbox_of: Rc<[usize]>,
    pub(crate) jobs: Rc<[Job]>,
    pub(crate) seed: u64,
    /// The URL of a Redis server of the bench's own.
    pub(crate) redis: String,
}

/// What a client hears. No status: nothing came back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) status: Option<u16>,
    pub(crate) retry_after: Option<Duration>,
}

/// One way to send mail. Everybody has C connections per mailbox, which the arena keeps.
pub(crate) trait Policy {
    /// A caller hands a job over.
    fn submit(&mut self, now: Timestamp, job: usize);
    /// A request of `job` came back, or did not. Status 202 ends it.
    fn heard(&mut self, now: Timestamp, job: usize, heard: Heard);
    /// The next job to send now, if its mailbox has a connection free.
    fn next(&mut self, now: Timestamp, free: &dyn Fn(usize) -> bool) -> Option<usize>;
    /// When to look again if nothing happens.
    fn deadline(&self) -> Option<Timestamp>;
    /// How often it has asked a store. Most have none: what they hold is gone with the process.
    fn asked(&self) -> u64 {
        0
    }
}

/// A policy with its name.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) make: fn(Setup) -> Box<dyn Policy>,
}

/// Everybody but us.
pub(crate) const ALL: [Peer; 8] = [
    Peer { name: "naive backoff, full jitter, Retry-After", make: |setup| Box::new(backoff::full_jitter(setup)) },
    Peer { name: "redelivery every 30 s", make: |setup| Box::new(backoff::redelivery(setup)) },
    Peer { name: "AWS-style adaptive retry", make: |setup| Box::new(adaptive::Adaptive::new(setup)) },
    Peer { name: "fixed-window reservation, 5/6 of the limit", make: |setup| Box::new(fixed_window::derated(setup)) },
    Peer { name: "fixed-window reservation, the whole limit", make: |setup| Box::new(fixed_window::whole(setup)) },
    Peer { name: "token bucket in wait mode (governor)", make: |setup| Box::new(token_bucket::Wait::new(setup)) },
    Peer { name: "lanes, hard 50 % cap, shared breaker", make: |setup| Box::new(hard_cap::calendar(setup)) },
    Peer { name: "lanes, hard 50 % cap, rolling by send", make: |setup| Box::new(hard_cap::rolling(setup)) },
];
