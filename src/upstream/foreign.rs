//! Somebody else who spends the same budget.

use std::sync::Arc;

use crate::engine::{Cost, Timestamp};

use super::decision::ArrivalRequest;
use super::random::Random;
use super::schedule::Schedule;

/// Poisson traffic of another client of the same mailbox. It meets the limits like any request, and never retries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The mailbox it sends from.
    pub mailbox: Arc<str>,
    /// That mailbox's tenant.
    pub tenant: Option<Arc<str>>,
    /// What each request takes.
    pub cost: Cost,
    /// Mean arrivals per hour.
    pub per_hour: Schedule<u32>,
}

/// One such source, running.
#[derive(Clone, Debug)]
pub(super) struct Source {
    foreign: Foreign,
    random: Random,
    /// `None` until the first look: the traffic begins with the run, not at the epoch.
    next: Option<Timestamp>,
}

impl Source {
    pub(super) const fn new(foreign: Foreign, random: Random) -> Self {
        Self { foreign, random, next: None }
    }

    /// Its next arrival, counted from `now` at the first look.
    pub(super) fn next(&mut self, now: Timestamp) -> Timestamp {
        let next = self.next.unwrap_or_else(|| self.draw(now));
        self.next = Some(next);
        next
    }

    /// Its arrival at `at`; draws the one after it.
    pub(super) fn take(&mut self, at: Timestamp) -> ArrivalRequest {
        self.next = Some(self.draw(at));
        ArrivalRequest {
            mailbox: Arc::clone(&self.foreign.mailbox),
            tenant: self.foreign.tenant.clone(),
            cost: self.foreign.cost,
            key: Arc::from("foreign"),
            lane: None,
        }
    }

    /// A Poisson process has no memory, so a gap that reaches past a change of rate is drawn anew from there.
    fn draw(&mut self, mut from: Timestamp) -> Timestamp {
        loop {
            let gap = self.random.poisson_gap(self.foreign.per_hour.at(from));
            let next = gap.map_or(Timestamp::NEVER, |gap| from.after(gap));
            match self.foreign.per_hour.next_change(from) {
                Some(change) if change <= next => from = change,
                _ => return next,
            }
        }
    }
}
