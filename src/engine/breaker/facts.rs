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
    /// Why it last opened, as far as that is remembered.
    pub reason: Option<TripReason>,
    /// The end of the cooldown, while open; the end of the ramp, while that runs.
    pub until: Option<Timestamp>,
    /// Episodes in the running chain.
    pub chain: u32,
    /// Ceilings learned so far, as far as they are remembered.
    pub trips: u32,
    /// Background is paused until then, because the provider says that its limit is used up.
    pub background_paused_until: Option<Timestamp>,
}
