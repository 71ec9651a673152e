//! Notes: what has to outlive the process beside the operations, each with its end.
//!
//! One small shape for all of them, so that a further store needs one table or one hash: a key, an instant at which
//! it is over, a body that the store only carries. The last word about a key wins; saying it twice changes nothing.
//! What is over is forgotten by and by, so a reader looks at `until`.
//!
//! Admission keys are callers' words, and may name a person. They are kept as a hash under a secret that is drawn when
//! the store is made ([`KeySecret`]), never as they are.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::engine::breaker::BreakerMemory;
use crate::engine::crashes::CrashNote;
use crate::engine::operation::{OrderWords, Requested};
use crate::engine::{Cost, Lane, Leaves, OperationKey, Scope, Timestamp, TripReason};

/// What a note is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NoteKind {
    /// An operator's hold; named by its scope.
    Hold,
    /// A breaker that an operator has opened by hand; named by its scope.
    Trip,
    /// What a breaker remembers; named by its scope.
    Breaker,
    /// What a permit took; named by its number.
    Permit,
    /// An admission key and the operation it admitted; named by its hash.
    Admission,
    /// How a hold or a breaker opened by hand ended, or will end by itself, for people; named by that instant and its scope.
    #[serde(rename = "lifted")]
    Ended,
    /// An order that waits for the end of an attempt; named by the operation's key.
    Request,
    /// How often an operation has crashed its worker; named by its key.
    Crash,
}

impl NoteKind {
    /// Every kind. Stores may keep the place in this list: it is only ever added to.
    pub const ALL: [Self; 8] =
        [Self::Hold, Self::Trip, Self::Breaker, Self::Permit, Self::Admission, Self::Ended, Self::Request, Self::Crash];

    /// Whether a store's bound on notes holds for it. What callers bring does: permits and admission keys. Orders and
    /// breakers always have room: they are what stops the sending, and their own bounds are small (10,000 orders of
    /// either kind and the end of each, one memory per scope, `orders.ended_max` orders that have ended, one request per attempt that is live or unknown,
    /// one count per operation that was on its way when a process died or that has panicked).
    #[must_use]
    pub const fn needs_room(self) -> bool {
        matches!(self, Self::Permit | Self::Admission)
    }

    /// The name in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Trip => "trip",
            Self::Breaker => "breaker",
            Self::Permit => "permit",
            Self::Admission => "admission",
            Self::Ended => "ended",
            Self::Request => "request",
            Self::Crash => "crash",
        }
    }
}

/// Names a note. Of two with the same key the later one counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NoteKey {
    /// What it is about.
    pub kind: NoteKind,
    /// The mailbox that reads it back; `None`: no single one.
    pub mailbox: Option<Arc<str>>,
    /// Its name within kind and mailbox.
    pub name: Arc<str>,
}

/// One note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its name.
    pub key: NoteKey,
    /// When it was written. Also the store's clock for forgetting.
    pub at: Timestamp,
    /// When it is over.
    pub until: Timestamp,
    /// What it says.
    pub body: NoteBody,
}

/// What a note says. Kept as it is: a field that is added later has a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NoteBody {
    /// A hold or a trip.
    Order(OrderNote),
    /// A breaker's memory.
    Breaker(Box<BreakerMemory>),
    /// A permit's charge.
    Permit(PermitNote),
    /// The operation that a key has admitted.
    Admission(AdmissionNote),
    /// An order, and how it ends.
    #[serde(rename = "lifted")]
    Ended(Box<EndedNote>),
    /// What is asked for, and why.
    Request(Box<RequestNote>),
    /// How often it crashed its worker.
    Crash(CrashNote),
}

/// An operator's order, in the operator's words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderNote {
    /// Why.
    pub reason: Arc<str>,
    /// Who gave it, if they said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// Of a hold that is lifted in part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub widening: Option<Box<WideningNote>>,
}

/// How a hold is lifted in part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WideningNote {
    /// Why.
    pub reason: Arc<str>,
    /// Who ordered it, if they said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// How many go first.
    pub first: u64,
    /// The last of them.
    pub through: OperationKey,
    /// For how long it is watched after that, in milliseconds.
    pub watch_ms: u64,
    /// Which scope was throttled or failed, and which of the two: nothing more goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<(Scope, TripReason)>,
}

/// How an order came to its end, or comes to it by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedNote {
    /// The order that was in force until then, if it was a person's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordered: Option<OrderNote>,
    /// The order that ended it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifted: Option<OrderNote>,
    /// How it ended.
    pub how: EndedHow,
    /// When the order was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When it was to end by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// When it ended. To come, while it is in force; `None`: when this was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// How an order came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndedHow {
    /// By an order to lift all of it.
    #[serde(alias = "order")]
    Lifted,
    /// By an order to lift a part of it, which went well.
    Part,
    /// By a later order in its place.
    Replaced,
    /// Its time was over.
    Expired,
}

