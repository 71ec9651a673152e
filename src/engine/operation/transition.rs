//! The listed transitions of an operation, and only those.
//!
//! A state is never assigned: it is what [`Transition::apply`] answers. Replay from the store runs the same function
//! as the engine, so a row that tells an impossible story is an error with a name and not a state.
//!
//! | number | transition | from | to | attempt number | budget |
//! |---|---|---|---|---|---|
//! | 1 | (submission; there is no state before it) | – | admitted | | |
//! | 2 | [`Enqueue`](Transition::Enqueue) | admitted | queued | | |
//! | 3 | [`Claim`](Transition::Claim) | queued, deferred | attempting | | reserve |
//! | 4 | [`Accept`](Transition::Accept) | attempting | accepted | | keep |
//! | 5 | [`Throttle`](Transition::Throttle) | attempting | deferred | | keep |
//! | 6 | [`Retry`](Transition::Retry) | attempting | deferred | moves | keep |
//! | 7 | [`Void`](Transition::Void) | attempting | queued | | release |
//! | 8 | [`Lose`](Transition::Lose) | attempting | unknown | | keep |
//! | 9 | [`Find`](Transition::Find) | unknown | accepted | | keep |
//! | 10 | [`Repeat`](Transition::Repeat) | unknown | deferred | moves | keep |
//! | 11 | [`GiveUp`](Transition::GiveUp) | unknown | quarantined | | keep |
//! | 12 | [`Reject`](Transition::Reject), [`Poison`](Transition::Poison) | attempting | rejected, quarantined | | keep requests; after poison all |
//! | 13 | [`Suspend`](Transition::Suspend) | attempting | deferred | | keep |
//! | 14 | [`Exhaust`](Transition::Exhaust) | queued, deferred | exhausted | | |
//! | 15 | [`Expire`](Transition::Expire) | unknown | exhausted | | |
//! | 16 | [`Cancel`](Transition::Cancel) | admitted, queued, deferred | cancelled | | |
//! | 17 | (cancelling an attempting or unknown operation is a wish, not a transition: 16 follows when it is neither) | | | | |
//! | 18 | [`Release`](Transition::Release), [`Discard`](Transition::Discard) | quarantined | queued, cancelled | | |
//! | 19 | [`Quarantine`](Transition::Quarantine) | admitted, queued, deferred | quarantined | | |
//!
//! Not promised: that a listed transition is *due*. Guards (epoch, deadline, dedupe window) are the caller's.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::state::OperationState;

/// One listed transition, by its number in ARCHITECTURE.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Transition {
    /// 2: admitted → queued.
    Enqueue,
    /// 3: queued or deferred → attempting. The attempt row is written before the first byte leaves.
    Claim,
    /// 4: attempting → accepted.
    Accept,
    /// 5: attempting → deferred by a throttle; the attempt number does not move.
    Throttle,
    /// 6: attempting → deferred by a transient failure; the attempt number moves.
    Retry,
    /// 7: attempting → queued: no byte left the machine.
    Void,
    /// 8: attempting → unknown.
    Lose,
    /// 9: unknown → accepted.
    Find,
    /// 10: unknown → deferred: known absent, or the provider dedupes.
    Repeat,
    /// 11: unknown → quarantined.
    GiveUp,
    /// 12: attempting → rejected.
    Reject,
    /// 12: attempting → quarantined: it crashed its worker too often.
    Poison,
    /// 13: attempting → deferred, and the mailbox waits for a person.
    Suspend,
    /// 14: queued or deferred → exhausted.
    Exhaust,
    /// 15: unknown → exhausted: it may have been sent, and may not be sent twice.
    Expire,
    /// 16: admitted, queued or deferred → cancelled.
    Cancel,
    /// 18: quarantined → queued.
    Release,
    /// 18: quarantined → cancelled.
    Discard,
    /// 19: admitted, queued or deferred → quarantined: a person ordered it, it crashed its worker too often, or its email is
    /// damaged in the store.
    Quarantine,
}

/// What a transition does to the reservation of the operation's attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Budget {
    /// There is none, or it stays as it is.
    None,
    /// Takes it.
    Reserve,
    /// Keeps it charged.
    Keep,
    /// Keeps the requests charged; recipients come back.
    KeepRequests,
    /// Gives it back: no byte left the machine.
    Release,
}

/// A transition that is not listed from this state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("transition {number} ({transition}) is not listed from state {from}; it is listed from: {allowed}",
    number = transition.number(), allowed = Names(transition.from_states()))]
pub struct IllegalTransition {
    /// What was tried.
    pub transition: Transition,
    /// The state it was tried in, which stays.
    pub from: OperationState,
}

impl Transition {
    /// Every transition, by number.
    pub const ALL: [Self; 19] = [
        Self::Enqueue,
        Self::Claim,
        Self::Accept,
        Self::Throttle,
        Self::Retry,
        Self::Void,
        Self::Lose,
        Self::Find,
        Self::Repeat,
        Self::GiveUp,
        Self::Reject,
        Self::Poison,
        Self::Suspend,
        Self::Exhaust,
        Self::Expire,
        Self::Cancel,
        Self::Release,
        Self::Discard,
        Self::Quarantine,
    ];

