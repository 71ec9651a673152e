//! Waits, ends, stalls, backlog.

use std::time::Duration;

use crate::engine::mailbox::Outcome;
use crate::engine::{Lane, Timestamp};
use crate::simulation::{Ended, World};

/// One lane's figures.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct LaneFigures {
    /// Operations submitted.
    pub submitted: u64,
    /// Those accepted.
    pub accepted: u64,
    /// Half of the accepted ones waited no longer, from their submission to the provider's answer.
    pub wait_p50: Duration,
    /// 99 in 100 waited no longer.
    pub wait_p99: Duration,
    /// The longest.
    pub wait_max: Duration,
    /// From the start to the last acceptance.
    pub done: Duration,
    /// The same for the optimum, where it is known.
    pub done_at_best: Option<Duration>,
}

impl LaneFigures {
    pub(super) fn of(world: &World, lane: Lane, best: Option<&[Option<Timestamp>]>) -> Self {
        let ended = || accepted(world).filter(|ended| ended.lane == lane);
        let mut waits: Vec<Duration> = ended().map(|ended| ended.ended_at.since(ended.submitted_at)).collect();
        waits.sort_unstable();
        let at = |percent: usize| waits.get(waits.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default();
        let mine = || world.traced.iter().enumerate().filter(|(_, traced)| traced.lane == lane);
        let done = ended().map(|ended| ended.ended_at).max().unwrap_or(world.start());
        let best = best.and_then(|best| mine().filter_map(|(place, _)| best.get(place).copied().flatten()).max());
        Self {
            submitted: mine().filter(|(_, traced)| traced.submitted_at <= world.now()).count() as u64,
            accepted: waits.len() as u64,
            wait_p50: at(50),
            wait_p99: at(99),
            wait_max: at(100),
            done: done.since(world.start()),
            done_at_best: best.map(|at| at.since(world.start())),
        }
    }

    /// The part of the optimum's rate that this lane reached; `None` when not all of it was accepted.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        ratio(self.done_at_best.filter(|_| self.accepted == self.submitted && self.accepted > 0)?, self.done)
    }
}

pub(super) fn ratio(best: Duration, taken: Duration) -> Option<f64> {
    (!taken.is_zero()).then(|| best.as_secs_f64() / taken.as_secs_f64())
}

fn accepted(world: &World) -> impl Iterator<Item = &Ended> {
    world.ended().iter().filter(|ended| matches!(ended.outcome, Outcome::Accepted { .. }))
}

pub(super) fn makespan(world: &World) -> Duration {
    let first = world.traced.iter().map(|traced| traced.submitted_at).min();
    let last = accepted(world).map(|ended| ended.ended_at).max();
    first.zip(last).map_or(Duration::ZERO, |(first, last)| last.since(first))
}

/// How many operations of each lane wait or are under way, foreground first, from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// From when.
    pub at: Timestamp,
    /// How many.
    pub lanes: [i64; 2],
}

/// The backlog at each of its changes.
#[must_use]
pub fn backlog(world: &World) -> Vec<Backlog> {
    let mut steps: Vec<(Timestamp, usize, i64)> =
        world.traced.iter().map(|traced| (traced.submitted_at, traced.lane as usize, 1)).collect();
    steps.extend(world.ended().iter().map(|ended| (ended.ended_at, ended.lane as usize, -1)));
    steps.retain(|(at, ..)| *at <= world.now());
    steps.sort_unstable();
    let mut lanes = [0; 2];
    let mut backlog: Vec<Backlog> = Vec::new();
    for (at, lane, step) in steps {
        lanes[lane] += step;
        match backlog.last_mut() {
            Some(last) if last.at == at => last.lanes = lanes,
            _ => backlog.push(Backlog { at, lanes }),
        }
    }
    backlog
}

pub(super) fn longest_stall(world: &World) -> Duration {
    // At one instant: first what ended, then what came.
    let mut steps: Vec<(Timestamp, Step)> =
        world.traced.iter().map(|traced| (traced.submitted_at, Step::Came)).collect();
    let step = |ended: &Ended| match ended.outcome {
        Outcome::Accepted { .. } => Step::Accepted,
        _ => Step::Ended,
    };
    steps.extend(world.ended().iter().map(|ended| (ended.ended_at, step(ended))));
    steps.retain(|(at, _)| *at <= world.now());
    steps.sort_unstable();
    let (mut waiting, mut since, mut longest) = (0_i64, world.start(), Duration::ZERO);
    for (at, step) in steps {
        match step {
            Step::Came => {
                since = if waiting == 0 { at } else { since };
                waiting += 1;
            }
            Step::Accepted => {
                longest = longest.max(at.since(since));
                since = at;
                waiting -= 1;
            }
            Step::Ended => waiting -= 1,
        }
    }
    if waiting > 0 { longest.max(world.now().since(since)) } else { longest }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Accepted,
    Ended,
    Came,
}
