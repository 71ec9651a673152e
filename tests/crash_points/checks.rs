//! What has to hold of every run, whatever befell it.

use std::collections::BTreeMap;
use std::sync::Arc;

use mailweir::engine::Timestamp;
use mailweir::engine::invariants::operation;
use mailweir::upstream::check;

use crate::acts::{COOLDOWN, PERMIT, Scenario};
use crate::book::Flight;
use crate::obeyed;
use crate::one::One;
use crate::world::Run;

/// What the upstream took of emails that it had taken before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Executions {
    /// Allowed by the policy, or by a person.
    pub(crate) doubled: u64,
    /// Within the time for which the provider drops them.
    pub(crate) dropped: u64,
}

/// The first thing that is wrong.
pub(crate) fn check(scenario: &Scenario, run: &Run) -> Result<Executions, String> {
    if let Some(wrong) = run.book.wrong.first() {
        return Err(wrong.clone());
    }
    nothing_is_lost(run)?;
    windows_hold(scenario, run)?;
    obeyed::check(run)?;
    let flights = flights(run);
    let taken = taken(run);
    let mut executions = Executions::default();
    for (key, history) in &run.book.histories {
        let of_one = One {
            key: *key,
            history,
            flights: flights.get(&history.id).map_or(&[][..], Vec::as_slice),
            taken: taken.get(&history.id).map_or(&[][..], Vec::as_slice),
        };
        let Executions { doubled, dropped } = of_one.check(scenario, run)?;
        (executions.doubled, executions.dropped) = (executions.doubled + doubled, executions.dropped + dropped);
    }
    one_operation_per_key(scenario, run)?;
    match taken.keys().find(|id| !run.rows.contains_key(*id) && !id.starts_with(PERMIT)) {
        Some(id) => Err(format!("{id} arrived at the upstream and is not stored")),
        None => Ok(executions),
    }
}

/// When the upstream took the emails of each key.
fn taken(run: &Run) -> BTreeMap<Arc<str>, Vec<Timestamp>> {
    let mut taken: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for arrival in run.upstream.log().client().filter(|arrival| arrival.executed) {
        taken.entry(Arc::clone(&arrival.key)).or_default().push(arrival.at);
    }
    taken
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
