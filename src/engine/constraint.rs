//! Why something waits, and until when.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::cost::Unit;
use super::scope::ScopeKind;
use super::time::Timestamp;

/// One thing that a send waits for. An answer lists every one, and the latest of them binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constraint {
    /// What it is.
    pub wall: Wall,
    /// At which scope.
    pub scope: ScopeKind,
    /// When it lets the send pass, by what is known now. [`Timestamp::NEVER`]: not by itself.
    pub ready_at: Timestamp,
    /// How far that instant can be relied on.
    #[serde(default)]
    pub certainty: Certainty,
    /// Whether it is the one that binds.
    pub binding: bool,
}

/// How far the instant of a constraint can be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// Not before it, by what is known now.
    #[default]
    Exact,
    /// At the latest then: an attempt in flight has to end first, which no timer can tell.
    AtMost,
}

impl Constraint {
    /// A constraint of an instant that can be relied on, and not marked as the binding one.
    #[must_use]
    pub const fn exact(wall: Wall, scope: ScopeKind, ready_at: Timestamp) -> Self {
        Self { wall, scope, ready_at, certainty: Certainty::Exact, binding: false }
    }

    /// The same, marked as the one that binds.
    #[must_use]
    pub const fn as_binding(self) -> Self {
        Self { binding: true, ..self }
    }

    /// Marks the one of `found` that binds, and no other: the latest of those whose instant can be relied on; where
    /// there is none, the latest.
    pub fn mark_binding(found: &mut [Self]) {
        let rank = |constraint: &Self| (constraint.certainty == Certainty::Exact, constraint.ready_at);
        let highest = found.iter().map(rank).max();
        let at = found.iter().position(|constraint| Some(rank(constraint)) == highest);
        for (index, constraint) in found.iter_mut().enumerate() {
            constraint.binding = Some(index) == at;
        }
    }
}

/// The short label of a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Wall {
    /// A window of this unit and this many seconds is full.
    Window {
        /// What the window counts.
        unit: Unit,
        /// Its length in seconds.
        seconds: u32,
    },
    /// The rest of that window is kept back for foreground.
    Reserve {
        /// What the window counts.
        unit: Unit,
        /// Its length in seconds.
        seconds: u32,
    },
    /// Background is paced within that window.
    Pace {
        /// What the window counts.
        unit: Unit,
        /// Its length in seconds.
        seconds: u32,
    },
    /// Background has its share of that window while foreground wants it.
    Share {
        /// What the window counts.
        unit: Unit,
        /// Its length in seconds.
        seconds: u32,
    },
    /// This process may use a part of that window only: it is cut off from the store, or another one may be at work.
    Part {
        /// What the window counts.
        unit: Unit,
        /// Its length in seconds.
        seconds: u32,
    },
    /// This process does not own the mailbox now, or may not send yet.
    Ownership,
    /// As many attempts are in flight as are allowed.
    InFlight,
    /// The breaker is open.
    Cooldown,
    /// The breaker is half-open and its probe is in flight.
    Probe,
    /// The breaker's ramp.
    Ramp,
    /// The health breaker is open: the provider fails, it does not throttle.
    Health,
    /// An operator's hold.
    Hold,
    /// An operator's hold that is being lifted in part: it is not among the first. At the latest it ends with the hold.
    Widening,
    /// The operation's own earliest instant.
    NotBefore,
    /// The operation's retry backoff.
    Backoff,
    /// Operations ahead of it in its lane, or foreground ahead of background.
    Queue,
    /// The outcome of an earlier step (a durable write, a shared reservation) is awaited.
    Step,
}

impl Wall {
    /// What the window counts, for a wall that is of one.
    #[must_use]
    pub const fn unit(self) -> Option<Unit> {
        match self {
            Self::Window { unit, .. }
            | Self::Reserve { unit, .. }
            | Self::Pace { unit, .. }
            | Self::Share { unit, .. }
            | Self::Part { unit, .. } => Some(unit),
            Self::Ownership
            | Self::InFlight
            | Self::Cooldown
            | Self::Probe
            | Self::Ramp
            | Self::Health
            | Self::Hold
            | Self::Widening
            | Self::NotBefore
            | Self::Backoff
            | Self::Queue
            | Self::Step => None,
        }
    }
}

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, window) = match self {
            Self::Window { unit, seconds } => ("window", Some((unit, seconds))),
            Self::Reserve { unit, seconds } => ("reserve", Some((unit, seconds))),
            Self::Pace { unit, seconds } => ("pace", Some((unit, seconds))),
            Self::Share { unit, seconds } => ("share", Some((unit, seconds))),
            Self::Part { unit, seconds } => ("part", Some((unit, seconds))),
            Self::Ownership => ("ownership", None),
            Self::InFlight => ("in-flight", None),
            Self::Cooldown => ("cooldown", None),
            Self::Probe => ("probe", None),
            Self::Ramp => ("ramp", None),
            Self::Health => ("health", None),
            Self::Hold => ("hold", None),
            Self::Widening => ("widening", None),
            Self::NotBefore => ("not-before", None),
            Self::Backoff => ("backoff", None),
            Self::Queue => ("queue", None),
            Self::Step => ("step", None),
        };
        f.write_str(name)?;
        match window {
            Some((unit, seconds)) => write!(f, "({unit}/{seconds}s)"),
            None => Ok(()),
        }
    }
}
