//! One declared limit: amount × unit × window × kind.
//!
//! Written as people write it, `30 requests / 1m`, in configuration and in answers alike, so a limit has one form that
//! can be read back. Values that no provider declares (nothing, no time, more than a year) do not become a [`Limit`].

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::cost::Unit;

#[cfg(test)]
mod tests;
pub(in crate::engine) mod text;

/// The largest amount: a petabyte.
pub const AMOUNT_MAX: u64 = 1_000_000_000_000_000;
/// The longest window.
pub const WINDOW_MAX: Duration = Duration::from_secs(366 * 86_400);

/// How the provider's window behaves, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WindowKind {
    /// Not known: keep safe against every phase (the default).
    #[default]
    Unknown,
    /// The last W at each attempt.
    Rolling,
    /// Calendar-like buckets of unknown phase.
    Fixed,
    /// A token bucket of this depth that refills at amount/window.
    Bucket {
        /// Depth, in the limit's unit.
        depth: NonZeroU64,
    },
    /// Sliding-window counters, tiny burst limits, or whatever else: even pacing at (N−2)/W.
    Paranoid,
}

/// One declared limit. Built by [`Limit::new`] or parsed from text such as `30 requests / 1m`.
///
/// ```
/// use mailweir::engine::{Limit, Unit};
/// let limit: Limit = "150MB / 5m".parse()?;
/// assert_eq!((limit.amount(), limit.unit(), limit.window().as_secs()), (150_000_000, Unit::Bytes, 300));
/// assert_eq!(limit.to_string(), "150MB / 5m");
/// # Ok::<(), mailweir::engine::limit::LimitError>(())
/// ```
///
/// The text is an amount, a unit, `/`, a window and, if known, a kind:
/// - amount: digits, `_` between them
/// - unit: `requests`, `recipients`, `external recipients`, `quota units`, or bytes as `B`, `kB`, `MB`, `GB` (powers
///   of 1000) and `KiB`, `MiB`, `GiB` (powers of 1024)
/// - window: days, hours, minutes, seconds, milliseconds, largest first: `90s`, `1m30s`, `24h`, `7d`, `500ms`
/// - kind: `unknown` (the default), `rolling`, `fixed`, `bucket(8)` with its depth, `paranoid`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Limit {
    amount: NonZeroU64,
    unit: Unit,
    window: Duration,
    kind: WindowKind,
}

/// Why something is not a limit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LimitError {
    /// It does not have the form of a limit.
    #[error("limit {text:?} does not read as a limit: write amount, unit, '/', window, as in \"30 requests / 1m\"")]
    Form {
        /// The limit as given.
        text: String,
    },
    /// The amount is not a whole number.
    #[error("limit {text:?} has the amount {amount:?}: write a whole number, as in \"10_000 recipients / 24h\"")]
    Amount {
        /// The limit as given.
        text: String,
        /// The part that is wrong.
        amount: String,
    },
    /// The amount is zero.
    #[error("limit {text:?} allows nothing: the amount is at least 1 (to send nothing, hold the scope)")]
    ZeroAmount {
        /// The limit as given.
        text: String,
    },
    /// The amount is absurd.
    #[error("limit {text:?} is above what can be counted: the amount is at most {AMOUNT_MAX}")]
    AmountTooLarge {
        /// The limit as given.
        text: String,
    },
    /// The unit is not known.
    #[error(
        "limit {text:?} counts in {unit:?}: write requests, recipients, external recipients, quota units, \
         or B, kB, MB, GB, KiB, MiB, GiB"
    )]
    Unit {
        /// The limit as given.
        text: String,
        /// The part that is wrong.
        unit: String,
    },
    /// The window is not a duration.
    #[error(
        "limit {text:?} has the window {window:?}: write d, h, m, s, ms, largest first, as in \"24h\" or \"1m30s\""
    )]
    Window {
        /// The limit as given.
        text: String,
        /// The part that is wrong.
        window: String,
    },
    /// The window is zero.
    #[error("limit {text:?} counts over no time: the window is at least 1ms")]
    ZeroWindow {
        /// The limit as given.
        text: String,
    },
    /// The window is not whole milliseconds.
    #[error("limit {text:?} has too fine a window: it is a multiple of 1ms")]
    WindowTooFine {
        /// The limit as given.
        text: String,
    },
    /// The window is absurd.
    #[error("limit {text:?} counts over too long a time: the window is at most 366d")]
    WindowTooLong {
        /// The limit as given.
        text: String,
    },
    /// The kind is not known.
    #[error(
        "limit {text:?} has the kind {kind:?}: write unknown, rolling, fixed, bucket(8) with its depth, or paranoid"
    )]
    Kind {
        /// The limit as given.
        text: String,
        /// The part that is wrong.
        kind: String,
    },
    /// The bucket holds nothing.
    #[error("limit {text:?} has a bucket that holds nothing: the depth is at least 1 and at most the amount")]
    ZeroDepth {
        /// The limit as given.
        text: String,
    },
    /// The bucket holds more than the amount.
    #[error("limit {text:?} has a bucket of depth {depth}: it is at most the amount, {amount}")]
    DepthAboveAmount {
        /// The limit as given.
        text: String,
        /// The depth.
        depth: u64,
        /// The amount.
        amount: u64,
    },
    /// Nothing is left of so small an amount when two are kept back.
    #[error("limit {text:?} is too small for paranoid, which keeps 2 back: the amount is at least 3")]
    ParanoidTooSmall {
        /// The limit as given.
        text: String,
    },
}

