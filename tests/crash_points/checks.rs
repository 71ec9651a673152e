//! What has to hold of every run, whatever befell it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mailweir::Outcome;
use mailweir::engine::invariants::{Violation, operation};
use mailweir::engine::operation::Transition;
use mailweir::engine::policy::DuplicatePolicy;
use mailweir::engine::{OperationKey, OperationState, Timestamp};
use mailweir::upstream::check;

use crate::book::{Flight, History};
use crate::scenarios::{COOLDOWN, PERMIT, Scenario};
use crate::world::Run;

/// The first thing that is wrong.
pub(crate) fn check(scenario: &Scenario, run: &Run) -> Result<(), String> {
    if let Some(wrong) = run.book.wrong.first() {
        return Err(wrong.clone());
    }
    nothing_is_lost(run)?;
    windows_hold(scenario, run)?;
    let flights = flights(run);
    let taken = check::executions(run.upstream.log().client());
    for (key, history) in &run.book.histories {
        let of_one = One {
            key: *key,
            history,
            flights: flights.get(&history.id).map_or(&[][..], Vec::as_slice),
            taken: taken.get(&history.id).copied().unwrap_or(0),
        };
        of_one.check(scenario, run)?;
    }
    one_operation_per_key(scenario, run)?;
    match taken.keys().find(|id| !run.rows.contains_key(*id) && !id.starts_with(PERMIT)) {
        Some(id) => Err(format!("{id} arrived at the upstream and is not stored")),
        None => Ok(()),
    }
}

/// What was taken in is there, and has ended; nothing else is there.
fn nothing_is_lost(run: &Run) -> Result<(), String> {
    if let Some(id) = run.told.taken_in.iter().find(|id| !run.rows.contains_key(*id)) {
        return Err(format!("{id} was taken in and is lost"));
    }
    if let Some(row) = run.rows.values().find(|row| !row.state.is_final()) {
        return Err(format!("{} is {} for ever", row.id, row.state));
    }
    let admitted: Vec<_> = run.book.histories.keys().copied().collect();
    let states: Vec<_> = run.rows.values().map(|row| (row.key, row.state)).collect();
    operation::one_state(&admitted, &states).map_err(|violation| violation.to_string())
}

/// Within its cooldown a key has admitted one operation.
fn one_operation_per_key(scenario: &Scenario, run: &Run) -> Result<(), String> {
    let mut admitted: BTreeMap<Arc<str>, Vec<(Timestamp, Arc<str>)>> = BTreeMap::new();
    for (key, id) in scenario.keys(run.seed) {
        if let Some(row) = run.rows.get(&id) {
            admitted.entry(key).or_default().push((row.submitted_at, id));
        }
    }
    for (key, mut operations) in admitted {
        operations.sort_unstable();
        if let Some([first, second]) = operations.windows(2).find(|pair| pair[1].0.since(pair[0].0) < COOLDOWN) {
            return Err(format!("{key} admitted {} at {} and {} at {}", first.1, first.0, second.1, second.0));
        }
    }
    Ok(())
}

fn windows_hold(scenario: &Scenario, run: &Run) -> Result<(), String> {
    let log = run.upstream.log();
    if log.dropped() > 0 {
        return Err("the log overflowed".to_owned());
    }
    for limit in &run.upstream.model().limits {
        let most = check::max_in_window(log.client(), limit);
        if most > limit.amount {
            return Err(format!("L1: {most} of {} {:?} in {:?}", limit.amount, limit.unit, limit.window));
        }
    }
    match log.client().find(|arrival| arrival.status == 429 && !(scenario.is_blocked)(arrival.at)) {
        Some(arrival) => Err(format!("{} was refused at {}", arrival.key, arrival.at)),
        None => Ok(()),
    }
}

fn flights(run: &Run) -> BTreeMap<Arc<str>, Vec<Flight>> {
    let mut flights: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for flight in &run.book.flights {
        flights.entry(Arc::clone(&flight.id)).or_default().push(flight.clone());
    }
    flights
}

/// One operation, from all sides.
struct One<'a> {
    key: OperationKey,
    history: &'a History,
    flights: &'a [Flight],
    /// How often the upstream took it.
    taken: u64,
}

