//! What goes into a mailbox's engine and what comes out.

use std::sync::Arc;
use std::time::Duration;

use super::{ClaimFailure, Hold, HoldTarget, Record, RestoredOperation};
use crate::engine::breaker::BreakerMemory;
use crate::engine::constraint::Constraint;
use crate::engine::cost::Cost;
use crate::engine::event::{Event, TripReason};
use crate::engine::lane::Lane;
use crate::engine::operation::{Operation, OperationKey, Resolution};
use crate::engine::policy::MailboxPolicy;
use crate::engine::scope::Scope;
use crate::engine::tenure::Tenure;
use crate::engine::time::Timestamp;
use crate::engine::verdict::{Answer, Subject, ThrottleKind};

/// One thing that happened. Handed to the engine with the instant at which the shell saw it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Input {
    /// A durable operation enters its lane, or a permit is asked for.
    Enqueue(Operation),
    /// The shared scopes granted what [`Effect::Reserve`] asked for, at once or later.
    Granted {
        /// For which operation.
        key: OperationKey,
    },
    /// The shared scopes made it wait; a [`Input::Granted`] follows when they have room.
    Waiting {
        /// Which operation.
        key: OperationKey,
        /// Not before, by what they know now.
        until: Timestamp,
        /// What binds it there.
        constraint: Constraint,
    },
    /// The shared scopes can never grant it: it costs more than a limit there can hold.
    Denied {
        /// Which operation.
        key: OperationKey,
    },
    /// Whether to ask the shared scopes before each send: they have limits, or trouble.
    AskShared(AskShared),
    /// The attempt row, or the permit's charge, of [`Effect::Claim`] is durable.
    Claimed {
        /// Whose.
        key: OperationKey,
    },
    /// It is not, and nothing was sent.
    ClaimFailed {
        /// Whose.
        key: OperationKey,
        /// Why.
        failure: ClaimFailure,
    },
    /// An attempt ended, or a permit was settled.
    Finished {
        /// Whose.
        key: OperationKey,
        /// How, by the transport's word.
        answer: Answer,
    },
    /// An attempt, or a permit, ended on our side before anything left the machine: out of time, no longer owned, given
    /// back. Everything that it was charged comes back, and it says nothing of any scope. A connection that could not be
    /// made is the provider's affair, and an [`Input::Finished`].
    Unsent {
        /// Whose.
        key: OperationKey,
    },
    /// A permit was dropped unsettled. It may have been used, so its charge stays; nobody is judged by it.
    Abandoned {
        /// Whose.
        key: OperationKey,
    },
    /// What became of an unknown: found accepted, or certainly absent.
    Resolved {
        /// Whose.
        key: OperationKey,
        /// Whether the provider has it.
        accepted: bool,
    },
    /// An attempt on this operation crashed its worker; what was sent is not known.
    Crashed {
        /// Whose.
        key: OperationKey,
        /// How often this operation has done so, this time included.
        crashes: u32,
    },
    /// Stop this operation; one whose attempt is live stops when that has ended.
    Cancel {
        /// Which.
        key: OperationKey,
    },
    /// Set this operation aside for a person; one whose attempt is live when that has ended.
    Quarantine {
        /// Which.
        key: OperationKey,
    },
    /// A person says what became of an unknown.
    Ruled {
        /// Of which.
        key: OperationKey,
        /// What.
        resolution: Resolution,
    },
    /// A person lets a quarantined operation go on, with the same key; it may be attempted once at least.
    Release(Box<RestoredOperation>),
    /// A person has a quarantined operation never be sent.
    Discard(Box<RestoredOperation>),
    /// An operator stops something.
    Hold(Hold),
    /// An operator lifts a hold.
    Resume(HoldTarget),
    /// A person lets everything go on: a mailbox that the provider suspended, too. Its own holds stay.
    Unsuspend,
    /// A shared scope was throttled, or fails: a hold that it concerns lets nothing pass any more.
    Troubled {
        /// Which scope.
        scope: Scope,
        /// Which of the two.
        reason: TripReason,
    },
    /// An operator opens the mailbox's breaker.
    Trip {
        /// Until when.
        until: Timestamp,
    },
    /// An operator closes it.
    CloseBreaker,
    /// What this process may do now that several share the mailbox.
    Own(Tenure),
    /// Another process has brought this operation to its end: its row says so. Nothing is recorded, and no outcome told.
    Forget {
        /// Which.
        key: OperationKey,
    },
    /// New limits and numbers. Entries stay: lowering counts from now, raising grants no free window.
    Reconfigure(Arc<MailboxPolicy>),
    /// A deadline that [`Mailbox::poll_deadline`](super::Mailbox::poll_deadline) named has come.
    Wake,
}

impl Input {
    /// The one operation that it is about.
    #[must_use]
    pub fn key(&self) -> Option<OperationKey> {
        Some(match self {
            Self::Enqueue(operation) => operation.key,
            Self::Release(restored) | Self::Discard(restored) => restored.operation.key,
            Self::Granted { key }
            | Self::Waiting { key, .. }
            | Self::Denied { key }
            | Self::Claimed { key }
            | Self::ClaimFailed { key, .. }
            | Self::Finished { key, .. }
            | Self::Unsent { key }
            | Self::Abandoned { key }
            | Self::Resolved { key, .. }
            | Self::Crashed { key, .. }
            | Self::Cancel { key }
            | Self::Quarantine { key }
            | Self::Forget { key }
            | Self::Ruled { key, .. } => *key,
            Self::AskShared(_)
            | Self::Hold(_)
            | Self::Resume(_)
            | Self::Unsuspend
            | Self::Troubled { .. }
            | Self::Trip { .. }
            | Self::CloseBreaker
            | Self::Own(_)
            | Self::Reconfigure(_)
            | Self::Wake => return None,
        })
    }
}

