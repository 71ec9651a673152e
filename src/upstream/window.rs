//! The state of one limit for one scope.
//!
//! There is one question, [`Window::ready_at`]: from when does this cost fit, if nothing else arrives? It fits now if
//! that is not later than now. Acceptance and the exact Retry-After so come from the same arithmetic and cannot
//! contradict each other.

use std::collections::VecDeque;

use crate::engine::Timestamp;

use super::limit::{Algorithm, UpstreamLimit};

/// What was charged to one limit of one scope.
#[derive(Clone, Debug)]
pub(super) enum Window {
    /// Fixed windows and sliding counters: which window, its count, the count of the one before.
    Counter { index: u64, current: u64, previous: u64 },
    /// When the window opened, and its count.
    Anchored { opened: Option<Timestamp>, count: u64 },
    /// Every charge of the last W.
    Rolling { charges: VecDeque<(Timestamp, u64)>, total: u64 },
    /// Tokens times W in microseconds, so that the refill per microsecond is the integer N. `None`: still full.
    Bucket { level: Option<i128>, at: Timestamp },
}

/// Whether a charge belongs to an accepted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charge {
    /// It fitted.
    Accepted,
    /// It was refused, and refusals count: a bucket goes no lower than −0.8 of its depth.
    Refused,
}

impl Window {
    pub(super) fn new(limit: &UpstreamLimit) -> Self {
        match limit.algorithm {
            Algorithm::Fixed { .. } | Algorithm::SlidingCounter { .. } => {
                Self::Counter { index: 0, current: 0, previous: 0 }
            }
            Algorithm::Anchored => Self::Anchored { opened: None, count: 0 },
            Algorithm::Rolling => Self::Rolling { charges: VecDeque::new(), total: 0 },
            Algorithm::Bucket { .. } => Self::Bucket { level: None, at: Timestamp::EPOCH },
        }
    }

    /// Forgets what no longer counts at `now`, and refills.
    pub(super) fn refresh(&mut self, now: Timestamp, limit: &UpstreamLimit) {
        let width = limit.window_micros();
        match self {
            Self::Counter { index, current, previous } => {
                let (here, _) = position(now, limit);
                if here > *index {
                    *previous = if here == *index + 1 { *current } else { 0 };
                    *current = 0;
                    *index = here;
                }
            }
            Self::Anchored { opened, count } => {
                if opened.is_some_and(|opened| later(opened, width) <= now) {
                    (*opened, *count) = (None, 0);
                }
            }
            Self::Rolling { charges, total } => {
                while let Some((_, cost)) = charges.front().copied().filter(|(at, _)| later(*at, width) <= now) {
                    charges.pop_front();
                    *total = total.saturating_sub(cost);
                }
            }
            Self::Bucket { level, at } => {
                let full = scaled(limit.capacity_at(now), width);
                let gained = scaled(limit.amount_at(now), narrow(now.since(*at).as_micros()));
                *level = Some(level.map_or(full, |level| level.saturating_add(gained).min(full)));
                *at = now.max(*at);
            }
        }
    }

    /// From when `cost` fits if nothing else arrives and the limit does not change; [`Timestamp::NEVER`] if never.
    /// Call [`Window::refresh`] first.
    pub(super) fn ready_at(&self, now: Timestamp, cost: u64, limit: &UpstreamLimit) -> Timestamp {
        let (amount, width) = (limit.amount_at(now), limit.window_micros());
        if cost == 0 {
            return now;
        }
        if cost > limit.capacity_at(now) {
            return Timestamp::NEVER;
        }
        let room = amount - cost.min(amount);
        match self {
            Self::Counter { current, previous, .. } => match limit.algorithm {
                Algorithm::SlidingCounter { .. } => sliding_ready(now, *current, *previous, room, limit),
                _ if *current <= room => now,
                _ => later(now, width - position(now, limit).1),
            },
            Self::Anchored { opened: Some(opened), count } if *count > room => later(*opened, width),
            Self::Anchored { .. } => now,
            Self::Rolling { charges, total } => rolling_ready(now, charges, *total, room, width),
            Self::Bucket { level, .. } => {
                let missing = scaled(cost, width).saturating_sub(level.unwrap_or(i128::MAX));
                match u128::try_from(missing) {
                    Ok(missing) if missing > 0 && amount == 0 => Timestamp::NEVER,
                    Ok(missing) => later(now, narrow(missing.div_ceil(u128::from(amount.max(1))))),
                    Err(_) => now,
                }
            }
        }
    }

