//! From the actors' thread to the transport: one task on the host's runtime makes the attempts.
//!
//! The actors' thread polls no transport: a slow TLS handshake of one mailbox would be a late decision of another.
//! Actors put jobs here, once per turn; the dispatcher takes them all, polls each once, and spawns on the host's
//! runtime what is not done by then. Whatever happens to an attempt, something comes back: its deadline and its panic
//! both end as *unknown*, because a byte may have left before either. Nothing that panics here ends the dispatcher.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::Notify;
use tracing::Span;

use super::journal::guard;
use super::reply::Reply;
use super::seat::Seat;
use super::span::AttemptSpan;
use super::world::World;
use crate::engine::{Answer, OperationKey, Timestamp, Verdict};
use crate::telemetry::{AttemptLabel, EventKind};
use crate::transport::Attempt;

/// One thing to do with the transport.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) seat: Arc<Seat>,
    pub(crate) key: OperationKey,
    pub(crate) work: Work,
}

#[derive(Debug)]
pub(crate) enum Work {
    /// Make this attempt; nothing may leave after `deadline`.
    Send { attempt: Attempt, deadline: Timestamp },
    /// Look up what became of this attempt. Its email is read from the store when the actor no longer has it.
    Reconcile { attempt: Option<Attempt>, describe: Describe },
}

/// What a look-up needs besides the email.
#[derive(Debug)]
pub(crate) struct Describe {
    pub(crate) operation_id: Arc<str>,
    pub(crate) lane: crate::engine::Lane,
    pub(crate) number: u32,
}

/// Longest look-up of an unknown.
const RECONCILE_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Outlet {
    jobs: Mutex<Vec<Job>>,
    news: Notify,
}

impl Outlet {
    /// Hands over what one turn produced.
    pub(crate) fn put(&self, jobs: &mut Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).append(jobs);
        self.news.notify_one();
    }

    fn take(&self, into: &mut Vec<Job>) {
        into.append(&mut self.jobs.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The dispatcher. Runs on the host's runtime until the scheduler stops.
pub(crate) async fn dispatch(world: Arc<World>) {
    let batch_max = catch_unwind(AssertUnwindSafe(|| world.transport.batch_max())).unwrap_or(1);
    let mut jobs = Vec::new();
    while world.stop.run_until_cancelled(world.outlet.news.notified()).await.is_some() {
        world.outlet.take(&mut jobs);
        launch(&world, &mut jobs, batch_max);
        // A turn of the host's other tasks, so that a stream of ready attempts cannot starve them.
        tokio::task::yield_now().await;
    }
}

/// Starts everything that one look into the outlet found.
fn launch(world: &Arc<World>, jobs: &mut Vec<Job>, batch_max: usize) {
    let mut batch = Vec::new();
    for Job { seat, key, work } in jobs.drain(..) {
        match work {
            Work::Send { attempt, deadline } => {
                let flight = Flight { seat, key, number: attempt.number };
                let Some(attempt) = ready(world, &flight, attempt, deadline) else { continue };
                if batch_max > 1 {
                    batch.push((flight, attempt));
                } else {
                    start(world, [flight.clone()], send_one(world, flight, attempt));
                }
            }
            Work::Reconcile { attempt, describe } => {
                start(world, [], reconcile(Arc::clone(world), seat, key, attempt, describe));
            }
        }
    }
    while !batch.is_empty() {
        let rest = batch.split_off(batch.len().min(batch_max));
        let several = std::mem::replace(&mut batch, rest);
        let aboard: Vec<Flight> = several.iter().map(|(flight, _)| flight.clone()).collect();
        start(world, aboard, send_several(Arc::clone(world), several));
    }
}

/// Polls `future` once here, and hands the rest of it to the host's runtime. If it panics, whatever is aboard lands all
/// the same: an attempt that has landed already does not land twice.
fn start(
    world: &Arc<World>,
    aboard: impl IntoIterator<Item = Flight> + Send + 'static,
    future: impl Future<Output = ()> + Send + 'static,
) {
    let world = Arc::clone(world);
    let mut future = Box::pin(async move {
        if AssertUnwindSafe(future).catch_unwind().await.is_err() {
            aboard.into_iter().for_each(|flight| flight.land(&world, Err(Lost::Panicked)));
        }
    });
    if future.as_mut().now_or_never().is_none() {
        tokio::spawn(future);
    }
}

/// One attempt on its way.
#[derive(Clone)]
struct Flight {
    seat: Arc<Seat>,
    key: OperationKey,
    number: u32,
}

impl Flight {
    /// Brings the attempt's end home. Whatever kept the transport from telling, a byte may have left before it.
    fn land(self, world: &World, answer: Result<Answer, Lost>) {
        let (key, attempt) = (self.key, self.number);
        let reply = match answer {
            Ok(answer) => Reply::Finished { key, attempt, answer },
            Err(Lost::TimedOut) => Reply::Finished { key, attempt, answer: Verdict::Unknown.into() },
            Err(Lost::Panicked) => {
                let mailbox = Arc::clone(self.seat.id());
                world.reporter.report(world.clock.now(), EventKind::TransportPanicked { mailbox });
                Reply::Crashed { key, attempt }
            }
        };
        world.reply(&self.seat, reply);
    }
}

/// Sets the attempt's timeout, or ends it when there is no time left: nothing has left the machine then.
fn ready(world: &World, flight: &Flight, mut attempt: Attempt, deadline: Timestamp) -> Option<Attempt> {
    let left = deadline.since(world.clock.now());
    let owned = world.fleet.as_ref().is_none_or(|fleet| fleet.may_send(flight.seat.id()));
    if left.is_zero() || !owned {
        world.reply(&flight.seat, Reply::Unsent { key: flight.key, attempt: flight.number });
        return None;
    }
    attempt.timeout = left;
    Some(attempt)
}

async fn bounded<T>(timeout: Duration, call: impl Future<Output = T>) -> Result<T, Lost> {
    let mut call = pin!(AssertUnwindSafe(call).catch_unwind());
    // What is done at once needs no timer.
    let done = match futures::poll!(call.as_mut()) {
        Poll::Ready(done) => Ok(done),
        Poll::Pending => tokio::time::timeout(timeout, call).await,
    };
    match done {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_panic)) => Err(Lost::Panicked),
        Err(_elapsed) => Err(Lost::TimedOut),
    }
}

