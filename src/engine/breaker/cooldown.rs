//! How long a cooldown lasts: pure functions of the policy, the chain and the provider's hint.
//!
//! The spread that keeps scopes from probing in step is a hash of (scope, episode) rather than a dice roll, so a run
//! can be replayed from its inputs. Growth is integer arithmetic in microseconds and stops at its cap.

use std::time::Duration;

use crate::engine::policy::BreakerPolicy;
use crate::engine::ratio::Ratio;
use crate::engine::scope::Scope;
use crate::engine::spread;
use crate::engine::time::micros;
use crate::engine::verdict::{Throttle, ThrottleKind};

use super::LimitUse;

/// Shortest first cooldown, whatever the provider or the configuration says: a Retry-After of 0 is no hot loop.
pub(super) const COOLDOWN_MIN: Duration = Duration::from_secs(1);

/// W_min of a scope that declares no limit.
const WINDOW_FALLBACK: Duration = Duration::from_secs(60);

/// Windows up to this long count as short when the cap is chosen.
const WINDOW_SHORT_MAX: Duration = Duration::from_secs(60);

/// Growth is computed step by step; after this many steps every sensible factor has met its cap.
const GROWTH_STEPS_MAX: u32 = 64;

/// What is known of the scope's windows when a cooldown is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Windows {
    /// The shortest declared window, W_min.
    pub(super) shortest: Duration,
    /// The longest cooldown without a Retry-After.
    pub(super) cap: Duration,
}

impl Windows {
    /// W_min and the cap of a scope with these limits.
    pub(super) fn of(uses: &[LimitUse], policy: &BreakerPolicy) -> Self {
        let windows = || uses.iter().map(|one| one.limit.window());
        let shortest = windows().min().unwrap_or(WINDOW_FALLBACK).max(Duration::from_micros(1));
        let long = windows().any(|window| window > WINDOW_SHORT_MAX);
        let cap = if long { policy.cooldown_long_max } else { policy.cooldown_short_max };
        Self { shortest, cap }
    }
}

/// What the running chain adds to the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// Episodes of the chain, this one included.
    pub(super) chain: u32,
    /// Episodes seen by this breaker, this one included.
    pub(super) episode: u32,
    /// Probes in a row that failed right after a cooldown of at least the long maximum.
    pub(super) long_failures: u32,
}

/// The cooldown of a new episode.
pub(super) fn of_episode(
    scope: &Scope,
    throttle: &Throttle,
    standing: Standing,
    windows: Windows,
    policy: &BreakerPolicy,
) -> Duration {
    let steps = standing.chain.saturating_sub(1);
    let length = match throttle.retry_after {
        Some(retry_after) => {
            // A provider that keeps answering "1 s" while it keeps refusing is believed less each time: doubling
            // keeps ten minutes of block at a dozen refusals.
            let floor = grown(COOLDOWN_MIN, Ratio::percent(200), steps, windows.cap);
            let hinted = hinted(scope, retry_after, standing.episode, policy);
            // It goes on refusing after every wait that it named: as if it had named none.
            let floor =
                if hinted < floor && is_penalty_due(standing, policy) { floor.max(policy.penalty) } else { floor };
            hinted.max(floor)
        }
        None if standing.long_failures >= 2 => policy.penalty,
        None if is_penalty_due(standing, policy) => policy.penalty,
        None => {
            let first = policy.cooldown_first.unwrap_or(windows.shortest);
            grown(first, policy.cooldown_growth, steps, windows.cap)
        }
    };
    let quota = throttle.retry_after.is_none() && throttle.kind == ThrottleKind::Quota;
    let least = if quota { policy.cooldown_long_max.max(COOLDOWN_MIN) } else { COOLDOWN_MIN };
    length.max(least)
}

/// Whether a penalty box may be what goes on and on.
const fn is_penalty_due(standing: Standing, policy: &BreakerPolicy) -> bool {
    policy.penalty_chain > 0 && standing.chain > 0 && standing.chain.is_multiple_of(policy.penalty_chain)
}

/// A Retry-After, cut to what is believed, with its spread and margin.
pub(super) fn hinted(scope: &Scope, retry_after: Duration, episode: u32, policy: &BreakerPolicy) -> Duration {
    let believed = believed(retry_after, policy);
    let most = u128::from(policy.retry_after_spread.floor_of(believed));
    let draw = spread::mixed(spread::fnv1a(scope.to_string().as_bytes()), u64::from(episode));
    let spread = (u128::from(draw >> 32) * most) >> 32;
    let spread = u64::try_from(spread).unwrap_or(u64::MAX);
    let margin = micros(policy.retry_after_margin);
    Duration::from_micros(believed.saturating_add(spread).saturating_add(margin)).max(COOLDOWN_MIN)
}

/// A Retry-After in microseconds, cut to what is believed.
pub(super) fn believed(retry_after: Duration, policy: &BreakerPolicy) -> u64 {
    micros(retry_after.min(policy.retry_after_max))
}

/// `min(first · growth^steps, cap)`; a growth below one counts as one.
pub(super) fn grown(first: Duration, growth: Ratio, steps: u32, cap: Duration) -> Duration {
    let (growth, cap) = (growth.max(Ratio::ONE), micros(cap));
    let mut length = micros(first).min(cap);
    for _ in 0..steps.min(GROWTH_STEPS_MAX) {
        let next = growth.floor_of(length).min(cap);
        if next == length {
            break;
        }
        length = next;
    }
    Duration::from_micros(length)
}
