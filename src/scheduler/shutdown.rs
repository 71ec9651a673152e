//! Stopping: no more intake, let end what is in flight, leave the rest in the store.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::oneshot;

use super::builder::Scheduler;
use crate::actor::{Drained, Question, Seat};
use crate::telemetry::EventKind;

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
    /// `shutdown.drain_deadline`, and leaves the rest in the store. With a [`MemoryStore`](crate::store::MemoryStore)
    /// the rest ends with the process.
    ///
    /// # Cancel safety
    /// Dropping the future stops at once, as dropping the scheduler does.
    pub async fn shutdown(self) -> ShutdownReport {
        let world = &self.handle.world;
        world.close();
        let deadline = world.settings.load().config.shutdown.drain_deadline;
        let seats = world.directory.all();
        let mut draining: FuturesUnordered<_> = seats.iter().enumerate().map(|(at, seat)| drain(at, seat)).collect();
        let mut open = vec![true; seats.len()];
        let mut total = Drained::default();
        let all = async {
            while let Some((at, drained)) = draining.next().await {
                open[at] = false;
                total += drained.unwrap_or_default();
            }
        };
        // What has not ended by then is counted below.
        let _ = tokio::time::timeout(deadline, all).await;
        drop(draining);
        for seat in seats.iter().zip(&open).filter(|(_, open)| **open).map(|(seat, _)| seat) {
            total += remaining(seat).await.unwrap_or_default();
        }
        let Drained { accepted, returned, unknown } = total;
        world.reporter.report(world.clock.now(), EventKind::ShutdownFinished { accepted, returned, unknown });
        ShutdownReport { accepted, returned, unknown }
    }
}

async fn drain(at: usize, seat: &Seat) -> (usize, Option<Drained>) {
    (at, put(seat, |answer| Question::Drain { answer }).await)
}

async fn remaining(seat: &Seat) -> Option<Drained> {
    put(seat, |answer| Question::Remaining { answer }).await
}

/// Asks an actor although the scheduler is closing.
async fn put(seat: &Seat, question: impl FnOnce(oneshot::Sender<Drained>) -> Question) -> Option<Drained> {
    let (sender, answer) = oneshot::channel();
    // A dead actor answers nothing; its operations are in the store.
    seat.ingress().order(question(sender));
    answer.await.ok()
}
