//! The soft breaker: a provider's usage header calibrates how much of a limit others use.
//!
//! A threshold on the header would be wrong, because a well-run sender lives at 0.9 to 1.0 of its limit. Instead the
//! header's share minus our own use is what somebody else used, and the limit in force is what is left.
//!
//! The header does not say which limit it is about. It is credited to the limit of which we use the largest part
//! ourselves, U/N: a provider reports its fullest limit, and ours is the best guess at which that is.
//!
//! Estimates are millionths of the declared amount. One that no answer confirms halves with each window that passes:
//! what others used a window ago is gone, and a scope that is starved by its own estimate must be tried again.

use std::time::Duration;

use crate::engine::limit::Limit;
use crate::engine::ratio::Ratio;
use crate::engine::time::{Timestamp, micros};

use super::LimitUse;
use super::episode::{Measured, most_used};

const UNIT: u64 = 1_000_000;

/// Where providers start to report (documented for Microsoft's identity service, 2026-07).
const REPORTED_FROM_PPM: u64 = 800_000;

/// Below a hundredth of the limit an estimate is noise and is dropped.
const WORTH_KEEPING_PPM: u64 = 10_000;

/// After this many windows an unconfirmed estimate has halved away.
const LIFE_IN_WINDOWS: u64 = 8;

/// How much of one limit others are believed to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Foreign {
    index: usize,
    ppm: u64,
    window: u64,
    seen_at: Timestamp,
}

impl Foreign {
    fn now_ppm(&self, now: Timestamp) -> u64 {
        let halvings = micros(now.since(self.seen_at)) / self.window;
        if halvings >= LIFE_IN_WINDOWS { 0 } else { self.ppm >> halvings }
    }

    fn ends_at(&self) -> Timestamp {
        self.seen_at.after(Duration::from_micros(self.window.saturating_mul(LIFE_IN_WINDOWS)))
    }
}

/// The calibration of one scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Soft {
    foreign: Vec<Foreign>,
    /// Background stays out until then, or until the provider reports less.
    pub(super) paused_until: Option<Timestamp>,
}

impl Soft {
    /// Whether a success without the header would teach it anything.
    pub(super) fn is_empty(&self) -> bool {
        self.foreign.is_empty() && self.paused_until.is_none()
    }

    /// A success that reports `usage` of its provider's limit. Answers the end of a background pause that it begins: as long
    /// as a cooldown without a Retry-After, the shortest window and no more than `pause_max`. The header does not say
    /// which limit is full, and nobody may be sending who would be told that it is not any more; a full one says so again.
    pub(super) fn on_usage(
        &mut self,
        now: Timestamp,
        usage: Ratio,
        uses: &[LimitUse],
        pause_max: Duration,
    ) -> Option<Timestamp> {
        let Measured { index, of } = most_used(uses)?;
        let usage = u64::from(usage.as_ppm());
        let target = usage.saturating_sub(part_ppm(&of)).min(UNIT);
        let place = self.foreign.iter().position(|one| one.index == index);
        let before = place.map_or(0, |place| self.foreign[place].now_ppm(now));
        let one = foreign(now, index, &of.limit, moved(before, target));
        match place {
            Some(place) => self.foreign[place] = one,
            None => self.foreign.push(one),
        }
        self.drop_small(now);
        let was_paused = self.is_paused(now);
        let shortest = uses.iter().map(|of| of.limit.window()).min().unwrap_or_default();
        self.paused_until = (usage >= UNIT).then(|| now.after(shortest.min(pause_max)));
        self.paused_until.filter(|_| !was_paused)
    }

    /// A success without the header: the provider is below the share at which it would have reported.
    pub(super) fn on_silence(&mut self, now: Timestamp, uses: &[LimitUse]) {
        for one in &mut self.foreign {
            let Some(of) = uses.get(one.index) else { continue };
            let before = one.now_ppm(now);
            let target = REPORTED_FROM_PPM.saturating_sub(part_ppm(of)).min(before);
            *one = foreign(now, one.index, &of.limit, moved(before, target));
        }
        self.drop_small(now);
        self.paused_until = None;
    }

    /// What others are believed to use of limit `index`, declared as `declared`.
    pub(super) fn foreign(&self, now: Timestamp, index: usize, declared: u64) -> u64 {
        let ppm = self.foreign.iter().find(|one| one.index == index).map_or(0, |one| one.now_ppm(now));
        let used = u128::from(declared) * u128::from(ppm) / u128::from(UNIT);
        u64::try_from(used).unwrap_or(u64::MAX)
    }

    pub(super) fn is_paused(&self, now: Timestamp) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    /// Drops what time has ended; answers whether a background pause was among it.
    pub(super) fn roll(&mut self, now: Timestamp) -> bool {
        self.foreign.retain(|one| now < one.ends_at());
        let over = self.paused_until.is_some_and(|until| now >= until);
        if over {
            self.paused_until = None;
        }
        over
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.foreign.iter().map(Foreign::ends_at).chain(self.paused_until).min()
    }

    fn drop_small(&mut self, now: Timestamp) {
        self.foreign.retain(|one| one.now_ppm(now) >= WORTH_KEEPING_PPM);
    }
}

fn foreign(now: Timestamp, index: usize, limit: &Limit, ppm: u64) -> Foreign {
    Foreign { index, ppm, window: micros(limit.window()).max(1), seen_at: now }
}

/// Our own use as a part of the limit, in millionths.
fn part_ppm(of: &LimitUse) -> u64 {
    let part = u128::from(of.used) * u128::from(UNIT) / u128::from(of.limit.amount().max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// X + 0.3·(target − X).
fn moved(x: u64, target: u64) -> u64 {
    if target >= x { x + (target - x) * 3 / 10 } else { x - (x - target) * 3 / 10 }
}
