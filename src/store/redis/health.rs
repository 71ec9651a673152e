//! Whether the server lets us in where we have to go, and keeps what it is given.

use redis::Value;

use super::link::Link;
use super::names::Names;
use super::{scripts, value};
use crate::clock::Clock;
use crate::store::StoreError;

/// What the server promises about data, as far as it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisDurability {
    /// Whether every write goes to a file; `None`: it would not say (managed servers refuse `CONFIG`).
    pub appendonly: Option<bool>,
    /// When that file is synced: `always`, `everysec` or `no`.
    pub appendfsync: Option<String>,
    /// What is thrown away when memory is full. Anything but `noeviction` loses emails.
    pub maxmemory_policy: Option<String>,
}

impl RedisDurability {
    /// What a person should know, one sentence each; empty when nothing is wrong.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(policy) = self.maxmemory_policy.as_deref().filter(|policy| *policy != "noeviction") {
            warnings.push(format!(
                "maxmemory-policy is {policy:?}: redis throws emails away when its memory is full; set it to noeviction"
            ));
        }
        match (self.appendonly, self.appendfsync.as_deref()) {
            (Some(false), _) => warnings.push(
                "appendonly is \"no\": what was accepted since the last snapshot is lost when redis stops; set it to yes"
                    .to_owned(),
            ),
            (Some(true), Some("no")) => warnings.push(
                "appendfsync is \"no\": up to half a minute of emails is lost when the machine stops; set it to everysec or always"
                    .to_owned(),
            ),
            _ => {}
        }
        warnings
    }
}

/// Tries every right that a store needs.
///
/// # Errors
/// The rights that its user lacks, all of them at once.
pub(super) async fn rights(link: &Link, names: &Names) -> Result<(), StoreError> {
    // Two that try at one instant would only find what they both put there.
    let name = names.global(&format!("check:{}", link.clock().now().as_micros()));
    let mut command = scripts::call(&scripts::RIGHTS, &[&name]);
    command.arg(names.news());
    let mut missing = Vec::new();
    for name in value::items(link.one(command).await?)? {
        missing.push(String::from_utf8_lossy(&value::some_bytes(Some(name))?).into_owned());
    }
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    let right = |name: &String| if name.starts_with('&') { format!(" {name}") } else { format!(" +{name}") };
    let all: String = missing.iter().map(right).collect();
    let reason =
        format!("the user of store.url lacks rights; give them: ACL SETUSER USER{all} (all of them: docs/redis.md)");
    Err(StoreError::Unusable { reason })
}

/// Asks; a server that does not say is not at fault.
pub(super) async fn ask(link: &Link) -> RedisDurability {
    let ask = |name: &str| {
        let mut command = redis::cmd("CONFIG");
        command.arg("GET").arg(name);
        command
    };
    let commands = ["appendonly", "appendfsync", "maxmemory-policy"].map(ask);
    let mut said = link.run(&commands).await.unwrap_or_default().into_iter().map(|answer| answer.ok().and_then(second));
    let mut next = || said.next().flatten();
    RedisDurability { appendonly: next().map(|said| said == "yes"), appendfsync: next(), maxmemory_policy: next() }
}

/// The value of the one pair in an answer.
fn second(answer: Value) -> Option<String> {
    let answer = value::items(answer).ok()?.into_iter().nth(1)?;
    value::bytes(answer).ok().flatten().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_loses_emails_is_said_and_what_is_not_known_is_not() {
        let said = |appendonly, appendfsync: &str, policy: &str| RedisDurability {
            appendonly: Some(appendonly),
            appendfsync: Some(appendfsync.to_owned()),
            maxmemory_policy: Some(policy.to_owned()),
        };
        assert_eq!(RedisDurability::default().warnings(), Vec::<String>::new());
        assert_eq!(said(true, "everysec", "noeviction").warnings(), Vec::<String>::new());
        assert_eq!(said(true, "no", "noeviction").warnings().len(), 1);
        let both = said(false, "everysec", "allkeys-lru").warnings();
        assert!(both[0].contains("noeviction") && both[1].contains("appendonly"), "{both:?}");
    }
}