impl One<'_> {
    fn check(&self, scenario: &Scenario, run: &Run) -> Result<(), String> {
        let named = |what: String| format!("{} {:?}: {what}", self.history.id, self.history.steps);
        self.invariants(scenario).map_err(|violation| named(violation.to_string()))?;
        let config = (scenario.config)();
        let row = run.rows.get(&self.history.id).ok_or_else(|| named("it is not stored".to_owned()))?;
        let (most, count) = (config.retry.attempts_max.get(), |of| self.count(of));
        operation::attempts_are_bounded(self.key, row.attempts, most)
            .map_err(|violation| named(violation.to_string()))?;
        if (row.state, row.rows) != (self.history.state, self.history.rows) {
            return Err(named(format!("the store has {} after {} rows", row.state, row.rows)));
        }
        if row.state == OperationState::Accepted && self.taken == 0 {
            return Err(named("accepted, and the upstream never took it".to_owned()));
        }
        if config.retry.duplicates == DuplicatePolicy::AtMostOnce && self.taken > 1 {
            return Err(named(format!("taken {} times under at-most-once", self.taken)));
        }
        let never_unknown = count(Transition::Lose) == 0;
        if row.state != OperationState::Accepted && never_unknown && self.taken > 0 {
            return Err(named(format!("it is {}, and the upstream took it", row.state)));
        }
        self.told(run, row.state).map_err(named)
    }

    fn count(&self, of: Transition) -> u64 {
        self.history.steps.iter().filter(|step| **step == of).count() as u64
    }

    fn invariants(&self, scenario: &Scenario) -> Result<(), Violation> {
        let config = (scenario.config)();
        operation::replay(self.key, &self.history.steps)?;
        operation::sends_are_recorded(self.key, self.flights.len() as u64, u64::from(self.history.rows))?;
        let fingerprints: Vec<_> = self.flights.iter().map(|flight| flight.fingerprint).collect();
        operation::payload_is_fixed(self.key, &fingerprints)?;
        let paid = self.count(Transition::Retry) + self.count(Transition::Repeat);
        let paid = u32::try_from(paid).unwrap_or(u32::MAX);
        operation::attempts_are_bounded(self.key, paid, config.retry.attempts_max.get())?;
        operation::duplicates_are_accounted(self.key, self.taken, self.count(Transition::Repeat))?;
        self.one_live_attempt(config.guard.request_deadline_max)
    }

    fn one_live_attempt(&self, request_deadline_max: Duration) -> Result<(), Violation> {
        let views: Vec<_> = self
            .flights
            .iter()
            .map(|flight| operation::AttemptView { key: self.key, claimed_at: flight.started, ended_at: flight.ended })
            .collect();
        views.iter().try_for_each(|view| operation::one_live_attempt(view.claimed_at, request_deadline_max, &views))
    }

    /// What callers were told before a death still holds after it.
    fn told(&self, run: &Run, state: OperationState) -> Result<(), String> {
        let id = &self.history.id;
        if run.told.cancelled.contains(id) && (self.taken > 0 || state != OperationState::Cancelled) {
            return Err(format!("its cancellation was confirmed; it is {state}, taken {} times", self.taken));
        }
        if let Some(at) = run.told.requested.get(id) {
            if self.flights.iter().any(|flight| flight.started > *at) {
                return Err(format!("it was to be cancelled at {at}, and was sent after that"));
            }
            let ended = [OperationState::Accepted, OperationState::Rejected, OperationState::Cancelled];
            if !ended.contains(&state) {
                return Err(format!("it was to be cancelled when its attempt had ended, and is {state}"));
            }
        }
        match run.told.outcomes.get(id) {
            Some(Outcome::Accepted { .. }) if self.taken == 0 => Err("told accepted, and never taken".to_owned()),
            Some(Outcome::Cancelled { maybe_sent: false }) if self.taken > 0 => {
                Err("told cancelled and surely not sent, and taken".to_owned())
            }
            Some(Outcome::Cancelled { maybe_sent } | Outcome::Exhausted { maybe_sent, .. })
                if run.rows.get(id).is_some_and(|row| row.state == state && row.maybe_sent != *maybe_sent) =>
            {
                Err(format!("told {:?}, and its row says otherwise", run.told.outcomes[id]))
            }
            Some(Outcome::Exhausted { .. } | Outcome::Rejected { .. }) if state == OperationState::Accepted => {
                Err(format!("told {:?}, and accepted", run.told.outcomes[id]))
            }
            _ => Ok(()),
        }
    }
}