impl Limit {
    /// `amount` of `unit` per `window`, of unknown kind.
    ///
    /// # Errors
    /// An amount of zero or above [`AMOUNT_MAX`]; a window of zero, above [`WINDOW_MAX`], or not of whole milliseconds.
    pub fn new(amount: u64, unit: Unit, window: Duration) -> Result<Self, LimitError> {
        Self::checked(amount, unit, window, || format!("{amount} {unit} / {window:?}"))
    }

    /// The same limit, with what is known of how the provider's window behaves.
    ///
    /// # Errors
    /// A bucket deeper than the amount; `paranoid` for an amount of 2 or less.
    pub fn with_kind(self, kind: WindowKind) -> Result<Self, LimitError> {
        self.kinded(kind, || Self { kind, ..self }.to_string())
    }

    /// The amount per window, in [`Limit::unit`].
    #[must_use]
    pub const fn amount(&self) -> u64 {
        self.amount.get()
    }

    /// What is counted.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        self.unit
    }

    /// Over which span.
    #[must_use]
    pub const fn window(&self) -> Duration {
        self.window
    }

    /// How the provider's window behaves.
    #[must_use]
    pub const fn kind(&self) -> WindowKind {
        self.kind
    }

    /// Whether its kind has a bucket beside the window.
    #[inline]
    pub(crate) const fn has_bucket(&self) -> bool {
        matches!(self.kind, WindowKind::Bucket { .. } | WindowKind::Paranoid)
    }

    fn checked(amount: u64, unit: Unit, window: Duration, text: impl Fn() -> String) -> Result<Self, LimitError> {
        let Some(nonzero) = NonZeroU64::new(amount) else { return Err(LimitError::ZeroAmount { text: text() }) };
        if amount > AMOUNT_MAX {
            return Err(LimitError::AmountTooLarge { text: text() });
        }
        if window.is_zero() {
            return Err(LimitError::ZeroWindow { text: text() });
        }
        if window > WINDOW_MAX {
            return Err(LimitError::WindowTooLong { text: text() });
        }
        if !window.subsec_nanos().is_multiple_of(1_000_000) {
            return Err(LimitError::WindowTooFine { text: text() });
        }
        Ok(Self { amount: nonzero, unit, window, kind: WindowKind::Unknown })
    }

    fn kinded(self, kind: WindowKind, text: impl Fn() -> String) -> Result<Self, LimitError> {
        let amount = self.amount();
        match kind {
            WindowKind::Bucket { depth } if depth.get() > amount => {
                Err(LimitError::DepthAboveAmount { text: text(), depth: depth.get(), amount })
            }
            WindowKind::Paranoid if amount <= 2 => Err(LimitError::ParanoidTooSmall { text: text() }),
            _ => Ok(Self { kind, ..self }),
        }
    }
}

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text::parse(text)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::print(self, f)
    }
}

impl TryFrom<String> for Limit {
    type Error = LimitError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Limit> for String {
    fn from(limit: Limit) -> Self {
        limit.to_string()
    }
}
