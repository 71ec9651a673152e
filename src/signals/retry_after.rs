//! `Retry-After` in all the forms that occur, and the hints beside it.
//!
//! RFC 9110 (10.2.3) allows whole seconds or a date. Graph also answers `2.128`, `0.249`, `30,120` and a constant `1`.
//! Reading less than was said means coming back early, so fractions round up and lists yield their longest element.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

use super::rate_limit::rate_limit_wait;

/// Longest wait that is read. A longer one that counts seconds is cut to it: that it is not over sooner was said. A
/// longer one that a date or an exhausted `RateLimit` implies counts as absent, because there a clock may be wrong.
pub const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Seconds above this count as absent: no provider means them, they are a mistake.
const ABSURD: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The wait that `Retry-After` asks for, in whole seconds.
///
/// Seconds, decimals (rounded up), comma lists (the longest) and the three date forms of RFC 9110 (5.6.7). A date is
/// worth its distance from the response's own `Date`, both being the server's clock; without a `Date` it is worth
/// nothing. A date in the past, or further than [`WAIT_MAX`], counts as absent; seconds are cut to it, and absent above
/// thirty days. One malformed element spoils the whole field: it may have been the longest. Zero stays zero; the
/// scheduler floors it.
#[must_use]
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let date = headers.get(DATE).and_then(|value| value.to_str().ok()).and_then(|text| http_date(text.trim()));
    let mut longest = None;
    for value in headers.get_all(RETRY_AFTER) {
        let text = value.to_str().ok()?;
        longest = longest.max(longest_in(text, date).ok()?);
    }
    longest
}

/// The longest of all hints in the headers: `Retry-After`, its cousins in milliseconds (`retry-after-ms`,
/// `x-ms-retry-after-ms`, `x-amz-retry-after`), and what an exhausted `RateLimit` implies.
///
/// The IETF draft lets `Retry-After` win, SharePoint the greater one; the greater one is safe under both.
#[must_use]
pub fn wait_hint(headers: &HeaderMap) -> Option<Duration> {
    let millis = ["retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after"]
        .iter()
        .filter_map(|name| headers.get(*name)?.to_str().ok()?.trim().parse().ok())
        .filter_map(|millis| cut(Duration::from_millis(millis)))
        .max();
    retry_after(headers).max(millis).max(rate_limit_wait(headers))
}

/// A wait that was said in seconds or parts of them: at most a day, unless it is absurd.
pub(super) fn cut(wait: Duration) -> Option<Duration> {
    (wait <= ABSURD).then_some(wait.min(WAIT_MAX))
}

/// A wait that follows from something else, unless it is too long to be true.
pub(super) fn plausible(wait: Duration) -> Option<Duration> {
    (wait <= WAIT_MAX).then_some(wait)
}

/// An element that is neither seconds nor a date.
struct Malformed;

fn longest_in(text: &str, date: Option<SystemTime>) -> Result<Option<Duration>, Malformed> {
    let mut elements = text.split(',').map(str::trim);
    let mut longest = None;
    while let Some(element) = elements.next() {
        if element.is_empty() {
            continue; // RFC 9110, 5.6.1: recipients accept empty list elements
        }
        let wait = match seconds(element) {
            Some(seconds) => cut(seconds),
            None => distance(date, date_from(element, &mut elements)?).and_then(plausible),
        };
        longest = longest.max(wait);
    }
    Ok(longest)
}

/// A date that starts with `element`. Two of the three forms have a comma of their own, after the day's name.
fn date_from<'a>(element: &str, rest: &mut impl Iterator<Item = &'a str>) -> Result<SystemTime, Malformed> {
    if let Some(date) = http_date(element) {
        return Ok(date);
    }
    let rest = rest.next().ok_or(Malformed)?;
    http_date(&format!("{element}, {rest}")).ok_or(Malformed)
}

fn http_date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

fn distance(date: Option<SystemTime>, until: SystemTime) -> Option<Duration> {
    until.duration_since(date?).ok()
}

/// `1*DIGIT ["." 1*DIGIT]`, rounded up to whole seconds; no sign, exponent or unit.
fn seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    // More digits than fit are above every bound anyway.
    let whole = whole.parse().unwrap_or(u64::MAX);
    let up = u64::from(fraction.bytes().any(|b| b != b'0'));
    Some(Duration::from_secs(whole.saturating_add(up)))
}
