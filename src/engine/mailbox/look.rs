//! Looking without changing: may it come in, why does it wait, what is used.

use std::time::Duration;

use super::entry::{Entry, Step};
use super::{Hold, Mailbox, MailboxFacts, Pass, Refusal, WindowFacts};
use crate::engine::budget::{Grant, never};
use crate::engine::constraint::{Certainty, Constraint, Wall};
use crate::engine::cost::{Cost, CostSum};
use crate::engine::lane::Lane;
use crate::engine::operation::{Operation, OperationKey};
use crate::engine::policy::MailboxPolicy;
use crate::engine::scope::ScopeKind;
use crate::engine::time::Timestamp;

/// What was taken in of a lane and is not enqueued yet: it goes before what is judged now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coming {
    count: usize,
    cost: CostSum,
}

impl Coming {
    /// One more of them.
    pub fn add(&mut self, cost: &Cost) {
        self.count += 1;
        self.cost.add(cost);
    }

    /// One of them has been enqueued, or is not coming.
    pub fn remove(&mut self, cost: &Cost) {
        self.count = self.count.saturating_sub(1);
        self.cost.subtract(cost);
    }
}

/// Whether the limits of a mailbox can ever hold a cost, whoever owns it.
///
/// # Errors
/// [`Refusal::CostAboveCapacity`] with the limit that cannot.
pub fn check_cost(policy: &MailboxPolicy, cost: &Cost) -> Result<(), Refusal> {
    never(&policy.scope.limits, cost).map_or(Ok(()), |never| Err(never.refusal(ScopeKind::Mailbox)))
}

impl Mailbox {
    /// Whether `operation` may be taken in at all. Changes nothing.
    ///
    /// `wait_max` is the caller's bound on a wait that is known now; waits that only show later are not refused.
    ///
    /// # Errors
    /// A [`Refusal`], when the answer is no; nothing may be stored then.
    pub fn check(&self, now: Timestamp, operation: &Operation, wait_max: Option<Duration>) -> Result<(), Refusal> {
        self.check_behind(now, operation, wait_max, &Default::default(), &[])
    }

    /// The same for an operation that what is `coming` by lane goes before, taken in already and not enqueued yet, and that
    /// `shared` keeps waiting at the shared scopes ([`Standing`](crate::engine::shared::Standing)).
    ///
    /// # Errors
    /// As [`Mailbox::check`].
    pub fn check_behind(
        &self,
        now: Timestamp,
        operation: &Operation,
        wait_max: Option<Duration>,
        coming: &[Coming; 2],
        shared: &[Constraint],
    ) -> Result<(), Refusal> {
        let now = self.now.max(now);
        if let Some(never) = self.budget.never(&operation.cost) {
            return Err(never.refusal(ScopeKind::Mailbox));
        }
        self.check_room(now, operation.lane, coming[operation.lane.index()].count)?;
        // An operator may lift a hold at any time, and an owner may change, so they make no deadline hopeless.
        let passing = |wall| matches!(wall, Wall::Hold | Wall::Ownership | Wall::Part { .. });
        let ahead = self.ahead_of_new(operation.lane, coming);
        let hopeless = self.known_wait(now, operation, &ahead, shared, |wall| !passing(wall));
        if hopeless.ready_at >= operation.deadline {
            return Err(Refusal::DeadlineTooEarly { earliest: hopeless.ready_at, constraint: hopeless });
        }
        let Some(most) = wait_max else { return Ok(()) };
        // What is in flight may end without a charge, so it makes no deadline hopeless; but it hardly ever does.
        let mut constraint = self.known_wait(now, operation, &ahead, shared, |_| true);
        if let Some(after) =
            self.budget.after_in_flight(now, operation.lane, &ahead, &operation.cost, Self::rules(&self.policy))
            && after.ready_at > constraint.ready_at
        {
            constraint = after.as_binding();
        }
        if constraint.ready_at > now.after(most) {
            return Err(Refusal::WaitTooLong { retry_after: constraint.ready_at.since(now), constraint });
        }
        Ok(())
    }

    /// What goes before an operation of a lane that comes now.
    fn ahead_of_new(&self, lane: Lane, coming: &[Coming; 2]) -> CostSum {
        let before: &[Lane] = match lane {
            Lane::Foreground => &[Lane::Foreground],
            Lane::Background => &Lane::ALL,
        };
        let mut ahead = CostSum::default();
        for lane in before {
            ahead.merge(&self.table.queued_cost(*lane));
            ahead.merge(&coming[lane.index()].cost);
        }
        ahead
    }

