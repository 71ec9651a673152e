//! Several schedulers over one store in memory, for tests under paused time: [`Fleet`] without a network, and with its
//! faults at the flick of a switch.
//!
//! Each scheduler gets a connection of its own ([`MemoryHub::connect`]). A call is executed when it is first polled, and
//! answered a moment later, as one over a network would be.

mod state;

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::Notify;

use super::fleet::{
    Acquired, Claimed, FencedClaim, Fleet, Joined, Lapsed, Lease, Letter, LetterName, MemberId, News, Order, Posted,
    Probe, Renewals, Terms,
};
use super::memory::Image;
use super::{
    Claim, Inserted, MemoryStore, NewOperation, Note, NoteChange, OperationQuery, OperationRecord, Recovery, Store,
    StoreError,
};
use crate::email::Email;
use crate::engine::mailbox::Record;
use crate::engine::{OperationKey, OperationState, Scope, Timestamp};
use state::{Hub, Kept};

/// How long an answer takes.
const LATENCY: Duration = Duration::from_millis(1);

/// The store's clock.
pub type HubClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The store that several schedulers share.
#[derive(Clone)]
pub struct MemoryHub {
    rows: MemoryStore,
    hub: Arc<Mutex<Hub>>,
    clock: HubClock,
    news: Arc<Notify>,
}

/// One scheduler's way to a [`MemoryHub`]. Clones are the same way.
#[derive(Clone)]
pub struct HubStore {
    hub: MemoryHub,
    link: Arc<AtomicU8>,
    /// How long an answer takes, in microseconds.
    latency: Arc<AtomicU64>,
}

/// What becomes of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Link {
    /// They are executed and answered.
    Up = 0,
    /// They are not executed, and fail.
    Down = 1,
    /// They are executed, and fail all the same.
    RepliesLost = 2,
    /// They hang, and are executed when the link is up again: as those of a process that was paused are.
    Frozen = 3,
}

/// A hub as it was.
pub struct HubImage {
    rows: Image,
    hub: Hub,
}

impl MemoryHub {
    /// An empty hub that goes by this clock.
    #[must_use]
    pub fn new(clock: HubClock) -> Self {
        Self { rows: MemoryStore::new(), hub: Arc::default(), clock, news: Arc::default() }
    }

    /// A way to it that works.
    #[must_use]
    pub fn connect(&self) -> HubStore {
        let latency = u64::try_from(LATENCY.as_micros()).unwrap_or(u64::MAX);
        let (link, latency) = (AtomicU8::new(Link::Up as u8), AtomicU64::new(latency));
        HubStore { hub: self.clone(), link: link.into(), latency: latency.into() }
    }

    /// It as it stands: for [`MemoryHub::fail_over`].
    #[must_use]
    pub fn image(&self) -> HubImage {
        HubImage { rows: self.rows.image(), hub: self.hub().clone() }
    }

    /// Forgets everything since an image was taken, and says that this may have happened.
    pub fn fail_over(&self, image: HubImage) {
        self.rows.put_back(image.rows);
        let mut hub = self.hub();
        *hub = image.hub;
        hub.fail_over((self.clock)());
        drop(hub);
        self.news.notify_waiters();
    }

    fn hub(&self) -> MutexGuard<'_, Hub> {
        // Nothing in it panics half-way.
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

impl HubStore {
    /// What becomes of calls from now on.
    pub fn set_link(&self, link: Link) {
        self.link.store(link as u8, Ordering::Release);
        self.hub.news.notify_waiters();
    }

    /// How long answers take from now on; a millisecond at first. Each is as of when its call was made.
    pub fn set_latency(&self, latency: Duration) {
        self.latency.store(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX), Ordering::Release);
    }

    fn is(&self, link: Link) -> bool {
        self.link.load(Ordering::Acquire) == link as u8
    }

    /// Executes a call as the link lets it, and answers a moment later.
    fn call<'a, T: Send + 'a>(
        &'a self,
        execute: impl FnOnce(&'a MemoryHub) -> Result<T, StoreError> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        async move {
            while self.is(Link::Frozen) {
                tokio::time::sleep(LATENCY * 100).await;
            }
            if self.is(Link::Down) {
                return Err(away());
            }
            let lost = self.is(Link::RepliesLost);
            let answer = execute(&self.hub);
            self.hub.news.notify_waiters();
            tokio::time::sleep(Duration::from_micros(self.latency.load(Ordering::Acquire))).await;
            if lost || self.is(Link::Down) { Err(away()) } else { answer }
        }
        .boxed()
    }

