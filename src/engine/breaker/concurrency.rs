//! How many attempts of a scope may be in flight, per lane, with slots that linger.
//!
//! An attempt whose outcome is ambiguous may still be executed by the provider after we have given it up, so its
//! slot stays taken until the provider must be done with it. One slot stays free for foreground: background takes at
//! most `max(1, C − 1)`.
//!
//! A refusal for concurrency lowers C by one; it is no reason to slow the rate, so the breaker is left alone. One
//! wave of refusals counts once: attempts that started before C was last lowered do not lower it again.
//!
//! Without a declared limit there is none until the provider objects; what it then teaches is forgotten after one
//! recovery period without an objection.

use std::num::NonZeroU32;

use crate::engine::lane::Lane;
use crate::engine::policy::BreakerPolicy;
use crate::engine::time::Timestamp;

/// The attempts in flight of one scope.
#[derive(Clone, Debug)]
pub struct Concurrency {
    limit: Option<NonZeroU32>,
    in_flight: [u32; 2],
    trouble: Option<Box<Trouble>>,
}

/// What a scope without trouble does not carry.
#[derive(Clone, Debug, Default)]
struct Trouble {
    lowered: Option<Lowered>,
    /// Ends of the lingering slots. At most as many as there were slots.
    lingering: Vec<(Timestamp, Lane)>,
}

/// A limit that the provider taught us.
#[derive(Clone, Copy, Debug)]
struct Lowered {
    limit: u32,
    at: Timestamp,
    recovers_at: Timestamp,
}

impl Concurrency {
    /// Nothing in flight; `None`: not limited.
    #[must_use]
    pub fn new(limit: Option<NonZeroU32>) -> Self {
        Self { limit, in_flight: [0, 0], trouble: None }
    }

    /// Changes the declared limit. What is in flight stays; what the provider taught stays where it is lower.
    pub fn set_limit(&mut self, limit: Option<NonZeroU32>) {
        self.limit = limit;
        if let (Some(limit), Some(trouble)) = (limit, &mut self.trouble) {
            trouble.lowered = trouble.lowered.filter(|lowered| lowered.limit < limit.get());
        }
    }

    /// C: most attempts in flight now; `None`: not limited. Counts lowered by the provider rise on [`Self::on_wake`].
    #[must_use]
    pub fn limit(&self) -> Option<u32> {
        let declared = self.limit.map(NonZeroU32::get);
        let lowered = self.trouble.as_ref().and_then(|trouble| trouble.lowered).map(|lowered| lowered.limit);
        match (declared, lowered) {
            (Some(declared), Some(lowered)) => Some(declared.min(lowered)),
            (declared, lowered) => declared.or(lowered),
        }
    }

    /// Whether `lane` may start an attempt now.
    #[must_use]
    pub fn may_start(&self, lane: Lane, now: Timestamp) -> bool {
        let Some(limit) = self.limit() else { return true };
        let taken = |lane: Lane| u64::from(self.in_flight[lane.index()]) + self.lingering(lane, now);
        let background = taken(Lane::Background);
        let free = taken(Lane::Foreground) + background < u64::from(limit);
        match lane {
            Lane::Foreground => free,
            Lane::Background => free && background < u64::from(limit.saturating_sub(1).max(1)),
        }
    }

    /// An attempt of `lane` takes a slot. The caller has asked [`Self::may_start`].
    pub fn on_start(&mut self, lane: Lane) {
        let count = &mut self.in_flight[lane.index()];
        *count = count.saturating_add(1);
    }

    /// An attempt of `lane` ended, or never left; its slot is free.
    pub fn on_finish(&mut self, lane: Lane) {
        let count = &mut self.in_flight[lane.index()];
        *count = count.saturating_sub(1);
    }

    /// An attempt of `lane` ended ambiguously; its slot is free at `until`.
    pub fn on_linger(&mut self, lane: Lane, now: Timestamp, until: Timestamp) {
        self.on_finish(lane);
        // Without a limit a lingering slot keeps nothing back, and the list would have no bound.
        if until > now && self.limit().is_some() {
            let trouble = self.trouble.get_or_insert_default();
            trouble.lingering.retain(|(end, _)| *end > now);
            trouble.lingering.push((until, lane));
        }
    }

