//! What a breaker says of itself.

use crate::engine::event::TripReason;
use crate::engine::time::Timestamp;

/// Where a breaker is. *Open* blocks, *closed* is normal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BreakerState {
    /// Normal.
    #[default]
    Closed,
    /// Nothing leaves.
    Open,
    /// One probe at a time.
    HalfOpen,
    /// The rate widens back to normal.
    Ramp,
}

/// What people see of one breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BreakerFacts {
    /// Where it is.
    pub state: BreakerState,
    /// Why it last opened.
    pub reason: Option<TripReason>,
    /// The end of the cooldown, while open.
    pub until: Option<Timestamp>,
    /// Episodes in the running chain.
    pub chain: u32,
    /// Ceilings learned so far.
    pub trips: u32,
}
