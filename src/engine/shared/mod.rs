//! The shared scopes: the application and its tenants.
//!
//! A mailbox that holds its own slot asks here for the rest. One decision covers the tenant and the application, all
//! or nothing, so no slot of one is parked on the refusal of the other. Whoever has to wait keeps a place here and
//! holds nothing; when there is room it is granted by itself. That is the resumption after a shared cooldown, too:
//! a thousand mailboxes are let go one by one, at the admitted rate, in deficit round robin.
//!
//! The breakers of these scopes live here beside their budgets: one cooldown, one probe, one ramp for everybody.

mod door;
mod election;
mod floors;
mod grant;
mod io;
mod reload;
mod restore;
mod settle;
mod standing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

pub use door::check;
pub use election::Ballot;
pub use io::{Asker, Effect, Input, MailboxKey};
pub use standing::Standing;

use self::floors::Floors;
use super::breaker::BreakerFacts;
use super::budget::{Budget, Rules};
use super::constraint::Constraint;
use super::cost::Cost;
use super::event::Event;
use super::lane::Lane;
use super::lanes::LaneQueue;
use super::mailbox::{AskShared, trouble};
use super::operation::KeyMap;
use super::policy::SharedPolicy;
use super::scope::Scope;
use super::time::Timestamp;
use election::Election;

/// Names of turns that are kept for whoever asks next, whether or not somebody waits.
const LABELS_KEPT: usize = 1_024;

/// The engine of the shared scopes: one decision over the application and the tenant, all or nothing.
#[derive(Clone, Debug)]
pub struct Shared {
    policy: Arc<SharedPolicy>,
    application: Budget,
    tenants: BTreeMap<Arc<str>, Budget>,
    lanes: [LaneQueue; 2],
    waiting: KeyMap<Claimant>,
    granted: KeyMap<Claimant>,
    /// What the queues take turns by: a mailbox's claimants of one tenant, so that a tenant that waits keeps no other one
    /// of the same mailbox from its turn.
    labels: BTreeMap<(MailboxKey, Option<Arc<str>>), Arc<str>>,
    /// What keeps background alive.
    floors: Floors,
    announced: AskShared,
    effects: VecDeque<Effect>,
    events: Vec<Event>,
    now: Timestamp,
    pump_at: Timestamp,
    /// Tenants whose budgets have something to wait for: a cooldown, a hold, a lingering connection.
    alert: BTreeSet<Arc<str>>,
    /// Tenants that used something of their windows and may have to wait for it, whoever asks next.
    used: BTreeSet<Arc<str>>,
    /// Where the search for tenants' budgets that may be dropped goes on.
    looked_at: Option<Arc<str>>,
    /// Whose turn it is to probe; `None`: there is one process only.
    election: Option<Election>,
}

/// Who waits, or holds a reservation.
#[derive(Clone, Debug)]
struct Claimant {
    asker: Asker,
    lane: Lane,
    tenant: Option<Arc<str>>,
    cost: Cost,
    since: Timestamp,
    /// The tenant whose budget was charged with the application's, if that tenant has one.
    charged: Option<Arc<str>>,
}

impl Shared {
    /// An engine with nothing in it.
    #[must_use]
    pub fn new(policy: Arc<SharedPolicy>) -> Self {
        let bypass_max = policy.lanes.bypass_max;
        let mut shared = Self {
            application: Budget::new(Scope::Application, &policy.application),
            policy,
            tenants: BTreeMap::new(),
            lanes: [LaneQueue::new(bypass_max), LaneQueue::new(bypass_max)],
            waiting: KeyMap::default(),
            granted: KeyMap::default(),
            labels: BTreeMap::new(),
            floors: Floors::default(),
            announced: AskShared::Always,
            effects: VecDeque::new(),
            events: Vec::new(),
            now: Timestamp::EPOCH,
            pump_at: Timestamp::NEVER,
            alert: BTreeSet::new(),
            used: BTreeSet::new(),
            looked_at: None,
            election: None,
        };
        shared.announced = shared.needed();
        shared
    }

