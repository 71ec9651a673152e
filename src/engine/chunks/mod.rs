//! One budget of a tenant or of the application, spent by several processes: leased chunks.
//!
//! What each process has used, and what it holds to use, stands in a table that all of them see: one *part* per process,
//! written by that process alone. Who needs room reads the table, takes a *chunk* of what is free for itself, and
//! writes that into its own part, if nobody has written meanwhile. So nobody grants anything to anybody, and whoever dies
//! leaves nothing but a part that runs out by itself.
//!
//! Why no window is exceeded: every use needs a token, and a token is taken only where the sum of all parts leaves room.
//!
//! - Held tokens and attempts in flight count as long as a token of this chunk can arrive and be counted: to the end
//!   of the chunk, a margin, the longest request (D) and the window (W). So a process that is never heard of again has what
//!   it took counted until nothing of it can matter (rule 9 of the model, `tests/lease_model/chunks.rs`).
//! - What has ended counts a window from its end, as in a process alone. Ends are told by their age, so that clocks need
//!   only run at the same rate.
//! - A part is the whole truth about its process, not a change: written twice it is the same, and after a failover
//!   of the store the next writing puts back what was forgotten. Until nothing can be missing any more, nothing is taken.
//! - A token leaves before its chunk is over, or not at all.
//!
//! | | |
//! |---|---|
//! | [`Ask`] | what a process has, and what it wants |
//! | [`take`] | the rule: reads the parts, and says what its part is then, and which tokens it has gained |
//! | [`Allowance`] | the tokens of a scope in the process that holds them |

mod allowance;
mod part;
mod take;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::ledger::guarded;
use super::policy::{FleetPolicy, SharedPolicy};
use super::ratio::Ratio;
use super::time::{Timestamp, micros};

pub(crate) use allowance::{Allowance, Rest};
pub use part::{Part, Row};
pub use take::{Ask, Gained, Taken, Wanted, take};

/// The numbers that all processes go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRules {
    /// A chunk is what the limit's rate comes to in this time, and a process asks so often while it needs more.
    pub chunk: Duration,
    /// How long a token may be used.
    pub ttl: Duration,
    /// For how much longer it counts as if it could be.
    pub margin: Duration,
    /// The longest that an attempt can take (D).
    pub attempt: Duration,
    /// ρ.
    pub clock_error: Ratio,
    /// Windows up to this long are silent after a failover of the store, longer ones rest on what the living tell.
    pub rebuilt_above: Duration,
    /// Within this every process that lives has written its part again after a failover.
    pub restated_within: Duration,
    /// The part that background gets while foreground alone uses everything.
    pub background_floor: Ratio,
    /// Before a process that could not reach the store asks it again.
    pub retry_after: Duration,
}

impl ChunkRules {
    /// As the policies have them.
    #[must_use]
    pub fn new(fleet: &FleetPolicy, shared: &SharedPolicy) -> Self {
        let guard = &shared.guard;
        Self {
            chunk: fleet.chunk,
            ttl: fleet.chunk_ttl,
            margin: fleet.lease_margin,
            attempt: guard.request_deadline_max,
            clock_error: guard.clock_error,
            rebuilt_above: fleet.rebuilt_above,
            restated_within: fleet.lease_ttl.saturating_add(fleet.chunk_ttl),
            background_floor: shared.lanes.background_floor,
            retry_after: fleet.retry_after,
        }
    }

    /// How long a token that was taken counts where nothing more is heard of it: TTL + D + W.
    #[must_use]
    pub fn counts_for(&self, window: Duration) -> Duration {
        let span = [self.margin, self.attempt, window].into_iter().fold(self.ttl, Duration::saturating_add);
        Duration::from_micros(guarded(micros(span), self.clock_error.as_ppm()))
    }

    /// Whether nothing is taken after a failover yet. A short window is silent until nothing that was forgotten can count
    /// any more; a long one until all who live have told again what they used.
    fn is_silent(&self, failover_at: Option<Timestamp>, window: Duration, now: Timestamp) -> bool {
        let span = if window <= self.rebuilt_above { self.counts_for(window) } else { self.restated_within };
        failover_at.is_some_and(|at| at.after(span) > now)
    }

    /// How far ahead tokens are taken of what will have become free: until the next time and half a time more.
    fn ahead(&self) -> Duration {
        self.ttl.min(self.chunk.saturating_mul(3) / 2)
    }
}
