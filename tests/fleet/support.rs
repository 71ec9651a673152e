//! Schedulers with one hub and one upstream between them.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use mailweir::clock::{Clock, TokioClock};
use mailweir::config::Config;
use mailweir::engine::{Limit, Timestamp};
use mailweir::scheduler::{Scheduler, SchedulerHandle};
use mailweir::store::hub::{HubStore, MemoryHub};
use mailweir::transport::simulated::SimulatedTransport;
use mailweir::upstream::{Model, Upstream, UpstreamLimit};
use mailweir::{Email, Lane, Submission};

pub(crate) const MAILBOX: &str = "noreply@contoso.example";
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// An instant that looks like today.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_764_500_000_000_000);

/// Runs a test on one thread under paused time.
pub(crate) fn paused<T, F: Future<Output = T>>(test: impl FnOnce() -> F) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async { test().await })
}

pub(crate) async fn pass(span: Duration) {
    tokio::time::sleep(span).await;
}

pub(crate) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn email(from: &str) -> Email {
    let mime = b"Subject: Hello\r\n\r\nHello.\r\n".to_vec();
    Email::from_mime(from, ["kim@example.org"], mime).expect("an email")
}

pub(crate) fn submission(mailbox: &str, id: &str, lane: Lane) -> Submission {
    Submission::new(mailbox, email(mailbox)).operation_id(id).lane(lane)
}

/// 30 requests a minute and four at once, and no other limit.
pub(crate) fn config() -> Config {
    config_of("30 requests / 1m".parse().expect("a limit"), 4)
}

/// One limit per mailbox, so many requests at once, and no other limit.
pub(crate) fn config_of(limit: Limit, connections: u32) -> Config {
    let mut config = Config::default().mailbox_limits([limit]).application_limits([]);
    config.mailbox.concurrency = NonZeroU32::new(connections);
    config
}

/// An upstream that has those limits, and counts what it refuses: the strictest there is.
fn model() -> Model {
    let mut model = Model::new([UpstreamLimit::requests(30, MINUTE)]);
    model.refusals = mailweir::upstream::Refusals::Counted;
    model
}

pub(crate) struct Member {
    pub(crate) scheduler: Option<Scheduler>,
    pub(crate) handle: SchedulerHandle,
    pub(crate) link: HubStore,
}

impl Member {
    /// It is gone without a word.
    pub(crate) fn die(&mut self) {
        drop(self.scheduler.take());
    }

    pub(crate) async fn shut_down(&mut self) {
        if let Some(scheduler) = self.scheduler.take() {
            let _report = scheduler.shutdown().await;
        }
    }

    pub(crate) async fn owns(&self, mailbox: &str) -> bool {
        self.scheduler.is_some() && self.handle.mailbox(mailbox).await.is_ok()
    }
}

/// A hub, an upstream, and whoever joined.
pub(crate) struct Bench {
    pub(crate) clock: Arc<TokioClock>,
    pub(crate) hub: MemoryHub,
    pub(crate) upstream: Arc<Mutex<Upstream>>,
    pub(crate) members: Vec<Member>,
}

impl Bench {
    pub(crate) async fn start(members: usize) -> Self {
        Self::start_with(members, &config()).await
    }

    pub(crate) async fn start_with(members: usize, config: &Config) -> Self {
        Self::start_over(members, config, model()).await
    }

    /// The same over an upstream of another kind.
    pub(crate) async fn start_over(members: usize, config: &Config, model: Model) -> Self {
        let clock = Arc::new(TokioClock::starting_at(START));
        let time = Arc::clone(&clock);
        let hub = MemoryHub::new(Arc::new(move || time.now()));
        let upstream = Arc::new(Mutex::new(Upstream::new(model, 7)));
        let mut bench = Self { clock, hub, upstream, members: Vec::new() };
        for _ in 0..members {
            bench.join(config, START).await;
        }
        bench
    }

    /// Another process, whose own clock shows `own` now.
    pub(crate) async fn join(&mut self, config: &Config, own: Timestamp) {
        let link = self.hub.connect();
        let transport = self.transport();
        let number = self.members.len() as u64;
        let builder = Scheduler::builder(config.clone(), transport)
            .store(link.clone())
            .clock(Arc::new(TokioClock::starting_at(own)))
            .seeds([number + 1, 2]);
        let scheduler = builder.start_on_current_thread().await.expect("the scheduler starts");
        let handle = scheduler.handle();
        self.members.push(Member { scheduler: Some(scheduler), handle, link });
    }

    pub(crate) fn transport(&self) -> SimulatedTransport {
        SimulatedTransport::new(Arc::clone(&self.upstream), Arc::clone(&self.clock) as Arc<dyn Clock>)
    }

    pub(crate) fn upstream(&self) -> MutexGuard<'_, Upstream> {
        self.upstream.lock().expect("not poisoned")
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Who owns the mailbox.
    pub(crate) async fn owner(&self, mailbox: &str) -> Option<usize> {
        for (at, member) in self.members.iter().enumerate() {
            if member.owns(mailbox).await {
                return Some(at);
            }
        }
        None
    }

    /// Emails that the upstream took between two instants.
    pub(crate) fn taken(&self, from: Timestamp, to: Timestamp) -> usize {
        let taken = |arrival: &&mailweir::upstream::Arrival| arrival.executed && arrival.at >= from && arrival.at < to;
        self.upstream().log().iter().filter(taken).count()
    }

    /// What the upstream refused.
    pub(crate) fn refused(&self) -> usize {
        self.upstream().log().iter().filter(|arrival| arrival.status == 429).count()
    }

    /// Every email that arrived more than once.
    pub(crate) fn twice(&self) -> Vec<Arc<str>> {
        let mut counts: BTreeMap<Arc<str>, u32> = BTreeMap::new();
        for arrival in self.upstream().log().iter().filter(|arrival| arrival.executed) {
            *counts.entry(Arc::clone(&arrival.key)).or_default() += 1;
        }
        counts.into_iter().filter(|(_, count)| *count > 1).map(|(key, _)| key).collect()
    }

    /// Hands `count` emails of a mailbox to the members in turn, and detaches.
    pub(crate) async fn fill(&self, mailbox: &str, prefix: &str, count: usize, lane: Lane) {
        let alive: Vec<_> = self.members.iter().filter(|member| member.scheduler.is_some()).collect();
        for number in 0..count {
            let member = alive[number % alive.len()];
            let id = format!("{prefix}-{number}");
            drop(member.handle.submit(submission(mailbox, &id, lane)).await.expect("it is stored"));
        }
    }
}
