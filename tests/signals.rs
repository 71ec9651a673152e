//! Waits, limits, scopes and use in the headers of an answer: each row is a shape that was documented or seen.
#![cfg(feature = "http-signals")]

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use mailweir::engine::{Ratio, ScopeKind};
use mailweir::signals::{
    WAIT_MAX, rate_limit_policies, rate_limit_wait, rate_limits, retry_after, throttle_scope, usage, wait_hint,
};
use proptest::prelude::*;

const DATE: (&str, &str) = ("date", "Fri, 31 Dec 1999 23:59:00 GMT");

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        let name: HeaderName = name.parse().expect("a header name");
        map.append(name, HeaderValue::from_bytes(value.as_bytes()).expect("a header value"));
    }
    map
}

fn seconds(wait: Option<Duration>) -> Option<u64> {
    wait.map(|wait| {
        assert_eq!(wait.subsec_nanos(), 0, "whole seconds");
        wait.as_secs()
    })
}

#[test]
fn retry_after_is_read_in_every_form_that_occurs() {
    for (value, expected) in [
        ("120", Some(120)),
        ("0", Some(0)),
        ("1", Some(1)),
        ("315", Some(315)),
        (" 7 ", Some(7)),
        ("007", Some(7)),
        // Decimals, rounded up.
        ("2.128", Some(3)),
        ("0.249", Some(1)),
        ("2.000", Some(2)),
        ("2.0000000000000000000000001", Some(3)),
        // Lists: the longest.
        ("30,120", Some(120)),
        ("120, 30", Some(120)),
        ("30,,2.5,", Some(30)),
        // The three forms of a date, against the response's own date.
        ("Fri, 31 Dec 1999 23:59:59 GMT", Some(59)),
        ("Friday, 31-Dec-99 23:59:59 GMT", Some(59)),
        ("Fri Dec 31 23:59:59 1999", Some(59)),
        ("Fri, 31 Dec 1999 23:59:00 GMT", Some(0)),
        // A comma stands inside a date as well as between elements.
        ("Fri, 31 Dec 1999 23:59:59 GMT, 10", Some(59)),
        ("10, Fri, 31 Dec 1999 23:59:59 GMT", Some(59)),
        ("90, Friday, 31-Dec-99 23:59:59 GMT", Some(90)),
        ("Fri Dec 31 23:59:20 1999, Fri, 31 Dec 1999 23:59:59 GMT", Some(59)),
        // Past: absent, alone or in a list.
        ("Fri, 31 Dec 1999 23:58:59 GMT", None),
        ("Mon, 01 Jan 1990 00:00:00 GMT, 10", Some(10)),
        // More than a day: a day. A date that far, or a month of seconds, is a mistake.
        ("86400", Some(86_400)),
        ("86401", Some(86_400)),
        ("86400.1", Some(86_400)),
        ("2592000", Some(86_400)),
        ("2592001", None),
        ("20, 86401", Some(86_400)),
        ("Sat, 01 Jan 2000 23:59:00 GMT", Some(86_400)),
        ("Sat, 01 Jan 2000 23:59:01 GMT", None),
        ("99999999999999999999999999", None),
        ("99999999999999999999999999, 20", Some(20)),
        // Malformed: no hint, never zero.
        ("", None),
        (" ", None),
        ("soon", None),
        ("-1", None),
        ("+1", None),
        ("1e3", None),
        ("0x10", None),
        (".5", None),
        ("5.", None),
        ("1.2.3", None),
        ("30s", None),
        ("30 seconds", None),
        ("\"30\"", None),
        ("NaN", None),
        ("30;x=1", None),
        ("30, soon", None),
        ("soon, 30", None),
        ("Fri, soon", None),
        ("Fri, 31 Dec 1999", None),
        ("Wed, 22 Feb 2023 10:04:01 UTC", None),
        ("2023-03-07T18:18:23.688Z", None),
        ("Fri, 31 Dec 1999 24:99:99 GMT", None),
    ] {
        assert_eq!(seconds(retry_after(&headers(&[DATE, ("retry-after", value)]))), expected, "{value:?}");
    }
}

