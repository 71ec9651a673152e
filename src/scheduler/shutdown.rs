//! Stopping: no more intake, let end what is in flight, leave the rest in the store.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::select;
use futures::stream::FuturesUnordered;
use tokio::sync::oneshot;

use super::builder::Scheduler;
use crate::actor::{Drained, Question, Rung, Seat, SharedItem};
use crate::telemetry::EventKind;

/// What an actor has to say what a drain left, after `shutdown.drain_deadline`: a turn takes far less.
const LAST_WORD_MAX: Duration = Duration::from_secs(1);

/// What a shutdown left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Attempts in flight that ended accepted.
    pub accepted: u64,
    /// Operations that stay in the store for the next start, and submissions handed back to their callers.
    pub returned: u64,
    /// Attempts whose outcome is not known.
    pub unknown: u64,
}

impl Scheduler {
    /// Stops: takes nothing more in (what comes later is handed back), waits for what is in flight up to
    /// `shutdown.drain_deadline`, writes what is still out then as unknown, and leaves the rest in the store. It is over at
    /// most a second later, or over a shared store `fleet.renew_every` (5 s) after that. With a
    /// [`MemoryStore`](crate::store::MemoryStore) the rest ends with the process. A mailbox that has
    /// not been read since the start is left as it is, and counted nowhere.
    ///
    /// # Cancel safety
    /// Dropping the future stops at once, as dropping the scheduler does.
    pub async fn shutdown(self) -> ShutdownReport {
        let world = &self.handle.world;
        world.close();
        let deadline = world.settings.load().config.shutdown.drain_deadline;
        let mut over = pin!(tokio::time::sleep(deadline.saturating_add(LAST_WORD_MAX)));
        let seats = world.directory.all();
        let mut total = Drained::default();
        // What has not ended by then is counted after it; an actor that does not even count is not waited for.
        let busy = ask_all(&seats, deadline, |answer| Question::Drain { answer }, &mut total).await;
        ask_all(&busy, LAST_WORD_MAX, |answer| Question::Remaining { answer }, &mut total).await;
        // What the last answers meant for the shared scopes is known there by now, and written soon after.
        let (answer, settled) = oneshot::channel();
        world.shared.push(SharedItem::Settle(answer));
        drop(select(settled, &mut over).await);
        if let Some(fleet) = &world.fleet {
            fleet.release_drained().await;
        }
        let Drained { accepted, returned, unknown } = total;
        world.reporter.report(world.clock.now(), EventKind::ShutdownFinished { accepted, returned, unknown });
        ShutdownReport { accepted, returned, unknown }
    }
}

/// Asks every actor, adds up what they say, and returns those that have not answered in time.
async fn ask_all(
    seats: &[Arc<Seat>],
    within: Duration,
    question: impl Fn(oneshot::Sender<Drained>) -> Question,
    total: &mut Drained,
) -> Vec<Arc<Seat>> {
    let asked = seats.iter().enumerate().map(|(at, seat)| {
        let question = &question;
        async move { (at, put(seat, question).await) }
    });
    let mut asked: FuturesUnordered<_> = asked.collect();
    let mut silent = vec![true; seats.len()];
    let all = async {
        while let Some((at, drained)) = asked.next().await {
            silent[at] = false;
            *total += drained.unwrap_or_default();
        }
    };
    let _ = tokio::time::timeout(within, all).await;
    seats.iter().zip(silent).filter(|(_, silent)| *silent).map(|(seat, _)| Arc::clone(seat)).collect()
}

/// Asks an actor although the scheduler is closing. `None`: nobody is there, and its operations are in the store.
async fn put(seat: &Seat, question: impl FnOnce(oneshot::Sender<Drained>) -> Question) -> Option<Drained> {
    let (sender, answer) = oneshot::channel();
    match seat.ingress().order(question(sender)) {
        Ok(Rung::Heard) => answer.await.ok(),
        Ok(Rung::Dead) | Err(_) => None,
    }
}
