//! This process among others over one store: which mailboxes it owns, and whether it can reach the store.
//!
//! Every mailbox's actor begins by acquiring its mailbox. As its owner it recovers it from the store and decides, as an
//! actor alone would; otherwise it is *remote*: what is submitted goes into the store and to the owner, and its tickets are
//! answered when the owner tells. What an owner may still do is the engine's rule ([`Tenure`]); this module says what is
//! so: leases, reach, and how many processes there are.

mod clock;
mod inbox;
mod late;
mod loops;
mod orders;
mod owning;
mod remote;
mod route;
mod tickets;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use self::clock::Asked;
use self::tickets::Tickets;
use super::entrance::Admit;
use super::permit::PermitError;
use crate::clock::Clock;
use crate::engine::failover::{Failover, Failovers, Word};
use crate::engine::policy::FleetPolicy;
use crate::engine::tenure::{Reach, Tenure};
use crate::engine::{Ratio, Scope, Timestamp};
use crate::store::fleet::{Acquired, Agreement, Lapsed, Lease, MemberId, News, Place, Renewals, Renewed, Terms};
use crate::store::{Fleet, Recovery, StoreError};

pub(crate) use clock::FleetClock;
pub(crate) use loops::run;
pub(super) use owning::Owning;

/// A new member asks the store so often for the time, unless an answer is so quick that it leaves little to guess: a tenth
/// of the guard of a minute (algorithms 1.4).
const ASKED_MAX: u32 = 8;
const CLOSE: Duration = Duration::from_millis(6);

/// This process as the others see it.
#[derive(Debug)]
pub(crate) struct Membership {
    api: Arc<dyn Fleet>,
    member: MemberId,
    terms: Terms,
    policy: FleetPolicy,
    clock: Arc<FleetClock>,
    host: Handle,
    state: Mutex<State>,
    tickets: Tickets,
    asked: orders::Asked,
    /// Has leases renewed at once, to learn whether the store is there.
    doubt: Notify,
    /// There is something to tell the others.
    to_tell: Notify,
}

#[derive(Debug)]
struct State {
    leases: BTreeMap<Arc<str>, Held>,
    /// Mailboxes with an actor here that others own.
    elsewhere: BTreeSet<Arc<str>>,
    reach: Reach,
    members: u32,
    /// Before this no lapsed lease is taken over: its owner has just found the store again, as we have.
    calm_until: Timestamp,
    news: Vec<News>,
}

/// One lease.
#[derive(Clone, Debug)]
struct Held {
    lease: Lease,
    until: Timestamp,
    unclean_at: Option<Timestamp>,
    failovers: Failovers,
    inbox: Waiting,
    end: End,
}

/// What is known of a mailbox's inbox.
#[derive(Clone, Debug)]
struct Waiting {
    /// The last place by the store's word, what it was when the inbox was last asked for, and up to where it was read.
    posted: Place,
    asked: Place,
    read: Place,
    /// Since it was last asked for there was news of something posted, or a failover: places may be given out anew.
    /// News names no place, and may come twice.
    told: bool,
    /// The last reading failed.
    failed: bool,
}

impl Waiting {
    const fn new(posted: Place) -> Self {
        let none = Place(0);
        Self { posted, asked: none, read: none, told: false, failed: false }
    }

    fn is_unread(&self) -> bool {
        self.told || self.posted != self.read
    }
}

/// Whether nothing is under way in a mailbox that is to be released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Drained,
}

impl State {
    fn tenure_of(&self, held: &Held) -> Tenure {
        let Held { until: lease_until, unclean_at, failovers, .. } = *held;
        let failover_at = failovers.doubted_at();
        Tenure { lease_until, unclean_at, failover_at, reach: self.reach, members: self.members }
    }
}