/// Why the transport said nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    TimedOut,
    Panicked,
}

fn send_one(world: &Arc<World>, flight: Flight, attempt: Attempt) -> impl Future<Output = ()> + Send + 'static {
    let world = Arc::clone(world);
    async move {
        let timeout = attempt.timeout;
        let span = AttemptSpan::begin(|| span(&world, &attempt));
        let call = async { world.transport.send(attempt).await };
        let answer = span.around(bounded(timeout, call)).await;
        let verdict = answer.as_ref().map_or(&Verdict::Unknown, |answer| &answer.verdict);
        if *verdict != Verdict::Accepted {
            span.mark(|span| world.reporter.telemetry().mark_failed(span, verdict.as_str()));
        }
        flight.land(&world, answer);
    }
}

/// The attempt's span, open only while the transport works.
fn span(world: &World, attempt: &Attempt) -> Span {
    let label = AttemptLabel {
        lane: attempt.lane,
        mailbox: &attempt.mailbox,
        operation_id: &attempt.operation_id,
        attempt: attempt.number,
    };
    world.reporter.telemetry().attempt_span(&label, None)
}

async fn send_several(world: Arc<World>, several: Vec<(Flight, Attempt)>) {
    let timeout = several.iter().map(|(_, attempt)| attempt.timeout).min().unwrap_or_default();
    let (flights, attempts): (Vec<Flight>, Vec<Attempt>) = several.into_iter().unzip();
    let answers = bounded(timeout, async { world.transport.send_many(attempts).await }).await;
    // A transport that answers fewer items than it was given leaves the rest unknown. One that panics on a batch does
    // not say on which of them: each is suspected.
    let missing = answers.as_ref().err().copied().unwrap_or(Lost::TimedOut);
    let mut answers = answers.unwrap_or_default().into_iter();
    for flight in flights {
        flight.land(&world, answers.next().ok_or(missing));
    }
}

async fn reconcile(
    world: Arc<World>,
    seat: Arc<Seat>,
    key: OperationKey,
    attempt: Option<Attempt>,
    describe: Describe,
) {
    let attempt = match attempt {
        Some(attempt) => attempt,
        None => {
            // Without the email nothing can be looked up; the engine asks again by itself.
            let Ok(Some(email)) = guard(|| world.store.email(key)).await else { return };
            describe.attempt(&seat, email)
        }
    };
    let known = bounded(RECONCILE_TIMEOUT, async { world.transport.reconcile(attempt).await }).await;
    if let Ok(Some(accepted)) = known {
        world.reply(&seat, Reply::Resolved { key, accepted });
    }
}

impl Describe {
    pub(crate) fn attempt(&self, seat: &Seat, email: crate::email::Email) -> Attempt {
        Attempt {
            operation_id: Arc::clone(&self.operation_id),
            mailbox: Arc::clone(seat.id()),
            lane: self.lane,
            number: self.number,
            email,
            timeout: RECONCILE_TIMEOUT,
        }
    }
}