    /// The state after this transition.
    ///
    /// # Errors
    /// [`IllegalTransition`], when it is not listed from `from`; the operation stays where it is.
    pub fn apply(self, from: OperationState) -> Result<OperationState, IllegalTransition> {
        if self.from_states().contains(&from) {
            Ok(self.to())
        } else {
            Err(IllegalTransition { transition: self, from })
        }
    }

    /// The states it is listed from.
    #[must_use]
    pub const fn from_states(self) -> &'static [OperationState] {
        use OperationState::{Admitted, Attempting, Deferred, Quarantined, Queued, Unknown};
        match self {
            Self::Enqueue => &[Admitted],
            Self::Claim | Self::Exhaust => &[Queued, Deferred],
            Self::Accept | Self::Throttle | Self::Retry | Self::Void | Self::Lose => &[Attempting],
            Self::Reject | Self::Poison | Self::Suspend => &[Attempting],
            Self::Find | Self::Repeat | Self::GiveUp | Self::Expire => &[Unknown],
            Self::Cancel | Self::Quarantine => &[Admitted, Queued, Deferred],
            Self::Release | Self::Discard => &[Quarantined],
        }
    }

    /// The state it leads to.
    #[must_use]
    pub const fn to(self) -> OperationState {
        match self {
            Self::Enqueue | Self::Void | Self::Release => OperationState::Queued,
            Self::Claim => OperationState::Attempting,
            Self::Accept | Self::Find => OperationState::Accepted,
            Self::Throttle | Self::Retry | Self::Repeat | Self::Suspend => OperationState::Deferred,
            Self::Lose => OperationState::Unknown,
            Self::GiveUp | Self::Poison | Self::Quarantine => OperationState::Quarantined,
            Self::Reject => OperationState::Rejected,
            Self::Exhaust | Self::Expire => OperationState::Exhausted,
            Self::Cancel | Self::Discard => OperationState::Cancelled,
        }
    }

    /// Its number in the table above and in ARCHITECTURE.md.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Enqueue => 2,
            Self::Claim => 3,
            Self::Accept => 4,
            Self::Throttle => 5,
            Self::Retry => 6,
            Self::Void => 7,
            Self::Lose => 8,
            Self::Find => 9,
            Self::Repeat => 10,
            Self::GiveUp => 11,
            Self::Reject | Self::Poison => 12,
            Self::Suspend => 13,
            Self::Exhaust => 14,
            Self::Expire => 15,
            Self::Cancel => 16,
            Self::Release | Self::Discard => 18,
            Self::Quarantine => 19,
        }
    }

    /// The attempts that count after this transition. A wait and a throttle use none.
    #[must_use]
    pub const fn attempts_after(self, attempts: u32) -> u32 {
        match self {
            Self::Retry | Self::Repeat => attempts.saturating_add(1),
            _ => attempts,
        }
    }

    /// What it does to the reservation. How much of it stays, and until when, is the settlement's word.
    #[must_use]
    pub const fn budget(self) -> Budget {
        match self {
            Self::Claim => Budget::Reserve,
            Self::Void => Budget::Release,
            Self::Reject => Budget::KeepRequests,
            // How far an attempt came on which its worker crashed, nobody knows.
            Self::Accept | Self::Throttle | Self::Retry | Self::Lose | Self::Suspend | Self::Poison => Budget::Keep,
            Self::Find | Self::Repeat | Self::GiveUp => Budget::Keep,
            Self::Enqueue | Self::Exhaust | Self::Expire | Self::Cancel => Budget::None,
            Self::Release | Self::Discard | Self::Quarantine => Budget::None,
        }
    }

    /// Whether the attempt that it ends is known to have ended. Where it is not, its charge counts as long as the
    /// request could still arrive.
    #[must_use]
    pub const fn ends_attempt(self) -> bool {
        !matches!(self, Self::Lose | Self::Poison)
    }

    /// The name in answers, events and the store.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::Claim => "claim",
            Self::Accept => "accept",
            Self::Throttle => "throttle",
            Self::Retry => "retry",
            Self::Void => "void",
            Self::Lose => "lose",
            Self::Find => "find",
            Self::Repeat => "repeat",
            Self::GiveUp => "give-up",
            Self::Reject => "reject",
            Self::Poison => "poison",
            Self::Suspend => "suspend",
            Self::Exhaust => "exhaust",
            Self::Expire => "expire",
            Self::Cancel => "cancel",
            Self::Release => "release",
            Self::Discard => "discard",
            Self::Quarantine => "quarantine",
        }
    }
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// States as a list for people.
struct Names(&'static [OperationState]);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, state) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            f.write_str(state.as_str())?;
        }
        Ok(())
    }
}
