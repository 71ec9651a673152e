//! The accounts of every mailbox, tenant and of the application: windows, requests in flight, penalties.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Cost, Ratio, ScopeKind, Timestamp};

use super::limit::{ConcurrencyLimit, UpstreamLimit};
use super::model::{Early, Penalty};
use super::window::{Charge, Window};

/// Accounts kept per kind of scope before idle ones are forgotten. An idle account is as good as a new one.
const ACCOUNTS_MAX: usize = 131_072;

/// What is enforced at one kind of scope.
#[derive(Clone, Debug)]
struct Rules {
    kind: ScopeKind,
    limits: Vec<UpstreamLimit>,
    concurrency: Option<u32>,
}

/// The state of one scope; windows stand in the order of its kind's limits.
#[derive(Clone, Debug)]
struct Account {
    windows: Vec<Window>,
    in_flight: u32,
    refusals: VecDeque<Timestamp>,
    penalised_until: Timestamp,
}

impl Account {
    fn new(rules: &Rules) -> Self {
        Self {
            windows: rules.limits.iter().map(Window::new).collect(),
            in_flight: 0,
            refusals: VecDeque::new(),
            penalised_until: Timestamp::EPOCH,
        }
    }

    fn refresh(&mut self, now: Timestamp, rules: &Rules) {
        for (window, limit) in self.windows.iter_mut().zip(&rules.limits) {
            window.refresh(now, limit);
        }
    }

    fn is_idle(&mut self, now: Timestamp, rules: &Rules) -> bool {
        self.refresh(now, rules);
        self.in_flight == 0
            && self.penalised_until <= now
            && self.windows.iter().zip(&rules.limits).all(|(window, limit)| window.is_idle(now, limit))
    }
}

/// Whose budgets a request uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who<'a> {
    pub(super) mailbox: &'a Arc<str>,
    pub(super) tenant: Option<&'a Arc<str>>,
}

/// A limit that cannot take a cost now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shortage {
    pub(super) scope: ScopeKind,
    /// When it can, if nothing else arrives; [`Timestamp::NEVER`]: not while the limit is what it is.
    pub(super) ready_at: Timestamp,
    pub(super) window: Duration,
}

/// Every account.
#[derive(Clone, Debug)]
pub(super) struct Scopes {
    mailbox: Rules,
    tenant: Rules,
    application: Rules,
    mailboxes: BTreeMap<Arc<str>, Account>,
    tenants: BTreeMap<Arc<str>, Account>,
    everything: Account,
}

impl Scopes {
    pub(super) fn new(limits: &[UpstreamLimit], concurrency: &[ConcurrencyLimit]) -> Self {
        let rules = |kind: ScopeKind| Rules {
            kind,
            limits: limits.iter().filter(|limit| limit.scope == kind).cloned().collect(),
            concurrency: concurrency.iter().filter(|limit| limit.scope == kind).map(|limit| limit.amount).min(),
        };
        let application = rules(ScopeKind::Application);
        Self {
            mailbox: rules(ScopeKind::Mailbox),
            tenant: rules(ScopeKind::Tenant),
            everything: Account::new(&application),
            application,
            mailboxes: BTreeMap::new(),
            tenants: BTreeMap::new(),
        }
    }

    /// Whether requests in flight are bounded anywhere.
    pub(super) fn bounds_in_flight(&self) -> bool {
        [&self.mailbox, &self.tenant, &self.application].iter().any(|rules| rules.concurrency.is_some())
    }

    /// The first scope, narrowest first, that has as many requests in flight as it may.
    pub(super) fn saturated(&mut self, now: Timestamp, who: Who<'_>) -> Option<ScopeKind> {
        let mut found = None;
        self.each(now, who, |rules, account| {
            let full = rules.concurrency.is_some_and(|most| account.in_flight >= most);
            found = found.or(full.then_some(rules.kind));
        });
        found
    }

    /// Of the limits that cannot take `cost` now, the one that can last; `None` when all of them can.
    pub(super) fn shortage(&mut self, now: Timestamp, who: Who<'_>, cost: &Cost) -> Option<Shortage> {
        let mut latest: Option<Shortage> = None;
        self.each(now, who, |rules, account| {
            for (window, limit) in account.windows.iter().zip(&rules.limits) {
                let ready_at = window.ready_at(now, cost.of(limit.unit), limit);
                if ready_at > now && latest.is_none_or(|shortage| shortage.ready_at < ready_at) {
                    latest = Some(Shortage { scope: rules.kind, ready_at, window: limit.window });
                }
            }
        });
        latest
    }

