//! How long what went wrong on purpose was felt (M6).

use std::time::Duration;

use crate::engine::Timestamp;
use crate::simulation::World;
use crate::simulation::scenario::{Scenario, Trouble};

/// The rate before is taken over so many spans.
const SPANS_BEFORE: u32 = 5;

/// What followed one thing that went wrong.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recovery {
    /// What.
    pub trouble: Trouble,
    /// Our requests refused from its begin to the first one that was taken after its end.
    pub refused: u64,
    /// From its end to the first request that was taken.
    pub first_success: Option<Duration>,
    /// From its end until requests were taken at nine tenths of the rate before. `None`: never, or nothing was sent
    /// before.
    pub rate_back: Option<Duration>,
}

/// One row for each thing that goes wrong in the scenario.
pub(super) fn of(scenario: &Scenario, world: &World) -> Vec<Recovery> {
    let log = world.upstream().log();
    let taken: Vec<Timestamp> = log.client().filter(|arrival| arrival.executed).map(|arrival| arrival.at).collect();
    let refused: Vec<Timestamp> =
        log.client().filter(|arrival| arrival.status == 429).map(|arrival| arrival.at).collect();
    let windows = scenario.config.mailbox.limits.iter().map(crate::engine::Limit::window);
    let span = windows.min().unwrap_or(Duration::from_secs(60)).max(Duration::from_secs(10));
    scenario.troubles().into_iter().map(|trouble| one(trouble, world.start(), &taken, &refused, span)).collect()
}

fn one(trouble: Trouble, start: Timestamp, taken: &[Timestamp], refused: &[Timestamp], span: Duration) -> Recovery {
    let (from, until) = (start.after(trouble.from), start.after(trouble.until));
    let after = &taken[taken.partition_point(|at| *at < until)..];
    let first = after.first().copied();
    let end = first.unwrap_or(Timestamp::NEVER);
    let known = (span * SPANS_BEFORE).min(trouble.from);
    let before = within(taken, from.before(known), from);
    // Nine tenths of so many in one span, in whole requests.
    let wanted = u128::from(before) * span.as_micros() * 9 / (10 * known.as_micros().max(1));
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let back = after
        .iter()
        .enumerate()
        .find(|(place, at)| wanted > 0 && after.get(place + wanted - 1).is_some_and(|last| last.since(**at) < span));
    Recovery {
        trouble,
        refused: within(refused, from, end),
        first_success: first.map(|at| at.since(until)),
        rate_back: back.map(|(_, at)| at.since(until)),
    }
}

fn within(instants: &[Timestamp], from: Timestamp, until: Timestamp) -> u64 {
    (instants.partition_point(|at| *at < until) - instants.partition_point(|at| *at < from)) as u64
}
