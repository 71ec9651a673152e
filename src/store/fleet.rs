//! Several processes over one store: who owns a mailbox, and how the others reach its owner.
//!
//! A process that has joined is a *member*. At any time at most one member owns a mailbox and decides about it; the
//! others store what is submitted to them and tell the owner. Ownership is a lease: it ends by the store's clock, and
//! its *token* fences whoever still believes in it. Leases, claims and what is posted to a mailbox concern that mailbox
//! alone, so an implementation may keep each mailbox in a place of its own.
//!
//! **Clock.** Every instant in rows, notes and orders is the store's time, which never steps back ([`Joined::time`],
//! [`Renewals::time`]): members go by it, so clocks of machines may differ as they like. A member's clock follows it and
//! never jumps; while the two differ, the member says so ([`Terms::clock`]). Spans
//! ([`Terms`], [`Acquired`]) are measured by the store from when it executes the call. A member counts its lease from
//! *before* the call left, on its monotonic clock, less a margin: it stops before the store lets another one in.
//!
//! **Lost replies.** A call that failed with [`StoreError::Unavailable`] may have been executed. Every call may be made
//! again; each says what a repetition does. Implementations never repeat calls by themselves.
//!
//! **Bounded.** A call that takes longer than the implementation's timeout fails; only [`Fleet::news`] waits.

mod order;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

pub use order::{Landing, Obeyed, Order, OrderBody, OrderId, PersonWord};

use super::{Claim, Inserted, KeySecret, NewOperation, Note, NoteKind, OperationRecord, StoreError};
use crate::email::Email;
use crate::engine::{OperationKey, Scope, Timestamp};

/// Names a member: never given to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberId(pub u64);

/// A mailbox's fencing token: higher than every earlier one of that mailbox, across failovers too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub u64);

/// The place of something in a mailbox's inbox: rising from 1; 0 is before the first. After a failover places may be given
/// out anew, so nothing is forgotten by its place ([`LetterName`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Place(pub u64);

/// What a new member is told.
#[derive(Clone, Debug)]
pub struct Joined {
    /// Its name.
    pub member: MemberId,
    /// Operations and permits of this member get keys above this one. The next 2³² belong to nobody else.
    pub keys_after: OperationKey,
    /// The store's time.
    pub time: Timestamp,
    /// The notes of no mailbox, as [`Fleet::notes`].
    pub notes: Vec<Note>,
    /// Notes of no mailbox that this version cannot read, by kind.
    pub unreadable: BTreeMap<NoteKind, u64>,
    /// Under which admission keys are hashed: one for all members.
    pub secret: KeySecret,
}

/// How long leases last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// A lease ends this long after it was given or renewed, by the store's clock.
    pub ttl: Duration,
    /// So long after its end it is remembered whose it was, and that a mailbox changed hands uncleanly.
    pub memory: Duration,
    /// Whether the member's clock shows the store's time. One whose clock differs stamps what it writes wrongly for the
    /// others, so with each of its renewals the store counts as having just failed over.
    pub clock: Agreement,
}

/// Whether a member's clock shows the store's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// It does, as far as can be told.
    Agrees,
    /// It certainly does not: the store's clock was set, and a member's never jumps.
    Differs,
}

/// What to do about a lease that has run out and was not released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lapsed {
    /// Take the mailbox over.
    TakeOver,
    /// Leave it: its owner may come back any moment. For a member that has just lost and found the store itself.
    Leave,
}

/// A lease as its owner names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Of which mailbox.
    pub mailbox: Arc<str>,
    /// Which one.
    pub token: Token,
}