    /// Charges `cost`. Call [`Window::refresh`] first.
    pub(super) fn charge(&mut self, now: Timestamp, cost: u64, limit: &UpstreamLimit, charge: Charge) {
        match self {
            _ if cost == 0 => {}
            Self::Counter { current, .. } => *current = current.saturating_add(cost),
            Self::Anchored { opened, count } => {
                opened.get_or_insert(now);
                *count = count.saturating_add(cost);
            }
            Self::Rolling { charges, total } => {
                *total = total.saturating_add(cost);
                match charges.back_mut() {
                    Some((at, sum)) if *at == now => *sum = sum.saturating_add(cost),
                    _ => charges.push_back((now, cost)),
                }
            }
            Self::Bucket { level, .. } => {
                let depth = scaled(limit.capacity_at(now), limit.window_micros());
                let before = level.unwrap_or(depth);
                let after = before.saturating_sub(scaled(cost, limit.window_micros()));
                *level = Some(match charge {
                    Charge::Accepted => after,
                    Charge::Refused => after.max((-(depth / 5 * 4)).min(before)),
                });
            }
        }
    }

    /// What is used and of how much, for the usage header. Call [`Window::refresh`] first.
    pub(super) fn used(&self, now: Timestamp, limit: &UpstreamLimit) -> (u64, u64) {
        let width = limit.window_micros();
        let used = match self {
            Self::Counter { current, previous, .. } => match limit.algorithm {
                Algorithm::SlidingCounter { .. } => {
                    let left = u128::from(width - position(now, limit).1);
                    current.saturating_add(narrow((u128::from(*previous) * left).div_ceil(u128::from(width))))
                }
                _ => *current,
            },
            Self::Anchored { count, .. } => *count,
            Self::Rolling { total, .. } => *total,
            Self::Bucket { level, .. } => {
                let depth = i128::from(limit.capacity_at(now));
                let tokens = level.map_or(depth, |level| level.div_euclid(i128::from(width)));
                u64::try_from(depth - tokens).unwrap_or(0)
            }
        };
        (used, limit.capacity_at(now))
    }

    /// Whether it is as good as new. Call [`Window::refresh`] first.
    pub(super) fn is_idle(&self, now: Timestamp, limit: &UpstreamLimit) -> bool {
        self.used(now, limit).0 == 0
    }
}

/// The number of the fixed window that `now` lies in, and how far into it. Windows are numbered from the one that
/// holds the epoch, which may have begun before it.
fn position(now: Timestamp, limit: &UpstreamLimit) -> (u64, u64) {
    let width = limit.window_micros();
    let phase = match limit.algorithm {
        Algorithm::Fixed { phase } | Algorithm::SlidingCounter { phase } => {
            Timestamp::EPOCH.after(phase).as_micros() % width
        }
        _ => 0,
    };
    let shifted = u128::from(now.as_micros()) + u128::from(width - phase);
    (narrow(shifted / u128::from(width)), narrow(shifted % u128::from(width)))
}

/// The sliding counter: `previous · (W − elapsed) + current · W ≤ room · W`, now, later in this window, or in the next.
fn sliding_ready(now: Timestamp, current: u64, previous: u64, room: u64, limit: &UpstreamLimit) -> Timestamp {
    let width = limit.window_micros();
    let elapsed = position(now, limit).1;
    if current <= room {
        return later(now, elapsed_needed(previous, room - current, width).saturating_sub(elapsed));
    }
    later(later(now, width - elapsed), elapsed_needed(current, room, width))
}

/// The smallest `elapsed` with `count · (W − elapsed) ≤ room · W`.
fn elapsed_needed(count: u64, room: u64, width: u64) -> u64 {
    if count <= room {
        return 0;
    }
    let kept = u128::from(room) * u128::from(width) / u128::from(count);
    width - narrow(kept).min(width)
}

/// When enough of the oldest charges have left the window for `room` to hold the rest. Counted from the end that is nearer:
/// a client in a storm of refusals has a thousand times the room in its window, a careful one hardly more than it.
fn rolling_ready(now: Timestamp, charges: &VecDeque<(Timestamp, u64)>, total: u64, room: u64, width: u64) -> Timestamp {
    let excess = total.saturating_sub(room);
    if excess == 0 {
        return now;
    }
    let reached = |most: u64| {
        let mut sum = 0_u64;
        move |(_, cost): &&(Timestamp, u64)| {
            sum = sum.saturating_add(*cost);
            sum >= most
        }
    };
    let last = if excess <= room {
        charges.iter().find(reached(excess))
    } else {
        charges.iter().rev().find(reached(room.saturating_add(1)))
    };
    last.map_or(now, |(at, _)| later(*at, width))
}

fn later(at: Timestamp, micros: u64) -> Timestamp {
    Timestamp::from_micros(at.as_micros().saturating_add(micros))
}

/// Tokens times W; saturates far above any limit.
fn scaled(amount: u64, micros: u64) -> i128 {
    i128::from(amount).saturating_mul(i128::from(micros))
}

fn narrow(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}
