//! Why a submission was not taken in. Whatever can be handed back is handed back.

use std::sync::Arc;
use std::time::Duration;

use super::Submission;
use crate::config::show_duration;
use crate::engine::Lane;
use crate::engine::callers::CallerRefusal;
use crate::engine::mailbox::Refusal;
use crate::store::StoreError;

/// What is wrong with a submission as it stands. Sending it again changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSubmission {
    /// An id is empty.
    #[error("{field} is empty; leave it out or give it at least one character")]
    Empty {
        /// Which.
        field: &'static str,
    },
    /// An id is too long.
    #[error("{field} is {bytes} bytes long; at most {bytes_max} are allowed")]
    TooLong {
        /// Which.
        field: &'static str,
        /// How long it is.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// An id holds a control character, such as a line break.
    #[error("{field} holds the control character U+{code:04X} at byte {at}; it has to be one line of text")]
    ControlCharacter {
        /// Which.
        field: &'static str,
        /// Where.
        at: usize,
        /// Its code point.
        code: u32,
    },
    /// The email has no recipient.
    #[error("email has no recipients; at least one is needed")]
    NoRecipients,
    /// The email has too many recipients.
    #[error("email has {recipients} recipients; at most {recipients_max} are allowed (submit.recipients_max)")]
    TooManyRecipients {
        /// How many it has.
        recipients: usize,
        /// The bound.
        recipients_max: u32,
    },
    /// The email is too large.
    #[error("email is {bytes} bytes large; at most {bytes_max} are allowed (submit.size_max)")]
    TooLarge {
        /// How large it is.
        bytes: u64,
        /// The bound.
        bytes_max: u64,
    },
    /// The deadline is not in the future.
    #[error("deadline is not in the future; it is counted from the moment of submission")]
    DeadlinePast,
    /// The deadline is too far away.
    #[error(
        "deadline is {} away; at most {} are allowed (submit.deadline_max); hand it over nearer to its time, or raise \
         the setting",
        show_duration(*.within), show_duration(*.within_max)
    )]
    DeadlineTooFar {
        /// How far it is.
        within: Duration,
        /// The bound.
        within_max: Duration,
    },
    /// The earliest instant is not before the deadline.
    #[error("not_before is not earlier than deadline; the send could never start")]
    NotBeforeDeadline,
    /// The cooldown of the admission key is too long.
    #[error(
        "admission_key has a cooldown of {cooldown:?}; at most {cooldown_max:?} are allowed \
         (submit.admission_cooldown_max); for once and never again give an operation_id"
    )]
    CooldownTooLong {
        /// How long it is.
        cooldown: Duration,
        /// The bound.
        cooldown_max: Duration,
    },
    /// A number is out of its range.
    #[error("{field} is {value}; it has to be from {min} to {max}")]
    NotInRange {
        /// Which.
        field: &'static str,
        /// What it is.
        value: u64,
        /// The smallest that is taken.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// A span of time is too short.
    #[error("{field} is {span:?}; at least {span_min:?} are needed")]
    TooShort {
        /// Which.
        field: &'static str,
        /// How long it is.
        span: Duration,
        /// The bound.
        span_min: Duration,
    },
    /// An order carries something that it has no use for.
    #[error("{field} means nothing to this order; leave it out")]
    Useless {
        /// What.
        field: &'static str,
    },
}

impl InvalidSubmission {
    /// The field to correct.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Empty { field }
            | Self::TooLong { field, .. }
            | Self::ControlCharacter { field, .. }
            | Self::NotInRange { field, .. }
            | Self::TooShort { field, .. }
            | Self::Useless { field } => field,
            Self::NoRecipients | Self::TooManyRecipients { .. } => "email.recipients",
            Self::TooLarge { .. } => "email.mime",
            Self::CooldownTooLong { .. } => "admission_key",
            Self::DeadlinePast | Self::DeadlineTooFar { .. } => "deadline",
            Self::NotBeforeDeadline => "not_before",
        }
    }
}

