//! A scheduler over a simulated upstream under paused time, and what is recorded of it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::BoxFuture;
use mailweir::clock::{Clock, TokioClock};
use mailweir::config::Config;
use mailweir::engine::{Limit, Timestamp};
use mailweir::scheduler::{Events, Scheduler, SchedulerBuilder, SchedulerHandle};
use mailweir::telemetry::SchedulerEvent;
use mailweir::transport::simulated::SimulatedTransport;
use mailweir::transport::{Answer, Attempt, Transport};
use mailweir::upstream::{Model, Upstream};
use mailweir::{Email, Lane, Outcome, Submission, Ticket};

pub(crate) const MAILBOX: &str = "noreply@contoso.example";
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// An instant that looks like today, so that ids and deadlines are ordinary.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_764_500_000_000_000);

/// Runs a test on one thread under paused time.
pub(crate) fn paused<T, F: Future<Output = T>>(test: impl FnOnce() -> F) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async { test().await })
}

pub(crate) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn limits(texts: &[&str]) -> Vec<Limit> {
    texts.iter().map(|text| text.parse().expect("a limit")).collect()
}

/// No limits anywhere: for tests that are not about windows.
pub(crate) fn unlimited() -> Config {
    let mut config = Config::default().mailbox_limits([]).application_limits([]);
    config.mailbox.concurrency = None;
    config
}

pub(crate) fn email(from: &str) -> Email {
    let mime = b"Subject: Hello\r\n\r\nHello.\r\n".to_vec();
    Email::from_mime(from, ["kim@example.org"], mime).expect("an email")
}

pub(crate) fn submission(mailbox: &str, id: &str, lane: Lane) -> Submission {
    Submission::new(mailbox, email(mailbox)).operation_id(id).lane(lane)
}

/// Waits for a ticket that has to end accepted.
pub(crate) async fn accepted(ticket: Ticket) {
    let id = ticket.operation_id();
    let outcome = ticket.outcome().await.expect("an outcome");
    assert!(matches!(outcome, Outcome::Accepted { .. }), "{id}: {outcome:?}");
}

/// Everything that has happened since these events were last looked at.
pub(crate) fn seen(events: &mut Events) -> Vec<SchedulerEvent> {
    let next = || futures::FutureExt::now_or_never(events.next()).flatten();
    std::iter::from_fn(next).map(|event| event.expect("the reader keeps up")).collect()
}

/// A scheduler, its upstream, and the record of its attempts.
pub(crate) struct Bench {
    pub(crate) scheduler: Scheduler,
    pub(crate) handle: SchedulerHandle,
    pub(crate) clock: Arc<TokioClock>,
    pub(crate) upstream: Arc<Mutex<Upstream>>,
    pub(crate) record: Record,
}

impl Bench {
    pub(crate) async fn start(config: Config, model: Model, seed: u64) -> Self {
        Self::start_with(config, model, seed, |builder| builder).await
    }

    pub(crate) async fn start_with(
        config: Config,
        model: Model,
        seed: u64,
        with: impl FnOnce(SchedulerBuilder) -> SchedulerBuilder,
    ) -> Self {
        let clock = Arc::new(TokioClock::starting_at(START));
        let upstream = Arc::new(Mutex::new(Upstream::new(model, seed)));
        let inner = SimulatedTransport::new(Arc::clone(&upstream), Arc::clone(&clock) as Arc<dyn Clock>);
        let record = Record::of(inner, Arc::clone(&clock));
        let builder = Scheduler::builder(config, record.clone()).clock(Arc::clone(&clock) as Arc<dyn Clock>);
        let scheduler = with(builder.seeds([seed, 2])).start_on_current_thread().await.expect("the scheduler starts");
        let handle = scheduler.handle();
        Self { scheduler, handle, clock, upstream, record }
    }

    pub(crate) fn upstream(&self) -> MutexGuard<'_, Upstream> {
        self.upstream.lock().expect("not poisoned")
    }
}

/// One attempt as the transport saw it.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) mailbox: Arc<str>,
    pub(crate) started: Timestamp,
    pub(crate) ended: Option<Timestamp>,
    pub(crate) outcome: &'static str,
}

impl Flight {
    pub(crate) fn overlaps(&self, at: Timestamp) -> bool {
        self.started <= at && self.ended.is_none_or(|ended| ended > at)
    }
}

/// Passes attempts on and writes down when each started and ended. Clones share the record.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    inner: Arc<dyn Transport>,
    clock: Arc<TokioClock>,
    flights: Arc<Mutex<Vec<Flight>>>,
}

impl Record {
    pub(crate) fn of(inner: impl Transport, clock: Arc<TokioClock>) -> Self {
        Self { inner: Arc::new(inner), clock, flights: Arc::default() }
    }

    /// In the order in which they started.
    pub(crate) fn flights(&self) -> Vec<Flight> {
        self.flights.lock().expect("not poisoned").clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.flights.lock().expect("not poisoned").len()
    }
}

impl Transport for Record {
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            let (mailbox, started) = (Arc::clone(&attempt.mailbox), self.clock.now());
            let at = {
                let mut flights = self.flights.lock().expect("not poisoned");
                flights.push(Flight { mailbox, started, ended: None, outcome: "in flight" });
                flights.len() - 1
            };
            let answer = self.inner.send(attempt).await;
            let mut flights = self.flights.lock().expect("not poisoned");
            (flights[at].ended, flights[at].outcome) = (Some(self.clock.now()), answer.verdict.as_str());
            drop(flights);
            answer
        })
    }

    fn reconcile(&self, attempt: Attempt) -> BoxFuture<'_, Option<bool>> {
        self.inner.reconcile(attempt)
    }
}

/// Answers one attempt after the other as a list says, and accepts what comes after the list.
#[derive(Clone)]
pub(crate) struct Listed(Arc<Mutex<VecDeque<(Duration, Answer)>>>);

impl Listed {
    pub(crate) fn new(answers: impl IntoIterator<Item = (Duration, Answer)>) -> Self {
        Self(Arc::new(Mutex::new(answers.into_iter().collect())))
    }
}

impl fmt::Debug for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listed")
    }
}

impl Transport for Listed {
    fn send(&self, _: Attempt) -> BoxFuture<'_, Answer> {
        let next = self.0.lock().expect("not poisoned").pop_front();
        Box::pin(async move {
            let (latency, answer) =
                next.unwrap_or_else(|| (millis(100), mailweir::transport::Verdict::Accepted.into()));
            tokio::time::sleep(latency).await;
            answer
        })
    }
}
