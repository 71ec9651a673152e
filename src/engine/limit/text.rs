//! The written form of a limit. One way to print each; a few more ways to write it.

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use super::{Limit, LimitError, WindowKind};
use crate::engine::cost::Unit;

/// Characters of a wrong text that an error repeats.
const QUOTED_MAX: usize = 80;

/// Multiples of a byte, as printed: largest first, decimal before binary.
const BYTES: [(&str, u64); 7] = [
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// Parts of a duration in milliseconds, largest first.
const SPANS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Names of units other than bytes: of one, of several.
const NAMES: [(Unit, &str, &str); 4] = [
    (Unit::Requests, "request", "requests"),
    (Unit::Recipients, "recipient", "recipients"),
    (Unit::ExternalRecipients, "external recipient", "external recipients"),
    (Unit::QuotaUnits, "quota unit", "quota units"),
];

pub(super) fn parse(text: &str) -> Result<Limit, LimitError> {
    let quoted = || quote(text);
    let Some((what, over)) = text.split_once('/') else { return Err(LimitError::Form { text: quoted() }) };
    let (digits, name) = split_number(what.trim());
    let number = number(digits).map_err(|wrong| match wrong {
        NumberError::TooLarge => LimitError::AmountTooLarge { text: quoted() },
        NumberError::Malformed => LimitError::Amount { text: quoted(), amount: quote(what.trim()) },
    })?;
    let (unit, factor) =
        unit(name.trim()).ok_or_else(|| LimitError::Unit { text: quoted(), unit: quote(name.trim()) })?;
    let amount = number.checked_mul(factor).ok_or_else(|| LimitError::AmountTooLarge { text: quoted() })?;
    let (window, kind) = over.trim().split_once(char::is_whitespace).unwrap_or((over.trim(), ""));
    let span = self::window(window).map_err(|wrong| match wrong {
        NumberError::TooLarge => LimitError::WindowTooLong { text: quoted() },
        NumberError::Malformed => LimitError::Window { text: quoted(), window: quote(window) },
    })?;
    let limit = Limit::checked(amount, unit, span, quoted)?;
    limit.kinded(parse_kind(kind.trim(), unit, quoted)?, quoted)
}

fn parse_kind(kind: &str, unit: Unit, quoted: impl Fn() -> String) -> Result<WindowKind, LimitError> {
    let unknown = || LimitError::Kind { text: quoted(), kind: quote(kind) };
    match kind {
        "" | "unknown" => return Ok(WindowKind::Unknown),
        "rolling" => return Ok(WindowKind::Rolling),
        "fixed" => return Ok(WindowKind::Fixed),
        "paranoid" => return Ok(WindowKind::Paranoid),
        _ => {}
    }
    let depth = kind.strip_prefix("bucket(").and_then(|rest| rest.strip_suffix(')')).ok_or_else(unknown)?;
    let (digits, name) = split_number(depth.trim());
    let factor = match (unit, name.trim()) {
        (_, "") => 1,
        (Unit::Bytes, name) => bytes(name).ok_or_else(unknown)?,
        _ => return Err(unknown()),
    };
    // A depth too large to count is above any amount; the check of the amount reports it.
    let depth = match number(digits) {
        Ok(number) => number.saturating_mul(factor),
        Err(NumberError::TooLarge) => u64::MAX,
        Err(NumberError::Malformed) => return Err(unknown()),
    };
    let depth = NonZeroU64::new(depth).ok_or_else(|| LimitError::ZeroDepth { text: quoted() })?;
    Ok(WindowKind::Bucket { depth })
}

fn unit(name: &str) -> Option<(Unit, u64)> {
    let words = || name.split_whitespace();
    let named = NAMES.iter().find(|(_, one, several)| words().eq(one.split(' ')) || words().eq(several.split(' ')));
    match named {
        Some((unit, _, _)) => Some((*unit, 1)),
        None => bytes(name).map(|factor| (Unit::Bytes, factor)),
    }
}

fn bytes(name: &str) -> Option<u64> {
    let name = if matches!(name, "byte" | "bytes") { "B" } else { name };
    BYTES.iter().find(|(known, _)| *known == name).map(|(_, factor)| *factor)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum NumberError {
    Malformed,
    TooLarge,
}

/// The leading digits and underscores, and the rest.
pub(in crate::engine) fn split_number(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len()))
}

