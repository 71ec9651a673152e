//! What people and campaigns submit.

use std::sync::Arc;
use std::time::Duration;

use super::{Happening, Traced, World};
use crate::engine::operation::OperationKind;
use crate::engine::spread::fnv1a;
use crate::engine::{Cost, Lane, Operation, OperationKey, Timestamp};
use crate::upstream::Random;

/// Operations of one kind, to be submitted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Load {
    /// The mailbox's number.
    pub mailbox: usize,
    /// The lane.
    pub lane: Lane,
    /// What one takes.
    pub cost: Cost,
    /// The tenant.
    pub tenant: Option<Arc<str>>,
    /// How long after its submission an operation is given up.
    pub deadline: Duration,
}

impl Load {
    /// Emails of one recipient and 4 kB from mailbox 0, given up after 30 days.
    #[must_use]
    pub fn new(lane: Lane) -> Self {
        Self { mailbox: 0, lane, cost: Cost::email(1, 4_096), tenant: None, deadline: Duration::from_secs(30 * 86_400) }
    }

    /// From this mailbox.
    #[must_use]
    pub fn mailbox(mut self, number: usize) -> Self {
        self.mailbox = number;
        self
    }

    /// Of this cost.
    #[must_use]
    pub fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    /// Of this tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: &str) -> Self {
        self.tenant = Some(Arc::from(tenant));
        self
    }

    /// Given up this long after its submission.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }
}

impl World {
    /// Submits one operation at `at`.
    pub fn submit(&mut self, at: Timestamp, load: &Load) -> OperationKey {
        self.last_key += 1;
        let key = OperationKey(self.last_key);
        let shown = self.local(at);
        let operation = Operation {
            key,
            id_hash: fnv1a(&self.last_key.to_be_bytes()),
            lane: load.lane,
            kind: OperationKind::Send,
            tenant: load.tenant.clone(),
            campaign: None,
            cost: load.cost,
            submitted_at: shown,
            not_before: shown,
            deadline: shown.after(load.deadline),
            attempts: 0,
        };
        let traced = Traced {
            mailbox: load.mailbox,
            lane: load.lane,
            cost: load.cost,
            tenant: load.tenant.clone(),
            submitted_at: at,
            row: 0,
            live: false,
            down: Duration::ZERO,
        };
        self.traced.insert(key, traced);
        self.put(at, Happening::Submit(operation));
        key
    }

    /// Submits `count` operations at one instant.
    pub fn burst(&mut self, at: Timestamp, count: usize, load: &Load) {
        for _ in 0..count {
            self.submit(at, load);
        }
    }

    /// Submits groups of `size` as a Poisson process of `groups_per_hour`, from now until `until`.
    pub fn poisson(&mut self, seed: u64, groups_per_hour: u32, size: usize, until: Timestamp, load: &Load) {
        let mut random = Random::stream(seed, 0x10AD);
        let mut at = self.now;
        while let Some(gap) = random.poisson_gap(groups_per_hour) {
            at = at.after(gap);
            if at >= until {
                return;
            }
            self.burst(at, size, load);
        }
    }
}
