//! The core loop: start everything that may go now, and name the instant for the rest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::entry::{Entry, Shared, Step};
use super::standing::Bypass;
use super::table::End;
use super::{AskShared, Effect, Mailbox, SharedWait};
use crate::engine::budget::{Grant, Wait};
use crate::engine::constraint::Wall;
use crate::engine::event::Event;
use crate::engine::invariants::lanes;
use crate::engine::lane::Lane;
use crate::engine::lanes::Usable;
use crate::engine::operation::{OperationKey, OperationState};
use crate::engine::time::Timestamp;

/// Whether something of the same tenant and lane waits at the shared scopes already.
fn is_behind(waits: &BTreeMap<OperationKey, SharedWait>, lane: Lane, tenant: Option<&Arc<str>>) -> bool {
    !waits.is_empty() && waits.values().any(|wait| wait.queue.0 == lane && wait.queue.1.as_ref() == tenant)
}

/// A learned ceiling that rises faster than this is looked at this often: a day's ceiling of thousands rises by hundreds a minute.
const RISE_GAP_MIN: Duration = Duration::from_secs(1);

/// What the loop found.
#[derive(Debug)]
pub(super) enum Pick {
    Go(OperationKey, Grant),
    /// The head of this lane has to wait.
    Wait(Lane, Wait),
    Nothing,
}

