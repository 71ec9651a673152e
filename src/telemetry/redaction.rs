//! How the ids of mailboxes and tenants appear in `tracing` events.

use std::fmt;
use std::hash::Hasher;

use super::hold::HeldScope;
use crate::engine::Scope;

/// What becomes of a mailbox or tenant id on its way into a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Redaction {
    /// Shown.
    #[default]
    AsIs,
    /// Replaced by sixteen hexadecimal digits (64-bit FNV-1a), the same for the same id in every process.
    ///
    /// A pseudonym, not a secret: whoever can guess an address can compute its digits. Take
    /// [`Redaction::Omitted`] where that matters.
    Hashed,
    /// Left out: the kind of scope is all that remains.
    Omitted,
}

/// A mailbox or tenant id, as it may be shown.
pub(super) struct ShownId<'a>(pub(super) &'a str, pub(super) Redaction);

impl fmt::Display for ShownId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Redaction::AsIs => f.write_str(self.0),
            Redaction::Hashed => write!(f, "{:016x}", fnv1a(self.0.as_bytes())),
            Redaction::Omitted => f.write_str("-"),
        }
    }
}

/// What a store said about a mailbox, whose id it may have named.
pub(super) struct ShownWords<'a> {
    pub(super) words: &'a str,
    pub(super) mailbox: &'a str,
    pub(super) redaction: Redaction,
}

impl fmt::Display for ShownWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.redaction == Redaction::AsIs || self.mailbox.is_empty() {
            return f.write_str(self.words);
        }
        for (place, part) in self.words.split(self.mailbox).enumerate() {
            if place > 0 {
                ShownId(self.mailbox, self.redaction).fmt(f)?;
            }
            f.write_str(part)?;
        }
        Ok(())
    }
}

/// A scope, as it may be shown.
pub(super) struct ShownScope<'a>(pub(super) &'a Scope, pub(super) Redaction);

impl fmt::Display for ShownScope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Scope::Application => f.write_str("application"),
            Scope::Mailbox(_) | Scope::Tenant(_) if self.1 == Redaction::Omitted => self.0.kind().fmt(f),
            Scope::Mailbox(id) => write!(f, "mailbox:{}", ShownId(id, self.1)),
            Scope::Tenant(id) => write!(f, "tenant:{}", ShownId(id, self.1)),
        }
    }
}

/// What a hold stops, as it may be shown. An operation's id is in other events as it is.
pub(super) struct ShownHold<'a>(pub(super) &'a HeldScope, pub(super) Redaction);

impl fmt::Display for ShownHold<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.id {
            Some(id) if self.0.kind != "operation" && self.1 != Redaction::Omitted => {
                write!(f, "{}:{}", self.0.kind, ShownId(id, self.1))
            }
            Some(_) if self.0.kind != "operation" => f.write_str(self.0.kind),
            Some(_) | None => self.0.fmt(f),
        }
    }
}

/// FNV-1a over the bytes themselves: `Hash for str` would append 0xff and give another, unpublished value.
fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(redaction: Redaction) -> [String; 3] {
        [Scope::Mailbox("a".into()), Scope::Tenant("acme".into()), Scope::Application]
            .map(|scope| ShownScope(&scope, redaction).to_string())
    }

    #[test]
    fn an_id_as_it_is_matches_the_scope_s_own_word() {
        assert_eq!(shown(Redaction::AsIs), ["mailbox:a", "tenant:acme", "application"]);
    }

    #[test]
    fn a_hashed_id_is_the_published_fnv_1a_vector() {
        assert_eq!(shown(Redaction::Hashed)[0], "mailbox:af63dc4c8601ec8c");
        assert!(!shown(Redaction::Hashed)[1].contains("acme"));
    }

    #[test]
    fn an_omitted_id_leaves_the_kind_of_scope() {
        assert_eq!(shown(Redaction::Omitted), ["mailbox", "tenant", "application"]);
    }
}
