//! The configuration in force, with the engine policies that follow from it.

use std::sync::Arc;

use super::past;
use crate::config::{Config, ConfigError, Policies};
use crate::engine::Timestamp;
use crate::engine::policy::{MailboxPolicy, SharedPolicy};

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

    pub(crate) fn shared(&self) -> Arc<SharedPolicy> {
        self.policies.shared()
    }
}