impl Mailbox {
    /// Works off every deadline that has come.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        if self.budget.deadline().is_some_and(|at| at <= now) {
            let waiting = self.waiting_count();
            self.budget.wake(now, Self::rules(&self.policy), waiting, &mut self.events);
            self.stirred = true;
        }
        self.expire_holds(now);
        self.review_if_due(now);
        if self.table.next_instant() > now {
            return;
        }
        self.stirred = true;
        while let Some(key) = self.table.pop_deadline(now) {
            self.at_work = Some(key);
            self.deadline_passed(now, key);
        }
        while let Some(key) = self.table.pop_due(now) {
            self.at_work = Some(key);
            match self.table.get(key).map(|entry| (entry.step, entry.state)) {
                // What is only admitted is new to its lane; what was there before goes first again.
                Some((Step::Delayed { .. }, OperationState::Admitted)) => self.ready(now, key, End::Tail),
                Some((Step::Delayed { .. }, _)) => self.ready(now, key, End::Head),
                Some((Step::Unknown { .. }, _)) => self.look_up(now, key),
                _ => {}
            }
        }
        self.at_work = None;
    }

    pub(super) fn pump(&mut self, now: Timestamp) {
        self.pump_at = Timestamp::NEVER;
        if self.table.waiting_count() == 0 {
            self.table.set_standing(None);
            return self.floor.on_idle();
        }
        if self.awaits_answers() {
            self.table.set_standing(None);
            return;
        }
        if self.still_waits(now) {
            return;
        }
        while self.table.waiting_count() > 0 {
            match self.pick(now) {
                Pick::Go(key, grant) => self.start(now, key, grant),
                Pick::Wait(lane, wait) => {
                    self.pump_at = self.wakes_at(now, &wait);
                    return self.stand(now, lane, wait);
                }
                Pick::Nothing => return,
            }
        }
        self.floor.on_idle();
    }

    /// A wait that a window ends is over sooner where a learned ceiling rises meanwhile.
    pub(super) fn wakes_at(&self, now: Timestamp, wait: &Wait) -> Timestamp {
        let rises_at = wait.constraint.wall.unit().and_then(|_| self.budget.rises_at(now));
        rises_at.map_or(wait.until, |at| at.max(now.after(RISE_GAP_MIN)).min(wait.until))
    }

    /// Strict priority: background is looked at only when no foreground operation could use the slot (L3), the
    /// floor excepted.
    pub(super) fn pick(&mut self, now: Timestamp) -> Pick {
        if let Some(key) = self.peek(Lane::Foreground) {
            if let Some(background) = self.floor_pick(now) {
                return Pick::Go(background, Grant::Floor);
            }
            let Some(wait) = self.wait_of(now, key, Grant::Ordinary) else {
                return Pick::Go(key, Grant::Ordinary);
            };
            if let Some(entry) = self.table.get(key) {
                self.budget.on_foreground_wait(now, &entry.cost(), &wait);
            }
            self.floor.on_foreground_backlog(now);
            return self.pass_or_wait(now, key, wait);
        }
        if self.table.queued(Lane::Foreground) == 0 {
            self.floor.on_foreground_idle();
        }
        let Some(key) = self.peek(Lane::Background) else { return Pick::Nothing };
        if let Some(entry) = self.table.get(key) {
            self.budget.look_ahead(now, &entry.cost());
        }
        match self.wait_of(now, key, Grant::Ordinary) {
            None => Pick::Go(key, Grant::Ordinary),
            Some(wait) if self.is_shut_out(now, key) => match self.wait_of(now, key, Grant::Floor) {
                None => Pick::Go(key, Grant::Floor),
                Some(floor) if floor.until < wait.until => Pick::Wait(Lane::Background, floor),
                Some(_) => self.pass_or_wait(now, key, wait),
            },
            Some(wait) => self.pass_or_wait(now, key, wait),
        }
    }

    /// Foreground alone has been backlogged for longer than the shortest window: one background operation goes first.
    fn floor_pick(&mut self, now: Timestamp) -> Option<OperationKey> {
        if !self.floor.due(now, &self.policy.lanes, self.budget.window_min()) {
            return None;
        }
        let key = self.peek(Lane::Background)?;
        self.wait_of(now, key, Grant::Floor).is_none().then_some(key)
    }

    /// Foreground does not wait, and what it alone has used has left background nothing for longer than the shortest
    /// window: this one goes by the floor.
    fn is_shut_out(&self, now: Timestamp, key: OperationKey) -> bool {
        let fills = |entry: &Entry| self.budget.is_foregrounds(now, &entry.cost(), Self::rules(&self.policy));
        let lanes = &self.policy.lanes;
        self.floor.due_alone(now, lanes, self.budget.window_min()) && self.table.get(key).is_some_and(fills)
    }

    /// A heavy head blocks lighter followers, except those that do not postpone it (bounded bypass, L9).
    fn pass_or_wait(&mut self, now: Timestamp, head: OperationKey, wait: Wait) -> Pick {
        self.tell(head, &wait);
        let Some((lane, head_cost)) = self.table.get(head).map(|entry| (entry.lane, entry.cost())) else {
            return Pick::Nothing; // it was looked at a moment ago
        };
        if self.bypass(&wait) == Bypass::Shut || self.table.queued(lane) < 2 {
            return Pick::Wait(lane, wait);
        }
        if self.table.first_cost(lane).is_some() {
            self.table.pass_over(lane); // all cost the same: none is lighter
            return Pick::Wait(lane, wait);
        }
        let policy = &self.policy;
        let (budget, waits, rules) = (&self.budget, &self.shared_waits, Self::rules(policy));
        let passing = self.table.peek(lane, policy.lanes.bypass_max, |entry: &Entry, tenant| {
            if is_behind(waits, lane, tenant) {
                return Usable::SkipTenant;
            }
            let cost = entry.cost();
            if cost == head_cost {
                return Usable::SkipOperation; // not lighter: most are alike
            }
            let lighter = policy.scope.limits.iter().any(|limit| cost.of(limit.unit()) < head_cost.of(limit.unit()));
            let passes = entry.key != head
                && lighter
                && budget.wait(now, lane, &cost, Grant::Ordinary, rules).is_none()
                && budget.keeps_instant(now, lane, &head_cost, &cost, wait.until, rules);
            if passes { Usable::Yes } else { Usable::SkipOperation }
        });
        passing.map_or(Pick::Wait(lane, wait), |key| Pick::Go(key, Grant::Ordinary))
    }

    /// The next operation of a lane whose tenant is not already waiting at the shared scopes.
    pub(super) fn peek(&mut self, lane: Lane) -> Option<OperationKey> {
        if self.table.queued(lane) == 0 {
            return None;
        }
        let waits = &self.shared_waits;
        self.table.peek(lane, self.policy.lanes.bypass_max, |_, tenant| {
            if is_behind(waits, lane, tenant) { Usable::SkipTenant } else { Usable::Yes }
        })
    }

    pub(super) fn wait_of(&self, now: Timestamp, key: OperationKey, grant: Grant) -> Option<Wait> {
        let entry = self.table.get(key)?;
        self.budget.wait(now, entry.lane, &entry.cost(), grant, Self::rules(&self.policy))
    }

    /// Charges the mailbox's own budget, then goes the way of the other scopes.
    fn start(&mut self, now: Timestamp, key: OperationKey, grant: Grant) {
        self.at_work = Some(key);
        let Some(entry) = self.table.take(key, Step::Reserving { since: now }) else { return };
        let (lane, cost) = (entry.lane, entry.cost());
        if cfg!(debug_assertions) {
            self.assert_order(now, key, grant);
        }
        self.budget.reserve(now, lane, &cost, Self::rules(&self.policy), &mut self.events);
        if cfg!(debug_assertions) && lane == Lane::Background && grant == Grant::Ordinary {
            self.budget.assert_reserve(now, &cost, Self::rules(&self.policy));
        }
        if cfg!(debug_assertions) {
            self.budget.assert_part(now, lane, &cost, Self::rules(&self.policy));
        }
        self.on_start(now, lane, grant);
        match self.ask {
            AskShared::Always => {
                self.reserving = self.reserving.saturating_add(1);
                let tenant = self.table.get(key).and_then(|entry| self.table.tenant(entry)).cloned();
                self.effects.push_back(Effect::Reserve { key, lane, tenant, cost });
            }
            AskShared::OnTrouble => self.claim(now, key, Shared::NotAsked),
        }
    }

    /// L3, at every background grant of a debug build.
    pub(super) fn assert_order(&mut self, now: Timestamp, key: OperationKey, grant: Grant) {
        if self.table.get(key).is_none_or(|entry| entry.lane == Lane::Foreground) {
            return;
        }
        let runnable =
            self.peek(Lane::Foreground).is_some_and(|first| self.wait_of(now, first, Grant::Ordinary).is_none());
        let foreground = if runnable { lanes::Foreground::Runnable } else { lanes::Foreground::NotRunnable };
        let grant = match grant {
            Grant::Ordinary => lanes::BackgroundGrant::Ordinary,
            Grant::Floor => lanes::BackgroundGrant::Floor,
        };
        if let Err(violation) = lanes::foreground_goes_first(foreground, grant) {
            debug_assert!(false, "{violation}");
        }
    }

    /// An operation has its slot here.
    pub(super) fn on_start(&mut self, now: Timestamp, lane: Lane, grant: Grant) {
        match grant {
            Grant::Ordinary => self.floor.on_grant(now, lane),
            Grant::Floor => self.floor.on_floor_grant(),
        }
        self.told = None;
    }

    /// A mailbox is paced by its ledger and its connections, so its wave only tells.
    pub(super) fn plan_wave(&mut self, now: Timestamp) {
        if self.budget.has_no_wave() {
            return;
        }
        let table = &self.table;
        let waiting = || {
            let mut cost = table.queued_cost(Lane::Foreground);
            cost.merge(&table.queued_cost(Lane::Background));
            let last = if table.queued(Lane::Background) == 0 { Lane::Foreground } else { Lane::Background };
            (table.waiting_count(), cost, last)
        };
        self.budget.plan_wave(now, waiting, None, Self::rules(&self.policy), &mut self.events);
    }

    /// One wait of one operation is one pair of events.
    fn tell(&mut self, key: OperationKey, wait: &Wait) {
        if self.told == Some((key, wait.constraint.wall)) {
            return;
        }
        self.told = Some((key, wait.constraint.wall));
        let Some(entry) = self.table.get(key) else { return };
        let (lane, cost) = (entry.lane, entry.cost());
        let scope = self.budget.scope().clone();
        let (wall, until) = (wait.constraint.wall, wait.until);
        match wall {
            Wall::Window { .. } | Wall::Reserve { .. } | Wall::Pace { .. } => {
                self.events.push(Event::ReservationDenied { scope, wall, frees_at: until, lane, cost });
            }
            Wall::Share { .. } => {
                let depth = self.table.queued(Lane::Background);
                self.events.push(Event::BackgroundCapped { scope, share: self.policy.lanes.background_share, depth });
            }
            _ => {}
        }
        self.events.push(Event::OperationDeferred { key, lane, constraint: wait.constraint, until });
    }

    pub(super) fn waiting_count(&self) -> u32 {
        self.table.waiting_count()
    }
}