/// Whether a send needs the shared scopes' word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AskShared {
    /// Ask before each send.
    #[default]
    Always,
    /// No limit and no trouble there: tell them only of throttles that name them.
    OnTrouble,
}

/// One thing for the shell to do. The order matters: perform them as they come.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Effect {
    /// Ask the shared scopes; the answer is [`Input::Granted`], [`Input::Waiting`] or [`Input::Denied`].
    Reserve {
        /// For which operation.
        key: OperationKey,
        /// Its lane.
        lane: Lane,
        /// Its tenant.
        tenant: Option<Arc<str>>,
        /// What it takes.
        cost: Cost,
    },
    /// Give back a reservation, granted or still waiting, that nothing was sent on.
    Return {
        /// Whose.
        key: OperationKey,
        /// Its tenant.
        tenant: Option<Arc<str>>,
    },
    /// Tell the shared scopes how an attempt on their reservation ended.
    Settle {
        /// Whose.
        key: OperationKey,
        /// Its tenant.
        tenant: Option<Arc<str>>,
        /// When the attempt started.
        sent_at: Timestamp,
        /// How it ended.
        answer: Answer,
    },
    /// Write the attempt row, or the charge of a permit, then answer [`Input::Claimed`] or [`Input::ClaimFailed`].
    Claim {
        /// Whose.
        key: OperationKey,
        /// The attempt's number, from 1.
        attempt: u32,
        /// What it takes.
        cost: Cost,
    },
    /// Send it, once; answer [`Input::Finished`]. Nothing may leave after `deadline`.
    Send {
        /// Which.
        key: OperationKey,
        /// The attempt's number, from 1.
        attempt: u32,
        /// When the attempt is to be given up.
        deadline: Timestamp,
    },
    /// Hand the permit over; answer [`Input::Finished`] when it is settled.
    Grant {
        /// Which.
        key: OperationKey,
    },
    /// Ask the transport what became of an unknown; answer [`Input::Resolved`] if it knows.
    Reconcile {
        /// Which.
        key: OperationKey,
    },
    /// Record a transition durably. Nothing waits for it. Of a permit only what became of its charge: `Void` when that
    /// came back, `Lose` when it is not known to have ended (its instant is
    /// the latest at which it can arrive), `Accept` when it ended.
    Record(Record),
    /// Keep durably what the mailbox's breaker remembers, in place of what was kept; `None`: nothing any more. It ends at
    /// [`BreakerMemory::ends_at`]. Nothing waits for it.
    Remember(Option<Box<BreakerMemory>>),
    /// So many of those that a hold lets pass wait here.
    Passing {
        /// Which hold.
        target: HoldTarget,
        /// The last of those that it lets pass.
        through: OperationKey,
        /// How many wait, at most; 0: none does.
        left: u64,
    },
    /// One of those that a hold lets pass ended badly here, or nobody knows how.
    Failed {
        /// Which hold.
        target: HoldTarget,
        /// The last of those that it lets pass.
        through: OperationKey,
        /// Which of them.
        key: OperationKey,
    },
    /// A hold lets nothing pass any more here: a scope that it concerns was throttled, or fails.
    Troubled {
        /// Which hold.
        target: HoldTarget,
        /// The last of those that it let pass.
        through: OperationKey,
        /// Which scope.
        scope: Scope,
        /// Which of the two.
        reason: TripReason,
    },
    /// An operation reached a state its ticket answers with.
    Outcome {
        /// Which.
        key: OperationKey,
        /// How it ended, or that nobody knows.
        outcome: Outcome,
        /// Its deadline: whoever waits is told then, written or not.
        tell_by: Timestamp,
    },
    /// Tell the world.
    Event(Event),
}

/// What a ticket answers with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The provider took it.
    Accepted {
        /// The provider's id, where it gave one.
        provider_id: Option<String>,
        /// Attempts made, 429s included.
        attempts: u32,
    },
    /// The provider refused it for good.
    Rejected {
        /// What has to change.
        of: Subject,
        /// HTTP status or SMTP code.
        status: Option<u16>,
    },
    /// Attempts or time used up.
    Exhausted {
        /// Attempts that counted.
        attempts: u32,
        /// The last throttle's kind, if throttling used up the time.
        throttled: Option<ThrottleKind>,
        /// An attempt may have been accepted without anybody knowing: to submit it anew can send it twice.
        maybe_sent: bool,
    },
    /// It may have been accepted, and will not be repeated blindly.
    Unknown,
    /// A person, or whoever submitted it, did not want it any more.
    Cancelled {
        /// An attempt may have been accepted without anybody knowing: it was under way, or unknown, when the cancellation
        /// was asked for. False: it was certainly not sent.
        maybe_sent: bool,
    },
    /// Set aside for a person.
    Quarantined,
}

/// Why an operation was not taken in. Nothing was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Its cost is above what a limit can ever hold.
    CostAboveCapacity {
        /// The limit, as a wall.
        constraint: Constraint,
        /// What it costs there.
        cost: u64,
        /// The most that fits.
        capacity: u64,
    },
    /// Its deadline is before its earliest instant.
    DeadlineTooEarly {
        /// Its earliest instant.
        earliest: Timestamp,
        /// What binds it.
        constraint: Constraint,
    },
    /// The known wait is longer than the caller's `max_wait`.
    WaitTooLong {
        /// Try again after this.
        retry_after: Duration,
        /// What binds it.
        constraint: Constraint,
    },
    /// The lane is full.
    QueueFull {
        /// Try again after this.
        retry_after: Duration,
        /// The bound that was met.
        depth_max: u32,
    },
}
