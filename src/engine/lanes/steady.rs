//! How long the numbers that follow foreground stay what they are.
//!
//! Reserve and burst are whole numbers of slots and follow a need that halves in an hour, so between two arrivals they
//! stay the same for minutes, while a mailbox decides several times a second. [`Steady`] is worked out once, with an
//! instant before which working it out again would come to the same. That instant is early rather than exact: a
//! decaying value is followed along its tangent, which falls below it, and rounding is taken off first.

use crate::engine::lanes::meter::{PLACES, divided, needed};
use crate::engine::lanes::share::{Share, long_burst};
use crate::engine::lanes::terms::Terms;
use crate::engine::ratio::Ratio;
use crate::engine::time::Timestamp;

/// Reserve and burst of one limit, and until when they hold if no foreground operation is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steady {
    /// R.
    pub(crate) reserve: u64,
    /// β.
    pub(crate) burst: u64,
    from: Timestamp,
    until: Timestamp,
    /// Until when a burst can only grow: demand that becomes known may be more than was taken for it.
    grows_until: Timestamp,
}

impl Steady {
    /// Not worked out.
    pub(crate) const UNKNOWN: Self =
        Self { reserve: 0, burst: 0, from: Timestamp::NEVER, until: Timestamp::EPOCH, grows_until: Timestamp::EPOCH };

    #[inline]
    pub(crate) fn holds_at(&self, now: Timestamp) -> bool {
        self.from <= now && now < self.until
    }

    /// Whether the burst is at least what it was when this was worked out.
    #[inline]
    pub(super) fn grows_at(&self, now: Timestamp) -> bool {
        self.from <= now && now < self.grows_until
    }

    /// The first instant at which the burst may be less than it was.
    pub(crate) fn grows_until(&self) -> Timestamp {
        self.grows_until
    }

    /// The first instant at which they may be others.
    pub(crate) fn until(&self) -> Timestamp {
        self.until
    }
}

/// Something that only falls, and may fall so far before it matters.
struct Falling {
    value: u64,
    /// It matters when it is no longer above this.
    floor: u64,
    /// What rounding may take off it.
    rounding: u64,
    /// It loses at most its value per this many microseconds.
    scale: u64,
}

impl Falling {
    /// Microseconds for which it stays above its floor, at least: what is left of something that decays lies above its
    /// tangent.
    fn lasts(&self) -> u64 {
        let margin = self.rounding.saturating_add(self.value >> 20);
        let room = self.value.saturating_sub(self.floor).saturating_sub(margin);
        divided(u128::from(room) * u128::from(self.scale), u128::from(self.value.max(1)))
    }
}

/// What a half-life loses its value in at first: `half_life / ln 2`, or a little less.
fn tangent(half_life: u64) -> u64 {
    half_life.saturating_add(Ratio::ppm(442_695).floor_of(half_life))
}

impl Share {
    /// Reserve and burst now, and how long they hold.
    pub(crate) fn steady(&self, now: Timestamp, by: &Terms) -> Steady {
        let depth = self.depth_now(now, by.half_life);
        let need = needed(depth, by.reserve_factor);
        let reserve = by.reserve_of(need);
        let rate = by.capacity(reserve);
        let is_unknown = self.is_unknown(now, by);
        let grows = if is_unknown { self.unknown_lasts(now, by) } else { u64::MAX };
        let reserve_lasts = if need <= by.low { u64::MAX } else { need_lasts(depth, need.min(by.high), by) };
        let (burst, burst_lasts) = if by.has_short_window() {
            (by.burst_within(rate, by.burst), u64::MAX) // of the rate alone
        } else {
            let demand = self.demand(now, by);
            let spare = by.spare(rate, need);
            let burst = by.burst_within(rate, long_burst(spare, rate, demand));
            if burst == rate {
                (burst, u64::MAX) // it cannot grow, and nothing makes it fall
            } else {
                let demand_lasts =
                    if is_unknown { grows } else { self.demand_lasts(now, demand, (spare, rate), burst, by) };
                (burst, need_lasts(depth, need, by).min(demand_lasts))
            }
        };
        // At this very instant they hold in any case.
        let until = Timestamp::from_micros(now.as_micros().saturating_add(reserve_lasts.min(burst_lasts).max(1)));
        let grows_until = Timestamp::from_micros(now.as_micros().saturating_add(grows));
        Steady { reserve, burst, from: now, until, grows_until }
    }

