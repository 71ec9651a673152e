//! The verdict table: what an answer to `sendMail` means, by status, code, text and header.
#![cfg(feature = "http-signals")]

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use mailweir::engine::{Answer, Ratio, ScopeKind, Sent, Subject, Throttle, ThrottleKind, Verdict};
use mailweir::signals::{BODY_BYTES_MAX, Unavailable, judge, judge_with, rate_limit_policies};
use proptest::prelude::*;

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        let name: HeaderName = name.parse().expect("a header name");
        map.append(name, HeaderValue::from_bytes(value.as_bytes()).expect("a header value"));
    }
    map
}

fn error(code: &str, message: &str) -> String {
    format!(
        r#"{{"error":{{"code":"{code}","message":"{message}","innerError":{{"date":"2026-01-01T12:00:00","request-id":"r-1"}}}}}}"#
    )
}

fn throttled(kind: ThrottleKind) -> Verdict {
    Verdict::Throttled(Throttle { retry_after: None, scope: None, kind })
}

const NOT_DONE: Verdict = Verdict::Transient { sent: Sent::Maybe, retry_after: None };
const MESSAGE: Verdict = Verdict::Permanent { of: Subject::Message };
const MAILBOX: Verdict = Verdict::Permanent { of: Subject::Mailbox };
const ACCOUNT: Verdict = Verdict::Permanent { of: Subject::Account };

fn verdict(status: u16, code: &str, message: &str) -> Verdict {
    judge(status, &HeaderMap::new(), error(code, message).as_bytes()).verdict
}

#[test]
fn known_codes_decide() {
    use ThrottleKind::{Concurrency, Quota, Rate};
    for (status, code, message, expected) in [
        (429, "TooManyRequests", "Please retry again later.", throttled(Rate)),
        (429, "ApplicationThrottled", "Application is over its MailboxConcurrency limit.", throttled(Concurrency)),
        (429, "ApplicationThrottled", "Application is over its request limit.", throttled(Rate)),
        (503, "CommandConcurrencyLimitReached", "Command Concurrency Limit Reached", throttled(Concurrency)),
        (503, "ErrorDirectoryConcurrencyLimit", "", throttled(Concurrency)),
        (503, "ResourceUnhealthy", "MdbReplication monitor is unhealthy.", throttled(Rate)),
        (500, "ErrorServerBusy", "Try again later.", throttled(Rate)),
        (503, "errorserverbusy", "Try again later.", throttled(Rate)),
        (400, "ErrorExceededMessageLimit", "", throttled(Quota)),
        (403, "ErrorExceededMessageLimit", "Daily Message/Recipient limit exceeded.", throttled(Quota)),
        (429, "ErrorExceededMessageLimit", "", throttled(Quota)),
        (403, "ErrorExceededHourlyMessageLimit", "", throttled(Quota)),
        (429, "SomethingNew", "You have hit the daily message limit.", throttled(Quota)),
        (503, "serviceNotAvailable", "The service is not available.", NOT_DONE),
        (503, "ErrorMailboxMoveInProgress", "", NOT_DONE),
        (500, "ErrorInternalServerTransientError", "", NOT_DONE),
        (424, "FailedDependency", "", NOT_DONE),
        (503, "ErrorTimeoutExpired", "", Verdict::Unknown),
        (504, "UnknownError", "", Verdict::Unknown),
        (504, "CommandConcurrencyLimitReached", "", Verdict::Unknown),
        (500, "ErrorInternalServerError", "", Verdict::Unknown),
        (500, "generalException", "", Verdict::Unknown),
        (400, "ErrorInvalidRecipients", "", MESSAGE),
        (400, "ErrorMimeContentInvalidBase64String", "", MESSAGE),
        (413, "ErrorMessageSizeExceeded", "", MESSAGE),
        (403, "ErrorExceededMaxRecipientLimit", "", MESSAGE),
        (403, "ErrorExceededMaxRecipientLimitBlock", "", MAILBOX),
        (403, "ErrorMessageSubmissionBlocked", "", MAILBOX),
        (403, "ErrorAccountSuspend", "", MAILBOX),
        (403, "ErrorSendAsDenied", "", MAILBOX),
        (403, "ErrorAccessDenied", "", MAILBOX),
        (413, "ErrorQuotaExceeded", "", MAILBOX),
        (507, "ErrorQuotaExceeded", "", MAILBOX),
        (401, "InvalidAuthenticationToken", "", ACCOUNT),
    ] {
        assert_eq!(verdict(status, code, message), expected, "{status} {code}");
    }
}

