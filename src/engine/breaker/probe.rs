//! The probe token: while half-open, one attempt tests the provider.
//!
//! A token has an expiry, because a probe whose outcome never comes would otherwise leave the breaker half-open for
//! good. After it the next attempt may take a new token; the late outcome of the old one still counts for what it
//! says, but no longer frees anything.

use std::time::Duration;

use crate::engine::time::Timestamp;

/// A taken token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Probe {
    taken_at: Timestamp,
    pub(super) expires_at: Timestamp,
}

impl Probe {
    /// An attempt starts as the probe.
    pub(super) fn take(now: Timestamp, timeout: Duration) -> Self {
        // A timeout of zero would be no token at all.
        Self { taken_at: now, expires_at: now.after(timeout.max(Duration::from_secs(1))) }
    }

    /// Whether another attempt has to wait for this one.
    pub(super) fn is_live(&self, now: Timestamp) -> bool {
        now < self.expires_at
    }

    /// Whether the outcome of an attempt that started at `sent_at` is this probe's.
    pub(super) fn is_of(&self, sent_at: Timestamp) -> bool {
        sent_at >= self.taken_at
    }
}
