//! What has to hold in every run, whatever the scenario does.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::Config;
use crate::engine::invariants::{Violation, operation};
use crate::engine::mailbox::Outcome;
use crate::engine::operation::Transition;
use crate::engine::policy::ScopePolicy;
use crate::engine::{Lane, Limit, OperationKey, Scope, ScopeKind, Timestamp};
use crate::simulation::World;
use crate::simulation::scenario::Scenario;
use crate::upstream::{Algorithm, Arrival, Counts, UpstreamLimit, check};

/// One thing that has to hold.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Invariant {
    /// What, in words, with its number in ARCHITECTURE.md where it has one.
    pub name: &'static str,
    /// Whether it held, or could not be judged.
    pub kept: bool,
    /// Whether the run allows to judge it.
    pub judged: bool,
    /// What was found.
    pub found: String,
}

/// One declared window at its fullest.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WindowUse {
    /// Whose; of many mailboxes or tenants the one that came closest.
    pub scope: Scope,
    /// The limit.
    pub limit: Limit,
    /// The most that arrived in any window of its length, refused or not.
    pub most: u64,
}

/// The spans in which one configuration holds, each with the instants of its first and last arrival that count.
fn epochs<'a>(scenario: &'a Scenario, world: &World) -> Vec<(&'a Config, Timestamp, Timestamp)> {
    let start = world.start();
    let mut epochs = vec![(&scenario.config, start, Timestamp::NEVER)];
    for change in &scenario.changes {
        let at = start.after(change.at);
        if let Some(last) = epochs.last_mut() {
            last.2 = at;
        }
        // What was under way at the change was admitted before it.
        epochs.push((&change.config, at.after(change.config.guard.request_deadline_max), Timestamp::NEVER));
    }
    epochs
}

/// Every declared window at its fullest, in any configuration that held.
pub(super) fn windows(scenario: &Scenario, world: &World) -> Vec<WindowUse> {
    let mut of_mailbox: BTreeMap<&str, Vec<&Arrival>> = BTreeMap::new();
    for arrival in world.upstream().log().client() {
        of_mailbox.entry(&*arrival.mailbox).or_default().push(arrival);
    }
    let mut found: Vec<WindowUse> = Vec::new();
    for (config, from, until) in epochs(scenario, world) {
        let counts = |arrival: &&Arrival| arrival.at >= from && arrival.at < until;
        let all = || world.upstream().log().client().filter(counts);
        for (kind, policy) in [(ScopeKind::Application, &config.application), (ScopeKind::Tenant, &config.tenant)] {
            let scope = if kind == ScopeKind::Tenant { Scope::Tenant(Arc::from("")) } else { Scope::Application };
            fullest(&mut found, &scope, kind, policy, all);
        }
        for name in &scenario.mailboxes {
            let own = config.mailboxes.contains_key(name).then(|| config.mailbox_policy(name));
            let policy = own.as_ref().map_or(&config.mailbox, |own| &own.scope);
            let arrivals = of_mailbox.get(&**name).map_or(&[][..], Vec::as_slice);
            let counted = || arrivals.iter().copied().filter(counts);
            fullest(&mut found, &Scope::Mailbox(Arc::clone(name)), ScopeKind::Mailbox, policy, counted);
        }
    }
    found
}

/// Keeps, for each limit of each kind of scope, the member that came closest to it.
fn fullest<'a, I: Iterator<Item = &'a Arrival>>(
    found: &mut Vec<WindowUse>,
    scope: &Scope,
    kind: ScopeKind,
    policy: &ScopePolicy,
    arrivals: impl Fn() -> I,
) {
    for limit in &policy.limits {
        let counted = UpstreamLimit::declared(kind, limit, Algorithm::Rolling);
        let most = check::max_in_window(arrivals(), &counted);
        match found.iter_mut().find(|other| other.limit == *limit && other.scope.kind() == kind) {
            Some(other) if other.most >= most => {}
            Some(other) => (other.scope, other.most) = (scope.clone(), most),
            None => found.push(WindowUse { scope: scope.clone(), limit: *limit, most }),
        }
    }
}

pub(super) fn of(scenario: &Scenario, world: &World, windows: &[WindowUse], counts: &Counts) -> Vec<Invariant> {
    let mut all = vec![log_is_whole(world), no_window_is_exceeded(windows), nothing_is_lost(world)];
    all.push(judged("histories are as listed, sends recorded first (O1, O3, O5-O7)", histories(scenario, world)));
    all.push(judged("accepted means taken, and taken once (O10)", taken(world)));
    let name = "first in, first out, but for the bounded bypass (L9)";
    all.push(match scenario.restarts.is_empty() {
        true => judged(name, order(world, scenario.config.lanes.bypass_max as usize)),
        false => Invariant::not_judged(name, "what a restart finds unknown goes behind the others"),
    });
    let name = "no 429 from our own pace";
    let changes =
        (!scenario.changes.is_empty()).then_some("the configuration changes, and the provider's limits do not");
    all.push(match scenario.provider.deviates(&scenario.config).or(changes) {
        None => Invariant::new(name, counts.refused == 0, format!("{} of {} refused", counts.refused, counts.arrivals)),
        Some(why) => Invariant::not_judged(name, why),
    });
    all
}

