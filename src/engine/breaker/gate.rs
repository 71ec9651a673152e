//! What a breaker is told and what it says, per send.

use crate::engine::constraint::Wall;
use crate::engine::limit::Limit;
use crate::engine::time::Timestamp;

/// The use of one limit of the scope, in the order in which the limits are declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitUse {
    /// The declared limit.
    pub limit: Limit,
    /// Charged now: in flight and unexpired.
    pub used: u64,
    /// Accepted by the provider within the last window.
    pub accepted: u64,
}

/// What the breaker says to the next send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Gate {
    /// Go.
    Pass,
    /// The ramp: the next send goes at this instant.
    Paced {
        /// When.
        ready_at: Timestamp,
    },
    /// One attempt may go, as the probe.
    Probe,
    /// The probe, or an attempt from before the cooldown, is in flight.
    ProbeInFlight {
        /// When it is no longer waited for.
        until: Timestamp,
    },
    /// Nothing leaves.
    Blocked {
        /// Until when.
        until: Timestamp,
        /// [`Wall::Cooldown`] or [`Wall::Health`], whichever lasts longer.
        wall: Wall,
    },
}
