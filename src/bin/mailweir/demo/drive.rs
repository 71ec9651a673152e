//! Hands the plan over, waits for what becomes of it, and ends on time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mailweir::clock::Clock;
use mailweir::engine::Timestamp;
use mailweir::{Lane, Outcome, SubmitError, Ticket};
use tokio::task::JoinSet;

use super::plan::Plan;
use super::stage::Stage;
use super::watch::Watch;

/// How often the display is brought up to date.
const TICK: Duration = Duration::from_millis(200);

/// What became of the emails, as far as their senders were told.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) ending: Ending,
    /// Per email of the plan; `None`: its sender was still waiting at the end.
    pub(crate) told: Vec<Option<Told>>,
}

/// How the run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Every sender has an answer.
    Settled,
    /// The time was up.
    Late,
    /// Ctrl-C.
    Interrupted,
}

/// What the sender of one email was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Accepted,
    /// Another final state, or unknown.
    NotAccepted,
    /// It was not taken in: nothing was stored.
    Refused,
}

/// How far it is, for the display.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    accepted: [AtomicUsize; 2],
}

impl Progress {
    pub(crate) fn accepted(&self, lane: Lane) -> usize {
        self.accepted[lane as usize].load(Ordering::Relaxed)
    }
}

type Answered = (usize, Told);

/// Plays the plan.
pub(crate) async fn run(plan: &Plan, stage: &Stage, watch: &Watch) -> Run {
    let mut told = vec![None; plan.emails.len()];
    let mut waiting: JoinSet<Vec<Answered>> = JoinSet::new();
    people(plan, stage, watch, &mut waiting);
    campaign(plan, stage, watch, &mut waiting);
    let mut tick = tokio::time::interval(TICK);
    // The bound of the whole demo; whoever is through before does not wait for it.
    let over = tokio::time::sleep(until(stage, stage.start.after(plan.length_max)));
    let mut over = std::pin::pin!(over);
    let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
    let ending = loop {
        tokio::select! {
            answered = waiting.join_next() => match answered {
                // A task that panicked answered nothing: its emails stay without an answer, which is reported.
                Some(answered) => answered.unwrap_or_default().into_iter().for_each(|(n, what)| told[n] = Some(what)),
                None => break Ending::Settled,
            },
            () = &mut over => break Ending::Late,
            // Without a handler Ctrl-C ends the program by itself.
            Ok(()) = &mut interrupt => break Ending::Interrupted,
            _ = tick.tick() => watch.show(stage.clock.now().since(stage.start)),
        }
    };
    watch.show(stage.clock.now().since(stage.start));
    Run { ending, told }
}

fn until(stage: &Stage, at: Timestamp) -> Duration {
    at.since(stage.clock.now())
}

/// One task per person: they do not wait for each other.
fn people(plan: &Plan, stage: &Stage, watch: &Watch, waiting: &mut JoinSet<Vec<Answered>>) {
    for (n, planned) in plan.lane(Lane::Foreground) {
        let (handle, progress) = (stage.handle.clone(), watch.progress());
        let (submission, wait) = (planned.submission(), until(stage, stage.start.after(planned.after)));
        waiting.spawn(async move {
            // The plan says when a person comes; this is their clock.
            tokio::time::sleep(wait).await;
            let ticket = handle.submit(submission).await;
            vec![(n, answer(ticket, &progress.accepted[Lane::Foreground as usize]).await)]
        });
    }
}

/// The campaign is handed over in one piece.
fn campaign(plan: &Plan, stage: &Stage, watch: &Watch, waiting: &mut JoinSet<Vec<Answered>>) {
    let (handle, progress) = (stage.handle.clone(), watch.progress());
    let (places, submissions): (Vec<usize>, Vec<_>) =
        plan.lane(Lane::Background).map(|(n, planned)| (n, planned.submission())).unzip();
    let wait = until(stage, stage.start);
    waiting.spawn(async move {
        // The campaign begins when the stage is set.
        tokio::time::sleep(wait).await;
        let tickets = handle.submit_many(submissions).await;
        let answers = places.into_iter().zip(tickets).map(|(n, ticket)| {
            let progress = &progress.accepted[Lane::Background as usize];
            async move { (n, answer(ticket, progress).await) }
        });
        futures::future::join_all(answers).await
    });
}

async fn answer(ticket: Result<Ticket, SubmitError>, accepted: &AtomicUsize) -> Told {
    let Ok(ticket) = ticket else { return Told::Refused };
    match ticket.outcome().await {
        Ok(Outcome::Accepted { .. }) => {
            accepted.fetch_add(1, Ordering::Relaxed);
            Told::Accepted
        }
        _ => Told::NotAccepted,
    }
}
