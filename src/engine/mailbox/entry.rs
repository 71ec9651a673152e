//! One operation inside the mailbox, and where it stands.

use crate::engine::cost::Cost;
use crate::engine::invariants::operation;
use crate::engine::operation::{Operation, OperationState, Transition};
use crate::engine::time::Timestamp;
use crate::engine::verdict::ThrottleKind;

/// One operation the mailbox is responsible for.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) operation: Operation,
    pub(super) state: OperationState,
    pub(super) step: Step,
    /// Its place in the due table; [`Timestamp::NEVER`] when it has none.
    pub(super) due_at: Timestamp,
    /// Attempt rows written, 429s included.
    pub(super) rows: u32,
    /// Attempts in a row that never left the machine: the exponent of their backoff.
    pub(super) voids: u32,
    pub(super) cancel: CancelRequest,
    pub(super) throttled: Option<ThrottleKind>,
    /// HTTP status or SMTP code of the last attempt.
    pub(super) status: Option<u16>,
    /// When the first attempt that may have been accepted was sent; `None`: none may have been. From then on the
    /// provider remembers the operation, for as long as it does.
    pub(super) maybe_sent_at: Option<Timestamp>,
}

/// Whether somebody asked for the operation to be stopped while its attempt was live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CancelRequest {
    No,
    Requested,
}

/// Where an operation stands between two inputs. Finer than its durable state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Waits for its own instant: not-before or backoff. In the `due` table.
    Delayed,
    /// In its lane's queue.
    Queued,
    /// Stopped by an operator's hold on it, its tenant or its campaign.
    Held,
    /// Charged here; the shared scopes were asked.
    Reserving,
    /// Not charged here; the shared scopes grant it when they have room.
    Waiting,
    /// Charged everywhere; the attempt row is being written.
    Claiming { shared: Shared },
    /// The attempt is live, or the permit is out.
    Attempting { sent_at: Timestamp, shared: Shared },
    /// It may have been accepted. In the `due` table for its next look-up.
    Unknown {
        since: Timestamp,
        looks: u8,
        /// Times that it was found absent, of those that count.
        absent: u8,
        /// When the look-up that is not answered yet was asked for.
        asked_at: Option<Timestamp>,
    },
}

/// Whether the shared scopes hold a reservation for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shared {
    Reserved,
    NotAsked,
}

impl Entry {
    pub(super) fn new(operation: Operation) -> Self {
        let state = if operation.not_before > operation.submitted_at {
            OperationState::Admitted
        } else {
            OperationState::Queued
        };
        Self {
            operation,
            state,
            step: Step::Delayed,
            due_at: Timestamp::NEVER,
            rows: 0,
            voids: 0,
            cancel: CancelRequest::No,
            throttled: None,
            status: None,
            maybe_sent_at: None,
        }
    }

    pub(super) fn cost(&self) -> Cost {
        self.operation.cost
    }

    /// Moves the state along `transition`.
    pub(super) fn apply(&mut self, transition: Transition) {
        match transition.apply(self.state) {
            Ok(state) => {
                if cfg!(debug_assertions)
                    && let Err(violation) = operation::accepted_stays(self.operation.key, self.state, state)
                {
                    debug_assert!(false, "{violation}");
                }
                self.state = state;
                self.operation.attempts = transition.attempts_after(self.operation.attempts);
            }
            // A transition that is not listed (O1) is a bug of this engine; the state it left stays, so nothing is
            // lost.
            Err(illegal) => debug_assert!(false, "{illegal}"),
        }
    }

    /// O7 and O2, at every claim of a debug build.
    pub(super) fn assert_claim(&self, attempts_max: u32) {
        let bounded = operation::attempts_are_bounded(
            self.operation.key,
            self.operation.attempts.saturating_add(1),
            attempts_max,
        );
        if let Err(violation) = bounded {
            debug_assert!(false, "{violation}");
        }
        debug_assert!(!matches!(self.step, Step::Attempting { .. } | Step::Claiming { .. }), "O2: two live attempts");
    }
}
