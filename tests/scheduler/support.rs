//! A scripted transport, and a world under paused time.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use mailweir::clock::{Clock, TokioClock};
use mailweir::config::Config;
use mailweir::engine::{Limit, Throttle, ThrottleKind, Timestamp};
use mailweir::scheduler::{Scheduler, SchedulerBuilder};
use mailweir::transport::{Answer, Attempt, Transport, Verdict};
use mailweir::{Email, Lane, Submission};

pub(crate) const MAILBOX: &str = "noreply@contoso.example";

/// An instant that looks like today, so that ids and deadlines are ordinary.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_764_500_000_000_000);

/// Runs a test on one thread under paused time.
pub(crate) fn paused<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async { test().await });
}

/// A builder with the test's clock and fixed seeds.
pub(crate) fn builder(config: Config, transport: impl Transport) -> SchedulerBuilder {
    Scheduler::builder(config, transport).clock(Arc::new(TokioClock::starting_at(START))).seeds([1, 2])
}

pub(crate) async fn start(config: Config, transport: impl Transport) -> Scheduler {
    builder(config, transport).start_on_current_thread().await.expect("the scheduler starts")
}

/// No limits anywhere: for tests that are not about waiting.
pub(crate) fn unlimited() -> Config {
    let mut config = Config::default().mailbox_limits([]).application_limits([]);
    config.mailbox.concurrency = None;
    config
}

/// One limit on every mailbox, and nothing else.
pub(crate) fn limited(limit: &str) -> Config {
    let limit: Limit = limit.parse().expect("a limit");
    let mut config = Config::default().mailbox_limits([limit]).application_limits([]);
    config.mailbox.concurrency = None;
    config
}

pub(crate) fn email() -> Email {
    email_of("Hello")
}

pub(crate) fn email_of(subject: &str) -> Email {
    let mime = format!("Subject: {subject}\r\n\r\nHello.\r\n");
    Email::from_mime(MAILBOX, ["kim@example.org"], mime.into_bytes()).expect("an email")
}

pub(crate) fn submission(id: &str) -> Submission {
    Submission::new(MAILBOX, email()).operation_id(id)
}

pub(crate) fn foreground(id: &str) -> Submission {
    submission(id).lane(Lane::Foreground)
}

/// One that is not sent before the first minute of the test is over.
pub(crate) fn in_a_minute(id: &str) -> Submission {
    let minute = SystemTime::UNIX_EPOCH + START.since(Timestamp::EPOCH) + Duration::from_secs(60);
    foreground(id).not_before(minute).deadline(Duration::from_secs(3_600))
}

pub(crate) const fn throttled(retry_after: Option<Duration>) -> Verdict {
    Verdict::Throttled(Throttle { retry_after, scope: None, kind: ThrottleKind::Rate })
}

type Script = dyn Fn(&Attempt) -> BoxFuture<'static, Answer> + Send + Sync;

/// Answers as a test says, and remembers what it was given. Clones share both.
#[derive(Clone)]
pub(crate) struct Scripted {
    script: Arc<Script>,
    clock: Arc<Mutex<Option<Arc<TokioClock>>>>,
    seen: Arc<Mutex<Vec<(String, u32, Duration)>>>,
}

impl Scripted {
    pub(crate) fn new<F>(script: impl Fn(&Attempt) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let script: Arc<Script> = Arc::new(move |attempt| Box::pin(script(attempt)));
        Self { script, clock: Arc::default(), seen: Arc::default() }
    }

    /// Accepts everything at once.
    pub(crate) fn accepting() -> Self {
        Self::new(|_| async { Verdict::Accepted.into() })
    }

    /// Accepts everything after `latency`.
    pub(crate) fn slow(latency: Duration) -> Self {
        Self::new(move |_| async move {
            tokio::time::sleep(latency).await;
            Verdict::Accepted.into()
        })
    }

    /// Ids in the order in which they were sent.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.seen.lock().expect("not poisoned").iter().map(|(id, ..)| id.clone()).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.seen.lock().expect("not poisoned").len()
    }

    /// When each attempt was made, since the first look at the clock.
    pub(crate) fn instants(&self) -> Vec<Duration> {
        self.seen.lock().expect("not poisoned").iter().map(|(_, _, at)| *at).collect()
    }

    fn now(&self) -> Duration {
        let mut clock = self.clock.lock().expect("not poisoned");
        clock.get_or_insert_with(|| Arc::new(TokioClock::starting_at(START))).now().since(START)
    }

    /// Starts this transport's clock.
    pub(crate) fn begin(self) -> Self {
        let _ = self.now();
        self
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

impl Transport for Scripted {
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Answer> {
        let at = self.now();
        self.seen.lock().expect("not poisoned").push((attempt.operation_id.to_string(), attempt.number, at));
        (self.script)(&attempt)
    }
}