impl Membership {
    /// Joins the others. What is recovered is what concerns no single mailbox.
    ///
    /// # Errors
    /// As [`Fleet::join`] and [`Fleet::renew`].
    pub(crate) async fn join(
        api: Arc<dyn Fleet>,
        own: Arc<dyn Clock>,
        host: Handle,
        policy: FleetPolicy,
        (reach_back, clock_error): (Duration, Ratio),
    ) -> Result<(Self, Recovery), StoreError> {
        let joined = api.join().await?;
        let memory = reach_back.saturating_add(policy.grace);
        let terms = Terms { ttl: policy.lease_ttl, memory, clock: Agreement::Agrees };
        let clock = Arc::new(FleetClock::new(own, clock_error));
        let mut others = None;
        for _ in 0..ASKED_MAX {
            let asked = clock.ask();
            let answer = api.renew(joined.member, terms, [].into()).await?;
            let took = clock.measured(asked, answer.time);
            others = Some(answer);
            if took <= CLOSE {
                break;
            }
        }
        clock.begin();
        let members = others.map_or(1, |others| others.members);
        let state = State {
            leases: BTreeMap::new(),
            elsewhere: BTreeSet::new(),
            reach: Reach::Reachable,
            members,
            calm_until: Timestamp::EPOCH,
            news: Vec::new(),
        };
        let membership = Self {
            api,
            member: joined.member,
            terms,
            policy,
            clock,
            host,
            state: Mutex::new(state),
            tickets: Tickets::default(),
            asked: orders::Asked::default(),
            doubt: Notify::new(),
            to_tell: Notify::new(),
        };
        let recovery = Recovery {
            last_key: Some(joined.keys_after),
            notes: joined.notes,
            unreadable: joined.unreadable,
            secret: joined.secret,
            ..Recovery::default()
        };
        Ok((membership, recovery))
    }

    /// How many there are, this one included.
    pub(crate) fn members(&self) -> u32 {
        self.state().members
    }

    pub(crate) fn clock(&self) -> Arc<FleetClock> {
        Arc::clone(&self.clock)
    }

