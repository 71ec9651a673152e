//! The verdict table for a send over Graph.
//!
//! | answer | verdict |
//! |---|---|
//! | 202, with or without `Retry-After` | accepted |
//! | another 2xx | unknown: `sendMail` documents 202 alone, and a gateway's 200 may or may not be one |
//! | 3xx | permanent, account: redirects are not followed with an email in hand, the base URL is wrong |
//! | 429, 509, a throttle code under any status | throttled; kind by code, then header, then text |
//! | 503 without a code of ours | [`Unavailable`] decides |
//! | 504; 500, 502 and other 5xx | unknown: often sent |
//! | 408, 409, 421, 423, 424, 425, an infrastructure code | transient, [`Sent::Maybe`]: answered, not done |
//! | 401, 402, 403, 407 | permanent, account |
//! | 404, 410, 507, a mailbox code | permanent, mailbox |
//! | another 4xx | permanent, message |
//!
//! An accepted email is only *accepted*: RRL and TERRL refusals arrive later, as reports in the sender's inbox.

use http::HeaderMap;

use super::body::ErrorBody;
use super::codes::{Meaning, meaning};
use super::retry_after::wait_hint;
use super::throttle::{names_concurrency, throttle_scope, usage};
use crate::engine::{Answer, ScopeKind, Sent, Subject, Throttle, ThrottleKind, Verdict};

/// Longest provider id that is kept; Graph's are GUIDs.
const PROVIDER_ID_BYTES_MAX: usize = 128;

/// How to take a 503 that gives no reason of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unavailable {
    /// At its word: the server could not handle the request (RFC 9110, 15.6.4), so it may be sent again and costs an
    /// attempt. The default: rows 6 and 8 of the operation table retry what was answered and hold what was lost, and the
    /// health breaker is fed by exactly these.
    #[default]
    Refused,
    /// As unknown: held and reconciled, never repeated blindly. For those to whom a duplicate is worse than a delay;
    /// reporters saw mails arrive although a 503 was answered (an earlier attempt may have been the one).
    Ambiguous,
}

/// What an answer to `sendMail` means, with a bare 503 [taken at its word](Unavailable::Refused).
///
/// `body` may be cut, empty or hostile: what cannot be read is not used.
#[must_use]
pub fn judge(status: u16, headers: &HeaderMap, body: &[u8]) -> Answer {
    judge_with(Unavailable::default(), status, headers, body)
}

/// What an answer to `sendMail` means.
#[must_use]
pub fn judge_with(unavailable: Unavailable, status: u16, headers: &HeaderMap, body: &[u8]) -> Answer {
    let body = ErrorBody::parse(body);
    let reply = Reply { status, headers, body };
    Answer {
        verdict: reply.verdict(unavailable),
        usage: usage(headers),
        status: Some(status),
        provider_id: reply.provider_id(),
    }
}

/// Whether an error body says that the item is not there (`ErrorItemNotFound`), and nothing else that a 404 can mean.
#[cfg(feature = "graph")]
pub(crate) fn says_item_not_found(body: &[u8]) -> bool {
    let codes = ErrorBody::parse(body).codes;
    codes.iter().any(|code| code.eq_ignore_ascii_case("ErrorItemNotFound")) && meaning(&codes).is_none()
}

struct Reply<'a> {
    status: u16,
    headers: &'a HeaderMap,
    body: ErrorBody,
}

impl Reply<'_> {
    fn verdict(&self, unavailable: Unavailable) -> Verdict {
        match self.status {
            202 => Verdict::Accepted,
            200..=299 | 504 => Verdict::Unknown,
            429 => self.throttled(),
            300..=599 => match meaning(&self.body.codes) {
                Some(Meaning::Throttled(_)) => self.throttled(),
                Some(Meaning::NotDone) => self.not_done(),
                Some(Meaning::Ambiguous) => Verdict::Unknown,
                Some(Meaning::Permanent(of)) => Verdict::Permanent { of },
                None => self.by_status(unavailable),
            },
            _ => Verdict::Unknown,
        }
    }

    fn by_status(&self, unavailable: Unavailable) -> Verdict {
        let permanent = |of| Verdict::Permanent { of };
        match self.status {
            300..=399 | 401 | 402 | 403 | 407 => permanent(Subject::Account),
            404 | 410 | 507 => permanent(Subject::Mailbox),
            408 | 409 | 421 | 423..=425 => self.not_done(),
            400..=499 => permanent(Subject::Message),
            503 if unavailable == Unavailable::Refused => self.not_done(),
            509 => self.throttled(),
            _ => Verdict::Unknown,
        }
    }

    fn not_done(&self) -> Verdict {
        Verdict::Transient { sent: Sent::Maybe, retry_after: self.retry_after() }
    }

    fn throttled(&self) -> Verdict {
        // Bandwidth (509) is metered per application.
        let scope = throttle_scope(self.headers).or((self.status == 509).then_some(ScopeKind::Application));
        Verdict::Throttled(Throttle { retry_after: self.retry_after(), scope, kind: self.kind() })
    }

    fn kind(&self) -> ThrottleKind {
        match meaning(&self.body.codes) {
            Some(Meaning::Throttled(kind)) if kind != ThrottleKind::Rate => kind,
            _ if names_concurrency(self.headers) || self.body.says("concurren") => ThrottleKind::Concurrency,
            _ if QUOTA_TEXTS.iter().any(|text| self.body.says(text)) => ThrottleKind::Quota,
            _ => ThrottleKind::Rate,
        }
    }

    fn retry_after(&self) -> Option<std::time::Duration> {
        wait_hint(self.headers).max(self.body.retry_after)
    }

    fn provider_id(&self) -> Option<String> {
        let header = self.headers.get("request-id").and_then(|value| value.to_str().ok());
        let id = header.or(self.body.request_id.as_deref())?;
        (id.len() <= PROVIDER_ID_BYTES_MAX && id.bytes().all(|b| b.is_ascii_graphic())).then(|| id.to_owned())
    }
}

/// Texts (lower case) of a throttle that lasts hours rather than seconds.
const QUOTA_TEXTS: [&str; 4] = ["daily message", "daily limit", "submission quota", "submissionquotaexceeded"];
