//! What can be shown of a mailbox.

use std::time::Duration;

use crate::engine::breaker::BreakerFacts;
use crate::engine::constraint::Constraint;
use crate::engine::limit::Limit;
use crate::engine::scope::Scope;

/// The facts of one mailbox, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxFacts {
    /// Which mailbox.
    pub scope: Scope,
    /// Waiting operations per lane, foreground first.
    pub waiting: [u32; 2],
    /// The age of the oldest per lane.
    pub oldest: [Option<Duration>; 2],
    /// Attempts in flight per lane.
    pub in_flight: [u32; 2],
    /// Most in flight now.
    pub concurrency: Option<u32>,
    /// One row per limit.
    pub windows: Vec<WindowFacts>,
    /// The breaker's word.
    pub breaker: BreakerFacts,
    /// What the next send waits for, if anything waits.
    pub constraints: Vec<Constraint>,
}

/// The use of one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowFacts {
    /// The declared limit.
    pub limit: Limit,
    /// The amount in force: learned ceiling and foreign use taken off.
    pub effective: u64,
    /// Used, per lane, foreground first.
    pub used: [u64; 2],
    /// Kept back for foreground.
    pub reserve: u64,
}
