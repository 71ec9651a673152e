//! What a transport says about one attempt.
//!
//! The words follow the release table: a charge comes back only if it is certain that no byte left the machine
//! ([`Sent::No`]).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ratio::Ratio;
use super::scope::ScopeKind;

/// How one attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Verdict {
    /// The provider took it. Never *delivered*.
    Accepted,
    /// The provider refused it and will take it later: 429 and its relatives. Costs no attempt.
    Throttled(Throttle),
    /// It did not work for a reason that is not our rate, and is known not to have been accepted.
    Transient {
        /// Whether any byte left the machine.
        sent: Sent,
        /// The provider's hint, if it gave one.
        retry_after: Option<Duration>,
    },
    /// It will never work as it is.
    Permanent {
        /// What has to change.
        of: Subject,
    },
    /// It may have been accepted: no answer, or an answer that does not tell (504, reset after the first byte).
    Unknown,
}

impl Verdict {
    /// The name in events and facts.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Throttled(_) => "throttled",
            Self::Transient { .. } => "transient",
            Self::Permanent { .. } => "permanent",
            Self::Unknown => "unknown",
        }
    }
}

/// A refusal that a slower sender would not have met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttle {
    /// The provider's hint, parsed and clamped; `None` when it gave none that can be used.
    pub retry_after: Option<Duration>,
    /// The scope the provider named; `None` means the mailbox.
    pub scope: Option<ScopeKind>,
    /// What overflowed.
    pub kind: ThrottleKind,
}

/// What overflowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThrottleKind {
    /// Too many in a short window.
    Rate,
    /// A daily or longer quota.
    Quota,
    /// Too many at once; no reason to slow the rate.
    Concurrency,
}

/// Whether a failed attempt can have reached the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sent {
    /// No byte left the machine (DNS, connect refused, TLS, token fetch): the charge comes back.
    No,
    /// The request left, and the provider answered that it failed (5xx, 408): the charge stays, a retry costs an attempt.
    Maybe,
}

/// What a permanent failure is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// This email (400, 413, bad recipient).
    Message,
    /// The mailbox (suspended, full): its other operations wait for a person.
    Mailbox,
    /// The account or its credentials (401, 403).
    Account,
    /// The account's credentials, and no token was given for them: nothing left the machine, so the charge comes back.
    Credentials,
}

impl Subject {
    /// The name in events and facts.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Mailbox => "mailbox",
            Self::Account => "account",
            Self::Credentials => "credentials",
        }
    }
}

/// A verdict with what else the answer told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// How the attempt ended.
    pub verdict: Verdict,
    /// Share of the provider's limit in use, where it says so (1.0 and above: over it).
    pub usage: Option<Ratio>,
    /// HTTP status or SMTP reply code.
    pub status: Option<u16>,
    /// The provider's own id of the email or request, for support cases.
    pub provider_id: Option<String>,
}

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Self {
        Self { verdict, usage: None, status: None, provider_id: None }
    }
}