#[test]
fn without_a_known_code_the_status_decides() {
    for (statuses, expected) in [
        (&[202][..], Verdict::Accepted),
        (&[200, 201, 203, 204, 299], Verdict::Unknown),
        (&[301, 302, 304, 307, 308], ACCOUNT),
        (&[400, 405, 406, 411, 413, 415, 422, 431, 451, 499], MESSAGE),
        (&[401, 402, 403, 407], ACCOUNT),
        (&[404, 410, 507], MAILBOX),
        (&[408, 409, 421, 423, 424, 425, 503], NOT_DONE),
        (&[429], throttled(ThrottleKind::Rate)),
        (&[500, 501, 502, 504, 505, 508, 511, 599], Verdict::Unknown),
        (&[0, 100, 199, 600, 999, u16::MAX], Verdict::Unknown),
    ] {
        for status in statuses {
            for body in [&b""[..], b"<html>nope</html>", b"{}", b"{\"error\":{\"code\":\"Novel\"}}"] {
                assert_eq!(judge(*status, &HeaderMap::new(), body).verdict, expected, "{status}");
            }
        }
    }
}

#[test]
fn an_accepted_answer_with_retry_after_stays_accepted() {
    let answer = judge(202, &headers(&[("retry-after", "30")]), error("TooManyRequests", "").as_bytes());
    assert_eq!(answer.verdict, Verdict::Accepted);
}

#[test]
fn a_bare_503_is_unknown_where_that_is_asked_for() {
    let (none, strict) = (HeaderMap::new(), Unavailable::Ambiguous);
    assert_eq!(judge_with(strict, 503, &none, b"").verdict, Verdict::Unknown);
    let busy = error("CommandConcurrencyLimitReached", "");
    assert_eq!(judge_with(strict, 503, &none, busy.as_bytes()).verdict, throttled(ThrottleKind::Concurrency));
    assert_eq!(judge_with(Unavailable::default(), 503, &none, b"").verdict, NOT_DONE);
}

#[test]
fn hints_scope_usage_and_ids_travel_with_the_verdict() {
    let fields = headers(&[
        ("retry-after", "2.128"),
        ("x-ms-throttle-scope", "Tenant_Application/ReadWrite/a/t"),
        ("x-ms-throttle-limit-percentage", "1.1"),
        ("request-id", "7d3f"),
    ]);
    let answer = judge(429, &fields, error("TooManyRequests", "").as_bytes());
    let throttle = Throttle {
        retry_after: Some(Duration::from_secs(3)),
        scope: Some(ScopeKind::Tenant),
        kind: ThrottleKind::Rate,
    };
    assert_eq!(
        answer,
        Answer {
            verdict: Verdict::Throttled(throttle),
            usage: Some(Ratio::percent(110)),
            status: Some(429),
            provider_id: Some("7d3f".to_owned()),
        }
    );
    let from_body = judge(400, &HeaderMap::new(), error("ErrorInvalidRecipients", "").as_bytes());
    assert_eq!(from_body.provider_id.as_deref(), Some("r-1"));
    let unavailable = judge(503, &headers(&[("retry-after", "10")]), b"");
    let after = Some(Duration::from_secs(10));
    assert_eq!(unavailable.verdict, Verdict::Transient { sent: Sent::Maybe, retry_after: after });
    let overlong = "x".repeat(129);
    assert_eq!(judge(202, &headers(&[("request-id", &overlong)]), b"").provider_id, None);
}

#[test]
fn the_exceeded_header_names_concurrency() {
    let answer = judge(429, &headers(&[("ratelimit-exceeded", "MailboxConcurrency")]), b"");
    assert_eq!(answer.verdict, throttled(ThrottleKind::Concurrency));
    assert_eq!(judge(429, &headers(&[("ratelimit-exceeded", "Requests")]), b"").verdict, throttled(ThrottleKind::Rate));
}

#[test]
fn bandwidth_is_the_applications() {
    let scope = |fields: &[(&str, &str)]| match judge(509, &headers(fields), b"").verdict {
        Verdict::Throttled(throttle) => throttle.scope,
        other => panic!("{other:?}"),
    };
    assert_eq!(scope(&[]), Some(ScopeKind::Application));
    assert_eq!(scope(&[("x-ms-throttle-scope", "User")]), Some(ScopeKind::Mailbox));
}

