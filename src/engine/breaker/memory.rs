//! What of a breaker outlives its process, and how it begins again from that.
//!
//! Whoever restores cannot know what happened after the last word was written, so doubt blocks: a half-open breaker
//! needs all its successes anew, a ramp begins at its slowest pace, a ceiling goes on from its own start. Nothing that
//! every send changes is in here (counts of health, calibration by usage headers), so sending costs no write.
//!
//! A ceiling belongs to a limit, not to a place in a list: one whose limit is no longer declared is dropped, as when
//! limits change at run time. The calibration is learned anew within a few answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::event::TripReason;
use crate::engine::limit::Limit;
use crate::engine::policy::BreakerPolicy;
use crate::engine::time::Timestamp;

use super::Breaker;
use super::ceiling::Ceiling;
use super::episode::Episodes;
use super::health::Outage;
use super::probe::Probe;
use super::state::Active;

/// An open or half-open breaker is remembered for so long after its cooldown: every window of a day has passed then.
const SHUT_KEPT: Duration = Duration::from_secs(86_400);

/// What a breaker remembers beyond its process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BreakerMemory {
    /// The cooldown, or that there was one.
    #[serde(default)]
    pub cooldown: Option<CooldownMemory>,
    /// An open health breaker.
    #[serde(default)]
    pub outage: Option<OutageMemory>,
    /// Learned ceilings.
    #[serde(default)]
    pub ceilings: Vec<CeilingMemory>,
    /// Ceilings learned so far.
    #[serde(default)]
    pub trips: u32,
    /// Background stays out until then.
    #[serde(default)]
    pub background_paused_until: Option<Timestamp>,
}

/// Where the throttle breaker was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PhaseMemory {
    /// Nothing leaves until the end of the cooldown, then one probe at a time.
    Shut,
    /// The pace widens until then.
    Ramp {
        /// When the full rate is back.
        ends_at: Timestamp,
    },
    /// Normal; what was is remembered.
    Closed,
}

/// The throttle breaker: its last cooldown and its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CooldownMemory {
    /// Where it is.
    pub phase: PhaseMemory,
    /// The end of the latest cooldown.
    pub until: Timestamp,
    /// Why it opened.
    pub reason: TripReason,
    /// Episodes in the running chain.
    #[serde(default)]
    pub chain: u32,
    /// When the latest cooldown was set; none: only a success is remembered.
    #[serde(default)]
    pub set_at: Option<Timestamp>,
    /// When the last chain ended with a success.
    #[serde(default)]
    pub ended_at: Option<Timestamp>,
    /// How long the cooldown was when it was set, in microseconds.
    pub length: Duration,
    /// How long a closed breaker still matters.
    pub memory: Duration,
    /// Episodes seen.
    #[serde(default)]
    pub episodes: u32,
    /// Probes in a row that failed right after a long cooldown.
    #[serde(default)]
    pub long_failures: u32,
    /// Whether this chain has taught a ceiling.
    #[serde(default)]
    pub tripped: bool,
    /// Whether an operator closed it.
    #[serde(default)]
    pub forgiven: bool,
    /// The limit used most while it was really sending, its use and what was accepted of it.
    #[serde(default)]
    pub measured: Option<(Limit, u64, u64)>,
}

/// The health breaker, open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OutageMemory {
    /// When it was set.
    pub set_at: Timestamp,
    /// Nothing leaves before this, then one probe at a time.
    pub until: Timestamp,
    /// Probes that failed.
    #[serde(default)]
    pub failed_probes: u32,
}

/// One learned ceiling, with its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CeilingMemory {
    /// Of which limit.
    pub limit: Limit,
    /// When it was learned.
    pub learned_at: Timestamp,
    /// When it has no effect any more.
    pub ends_at: Timestamp,
    /// What the last window had taken.
    pub w_max: u64,
    /// What is taken off at the start, in millionths.
    pub drop_ppm: u32,
    /// Microseconds until the curve is back at `w_max`.
    pub k: u64,
}