    pub(super) const fn api(&self) -> &Arc<dyn Fleet> {
        &self.api
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in it panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether others own a mailbox that has an actor here.
    pub(crate) fn is_elsewhere(&self, mailbox: &str) -> bool {
        self.state().elsewhere.contains(mailbox)
    }

    pub(super) fn set_elsewhere(&self, mailbox: &Arc<str>) {
        self.state().elsewhere.insert(Arc::clone(mailbox));
    }

    /// A mailbox has no actor here any more.
    pub(in crate::actor) fn has_left(&self, mailbox: &str) {
        self.state().elsewhere.remove(mailbox);
    }

    /// What to do about a lapsed lease.
    fn lapsed(&self, now: Timestamp) -> Lapsed {
        if self.state().calm_until > now { Lapsed::Leave } else { Lapsed::TakeOver }
    }

    /// A lease was given at `asked_at` or later.
    fn hold(&self, mailbox: &Arc<str>, asked_at: Timestamp, acquired: &Acquired) -> Option<Lease> {
        let Acquired::Owner { token, unclean_ago, failover_ago, inbox } = *acquired else { return None };
        let lease = Lease { mailbox: Arc::clone(mailbox), token };
        // The earlier it was, the sooner it is over: the store may have answered late.
        let now = self.clock.now();
        let at = |ago: Option<Duration>| ago.map(|ago| now.before(ago));
        let held = Held {
            lease: lease.clone(),
            until: self.counts_until(asked_at),
            unclean_at: at(unclean_ago),
            failovers: Failovers::of_new_lease(
                failover_ago
                    .map(|ago| Failover { by_store: self.clock.to_store(now).before(ago), at: now.before(ago) }),
            ),
            inbox: Waiting::new(inbox),
            end: End::Open,
        };
        let mut state = self.state();
        state.elsewhere.remove(mailbox);
        state.reach = Reach::Reachable;
        state.leases.insert(Arc::clone(mailbox), held);
        Some(lease)
    }

    fn counts_until(&self, asked_at: Timestamp) -> Timestamp {
        asked_at.after(self.policy.lease_ttl.saturating_sub(self.policy.lease_margin))
    }

    /// What the holder of a lease may do now; `None` when it has been lost.
    pub(super) fn tenure(&self, lease: &Lease) -> Option<Tenure> {
        let state = self.state();
        state.leases.get(&lease.mailbox).filter(|held| held.lease == *lease).map(|held| state.tenure_of(held))
    }

    /// The lease is not ours any more.
    pub(super) fn let_go(&self, lease: &Lease) {
        let mut state = self.state();
        if state.leases.get(&lease.mailbox).is_some_and(|held| held.lease == *lease) {
            state.leases.remove(&lease.mailbox);
        }
    }

    /// Nothing is under way in a mailbox, and all of it is written.
    pub(super) fn is_drained(&self, lease: &Lease) {
        if let Some(held) = self.state().leases.get_mut(&lease.mailbox).filter(|held| held.lease == *lease) {
            held.end = End::Drained;
        }
    }

    /// Gives back cleanly what is drained: the last that is done.
    pub(crate) async fn release_drained(&self) {
        let leases: Vec<Lease> = {
            let mut state = self.state();
            let (drained, rest) =
                std::mem::take(&mut state.leases).into_iter().partition(|(_, h)| h.end == End::Drained);
            state.leases = rest;
            let drained: BTreeMap<Arc<str>, Held> = drained;
            drained.into_values().map(|held| held.lease).collect()
        };
        if !leases.is_empty() {
            // What is not released lapses.
            drop(tokio::time::timeout(self.policy.renew_every, self.api.release(leases.into())).await);
        }
    }

    /// What a renewal says now.
    fn terms(&self) -> Terms {
        Terms { clock: self.clock.agreement(), ..self.terms }
    }

    fn batch_max(&self) -> usize {
        self.policy.batch_max.get() as usize
    }

    fn leases(&self) -> Vec<Lease> {
        self.state().leases.values().map(|held| held.lease.clone()).collect()
    }

    /// Takes note of a renewal, and names the mailboxes that have to look.
    fn on_renewed(&self, asked: Asked, leases: &[Lease], renewals: &Renewals) -> Vec<Arc<str>> {
        self.clock.measured(asked, renewals.time);
        let (now, until) = (self.clock.now(), self.counts_until(asked.at));
        let mut state = self.state();
        let back = state.reach == Reach::CutOff;
        if back {
            (state.reach, state.calm_until) = (Reach::Reachable, self.policy.calm_until(now));
        }
        state.members = renewals.members.max(1);
        let failover =
            renewals.failover_ago.map(|ago| Failover { by_store: renewals.time.before(ago), at: now.before(ago) });
        let mut touched = Vec::new();
        for (lease, answer) in leases.iter().zip(&renewals.answers) {
            let Some(held) = state.leases.get_mut(&lease.mailbox).filter(|held| held.lease == *lease) else { continue };
            let look = match *answer {
                Renewed::Kept { inbox } => {
                    let lapsed = held.until <= now;
                    // After a failover places may be given out anew.
                    held.inbox.told |= held.failovers.note(failover, now, held.until) == Word::News;
                    (held.until, held.inbox.posted) = (until, inbox);
                    held.inbox.told |= std::mem::take(&mut held.inbox.failed);
                    lapsed || held.inbox.is_unread()
                }
                Renewed::Lost => {
                    state.leases.remove(&lease.mailbox);
                    true
                }
            };
            if back || look {
                touched.push(Arc::clone(&lease.mailbox));
            }
        }
        touched
    }

    /// The store did not answer. Names the mailboxes that have to look.
    fn on_unreachable(&self) -> Vec<Arc<str>> {
        let mut state = self.state();
        if std::mem::replace(&mut state.reach, Reach::CutOff) == Reach::CutOff {
            return Vec::new();
        }
        state.leases.keys().map(Arc::clone).collect()
    }

    /// Nothing new is taken in while it cannot be stored.
    pub(super) fn turn_away(&self, admit: Admit) {
        match admit {
            Admit::Send(handed) => {
                handed.not_stored(StoreError::Unavailable { reason: "it is out of reach".to_owned() })
            }
            Admit::Permit(request) => request.reply.fail(PermitError::Elsewhere),
        }
    }

    /// Whether an attempt may leave: the last look, right before it does.
    pub(super) fn may_send(&self, mailbox: &str) -> bool {
        let (now, state) = (self.clock.now(), self.state());
        state.leases.get(mailbox).is_some_and(|held| state.tenure_of(held).may_leave(now, &self.policy))
    }

    pub(super) fn is_cut_off(&self) -> bool {
        self.state().reach == Reach::CutOff
    }

    /// A call has failed that an owner needs.
    pub(super) fn suspect(&self) {
        self.doubt.notify_one();
    }

    /// Tells the others, by and by.
    pub(super) fn tell(&self, news: News) {
        self.state().news.push(news);
        self.to_tell.notify_one();
    }

    /// Tells everybody that a shared scope is to rest.
    pub(super) fn cool(self: &Arc<Self>, scope: Scope, until: Timestamp) {
        let (fleet, until) = (Arc::clone(self), self.clock.to_store(until));
        self.host.spawn(async move {
            // Told again with the next refusal.
            drop(fleet.api.cool(scope, until).await);
        });
    }
}