#[test]
fn inner_errors_are_walked_in_both_spellings_and_the_most_specific_code_wins() {
    let judge = |body: &str| judge(403, &HeaderMap::new(), body.as_bytes()).verdict;
    let quota = throttled(ThrottleKind::Quota);
    let nested = |key: &str| {
        format!(
            r#"{{"error":{{"code":"accessDenied","{key}":{{"code":"x","{key}":{{"code":"ErrorExceededMessageLimit"}}}}}}}}"#
        )
    };
    assert_eq!(judge(&nested("innerError")), quota);
    assert_eq!(judge(&nested("innererror")), quota);
    // A plain throttle inside says less than the reason outside.
    let generic = r#"{"error":{"code":"CommandConcurrencyLimitReached","innerError":{"code":"TooManyRequests"}}}"#;
    assert_eq!(judge(generic), throttled(ThrottleKind::Concurrency));
    let outside = r#"{"error":{"code":"TooManyRequests","innerError":{"code":"429"}}}"#;
    assert_eq!(judge(outside), throttled(ThrottleKind::Rate));
}

#[test]
fn inner_errors_are_followed_to_a_bounded_depth() {
    let nested = |levels: usize| {
        let mut body = String::from(r#"{"code":"ErrorExceededMessageLimit"}"#);
        for _ in 0..levels {
            body = format!(r#"{{"innerError":{body}}}"#);
        }
        judge(403, &HeaderMap::new(), format!(r#"{{"error":{body}}}"#).as_bytes()).verdict
    };
    assert_eq!(nested(7), throttled(ThrottleKind::Quota));
    assert_eq!(nested(8), ACCOUNT);
    assert_eq!(nested(5_000), ACCOUNT, "deeper than the parser goes");
}

#[test]
fn waits_in_the_body_count() {
    let wait = |body: &str| match judge(503, &headers(&[("retry-after", "1")]), body.as_bytes()).verdict {
        Verdict::Throttled(throttle) => throttle.retry_after,
        other => panic!("{other:?}"),
    };
    let busy = r#"{"error":{"code":"ErrorServerBusy","innerError":{"BackOffMilliseconds":2500}}}"#;
    assert_eq!(wait(busy), Some(Duration::from_millis(2_500)));
    assert_eq!(wait(&busy.replace("2500", "\"2500\"")), Some(Duration::from_millis(2_500)));
    assert_eq!(wait(&busy.replace("2500", "86400001")), Some(Duration::from_secs(86_400)), "a day at most");
    assert_eq!(wait(&busy.replace("2500", "2592000001")), Some(Duration::from_secs(1)), "absurd");
    assert_eq!(wait(&busy.replace("2500", "-1")), Some(Duration::from_secs(1)));
    let seconds = r#"{"retry-seconds":60,"error":{"code":"ErrorServerBusy"}}"#;
    assert_eq!(wait(seconds), Some(Duration::from_secs(60)));
}

#[test]
fn bodies_are_read_up_to_their_bound() {
    let sized = |bytes: usize| {
        let body = error("ErrorExceededMessageLimit", "");
        let body = format!("{body}{}", " ".repeat(bytes - body.len()));
        judge(403, &HeaderMap::new(), body.as_bytes()).verdict
    };
    assert_eq!(sized(BODY_BYTES_MAX), throttled(ThrottleKind::Quota));
    assert_eq!(sized(BODY_BYTES_MAX + 1), ACCOUNT);
}

#[test]
fn hostile_json_is_no_code() {
    for body in [
        &b"["[..],
        b"null",
        b"[[[[",
        b"{\"error\":null}",
        b"{\"error\":[1,2]}",
        b"{\"error\":{\"code\":429}}",
        b"{\"error\":{\"code\":{\"code\":\"ErrorExceededMessageLimit\"}}}",
        b"{\"error\":{\"code\":\"\xff\"}}",
        b"{\"error\":{\"innerError\":[{\"code\":\"ErrorExceededMessageLimit\"}]}}",
        b"\xef\xbb\xbf{\"error\":{\"code\":\"ErrorExceededMessageLimit\"}}",
    ] {
        assert_eq!(judge(403, &HeaderMap::new(), body).verdict, ACCOUNT, "{}", String::from_utf8_lossy(body));
    }
}

proptest! {
    #[test]
    fn no_field_or_body_panics(status: u16, value in "[ -~]{0,60}", body in prop::collection::vec(any::<u8>(), 0..200)) {
        let fields: Vec<_> = [
            "retry-after", "retry-after-ms", "ratelimit", "ratelimit-policy", "ratelimit-remaining", "ratelimit-reset",
            "x-ms-throttle-scope", "x-ms-throttle-limit-percentage", "ratelimit-exceeded", "request-id",
        ].iter().map(|name| (*name, value.as_str())).collect();
        let fields = headers(&fields);
        let answer = judge(status, &fields, &body);
        prop_assert_eq!(answer.verdict == Verdict::Accepted, status == 202);
        let _ = rate_limit_policies(&fields);
    }
}