    /// An attempt whose slot of `lane` lingered has been answered after all: one such slot is free.
    pub fn on_late_answer(&mut self, lane: Lane) {
        let Some(trouble) = &mut self.trouble else { return };
        let first =
            trouble.lingering.iter().enumerate().filter(|(_, (_, of))| *of == lane).min_by_key(|(_, (end, _))| *end);
        if let Some((at, _)) = first {
            trouble.lingering.swap_remove(at);
        }
    }

    /// The provider refused an attempt that started at `sent_at` because too many were in flight: C ← max(1, C − 1).
    ///
    /// Call it before [`Self::on_finish`]: without a declared limit C is learned from what is in flight.
    pub fn on_concurrency_throttle(&mut self, now: Timestamp, sent_at: Timestamp, policy: &BreakerPolicy) {
        let in_flight = self.in_flight[0].saturating_add(self.in_flight[1]);
        let limit = self.limit().unwrap_or(in_flight).saturating_sub(1).max(1);
        let trouble = self.trouble.get_or_insert_default();
        let recovers_at = now.after(policy.concurrency_recovery);
        trouble.lowered = Some(match trouble.lowered {
            Some(lowered) if sent_at <= lowered.at => Lowered { recovers_at, ..lowered },
            _ => Lowered { limit, at: now, recovers_at },
        });
    }

    /// A deadline has come: lingering slots end, a lowered C rises by one.
    ///
    /// Afterwards [`Self::deadline`] is later than `now`, or `None`.
    pub fn on_wake(&mut self, now: Timestamp, policy: &BreakerPolicy) {
        let declared = self.limit.map(NonZeroU32::get);
        let Some(trouble) = &mut self.trouble else { return };
        trouble.lingering.retain(|(end, _)| *end > now);
        if let Some(lowered) = &mut trouble.lowered
            && now >= lowered.recovers_at
        {
            lowered.limit = lowered.limit.saturating_add(1);
            // A period of zero would recover in one instant for ever.
            lowered.recovers_at =
                now.after(policy.concurrency_recovery).max(Timestamp::from_micros(now.as_micros().saturating_add(1)));
            if declared.is_none_or(|declared| lowered.limit >= declared) {
                trouble.lowered = None;
            }
        }
        if trouble.lowered.is_none() && trouble.lingering.is_empty() {
            self.trouble = None;
        }
    }

    /// Whether time alone may free a slot or raise C.
    pub(crate) fn has_deadlines(&self) -> bool {
        self.trouble.is_some()
    }

    /// When time alone frees a slot or raises C next; `None`: nothing but outcomes change it.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        let trouble = self.trouble.as_ref()?;
        let lingering = trouble.lingering.iter().map(|(end, _)| *end);
        lingering.chain(trouble.lowered.map(|lowered| lowered.recovers_at)).min().filter(|at| *at < Timestamp::NEVER)
    }

    /// Attempts in flight per lane, foreground first, lingering slots not counted.
    #[must_use]
    pub fn in_flight(&self) -> [u32; 2] {
        self.in_flight
    }

    /// Attempts in flight of both lanes.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.in_flight[0].saturating_add(self.in_flight[1])
    }

    /// Whether nothing is in flight, lingers or is lowered.
    #[must_use]
    pub fn is_quiet(&self, now: Timestamp) -> bool {
        let idle =
            |trouble: &Trouble| trouble.lowered.is_none() && trouble.lingering.iter().all(|(end, _)| *end <= now);
        self.in_flight == [0, 0] && self.trouble.as_deref().is_none_or(idle)
    }

    /// Whether a new one under this limit would be the same.
    pub(crate) fn is_as_new(&self, limit: Option<NonZeroU32>) -> bool {
        self.limit == limit && self.in_flight == [0, 0] && self.trouble.is_none()
    }

    fn lingering(&self, lane: Lane, now: Timestamp) -> u64 {
        let count = |trouble: &Trouble| trouble.lingering.iter().filter(|(end, of)| *of == lane && *end > now).count();
        self.trouble.as_deref().map_or(0, count) as u64
    }
}
