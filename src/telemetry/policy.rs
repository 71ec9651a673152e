//! What a mailbox does without its store, as events name it.

use serde::Serialize;

/// What goes on while a store does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StorePolicy {
    /// Sending goes on at half the budget.
    Half,
    /// Sending stops.
    Pause,
    /// Sending goes on at a trickle.
    Trickle,
}

impl StorePolicy {
    /// The name in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Half => "half",
            Self::Pause => "pause",
            Self::Trickle => "trickle",
        }
    }
}
