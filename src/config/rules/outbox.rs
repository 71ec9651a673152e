//! What is set must be of the store that the URL names, and what a store keeps must fit together.

use super::{Broken, not_above};
use crate::config::Config;
use crate::config::error::{Problem, ProblemKind};
use crate::config::key::Key;
use crate::config::outbox::StoreConfig;
use crate::redact::without_credentials;

pub(super) const URL: &str = "store.url";
const PREFIX: &str = "store.redis.prefix";

/// The tables below `[store]`, with a URL that would make each of them count.
const KINDS: [(&str, &str); 3] =
    [("memory", "memory:"), ("sqlite", "sqlite:PATH"), ("redis", "redis://USER:PASSWORD@HOST:PORT/DATABASE")];

pub(super) fn of_store(store: &StoreConfig) -> Vec<Broken> {
    let sqlite = &store.sqlite;
    let order = ("store.sqlite.payloads_for", sqlite.payloads_for, "store.sqlite.ended_for", sqlite.ended_for);
    let mut broken: Vec<Broken> = not_above(order).into_iter().collect();
    let prefix = &store.redis.prefix;
    let spelled = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if prefix.is_empty() || !prefix.chars().all(spelled) {
        broken.push(Broken {
            kind: ProblemKind::Malformed,
            keys: vec![PREFIX],
            detail: "it stands before every key, and braces or spaces there would mix outboxes up".to_owned(),
            allowed: "1 to 32 letters, digits, '-', '_', '.' or ':'".to_owned(),
        });
    }
    let redis = &store.redis;
    if redis.replicas > 0 && redis.replica_wait >= redis.response_timeout {
        broken.push(Broken {
            kind: ProblemKind::Conflict,
            keys: vec!["store.redis.replica_wait", "store.redis.response_timeout"],
            detail: "an answer that waits for replicas would come too late".to_owned(),
            allowed: "less than store.redis.response_timeout".to_owned(),
        });
    }
    if !redis.ca_file.is_empty() && store.kind() == Some("redis") && !store.url.starts_with("rediss") {
        broken.push(Broken {
            kind: ProblemKind::Conflict,
            keys: vec!["store.redis.ca_file", URL],
            detail: "without TLS no certificate is looked at".to_owned(),
            allowed: "\"\", or a store.url that begins with rediss".to_owned(),
        });
    }
    broken
}

/// Settings of a kind of store that the URL does not name: somebody believes that they count. One that holds its default
/// says nothing, so a copy of the documented defaults serves every URL. A URL of no known kind is refused by who opens it.
pub(super) fn of_another_kind(config: &Config, known: &[Key<Config>]) -> Vec<Problem> {
    let Some(named) = config.store.kind() else { return Vec::new() };
    let default = Config::default();
    let mut problems = Vec::new();
    for (kind, url) in KINDS.iter().filter(|(kind, _)| *kind != named) {
        let table = format!("store.{kind}.");
        for key in known.iter().filter(|key| key.path.starts_with(&table)) {
            let value = key.show(config);
            if value == key.show(&default) {
                continue;
            }
            let twin = format!("store.{named}.{}", key.path.trim_start_matches(&table));
            let twin =
                known.iter().find(|key| key.path == twin).map_or_else(String::new, |key| format!(" {},", key.path));
            problems.push(Problem {
                kind: ProblemKind::Conflict,
                key: key.path.clone(),
                place: config.origins.place_in_file(&key.path),
                value: value.to_string(),
                detail: format!(
                    "it is of a {kind} store, and {URL} = {:?} names a {named} store, where it would change nothing",
                    without_credentials(&config.store.url)
                ),
                allowed: format!("no such key with this URL;{twin} or {URL} = {url:?}"),
            });
        }
    }
    problems
}