/// Why a submission was not taken in. Except for [`SubmitError::Interrupted`], the submission comes back with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// A field is wrong. Nothing was stored.
    #[error("the submission is not valid: {problem}")]
    Invalid {
        /// What is wrong.
        problem: InvalidSubmission,
        /// What was handed over.
        submission: Box<Submission>,
    },
    /// The mailbox is not configured, and the list is closed. Nothing was stored.
    #[error("mailbox {:?} is not configured, and unlisted mailboxes are refused; list it in the configuration", .submission.mailbox())]
    UnknownMailbox {
        /// What was handed over.
        submission: Box<Submission>,
    },
    /// The mailbox can never, or not in the time allowed, send it. Nothing was stored.
    #[error("mailbox {:?} refused it: {}", .submission.mailbox(), describe(.refusal))]
    Refused {
        /// Why.
        refusal: Refusal,
        /// What was handed over.
        submission: Box<Submission>,
    },
    /// The caller may not hand this over: its ceiling is reached, or too many callers are followed. Nothing was stored
    /// or charged.
    #[error("caller {:?} was refused: {}", .submission.caller_name(), describe_caller(.refusal))]
    Caller {
        /// Why.
        refusal: CallerRefusal,
        /// What was handed over.
        submission: Box<Submission>,
    },
    /// As many admission keys count in the mailbox as are allowed, and this is another one. Nothing was stored or charged.
    #[error(
        "mailbox {:?} counts {keys_max} admission keys already, the most allowed (submit.admission_keys_max); try again \
         in {retry_after:?}, ask for shorter cooldowns, or give an operation_id instead of an admission_key",
        .submission.mailbox()
    )]
    TooManyAdmissionKeys {
        /// The bound that was met.
        keys_max: usize,
        /// When the first of them ends.
        retry_after: Duration,
        /// What was handed over.
        submission: Box<Submission>,
    },
    /// More is waiting to be taken in than the lane's queue holds. Nothing was stored.
    #[error("the {lane} queue of mailbox {:?} holds {depth_max} submissions already; try again later", .submission.mailbox())]
    QueueFull {
        /// Which lane.
        lane: Lane,
        /// The bound that was met.
        depth_max: usize,
        /// Try again after this.
        retry_after: Duration,
        /// What was handed over.
        submission: Box<Submission>,
    },
    /// As many mailboxes are live as are allowed, and none is idle. Nothing was stored.
    #[error("{mailboxes_max} mailboxes are live, the most allowed, and none is idle; try again later")]
    TooManyMailboxes {
        /// The bound that was met.
        mailboxes_max: usize,
        /// Try again after this.
        retry_after: Duration,
        /// What was handed over.
        submission: Box<Submission>,
    },
    /// The id belongs to an operation with other content. Nothing was stored.
    #[error("operation id {id:?} belongs to an operation with other content; use a new id")]
    Conflict {
        /// The id.
        id: Arc<str>,
        /// What was handed over.
        submission: Box<Submission>,
    },
    /// The store did not take it. It may have been stored all the same: submit it with the same operation id.
    #[error("operation {id:?} was not stored")]
    Store {
        /// The id, to submit it with again.
        id: Arc<str>,
        /// What the store said.
        source: StoreError,
        /// What was handed over, now with its operation id.
        submission: Box<Submission>,
    },
    /// The mailbox's actor failed too often and waits for an operator. Nothing was stored.
    #[error("mailbox {:?} is held after repeated failures of its actor; resume it by hand", .submission.mailbox())]
    MailboxHeld {
        /// What was handed over.
        submission: Box<Submission>,
    },
    /// Another process owns the mailbox, and admission keys and `max_wait` are judged by the owner alone. Nothing was
    /// stored.
    #[error("another process owns mailbox {:?} and alone knows its admission keys and its waits; submit it there, or without admission_key and max_wait", .submission.mailbox())]
    Elsewhere {
        /// What was handed over.
        submission: Box<Submission>,
    },
    /// The scheduler is stopping or gone. Nothing was stored.
    #[error("the scheduler is shutting down and takes nothing in any more")]
    ShuttingDown {
        /// What was handed over.
        submission: Box<Submission>,
    },
    /// The scheduler went away before it answered. Whether the operation was stored is not known: submit it with the
    /// same operation id.
    #[error("the scheduler went away before it answered for operation {id:?}")]
    Interrupted {
        /// The id, to submit it with again.
        id: Arc<str>,
    },
}

