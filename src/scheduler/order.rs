//! An order: why somebody steps in, who it is, and for how long.
//!
//! One type for every order, so that none of them grows a list of arguments and each carries the same facts. What an
//! order has no use for is refused and not ignored: an operator who sets an expiry believes in it.

use std::sync::Arc;
use std::time::Duration;

use super::error::AskError;
use crate::submission::{self, InvalidSubmission, LABEL_BYTES_MAX, REASON_BYTES_MAX};

/// Shortest watch: what is watched for less is not watched (`resume.watch` has the same bound).
const WATCH_MIN: Duration = Duration::from_secs(1);

/// Why somebody steps in, and who.
///
/// The words are for people: they are shown with what was ordered, and are in no event.
///
/// ```
/// use std::time::Duration;
///
/// use mailweir::scheduler::Order;
///
/// let order = Order::new("the list is wrong").by("kim").expires_in(Duration::from_secs(900));
/// # assert!(format!("{order:?}").contains("kim"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub(super) reason: Arc<str>,
    pub(super) by: Option<Arc<str>>,
    pub(super) expires_in: Option<Duration>,
    pub(super) deadline: Option<Duration>,
    pub(super) watch: Option<Duration>,
}

/// What an order has a use for, beside reason and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// It is done once.
    Nothing,
    /// It is in force for a while.
    Expiry,
    /// It gives an operation time.
    Deadline,
    /// It is in force for a while, and watched.
    Watch,
}

impl Order {
    /// An order with its reason: one line of at most [`REASON_BYTES_MAX`] bytes.
    #[must_use]
    pub fn new(reason: impl Into<Arc<str>>) -> Self {
        Self { reason: reason.into(), by: None, expires_in: None, deadline: None, watch: None }
    }

    /// Who orders it: one line of at most [`LABEL_BYTES_MAX`] bytes.
    #[must_use]
    pub fn by(mut self, who: impl Into<Arc<str>>) -> Self {
        self.by = Some(who.into());
        self
    }

    /// How long it is in force, for holds and trips; without it, `breaker.manual_expiry`. Orders that are done once
    /// refuse it.
    #[must_use]
    pub const fn expires_in(mut self, span: Duration) -> Self {
        self.expires_in = Some(span);
        self
    }

    /// A new deadline of the operation, counted from now, for a release; at most `submit.deadline_max`. Other orders refuse
    /// it.
    #[must_use]
    pub const fn deadline(mut self, span: Duration) -> Self {
        self.deadline = Some(span);
        self
    }

    /// For how long what goes first is watched before the rest follows, for resuming a part of a hold; without it,
    /// `resume.watch`. A second at least. Other orders refuse it.
    #[must_use]
    pub const fn watch(mut self, span: Duration) -> Self {
        self.watch = Some(span);
        self
    }

    /// Whether it can be given as it is.
    pub(super) fn judge(&self, takes: Takes) -> Result<(), AskError> {
        let by = self.by.as_ref().map_or(Ok(()), |by| submission::id("by", by, LABEL_BYTES_MAX));
        submission::id("reason", &self.reason, REASON_BYTES_MAX).and(by).map_err(AskError::Invalid)?;
        let in_force = matches!(takes, Takes::Expiry | Takes::Watch);
        let expiry = (self.expires_in.is_some() && !in_force).then_some("expires_in");
        let watch = (self.watch.is_some() && takes != Takes::Watch).then_some("watch");
        if let Some(span) = self.watch.filter(|span| watch.is_none() && *span < WATCH_MIN) {
            let span_min = WATCH_MIN;
            return Err(AskError::Invalid(InvalidSubmission::TooShort { field: "watch", span, span_min }));
        }
        let deadline = (self.deadline.is_some() && takes != Takes::Deadline).then_some("deadline");
        match expiry.or(deadline).or(watch) {
            Some(field) => Err(AskError::Invalid(InvalidSubmission::Useless { field })),
            None => Ok(()),
        }
    }
}
