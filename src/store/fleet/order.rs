//! What members tell a mailbox's owner to do, and what it answers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::engine::operation::{OrderWords, Resolution};
use crate::engine::{OperationKey, OperationState, Timestamp};

/// Names an order: drawn at random by whoever gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OrderId(pub u128);

/// An order on its way to a mailbox's owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Its name. The same order given again has the same one.
    pub id: OrderId,
    /// Where it is to be obeyed.
    pub mailbox: Arc<str>,
    /// Nobody waits for the answer after this: it need not be kept any longer.
    pub until: Timestamp,
    /// What is to be done.
    pub body: OrderBody,
}

/// What an order says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OrderBody {
    /// A person's word on one operation.
    Person {
        /// Its id.
        id: Arc<str>,
        /// Its key.
        key: OperationKey,
        /// The word.
        word: PersonWord,
        /// Why, and by whom.
        words: Arc<OrderWords>,
    },
    /// Holds the mailbox, or one operation of it.
    Hold {
        /// The operation; `None`: the mailbox.
        operation: Option<OperationKey>,
        /// When it ends by itself.
        until: Timestamp,
    },
    /// Lifts such a hold.
    Resume {
        /// The operation; `None`: the mailbox.
        operation: Option<OperationKey>,
    },
    /// Opens the mailbox's breaker.
    Trip {
        /// Until when.
        until: Timestamp,
    },
    /// Closes the mailbox's breaker.
    Close,
    /// An operation was stored while the mailbox was on its way from one owner to the next: take it up.
    TakeUp {
        /// Its id.
        id: Arc<str>,
    },
    /// Tells how an attempt ended that a former owner had under way when it lost the mailbox.
    Landed {
        /// Of which operation.
        key: OperationKey,
        /// Its number.
        attempt: u32,
        /// What became of it.
        landing: Landing,
    },
}

/// What a person orders about one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonWord {
    /// Never send it.
    Cancel,
    /// Set it aside.
    Quarantine,
    /// Let a quarantined one go on.
    Release,
    /// Settle an unknown.
    Resolve(Resolution),
}

/// How an attempt ended whose mailbox had moved on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Landing {
    /// The provider took it.
    Accepted,
    /// Certainly not accepted: refused, throttled, or no byte left the machine.
    Absent,
}

/// What an order did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Obeyed {
    /// What was ordered; the operation, if it was about one, is in this state now.
    Done(Option<OperationState>),
    /// Remembered, and done when the live attempt has ended.
    Requested(OperationState),
    /// The operation had come to an end.
    TooLate(OperationState),
    /// It does not fit the operation's state.
    NotInState(OperationState),
    /// The owner cannot obey now; ask again.
    NotNow,
}