impl SubmitError {
    /// What was handed over, taken back out.
    #[must_use]
    pub fn into_submission(self) -> Option<Submission> {
        match self {
            Self::Invalid { submission, .. }
            | Self::UnknownMailbox { submission }
            | Self::Refused { submission, .. }
            | Self::Caller { submission, .. }
            | Self::TooManyAdmissionKeys { submission, .. }
            | Self::QueueFull { submission, .. }
            | Self::TooManyMailboxes { submission, .. }
            | Self::Conflict { submission, .. }
            | Self::Store { submission, .. }
            | Self::MailboxHeld { submission }
            | Self::Elsewhere { submission }
            | Self::ShuttingDown { submission } => Some(*submission),
            Self::Interrupted { .. } => None,
        }
    }

    /// Whether the same submission may be taken in later by this scheduler or its successor.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Invalid { .. } | Self::UnknownMailbox { .. } | Self::Conflict { .. } => false,
            Self::Refused { refusal, .. } => {
                matches!(refusal, Refusal::WaitTooLong { .. } | Refusal::QueueFull { .. })
            }
            Self::Caller { refusal, .. } => !matches!(refusal, CallerRefusal::NeverFits { .. }),
            Self::Store { source, .. } => source.is_retryable(),
            Self::TooManyAdmissionKeys { .. }
            | Self::QueueFull { .. }
            | Self::TooManyMailboxes { .. }
            | Self::MailboxHeld { .. }
            | Self::Elsewhere { .. }
            | Self::ShuttingDown { .. }
            | Self::Interrupted { .. } => true,
        }
    }

    /// When to try again, where that is known.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused {
                refusal: Refusal::WaitTooLong { retry_after, .. } | Refusal::QueueFull { retry_after, .. },
                ..
            }
            | Self::Caller {
                refusal: CallerRefusal::Ceiling { retry_after, .. } | CallerRefusal::TooManyCallers { retry_after, .. },
                ..
            }
            | Self::TooManyAdmissionKeys { retry_after, .. }
            | Self::QueueFull { retry_after, .. }
            | Self::TooManyMailboxes { retry_after, .. } => Some(*retry_after),
            _ => None,
        }
    }

    /// The field to correct, where one is at fault.
    #[must_use]
    pub const fn field(&self) -> Option<&'static str> {
        match self {
            Self::Invalid { problem, .. } => Some(problem.field()),
            Self::UnknownMailbox { .. } => Some("mailbox"),
            Self::Conflict { .. } => Some("operation_id"),
            Self::Caller { refusal: CallerRefusal::NeverFits { .. }, .. } => Some("email.recipients"),
            Self::Caller { .. } => Some("caller"),
            Self::TooManyAdmissionKeys { .. } => Some("admission_key"),
            Self::Refused { refusal: Refusal::CostAboveCapacity { .. }, .. } => Some("cost"),
            Self::Refused { refusal: Refusal::DeadlineTooEarly { .. }, .. } => Some("deadline"),
            Self::Refused { refusal: Refusal::WaitTooLong { .. }, .. } => Some("max_wait"),
            _ => None,
        }
    }
}

/// A caller's refusal in one line.
fn describe_caller(refusal: &CallerRefusal) -> String {
    match refusal {
        CallerRefusal::Ceiling { unit, used, most, retry_after } => {
            let unit = unit.as_str();
            format!("it has used {used} of {most} {unit} of its period (callers); try again in {retry_after:?}")
        }
        CallerRefusal::NeverFits { recipients, most } => {
            format!("{recipients} recipients are above the {most} of a whole period (callers); split the email")
        }
        CallerRefusal::TooManyCallers { tracked_max, retry_after } => format!(
            "{tracked_max} callers are followed already (callers.tracked_max); try again in {retry_after:?}, or give it \
             an override"
        ),
    }
}

/// A refusal in one line.
pub(crate) fn describe(refusal: &Refusal) -> String {
    match refusal {
        Refusal::CostAboveCapacity { constraint, cost, capacity } => {
            format!("it costs {cost} where {} can never hold more than {capacity}; split it", constraint.wall)
        }
        Refusal::DeadlineTooEarly { earliest, constraint } => {
            format!("{} lets it start at {earliest}, after its deadline; allow more time", constraint.wall)
        }
        Refusal::WaitTooLong { retry_after, constraint } => {
            format!("{} makes it wait longer than max_wait; try again in {retry_after:?}", constraint.wall)
        }
        Refusal::QueueFull { retry_after, depth_max } => {
            format!("{depth_max} operations wait already; try again in {retry_after:?}")
        }
    }
}
