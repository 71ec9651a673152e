//! Overrides of single mailboxes, and the policies that come out.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Config;
use super::error::{ConfigError, Invalid, Problem, ProblemKind};
use super::key::Key;
use super::keys;
use super::value::Value;
use crate::engine::Limit;
use crate::engine::policy::{MailboxPolicy, SharedPolicy};

/// The one key of a mailbox's table that is no part of its policy.
pub(crate) const TENANT: &str = "tenant";

/// What one mailbox does differently. Everything else it takes from the base tables, also after a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MailboxOverride {
    /// The tenant of its operations when a submission names none.
    pub tenant: Option<Arc<str>>,
    /// By key.
    values: BTreeMap<String, Value>,
}

impl MailboxOverride {
    /// Other limits. They replace the base limits; they are not added to them.
    #[must_use]
    pub fn limits(mut self, limits: impl IntoIterator<Item = Limit>) -> Self {
        let list = limits.into_iter().map(|limit| Value::Text(limit.to_string())).collect();
        self.values.insert("limits".to_owned(), Value::List(list));
        self
    }

    /// Another number of attempts in flight at once; `None`: not limited.
    #[must_use]
    pub fn concurrency(mut self, most: Option<std::num::NonZeroU32>) -> Self {
        let value = most.map_or(Value::Text("unlimited".to_owned()), |most| Value::Integer(most.get().into()));
        self.values.insert("concurrency".to_owned(), value);
        self
    }

    /// Another tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<Arc<str>>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Any key of a mailbox's table, such as `lanes.background_share`, spelled as in TOML but without quotes: `30%`.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] when there is no such key or the value does not fit it.
    pub fn set(mut self, key: &str, text: &str) -> Result<Self, ConfigError> {
        let value = text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Integer);
        let known = keys::of_mailbox();
        let problem = |kind, detail: String, allowed: String| {
            let value = value.to_string();
            Invalid::in_code(vec![Problem { kind, key: key.to_owned(), place: None, value, detail, allowed }])
        };
        let Some(found) = known.iter().find(|known| known.path == key) else {
            let allowed = known.iter().map(|known| known.path.as_str()).collect::<Vec<_>>().join(", ");
            return Err(problem(ProblemKind::UnknownKey, "no such key of a mailbox".to_owned(), allowed).into());
        };
        let mut trial = MailboxPolicy::default();
        found.read(&mut trial, &value).map_err(|wrong| problem(wrong.kind, wrong.detail, found.allowed.clone()))?;
        self.values.insert(key.to_owned(), found.show(&trial));
        Ok(self)
    }

    /// Puts a value that was read under `key`.
    #[cfg(feature = "config")]
    pub(crate) fn put(&mut self, key: &str, value: Value) {
        self.values.insert(key.to_owned(), value);
    }

    /// The keys that differ and what they hold.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Every key that differs, the tenant included.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str).chain(self.tenant.is_some().then_some(TENANT))
    }

    /// What `key` holds, if it is overridden.
    pub(crate) fn shown(&self, key: &str) -> Option<Value> {
        if key == TENANT {
            return self.tenant.as_ref().map(|tenant| Value::Text(tenant.to_string()));
        }
        self.values.get(key).cloned()
    }

    /// Whether `key` is overridden.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.values.contains_key(key) || (key == TENANT && self.tenant.is_some())
    }

    /// `base` with the overrides applied. A value that does not fit its key changes nothing: [`Config::validate`]
    /// reports it.
    pub(crate) fn apply(&self, base: &MailboxPolicy, known: &[Key<MailboxPolicy>]) -> MailboxPolicy {
        let mut policy = base.clone();
        for key in known {
            if let Some(value) = self.values.get(&key.path) {
                let _ = key.read(&mut policy, value);
            }
        }
        policy
    }
}

/// The engine's policies of one configuration. Mailboxes without a table share one policy.
#[derive(Clone, Debug)]
pub struct Policies {
    base: Arc<MailboxPolicy>,
    own: BTreeMap<Arc<str>, Arc<MailboxPolicy>>,
    shared: Arc<SharedPolicy>,
}

impl Policies {
    pub(crate) fn of(config: &Config) -> Self {
        let base = Arc::new(config.base_policy());
        let known = keys::of_mailbox();
        let own = config.mailboxes.iter().map(|(id, own)| (Arc::clone(id), Arc::new(own.apply(&base, &known))));
        Self { own: own.collect(), shared: Arc::new(config.shared()), base }
    }

    /// The policy of a mailbox: the base tables with its own table over them.
    #[must_use]
    pub fn mailbox(&self, id: &str) -> Arc<MailboxPolicy> {
        Arc::clone(self.own.get(id).unwrap_or(&self.base))
    }

    /// The policy of the shared scopes.
    #[must_use]
    pub fn shared(&self) -> Arc<SharedPolicy> {
        Arc::clone(&self.shared)
    }
}
