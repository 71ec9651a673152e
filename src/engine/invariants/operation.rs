//! O1 to O11: what always holds for operations and their attempts.
//!
//! | | invariant | predicate |
//! |---|---|---|
//! | O1 | an admitted operation is in exactly one state, and final states absorb except by 18 | [`one_state`], [`listed`] |
//! | O2 | at most one live attempt per operation | [`one_live_attempt`] |
//! | O3 | sends ≤ attempts recorded: the attempt row is written first | [`sends_are_recorded`] |
//! | O4 | key and payload never change between attempts | [`payload_is_fixed`] |
//! | O5 | accepted is never left | [`accepted_stays`] |
//! | O6 | from unknown nothing is sent except by 10, or by a person | [`unknown_is_not_repeated`] |
//! | O7 | attempts that count ≤ the configured most | [`attempts_are_bounded`] |
//! | O8 | first attempts follow the order of admission, except for a bounded bypass | [`first_attempts_in_order`] |
//! | O9 | a repeat ends inside the provider's dedupe window | [`repeat_is_deduplicated`] |
//! | O10 | duplicates ≤ repeats outside that window | [`duplicates_are_accounted`] |
//! | O11 | a refused submission leaves nothing behind | [`refusal_leaves_nothing`] |
//!
//! Each is a function of the values it names and keeps nothing between calls.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::engine::operation::{OperationKey, OperationState, Transition};
use crate::engine::time::Timestamp;

use super::Violation;

/// One attempt, as its row tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptView {
    /// Whose.
    pub key: OperationKey,
    /// When it was claimed.
    pub claimed_at: Timestamp,
    /// When its outcome was known; `None`: not yet.
    pub ended_at: Option<Timestamp>,
}

/// O1: every admitted operation stands in `states` exactly once, and nothing else does.
///
/// # Errors
/// The first operation that is missing, doubled or was never admitted.
pub fn one_state(admitted: &[OperationKey], states: &[(OperationKey, OperationState)]) -> Result<(), Violation> {
    let mut seen: BTreeMap<OperationKey, OperationState> = BTreeMap::new();
    for (key, state) in states {
        if let Some(other) = seen.insert(*key, *state) {
            return Err(Violation::new("O1", format_args!("operation {} is both {other} and {state}", key.0)));
        }
    }
    for key in admitted {
        if seen.remove(key).is_none() {
            return Err(Violation::new("O1", format_args!("operation {} was admitted and is in no state", key.0)));
        }
    }
    match seen.first_key_value() {
        Some((key, state)) => Err(Violation::new("O1", format_args!("operation {} is {state}, never admitted", key.0))),
        None => Ok(()),
    }
}

/// O1: `transition` is listed from `from` and leads to `to`; from a final state only 18 is.
///
/// # Errors
/// The transition is not listed, or leads elsewhere.
pub fn listed(transition: Transition, from: OperationState, to: OperationState) -> Result<(), Violation> {
    match transition.apply(from) {
        Ok(state) if state == to => Ok(()),
        Ok(state) => Err(Violation::new("O1", format_args!("{transition} leads from {from} to {state}, not to {to}"))),
        Err(illegal) => Err(Violation::new("O1", illegal)),
    }
}

/// O2: at `now` no operation has two live attempts. An attempt is live from its claim until its outcome is known or
/// `request_deadline_max` has passed, whichever is first.
///
/// # Errors
/// The first operation with two.
pub fn one_live_attempt(
    now: Timestamp,
    request_deadline_max: Duration,
    attempts: &[AttemptView],
) -> Result<(), Violation> {
    let live = |attempt: &&AttemptView| {
        let gone_at = attempt.claimed_at.after(request_deadline_max);
        attempt.claimed_at <= now && now < attempt.ended_at.map_or(gone_at, |ended_at| ended_at.min(gone_at))
    };
    let mut seen = BTreeSet::new();
    for attempt in attempts.iter().filter(live) {
        if !seen.insert(attempt.key) {
            return Err(Violation::new("O2", format_args!("operation {} has two live attempts", attempt.key.0)));
        }
    }
    Ok(())
}

/// O3: the provider saw at most as many sends of `key` as attempts were recorded.
///
/// # Errors
/// There were more.
pub fn sends_are_recorded(key: OperationKey, sends: u64, recorded: u64) -> Result<(), Violation> {
    at_most("O3", format_args!("operation {}: sends against recorded attempts", key.0), sends, recorded)
}

/// O4: every attempt of `key` carried the same fingerprint (idempotency key and payload).
///
/// # Errors
/// The first attempt that did not.
pub fn payload_is_fixed(key: OperationKey, fingerprints: &[u64]) -> Result<(), Violation> {
    match fingerprints.windows(2).position(|pair| pair[0] != pair[1]) {
        Some(at) => Err(Violation::new("O4", format_args!("operation {} changed with its attempt {}", key.0, at + 2))),
        None => Ok(()),
    }
}

