//! The shared scopes: the application and its tenants.

mod io;

pub use io::{Asker, Effect, Input, MailboxKey};

use std::sync::Arc;

use super::breaker::BreakerFacts;
use super::policy::SharedPolicy;
use super::scope::Scope;
use super::time::Timestamp;

/// The engine of the shared scopes: one decision over the application and the tenant, all or nothing.
#[derive(Debug)]
pub struct Shared {
    policy: Arc<SharedPolicy>,
}

impl Shared {
    /// An engine with nothing in it.
    #[must_use]
    pub fn new(policy: Arc<SharedPolicy>) -> Self {
        Self { policy }
    }

    /// Takes one input.
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        let _ = (now, input, &self.policy);
    }

    /// The next effect to perform.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        None
    }

    /// When to come back with [`Input::Wake`].
    #[must_use]
    pub fn poll_deadline(&self) -> Option<Timestamp> {
        None
    }

    /// The breakers of the shared scopes that are not quiet.
    #[must_use]
    pub fn breakers(&self, now: Timestamp) -> Vec<(Scope, BreakerFacts)> {
        let _ = now;
        Vec::new()
    }
}
