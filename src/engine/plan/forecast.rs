//! What a plan answers.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::constraint::{Constraint, Wall};
use crate::engine::limit::Limit;
use crate::engine::scope::ScopeKind;
use crate::engine::time::Timestamp;

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forecast {
    /// The instant for which it holds.
    pub at: Timestamp,
    /// Operations of the campaign.
    pub count: u64,
    /// When the first of them is sent; `None`: never by itself.
    pub first_send: Option<Timestamp>,
    /// When the last of them is accepted, if none is given up at its deadline; `None`: never by itself.
    pub finish: Option<Timestamp>,
    /// The deadline of an email that names none, `retry.deadline` after the question; of several mailboxes the earliest.
    pub deadline: Timestamp,
    /// How many have not been sent when their mailbox's deadline comes, and are given up then.
    pub past_deadline: u64,
    /// Who sends how much of it: the mailbox that was asked about, then those beside it.
    pub senders: Vec<Sender>,
    /// What holds it for ever, when it does not finish.
    pub blocked_by: Option<Constraint>,
    /// The limit that holds no operation of this cost, when that is why it does not finish.
    pub never_fits: Option<Limit>,
    /// What it waits for, longest first. Of several mailboxes: what at least one of them waits for.
    pub bounds: Vec<Bound>,
    /// Operations that waited already, in every lane.
    pub ahead: u64,
    /// Operations that are not counted: held, of unknown outcome, or with a late instant of their own.
    pub left_out: u64,
    /// How the end was found.
    pub method: Method,
    /// The latency that was assumed.
    pub latency: Duration,
}

/// How the end of a campaign was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Send by send.
    Stepped,
    /// Send by send up to [`STEPS_MAX`](super::STEPS_MAX), and from there at the rate of the last half.
    Extrapolated,
}

/// The part of one mailbox in a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sender {
    /// Which mailbox.
    pub mailbox: Arc<str>,
    /// What it sends of the campaign. Past [`STEPS_MAX`](super::STEPS_MAX) in the same proportions.
    pub count: u64,
}

/// One constraint, and for how long it was the one that bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bound {
    /// What it is.
    pub wall: Wall,
    /// At which scope.
    pub scope: ScopeKind,
    /// For how long in total.
    pub total: Duration,
    /// First from this instant on.
    pub from: Timestamp,
    /// Last until this one.
    pub until: Timestamp,
}

impl Forecast {
    /// The constraint that bound longest.
    #[must_use]
    pub fn binding(&self) -> Option<&Bound> {
        self.bounds.first()
    }

    /// From the question to the end; `None`: it does not finish by itself.
    #[must_use]
    pub fn takes(&self) -> Option<Duration> {
        self.finish.map(|finish| finish.since(self.at))
    }
}
