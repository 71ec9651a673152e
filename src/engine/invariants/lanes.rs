//! L1–L10: what holds of windows and lanes, whatever happens.
//!
//! Each predicate takes the few numbers it speaks of, so that property tests, simulations and the engine itself (in
//! debug builds) check the very same thing.

use std::time::Duration;

use super::Violation;
use crate::engine::time::Timestamp;

fn check(holds: bool, id: &'static str, message: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { id, message: message() }) }
}

/// L1: in any half-open window of length `window`, the weighted arrivals are at most `amount`.
///
/// `arrivals` are (instant, cost) in order of instant.
///
/// # Errors
/// The first window that holds more.
pub fn window_holds(arrivals: &[(Timestamp, u64)], amount: u64, window: Duration) -> Result<(), Violation> {
    let (mut sum, mut first) = (0_u64, 0);
    for (at, cost) in arrivals {
        sum = sum.saturating_add(*cost);
        while arrivals[first].0.after(window) <= *at {
            sum = sum.saturating_sub(arrivals[first].1);
            first += 1;
        }
        check(sum <= amount, "L1", || format!("{sum} of {amount} within {window:?} up to {at}"))?;
    }
    Ok(())
}

/// L10: right after an admission by an owner that may use a part of a window, no more than that part is in use.
///
/// # Errors
/// When more was.
pub fn part_is_kept(part: u64, used: u64) -> Result<(), Violation> {
    check(used <= part, "L10", || format!("{used} in use where {part} may be"))
}

/// L2: right after a background admission, the reserve is free: `amount − used ≥ reserve`. A cost above what the
/// reserve ever leaves is admitted to an otherwise empty window instead.
///
/// # Errors
/// When the reserve was touched.
pub fn reserve_is_kept(amount: u64, used: u64, reserve: u64, cost: u64) -> Result<(), Violation> {
    let holds = used.saturating_add(reserve) <= amount || used <= cost;
    check(holds, "L2", || format!("background left {used} of {amount} used with {reserve} reserved"))
}

/// What a foreground operation could have done at the instant of a background admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreground {
    /// None waits, or the one that waits could not go.
    NotRunnable,
    /// One could have gone.
    Runnable,
}

/// Why background was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundGrant {
    /// By its own rules.
    Ordinary,
    /// By the floor, the one exception to strict priority.
    Floor,
}

/// L3: no background admission while a foreground operation is runnable, the floor excepted.
///
/// # Errors
/// When background went first.
pub fn foreground_goes_first(foreground: Foreground, grant: BackgroundGrant) -> Result<(), Violation> {
    let holds = foreground == Foreground::NotRunnable || grant == BackgroundGrant::Floor;
    check(holds, "L3", || "background was admitted before a runnable foreground operation".to_owned())
}

/// L4: the longest a foreground operation waits for budget while background saturates the window:
/// `(max(0, k − free) + burst)·W/(N' − R) + guard`.
///
/// # Errors
/// When it waited longer.
pub fn foreground_wait_is_bounded(
    waited: Duration,
    ahead: u64,
    free: u64,
    burst: u64,
    rate: (u64, Duration),
    guard: Duration,
) -> Result<(), Violation> {
    let (per_window, window) = (rate.0.max(1), rate.1);
    let turns = u32::try_from(ahead.saturating_sub(free).saturating_add(burst)).unwrap_or(u32::MAX);
    let per_window = u32::try_from(per_window).unwrap_or(u32::MAX);
    let bound = (window.saturating_mul(turns) / per_window).saturating_add(guard);
    check(waited <= bound, "L4", || format!("foreground waited {waited:?}, bound {bound:?}"))
}

/// L5: work is conserved: background alone gets at least `(1 − R/N)·(N/W)·W/(W(1+ρ)+L) − 1/W` of the rate. Given as
/// sends in a span, with `per_cycle` sends for each `cycle`.
///
/// # Errors
/// When it got less.
pub fn work_is_conserved(sent: u64, span: Duration, per_cycle: u64, cycle: Duration) -> Result<(), Violation> {
    let cycles = span.as_micros() / cycle.as_micros().max(1);
    let least = u64::try_from(cycles).unwrap_or(u64::MAX).saturating_mul(per_cycle).saturating_sub(per_cycle);
    check(sent >= least, "L5", || format!("{sent} background sends in {span:?}, at least {least} expected"))
}

