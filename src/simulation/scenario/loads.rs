//! Who submits what, and when.

use std::sync::Arc;
use std::time::Duration;

use super::codecs::Range;
use crate::config::Config;
use crate::engine::{Cost, Lane, Timestamp};
use crate::simulation::{Load, World};
use crate::upstream::Random;

/// The stream of draws of the first load.
const STREAM: u64 = 0x10AD;

/// Operations of one kind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadSpec {
    /// The mailboxes they leave from, by their place in [`Scenario::mailboxes`](super::Scenario::mailboxes); each of
    /// them has all of it.
    pub mailboxes: Vec<usize>,
    /// The lane.
    pub lane: Lane,
    /// The tenant; `None`: of each mailbox the one that the configuration names.
    pub tenant: Option<Arc<str>>,
    /// When they come.
    pub arrivals: Arrivals,
    /// Recipients of one.
    pub recipients: Range,
    /// How many of them are outside the sender's organisation.
    pub external: External,
    /// Bytes of one.
    pub bytes: Range,
    /// How long after its submission one is given up.
    pub deadline: Duration,
}

/// Which recipients are outside the sender's organisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum External {
    /// None of them.
    #[default]
    None,
    /// All of them.
    All,
}

/// When operations come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arrivals {
    /// All of them at one instant.
    AtOnce {
        /// When.
        at: Duration,
        /// How many.
        count: u32,
    },
    /// As a Poisson process, in groups.
    Poisson {
        /// Groups per hour.
        per_hour: u32,
        /// Operations of one group.
        size: u32,
        /// From when.
        from: Duration,
        /// Until when; `None`: until the cut-off.
        until: Option<Duration>,
    },
    /// In groups, as evenly as a clock.
    Bursts {
        /// The span between two groups.
        every: Duration,
        /// Operations of one group.
        size: u32,
        /// The first.
        from: Duration,
        /// None from then on; `None`: until the cut-off.
        until: Option<Duration>,
    },
}

impl Arrivals {
    /// The instants, and how many come at each. `random` is asked by the Poisson process alone.
    fn instants(self, random: &mut Random, start: Timestamp, end: Timestamp) -> Vec<(Timestamp, u32)> {
        let mut instants = Vec::new();
        let last = |until: Option<Duration>| until.map_or(end, |until| start.after(until).min(end));
        match self {
            Self::AtOnce { at, count } => instants.push((start.after(at), count)),
            Self::Poisson { per_hour, size, from, until } => {
                let (mut at, until) = (start.after(from), last(until));
                while let Some(gap) = random.poisson_gap(per_hour) {
                    at = at.after(gap);
                    if at >= until {
                        break;
                    }
                    instants.push((at, size));
                }
            }
            Self::Bursts { every, size, from, until } => {
                let (mut at, until) = (start.after(from), last(until));
                while at < until {
                    instants.push((at, size));
                    at = at.after(every);
                }
            }
        }
        instants
    }
}

impl LoadSpec {
    /// Plans every submission. `number` is the load's place, so that no two loads share their draws.
    pub(super) fn plan(&self, world: &mut World, seed: u64, number: u64, end: Timestamp, config: &Config) {
        for (copy, &mailbox) in self.mailboxes.iter().enumerate() {
            let mut random = Random::stream(seed, STREAM ^ (number << 16) ^ ((copy as u64) << 32));
            let mut load = Load::new(self.lane).mailbox(mailbox).deadline(self.deadline);
            load.tenant = self.tenant.as_ref().or_else(|| config.tenant_of(world.name(mailbox))).cloned();
            for (at, count) in self.arrivals.instants(&mut random, world.start(), end) {
                for _ in 0..count {
                    let cost = config.transport.cost(self.cost(&mut random));
                    world.submit(at, &Load { cost, ..load.clone() });
                }
            }
        }
    }

    fn cost(&self, random: &mut Random) -> Cost {
        let recipients = u32::try_from(self.recipients.draw(random)).unwrap_or(u32::MAX);
        let cost = Cost::email(recipients, self.bytes.draw(random));
        match self.external {
            External::None => cost,
            External::All => Cost { external_recipients: recipients, ..cost },
        }
    }
}
