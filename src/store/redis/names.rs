//! Names of keys.
//!
//! | key | what | slot |
//! |---|---|---|
//! | `P:{m:MAILBOX}:rows`, `:mail`, `:live`, `:due`, `:end`, `:q:STATE:LANE` | operations of a mailbox: rows, emails, indexes | the mailbox's |
//! | `P:{m:MAILBOX}:tried`, `:tries` | its attempts, by claim: the ledger | the mailbox's |
//! | `P:{m:MAILBOX}:notes`, `:until` | its notes | the mailbox's |
//! | `P:{m:MAILBOX}:lease`, `:inbox`, `:orders`, `:place` | who owns it, and what waits for its owner | the mailbox's |
//! | `P:{g}:…` | notes of no mailbox, the list of mailboxes and ends of leases, members, the secret, the last generation | one |
//! | `P:news` | a channel, no key | |
//! | `P:{i:NN}:ids`, `:pending` | who has an operation id | one of 16 |
//! | `P:{k:NUMBER}` | mailboxes of 64 keys in a row | its own |
//!
//! `P` is the prefix. What stands in braces is what a Cluster hashes, so all keys of one mailbox are in one slot and a
//! script that moves its operations touches no other.

use std::fmt::Write;

use crate::engine::OperationKey;

/// Shards of ids: enough to spread over the nodes of a Cluster, few enough for a batch to share calls.
pub(super) const SHARDS: u64 = 16;
/// Keys in one bucket: as many as Redis keeps in a small hash without overhead.
const BUCKET_BITS: u32 = 6;
/// Bytes of a mailbox's name in a key; a longer one ends in its hash.
const NAME_BYTES_MAX: usize = 128;
/// Longest prefix.
const PREFIX_BYTES_MAX: usize = 32;

/// Names of keys under one prefix.
#[derive(Clone, Debug)]
pub(super) struct Names {
    prefix: String,
}

impl Names {
    /// `None`, when the prefix is not 1 to 32 letters, digits, `-`, `_`, `.` or `:`.
    pub(super) fn new(prefix: &str) -> Option<Self> {
        let fits = (1..=PREFIX_BYTES_MAX).contains(&prefix.len());
        let plain = prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
        (fits && plain).then(|| Self { prefix: prefix.to_owned() })
    }

    /// Base of the keys of a mailbox, or of what belongs to none.
    pub(super) fn base(&self, mailbox: Option<&str>) -> String {
        match mailbox {
            None => format!("{}:{{g}}", self.prefix),
            Some(mailbox) => format!("{}:{{m:{}}}", self.prefix, escaped(mailbox)),
        }
    }

    /// One key of what belongs to no mailbox.
    pub(super) fn global(&self, what: &str) -> String {
        format!("{}:{{g}}:{what}", self.prefix)
    }

    /// The channel of words among members.
    pub(super) fn news(&self) -> String {
        format!("{}:news", self.prefix)
    }

    /// Base of the shard that an id is in.
    pub(super) fn shard(&self, id: &str) -> String {
        self.shard_number(fnv(id.as_bytes()) % SHARDS)
    }

    /// Base of a shard of ids.
    pub(super) fn shard_number(&self, number: u64) -> String {
        format!("{}:{{i:{number:02}}}", self.prefix)
    }

    /// The bucket that a key is in.
    pub(super) fn bucket(&self, key: OperationKey) -> String {
        format!("{}:{{k:{:x}}}", self.prefix, key.0 >> BUCKET_BITS)
    }
}

/// A key as it is written: sorted as text, keys are in order.
pub(super) fn key_text(key: OperationKey) -> String {
    format!("{:016x}", key.0)
}

/// What [`key_text`] wrote.
pub(super) fn key_of(text: &[u8]) -> Option<OperationKey> {
    let text = std::str::from_utf8(text).ok()?;
    u64::from_str_radix(text.get(..16)?, 16).ok().map(OperationKey)
}

fn fnv(bytes: &[u8]) -> u64 {
    use std::hash::Hasher;
    let mut hasher = ::fnv::FnvHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

/// A mailbox's name without what would end a hash tag or a line, and of bounded length.
fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_graphic() && !b"{}%".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02x}");
        }
    }
    if text.len() > NAME_BYTES_MAX {
        let hash = blake3::hash(name.as_bytes()).to_hex();
        text.truncate(NAME_BYTES_MAX - 33);
        text.push('~');
        text.push_str(&hash[..32]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_names_share_a_key_and_none_ends_its_tag_early() {
        let names = Names::new("mailweir").expect("plain");
        let long = "x".repeat(300);
        let mailboxes = ["a", "a}", "a{b}", "a%7d", "a b", "a\nb", "ä", &long, &long[..299]];
        let bases: Vec<String> = mailboxes.iter().map(|mailbox| names.base(Some(mailbox))).collect();
        for (at, base) in bases.iter().enumerate() {
            assert!(!bases[..at].contains(base), "{base}");
            assert_eq!(base.matches(['{', '}']).count(), 2, "{base}");
            assert!(base.ends_with('}') && base.len() <= 160, "{base}");
        }
        assert_eq!(names.base(Some("a@contoso.example")), "mailweir:{m:a@contoso.example}");
        assert_eq!(Names::new("a{b").is_none(), Names::new("").is_none());
    }

    #[test]
    fn keys_are_in_order_as_text() {
        let keys = [0, 9, 10, 255, 1 << 40, u64::MAX].map(OperationKey);
        let texts = keys.map(key_text);
        assert!(texts.is_sorted());
        assert_eq!(texts.each_ref().map(|text| key_of(text.as_bytes())), keys.map(Some));
        assert_eq!(key_of(b"12"), None);
    }
}
