//! Durations, sizes and shares as people write them.
//!
//! Written here and not taken from a crate, because what is printed has to read like what was typed (`24h`, not
//! `1day`), an error has to list the units, and the same code serves configurations built without TOML.

use std::time::Duration;

use crate::engine::Ratio;

/// Units of duration with their microseconds, longest first.
const DURATION_UNITS: [(&str, u64); 6] =
    [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1)];

/// Units of size with their bytes, largest first. `kB` is a thousand, `KiB` is 1,024.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("KB", 1_000),
    ("B", 1),
    ("bytes", 1),
];

/// What a duration may look like, for errors.
pub(crate) const DURATION_FORM: &str = "a duration such as \"90s\", \"1h 30m\" or \"250ms\" (d, h, m, s, ms, us)";
/// What a size may look like, for errors.
pub(crate) const SIZE_FORM: &str = "a size such as \"150MB\" or \"512KiB\" (B, kB, MB, GB, KiB, MiB, GiB)";
/// What a share may look like, for errors.
pub(crate) const SHARE_FORM: &str = "a share such as \"50%\" or \"0.5%\", with at most four decimals";

/// `90s`, `1h 30m`, `250ms`. `None`: not a duration, or too long for 64 bits of microseconds.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut micros = 0_u64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (amount, after) = digits(rest)?;
        let word_end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (word, after) = after.split_at(word_end);
        let unit = DURATION_UNITS.iter().find(|(name, _)| *name == word)?.1;
        micros = micros.checked_add(amount.checked_mul(unit)?)?;
        rest = after.trim_start();
    }
    Some(Duration::from_micros(micros))
}

/// The duration in the largest unit up to hours that shows it exactly.
#[must_use]
pub fn show_duration(span: Duration) -> String {
    let micros = crate::engine::Timestamp::EPOCH.after(span).as_micros();
    if micros == 0 {
        return "0s".to_owned();
    }
    let exact = DURATION_UNITS.iter().skip(1).find(|(_, unit)| micros.is_multiple_of(*unit));
    let (name, unit) = exact.copied().unwrap_or(("us", 1));
    format!("{}{name}", micros / unit)
}

/// `150MB`, `512 KiB`, `1_000B`. `None`: not a size, or above 64 bits.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    let (amount, word) = digits(text.trim())?;
    let unit = SIZE_UNITS.iter().find(|(name, _)| *name == word.trim_start())?.1;
    amount.checked_mul(unit)
}

/// The size in the largest unit that shows it exactly.
#[must_use]
pub fn show_size(bytes: u64) -> String {
    let exact = SIZE_UNITS.iter().find(|(_, unit)| bytes != 0 && bytes.is_multiple_of(*unit));
    let (name, unit) = exact.copied().unwrap_or(("B", 1));
    format!("{}{name}", bytes / unit)
}

/// `50%`, `0.1%`, `160%`. `None`: not a share, or above what parts per million in 32 bits can hold.
pub(crate) fn parse_share(text: &str) -> Option<Ratio> {
    let number = text.trim().strip_suffix('%')?.trim_end();
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    if decimals.is_empty() || decimals.len() > 4 || !decimals.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (whole, rest) = digits(whole)?;
    if !rest.is_empty() {
        return None;
    }
    let parts: u64 = format!("{decimals:0<4}").parse().ok()?;
    let ppm = whole.checked_mul(10_000)?.checked_add(parts)?;
    u32::try_from(ppm).ok().map(Ratio::ppm)
}

/// The number that `text` starts with (`_` may group its digits) and what follows it.
fn digits(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    if !number.starts_with(|c: char| c.is_ascii_digit()) || number.ends_with('_') {
        return None;
    }
    Some((number.replace('_', "").parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_write_them() {
        for (text, micros) in [
            ("90s", 90_000_000),
            ("24h", 86_400_000_000),
            ("1h 30m", 5_400_000_000),
            ("1h30m", 5_400_000_000),
            ("250ms", 250_000),
            ("2d", 172_800_000_000),
            ("0s", 0),
            ("1_000us", 1_000),
        ] {
            assert_eq!(parse_duration(text), Some(Duration::from_micros(micros)), "{text}");
        }
        for text in ["", "90", "s", "1.5h", "-1s", "1M", "1 year", "1h,30m", "_1s", "1_s", "99999999999999d"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn durations_print_in_the_unit_that_is_exact() {
        for (text, shown) in [("90s", "90s"), ("24h", "24h"), ("2d", "48h"), ("60s", "1m"), ("1500ms", "1500ms")] {
            assert_eq!(show_duration(parse_duration(text).expect(text)), shown);
        }
        assert_eq!(show_duration(Duration::ZERO), "0s");
    }

    #[test]
    fn sizes_read_and_print() {
        for (text, bytes) in [("150MB", 150_000_000), ("512 KiB", 524_288), ("7B", 7), ("0B", 0)] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
            assert_eq!(parse_size(&show_size(bytes)), Some(bytes), "{text}");
        }
        for text in ["150", "MB", "1.5MB", "150mb", "20000000000GB", ""] {
            assert_eq!(parse_size(text), None, "{text}");
        }
        assert_eq!(show_size(150_000_000), "150MB");
    }

    #[test]
    fn shares_read_to_the_millionth() {
        for (text, ppm) in [("50%", 500_000), ("0.1%", 1_000), ("160 %", 1_600_000), ("0.0001%", 1), ("0%", 0)] {
            assert_eq!(parse_share(text), Some(Ratio::ppm(ppm)), "{text}");
        }
        for text in ["50", "%", "0.00001%", "1.%", ".5%", "-5%", "500000%", "1,5%"] {
            assert_eq!(parse_share(text), None, "{text}");
        }
    }
}