impl EndedHow {
    /// The name in events and in stores.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lifted => "lifted",
            Self::Part => "part",
            Self::Replaced => "replaced",
            Self::Expired => "expired",
        }
    }
}

/// What a permit took: an attempt of no operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermitNote {
    /// Its number, unique among operations and permits of one process.
    pub key: OperationKey,
    /// The lane.
    pub lane: Lane,
    /// The tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Arc<str>>,
    /// What it took.
    pub cost: Cost,
    /// When it was granted.
    pub claimed_at: Timestamp,
    /// When it was settled; `None`: not known to have ended.
    #[serde(default)]
    pub finished_at: Option<Timestamp>,
    /// What of it counts on since then, by the release table.
    #[serde(default, skip_serializing_if = "is_all")]
    pub leaves: Leaves,
}

/// Most permits: not written then.
fn is_all(leaves: &Leaves) -> bool {
    *leaves == Leaves::All
}

/// What an admission key has admitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionNote {
    /// The operation's id.
    pub id: Arc<str>,
}

/// What a person wants of an operation whose attempt is live or unknown: done when that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestNote {
    /// What.
    pub wants: Requested,
    /// Why, and who.
    pub order: Arc<OrderWords>,
}

/// One change of what is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoteChange {
    /// Keeps a note, in place of an earlier one with its key.
    Keep(Note),
    /// Forgets the note with this key, if there is one.
    Drop(NoteKey),
}

impl NoteChange {
    /// When it was said, where that counts.
    #[cfg(feature = "sqlite")]
    pub(super) const fn at(&self) -> Option<Timestamp> {
        match self {
            Self::Keep(note) => Some(note.at),
            Self::Drop(_) => None,
        }
    }

    /// Which note it is about.
    #[must_use]
    pub const fn key(&self) -> &NoteKey {
        match self {
            Self::Keep(note) => &note.key,
            Self::Drop(key) => key,
        }
    }
}

/// The secret under which a store hashes admission keys: drawn at random when the store is made, and kept in it.
///
/// It protects the keys from whoever sees notes without it (a view, an export, a log, a part of a file) and makes
/// hashes of two stores, or of two mailboxes, incomparable. Who has the whole file has the secret too: then keys cannot
/// be read back, but a guess can be tested, so a guess that is easy stays easy. Keep the file as you keep the emails in
/// it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KeySecret([u8; 32]);

/// A hashed admission key: 128 bits of BLAKE3 in its keyed mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash([u8; 16]);

impl KeySecret {
    /// The secret made of these bytes, which nobody can guess.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Bytes that nobody can guess.
    pub(super) fn random_bytes() -> [u8; 32] {
        let mut bytes = [0; 32];
        for part in bytes.chunks_exact_mut(8) {
            part.copy_from_slice(&RandomState::new().build_hasher().finish().to_le_bytes());
        }
        bytes
    }

    /// The hash of an admission key of a mailbox and a tenant. Tenants that share a mailbox choose their keys without
    /// knowing of each other.
    #[must_use]
    pub fn hash(&self, mailbox: &str, tenant: Option<&str>, key: &str) -> KeyHash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for part in [Some(mailbox), tenant] {
            let length = part.map_or(u64::MAX, |part| part.len() as u64);
            hasher.update(&length.to_le_bytes()).update(part.unwrap_or_default().as_bytes());
        }
        hasher.update(key.as_bytes());
        let mut hash = [0; 16];
        hasher.finalize_xof().fill(&mut hash);
        KeyHash(hash)
    }
}

impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySecret")
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl KeyHash {
    /// The hash that [`KeyHash`] prints as `text`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let whole = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        whole.then(|| u128::from_str_radix(text, 16).ok()).flatten().map(|number| Self(number.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_tells_secrets_mailboxes_tenants_and_keys_apart_and_is_read_as_it_is_printed() {
        let (one, two) = (KeySecret::new([1; 32]), KeySecret::new([2; 32]));
        let hashes = [
            one.hash("a", None, "bc"),
            one.hash("ab", None, "c"),
            one.hash("a", None, "c"),
            two.hash("a", None, "bc"),
            one.hash("a", Some("b"), "c"),
            one.hash("a", Some("bc"), ""),
            one.hash("a", Some(""), "bc"),
        ];
        for (at, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..at].contains(hash));
            assert_eq!(KeyHash::parse(&hash.to_string()), Some(*hash));
        }
        assert_eq!(one.hash("a", None, "bc"), hashes[0]);
        assert_eq!(KeyHash::parse("+0000000000000000000000000000000"), None);
        assert_eq!(format!("{one:?}"), "KeySecret");
    }
}