    /// The same for a call that the rows answer by themselves.
    fn pass<'a, T: Send + 'a>(
        &'a self,
        call: impl FnOnce(&'a MemoryStore) -> BoxFuture<'a, Result<T, StoreError>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        // They are ready at their first poll.
        self.call(|hub| call(&hub.rows).now_or_never().unwrap_or_else(|| Err(away())))
    }
}

fn away() -> StoreError {
    StoreError::Unavailable { reason: "the hub is out of reach".to_owned() }
}

impl std::fmt::Debug for HubStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HubStore")
    }
}

impl std::fmt::Debug for MemoryHub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemoryHub")
    }
}

impl std::fmt::Debug for HubImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HubImage")
    }
}

impl Store for HubStore {
    fn kind(&self) -> &'static str {
        "hub"
    }

    fn recover(&self, since: Timestamp, mailbox: Option<Arc<str>>) -> BoxFuture<'_, Result<Recovery, StoreError>> {
        self.pass(move |rows| rows.recover(since, mailbox))
    }

    fn insert(&self, batch: Vec<NewOperation>) -> BoxFuture<'_, Result<Vec<Inserted>, StoreError>> {
        self.pass(|rows| rows.insert(batch))
    }

    fn claim(&self, batch: Vec<Claim>) -> BoxFuture<'_, Result<Vec<Option<Email>>, StoreError>> {
        self.pass(|rows| Store::claim(rows, batch))
    }

    fn keep(&self, batch: Arc<[NoteChange]>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.pass(|rows| rows.keep(batch))
    }

    fn record(&self, batch: Arc<[Record]>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.pass(|rows| rows.record(batch))
    }

    fn email(&self, key: OperationKey) -> BoxFuture<'_, Result<Option<Email>, StoreError>> {
        self.pass(move |rows| rows.email(key))
    }

    fn operation(&self, id: &str) -> BoxFuture<'_, Result<Option<OperationRecord>, StoreError>> {
        let id: Arc<str> = Arc::from(id);
        self.call(move |hub| hub.rows.operation(&id).now_or_never().unwrap_or_else(|| Err(away())))
    }

    fn operations(&self, query: OperationQuery) -> BoxFuture<'_, Result<Vec<OperationRecord>, StoreError>> {
        self.pass(|rows| rows.operations(query))
    }

    fn counts(&self) -> BoxFuture<'_, Result<[u64; OperationState::ALL.len()], StoreError>> {
        self.pass(|rows| rows.counts())
    }

    fn fleet(&self) -> Option<Arc<dyn Fleet>> {
        Some(Arc::new(self.clone()))
    }
}

