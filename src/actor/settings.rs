//! The configuration in force, with the engine policies that follow from it.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use super::past;
use crate::config::{Config, ConfigError, Policies, show_duration};
use crate::engine::policy::{MailboxPolicy, ScopePolicy, SharedPolicy};
use crate::engine::{Limit, ScopeKind, Timestamp, WindowKind};
use crate::store::{Horizons, Store};

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    policies: Policies,
    /// This process's part of what is shared, where there are several.
    part: Option<Arc<SharedPolicy>>,
}

/// A limit that all processes share cannot be divided among them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} {value} of {scope} cannot be kept by {processes_max} processes, each with a part of it; raise it, or lower \
     fleet.processes_max"
)]
pub struct NoPart {
    /// Whose it is.
    pub scope: ScopeKind,
    /// `limit` or `concurrency`.
    pub what: &'static str,
    /// As it is configured.
    pub value: String,
    /// Into how many parts it had to be divided.
    pub processes_max: u32,
}

/// The store forgets attempts before a limit does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the limit {limit} of {scope} counts attempts for up to {}, and the {store} store keeps them for {}: a restart would \
     forget the rest of the window; give the store a longer attempts_for (store.sqlite.attempts_for or \
     store.redis.attempts_for), or shorten the window",
    show_duration(*.counts_for), show_duration(*.kept_for)
)]
pub struct Forgets {
    /// Whose limit it is.
    pub scope: ScopeKind,
    /// The limit.
    pub limit: String,
    /// How long an attempt counts at most, from its claim on.
    pub counts_for: Duration,
    /// Which store, as it calls itself.
    pub store: &'static str,
    /// How long it keeps attempts.
    pub kept_for: Duration,
}

impl Settings {
    /// Judges whether a store keeps attempts for as long as they count.
    ///
    /// # Errors
    /// When it does not.
    pub(crate) fn judge_store(&self, store: &dyn Store) -> Result<(), Forgets> {
        let (kept_for, guard) = (store.attempts_for(), &self.config.guard);
        let own: Vec<Arc<MailboxPolicy>> = self.config.mailboxes.keys().map(|id| self.mailbox(id)).collect();
        let scopes = [
            (ScopeKind::Application, &self.config.application),
            (ScopeKind::Tenant, &self.config.tenant),
            (ScopeKind::Mailbox, &self.config.mailbox),
        ];
        let scopes = scopes.into_iter().chain(own.iter().map(|policy| (ScopeKind::Mailbox, &policy.scope)));
        for (scope, limit) in scopes.flat_map(|(scope, of)| of.limits.iter().map(move |limit| (scope, limit))) {
            let counts_for = past::counts_for(limit.window(), guard);
            if counts_for > kept_for {
                let (limit, store) = (limit.to_string(), store.kind());
                return Err(Forgets { scope, limit, counts_for, store, kept_for });
            }
        }
        Ok(())
    }

    /// # Errors
    /// When a bound or a rule between keys is not kept.
    pub(crate) fn new(config: Config) -> Result<Self, ConfigError> {
        let policies = config.policies()?;
        Ok(Self { config, policies, part: None })
    }

    /// The same for one of several processes: it keeps its part of every shared limit.
    ///
    /// # Errors
    /// When a limit has no part for each.
    pub(crate) fn in_parts(self) -> Result<Self, NoPart> {
        let parts = self.config.fleet.processes_max;
        let mut shared = SharedPolicy::clone(&self.policies.shared());
        divide(&mut shared.application, ScopeKind::Application, parts)?;
        divide(&mut shared.tenant, ScopeKind::Tenant, parts)?;
        Ok(Self { part: Some(Arc::new(shared)), ..self })
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
        self.part.as_ref().map_or_else(|| self.policies.shared(), Arc::clone)
    }
}

fn divide(of: &mut ScopePolicy, scope: ScopeKind, parts: NonZeroU32) -> Result<(), NoPart> {
    let none = |what, value: String| NoPart { scope, what, value, processes_max: parts.get() };
    for limit in &mut of.limits {
        let each = NonZeroU64::from(parts);
        let kind = match limit.kind() {
            WindowKind::Bucket { depth } => {
                NonZeroU64::new(depth.get() / each).map(|depth| WindowKind::Bucket { depth })
            }
            kind => Some(kind),
        };
        let part = Limit::new(limit.amount() / each, limit.unit(), limit.window()).ok();
        let part = part.zip(kind).and_then(|(part, kind)| part.with_kind(kind).ok());
        *limit = part.ok_or_else(|| none("limit", limit.to_string()))?;
    }
    if let Some(most) = of.concurrency {
        let part = NonZeroU32::new(most.get() / parts.get());
        of.concurrency = Some(part.ok_or_else(|| none("concurrency", most.to_string()))?);
    }
    Ok(())
}