/// The answer about one mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The caller owns it from now on.
    Owner {
        /// The lease's token.
        token: Token,
        /// How long ago the mailbox last changed hands without having been released, this time included (then zero).
        /// `None`: not within [`Terms::memory`]. A clean release after an unclean change does not wipe it out.
        unclean_ago: Option<Duration>,
        /// How long ago the store last may have forgotten writes: a failover, a restart without its data, a step of its
        /// clock, a renewal of a member whose clock differs. `None`: not within [`Terms::memory`].
        failover_ago: Option<Duration>,
        /// What was last posted to the mailbox.
        inbox: Place,
    },
    /// Another member owns it, or its lapsed lease was to be left.
    Elsewhere {
        /// That lease ends after this, unless it is renewed; zero when it has lapsed.
        ends_in: Duration,
    },
}

/// The answer about one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// It lasts for another [`Terms::ttl`].
    Kept {
        /// What was last posted to the mailbox.
        inbox: Place,
    },
    /// Another token has been given out since, or the lease is not remembered: stop at once.
    Lost,
}

/// The answers to one renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewals {
    /// The store's time.
    pub time: Timestamp,
    /// How many members have called within [`Terms::ttl`], the caller included.
    pub members: u32,
    /// As [`Acquired::Owner`] says it.
    pub failover_ago: Option<Duration>,
    /// One answer per lease, in order.
    pub answers: Vec<Renewed>,
}

/// An attempt row that only the owner may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencedClaim {
    /// The row.
    pub claim: Claim,
    /// The lease under which it is written.
    pub lease: Lease,
}

/// What became of a fenced claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The row is written: this is to be sent.
    Written(Box<Email>),
    /// No such live operation, as `None` of [`Store::claim`](super::Store::claim).
    Gone,
    /// The lease is not the mailbox's latest, or it has run out. No row was written.
    Fenced,
}

/// Something that waits for a mailbox's owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted {
    /// An operation was submitted to another member: its row as it is now.
    Arrived(Box<OperationRecord>),
    /// An order.
    Order(Order),
}

/// Names a letter in its mailbox: one that comes again has the same name, wherever its place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LetterName {
    /// That this operation was submitted.
    Arrived(OperationKey),
    /// This order.
    Order(OrderId),
}

impl Posted {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> LetterName {
        match self {
            Self::Arrived(record) => LetterName::Arrived(record.key),
            Self::Order(order) => LetterName::Order(order.id),
        }
    }
}

/// One thing in a mailbox's inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Its place there.
    pub place: Place,
    /// What it is.
    pub posted: Posted,
}

/// A word among members. It may be lost or come twice: behind each there is something durable to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum News {
    /// Something was posted to this mailbox: its owner reads [`Fleet::inbox`].
    Posted {
        /// The mailbox.
        mailbox: Arc<str>,
    },
    /// An order was obeyed, or not; whoever gave it waits, and gives it again when this does not come.
    Obeyed {
        /// Which.
        order: OrderId,
        /// How.
        answer: Obeyed,
    },
    /// An operation came to an end or became unknown, and its row says so.
    Changed {
        /// Its id.
        id: Arc<str>,
    },
    /// A mailbox was released: whoever has use for it may acquire it.
    Released {
        /// The mailbox.
        mailbox: Arc<str>,
    },
    /// The notes of no mailbox changed: read [`Fleet::notes`].
    Notes,
    /// A shared scope is to rest until then, by [`Fleet::cool`].
    Cooldown {
        /// The tenant or the application.
        scope: Scope,
        /// Until when; the latest of all counts.
        until: Timestamp,
    },
    /// Some may have been missed: look at everything that is durable.
    Missed,
}

/// Who may send the one probe of a shared scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The caller, until its token ends.
    Yours,
    /// Another member; ask again after this.
    Theirs {
        /// When that token ends.
        ends_in: Duration,
    },
}

