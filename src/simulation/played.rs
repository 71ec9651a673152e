//! A world's plan, carried out by somebody else than its engines: by the real actors.
//!
//! A scenario plans its submissions and its burns in a [`World`]. Whoever carries them out takes them from here and hands back
//! what came of them, so that one report reads both and neither has its own notion of a load.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::agenda::Happening;
use super::cost::{StoreUse, Tally};
use super::scenario::Scenario;
use super::{Ended, World, place_of};
use crate::engine::mailbox::Outcome;
use crate::engine::operation::Transition;
use crate::engine::{Cost, Event, Lane, OperationKey, Timestamp};
use crate::upstream::Upstream;

/// One submission that a world has planned.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Planned {
    /// Its key; in decimals it is the operation's id, by which reports find it in the upstream's log.
    pub key: OperationKey,
    /// When, in true time.
    pub at: Timestamp,
    /// The mailbox it leaves from.
    pub mailbox: Arc<str>,
    /// Its lane.
    pub lane: Lane,
    /// Its tenant.
    pub tenant: Option<Arc<str>>,
    /// What one attempt takes.
    pub cost: Cost,
    /// How long after its submission it is given up.
    pub deadline: Duration,
}

/// What somebody else spends, planned by a world.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PlannedBurn {
    /// When, in true time.
    pub at: Timestamp,
    /// Of whose budget.
    pub mailbox: Arc<str>,
    /// Whose tenant's.
    pub tenant: Option<Arc<str>>,
    /// How much.
    pub cost: Cost,
}

/// What came of a plan.
#[derive(Debug)]
pub struct Played {
    /// The instant at which it was over, in true time.
    pub now: Timestamp,
    /// The upstream, with its log.
    pub upstream: Upstream,
    /// Which operations ended, when in true time, and how; in order of their ends.
    pub ended: Vec<(OperationKey, Timestamp, Outcome)>,
    /// Changes of state, with their instants in true time.
    pub events: Vec<(Timestamp, Event)>,
    /// Transitions in order, those of submissions left out.
    pub transitions: Vec<(OperationKey, Transition)>,
    /// What was handed to the transport, in order: the operation and the number of its attempt, from 1.
    pub sends: Vec<(OperationKey, u32)>,
    /// What is not over and somebody has: the live rows of the store, and what callers have not handed over yet.
    pub kept: BTreeSet<OperationKey>,
    /// How often a timer woke somebody.
    pub wakes: u64,
    /// What was asked of the store.
    pub store: StoreUse,
}

impl World {
    /// Every submission that is planned, in order of key.
    #[must_use]
    pub fn planned(&self) -> Vec<Planned> {
        let planned = |(place, traced): (usize, &super::load::Traced)| Planned {
            key: OperationKey(place as u64 + 1),
            at: traced.submitted_at,
            mailbox: Arc::clone(&self.names[traced.mailbox]),
            lane: traced.lane,
            tenant: traced.tenant.clone(),
            cost: traced.cost,
            deadline: traced.deadline(),
        };
        self.traced.iter().enumerate().map(planned).collect()
    }

    /// Every burn that is planned, in order of instant.
    #[must_use]
    pub fn planned_burns(&self) -> Vec<PlannedBurn> {
        let burn = |(at, happening)| match happening {
            Happening::Burn(number) => self.burns.get(number).map(|(mailbox, tenant, cost)| PlannedBurn {
                at,
                mailbox: Arc::clone(mailbox),
                tenant: tenant.clone(),
                cost: *cost,
            }),
            _ => None,
        };
        self.agenda.in_order().into_iter().filter_map(burn).collect()
    }

    /// The world as it is after its plan was carried out elsewhere: nothing is to come.
    #[must_use]
    pub fn played(mut self, played: Played) -> Self {
        let Played { now, upstream, ended, events, transitions, sends, kept, wakes, store } = played;
        self.agenda = super::Agenda::default();
        for (key, attempt) in sends {
            let Some(traced) = self.traced.get_mut(place_of(key)) else { continue };
            traced.sends += 1;
            if attempt == 1 {
                self.order.push((traced.mailbox, traced.lane, key));
            }
        }
        for (key, at, outcome) in ended {
            let place = self.ended.len();
            let Some(traced) = self.get_mut(key).filter(|traced| traced.ended.is_none()) else { continue };
            traced.ended = Some(place);
            let (mailbox, lane, submitted_at) = (traced.mailbox, traced.lane, traced.submitted_at);
            self.pending -= 1;
            self.ended.push(Ended { key, mailbox, lane, submitted_at, ended_at: at, outcome });
        }
        (self.now, self.upstream, self.events) = (now, upstream, events);
        self.kept_by_actors(kept);
        (self.transitions, self.tally) = (transitions, Tally::of(wakes, store));
        self
    }
}

impl Scenario {
    /// The upstream of one run, as its world has it.
    #[must_use]
    pub fn upstream(&self, seed: u64) -> Upstream {
        Upstream::new(self.provider.model(&self.config, seed), seed)
    }
}