    /// Takes one input. Drain [`Shared::poll_effect`] afterwards, then arm one timer for [`Shared::poll_deadline`].
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        self.now = self.now.max(now);
        let now = self.now;
        let asked = match &input {
            Input::Reserve { asker, .. } => Some(asker.key),
            _ => None,
        };
        self.take(now, input);
        self.sweep(now);
        self.plan_waves(now);
        self.pump(now);
        self.yield_turns(now);
        if let Some(key) = asked {
            self.tell_wait(now, key);
        }
        self.announce();
        let events = std::mem::take(&mut self.events);
        self.effects.extend(events.iter().filter_map(troubled));
        self.effects.extend(events.into_iter().map(Effect::Event));
        // A deadline that is not ahead would have the shell come back for ever.
        debug_assert!(self.poll_deadline().is_none_or(|at| at > now), "a deadline that has passed is still named");
    }

    /// The next effect to perform; `None` when the input has been worked off.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to come back with [`Input::Wake`], if nothing happens before.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<Timestamp> {
        let pump = (self.pump_at != Timestamp::NEVER).then_some(self.pump_at);
        let tenants = self.alert.iter().filter_map(|tenant| self.tenants.get(tenant)?.deadline()).min();
        [pump, self.application.deadline(), tenants].into_iter().flatten().min()
    }

    /// What a new mailbox is to be told: whether to ask before each send.
    #[must_use]
    pub fn ask(&self) -> AskShared {
        self.announced
    }

    /// The breakers of the shared scopes that are not quiet.
    #[must_use]
    pub fn breakers(&self, now: Timestamp) -> Vec<(Scope, BreakerFacts)> {
        let now = self.now.max(now);
        self.troubled().map(|budget| (budget.scope().clone(), budget.breaker_facts(now))).collect()
    }

    /// Every constraint that keeps a send of this kind waiting at the shared scopes.
    #[must_use]
    pub fn explain(&self, now: Timestamp, lane: Lane, tenant: Option<&Arc<str>>, cost: &Cost) -> Vec<Constraint> {
        let now = self.now.max(now);
        let mut found = Vec::new();
        let mut put = |constraint| found.push(constraint);
        let rules = Rules::from(&*self.policy);
        let tenant = tenant.and_then(|tenant| self.tenants.get(tenant));
        for budget in tenant.into_iter().chain([&self.application]) {
            budget.constraints(now, lane, cost, super::budget::Grant::Ordinary, rules, &mut put);
        }
        found
    }

    /// What it goes by.
    pub(in crate::engine) fn policy(&self) -> &SharedPolicy {
        &self.policy
    }

    /// Attempts in flight under reservations of the application.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.application.in_flight()
    }

    /// Who holds a reservation, and of which tenant, in order of operations.
    pub(in crate::engine) fn granted(&self) -> Vec<(Asker, Option<Arc<str>>)> {
        let mut granted: Vec<_> =
            self.granted.values().map(|claimant| (claimant.asker, claimant.tenant.clone())).collect();
        granted.sort_unstable();
        granted
    }

    /// The application's budget, and those of tenants that are not quiet.
    fn troubled(&self) -> impl Iterator<Item = &Budget> {
        let tenants = self.alert.iter().filter_map(|tenant| self.tenants.get(tenant));
        [&self.application].into_iter().chain(tenants).filter(|budget| budget.is_troubled(self.now))
    }

    fn needed(&self) -> AskShared {
        let needed = self.policy.application.is_limited()
            || self.policy.limits_tenants()
            || !self.waiting.is_empty()
            || self.troubled().next().is_some();
        if needed { AskShared::Always } else { AskShared::OnTrouble }
    }

    fn announce(&mut self) {
        let needed = self.needed();
        if needed != self.announced {
            self.announced = needed;
            self.effects.push_back(Effect::Announce(needed));
        }
    }

    fn waiting_count(&self) -> u32 {
        u32::try_from(self.waiting.len()).unwrap_or(u32::MAX)
    }

    /// The name of a turn. Those that nobody waits under are dropped by and by, so there are about as many as claimants.
    fn label(&mut self, mailbox: MailboxKey, tenant: Option<&Arc<str>>) -> Arc<str> {
        if self.labels.len() > LABELS_KEPT.max(self.waiting.len().saturating_mul(2)) {
            self.labels.retain(|_, label| Arc::strong_count(label) > 1);
        }
        let name = || Arc::from(format!("{} {}", mailbox.0, tenant.map_or("", |tenant| tenant)));
        Arc::clone(self.labels.entry((mailbox, tenant.cloned())).or_insert_with(name))
    }
}

/// What mailboxes have to hear of an event.
fn troubled(event: &Event) -> Option<Effect> {
    let reason = trouble(event)?;
    match event {
        Event::BreakerOpened { scope, .. } | Event::BreakerExtended { scope, .. } => {
            Some(Effect::Troubled { scope: scope.clone(), reason })
        }
        _ => None,
    }
}
