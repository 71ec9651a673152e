//! What the engine reports. It never logs: `telemetry` turns one of these into one tracing event and its counters.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::constraint::{Constraint, Wall};
use super::cost::Cost;
use super::lane::Lane;
use super::operation::{ExhaustCause, OperationKey, QuarantineCause};
use super::ratio::Ratio;
use super::scope::Scope;
use super::time::Timestamp;
use super::verdict::Subject;

/// Why a breaker opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TripReason {
    /// The provider answered 429.
    #[serde(rename = "sustained_429")]
    Sustained429,
    /// The provider's usage header said that the limit is used up.
    SoftPercentage,
    /// The provider failed in a row.
    Health,
    /// An operator.
    Manual,
    /// Too many of the operations that a hold let go first ended badly. That stops the part
    /// ([`crate::engine::widening`]); no breaker opens for it.
    FailedOperations,
}

impl TripReason {
    /// The name in events and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sustained429 => "sustained_429",
            Self::SoftPercentage => "soft_percentage",
            Self::Health => "health",
            Self::Manual => "manual",
            Self::FailedOperations => "failed_operations",
        }
    }
}

/// One state change or decision worth telling.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A breaker opened: nothing leaves this scope until `until`.
    BreakerOpened {
        /// Which scope.
        scope: Scope,
        /// Why.
        reason: TripReason,
        /// How long from now.
        cooldown: Duration,
        /// Until when.
        until: Timestamp,
        /// Ceilings learned so far.
        trips: u32,
        /// Operations that share this wait.
        waiting: u32,
    },
    /// A running cooldown was extended.
    BreakerExtended {
        /// Which scope.
        scope: Scope,
        /// Why.
        reason: TripReason,
        /// How long from now.
        cooldown: Duration,
        /// The new end.
        until: Timestamp,
        /// Ceilings learned so far.
        trips: u32,
        /// Operations that share this wait.
        waiting: u32,
    },
    /// The cooldown ended: one probe may go.
    BreakerHalfOpened {
        /// Which scope.
        scope: Scope,
        /// Why it was open.
        reason: TripReason,
        /// Ceilings learned so far.
        trips: u32,
        /// Operations that wait for the probe.
        waiting: u32,
    },
    /// Back to normal.
    BreakerClosed {
        /// Which scope.
        scope: Scope,
        /// Why it was open.
        reason: TripReason,
        /// Ceilings learned so far.
        trips: u32,
    },
    /// A reservation was denied.
    ReservationDenied {
        /// At which scope.
        scope: Scope,
        /// Which wall.
        wall: Wall,
        /// When it frees.
        frees_at: Timestamp,
        /// Whose.
        lane: Lane,
        /// How much was asked.
        cost: Cost,
    },
    /// An operation waits.
    OperationDeferred {
        /// Which.
        key: OperationKey,
        /// Its lane.
        lane: Lane,
        /// What binds it.
        constraint: Constraint,
        /// Until when.
        until: Timestamp,
    },
    /// An operation was set aside for a person.
    OperationQuarantined {
        /// Which.
        key: OperationKey,
        /// Its lane.
        lane: Lane,
        /// Why.
        cause: QuarantineCause,
    },
    /// An operation ended without being accepted: its attempts or its time are used up.
    OperationExhausted {
        /// Which.
        key: OperationKey,
        /// Its lane.
        lane: Lane,
        /// What is used up.
        cause: ExhaustCause,
        /// Attempts that counted.
        attempts: u32,
        /// Whether one of them may have been accepted.
        maybe_sent: bool,
    },
    /// A person let it go on.
    OperationReleased {
        /// Which.
        key: OperationKey,
        /// Its lane.
        lane: Lane,
    },
    /// Background reached its share while foreground wants the rest.
    BackgroundCapped {
        /// At which scope.
        scope: Scope,
        /// The share.
        share: Ratio,
        /// Background operations waiting.
        depth: u32,
    },
    /// A lane's queue is full.
    QueueFull {
        /// At which scope.
        scope: Scope,
        /// Which lane.
        lane: Lane,
        /// Its bound.
        depth: u32,
    },
    /// Resumptions after a cooldown were laid out.
    ResumePlanned {
        /// Which scope.
        scope: Scope,
        /// How many.
        count: u32,
        /// Over which span.
        spread: Duration,
        /// The first.
        first_at: Timestamp,
        /// The last.
        last_at: Timestamp,
    },
    /// The last of them went on.
    ResumeFinished {
        /// Which scope.
        scope: Scope,
        /// How many.
        count: u32,
        /// Over which span they went.
        spread: Duration,
        /// When the wave began.
        first_at: Timestamp,
        /// When the last of them went.
        last_at: Timestamp,
    },
    /// The provider refused the mailbox or the account itself: nothing leaves it until a person resumes it.
    MailboxSuspended {
        /// Which.
        scope: Scope,
        /// What has to change.
        of: Subject,
        /// HTTP status or SMTP code.
        status: Option<u16>,
    },
    /// An attempt ended.
    AttemptFinished {
        /// Whose.
        key: OperationKey,
        /// Its lane.
        lane: Lane,
        /// `accepted`, `throttled`, `transient`, `permanent`, `unknown`.
        outcome: &'static str,
        /// HTTP status or SMTP code.
        status: Option<u16>,
        /// The attempt's number, from 1.
        attempt: u32,
        /// From submit to the start of this attempt.
        waited: Duration,
    },
}