/// A store that several schedulers work over at once. Every call is about durable things, [`Fleet::publish`] and
/// [`Fleet::news`] excepted.
pub trait Fleet: Debug + Send + Sync + 'static {
    /// Makes the caller a member. Repeated, it makes another one; a member that never calls again costs its name.
    fn join(&self) -> BoxFuture<'_, Result<Joined, StoreError>>;

    /// Acquires mailboxes, one answer each, in order. A mailbox without a lease, or with a released one, is taken
    /// cleanly; one whose lease has run out is taken over as `lapsed` says, uncleanly. Every success gives out a new token.
    ///
    /// Repeated after a lost reply it finds the caller's own lease: that is given to it again, under a new token, and
    /// unclean, since nobody knows what the lost lease was used for.
    fn acquire(
        &self,
        member: MemberId,
        terms: Terms,
        lapsed: Lapsed,
        mailboxes: Arc<[Arc<str>]>,
    ) -> BoxFuture<'_, Result<Vec<Acquired>, StoreError>>;

    /// Prolongs leases. One that has run out is kept all the same if its token is the mailbox's latest: nobody else has
    /// owned it since. An empty list only shows that the member lives, and asks for the time. Repeated, the same again.
    fn renew(
        &self,
        member: MemberId,
        terms: Terms,
        leases: Arc<[Lease]>,
    ) -> BoxFuture<'_, Result<Renewals, StoreError>>;

    /// Gives mailboxes back cleanly: nothing is under way there, and all of it is written. Tells [`News::Released`]. A
    /// lease that is not the latest is passed over. Repeated, nothing.
    fn release(&self, leases: Arc<[Lease]>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// As [`Store::claim`](super::Store::claim), for the owner: whether the lease holds is judged in the same step in which
    /// the row is written, claim by claim. Repeated, the same answers while the lease holds.
    fn claim(&self, batch: Vec<FencedClaim>) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>>;

    /// As [`Store::insert`](super::Store::insert), for members that do not own the mailbox: what is new is posted to the
    /// mailbox in the same step, and [`News::Posted`] told. Posts need not be kept while no lease is remembered that was not
    /// released: the next owner reads every live row. One that has run out may still be renewed, and its owner has read.
    fn submit(&self, batch: Vec<NewOperation>) -> BoxFuture<'_, Result<Vec<Inserted>, StoreError>>;

    /// Posts orders to their mailboxes, and tells [`News::Posted`]. Kept until [`Order::until`], whether or not somebody
    /// owns the mailbox. An order whose id is there already is not posted twice.
    fn post(&self, orders: Vec<Order>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// What is posted to each mailbox, in order, once the letters named are forgotten: those the caller has read. The caller
    /// must own them; for a lease that is not the latest the answer is empty, and nothing is forgotten. Repeated, the same
    /// again.
    fn inbox(&self, read: Vec<(Lease, Vec<LetterName>)>) -> BoxFuture<'_, Result<Vec<Vec<Letter>>, StoreError>>;

    /// Mailboxes with operations that are not final, or with orders posted, that nobody owns: never acquired, released, or
    /// lapsed. At most `limit`, any of them.
    fn orphans(&self, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>>;

    /// The notes of no mailbox: holds, breakers opened by hand, what shared breakers remember.
    fn notes(&self) -> BoxFuture<'_, Result<Vec<Note>, StoreError>>;

    /// Has a shared scope rest until `until`, and answers until when it is to rest by everybody's word: the latest counts.
    /// Tells [`News::Cooldown`] when that became later. `until` may have passed: then this only asks.
    fn cool(&self, scope: Scope, until: Timestamp) -> BoxFuture<'_, Result<Timestamp, StoreError>>;

    /// Asks for the one probe of a shared scope, for `span`. The member that has it is given it again.
    fn probe(&self, member: MemberId, scope: Scope, span: Duration) -> BoxFuture<'_, Result<Probe, StoreError>>;

    /// Tells every member, the caller excepted. May be lost.
    fn publish(&self, member: MemberId, news: Vec<News>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Waits for news for this member, and answers with all there are. Cancel safe: what a dropped call had not answered is
    /// answered by the next. Fails when the store is out of reach; after that, and where more came than were kept,
    /// [`News::Missed`] is the first.
    fn news(&self, member: MemberId) -> BoxFuture<'_, Result<Vec<News>, StoreError>>;
}
