//! What happens to a scheduler from outside, and when: the scenario's plan in order of instant.

use std::collections::VecDeque;
use std::time::Duration;

use crate::config::Config;
use crate::engine::Timestamp;
use crate::simulation::World;
use crate::simulation::scenario::{Scenario, Stop};
use crate::simulation::{Planned, PlannedBurn};

/// One thing that happens.
#[derive(Debug)]
pub(super) enum Act {
    /// These are submitted together.
    Submit(Vec<Planned>),
    /// Somebody else spends.
    Burn(PlannedBurn),
    /// The configuration is reloaded.
    Change(Box<Config>),
    /// The process dies and is gone for so long.
    Die(Duration),
}

/// All of it.
#[derive(Debug)]
pub(super) struct Script {
    /// In order of instant; at one instant burns, deaths, submissions, changes.
    pub(super) acts: VecDeque<(Timestamp, Act)>,
    pub(super) planned: Vec<Planned>,
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    pub(super) stop: Stop,
}

impl Script {
    pub(super) fn of(scenario: &Scenario, world: &World) -> Self {
        let (start, planned) = (world.start(), world.planned());
        let mut acts: Vec<(Timestamp, Act)> =
            world.planned_burns().into_iter().map(|burn| (burn.at, Act::Burn(burn))).collect();
        acts.extend(scenario.restarts.iter().map(|restart| (start.after(restart.at), Act::Die(restart.down))));
        let mut in_order = planned.clone();
        in_order.sort_by_key(|planned| planned.at);
        acts.extend(in_order.chunk_by(|a, b| a.at == b.at).map(|group| (group[0].at, Act::Submit(group.to_vec()))));
        let change = |change: &crate::simulation::scenario::Change| {
            (start.after(change.at), Act::Change(Box::new(change.config.clone())))
        };
        acts.extend(scenario.changes.iter().map(change));
        acts.sort_by_key(|(at, _)| *at);
        let end = start.after(scenario.until);
        Self { acts: acts.into(), planned, start, end, stop: scenario.stop }
    }

    /// When the next thing happens, at the latest the end.
    pub(super) fn next_at(&self) -> Timestamp {
        self.acts.front().map_or(self.end, |(at, _)| *at).min(self.end)
    }

    /// The next thing, if it is due.
    pub(super) fn due(&mut self, now: Timestamp) -> Option<Act> {
        self.acts.front().filter(|(at, _)| *at <= now)?;
        self.acts.pop_front().map(|(_, act)| act)
    }
}
