//! What happened in a run: a scenario says what it is for, and an enumeration in which that never happened fails.

use std::collections::BTreeMap;
use std::time::Duration;

use mailweir::engine::operation::Transition;
use mailweir::engine::{OperationState, Resolution};
use mailweir::scheduler::OrderAnswer;
use mailweir::upstream::check;

use crate::acts::HOUR;
use crate::book::History;
use crate::checks::Executions;
use crate::orders::{Given, Verb, Word};
use crate::world::Run;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sight {
    Quarantined,
    QuarantinedMidway,
    CancelledMidway,
    Released,
    /// One that was set aside was cancelled.
    Discarded,
    ResolvedAsSent,
    ResolvedAsAbsent,
    /// Set aside because it crashed what sent it.
    SetAside,
    /// In force when a process began.
    HoldStood,
    TripStood,
    /// A resume or a close that was acknowledged before a process began.
    LiftStood,
    /// It ended by itself.
    HoldEnded,
    TripEnded,
    HoldReplaced,
    Found,
    /// Known absent, and sent again.
    Repeated,
    RepeatedBlindly,
    /// A duplicate that the policy, or a person, allowed.
    Doubled,
    /// A duplicate that the provider dropped.
    Dropped,
    DeadlineMidway,
    DeadlineInDeadTime,
    DayIsFull,
}

/// How often each was seen.
pub(crate) type Sights = BTreeMap<Sight, u64>;

pub(crate) fn add(sights: &mut Sights, run: &Run, executions: &Executions) {
    let mut see = |sight, times: u64| *sights.entry(sight).or_default() += times;
    for given in run.told.orders.all() {
        of_order(run, given).into_iter().for_each(|sight| see(sight, 1));
    }
    for history in run.book.histories.values() {
        of_history(run, history).into_iter().for_each(|sight| see(sight, 1));
    }
    see(Sight::Doubled, executions.doubled);
    see(Sight::Dropped, executions.dropped);
    let days = run.upstream.model().limits.iter().filter(|limit| limit.window >= 24 * HOUR);
    for limit in days {
        // A sub-bucket's worth of it may lie fallow.
        let full = limit.amount - limit.amount / 10;
        see(Sight::DayIsFull, u64::from(check::max_in_window(run.upstream.log().client(), limit) >= full));
    }
}

fn of_order(run: &Run, given: &Given) -> Vec<Sight> {
    let Some(told_at) = given.told_at() else { return Vec::new() };
    let stood = |until| run.deaths.iter().any(|(_, born)| told_at < *born && *born < until);
    let orders = &run.told.orders;
    if let Some((_, verb)) = given.verb() {
        let sight = match (verb, given.answer()) {
            (Verb::Quarantine, Some(OrderAnswer::Done { .. })) => Sight::Quarantined,
            (Verb::Quarantine, Some(OrderAnswer::Requested { state: OperationState::Attempting })) => {
                Sight::QuarantinedMidway
            }
            (Verb::Cancel, Some(OrderAnswer::Requested { state: OperationState::Attempting })) => {
                Sight::CancelledMidway
            }
            (Verb::Release, Some(OrderAnswer::Done { .. })) => Sight::Released,
            (Verb::Resolve(Resolution::Accepted), Some(OrderAnswer::Done { .. })) => Sight::ResolvedAsSent,
            (Verb::Resolve(Resolution::Absent), Some(OrderAnswer::Done { .. })) => Sight::ResolvedAsAbsent,
            _ => return Vec::new(),
        };
        return vec![sight];
    }
    if given.is_lift() {
        let until = orders.after(given).map_or(mailweir::engine::Timestamp::NEVER, |next| next.begun);
        return if stood(until) { vec![Sight::LiftStood] } else { Vec::new() };
    }
    let Some((_, until)) = orders.surely_in_force(given) else { return Vec::new() };
    let is_hold = matches!(given.word, Word::Hold(..));
    let mut sights = Vec::new();
    if stood(until) {
        sights.push(if is_hold { Sight::HoldStood } else { Sight::TripStood });
    }
    match orders.after(given).filter(|next| Some(next.begun) < given.until()) {
        None => sights.push(if is_hold { Sight::HoldEnded } else { Sight::TripEnded }),
        Some(next) if is_hold && matches!(next.word, Word::Hold(..)) => sights.push(Sight::HoldReplaced),
        Some(_) => {}
    }
    sights
}

fn of_history(run: &Run, history: &History) -> Vec<Sight> {
    let mut sights = Vec::new();
    for (place, step) in history.steps.iter().enumerate() {
        match step {
            Transition::Discard => sights.push(Sight::Discarded),
            Transition::Find => sights.push(Sight::Found),
            Transition::Repeat if history.is_blind(place) => sights.push(Sight::RepeatedBlindly),
            Transition::Repeat => sights.push(Sight::Repeated),
            Transition::Poison => sights.push(Sight::SetAside),
            _ => {}
        }
    }
    if history.state == OperationState::Exhausted {
        let flights = run.book.flights.iter().filter(|flight| flight.id == history.id);
        let over_at = |started: mailweir::engine::Timestamp| started.after(Duration::from_secs(60));
        let mut spans = flights.map(|flight| (flight.started, flight.ended.unwrap_or_else(|| over_at(flight.started))));
        let within = |(from, until): (_, _)| from < history.deadline && history.deadline <= until;
        sights.extend(spans.any(within).then_some(Sight::DeadlineMidway));
        sights.extend(run.deaths.iter().copied().any(within).then_some(Sight::DeadlineInDeadTime));
    }
    sights
}
