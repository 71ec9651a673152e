//! What changes when a configuration takes another one's place, and whether a running scheduler can take it.
//!
//! A reload is all or nothing: one key that needs a restart refuses the whole file, because a file that is half in
//! force is one that nobody wrote.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Config;
use super::error::ConfigError;
use super::key::Reload;
use super::keys;

/// One key that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The full key.
    pub key: String,
    /// What it held, as TOML; secrets are left out. `None`: it was not overridden.
    pub from: Option<String>,
    /// What it will hold.
    pub to: Option<String>,
    /// Whether a running scheduler takes it.
    pub reload: Reload,
}

/// Every key that differs between two configurations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigDiff {
    /// In order of their keys' tables, then of mailboxes.
    pub changes: Vec<Change>,
}

impl ConfigDiff {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The keys that need a restart.
    pub fn restart(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.reload == Reload::Restart)
    }
}

impl Config {
    /// What differs if `new` takes the place of `self`.
    #[must_use]
    pub fn diff(&self, new: &Self) -> ConfigDiff {
        let mut changes = Vec::new();
        for key in keys::of_config() {
            let (from, to) = (key.show(self), key.show(new));
            if from != to {
                let (from, to) = (Some(from.to_string()), Some(to.to_string()));
                changes.push(Change { key: key.path, from, to, reload: key.reload });
            }
        }
        let ids: BTreeSet<&Arc<str>> = self.mailboxes.keys().chain(new.mailboxes.keys()).collect();
        for id in ids {
            changes.extend(self.diff_mailbox(new, id));
        }
        ConfigDiff { changes }
    }

    /// Checks that a running scheduler with this configuration can take `new`, and says what changes.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] when `new` is not valid, [`ConfigError::NeedsRestart`] when a key differs that does
    /// not change live. Nothing is changed then.
    pub fn reload(&self, new: &Self) -> Result<ConfigDiff, ConfigError> {
        new.validate()?;
        let diff = self.diff(new);
        let keys: Vec<String> = diff.restart().map(|change| change.key.clone()).collect();
        if keys.is_empty() { Ok(diff) } else { Err(ConfigError::NeedsRestart { keys }) }
    }