    /// Whether demand is a guess for want of a history.
    fn is_unknown(&self, now: Timestamp, by: &Terms) -> bool {
        by.demand_unknown.is_some() && !self.has_history(now, by)
    }

    fn unknown_lasts(&self, now: Timestamp, by: &Terms) -> u64 {
        let known_at = self.started_at().min(now).as_micros().saturating_add(by.history_min);
        known_at.saturating_sub(now.as_micros())
    }

    /// For how long demand stays so high that no larger burst than this one follows.
    fn demand_lasts(&self, now: Timestamp, demand: u64, (spare, rate): (u64, u64), burst: u64, by: &Terms) -> u64 {
        if demand <= by.demand_least {
            return u64::MAX;
        }
        let product = (u128::from(spare) * u128::from(rate)).saturating_mul(1 << PLACES);
        let floor = divided(product, 2 * (u128::from(burst) + 1));
        let age = now.micros_since(self.started_at()).max(by.history_min).max(1);
        // It falls with the load, and as the history grows longer that it is divided by.
        let load = u128::from(tangent(by.half_life));
        let scale = divided(load * u128::from(age), load + u128::from(age));
        let rounding = (by.window / by.half_life.max(1)).saturating_mul(4).saturating_add(64);
        Falling { value: demand, floor: floor.saturating_add(1), rounding, scale }.lasts()
    }
}

/// For how long a need that decays from `depth` comes to `need` slots or more.
fn need_lasts(depth: u64, need: u64, by: &Terms) -> u64 {
    let Some(below) = need.checked_sub(1) else { return u64::MAX };
    let scale = 1_000_000_u128 << PLACES;
    let floor = divided(u128::from(below) * scale, u128::from(by.reserve_factor.as_ppm().max(1)));
    Falling { value: depth, floor: floor.saturating_add(1), rounding: 2, scale: tangent(by.half_life) }.lasts()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::engine::policy::{GuardPolicy, LanesPolicy};
    use crate::engine::{Limit, Unit};

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

        /// Whatever foreground has done: until the instant that is named, the same numbers come out.
        #[test]
        fn the_numbers_hold_until_the_instant_that_is_named(
            amount in prop_oneof![1_u64..100, 100_u64..1_000_000],
            window in prop_oneof![1_u64..120, 120_u64..400_000],
            arrivals in prop::collection::vec((0_u64..4_000_000_000, 1_u64..4), 0..40),
            expected in prop_oneof![Just(None), (0_u32..200).prop_map(Some)],
            later in 0_u64..20_000_000_000,
            part in 0_u64..1_000,
        ) {
            let limit = Limit::new(amount, Unit::Requests, Duration::from_secs(window)).expect("a limit");
            let policy = LanesPolicy { foreground_expected_per_hour: expected, ..LanesPolicy::default() };
            let by = Terms::new(amount, &limit, &policy, GuardPolicy::default().clock_error);
            let (mut share, mut now) = (Share::new(), Timestamp::from_micros(1_700_000_000_000_000));
            for (gap, cost) in arrivals {
                now = Timestamp::from_micros(now.as_micros() + gap);
                share.on_foreground_arrival(now, cost, &limit, &policy);
            }
            now = Timestamp::from_micros(now.as_micros() + later);
            let steady = share.steady(now, &by);
            let span = steady.until().as_micros().min(now.as_micros() + 1_000_000_000_000) - now.as_micros();
            for at in [0, span / 1_000 * part, span - 1] {
                let at = Timestamp::from_micros(now.as_micros() + at);
                let reserve = share.kept(at, &by);
                let burst = share.burst_of(by.capacity(reserve), at, &by);
                prop_assert_eq!((reserve, burst), (steady.reserve, steady.burst), "{:?} of {:?}", at, steady);
            }
            for after in [part * 1_000_000, part * 60_000_000, part * 3_600_000_000] {
                let at = Timestamp::from_micros(now.as_micros() + after);
                if steady.grows_at(at) {
                    let (reserve, most) = (share.kept(at, &by), steady.reserve);
                    prop_assert!(reserve <= most && share.burst_of(by.capacity(reserve), at, &by) >= steady.burst);
                }
            }
        }
    }
}
