//! What a run came to: the figures of the benchmark (M1 to M7) and whether every invariant held.
//!
//! Everything about sends is read from the upstream's log and from the instants at which operations ended, never from
//! the engines' own account of their budgets.

mod invariants;
mod recovery;
mod waits;

use std::sync::Arc;
use std::time::Duration;

pub use invariants::{Invariant, WindowUse};
pub use recovery::Recovery;
pub use waits::{Backlog, LaneFigures, backlog};

use super::World;
use super::scenario::Scenario;
use crate::engine::mailbox::Outcome;
use crate::engine::{Event, Lane, Timestamp};
use crate::upstream::{Counts, Job, check, optimum};

/// The clairvoyant is asked up to this many jobs times mailboxes; beyond, it takes longer than the run.
const OPTIMUM_STEPS_MAX: usize = 20_000_000;

/// The figures of one run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The seed that it is replayed from.
    pub seed: u64,
    /// Virtual time that passed.
    pub elapsed: Duration,
    /// Operations submitted by then.
    pub submitted: u64,
    /// Those that the provider took.
    pub accepted: u64,
    /// Those that had not ended.
    pub pending: u64,
    /// Those of unknown outcome, set aside or not.
    pub unknown: u64,
    /// Those that used up their attempts or their time.
    pub exhausted: u64,
    /// What the upstream's log says of our arrivals.
    pub arrivals: Counts,
    /// Arrivals per accepted operation (M2).
    pub sends_per_accepted: f64,
    /// Foreground's and background's waits (M3) and ends (M1).
    pub lanes: [LaneFigures; 2],
    /// From the first submission to the last acceptance.
    pub makespan: Duration,
    /// The same for the clairvoyant optimum, which has no latency and meets no fault; `None`: it was not asked.
    pub optimum: Option<Duration>,
    /// Longest time without an acceptance while something waited (M4).
    pub longest_stall: Duration,
    /// How often a timer woke an engine, per operation (M5).
    pub wakes_per_operation: f64,
    /// Calls of the store, per operation. Where engines ran alone: what the shell would have called.
    pub store_calls_per_operation: f64,
    /// Durable transactions, per operation: what is written at one instant shares one.
    pub store_transactions_per_operation: f64,
    /// Inputs that the engines decided on.
    pub decisions: u64,
    /// How often a breaker opened.
    pub cooldowns: u64,
    /// What followed each thing that went wrong on purpose (M6).
    pub recoveries: Vec<Recovery>,
    /// Use of each declared window at its fullest (M7).
    pub windows: Vec<WindowUse>,
    /// What has to hold.
    pub invariants: Vec<Invariant>,
}

impl Report {
    /// The figures of a run that is over, or as far as it has come.
    #[must_use]
    pub fn of(scenario: &Scenario, world: &World, seed: u64) -> Self {
        let (start, now) = (world.start(), world.now());
        let best = best(world);
        let ended =
            |wanted: fn(&Outcome) -> bool| world.ended().iter().filter(|ended| wanted(&ended.outcome)).count() as u64;
        let accepted = ended(|outcome| matches!(outcome, Outcome::Accepted { .. }));
        let submitted = world.traced.iter().filter(|traced| traced.submitted_at <= now).count() as u64;
        let arrivals = check::counts(world.upstream().log().client());
        let opened = |(_, event): &&(Timestamp, Event)| matches!(event, Event::BreakerOpened { .. });
        let windows = invariants::windows(scenario, world);
        Self {
            seed,
            elapsed: now.since(start),
            submitted,
            accepted,
            pending: submitted.saturating_sub(world.ended().len() as u64),
            unknown: ended(|outcome| matches!(outcome, Outcome::Unknown | Outcome::Quarantined)),
            exhausted: ended(|outcome| matches!(outcome, Outcome::Exhausted { .. })),
            sends_per_accepted: per(arrivals.arrivals, accepted),
            lanes: Lane::ALL.map(|lane| LaneFigures::of(world, lane, best.as_deref())),
            makespan: waits::makespan(world),
            optimum: best.as_ref().map(|best| {
                let first = world.traced.iter().map(|traced| traced.submitted_at).min().unwrap_or(start);
                best.iter().flatten().max().map_or(Duration::ZERO, |last| last.since(first))
            }),
            longest_stall: waits::longest_stall(world),
            wakes_per_operation: per(world.wakes(), submitted),
            store_calls_per_operation: per(world.store_use().calls, submitted),
            store_transactions_per_operation: per(world.store_use().transactions, submitted),
            decisions: world.decisions(),
            cooldowns: world.events().iter().filter(opened).count() as u64,
            recoveries: recovery::of(scenario, world),
            invariants: invariants::of(scenario, world, &windows, &arrivals),
            windows,
            arrivals,
        }
    }

    /// Whether every invariant held.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.invariants.iter().all(|invariant| invariant.kept)
    }

    /// The part of the optimum's rate that was reached (M1); `None` when not everything was accepted.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let whole = self.pending == 0 && self.accepted == self.submitted;
        waits::ratio(self.optimum.filter(|_| whole)?, self.makespan)
    }
}

/// When the clairvoyant has each operation accepted, in order of keys.
fn best(world: &World) -> Option<Vec<Option<Timestamp>>> {
    if world.traced.len().saturating_mul(world.names.len()) > OPTIMUM_STEPS_MAX {
        return None;
    }
    let job = |traced: &super::load::Traced| Job {
        at: traced.submitted_at,
        mailbox: Arc::clone(&world.names[traced.mailbox]),
        tenant: traced.tenant.clone(),
        cost: traced.cost,
        lane: traced.lane,
    };
    let jobs: Vec<Job> = world.traced.iter().map(job).collect();
    Some(optimum(&world.upstream().model().limits, &jobs).accepted_at)
}

fn per(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
