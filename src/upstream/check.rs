//! Questions to ask of the log after a run.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::Serialize;

use crate::engine::{Scope, ScopeKind, Timestamp};

use super::limit::UpstreamLimit;
use super::log::Arrival;

/// What the log says in total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Arrivals.
    pub arrivals: u64,
    /// Answered 2xx.
    pub accepted: u64,
    /// Answered 429.
    pub refused: u64,
    /// Answered 5xx.
    pub failed: u64,
    /// Emails taken, whatever was answered.
    pub executed: u64,
    /// Emails taken that the same key had had taken before.
    pub duplicates: u64,
}

/// Counts `arrivals`.
pub fn counts<'a>(arrivals: impl IntoIterator<Item = &'a Arrival>) -> Counts {
    let (mut counts, mut executions) = (Counts::default(), BTreeMap::<&str, u64>::new());
    for arrival in arrivals {
        counts.arrivals += 1;
        match arrival.status {
            200..=299 => counts.accepted += 1,
            429 => counts.refused += 1,
            500..=599 => counts.failed += 1,
            _ => {}
        }
        if arrival.executed {
            counts.executed += 1;
            *executions.entry(&*arrival.key).or_default() += 1;
        }
    }
    counts.duplicates = executions.values().map(|times| times - 1).sum();
    counts
}

/// How often the email of each key was taken; keys never taken are absent.
pub fn executions<'a>(arrivals: impl IntoIterator<Item = &'a Arrival>) -> BTreeMap<Arc<str>, u64> {
    let mut executions = BTreeMap::new();
    for arrival in arrivals.into_iter().filter(|arrival| arrival.executed) {
        *executions.entry(Arc::clone(&arrival.key)).or_default() += 1;
    }
    executions
}

/// The most that `arrivals`, in order of their instants, hold in any half-open window of the limit's length, in its
/// unit, for any one member of its scope. Answers and the limit's own algorithm do not matter: a client that is safe
/// against every phase keeps this at or below N.
pub fn max_in_window<'a>(arrivals: impl IntoIterator<Item = &'a Arrival>, limit: &UpstreamLimit) -> u64 {
    let mut windows = BTreeMap::<Scope, (VecDeque<(Timestamp, u64)>, u64)>::new();
    let mut most = 0;
    for arrival in arrivals {
        let (Some(scope), cost) = (scope_of(arrival, limit.scope), arrival.cost.of(limit.unit)) else {
            continue;
        };
        let (window, total) = windows.entry(scope).or_default();
        while let Some((_, gone)) = window.front().copied().filter(|(at, _)| at.after(limit.window) <= arrival.at) {
            window.pop_front();
            *total = total.saturating_sub(gone);
        }
        window.push_back((arrival.at, cost));
        *total = total.saturating_add(cost);
        most = most.max(*total);
    }
    most
}

fn scope_of(arrival: &Arrival, kind: ScopeKind) -> Option<Scope> {
    match kind {
        ScopeKind::Mailbox => Some(Scope::Mailbox(Arc::clone(&arrival.mailbox))),
        ScopeKind::Tenant => arrival.tenant.clone().map(Scope::Tenant),
        ScopeKind::Application => Some(Scope::Application),
    }
}
