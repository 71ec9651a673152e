//! Episodes, chains and the four phases: how a throttle becomes one shared cooldown, one probe and a ramp.
//!
//! An *episode* is a throttle of an attempt that started after the last cooldown was set; the throttles of attempts
//! that were in flight then belong to the same episode, because one overload refuses all of them. A *chain* is a row
//! of episodes without a success between. One throttle is enough to open: with a correct ledger it says that the
//! model is wrong now, and going on costs budget and helps nobody.
//!
//! The end of a cooldown is a pure function of `now`, so nothing depends on a timer being on time: `Hold` whose end
//! has passed *is* half-open, and is written down as such (with its event) by the next call that may report.

use std::time::Duration;

use crate::engine::event::TripReason;
use crate::engine::limit::Limit;
use crate::engine::policy::BreakerPolicy;
use crate::engine::scope::Scope;
use crate::engine::time::{Timestamp, micros};
use crate::engine::verdict::Throttle;

use super::LimitUse;
use super::ceiling::Ceiling;
use super::cooldown::{self, Standing, Windows};
use super::memory::{CooldownMemory, PhaseMemory, rebased};
use super::ramp::Ramp;

/// Memory of the last cooldown is kept at least this long, so that late throttles are recognised as its own.
const MEMORY_MIN: Duration = Duration::from_secs(120);

/// Where the throttle breaker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Normal.
    Closed,
    /// Nothing leaves until `Episodes::until`.
    Hold,
    /// One probe at a time; this many have succeeded.
    HalfOpen(u32),
    /// The pace doubles until it is the full rate.
    Ramp(Ramp),
}

/// What became of the phase, as far as it is worth telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    None,
    HalfOpened,
    Closed,
}

/// What was refused while the scope was really sending: the basis of a learned ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    /// Which limit was used most.
    pub(super) index: usize,
    /// Its use and declaration.
    pub(super) of: LimitUse,
}

/// The throttle breaker of one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Episodes {
    pub(super) phase: Phase,
    /// The end of the latest cooldown. Never moves back.
    pub(super) until: Timestamp,
    pub(super) reason: TripReason,
    pub(super) chain: u32,
    /// When the latest cooldown was set.
    set_at: Option<Timestamp>,
    /// How long it was when it was set.
    length: Duration,
    /// When the last chain ended with a success.
    ended_at: Option<Timestamp>,
    episodes: u32,
    long_failures: u32,
    tripped: bool,
    measured: Option<Measured>,
    /// An operator closed it: late throttles of the closed episode are forgiven.
    forgiven: bool,
    memory: Duration,
}

