//! One ceiling, and its written form: `500 emails, 5_000 recipients / 1h`.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use crate::engine::limit::text::{number, print_duration, print_number, split_number, window};

/// Shortest period.
pub const PERIOD_MIN: Duration = Duration::from_secs(1);
/// Longest period: what is used lives in memory, and nobody means to keep it longer.
pub const PERIOD_MAX: Duration = Duration::from_secs(31 * 86_400);

/// The most that one caller may hand over in one period.
///
/// ```
/// use mailweir::engine::callers::CallerCeiling;
/// let ceiling: CallerCeiling = "500 emails, 5_000 recipients / 1h".parse()?;
/// assert_eq!((ceiling.emails_max(), ceiling.recipients_max()), (Some(500), Some(5_000)));
/// assert_eq!(ceiling.to_string(), "500 emails, 5000 recipients / 1h");
/// # Ok::<(), mailweir::engine::callers::CeilingError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallerCeiling {
    emails_max: Option<NonZeroU32>,
    recipients_max: Option<NonZeroU32>,
    period: Duration,
}

/// Why a ceiling is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; write it as `500 emails, 5_000 recipients / 1h`, with either part or both")]
pub struct CeilingError {
    reason: &'static str,
}

const fn wrong(reason: &'static str) -> CeilingError {
    CeilingError { reason }
}

impl CallerCeiling {
    /// A ceiling on emails, on recipients, or on both, per period.
    ///
    /// # Errors
    /// Neither is bounded, or the period is below [`PERIOD_MIN`] or above [`PERIOD_MAX`].
    pub fn new(
        emails_max: Option<NonZeroU32>,
        recipients_max: Option<NonZeroU32>,
        period: Duration,
    ) -> Result<Self, CeilingError> {
        if emails_max.is_none() && recipients_max.is_none() {
            return Err(wrong("it bounds neither emails nor recipients"));
        }
        if !(PERIOD_MIN..=PERIOD_MAX).contains(&period) {
            return Err(wrong("its period is not between 1s and 31d"));
        }
        Ok(Self { emails_max, recipients_max, period })
    }

    /// Most emails in a period; `None`: not bounded.
    #[must_use]
    pub fn emails_max(&self) -> Option<u64> {
        self.emails_max.map(|most| u64::from(most.get()))
    }

    /// Most recipients in a period; `None`: not bounded.
    #[must_use]
    pub fn recipients_max(&self) -> Option<u64> {
        self.recipients_max.map(|most| u64::from(most.get()))
    }

    /// How long a period lasts.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }
}

impl FromStr for CallerCeiling {
    type Err = CeilingError;

    fn from_str(text: &str) -> Result<Self, CeilingError> {
        let (what, period) = text.split_once('/').ok_or(wrong("it has no period"))?;
        let (mut emails_max, mut recipients_max) = (None, None);
        for part in what.split(',') {
            let (digits, unit) = split_number(part.trim());
            let most = number(digits).map_err(|_| wrong("an amount is not a number"))?;
            let most = u32::try_from(most).ok().and_then(NonZeroU32::new);
            let most = most.ok_or(wrong("an amount is zero or above 4_294_967_295"))?;
            let place = match unit.trim() {
                "email" | "emails" => &mut emails_max,
                "recipient" | "recipients" => &mut recipients_max,
                _ => return Err(wrong("it counts something else than emails and recipients")),
            };
            if place.replace(most).is_some() {
                return Err(wrong("it bounds the same twice"));
            }
        }
        let period = window(period.trim()).map_err(|_| wrong("its period is not a duration"))?;
        Self::new(emails_max, recipients_max, period)
    }
}

impl fmt::Display for CallerCeiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [(self.emails_max(), "email", "emails"), (self.recipients_max(), "recipient", "recipients")];
        let parts = parts.into_iter().filter_map(|(most, one, several)| Some((most?, one, several)));
        for (at, (most, one, several)) in parts.enumerate() {
            f.write_str(if at > 0 { ", " } else { "" })?;
            print_number(most, f)?;
            write!(f, " {}", if most == 1 { one } else { several })?;
        }
        f.write_str(" / ")?;
        print_duration(self.period, f)
    }
}
