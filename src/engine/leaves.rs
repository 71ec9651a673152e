//! What an ended attempt leaves charged, in few words: the release table as an outbox keeps it.
//!
//! The budget that settles an attempt and the one that is rebuilt from its row ask the same function, so that a restart
//! charges what was charged before it.

use serde::{Deserialize, Serialize};

use super::cost::{Cost, Unit};
use super::operation::Transition;
use super::scope::ScopeKind;
use super::verdict::{Sent, Subject, ThrottleKind, Verdict};

/// What an ended attempt leaves charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Leaves {
    /// All that it took: accepted, failed, lost, or nobody knows how it ended.
    #[default]
    All,
    /// All but recipients: the provider refused the email, mailbox or account for good.
    Refused,
    /// All at the scope that the provider throttled; requests alone at the others.
    Throttled(ScopeKind),
    /// Requests alone: there were too many at once.
    Crowded,
    /// Nothing: no byte left the machine.
    Nothing,
}

impl Leaves {
    const WORDS: [(Self, &'static str); 7] = [
        (Self::All, "all"),
        (Self::Refused, "refused"),
        (Self::Throttled(ScopeKind::Mailbox), "mailbox"),
        (Self::Throttled(ScopeKind::Tenant), "tenant"),
        (Self::Throttled(ScopeKind::Application), "application"),
        (Self::Crowded, "concurrency"),
        (Self::Nothing, "nothing"),
    ];

    /// By the transport's word.
    #[must_use]
    pub fn of(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Accepted | Verdict::Unknown | Verdict::Transient { sent: Sent::Maybe, .. } => Self::All,
            Verdict::Throttled(throttle) if throttle.kind == ThrottleKind::Concurrency => Self::Crowded,
            Verdict::Throttled(throttle) => Self::Throttled(throttle.scope.unwrap_or(ScopeKind::Mailbox)),
            Verdict::Permanent { of: Subject::Message | Subject::Mailbox | Subject::Account } => Self::Refused,
            Verdict::Permanent { of: Subject::Credentials } | Verdict::Transient { sent: Sent::No, .. } => {
                Self::Nothing
            }
        }
    }

    /// By what was recorded of it, where that is all that is known. Of a throttle it does not tell whose.
    #[must_use]
    pub const fn after(transition: Transition) -> Self {
        match transition {
            Transition::Void => Self::Nothing,
            Transition::Reject | Transition::Suspend => Self::Refused,
            Transition::Enqueue
            | Transition::Claim
            | Transition::Accept
            | Transition::Throttle
            | Transition::Retry
            | Transition::Lose
            | Transition::Find
            | Transition::Repeat
            | Transition::GiveUp
            | Transition::Poison
            | Transition::Exhaust
            | Transition::Expire
            | Transition::Cancel
            | Transition::Release
            | Transition::Discard
            | Transition::Quarantine => Self::All,
        }
    }

    /// Whether a limit in `unit` of a scope of kind `at` goes on counting it.
    #[must_use]
    pub fn counts(self, at: ScopeKind, unit: Unit) -> bool {
        match unit {
            Unit::Requests | Unit::QuotaUnits => self != Self::Nothing,
            Unit::Recipients | Unit::ExternalRecipients => match self {
                Self::All => true,
                Self::Throttled(scope) => scope == at,
                Self::Refused | Self::Crowded | Self::Nothing => false,
            },
            Unit::Bytes => match self {
                Self::All | Self::Refused => true,
                Self::Throttled(scope) => scope == at,
                Self::Crowded | Self::Nothing => false,
            },
        }
    }

    /// What of a cost a scope of kind `at` goes on counting.
    #[must_use]
    pub fn kept(self, cost: Cost, at: ScopeKind) -> Cost {
        let (calls, people, bytes) =
            (self.counts(at, Unit::Requests), self.counts(at, Unit::Recipients), self.counts(at, Unit::Bytes));
        let part = |counts: bool, units: u32| if counts { units } else { 0 };
        Cost {
            requests: part(calls, cost.requests),
            recipients: part(people, cost.recipients),
            external_recipients: part(people, cost.external_recipients),
            quota_units: part(calls, cost.quota_units),
            bytes: if bytes { cost.bytes } else { 0 },
        }
    }

    /// Its word in an outbox.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(leaves, _)| *leaves == self).map_or("all", |(_, word)| word)
    }

    /// From its word. One that only a newer program knows is everything: that counts longer, never shorter.
    #[must_use]
    pub fn from_word(word: &str) -> Self {
        Self::WORDS.iter().find(|(_, known)| *known == word).map_or(Self::All, |(leaves, _)| *leaves)
    }
}