#[test]
fn a_date_without_the_responses_own_date_is_no_hint() {
    let date = "Fri, 31 Dec 1999 23:59:59 GMT";
    assert_eq!(retry_after(&headers(&[("retry-after", date)])), None);
    assert_eq!(retry_after(&headers(&[("date", "yesterday"), ("retry-after", date)])), None);
    assert_eq!(seconds(retry_after(&headers(&[("retry-after", "5, Fri, 31 Dec 1999 23:59:59 GMT")]))), Some(5));
}

#[test]
fn several_retry_after_fields_are_one_list() {
    assert_eq!(seconds(retry_after(&headers(&[("retry-after", "5"), ("retry-after", "9")]))), Some(9));
    assert_eq!(retry_after(&headers(&[("retry-after", "5"), ("retry-after", "later")])), None);
    assert_eq!(retry_after(&headers(&[("retry-after", "5"), ("retry-after", "später")])), None);
    assert_eq!(retry_after(&HeaderMap::new()), None);
}

#[test]
fn the_longest_hint_of_all_headers_counts() {
    let hint = |fields: &[(&str, &str)]| wait_hint(&headers(fields));
    assert_eq!(hint(&[("x-amz-retry-after", "1500")]), Some(Duration::from_millis(1_500)));
    assert_eq!(hint(&[("retry-after-ms", "2500"), ("retry-after", "2")]), Some(Duration::from_millis(2_500)));
    assert_eq!(hint(&[("x-ms-retry-after-ms", "500"), ("retry-after", "2")]), Some(Duration::from_secs(2)));
    assert_eq!(hint(&[("retry-after-ms", "86400001")]), Some(WAIT_MAX));
    assert_eq!(hint(&[("retry-after-ms", "2592000001")]), None, "absurd");
    assert_eq!(hint(&[("retry-after-ms", "-5")]), None);
    let exhausted = ("ratelimit", "\"default\";r=0;t=30");
    assert_eq!(hint(&[exhausted, ("retry-after", "10")]), Some(Duration::from_secs(30)));
    assert_eq!(hint(&[exhausted, ("retry-after", "40")]), Some(Duration::from_secs(40)));
    assert_eq!(hint(&[("ratelimit", "\"default\";r=5;t=30"), ("retry-after", "10")]), Some(Duration::from_secs(10)));
}