    fn check_room(&self, now: Timestamp, lane: Lane, coming: usize) -> Result<(), Refusal> {
        let depth_max = self.depth_max(lane);
        // Whatever waits counts: in the queue, for an instant of its own, held, or for its fate to become known.
        if (self.table.live(lane) as usize).saturating_add(coming) < depth_max as usize {
            return Ok(());
        }
        // Room comes with the next send of that lane.
        let next = self.pump_at.min(now.after(self.policy.resume.spread)).max(now.after(Duration::from_secs(1)));
        Err(Refusal::QueueFull { retry_after: next.since(now), depth_max })
    }

    /// The most operations that wait in a lane.
    pub(super) fn depth_max(&self, lane: Lane) -> u32 {
        match lane {
            Lane::Foreground => self.policy.queue.foreground_max,
            Lane::Background => self.policy.queue.background_max,
        }
    }

    /// How long the oldest of a lane has waited.
    #[must_use]
    pub fn oldest_age(&self, now: Timestamp, lane: Lane) -> Option<Duration> {
        self.table.oldest(lane).map(|at| self.now.max(now).since(at))
    }

    /// What binds it by what is known now, among the walls that `counts` names: its own instant, the scope's
    /// constraints, and everything `ahead` of it. What ends with an attempt in flight is no known wait: it may end now.
    fn known_wait(
        &self,
        now: Timestamp,
        operation: &Operation,
        ahead: &CostSum,
        shared: &[Constraint],
        counts: impl Fn(Wall) -> bool,
    ) -> Constraint {
        let mut latest =
            Constraint::exact(Wall::NotBefore, ScopeKind::Mailbox, operation.not_before.max(now)).as_binding();
        let mut keep = |constraint: Constraint| {
            let later = constraint.certainty == Certainty::Exact && constraint.ready_at > latest.ready_at;
            if later && counts(constraint.wall) {
                latest = constraint.as_binding();
            }
        };
        let rules = Self::rules(&self.policy);
        shared.iter().for_each(|constraint| keep(*constraint));
        self.budget.constraints(now, operation.lane, &operation.cost, Grant::Ordinary, rules, &mut keep);
        self.budget.behind(now, operation.lane, ahead, &operation.cost, rules, &mut keep);
        latest
    }

    /// Every constraint of an operation, or of the next send when `key` is `None`; the binding one is marked. Empty:
    /// nothing keeps it (or it is not here).
    #[must_use]
    pub fn explain(&self, now: Timestamp, key: Option<OperationKey>) -> Vec<Constraint> {
        let now = self.now.max(now);
        let mut found = Vec::new();
        match key.or_else(|| self.next_key()) {
            Some(key) => {
                if let Some(entry) = self.table.get(key) {
                    self.explain_entry(now, entry, &mut found);
                }
            }
            None => self.budget.constraints(
                now,
                Lane::Foreground,
                &Cost::ONE_REQUEST,
                Grant::Ordinary,
                Self::rules(&self.policy),
                &mut |constraint| found.push(constraint),
            ),
        }
        Constraint::mark_binding(&mut found);
        found
    }

    /// Whether an operation has still to pass the shared scopes: it is here, and past none of them.
    #[must_use]
    pub fn asks_shared(&self, key: OperationKey) -> bool {
        self.table.get(key).is_some_and(|entry| match entry.step {
            Step::Delayed { .. } | Step::Queued(_) | Step::Held | Step::Waiting | Step::Reserving { .. } => true,
            Step::Claiming { .. } | Step::Attempting { .. } | Step::Unknown { .. } | Step::Free { .. } => false,
        })
    }

