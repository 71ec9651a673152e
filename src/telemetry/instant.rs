//! Instants for people: [`SystemTime`] in values, RFC 3339 in text.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::engine::Timestamp;

/// 9999-12-31T23:59:59.999Z, the last instant that RFC 3339 can write, in microseconds since the epoch.
const LAST_MICROS: u64 = 253_402_300_799_999_000;

/// `at` as a [`SystemTime`]; `None` for [`Timestamp::NEVER`], which is no instant. Later ones stop at the year 9999.
#[must_use]
pub fn system_time(at: Timestamp) -> Option<SystemTime> {
    if at == Timestamp::NEVER {
        return None;
    }
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(at.as_micros().min(LAST_MICROS)))
}

/// Writes an instant as RFC 3339 in UTC with milliseconds; `None` as `never`.
pub(super) struct Rfc3339(pub(super) Option<SystemTime>);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(at) => humantime::format_rfc3339_millis(at).fmt(f),
            None => f.write_str("never"),
        }
    }
}

/// Serialises an instant as RFC 3339.
pub(super) fn serialize<S: serde::Serializer>(at: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Rfc3339(Some(*at)))
}

/// Serialises an instant as RFC 3339, and "not by itself" as null.
pub(super) fn serialize_option<S: serde::Serializer>(
    at: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serialize(at, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(micros: u64) -> String {
        Rfc3339(system_time(Timestamp::from_micros(micros))).to_string()
    }

    #[test]
    fn an_instant_reads_as_rfc_3339_with_milliseconds() {
        assert_eq!(text(1_772_000_000_123_456), "2026-02-25T06:13:20.123Z");
    }

    #[test]
    fn the_last_writable_instant_and_the_one_after_it_read_the_same() {
        assert_eq!(text(LAST_MICROS), "9999-12-31T23:59:59.999Z");
        assert_eq!(text(LAST_MICROS + 1), "9999-12-31T23:59:59.999Z");
        assert_eq!(text(u64::MAX - 1), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn never_is_a_word_and_not_a_date() {
        assert_eq!(text(u64::MAX), "never");
    }
}