#[test]
fn rate_limit_fields_are_read_in_every_draft() {
    let read = |fields: &[(&str, &str)]| {
        let one = |limit: &mailweir::signals::RateLimit| (limit.limit, limit.remaining, seconds(limit.reset));
        rate_limits(&headers(fields)).iter().map(one).collect::<Vec<_>>()
    };
    let list = "\"default\";r=50;t=30, \"daily\";r=0;t=600;pk=:cHs=:";
    assert_eq!(read(&[("ratelimit", list)]), [(None, 50, Some(30)), (None, 0, Some(600))]);
    assert_eq!(read(&[("ratelimit", "\"a\";r=1"), ("ratelimit", "\"b\";r=2")]), [(None, 1, None), (None, 2, None)]);
    assert_eq!(read(&[("ratelimit", "limit=10, remaining=1, reset=7")]), [(Some(10), 1, Some(7))]);
    let three = [("ratelimit-limit", "10, 10;w=60"), ("ratelimit-remaining", "0"), ("ratelimit-reset", "31")];
    assert_eq!(read(&three), [(Some(10), 0, Some(31))]);
    assert_eq!(rate_limit_wait(&headers(&three)), Some(Duration::from_secs(31)));
    // Vendor fields with other meanings of "reset" are not read.
    assert_eq!(read(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1392815263")]), []);
    assert_eq!(read(&[("rate-limit-remaining", "0"), ("rate-limit-reset", "2017-01-01T00:00:00Z")]), []);
}

#[test]
fn malformed_rate_limit_fields_are_ignored() {
    for value in [
        "",
        "default;r",
        "\"open;r=0;t=5",
        "\"a\";t=5",
        "\"a\";r=-1;t=5",
        "\"a\";r=0.5",
        "(\"a\");r=0",
        "r=0",
        "\u{e9}",
    ] {
        assert_eq!(rate_limits(&headers(&[("ratelimit", value)])), [], "{value:?}");
    }
    // An unreasonable wait (the draft's own example) counts as absent; the state stays.
    let limits = rate_limits(&headers(&[("ratelimit", "\"default\";r=0;t=1000000")]));
    assert_eq!((limits[0].remaining, limits[0].reset), (0, None));
}

#[test]
fn rate_limit_policies_are_read() {
    let policies = rate_limit_policies(&headers(&[(
        "ratelimit-policy",
        "\"burst\";q=100;w=60, \"daily\";q=1000;w=86400;qu=\"content-bytes\", 30;w=10, \"bad\";w=3",
    )]));
    let read: Vec<_> =
        policies.iter().map(|p| (p.name.as_deref(), p.quota, p.unit.as_str(), seconds(p.window))).collect();
    assert_eq!(
        read,
        [
            (Some("burst"), 100, "requests", Some(60)),
            (Some("daily"), 1_000, "content-bytes", Some(86_400)),
            (None, 30, "requests", Some(10)),
        ]
    );
    assert_eq!(rate_limit_policies(&HeaderMap::new()), []);
}

#[test]
fn the_throttle_scope_is_read_leniently_and_unknown_words_mean_the_widest() {
    use ScopeKind::{Application, Mailbox, Tenant};
    for (value, expected) in [
        ("Tenant_Application/ReadWrite/9e0e3d2b/72f988bf", Some(Tenant)),
        ("Tenant/Read/9e0e3d2b/72f988bf", Some(Tenant)),
        ("Application/Write/9e0e3d2b/72f988bf", Some(Application)),
        ("User/ReadWrite/9e0e3d2b/4c3f", Some(Mailbox)),
        ("User", Some(Mailbox)),
        ("user/application", Some(Mailbox)),
        ("Mailbox", Some(Mailbox)),
        ("Application", Some(Application)),
        ("Tenant", Some(Tenant)),
        ("Tenant_Application/ReadWrite/17s", Some(Tenant)),
        ("Tenant_Application_All", Some(Tenant)),
        ("Tenant_Application_Write", Some(Tenant)),
        ("Tenant_All", Some(Tenant)),
        ("Partition_Application_All", Some(Application)),
        ("  tenant  ", Some(Tenant)),
        ("Region/Write/x/y", Some(Application)),
        ("/Write", Some(Application)),
        ("\u{e9}", Some(Application)),
        ("", None),
    ] {
        assert_eq!(throttle_scope(&headers(&[("x-ms-throttle-scope", value)])), expected, "{value:?}");
    }
    assert_eq!(throttle_scope(&HeaderMap::new()), None);
    let both = [("x-ms-throttle-scope", "Tenant"), ("x-ms-throttle-scope", "User")];
    assert_eq!(throttle_scope(&headers(&both)), Some(Tenant), "the widest of several");
}

#[test]
fn usage_is_any_finite_number_from_zero_on() {
    for (value, expected) in [
        ("0.8", Some(800_000)),
        ("1.8", Some(1_800_000)),
        ("0", Some(0)),
        ("-0", Some(0)),
        ("1", Some(1_000_000)),
        ("0.9, 1.2", Some(1_200_000)),
        ("1e300", Some(u32::MAX)),
        ("-0.1", None),
        ("NaN", None),
        ("inf", None),
        ("80%", None),
        ("", None),
    ] {
        let read = usage(&headers(&[("x-ms-throttle-limit-percentage", value)])).map(Ratio::as_ppm);
        assert_eq!(read, expected, "{value:?}");
    }
}

proptest! {
    #[test]
    fn no_retry_after_panics_or_exceeds_the_bound(value in "[ -~]{0,40}", date in "[ -~]{0,32}") {
        let wait = retry_after(&headers(&[("date", &date), ("retry-after", &value)]));
        prop_assert!(wait.is_none_or(|wait| wait <= WAIT_MAX));
    }

    #[test]
    fn seconds_never_read_as_less_than_they_say(whole in 0u64..86_400, fraction in 0u32..1_000) {
        let wait = retry_after(&headers(&[("retry-after", &format!("{whole}.{fraction:03}"))]));
        prop_assert_eq!(seconds(wait), Some(whole + u64::from(fraction > 0)));
    }
}
