//! The error codes of Graph and Exchange that say more than their status.
//!
//! Statuses are undocumented for several of them (`ErrorExceededMessageLimit` comes with 400 and 403), so for a known
//! code the code decides. Codes that only repeat their status (`UnknownError`, `generalException`,
//! `serviceNotAvailable`) are left out on purpose.
//!
//! Sources: Microsoft Graph error responses and throttling guidance, Exchange `ResponseCode` reference, and field
//! reports; collected 2026-11.

use crate::engine::{Subject, ThrottleKind};

use Meaning::{Ambiguous, NotDone, Permanent, Throttled};

/// What a code means for a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Later, slower.
    Throttled(ThrottleKind),
    /// It was not done, for a reason that is not our rate.
    NotDone,
    /// It may have been done.
    Ambiguous,
    /// Never as it is.
    Permanent(Subject),
}

impl Meaning {
    /// A throttle that names no cause: any other known code in the same body says more.
    const fn is_generic(self) -> bool {
        matches!(self, Throttled(ThrottleKind::Rate))
    }
}

const CODES: &[(&str, Meaning)] = &[
    ("CommandConcurrencyLimitReached", Throttled(ThrottleKind::Concurrency)),
    ("ErrorDirectoryConcurrencyLimit", Throttled(ThrottleKind::Concurrency)),
    ("ErrorExceededConnectionCount", Throttled(ThrottleKind::Concurrency)),
    ("MailboxConcurrency", Throttled(ThrottleKind::Concurrency)),
    ("TooManyRequests", Throttled(ThrottleKind::Rate)),
    ("ApplicationThrottled", Throttled(ThrottleKind::Rate)),
    ("ActivityLimitReached", Throttled(ThrottleKind::Rate)),
    ("BandwidthLimitExceeded", Throttled(ThrottleKind::Rate)),
    ("ResourceUnhealthy", Throttled(ThrottleKind::Rate)),
    ("ErrorServerBusy", Throttled(ThrottleKind::Rate)),
    ("ErrorMessageThrottled", Throttled(ThrottleKind::Rate)),
    ("ErrorExceededMessageLimit", Throttled(ThrottleKind::Quota)),
    ("ErrorExceededHourlyMessageLimit", Throttled(ThrottleKind::Quota)),
    ("ErrorSubmissionQuotaExceeded", Throttled(ThrottleKind::Quota)),
    ("FailedDependency", NotDone),
    ("ErrorMailboxMoveInProgress", NotDone),
    ("ErrorMailboxStoreUnavailable", NotDone),
    ("ErrorMailboxFailover", NotDone),
    ("ErrorInternalServerTransientError", NotDone),
    ("ErrorMessageTransientError", NotDone),
    ("ErrorTimeoutExpired", Ambiguous),
    ("ErrorMessageTimeout", Ambiguous),
    ("ErrorInvalidRecipients", Permanent(Subject::Message)),
    ("ErrorMimeContentInvalid", Permanent(Subject::Message)),
    ("ErrorMimeContentInvalidBase64String", Permanent(Subject::Message)),
    ("ErrorMessageSizeExceeded", Permanent(Subject::Message)),
    ("ErrorExceededMaxRecipientLimit", Permanent(Subject::Message)),
    ("ErrorExceededMaxRecipientLimitBlock", Permanent(Subject::Mailbox)),
    ("ErrorMessageSubmissionBlocked", Permanent(Subject::Mailbox)),
    ("ErrorAccountSuspend", Permanent(Subject::Mailbox)),
    ("ErrorQuotaExceeded", Permanent(Subject::Mailbox)), // the sender's mailbox is full; no send quota, despite its name
    ("ErrorSendAsDenied", Permanent(Subject::Mailbox)),
    ("ErrorAccessDenied", Permanent(Subject::Mailbox)),
    ("ErrorInvalidUser", Permanent(Subject::Mailbox)),
    ("MailboxNotEnabledForRESTAPI", Permanent(Subject::Mailbox)),
    ("MailboxNotSupportedForRESTAPI", Permanent(Subject::Mailbox)),
    ("InvalidAuthenticationToken", Permanent(Subject::Account)),
    ("Authorization_RequestDenied", Permanent(Subject::Account)),
];

/// The most specific known meaning: the innermost that is no plain throttle, else the innermost.
pub(super) fn meaning(codes: &[String]) -> Option<Meaning> {
    let known = || codes.iter().rev().filter_map(|code| lookup(code));
    known().find(|meaning| !meaning.is_generic()).or_else(|| known().next())
}

fn lookup(code: &str) -> Option<Meaning> {
    CODES.iter().find(|(known, _)| known.eq_ignore_ascii_case(code)).map(|(_, meaning)| *meaning)
}
