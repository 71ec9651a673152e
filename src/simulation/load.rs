//! What people and campaigns submit.

use std::sync::Arc;
use std::time::Duration;

use super::World;
use super::agenda::Happening;
use super::outbox::Row;
use crate::engine::operation::OperationKind;
use crate::engine::spread::fnv1a;
use crate::engine::{Answer, Cost, Lane, Operation, OperationKey, Timestamp};
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

/// One operation the world follows.
#[derive(Debug)]
pub(super) struct Traced {
    pub(super) mailbox: usize,
    pub(super) lane: Lane,
    pub(super) cost: Cost,
    pub(super) tenant: Option<Arc<str>>,
    pub(super) submitted_at: Timestamp,
    deadline: Duration,
    /// The same by the clock of the process that took it.
    pub(super) shown_at: Option<Timestamp>,
    /// Whether its submission has come.
    pub(super) submitted: bool,
    /// Its place among those that have ended.
    pub(super) ended: Option<usize>,
    /// Whether nothing more comes of it.
    pub(super) over: bool,
    /// The attempt that is live, or was last.
    pub(super) row: u32,
    pub(super) live: bool,
    pub(super) down: Duration,
    /// On its way to us.
    pub(super) answer: Option<Answer>,
    /// Whether it comes twice.
    pub(super) twice: bool,
    pub(super) sends: u32,
    /// Whether the upstream has taken it.
    pub(super) taken: bool,
    pub(super) row_in_outbox: Row,
}

impl Traced {
    pub(super) const fn deadline(&self) -> Duration {
        self.deadline
    }
}

impl World {
    /// Submits one operation at `at`.
    pub fn submit(&mut self, at: Timestamp, load: &Load) -> OperationKey {
        self.traced.push(Traced {
            mailbox: load.mailbox,
            lane: load.lane,
            cost: load.cost,
            tenant: load.tenant.clone(),
            submitted_at: at,
            deadline: load.deadline,
            shown_at: None,
            submitted: false,
            ended: None,
            over: false,
            row: 0,
            live: false,
            down: Duration::ZERO,
            answer: None,
            twice: false,
            sends: 0,
            taken: false,
            row_in_outbox: Row::new(at),
        });
        self.pending += 1;
        let key = OperationKey(self.traced.len() as u64);
        self.put(at, Happening::Submit(key));
        key
    }

    /// An operation as the engine takes it.
    pub(super) fn operation(&self, key: OperationKey, traced: &Traced) -> Operation {
        let shown = traced.shown_at.unwrap_or_else(|| self.local(traced.submitted_at));
        Operation {
            key,
            id_hash: fnv1a(&key.0.to_be_bytes()),
            lane: traced.lane,
            kind: OperationKind::Send,
            tenant: traced.tenant.clone(),
            campaign: None,
            cost: traced.cost,
            submitted_at: shown,
            not_before: shown,
            deadline: shown.after(traced.deadline),
            attempts: 0,
        }
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
