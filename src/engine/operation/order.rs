//! What a person says about one operation. The words travel with the record of what they did; no rule reads them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::engine::time::Timestamp;

/// A person's verdict on an unknown operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resolution {
    /// The provider took it.
    Accepted,
    /// The provider certainly does not have it.
    Absent,
}

/// Why a person moved an operation, and who it was.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OrderWords {
    /// Why.
    pub reason: Arc<str>,
    /// Who, if they said.
    pub by: Option<Arc<str>>,
    /// The deadline that was given with it, in place of the one before.
    pub deadline: Option<Timestamp>,
}

/// What a person wants of an operation whose attempt is live or unknown: done when that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requested {
    /// That it is not sent again.
    Cancel,
    /// That it is set aside.
    Quarantine,
}

/// Why an operation ended without being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExhaustCause {
    /// Its attempts are used up.
    Attempts,
    /// Its deadline passed, or comes before another attempt could.
    Deadline,
    /// A limit was lowered below what it costs.
    Limit,
}

impl ExhaustCause {
    /// The name in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Attempts => "attempts",
            Self::Deadline => "deadline",
            Self::Limit => "limit",
        }
    }
}

/// Why an operation was set aside for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuarantineCause {
    /// It may have been sent, and nobody could tell in time.
    Unknown,
    /// It crashed its worker too often.
    Poison,
    /// A person ordered it.
    Operator,
    /// What is to be sent is damaged in the store.
    Damaged,
}

impl QuarantineCause {
    /// The name in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Poison => "poison",
            Self::Operator => "operator",
            Self::Damaged => "damaged",
        }
    }
}
