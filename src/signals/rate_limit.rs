//! The `RateLimit` fields, in the shapes of the IETF drafts that are in use.
//!
//! | shape | example |
//! |---|---|
//! | draft of 2025 | `RateLimit: "default";r=50;t=30`, `RateLimit-Policy: "burst";q=100;w=60` |
//! | draft-07 | `RateLimit: limit=10, remaining=1, reset=7` |
//! | draft-03 to -06 | `RateLimit-Limit: 10`, `RateLimit-Remaining: 1`, `RateLimit-Reset: 7` |
//!
//! `Reset` counts seconds in all of them. The vendor fields `X-RateLimit-Reset` (an epoch) and `Rate-Limit-Reset` (a
//! date) share the name and not the meaning, so they are not read. Malformed fields are ignored, as the drafts
//! demand. A policy's name is for people: never match on it.

use std::time::Duration;

use http::HeaderMap;
use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parameters, Parser};

use super::retry_after::plausible;

/// The state of one limit, as the provider sees it. A positive remainder is no guarantee.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateLimit {
    /// The policy's name, where it has one.
    pub name: Option<String>,
    /// The quota, in the policy's unit.
    pub limit: Option<u64>,
    /// What is left of it.
    pub remaining: u64,
    /// When there will be more.
    pub reset: Option<Duration>,
}

/// One declared policy: `quota` units in `window`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateLimitPolicy {
    /// Its name, where it has one.
    pub name: Option<String>,
    /// How much.
    pub quota: u64,
    /// Of what: `requests` unless it says otherwise.
    pub unit: String,
    /// Within which time, where it says so.
    pub window: Option<Duration>,
}

/// Every limit that the headers tell of.
#[must_use]
pub fn rate_limits(headers: &HeaderMap) -> Vec<RateLimit> {
    let Some(text) = field(headers, "ratelimit") else {
        return three_fields(headers).into_iter().collect();
    };
    if let Ok(list) = Parser::new(&text).parse::<List>() {
        return items(&list).filter_map(limit).collect();
    }
    Parser::new(&text).parse::<Dictionary>().ok().and_then(|fields| draft_07(&fields)).into_iter().collect()
}

/// Every policy that the headers declare. Draft-06 writes the quota itself as the item: `100;w=60`.
#[must_use]
pub fn rate_limit_policies(headers: &HeaderMap) -> Vec<RateLimitPolicy> {
    let Some(text) = field(headers, "ratelimit-policy") else { return Vec::new() };
    let Ok(list) = Parser::new(&text).parse::<List>() else { return Vec::new() };
    items(&list).filter_map(policy).collect()
}

/// The wait that exhausted limits imply: the longest reset among those with nothing left.
#[must_use]
pub fn rate_limit_wait(headers: &HeaderMap) -> Option<Duration> {
    rate_limits(headers).into_iter().filter(|limit| limit.remaining == 0).filter_map(|limit| limit.reset).max()
}

/// All lines of a field as one list (RFC 9110, 5.3).
fn field(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines: Vec<&str> = headers.get_all(name).iter().map(|value| value.to_str().ok()).collect::<Option<_>>()?;
    (!lines.is_empty()).then(|| lines.join(", "))
}

fn items(list: &List) -> impl Iterator<Item = &Item> {
    list.iter().filter_map(|entry| match entry {
        ListEntry::Item(item) => Some(item),
        ListEntry::InnerList(_) => None,
    })
}

fn limit(item: &Item) -> Option<RateLimit> {
    let name = item.bare_item.as_string()?.as_str().to_owned();
    let remaining = number(&item.params, "r")?;
    let reset = number(&item.params, "t").map(Duration::from_secs).and_then(plausible);
    Some(RateLimit { name: Some(name), limit: None, remaining, reset })
}

fn policy(item: &Item) -> Option<RateLimitPolicy> {
    let unit = item.params.get("qu").and_then(BareItem::as_string).map_or("requests", |unit| unit.as_str());
    let (name, quota) = match item.bare_item.as_string() {
        Some(name) => (Some(name.as_str().to_owned()), number(&item.params, "q")?),
        None => (None, whole(&item.bare_item)?),
    };
    let window = number(&item.params, "w").map(Duration::from_secs);
    Some(RateLimitPolicy { name, quota, unit: unit.to_owned(), window })
}

fn draft_07(fields: &Dictionary) -> Option<RateLimit> {
    let number = |key| match fields.get(key)? {
        ListEntry::Item(item) => whole(&item.bare_item),
        ListEntry::InnerList(_) => None,
    };
    let reset = number("reset").map(Duration::from_secs).and_then(plausible);
    Some(RateLimit { name: None, limit: number("limit"), remaining: number("remaining")?, reset })
}

fn three_fields(headers: &HeaderMap) -> Option<RateLimit> {
    // Draft-03 lets policies follow the number: `10, 10;w=60`.
    let number = |name| field(headers, name)?.split([',', ';']).next()?.trim().parse::<u64>().ok();
    let reset = number("ratelimit-reset").map(Duration::from_secs).and_then(plausible);
    let remaining = number("ratelimit-remaining")?;
    Some(RateLimit { name: None, limit: number("ratelimit-limit"), remaining, reset })
}

fn number(params: &Parameters, key: &str) -> Option<u64> {
    whole(params.get(key)?)
}

fn whole(item: &BareItem) -> Option<u64> {
    u64::try_from(i64::from(item.as_integer()?)).ok()
}