/// Digits with single underscores between them.
pub(in crate::engine) fn number(text: &str) -> Result<u64, NumberError> {
    if text.is_empty() || text.starts_with('_') || text.ends_with('_') || text.contains("__") {
        return Err(NumberError::Malformed);
    }
    text.bytes().filter(|byte| *byte != b'_').try_fold(0_u64, |sum, byte| {
        let digit = u64::from(byte.checked_sub(b'0').filter(|digit| *digit < 10).ok_or(NumberError::Malformed)?);
        sum.checked_mul(10).and_then(|sum| sum.checked_add(digit)).ok_or(NumberError::TooLarge)
    })
}

pub(in crate::engine) fn window(text: &str) -> Result<Duration, NumberError> {
    let (mut rest, mut spans, mut millis) = (text, SPANS.iter(), 0_u64);
    if rest.is_empty() {
        return Err(NumberError::Malformed);
    }
    while !rest.is_empty() {
        let (digits, tail) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        let (name, tail) = tail.split_at(tail.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(tail.len()));
        // The iterator goes on where it stopped, so each part is shorter than the one before.
        let (_, span) = spans.find(|(known, _)| *known == name).ok_or(NumberError::Malformed)?;
        let part = number(digits)?.checked_mul(*span).ok_or(NumberError::TooLarge)?;
        millis = millis.checked_add(part).ok_or(NumberError::TooLarge)?;
        rest = tail;
    }
    Ok(Duration::from_millis(millis))
}

pub(super) fn print(limit: &Limit, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (amount, unit) = (limit.amount(), limit.unit());
    print_amount(amount, unit, f)?;
    if let Some((_, one, several)) = NAMES.iter().find(|(named, _, _)| *named == unit) {
        write!(f, " {}", if amount == 1 { one } else { several })?;
    }
    f.write_str(" / ")?;
    print_duration(limit.window(), f)?;
    match limit.kind() {
        WindowKind::Unknown => Ok(()),
        WindowKind::Rolling => f.write_str(" rolling"),
        WindowKind::Fixed => f.write_str(" fixed"),
        WindowKind::Paranoid => f.write_str(" paranoid"),
        WindowKind::Bucket { depth } => {
            f.write_str(" bucket(")?;
            print_amount(depth.get(), unit, f)?;
            f.write_str(")")
        }
    }
}

/// The number, and for bytes its multiple: the first of [`BYTES`] that leaves no rest.
fn print_amount(amount: u64, unit: Unit, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if unit != Unit::Bytes {
        return print_number(amount, f);
    }
    let even = BYTES.iter().find(|(_, factor)| amount.is_multiple_of(*factor));
    let (name, factor) = even.copied().unwrap_or(("B", 1));
    print_number(amount / factor, f)?;
    f.write_str(name)
}

/// Underscores between groups of three from five digits on.
pub(in crate::engine) fn print_number(number: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let digits = number.to_string();
    for (place, digit) in digits.char_indices() {
        if digits.len() > 4 && place > 0 && (digits.len() - place).is_multiple_of(3) {
            f.write_str("_")?;
        }
        write!(f, "{digit}")?;
    }
    Ok(())
}

/// One part, the largest that leaves no rest; a single day as 24h, as providers write it.
pub(in crate::engine) fn print_duration(window: Duration, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let millis = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
    let even = SPANS.iter().find(|(name, span)| millis.is_multiple_of(*span) && (*name != "d" || millis > *span));
    let (name, span) = even.copied().unwrap_or(("ms", 1));
    write!(f, "{}{name}", millis / span)
}

fn quote(text: &str) -> String {
    if text.chars().count() <= QUOTED_MAX {
        return text.to_owned();
    }
    text.chars().take(QUOTED_MAX).chain(['…']).collect()
}
