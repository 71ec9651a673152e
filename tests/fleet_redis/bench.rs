//! What the processes have in common: a server, an upstream, and a witness.

use std::collections::BTreeMap;
use std::time::Duration;

use mailweir::clock::{Clock, SystemClock};
use mailweir::engine::OperationState;
use mailweir::store::{OperationQuery, RedisStore, Store};
use mailweir::upstream::http::UpstreamServer;
use mailweir::upstream::{Arrival, Upstream, check};
use tokio::runtime::Runtime;

use crate::process::{Process, WAIT_MAX};
use crate::redis_server::RedisServer;
use crate::{id, limit, model};

/// How often a condition is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(crate) struct Bench {
    pub(crate) redis: RedisServer,
    url: String,
    server: UpstreamServer,
    pub(crate) runtime: Runtime,
}

impl Bench {
    pub(crate) fn start(redis: RedisServer) -> Self {
        let url = redis.url();
        Self::at(url, redis)
    }

    /// One whose store is found by another URL than the server's.
    pub(crate) fn at(url: String, redis: RedisServer) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let clock = SystemClock::new();
        let server = UpstreamServer::start(Upstream::new(model(), 7), move || clock.now());
        let server = runtime.block_on(server).unwrap();
        Self { redis, url, server, runtime }
    }

    pub(crate) fn process(&self) -> Process {
        Process::start(&self.url, &self.server.url())
    }

    /// A process that owns the mailbox and one that does not.
    pub(crate) fn owner_and_other(&self, first: u64) -> (Process, Process) {
        let (mut owner, mut other) = (self.process(), self.process());
        owner.submit([first]);
        self.until("an owner", || owner.is_owner());
        assert!(!other.is_owner(), "one at a time");
        (owner, other)
    }

    pub(crate) fn log(&self) -> Vec<Arrival> {
        self.server.log()
    }

    pub(crate) fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let clock = SystemClock::new();
        let until = clock.now().after(WAIT_MAX);
        while !holds() {
            assert!(clock.now() < until, "no {what} in {WAIT_MAX:?}; {:?}", check::counts(&self.log()));
            std::thread::park_timeout(LOOK_EVERY);
        }
    }

    pub(crate) fn until_arrived(&self, count: usize) {
        self.until("arrivals", || self.log().len() >= count);
    }

    /// What the store says of these operations.
    pub(crate) fn states(&self) -> BTreeMap<String, OperationState> {
        self.runtime.block_on(async {
            let store = RedisStore::open(&self.url).unwrap();
            let everything = OperationQuery { limit: usize::MAX, ..OperationQuery::default() };
            let rows = store.operations(everything).await.unwrap();
            rows.into_iter().map(|row| (row.id.to_string(), row.state)).collect()
        })
    }

    /// Nothing was refused, no window was exceeded, and no email was taken twice.
    pub(crate) fn assert_provider_is_content(&self) {
        let log = self.log();
        let counts = check::counts(&log);
        assert_eq!((counts.refused, counts.duplicates), (0, 0), "{counts:?}");
        let (most, amount) = (check::max_in_window(&log, &limit()), limit().amount);
        assert!(most <= amount, "{most} in a window of {amount}");
        println!("{counts:?}; most in a window {most} of {amount}");
    }

    /// These were taken once each, and the store says so.
    pub(crate) fn assert_accepted_once(&self, numbers: impl IntoIterator<Item = u64>) {
        let (executions, states) = (check::executions(&self.log()), self.states());
        for number in numbers {
            assert_eq!(executions.get(&*id(number)), Some(&1), "{number} at the upstream");
            assert_eq!(states.get(&id(number)), Some(&OperationState::Accepted), "{number} in the store");
        }
    }
}
