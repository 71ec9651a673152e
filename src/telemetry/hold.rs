//! What happens to operators' holds, as public values.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

use super::{catalogue, instant};
use crate::engine::{Scope, TripReason};

/// What a hold stops, as events name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldScope {
    /// `all`, `mailbox`, `tenant`, `campaign` or `operation`.
    pub kind: &'static str,
    /// Its id; `all` has none.
    pub id: Option<Arc<str>>,
}

impl fmt::Display for HeldScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.id {
            Some(id) => write!(f, "{}:{id}", self.kind),
            None => f.write_str(self.kind),
        }
    }
}

impl Serialize for HeldScope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What happened to a hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event")]
#[non_exhaustive]
pub enum HoldEvent {
    /// A hold has ended.
    #[serde(rename = "hold.scope.ended")]
    Ended {
        /// What was held.
        scope: HeldScope,
        /// `lifted`, `part` (lifted in part, which went well, and then by itself), `replaced` or `expired`.
        how: &'static str,
        /// Since when.
        #[serde(serialize_with = "instant::serialize_option")]
        since: Option<SystemTime>,
        /// Until when it was ordered.
        #[serde(serialize_with = "instant::serialize_option")]
        until: Option<SystemTime>,
    },
    /// The first part of what is held goes on, and is watched.
    #[serde(rename = "resume.part.started")]
    PartStarted {
        /// What is held.
        scope: HeldScope,
        /// How many go on.
        count: u64,
        /// For how long it is watched after the last of them.
        #[serde(rename = "watch_ms", serialize_with = "millis")]
        watch: Duration,
    },
    /// A throttle, a provider that fails, or too many of the part that ended badly: nothing more goes on, and a person has
    /// to decide.
    #[serde(rename = "resume.part.stopped")]
    PartStopped {
        /// What is held.
        scope: HeldScope,
        /// How many of the part may still wait.
        left: u64,
        /// Which scope was throttled, or fails; where too many ended badly, the mailbox of the last.
        #[serde(serialize_with = "display")]
        throttled: Scope,
        /// `sustained_429`, `soft_percentage`, `health` or `failed_operations`.
        #[serde(serialize_with = "reason_str")]
        reason: TripReason,
    },
    /// The part went on and the watch passed: the hold is lifted, and the rest goes on.
    #[serde(rename = "resume.part.finished")]
    PartFinished {
        /// What was held.
        scope: HeldScope,
        /// How many were let go first.
        count: u64,
    },
}

impl From<HoldEvent> for super::EventKind {
    fn from(event: HoldEvent) -> Self {
        Self::Hold(event)
    }
}

fn display<T: fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn reason_str<S: Serializer>(reason: &TripReason, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(reason.as_str())
}

fn millis<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(catalogue::millis(*span))
}
