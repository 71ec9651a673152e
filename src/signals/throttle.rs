//! Headers that say which scope is throttled and how much of a limit is used.

use http::HeaderMap;

use crate::engine::{Ratio, ScopeKind};

/// The scope that `x-ms-throttle-scope` names; `None` when it names none.
///
/// Documented is a path, `<Scope>/<Limit>/<ApplicationId>/<TenantId|UserId|ResourceId>`, with `Tenant_Application`,
/// `Tenant` or `Application` first; seen are also `User/…`, bare words, and the words of a draft of 2020
/// (`Tenant_Application_Write`, `Tenant_All`, `Partition_Application_All`). The first word decides, for it is what the
/// limit is divided by. A word we do not know means the widest scope: waiting too widely is slow, too narrowly is a
/// storm. Of several values the widest counts.
#[must_use]
pub fn throttle_scope(headers: &HeaderMap) -> Option<ScopeKind> {
    headers.get_all("x-ms-throttle-scope").iter().filter_map(|value| scope(value.as_bytes())).max()
}

fn scope(value: &[u8]) -> Option<ScopeKind> {
    let value = value.trim_ascii();
    let word = value.split(|b| matches!(b, b'/' | b'_' | b' ' | b',')).next().filter(|word| !word.is_empty());
    match word {
        None if value.is_empty() => None,
        Some(word) if is_one_of(word, &["user", "mailbox"]) => Some(ScopeKind::Mailbox),
        Some(word) if is_one_of(word, &["tenant"]) => Some(ScopeKind::Tenant),
        _ => Some(ScopeKind::Application),
    }
}

fn is_one_of(word: &[u8], names: &[&str]) -> bool {
    names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()))
}

/// The share of a limit in use that `x-ms-throttle-limit-percentage` tells: a fraction, despite its name.
///
/// Documented for the identity service only, from 0.8 to 1.8; any finite number from 0 on is taken. Of several values
/// the greatest counts; what is no number counts as absent.
#[must_use]
pub fn usage(headers: &HeaderMap) -> Option<Ratio> {
    headers
        .get_all("x-ms-throttle-limit-percentage")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .filter_map(|text| text.trim().parse::<f64>().ok())
        .filter(|share| share.is_finite() && *share >= 0.0)
        .map(ratio)
        .max()
}

fn ratio(share: f64) -> Ratio {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, and it is not negative"
    )]
    Ratio::ppm((share * 1_000_000.0).round() as u32)
}

/// Whether `RateLimit-Exceeded` names concurrency (reported by one vendor; harmless if it never comes).
pub(super) fn names_concurrency(headers: &HeaderMap) -> bool {
    headers
        .get_all("ratelimit-exceeded")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|text| text.to_ascii_lowercase().contains("concurrency"))
}
