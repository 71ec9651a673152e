//! What has to hold of a world, read from the upstream's log and from each operation's history.

use std::collections::HashMap;

use mailweir::engine::Lane;
use mailweir::engine::invariants::{Violation, lanes, operation};
use mailweir::engine::mailbox::Outcome;
use mailweir::engine::operation::Transition;
use mailweir::simulation::World;
use mailweir::upstream::{UpstreamLimit, check};

/// L1: no window of a limit that is kept holds more than its amount of what is ours.
pub(crate) fn windows(world: &World, kept: &[UpstreamLimit]) -> Result<(), String> {
    for limit in kept {
        let most = check::max_in_window(world.upstream().log().client(), limit);
        if most > limit.amount {
            return Err(format!("L1: {most} of {} in {:?}", limit.amount, limit.window));
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

/// First in, first out, by first attempts.
pub(crate) fn order(world: &World) -> Result<(), Violation> {
    for lane in Lane::ALL {
        let firsts = world.order().iter().filter(|first| first.1 == lane).map(|first| first.2.0);
        // Keys are given in order of planning, not of submission: compare by instant of submission instead.
        let submitted: HashMap<u64, _> =
            world.ended().iter().map(|ended| (ended.key.0, ended.submitted_at.as_micros())).collect();
        let instants: Vec<u64> = firsts.filter_map(|key| submitted.get(&key).copied()).collect();
        lanes::order_is_kept(&instants, 0)?;
    }
    Ok(())
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
