//! What has to hold of a world, read from the upstream's log and from each operation's history.

use std::collections::BTreeMap;

use mailweir::engine::invariants::{Violation, lanes, operation};
use mailweir::engine::mailbox::Outcome;
use mailweir::engine::operation::Transition;
use mailweir::engine::policy::GuardPolicy;
use mailweir::engine::{Lane, Timestamp, Unit};
use mailweir::simulation::World;
use mailweir::upstream::{Arrival, UpstreamLimit, check};

/// What counts for a limit. Where scopes are shared, an email that one of them refused gives its recipients back to the others (the
/// release table), so recipients of refused ones count nowhere here; requests count everywhere.
fn counted<'a>(world: &'a World, limit: &UpstreamLimit) -> impl Iterator<Item = &'a Arrival> + use<'a> {
    let leaves_out = world.shared().is_some() && limit.unit != Unit::Requests;
    world.upstream().log().client().filter(move |arrival| !(leaves_out && arrival.status == 429))
}

/// L1: no window of a limit that is kept holds more than its amount of what is ours.
pub(crate) fn windows(world: &World, kept: &[UpstreamLimit]) -> Result<(), String> {
    for limit in kept {
        let most = check::max_in_window(counted(world, limit), limit);
        if most > limit.amount {
            return Err(format!("L1: {most} of {} in {:?} of one {}", limit.amount, limit.window, limit.scope));
        }
    }
    Ok(())
}

/// F11: what was admitted under each set of limits keeps them, lowered ones too. `declared` has one set for the start and one for
/// each change.
pub(crate) fn epochs(world: &World, declared: &[Vec<UpstreamLimit>]) -> Result<(), String> {
    let mut epochs = vec![(0, world.start())];
    epochs.extend(world.changed().iter().map(|(at, number)| (number + 1, *at)));
    for (place, (number, at)) in epochs.iter().enumerate() {
        // What was under way at the change was admitted before it.
        let from = if place == 0 { *at } else { at.after(GuardPolicy::default().request_deadline_max) };
        let until = epochs.get(place + 1).map_or(Timestamp::NEVER, |next| next.1);
        for limit in &declared[*number] {
            let arrivals = counted(world, limit).filter(|arrival| arrival.at >= from && arrival.at < until);
            let most = check::max_in_window(arrivals, limit);
            if most > limit.amount {
                let (amount, window, scope) = (limit.amount, limit.window, limit.scope);
                return Err(format!(
                    "L1: {most} of {amount} in {window:?} of one {scope}, from the change at {at:?} on"
                ));
            }
        }
    }
    Ok(())
}

/// What was answered as accepted was taken.
pub(crate) fn accepted_means_taken(world: &World) -> Result<(), String> {
    let taken = check::executions(world.upstream().log().client());
    let accepted = world.ended().iter().filter(|ended| matches!(ended.outcome, Outcome::Accepted { .. }));
    match accepted.map(|ended| ended.key).find(|key| !taken.contains_key(&*key.0.to_string())) {
        Some(key) => Err(format!("operation {} was accepted and never taken", key.0)),
        None => Ok(()),
    }
}

/// Whatever was submitted and is not over is with somebody.
pub(crate) fn nothing_is_lost(world: &World) -> Result<(), String> {
    match world.lost().first() {
        Some(key) => Err(format!("operation {} is with nobody", key.0)),
        None => Ok(()),
    }
}

/// First in, first out, by first attempts, of each mailbox, lane and tenant.
pub(crate) fn order(world: &World) -> Result<(), Violation> {
    type Line<'a> = (usize, Lane, Option<&'a str>);
    let planned = world.planned();
    let mut lines: BTreeMap<Line<'_>, Vec<u64>> = BTreeMap::new();
    for (mailbox, lane, key) in world.order() {
        // Keys are given in order of planning, not of submission: compare by instant of submission instead.
        let one = &planned[usize::try_from(key.0 - 1).expect("an index")];
        lines.entry((*mailbox, *lane, one.tenant.as_deref())).or_default().push(one.at.as_micros());
    }
    lines.values().try_for_each(|instants| lanes::order_is_kept(instants, 0))
}

/// O1, O3, O5, O6, O7 and O10 over every operation's whole history.
pub(crate) fn operations(world: &World) -> Result<(), Violation> {
    let taken = check::executions(world.upstream().log().client());
    for (key, history) in &world.histories() {
        let mut whole = vec![Transition::Enqueue];
        whole.extend(history.iter().filter(|transition| **transition != Transition::Enqueue));
        operation::replay(*key, &whole)?;
        let count = |wanted: Transition| history.iter().filter(|transition| **transition == wanted).count() as u64;
        operation::sends_are_recorded(*key, world.sends(*key), count(Transition::Claim))?;
        let paid = count(Transition::Retry) + count(Transition::Repeat);
        operation::attempts_are_bounded(*key, u32::try_from(paid).expect("small"), 8)?;
        let executed = taken.get(&*key.0.to_string()).copied().unwrap_or(0);
        operation::duplicates_are_accounted(*key, executed.max(1), count(Transition::Repeat))?;
    }
    Ok(())
}

/// What else than acceptance may come of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// It may be unknown, or given up.
    pub(crate) unknown: bool,
    /// It may be cancelled.
    pub(crate) cancelled: bool,
}

/// How operations may end in a world where nothing has a deadline.
pub(crate) fn outcomes(world: &World, run: Expected) -> Result<(), String> {
    for ended in world.ended() {
        let expected = match ended.outcome {
            Outcome::Accepted { .. } => true,
            Outcome::Unknown | Outcome::Quarantined | Outcome::Exhausted { .. } => run.unknown,
            Outcome::Cancelled { .. } => run.cancelled,
            _ => false,
        };
        if !expected {
            return Err(format!("operation {:?} ended as {:?}", ended.key, ended.outcome));
        }
    }
    Ok(())
}