    fn explain_entry(&self, now: Timestamp, entry: &Entry, found: &mut Vec<Constraint>) {
        let mut own = |wall, scope, ready_at| found.push(Constraint::exact(wall, scope, ready_at));
        match entry.step {
            Step::Attempting { .. } => return,
            // It has passed all of its mailbox's constraints.
            Step::Reserving { .. } | Step::Claiming { .. } => return own(Wall::Step, ScopeKind::Mailbox, now),
            Step::Unknown { due_at, .. } => return own(Wall::Step, ScopeKind::Mailbox, due_at),
            Step::Delayed { .. } if entry.not_before() > now => {
                own(Wall::NotBefore, ScopeKind::Mailbox, entry.not_before());
            }
            Step::Delayed { due_at } => own(Wall::Backoff, ScopeKind::Mailbox, due_at),
            Step::Held => {
                let covering = self.holds.iter().filter(|held| held.hold.stops(&self.table, entry));
                let latest = covering.map(|held| &held.hold).max_by_key(|hold| hold.until);
                match (latest, self.withheld_until(now, entry)) {
                    (None, Some(until)) => own(Wall::Ownership, ScopeKind::Mailbox, until),
                    (Some(Hold { pass: Pass::Through(_), until, .. }), _) => {
                        own(Wall::Widening, ScopeKind::Mailbox, *until);
                    }
                    (hold, _) => own(Wall::Hold, ScopeKind::Mailbox, hold.map_or(Timestamp::NEVER, |hold| hold.until)),
                }
            }
            Step::Waiting => {
                if let Some(wait) = self.shared_waits.get(&entry.key) {
                    found.push(wait.constraint);
                }
            }
            Step::Free { .. } | Step::Queued(_) => {}
        }
        let rules = Self::rules(&self.policy);
        let mut put = |constraint| found.push(constraint);
        let cost = entry.cost();
        self.budget.constraints(now, entry.lane, &cost, Grant::Ordinary, rules, &mut put);
        let ahead = self.ahead_of(entry);
        if ahead != CostSum::default() {
            self.budget.behind(now, entry.lane, &ahead, &cost, rules, &mut put);
        }
        if matches!(entry.step, Step::Queued(_))
            && let Some(head) = self.next_key().filter(|key| *key != entry.key).and_then(|key| self.table.get(key))
        {
            self.explain_head(now, head, found);
        }
    }

    /// What is behind a head that waits waits as long, were it light enough to go now.
    fn explain_head(&self, now: Timestamp, head: &Entry, found: &mut Vec<Constraint>) {
        let known = found.iter().map(|constraint| constraint.ready_at).max().unwrap_or(now);
        let mut latest: Option<Constraint> = None;
        self.budget.constraints(now, head.lane, &head.cost(), Grant::Ordinary, Self::rules(&self.policy), &mut |it| {
            latest = latest.filter(|latest| latest.ready_at >= it.ready_at).or(Some(it));
        });
        if let Some(Constraint { ready_at, certainty, .. }) = latest.filter(|latest| latest.ready_at > known) {
            found.push(Constraint { certainty, ..Constraint::exact(Wall::Queue, ScopeKind::Mailbox, ready_at) });
        }
    }

    /// What goes before an operation of this lane. Walks the lane: for people, not for the way of a send.
    fn ahead_of(&self, entry: &Entry) -> CostSum {
        let mut ahead = CostSum::default();
        if entry.lane == Lane::Background {
            ahead = self.table.queued_cost(Lane::Foreground);
        }
        for earlier in self.table.lane(entry.lane).filter(|earlier| earlier.key < entry.key) {
            ahead.add(&earlier.cost());
        }
        ahead
    }

    fn next_key(&self) -> Option<OperationKey> {
        let first = |lane| self.table.lane(lane).map(|entry| entry.key).min();
        first(Lane::Foreground).or_else(|| first(Lane::Background))
    }

    /// The facts of this mailbox, for people.
    #[must_use]
    pub fn facts(&self, now: Timestamp) -> MailboxFacts {
        let now = self.now.max(now);
        let per_lane = |count: &dyn Fn(Lane) -> u32| Lane::ALL.map(count);
        MailboxFacts {
            scope: self.budget.scope().clone(),
            waiting: per_lane(&|lane| self.table.queued(lane)),
            oldest: Lane::ALL.map(|lane| self.oldest_age(now, lane)),
            in_flight: self.budget.in_flight_per_lane(),
            concurrency: self.budget.concurrency(),
            windows: self.windows(now),
            breaker: self.budget.breaker_facts(now),
            constraints: self.explain(now, None),
        }
    }

    fn windows(&self, now: Timestamp) -> Vec<WindowFacts> {
        let fact = |(at, limit): (usize, &crate::engine::limit::Limit)| {
            let effective = self.budget.amount(now, at);
            match self.budget.rows().get(at) {
                None => WindowFacts { limit: *limit, effective, used: [0, 0], reserve: 0 },
                Some(row) => WindowFacts {
                    limit: *limit,
                    effective,
                    used: Lane::ALL.map(|lane| row.ledger.used_by(lane, now)),
                    reserve: row.share.reserve(now, effective, limit, &self.policy.lanes),
                },
            }
        };
        self.budget.limits().iter().enumerate().map(fact).collect()
    }
}