    fn diff_mailbox(&self, new: &Self, id: &str) -> Vec<Change> {
        let (old, new) = (self.mailboxes.get(id), new.mailboxes.get(id));
        let shown = |own: Option<&super::MailboxOverride>, key: &str| {
            own.and_then(|own| own.shown(key)).map(|value| value.to_string())
        };
        let names: BTreeSet<&str> = [old, new].into_iter().flatten().flat_map(super::MailboxOverride::names).collect();
        let change = |key: &str| {
            let (from, to) = (shown(old, key), shown(new, key));
            let key = super::mailbox_key(id, key);
            (from != to).then_some(Change { key, from, to, reload: Reload::Live })
        };
        let mut changes: Vec<Change> = names.into_iter().filter_map(change).collect();
        if changes.is_empty() && old.is_some() != new.is_some() {
            // A table without keys still opens or closes the list of mailboxes.
            let word = |own: Option<&super::MailboxOverride>| own.map(|_| "{}".to_owned());
            let key = format!("mailboxes.{}", super::value::quoted(id));
            changes.push(Change { key, from: word(old), to: word(new), reload: Reload::Live });
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MailboxOverride;
    use crate::config::value::Value;
    use crate::engine::Ratio;

    /// Keys that no policy holds: whoever needs one reads it from the configuration in force, each time.
    const READ_IN_PLACE: [&str; 15] = [
        "submit.operation_id_bytes_max",
        "submit.recipients_max",
        "submit.size_max",
        "submit.admission_cooldown_max",
        "submit.admission_keys_max",
        "submit.deadline_max",
        "submit.own_domains",
        "submit.mailboxes",
        "callers.ceiling",
        "callers.overrides",
        "callers.tracked_max",
        "orders.ended_for",
        "orders.ended_max",
        "telemetry.mailbox_redaction",
        "shutdown.drain_deadline",
    ];

    /// Values of every kind; one of them is not the default's.
    fn others() -> Vec<Value> {
        let words = [
            "77s",
            "7s",
            "130s",
            "3%",
            "37%",
            "130%",
            "11%..41%",
            "3MB",
            "none",
            "hash",
            "listed",
            "hard-cap",
            "at-least-once",
        ];
        let texts = words.iter().map(|word| Value::Text((*word).to_owned()));
        let lists = ["7 requests / 7m", "example.org"].map(|text| Value::List(vec![Value::Text(text.to_owned())]));
        [17, 77].map(Value::Integer).into_iter().chain(texts).chain(lists).collect()
    }

    #[test]
    fn every_key_that_is_said_to_change_live_reaches_a_policy_or_is_read_in_place() {
        let policies = |config: &Config| (config.base_policy(), config.shared());
        let mut in_place = BTreeSet::from(READ_IN_PLACE);
        for key in keys::of_config().iter().filter(|key| key.reload == Reload::Live) {
            if in_place.remove(&*key.path) {
                continue;
            }
            let base = Config::default();
            let another = others().into_iter().find_map(|value| {
                let mut config = base.clone();
                key.read(&mut config, &value).ok().filter(|()| key.show(&config) != key.show(&base)).map(|()| config)
            });
            let another = another.unwrap_or_else(|| panic!("{}: no other value for it ({})", key.path, key.allowed));
            assert_ne!(policies(&another), policies(&base), "{} changes nothing", key.path);
        }
        assert!(in_place.is_empty(), "no live keys: {in_place:?}");
    }

    #[test]
    fn limits_and_lanes_change_live() {
        let old = Config::default();
        let mut new = old.clone();
        new.lanes.background_share = Ratio::percent(40);
        new.mailbox.limits.truncate(1);
        let new = new.mailbox_override("a@b.example", MailboxOverride::default().tenant("acme"));
        let diff = old.reload(&new).expect("all of it changes live");
        let keys: Vec<&str> = diff.changes.iter().map(|change| change.key.as_str()).collect();
        assert_eq!(keys, ["mailbox.limits", "lanes.background_share", "mailboxes.\"a@b.example\".tenant"]);
        assert_eq!(diff.changes[1].from.as_deref(), Some("\"50%\""));
        assert_eq!(diff.changes[1].to.as_deref(), Some("\"40%\""));
        assert!(new.reload(&new).expect("nothing differs").is_empty());
    }

    #[test]
    fn store_actors_and_transport_need_a_restart() {
        let old = Config::default();
        let mut new = old.clone();
        new.store.url = "sqlite:other.db".to_owned();
        new.actors.live_max = 2;
        new.transport.graph.batch_max = 20;
        new.retry.backoff = std::time::Duration::from_secs(2);
        let error = old.reload(&new).expect_err("three keys need a restart");
        assert_eq!(
            error.to_string(),
            "these keys change only with a restart: store.url, actors.live_max, transport.graph.batch_max; restart, or set them back"
        );
    }

    #[test]
    fn an_invalid_configuration_is_not_taken_live() {
        let old = Config::default();
        let mut new = old.clone();
        new.lanes.background_share = Ratio::percent(150);
        let error = old.reload(&new).expect_err("150 % is no share");
        assert!(error.to_string().contains("lanes.background_share"), "{error}");
    }

    #[test]
    fn a_changed_secret_is_a_change_that_shows_nothing() {
        let mut old = Config::default();
        old.transport.graph.client_secret = crate::config::Secret::new("hunter2");
        let mut new = old.clone();
        new.transport.graph.client_secret = crate::config::Secret::new("hunter3");
        let diff = old.diff(&new);
        assert_eq!(diff.changes.len(), 1);
        assert!(!format!("{diff:?} {old:?}").contains("hunter"), "{diff:?}");
    }
}
