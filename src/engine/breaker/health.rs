//! The health breaker: the provider fails, it does not throttle.
//!
//! It is apart from the throttle breaker because the two need opposite answers: a failure costs an attempt and says
//! nothing about our rate, a throttle costs none and says everything. Only outcomes of real attempts feed it, a
//! refused connection included; local refusals never do.
//!
//! The ratio is judged over three slots of twenty seconds, so it looks back between 40 and 60 seconds and never
//! further. That is coarse on purpose: the tally lives in every breaker, quiet ones too.

use std::time::Duration;

use crate::engine::policy::BreakerPolicy;
use crate::engine::ratio::Ratio;
use crate::engine::time::Timestamp;

use super::cooldown;
use super::memory::{OutageMemory, rebased};

const SLOTS: usize = 3;
const SLOT_MICROS: u64 = 20_000_000;

/// Calls and failures of the last minute, and failures in a row. Small: it is part of a quiet breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    slot: u32,
    calls: [u32; SLOTS],
    failures: [u32; SLOTS],
    row: u16,
}

impl Tally {
    /// The provider answered, whatever it answered.
    pub(super) fn on_answered(&mut self, now: Timestamp) {
        let index = self.turn_to(now);
        self.calls[index] = self.calls[index].saturating_add(1);
        self.row = 0;
    }

    /// It failed or did not answer.
    pub(super) fn on_failure(&mut self, now: Timestamp) {
        let index = self.turn_to(now);
        self.calls[index] = self.calls[index].saturating_add(1);
        self.failures[index] = self.failures[index].saturating_add(1);
        self.row = self.row.saturating_add(1);
    }

    /// Of failures in a row those of the last minute count, for a scope that does not hear of every success between them.
    pub(super) fn forget_old(&mut self, now: Timestamp) {
        self.turn_to(now);
        let recent = self.failures.iter().fold(0, |sum: u32, count| sum.saturating_add(*count));
        self.row = self.row.min(u16::try_from(recent).unwrap_or(u16::MAX));
    }

    /// Whether that is enough to open. A policy number of zero turns its rule off.
    pub(super) fn is_bad(&self, policy: &BreakerPolicy) -> bool {
        let in_a_row =
            policy.health_failures > 0 && u32::from(self.row) >= policy.health_failures.min(u32::from(u16::MAX));
        let sum = |counts: &[u32; SLOTS]| counts.iter().map(|count| u64::from(*count)).sum::<u64>();
        let (calls, failures) = (sum(&self.calls), sum(&self.failures));
        let enough = policy.health_calls_min > 0 && calls >= u64::from(policy.health_calls_min);
        let ratio = policy.health_ratio.max(Ratio::ppm(1));
        in_a_row || (enough && failures >= ratio.ceil_of(calls))
    }

    fn turn_to(&mut self, now: Timestamp) -> usize {
        let slot = u32::try_from(now.as_micros() / SLOT_MICROS).unwrap_or(u32::MAX);
        // A slot number below the current one is a clock that stepped back: counted where we are.
        for _ in 0..slot.saturating_sub(self.slot).min(SLOTS as u32) {
            self.calls.rotate_right(1);
            self.failures.rotate_right(1);
            (self.calls[0], self.failures[0]) = (0, 0);
        }
        self.slot = self.slot.max(slot);
        0
    }
}

/// An open health breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outage {
    /// Failures of attempts that started before this belong to it.
    pub(super) set_at: Timestamp,
    /// Nothing leaves before this.
    pub(super) until: Timestamp,
    /// Whether `until` has been seen to pass: one probe at a time since then.
    pub(super) half_open: bool,
    failed_probes: u32,
    /// Probes that failed since the cooldown ended.
    failed_now: u32,
}

impl Outage {
    /// Opens, or opens again after a failed probe. `hint` is a Retry-After, already cut and spread.
    pub(super) fn open(now: Timestamp, before: Option<Self>, hint: Option<Duration>, policy: &BreakerPolicy) -> Self {
        let failed_probes = before.map_or(0, |outage| outage.failed_probes.saturating_add(1));
        let cap = policy.health_cooldown_max;
        let length = cooldown::grown(policy.health_cooldown, Ratio::percent(200), failed_probes, cap);
        let length = length.max(hint.unwrap_or(Duration::ZERO)).max(cooldown::COOLDOWN_MIN);
        let until = now.after(length).max(before.map_or(Timestamp::EPOCH, |outage| outage.until));
        Self { set_at: now, until, half_open: false, failed_probes, failed_now: 0 }
    }

    /// A probe failed; whether the next may go at once. In an outage all of them fail; in a brown-out of half the answers, where one
    /// failure says nothing, seven cooldowns in eight end here.
    pub(super) fn may_probe_again(&mut self, policy: &BreakerPolicy) -> bool {
        self.failed_now = self.failed_now.saturating_add(1);
        self.failed_now < policy.health_probes
    }

    /// What of it outlives the process.
    pub(super) fn memory(&self) -> OutageMemory {
        OutageMemory { set_at: self.set_at, until: self.until, failed_probes: self.failed_probes }
    }

    /// The outage of an earlier life. That it is half-open is told anew.
    pub(super) fn restored(now: Timestamp, of: OutageMemory) -> Self {
        let OutageMemory { set_at, until, failed_probes } = of;
        let (set_at, until) = (set_at.min(now), rebased(now, set_at, until));
        Self { set_at, until, half_open: false, failed_probes, failed_now: 0 }
    }

    /// Whether the cooldown is over and a probe may test the provider.
    pub(super) fn is_half_open(&self, now: Timestamp) -> bool {
        now >= self.until
    }
}
