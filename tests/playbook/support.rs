//! A scheduler over the simulated upstream under paused time, and what is asked of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use mailweir::clock::{Clock, TokioClock};
use mailweir::config::Config;
use mailweir::engine::{OperationState, Ratio, Scope, Timestamp};
use mailweir::scheduler::{Events, Scheduler, SchedulerHandle};
use mailweir::store::OperationRecord;
use mailweir::telemetry::EventKind;
use mailweir::transport::simulated::SimulatedTransport;
use mailweir::upstream::{Block, Latency, LogNormal, Model, Schedule, Upstream};
use mailweir::{Email, Lane, Submission};

pub(crate) const MAILBOX: &str = "noreply@contoso.example";
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const START: Timestamp = Timestamp::from_micros(1_764_500_000_000_000);
/// What a send takes at the upstream.
pub(crate) const SERVICE: Duration = Duration::from_millis(300);

pub(crate) fn paused<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async { test().await });
}

pub(crate) fn unlimited() -> Config {
    let mut config = Config::default().mailbox_limits([]).application_limits([]);
    config.mailbox.concurrency = None;
    config
}

/// An upstream that takes [`SERVICE`] for a send.
pub(crate) fn model() -> Model {
    let mut model = Model::new([]);
    let service = LogNormal::new(SERVICE, Ratio::ZERO);
    model.latency = Latency { service, longest: Duration::from_secs(600), ..Latency::ZERO };
    model
}

/// Certain in the first second, impossible afterwards: it befalls the first attempt.
pub(crate) fn at_first() -> Schedule<Ratio> {
    Schedule::always(Ratio::ONE).then(START.after(Duration::from_secs(1)), Ratio::ZERO)
}

pub(crate) fn reset(id: &str) -> Submission {
    let mime = b"Subject: Reset your password\r\n\r\nHello.\r\n".to_vec();
    let email = Email::from_mime(MAILBOX, ["kim@example.org"], mime).expect("an email");
    Submission::new(MAILBOX, email).operation_id(id).lane(Lane::Foreground)
}

pub(crate) struct Desk {
    pub(crate) handle: SchedulerHandle,
    pub(crate) clock: Arc<TokioClock>,
    pub(crate) upstream: Arc<Mutex<Upstream>>,
    events: Events,
    _scheduler: Scheduler,
}

impl Desk {
    pub(crate) async fn new(config: Config, model: Model) -> Self {
        Self::seeing_after(config, model, Duration::ZERO).await
    }

    /// A desk whose look-ups see an email only so long after it was taken.
    pub(crate) async fn seeing_after(config: Config, model: Model, delay: Duration) -> Self {
        let clock = Arc::new(TokioClock::starting_at(START));
        let upstream = Arc::new(Mutex::new(Upstream::new(model, 1)));
        let shared = Arc::clone(&clock) as Arc<dyn Clock>;
        let transport = SimulatedTransport::new(Arc::clone(&upstream), Arc::clone(&shared)).visible_after(delay);
        let builder = Scheduler::builder(config, transport).clock(shared).seeds([1, 2]);
        let scheduler = builder.start_on_current_thread().await.expect("the scheduler starts");
        let handle = scheduler.handle();
        Self { events: handle.events(), handle, clock, upstream, _scheduler: scheduler }
    }

    pub(crate) async fn record(&self, id: &str) -> OperationRecord {
        self.handle.operation(id).await.expect("a store").expect("stored")
    }

    pub(crate) async fn state(&self, id: &str) -> OperationState {
        self.record(id).await.state
    }

    /// Lets time pass until so long after the start.
    pub(crate) async fn wait_until(&self, since_start: Duration) {
        let left = START.after(since_start).since(self.clock.now());
        tokio::time::sleep(left).await;
    }

    pub(crate) fn clock_since_start(&self) -> Duration {
        self.clock.now().since(START)
    }

    /// Emails that the provider took, and requests that reached it.
    pub(crate) fn copies_and_requests(&self) -> (usize, usize) {
        let upstream = self.upstream.lock().expect("not poisoned");
        let requests: Vec<bool> = upstream.log().client().map(|arrival| arrival.executed).collect();
        (requests.iter().filter(|executed| **executed).count(), requests.len())
    }

    pub(crate) fn events(&mut self) -> Vec<EventKind> {
        let next = || self.events.next().now_or_never().flatten();
        std::iter::from_fn(next).map(|event| event.expect("the reader keeps up").kind).collect()
    }

    /// The names of what has happened since this was last asked.
    pub(crate) fn names(&mut self) -> Vec<&'static str> {
        self.events().iter().map(EventKind::name).collect()
    }

    /// The outcomes of attempts among what has happened since this was last asked.
    pub(crate) fn attempts(&mut self) -> Vec<(&'static str, Option<u16>)> {
        let finished = |kind: EventKind| match kind {
            EventKind::AttemptFinished { outcome, status, .. } => Some((outcome, status)),
            _ => None,
        };
        self.events().into_iter().filter_map(finished).collect()
    }
}

/// The mailbox is refused outright for so long.
pub(crate) fn block(lasts: Duration) -> Block {
    Block { scope: Scope::Mailbox(MAILBOX.into()), from: START, until: START.after(lasts) }
}
