//! Answers in Graph's form.

use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};

use crate::engine::{Ratio, ScopeKind, ThrottleKind, Timestamp};
use crate::upstream::{Decision, Refusal, RetryAfter, ScopeHeader};

use super::payload::Invalid;

/// What every answer to one request carries.
#[derive(Clone, Debug)]
pub(super) struct Meta {
    pub(super) request_id: String,
    pub(super) client_request_id: Option<String>,
}

/// An answer before it becomes an HTTP response or an item of a batch.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Option<Value>,
}

impl Reply {
    pub(super) const fn new(status: u16, body: Option<Value>) -> Self {
        Self { status, headers: Vec::new(), body }
    }

    /// Graph's error body.
    pub(super) fn error(status: u16, code: &str, message: &str, meta: &Meta) -> Self {
        let client = meta.client_request_id.as_deref().unwrap_or(&meta.request_id);
        let inner = json!({"request-id": meta.request_id, "client-request-id": client});
        Self::new(status, Some(json!({"error": {"code": code, "message": message, "innerError": inner}})))
    }

    /// An HTTP response, dated `now`.
    pub(super) fn response(self, meta: &Meta, now: Timestamp) -> Response {
        let mut response = Response::new(match &self.body {
            Some(body) => Body::from(body.to_string()),
            None => Body::empty(),
        });
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        if self.body.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let mut fields = self.headers;
        fields.push(("date", http_date(now)));
        fields.push(("request-id", meta.request_id.clone()));
        fields.extend(meta.client_request_id.clone().map(|id| ("client-request-id", id)));
        for (name, value) in fields {
            // A scenario's malformed Retry-After may hold what no header can; it is then left out.
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        response
    }
}

/// Who is named in a scope header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a> {
    pub(super) application: &'a str,
    pub(super) tenant: &'a str,
    pub(super) mailbox: &'a str,
}

/// What the upstream decided, in Graph's words.
pub(super) fn decided(
    decision: &Decision,
    invalid: Option<Invalid>,
    scope_header: ScopeHeader,
    names: Names<'_>,
    meta: &Meta,
) -> Reply {
    let mut reply = match (decision.status, decision.refusal, invalid) {
        (Some(status @ (201 | 202)), ..) => Reply::new(status, None),
        (Some(429), Some(refusal), _) => refused(refusal, scope_header, names, meta),
        (Some(503), ..) => Reply::error(503, "serviceNotAvailable", "The service is not available.", meta),
        (Some(504), ..) => Reply::error(504, "UnknownError", "", meta),
        (Some(status), _, Some(invalid)) => Reply::error(status, invalid.code, invalid.message, meta),
        _ => Reply::error(500, "generalException", "The request could not be processed.", meta),
    };
    reply.headers.extend(decision.retry_after.as_ref().map(|wait| ("retry-after", retry_after(wait))));
    reply.headers.extend(decision.usage.map(|usage| ("x-ms-throttle-limit-percentage", fraction(usage))));
    reply
}

fn refused(refusal: Refusal, scope_header: ScopeHeader, names: Names<'_>, meta: &Meta) -> Reply {
    let (code, message) = match refusal.kind {
        ThrottleKind::Concurrency => ("ApplicationThrottled", "Application is over its MailboxConcurrency limit."),
        ThrottleKind::Rate | ThrottleKind::Quota => ("TooManyRequests", "Too many requests."),
    };
    let mut reply = Reply::error(429, code, message, meta);
    let scope = match scope_header {
        ScopeHeader::Absent => None,
        ScopeHeader::Word => Some(word(refusal.scope).to_owned()),
        ScopeHeader::Path => Some(path(refusal.scope, names)),
    };
    reply.headers.extend(scope.map(|scope| ("x-ms-throttle-scope", scope)));
    reply
}

const fn word(scope: ScopeKind) -> &'static str {
    match scope {
        ScopeKind::Mailbox => "User",
        ScopeKind::Tenant => "Tenant",
        ScopeKind::Application => "Application",
    }
}

fn path(scope: ScopeKind, names: Names<'_>) -> String {
    let (name, resource) = match scope {
        ScopeKind::Mailbox => ("User", names.mailbox),
        ScopeKind::Tenant => ("Tenant_Application", names.tenant),
        ScopeKind::Application => ("Application", names.tenant),
    };
    format!("{name}/ReadWrite/{}/{resource}", names.application)
}

fn retry_after(wait: &RetryAfter) -> String {
    match wait {
        RetryAfter::Seconds(seconds) => seconds.to_string(),
        RetryAfter::Date(at) => http_date(*at),
        RetryAfter::Text(text) => text.to_string(),
    }
}

/// A share as Graph writes it: `0.83`, despite the header's name.
fn fraction(share: Ratio) -> String {
    let hundredths = share.as_ppm() / 10_000;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// An IMF-fixdate, cut to the second; the year 9999 at most, where the form ends.
fn http_date(at: Timestamp) -> String {
    const LAST_S: u64 = 253_402_300_799;
    let seconds = (at.as_micros() / 1_000_000).min(LAST_S);
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_dates_and_waits_are_written_as_graph_writes_them() {
        assert_eq!(
            [Ratio::percent(80), Ratio::ppm(837_900), Ratio::percent(180)].map(fraction),
            ["0.80", "0.83", "1.80"]
        );
        assert_eq!(http_date(Timestamp::from_micros(946_684_799_999_999)), "Fri, 31 Dec 1999 23:59:59 GMT");
        assert_eq!(http_date(Timestamp::NEVER), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(retry_after(&RetryAfter::Text("2.128".into())), "2.128");
    }
}