impl Fleet for HubStore {
    fn join(&self) -> BoxFuture<'_, Result<Joined, StoreError>> {
        self.call(|hub| {
            let time = hub.now();
            let member = hub.hub().join(time);
            let secret = hub.rows.secret();
            let keys_after = OperationKey(member.0 << 32);
            Ok(Joined {
                member,
                keys_after,
                time,
                notes: hub.rows.shared_notes(),
                unreadable: Default::default(),
                secret,
            })
        })
    }

    fn acquire(
        &self,
        member: MemberId,
        terms: Terms,
        lapsed: Lapsed,
        mailboxes: Arc<[Arc<str>]>,
    ) -> BoxFuture<'_, Result<Vec<Acquired>, StoreError>> {
        self.call(move |hub| {
            let (now, mut state) = (hub.now(), hub.hub());
            Ok(mailboxes.iter().map(|mailbox| state.acquire(now, member, terms, lapsed, mailbox)).collect())
        })
    }

    fn renew(
        &self,
        member: MemberId,
        terms: Terms,
        leases: Arc<[Lease]>,
    ) -> BoxFuture<'_, Result<Renewals, StoreError>> {
        self.call(move |hub| Ok(hub.hub().renew(hub.now(), member, terms, &leases)))
    }

    fn release(&self, leases: Arc<[Lease]>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(move |hub| {
            let mut state = hub.hub();
            leases.iter().for_each(|lease| state.release(lease));
            Ok(())
        })
    }

    fn claim(&self, batch: Vec<FencedClaim>) -> BoxFuture<'_, Result<Vec<Claimed>, StoreError>> {
        self.call(move |hub| {
            let (now, state) = (hub.now(), hub.hub());
            let claim = |FencedClaim { claim, lease }| {
                if !state.holds(now, &lease) {
                    return Claimed::Fenced;
                }
                let email = Store::claim(&hub.rows, vec![claim]).now_or_never();
                let email = email.and_then(Result::ok).and_then(|mut emails| emails.pop().flatten());
                email.map_or(Claimed::Gone, |email| Claimed::Written(Box::new(email)))
            };
            Ok(batch.into_iter().map(claim).collect())
        })
    }

    fn submit(&self, batch: Vec<NewOperation>) -> BoxFuture<'_, Result<Vec<Inserted>, StoreError>> {
        self.call(move |hub| {
            let arrived: Vec<_> = batch.iter().map(|new| (Arc::clone(&new.mailbox), new.key)).collect();
            let inserted = hub.rows.insert(batch).now_or_never().unwrap_or_else(|| Err(away()))?;
            let (now, mut state) = (hub.now(), hub.hub());
            for ((mailbox, key), inserted) in arrived.into_iter().zip(&inserted) {
                if *inserted == Inserted::New && state.is_remembered(now, &mailbox) {
                    state.post(&mailbox, Kept::Arrived(key));
                }
            }
            Ok(inserted)
        })
    }

    fn post(&self, orders: Vec<Order>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(move |hub| {
            let mut state = hub.hub();
            for order in orders {
                state.post(&order.mailbox.clone(), Kept::Order(order));
            }
            Ok(())
        })
    }

    fn inbox(&self, read: Vec<(Lease, Vec<LetterName>)>) -> BoxFuture<'_, Result<Vec<Vec<Letter>>, StoreError>> {
        self.call(move |hub| {
            let (now, mut state) = (hub.now(), hub.hub());
            let letters = |(lease, names): (Lease, Vec<LetterName>)| {
                let kept = state.inbox(now, &lease, &names);
                let letter = |(place, kept)| {
                    let posted = match kept {
                        Kept::Arrived(key) => Posted::Arrived(Box::new(hub.rows.row(key)?)),
                        Kept::Order(order) => Posted::Order(order),
                    };
                    Some(Letter::new(place, posted))
                };
                kept.into_iter().filter_map(letter).collect()
            };
            Ok(read.into_iter().map(letters).collect())
        })
    }

    fn orphans(&self, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        self.call(move |hub| {
            let (now, state) = (hub.now(), hub.hub());
            let live = hub.rows.live_mailboxes();
            let all: std::collections::BTreeSet<Arc<str>> = live.into_iter().chain(state.ordered(now)).collect();
            Ok(all.into_iter().filter(|mailbox| !state.is_owned(now, mailbox)).take(limit).collect())
        })
    }

    fn notes(&self) -> BoxFuture<'_, Result<Vec<Note>, StoreError>> {
        self.call(|hub| Ok(hub.rows.shared_notes()))
    }

    fn cool(&self, scope: Scope, until: Timestamp) -> BoxFuture<'_, Result<Timestamp, StoreError>> {
        self.call(move |hub| Ok(hub.hub().cool(hub.now(), scope, until)))
    }

    fn probe(&self, member: MemberId, scope: Scope, span: Duration) -> BoxFuture<'_, Result<Probe, StoreError>> {
        self.call(move |hub| Ok(hub.hub().probe(hub.now(), member, scope, span)))
    }

    fn publish(&self, member: MemberId, news: Vec<News>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(move |hub| {
            let mut state = hub.hub();
            news.iter().for_each(|news| state.tell(Some(member), news));
            Ok(())
        })
    }

    fn news(&self, member: MemberId) -> BoxFuture<'_, Result<Vec<News>, StoreError>> {
        async move {
            loop {
                let told = self.hub.news.notified();
                if self.is(Link::Down) {
                    return Err(away());
                }
                let news = self.hub.hub().news.get_mut(&member).map(std::mem::take).unwrap_or_default();
                if !news.is_empty() {
                    return Ok(news.into());
                }
                told.await;
            }
        }
        .boxed()
    }
}
