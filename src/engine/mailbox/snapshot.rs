//! A copy of a mailbox's state that can be run forward without the mailbox noticing.
//!
//! What is in flight and what waits for an instant of its own is copied; the queue is not, because a million entries
//! are a gigabyte: per lane and tenant it is a number and a mean cost. The copy is one walk over the table.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::entry::Step;
use super::table::{End, Table};
use super::{Effect, Mailbox};
use crate::engine::cost::{Cost, CostSum, Unit};
use crate::engine::lane::Lane;
use crate::engine::limit::Limit;
use crate::engine::operation::{Operation, OperationKey};
use crate::engine::policy::{MailboxPolicy, ScopePolicy};
use crate::engine::scope::Scope;
use crate::engine::time::Timestamp;

/// Most operations with an instant of their own that are copied; the earliest are.
const DELAYED_MAX: usize = 10_000;

/// A mailbox as it stood at an instant, to be run forward by [`Plan`](crate::engine::plan::Plan).
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(in crate::engine) mailbox: Mailbox,
    pub(in crate::engine) at: Timestamp,
    /// What waits in the lanes.
    pub(in crate::engine) lines: Vec<Line>,
    /// What is under way, and how far it has come.
    pub(in crate::engine) under_way: Vec<(OperationKey, Stage)>,
    /// Operations that no plan counts: held, of unknown outcome, or with a late instant of their own.
    pub(in crate::engine) left_out: u64,
}

/// Operations that wait in one lane for one tenant.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Line {
    pub(in crate::engine) lane: Lane,
    pub(in crate::engine) tenant: Option<Arc<str>>,
    pub(in crate::engine) count: u64,
    /// Of each, rounded up.
    pub(in crate::engine) cost: Cost,
}

/// Where an operation waits.
type InLine = (Lane, Option<Arc<str>>);

/// How far an operation that is under way has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Stage {
    /// The shared scopes have been asked.
    Reserving,
    /// Its attempt row is being written.
    Claiming,
    /// It is being sent.
    Attempting(Timestamp),
}

impl Mailbox {
    /// This mailbox as it stands. Changes nothing.
    #[must_use]
    pub fn snapshot(&self, now: Timestamp) -> Snapshot {
        let mut table = Table::default();
        let mut lines: BTreeMap<InLine, (u64, CostSum)> = BTreeMap::new();
        let (mut under_way, mut left_out) = (Vec::new(), 0);
        for entry in self.table.entries() {
            let stage = match entry.step {
                Step::Reserving { .. } => Stage::Reserving,
                Step::Claiming { .. } => Stage::Claiming,
                Step::Attempting { sent_at, .. } => Stage::Attempting(sent_at),
                Step::Queued(_) | Step::Waiting => {
                    let line = (entry.lane, self.table.tenant(entry).cloned());
                    let (count, sum) = lines.entry(line).or_default();
                    *count += 1;
                    sum.add(&entry.cost());
                    continue;
                }
                Step::Free { .. } => continue,
                Step::Delayed { .. } | Step::Held | Step::Unknown { .. } => {
                    left_out += 1;
                    continue;
                }
            };
            table.insert_copy(&self.table, entry);
            under_way.push((entry.key, stage));
        }
        under_way.sort_unstable_by_key(|(key, _)| *key);
        let delayed = self.table.due().filter(|entry| matches!(entry.step, Step::Delayed { .. })).take(DELAYED_MAX);
        for entry in delayed {
            left_out -= 1;
            table.insert_copy(&self.table, entry);
            table.delay(entry.key, entry.step);
        }
        let line = |((lane, tenant), (count, sum))| Line { lane, tenant, count, cost: mean(&sum, count) };
        let lines = lines.into_iter().map(line).collect();
        Snapshot { mailbox: self.with(table), at: self.now.max(now), lines, under_way, left_out }
    }

    fn with(&self, table: Table) -> Self {
        Self {
            policy: Arc::clone(&self.policy),
            ask: self.ask,
            budget: self.budget.untenured(),
            table,
            floor: self.floor,
            holds: self.holds.clone(),
            shared_waits: BTreeMap::new(),
            reserving: self.reserving,
            late: Vec::new(),
            effects: VecDeque::new(),
            events: Vec::new(),
            now: self.now,
            pump_at: self.pump_at,
            tenure_at: Timestamp::NEVER,
            withholds: false,
            stirred: true,
            full: self.full,
            unreached: self.unreached,
            shared_trouble: self.shared_trouble.clone(),
            told: None,
            at_work: None,
            leaves: None,
        }
    }

    /// Puts an operation into its lane that was submitted long ago: foreground's need has been learned from it then.
    pub(in crate::engine) fn feed(&mut self, now: Timestamp, operation: Operation) {
        let key = operation.key;
        self.table.set_standing(None);
        self.table.insert(&operation);
        self.ready(now, key, End::Tail);
        self.effects.retain(|effect| !matches!(effect, Effect::Record(_)));
    }

    /// Its id.
    pub(in crate::engine) fn name(&self) -> Arc<str> {
        match self.budget.scope() {
            Scope::Mailbox(id) | Scope::Tenant(id) => Arc::clone(id),
            Scope::Application => Arc::default(),
        }
    }

    /// How long after its submission an operation is given up that names no deadline.
    pub(in crate::engine) fn deadline_default(&self) -> Duration {
        self.policy.retry.deadline
    }

    /// The limit that holds no operation of this cost, if there is one.
    pub(in crate::engine) fn limit_below(&self, cost: &Cost) -> Option<Limit> {
        self.budget.never(cost).map(|never| never.limit)
    }
}

impl Snapshot {
    /// The instant it was taken.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// Which mailbox.
    pub(in crate::engine) fn name(&self) -> Arc<str> {
        self.mailbox.name()
    }

    /// The same mailbox under other limits of its own.
    pub(in crate::engine) fn rescope(&mut self, change: impl FnOnce(&mut ScopePolicy)) {
        let mut policy = MailboxPolicy::clone(&self.mailbox.policy);
        change(&mut policy.scope);
        if policy.scope == self.mailbox.policy.scope {
            return;
        }
        self.mailbox.table.set_standing(None);
        let live = self.mailbox.live();
        self.mailbox.budget.reconfigure(self.at, &policy.scope, &live, Mailbox::rules(&policy));
        self.mailbox.policy = Arc::new(policy);
    }
}

fn mean(sum: &CostSum, count: u64) -> Cost {
    let of = |unit| sum.of(unit).div_ceil(count.max(1));
    let small = |unit| u32::try_from(of(unit)).unwrap_or(u32::MAX);
    Cost {
        requests: small(Unit::Requests),
        recipients: small(Unit::Recipients),
        external_recipients: small(Unit::ExternalRecipients),
        quota_units: small(Unit::QuotaUnits),
        bytes: of(Unit::Bytes),
    }
}