/// L6: while foreground is continuously backlogged, background uses at most its share of a window, or one cost.
///
/// # Errors
/// When it used more.
pub fn share_is_kept(background_used: u64, share: u64, cost: u64) -> Result<(), Violation> {
    let holds = background_used <= share.max(cost);
    check(holds, "L6", || format!("background uses {background_used} of its share of {share} under contention"))
}

/// L7: the reserve stays within its clamp.
///
/// # Errors
/// When it left it.
pub fn reserve_is_clamped(reserve: u64, least: u64, most: u64) -> Result<(), Violation> {
    // A window too small for both keeps the upper bound: background must be able to go at all.
    check(reserve >= least.min(most) && reserve <= most, "L7", || format!("reserve {reserve}, clamp {least}..={most}"))
}

/// L8: a send that was deferred until `named` and met no competitor was granted at `granted`: not before, not after.
///
/// # Errors
/// When the named instant was wrong.
pub fn named_instant_is_exact(named: Timestamp, granted: Timestamp) -> Result<(), Violation> {
    check(named == granted, "L8", || format!("deferred until {named}, granted at {granted}"))
}

/// L9: first attempts of one (mailbox, lane, tenant) follow the order of admission; at most `bypass_max` later ones
/// pass any earlier one. `order` lists admission numbers in order of first attempt.
///
/// # Errors
/// The first operation that was passed too often.
pub fn order_is_kept(order: &[u64], bypass_max: u32) -> Result<(), Violation> {
    for (at, number) in order.iter().enumerate() {
        let passed_by = order[..at].iter().filter(|earlier| *earlier > number).count();
        check(passed_by <= bypass_max as usize, "L9", || format!("operation {number} was passed {passed_by} times"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn id(result: Result<(), Violation>) -> Option<&'static str> {
        result.err().map(|violation| violation.id)
    }

    #[test]
    fn a_window_is_half_open() {
        let minute = Duration::from_secs(60);
        assert_eq!(id(window_holds(&[(at(0), 2), (at(60), 1)], 2, minute)), None);
        assert_eq!(id(window_holds(&[(at(0), 2), (at(59), 1)], 2, minute)), Some("L1"));
    }

    #[test]
    fn each_predicate_fails_when_its_rule_is_broken() {
        let second = Duration::from_secs(1);
        assert_eq!(id(reserve_is_kept(30, 28, 3, 1)), Some("L2"));
        assert_eq!(id(reserve_is_kept(30, 27, 3, 1)), None);
        let first = foreground_goes_first(Foreground::Runnable, BackgroundGrant::Ordinary);
        assert_eq!(id(first), Some("L3"));
        let wait = |waited| foreground_wait_is_bounded(waited, 2, 1, 0, (1, second), Duration::ZERO);
        assert_eq!(id(wait(second)), None);
        assert_eq!(id(wait(second + Duration::from_nanos(1))), Some("L4"));
        assert_eq!(id(work_is_conserved(8, 10 * second, 1, second)), Some("L5"));
        assert_eq!(id(work_is_conserved(9, 10 * second, 1, second)), None);
        assert_eq!((id(share_is_kept(15, 15, 1)), id(share_is_kept(16, 15, 1))), (None, Some("L6")));
        assert_eq!(id(share_is_kept(16, 15, 16)), None, "one cost");
        let clamped = [2, 3, 15, 16].map(|reserve| id(reserve_is_clamped(reserve, 3, 15)));
        assert_eq!(clamped, [Some("L7"), None, None, Some("L7")]);
        assert_eq!(id(named_instant_is_exact(at(1), at(2))), Some("L8"));
        assert_eq!(id(order_is_kept(&[2, 3, 1], 1)), Some("L9"));
        assert_eq!(id(order_is_kept(&[2, 3, 1], 2)), None);
        assert_eq!((id(part_is_kept(15, 15)), id(part_is_kept(15, 16))), (None, Some("L10")));
    }
}