/// O5: `accepted` is never left.
///
/// # Errors
/// It was.
pub fn accepted_stays(key: OperationKey, from: OperationState, to: OperationState) -> Result<(), Violation> {
    if from == OperationState::Accepted && to != OperationState::Accepted {
        return Err(Violation::new("O5", format_args!("operation {} went from accepted to {to}", key.0)));
    }
    Ok(())
}

/// O6: in a history of one operation, after each loss (8) comes 9, 10, 11 or 15 before anything is sent again.
///
/// # Errors
/// Something else came.
pub fn unknown_is_not_repeated(key: OperationKey, history: &[Transition]) -> Result<(), Violation> {
    use Transition::{Expire, Find, GiveUp, Lose, Repeat};
    let wrong = |pair: &&[Transition]| pair[0] == Lose && !matches!(pair[1], Find | Repeat | GiveUp | Expire);
    match history.windows(2).find(wrong) {
        Some(pair) => Err(Violation::new("O6", format_args!("operation {} left unknown by {}", key.0, pair[1]))),
        None => Ok(()),
    }
}

/// O7: attempts that count, 429s and waiting not among them, are at most `attempts_max`.
///
/// # Errors
/// There were more.
pub fn attempts_are_bounded(key: OperationKey, attempts: u32, attempts_max: u32) -> Result<(), Violation> {
    let what = format_args!("operation {}: attempts against the most allowed", key.0);
    at_most("O7", what, u64::from(attempts), u64::from(attempts_max))
}

/// O8: in the order in which the operations of one (mailbox, lane, tenant) made their first attempt, none was passed
/// by more than `bypass_max` that were admitted after it.
///
/// # Errors
/// The first operation that was.
pub fn first_attempts_in_order(order: &[OperationKey], bypass_max: u32) -> Result<(), Violation> {
    let mut gone: BTreeSet<OperationKey> = BTreeSet::new();
    for key in order {
        // Counted only as far as it takes to tell.
        let most = usize::try_from(bypass_max).unwrap_or(usize::MAX).saturating_add(1);
        let passed_by = gone.range(*key..).filter(|later| *later > key).take(most).count();
        at_most("O8", format_args!("operation {}: passed by", key.0), passed_by as u64, u64::from(bypass_max))?;
        gone.insert(*key);
    }
    Ok(())
}

/// O9: a repeat at `repeat_at` of an operation first sent at `first_sent_at` reaches the provider while that still
/// remembers the first: horizon + D_max + slack ≤ dedupe window.
///
/// # Errors
/// It may come later.
pub fn repeat_is_deduplicated(
    key: OperationKey,
    (first_sent_at, repeat_at): (Timestamp, Timestamp),
    (request_deadline_max, slack): (Duration, Duration),
    dedupe_window: Duration,
) -> Result<(), Violation> {
    let arrives = repeat_at.since(first_sent_at).saturating_add(request_deadline_max).saturating_add(slack);
    if arrives > dedupe_window {
        let message = format_args!("operation {}: a repeat after {arrives:?}, remembered for {dedupe_window:?}", key.0);
        return Err(Violation::new("O9", message));
    }
    Ok(())
}

/// O10: the copies beyond the first that the provider took are at most the repeats outside its dedupe window.
///
/// # Errors
/// There were more.
pub fn duplicates_are_accounted(key: OperationKey, taken: u64, repeats_outside: u64) -> Result<(), Violation> {
    let what = format_args!("operation {}: duplicates against repeats outside the dedupe window", key.0);
    at_most("O10", what, taken.saturating_sub(1), repeats_outside)
}

/// O11: rows and queue entries after a refused submission are as many as before it.
///
/// # Errors
/// It left something.
pub fn refusal_leaves_nothing(before: (u64, u64), after: (u64, u64)) -> Result<(), Violation> {
    if before != after {
        let message = format_args!("rows and queue entries went from {before:?} to {after:?}");
        return Err(Violation::new("O11", message));
    }
    Ok(())
}

/// Replays the history of one operation from admission: every step is listed (O1), and O5 and O6 hold.
///
/// # Errors
/// The first step that breaks one of them.
pub fn replay(key: OperationKey, history: &[Transition]) -> Result<OperationState, Violation> {
    unknown_is_not_repeated(key, history)?;
    let mut state = OperationState::Admitted;
    for transition in history {
        let next = transition.apply(state).map_err(|illegal| Violation::new("O1", illegal))?;
        accepted_stays(key, state, next)?;
        state = next;
    }
    Ok(state)
}

fn at_most(id: &'static str, what: std::fmt::Arguments<'_>, found: u64, most: u64) -> Result<(), Violation> {
    if found > most {
        return Err(Violation::new(id, format_args!("{what}: {found}, at most {most}")));
    }
    Ok(())
}
