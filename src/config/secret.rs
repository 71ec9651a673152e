//! A text that no log, error or printed configuration shows.

use std::fmt;
use std::sync::Arc;

/// A secret. `Debug` shows whether there is one, and nothing of it; there is no `Display`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps `text`.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text itself: for the one place that sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "Secret(none)" } else { "Secret(set)" })
    }
}