impl BreakerMemory {
    /// From when on none of it matters.
    #[must_use]
    pub fn ends_at(&self) -> Timestamp {
        let cooldown = self.cooldown.map(|cooldown| match cooldown.phase {
            PhaseMemory::Shut => cooldown.until.after(cooldown.memory.max(SHUT_KEPT)),
            PhaseMemory::Ramp { ends_at } => ends_at.max(cooldown.remembered_until()),
            PhaseMemory::Closed => cooldown.remembered_until(),
        });
        let outage = self.outage.map(|outage| outage.until.after(SHUT_KEPT));
        let ceilings = self.ceilings.iter().map(|ceiling| ceiling.ends_at);
        let others = [cooldown, outage, self.background_paused_until].into_iter().flatten();
        others.chain(ceilings).max().unwrap_or(Timestamp::EPOCH)
    }
}

impl CooldownMemory {
    fn remembered_until(&self) -> Timestamp {
        self.set_at.max(self.ended_at).map_or(Timestamp::EPOCH, |at| at.after(self.memory))
    }
}

impl Breaker {
    /// What it remembers beyond its process; `None` when that is nothing. `limits` are its limits as declared.
    #[must_use]
    pub fn memory(&self, now: Timestamp, limits: &[Limit]) -> Option<BreakerMemory> {
        let active = self.active.as_ref()?;
        let soft = active.soft.paused_until.filter(|until| now < *until);
        let ceilings = active.ceilings.iter().filter(|one| now < one.ends_at);
        let memory = BreakerMemory {
            cooldown: active.episodes.memory(now),
            outage: active.outage.as_ref().map(Outage::memory),
            ceilings: ceilings.filter_map(|one| one.memory(limits)).collect(),
            trips: active.trips,
            background_paused_until: soft,
        };
        (memory.ends_at() > now).then_some(memory)
    }

    /// A breaker that begins where an earlier life of it ended. It lets nothing pass that that one would have stopped.
    ///
    /// Instants after `now` come from a clock that was set back between the two lives: what had begun then begins now,
    /// and lasts as long as it would have.
    #[must_use]
    pub fn restored(
        mut self,
        now: Timestamp,
        memory: &BreakerMemory,
        limits: &[Limit],
        policy: &BreakerPolicy,
    ) -> Self {
        if memory.ends_at() <= now {
            return self;
        }
        let mut active = Active { trips: memory.trips, probe_timeout: policy.probe_timeout, ..Active::default() };
        let ceilings = memory.ceilings.iter().filter_map(|ceiling| Ceiling::restored(now, ceiling, limits));
        active.ceilings = ceilings.filter(|ceiling| now < ceiling.ends_at).collect();
        active.outage = memory.outage.map(|outage| Outage::restored(now, outage));
        active.soft.paused_until = memory.background_paused_until.filter(|until| now < *until);
        if let Some(cooldown) = &memory.cooldown {
            active.episodes = Episodes::restored(now, cooldown, limits, policy);
            active.pace_ramp(now, limits);
        }
        self.active = Some(Box::new(active));
        self.tidy(now);
        self
    }

    /// An attempt of the earlier life is not known to have ended. If it was the probe, it is waited for like one.
    pub fn restored_live(&mut self, now: Timestamp, claimed_at: Timestamp, policy: &BreakerPolicy) {
        let Some(active) = &mut self.active else { return };
        if active.half_open_since(now).is_some_and(|since| claimed_at >= since) {
            let probe = Probe::take(claimed_at, policy.probe_timeout);
            active.probe = active.probe.max(Some(probe)).filter(|probe| probe.is_live(now));
        }
    }
}

/// An interval that began after `now`, as if it began now. The others stay as they are.
pub(super) fn rebased(now: Timestamp, from: Timestamp, to: Timestamp) -> Timestamp {
    if from > now && to != Timestamp::NEVER { now.after(to.since(from)) } else { to }
}