impl Invariant {
    const fn new(name: &'static str, kept: bool, found: String) -> Self {
        Self { name, kept, judged: true, found }
    }

    fn not_judged(name: &'static str, why: &str) -> Self {
        Self { name, kept: true, judged: false, found: format!("not judged: {why}") }
    }
}

fn judged(name: &'static str, verdict: Result<String, Violation>) -> Invariant {
    match verdict {
        Ok(found) => Invariant::new(name, true, found),
        Err(violation) => Invariant::new(name, false, violation.to_string()),
    }
}

/// Everything else is read from the log, so it has to have all of the run.
fn log_is_whole(world: &World) -> Invariant {
    let dropped = world.upstream().log().dropped();
    let found = format!("{} arrivals, {dropped} fell out", world.upstream().log().len());
    Invariant::new("the upstream's log is whole", dropped == 0, found)
}

fn no_window_is_exceeded(windows: &[WindowUse]) -> Invariant {
    let over = windows.iter().find(|window| window.most > window.limit.amount());
    let found = match over {
        Some(window) => format!("{} of {} at {}", window.most, window.limit, window.scope),
        None => format!("{} declared", windows.len()),
    };
    Invariant::new("no declared window is exceeded (L1)", over.is_none(), found)
}

fn nothing_is_lost(world: &World) -> Invariant {
    let ended = world.traced.iter().filter(|traced| traced.ended.is_some()).count();
    let lost = world.lost();
    let found = match lost.first() {
        Some(first) => format!("{} are with nobody, the first is operation {}", lost.len(), first.0),
        None => format!("{ended} ended, {} to come", world.pending()),
    };
    Invariant::new("nothing is lost", lost.is_empty(), found)
}

/// O1, O3, O5, O6 and O7 over every operation's whole history.
fn histories(scenario: &Scenario, world: &World) -> Result<String, Violation> {
    let mut transitions = world.transitions.clone();
    transitions.sort_by_key(|(key, _)| *key);
    let configs = [&scenario.config].into_iter().chain(scenario.changes.iter().map(|change| &change.config));
    let attempts_max = configs.map(|config| config.retry.attempts_max.get()).max().unwrap_or(1);
    for of_one in transitions.chunk_by(|a, b| a.0 == b.0) {
        let key = of_one[0].0;
        let mut whole = vec![Transition::Enqueue];
        whole.extend(of_one.iter().map(|(_, transition)| *transition).filter(|step| *step != Transition::Enqueue));
        operation::replay(key, &whole)?;
        let count = |wanted: Transition| whole.iter().filter(|transition| **transition == wanted).count() as u64;
        operation::sends_are_recorded(key, world.sends(key), count(Transition::Claim))?;
        let paid = count(Transition::Retry) + count(Transition::Repeat);
        operation::attempts_are_bounded(key, u32::try_from(paid).unwrap_or(u32::MAX), attempts_max)?;
    }
    Ok(format!("{} transitions", transitions.len()))
}

/// What was answered as accepted was taken; what was taken twice was repeated from unknown, and is recorded so.
fn taken(world: &World) -> Result<String, Violation> {
    let executions = check::executions(world.upstream().log().client());
    let mut repeats: BTreeMap<OperationKey, u64> = BTreeMap::new();
    for (key, _) in world.transitions.iter().filter(|(_, transition)| *transition == Transition::Repeat) {
        *repeats.entry(*key).or_default() += 1;
    }
    for ended in world.ended() {
        let times = executions.get(&*ended.key.0.to_string()).copied().unwrap_or(0);
        if matches!(ended.outcome, Outcome::Accepted { .. }) && times == 0 {
            return Err(Violation::new("O10", format_args!("operation {} was accepted and never taken", ended.key.0)));
        }
        let repeated = repeats.get(&ended.key).copied().unwrap_or(0);
        operation::duplicates_are_accounted(ended.key, times.max(1), repeated)?;
    }
    let duplicates: u64 = executions.values().map(|times| times - 1).sum();
    Ok(format!("{} taken, {duplicates} of them again", executions.len()))
}

/// First attempts follow the order of submission, per mailbox, lane and tenant.
fn order(world: &World, bypass_max: usize) -> Result<String, Violation> {
    type Line<'a> = (usize, Lane, Option<&'a Arc<str>>);
    // Of each line the latest few submissions that have gone already.
    let mut gone: BTreeMap<Line<'_>, Vec<Timestamp>> = BTreeMap::new();
    for (mailbox, lane, key) in world.order() {
        let Some(traced) = world.get(*key) else { continue };
        let latest = gone.entry((*mailbox, *lane, traced.tenant.as_ref())).or_default();
        let passed_by = latest.len() - latest.partition_point(|at| *at <= traced.submitted_at);
        if passed_by > bypass_max {
            return Err(Violation::new("L9", format_args!("operation {} was passed {passed_by} times", key.0)));
        }
        latest.insert(latest.len() - passed_by, traced.submitted_at);
        if latest.len() > bypass_max + 1 {
            latest.remove(0);
        }
    }
    Ok(format!("{} first attempts", world.order().len()))
}
