//! The configuration in force, with the engine policies that follow from it.

use std::sync::Arc;

use super::past;
use crate::config::{Config, ConfigError, Policies};
use crate::engine::Timestamp;
use crate::engine::policy::{MailboxPolicy, SharedPolicy};
use crate::store::Horizons;

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    policies: Policies,
}

impl Settings {
    /// # Errors
    /// When a bound or a rule between keys is not kept.
    pub(crate) fn new(config: Config) -> Result<Self, ConfigError> {
        let policies = config.policies()?;
        Ok(Self { config, policies })
    }

    pub(crate) fn mailbox(&self, id: &str) -> Arc<MailboxPolicy> {
        self.policies.mailbox(id)
    }

    /// How far back attempts can count anywhere.
    pub(crate) fn horizon(&self, now: Timestamp) -> Timestamp {
        let own = self.config.mailboxes.keys().map(|id| self.mailbox(id));
        let own: Vec<Arc<MailboxPolicy>> = own.collect();
        let scopes = [&self.config.mailbox, &self.config.tenant, &self.config.application];
        let scopes = scopes.into_iter().chain(own.iter().map(|policy| &policy.scope));
        past::horizon_of(now, scopes, &self.config.guard)
    }

    /// How far back attempts can count for a tenant or the application.
    pub(crate) fn shared_horizon(&self, now: Timestamp) -> Timestamp {
        past::horizon_of(now, [&self.config.tenant, &self.config.application].into_iter(), &self.config.guard)
    }

    pub(crate) fn horizons(&self, now: Timestamp) -> Horizons {
        Horizons { mailboxes: self.horizon(now), shared: self.shared_horizon(now) }
    }

    pub(crate) fn shared(&self) -> Arc<SharedPolicy> {
        self.policies.shared()
    }
}