    /// Charges every limit.
    pub(super) fn charge(&mut self, now: Timestamp, who: Who<'_>, cost: &Cost, charge: Charge) {
        self.each(now, who, |rules, account| {
            for (window, limit) in account.windows.iter_mut().zip(&rules.limits) {
                window.charge(now, cost.of(limit.unit), limit, charge);
            }
        });
    }

    /// The used share of the limit that is closest to full, or furthest over.
    pub(super) fn usage(&mut self, now: Timestamp, who: Who<'_>) -> Ratio {
        let mut most = 0;
        self.each(now, who, |rules, account| {
            for (window, limit) in account.windows.iter().zip(&rules.limits) {
                let (used, amount) = window.used(now, limit);
                most = most.max(u128::from(used) * 1_000_000 / u128::from(amount.max(1)));
            }
        });
        Ratio::ppm(u32::try_from(most).unwrap_or(u32::MAX))
    }

    /// One more in flight.
    pub(super) fn enter(&mut self, now: Timestamp, who: Who<'_>) {
        self.each(now, who, |_, account| account.in_flight = account.in_flight.saturating_add(1));
    }

    /// One less.
    pub(super) fn leave(&mut self, now: Timestamp, who: Who<'_>) {
        self.each(now, who, |_, account| account.in_flight = account.in_flight.saturating_sub(1));
    }

    /// Until when the mailbox is penalised, if it is; an early arrival may start that anew.
    pub(super) fn penalised(&mut self, now: Timestamp, who: Who<'_>, penalty: &Penalty) -> Option<Timestamp> {
        let account = account(&mut self.mailboxes, who.mailbox, &self.mailbox, now);
        if account.penalised_until <= now {
            return None;
        }
        if penalty.early == Early::Restarts {
            account.penalised_until = now.after(penalty.lasts);
        }
        Some(account.penalised_until)
    }

    /// Notes a refusal, which may be one too many; until when the mailbox is penalised.
    pub(super) fn refused(&mut self, now: Timestamp, who: Who<'_>, penalty: &Penalty) -> Timestamp {
        let account = account(&mut self.mailboxes, who.mailbox, &self.mailbox, now);
        account.refusals.push_back(now);
        while account.refusals.front().is_some_and(|at| at.after(penalty.within) <= now) {
            account.refusals.pop_front();
        }
        if account.refusals.len() >= penalty.refusals as usize {
            account.refusals.clear();
            account.penalised_until = account.penalised_until.max(now.after(penalty.lasts));
        }
        account.penalised_until
    }

    /// The next instant at which a limit changes.
    pub(super) fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        let all = [&self.mailbox, &self.tenant, &self.application];
        all.iter().flat_map(|rules| &rules.limits).filter_map(|limit| limit.scale.next_change(now)).min()
    }

    fn each(&mut self, now: Timestamp, who: Who<'_>, mut visit: impl FnMut(&Rules, &mut Account)) {
        let mailbox = account(&mut self.mailboxes, who.mailbox, &self.mailbox, now);
        mailbox.refresh(now, &self.mailbox);
        visit(&self.mailbox, mailbox);
        if let Some(tenant) = who.tenant {
            let tenant = account(&mut self.tenants, tenant, &self.tenant, now);
            tenant.refresh(now, &self.tenant);
            visit(&self.tenant, tenant);
        }
        self.everything.refresh(now, &self.application);
        visit(&self.application, &mut self.everything);
    }
}

/// The account of `id`; a new one if it has none. At the bound, idle accounts make room; if none is idle it grows on,
/// because forgetting a charge would let a window overflow unseen.
fn account<'a>(
    accounts: &'a mut BTreeMap<Arc<str>, Account>,
    id: &Arc<str>,
    rules: &Rules,
    now: Timestamp,
) -> &'a mut Account {
    if accounts.len() >= ACCOUNTS_MAX && !accounts.contains_key(id) {
        accounts.retain(|_, account| !account.is_idle(now, rules));
    }
    accounts.entry(Arc::clone(id)).or_insert_with(|| Account::new(rules))
}