impl Episodes {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Closed,
            until: Timestamp::EPOCH,
            reason: TripReason::Sustained429,
            chain: 0,
            set_at: None,
            length: Duration::ZERO,
            ended_at: None,
            episodes: 0,
            long_failures: 0,
            tripped: false,
            measured: None,
            forgiven: false,
            memory: MEMORY_MIN,
        }
    }

    /// The end of the cooldown, while nothing may leave.
    pub(super) fn blocked_until(&self, now: Timestamp) -> Option<Timestamp> {
        (self.phase == Phase::Hold && now < self.until).then_some(self.until)
    }

    /// Whether one probe at a time may go.
    pub(super) fn is_half_open(&self, now: Timestamp) -> bool {
        matches!(self.phase, Phase::HalfOpen(_)) || (self.phase == Phase::Hold && now >= self.until)
    }

    /// The ramp, while it paces.
    pub(super) fn ramp(&self, now: Timestamp) -> Option<&Ramp> {
        match &self.phase {
            Phase::Ramp(ramp) if now < ramp.ends_at => Some(ramp),
            _ => None,
        }
    }

    /// Whether it is closed at `now`.
    pub(super) fn is_closed(&self, now: Timestamp) -> bool {
        match &self.phase {
            Phase::Closed => true,
            Phase::Ramp(ramp) => now >= ramp.ends_at,
            Phase::Hold | Phase::HalfOpen(_) => false,
        }
    }

    /// Writes down what time alone has changed.
    pub(super) fn roll(&mut self, now: Timestamp) -> Turn {
        match self.phase {
            Phase::Hold if now >= self.until => {
                self.phase = Phase::HalfOpen(0);
                Turn::HalfOpened
            }
            Phase::Ramp(ramp) if now >= ramp.ends_at => {
                self.phase = Phase::Closed;
                self.forget(now);
                Turn::Closed
            }
            _ => {
                self.forget(now);
                Turn::None
            }
        }
    }

    /// A closed breaker whose memory is over remembers nothing; a ramp may have lasted longer than it.
    fn forget(&mut self, now: Timestamp) {
        if self.phase == Phase::Closed && self.remembered_until().is_some_and(|until| now >= until) {
            *self = Self { episodes: self.episodes, ..Self::new() };
        }
    }

    /// Whether an attempt that started at `sent_at` was already on its way when the latest cooldown was set.
    pub(super) fn is_of_running_episode(&self, sent_at: Timestamp) -> bool {
        // At equality it had left first: nothing starts once the cooldown is set.
        self.set_at.is_some_and(|set_at| sent_at <= set_at)
    }

    /// A throttle of the running episode. Only a Retry-After says anything new, and it never shortens.
    pub(super) fn extend(&mut self, now: Timestamp, throttle: &Throttle, policy: &BreakerPolicy) -> bool {
        let Some(retry_after) = throttle.retry_after.filter(|_| !self.forgiven) else { return false };
        let until = now.after(Duration::from_micros(cooldown::believed(retry_after, policy)));
        let later = until > self.until;
        if later {
            self.until = until;
            self.phase = Phase::Hold;
        }
        later
    }

    /// A throttle that opens an episode; answers what to learn a ceiling from, if the chain trips.
    pub(super) fn open(
        &mut self,
        now: Timestamp,
        (scope, throttle): (&Scope, &Throttle),
        uses: &[LimitUse],
        ceilings: &[Ceiling],
        policy: &BreakerPolicy,
    ) -> Option<Measured> {
        let windows = Windows::of(uses, policy);
        let failed_probe = matches!(self.phase, Phase::HalfOpen(_));
        if !failed_probe && self.phase != Phase::Hold {
            // Probes and silence measure nothing: what was accepted counts as a measure only while really sending.
            self.measured = most_used(uses);
        }
        let after_long = failed_probe && self.length >= policy.cooldown_long_max;
        self.long_failures = if after_long { self.long_failures.saturating_add(1) } else { 0 };
        self.chain = self.chain.saturating_add(1);
        self.episodes = self.episodes.saturating_add(1);
        let standing = Standing { chain: self.chain, episode: self.episodes, long_failures: self.long_failures };
        let length = cooldown::of_episode(scope, throttle, standing, windows, policy);
        self.hold(now, now.after(length), TripReason::Sustained429);
        self.length = length;
        let near = Duration::from_micros(micros(windows.shortest).saturating_mul(u64::from(policy.trip_windows)));
        self.memory = near.max(MEMORY_MIN);
        self.trip(now, near, ceilings, policy)
    }

    fn trip(
        &mut self,
        now: Timestamp,
        near: Duration,
        ceilings: &[Ceiling],
        policy: &BreakerPolicy,
    ) -> Option<Measured> {
        // Met again while a ceiling of the same limit was still rising: it was right, and rose too far.
        let known = self.measured.is_some_and(|measured| ceilings.iter().any(|one| one.index == measured.index));
        let soon = self.chain == 1 && (known || self.ended_at.is_some_and(|ended_at| now.since(ended_at) < near));
        let stubborn = policy.trip_chain > 0 && self.chain >= policy.trip_chain;
        if self.tripped || !(soon || stubborn) {
            return None;
        }
        // Nothing accepted is a block, not a lower rate: there is no rate to learn from it.
        let measured = self.measured.filter(|measured| measured.of.accepted > 0)?;
        self.tripped = true;
        Some(measured)
    }

    /// Nothing leaves until `until`, or later if that was already so.
    pub(super) fn hold(&mut self, now: Timestamp, until: Timestamp, reason: TripReason) {
        self.phase = Phase::Hold;
        self.until = self.until.max(until);
        self.set_at = Some(now);
        self.reason = reason;
        self.forgiven = false;
    }

    /// Another process's cooldown; answers whether it is news.
    pub(super) fn merge(&mut self, now: Timestamp, until: Timestamp) -> bool {
        if until <= now || until <= self.until {
            return false;
        }
        if self.blocked_until(now).is_some() {
            self.until = until;
        } else {
            self.hold(now, until, TripReason::Sustained429);
        }
        true
    }

    /// A success of an attempt that started after the cooldown was set. Call [`Episodes::roll`] first.
    pub(super) fn on_success(&mut self, now: Timestamp, policy: &BreakerPolicy) -> Turn {
        if self.chain > 0 {
            (self.chain, self.tripped, self.long_failures) = (0, false, 0);
            self.ended_at = Some(now);
        }
        let Phase::HalfOpen(successes) = self.phase else { return Turn::None };
        let successes = successes.saturating_add(1);
        if successes < policy.probe_successes {
            self.phase = Phase::HalfOpen(successes);
            return Turn::None;
        }
        self.phase = Ramp::begin(now, policy).map_or(Phase::Closed, Phase::Ramp);
        self.forget(now);
        if self.phase == Phase::Closed { Turn::Closed } else { Turn::None }
    }

    /// An operator closes it: no cooldown, no ramp. That there was a chain is remembered, so a new one soon trips.
    pub(super) fn close(&mut self, now: Timestamp) {
        if self.chain > 0 {
            self.ended_at = Some(now);
        }
        if self.set_at.is_some() {
            self.set_at = Some(now);
        }
        (self.chain, self.tripped, self.long_failures, self.forgiven) = (0, false, 0, true);
        (self.phase, self.until) = (Phase::Closed, now.min(self.until));
    }

    /// Whether it has opened, as far as it remembers.
    pub(super) fn has_opened(&self) -> bool {
        self.set_at.is_some()
    }

    /// The limits changed: what was measured on the old ones teaches nothing about the new ones.
    pub(super) fn forget_measured(&mut self) {
        self.measured = None;
    }

    /// Until when a closed breaker still matters to the next throttle; `None` when it never opened.
    pub(super) fn remembered_until(&self) -> Option<Timestamp> {
        self.set_at.max(self.ended_at).map(|at| at.after(self.memory))
    }

    /// What of it outlives the process; `None` when it never opened, as far as it remembers.
    pub(super) fn memory(&self, now: Timestamp) -> Option<CooldownMemory> {
        self.set_at.max(self.ended_at)?;
        let phase = match &self.phase {
            Phase::Hold | Phase::HalfOpen(_) => PhaseMemory::Shut,
            Phase::Ramp(ramp) if now < ramp.ends_at => PhaseMemory::Ramp { ends_at: ramp.ends_at },
            Phase::Ramp(_) | Phase::Closed => PhaseMemory::Closed,
        };
        Some(CooldownMemory {
            phase,
            until: self.until,
            reason: self.reason,
            chain: self.chain,
            set_at: self.set_at,
            ended_at: self.ended_at,
            length: self.length,
            memory: self.memory,
            episodes: self.episodes,
            long_failures: self.long_failures,
            tripped: self.tripped,
            forgiven: self.forgiven,
            measured: self.measured.map(|measured| (measured.of.limit, measured.of.used, measured.of.accepted)),
        })
    }

    /// What it was, as far as a later life may rely on it: the successes of half-open and the ramp's pace begin anew.
    pub(super) fn restored(now: Timestamp, of: &CooldownMemory, limits: &[Limit], policy: &BreakerPolicy) -> Self {
        let since = of.set_at.unwrap_or(now);
        let phase = match of.phase {
            PhaseMemory::Shut => Phase::Hold,
            PhaseMemory::Ramp { ends_at } if ends_at > now => {
                Ramp::begin(now, policy).map_or(Phase::Closed, Phase::Ramp)
            }
            PhaseMemory::Ramp { .. } | PhaseMemory::Closed => Phase::Closed,
        };
        let measured = of.measured.and_then(|(limit, used, accepted)| {
            let index = limits.iter().position(|other| *other == limit)?;
            Some(Measured { index, of: LimitUse { limit, used, accepted } })
        });
        let mut restored = Self {
            phase,
            until: rebased(now, since, of.until),
            reason: of.reason,
            chain: of.chain,
            set_at: of.set_at.map(|at| at.min(now)),
            length: of.length,
            ended_at: of.ended_at.map(|at| at.min(now)),
            episodes: of.episodes,
            long_failures: of.long_failures,
            tripped: of.tripped,
            measured,
            forgiven: of.forgiven,
            memory: of.memory.max(MEMORY_MIN),
        };
        restored.forget(now);
        restored
    }

    /// When time alone changes it next.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        match &self.phase {
            Phase::Closed => self.remembered_until(),
            Phase::Hold => Some(self.until),
            Phase::HalfOpen(_) => None,
            Phase::Ramp(ramp) => Some(ramp.ends_at),
        }
    }
}

/// The limit with the highest used part, U/N.
pub(super) fn most_used(uses: &[LimitUse]) -> Option<Measured> {
    let fuller = |a: &LimitUse, b: &LimitUse| {
        let left = u128::from(a.used) * u128::from(b.limit.amount());
        left > u128::from(b.used) * u128::from(a.limit.amount())
    };
    let mut best: Option<Measured> = None;
    for (index, of) in uses.iter().enumerate() {
        if best.is_none_or(|best| fuller(of, &best.of)) {
            best = Some(Measured { index, of: *of });
        }
    }
    best
}
