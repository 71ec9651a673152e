//! What members of a hub have in common, and what each call does to it: the model of [`Fleet`](super::Fleet).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{OperationKey, Scope, Timestamp};
use crate::store::fleet::{
    Acquired, Agreement, Lapsed, Lease, Letter, LetterName, MemberId, News, Order, Place, Posted, Probe, Renewals,
    Renewed, Terms, Token,
};

/// News kept for a member that does not ask.
const NEWS_MAX: usize = 4_096;

#[derive(Clone, Debug, Default)]
pub(super) struct Hub {
    members: BTreeMap<MemberId, Timestamp>,
    last_member: u64,
    last_token: u64,
    leases: BTreeMap<Arc<str>, Held>,
    inboxes: BTreeMap<Arc<str>, Inbox>,
    cooldowns: BTreeMap<Scope, Timestamp>,
    probes: BTreeMap<Scope, (MemberId, Timestamp)>,
    pub(super) news: BTreeMap<MemberId, VecDeque<News>>,
    failover_at: Option<Timestamp>,
}

#[derive(Clone, Debug)]
struct Held {
    member: MemberId,
    token: Token,
    until: Timestamp,
    memory: Duration,
    end: End,
    unclean_at: Option<Timestamp>,
}

/// Whether a lease was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Released,
}

#[derive(Clone, Debug, Default)]
struct Inbox {
    last: Place,
    letters: VecDeque<(Place, Kept)>,
}

/// A letter as it is kept: rows are read when the inbox is.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    Arrived(OperationKey),
    Order(Order),
}

impl Hub {
    pub(super) fn join(&mut self, now: Timestamp) -> MemberId {
        self.last_member += 1;
        let member = MemberId(self.last_member);
        self.members.insert(member, now);
        self.news.insert(member, VecDeque::new());
        member
    }

    pub(super) fn acquire(
        &mut self,
        now: Timestamp,
        member: MemberId,
        terms: Terms,
        lapsed: Lapsed,
        mailbox: &Arc<str>,
    ) -> Acquired {
        self.members.insert(member, now);
        let before = self.leases.get(mailbox).filter(|held| now < held.until.after(held.memory));
        let unclean_at = before.and_then(|held| held.unclean_at);
        let unclean_at = match before {
            Some(held) if held.end == End::Open && held.until > now && held.member != member => {
                return Acquired::Elsewhere { ends_in: held.until.since(now) };
            }
            Some(held) if held.end == End::Open && held.member != member && lapsed == Lapsed::Leave => {
                return Acquired::Elsewhere { ends_in: Duration::ZERO };
            }
            Some(held) if held.end == End::Open => Some(now),
            Some(_) | None => unclean_at,
        };
        self.last_token = (self.last_token + 1).max(now.as_micros());
        let token = Token(self.last_token);
        let (until, memory) = (now.after(terms.ttl), terms.memory);
        let held = Held { member, token, until, memory, end: End::Open, unclean_at };
        self.leases.insert(Arc::clone(mailbox), held);
        let ago = |at: Option<Timestamp>| at.map(|at| now.since(at)).filter(|ago| *ago <= terms.memory);
        let inbox = self.inboxes.get(mailbox).map(|inbox| inbox.last).unwrap_or_default();
        Acquired::Owner { token, unclean_ago: ago(unclean_at), failover_ago: ago(self.failover_at), inbox }
    }

    pub(super) fn renew(&mut self, now: Timestamp, member: MemberId, terms: Terms, leases: &[Lease]) -> Renewals {
        self.members.insert(member, now);
        if terms.clock == Agreement::Differs {
            self.failover_at = Some(now);
        }
        let answers = leases.iter().map(|lease| self.renew_one(now, terms, lease)).collect();
        let alive = self.members.values().filter(|seen| now.since(**seen) <= terms.ttl).count();
        let failover_ago = self.failover_at.map(|at| now.since(at)).filter(|ago| *ago <= terms.memory);
        let members = u32::try_from(alive).unwrap_or(u32::MAX);
        Renewals { time: now, members, failover_ago, answers }
    }

    fn renew_one(&mut self, now: Timestamp, terms: Terms, lease: &Lease) -> Renewed {
        match self.leases.get_mut(&lease.mailbox) {
            Some(held) if held.token == lease.token && held.end == End::Open => {
                held.until = now.after(terms.ttl);
                let inbox = self.inboxes.get(&lease.mailbox).map(|inbox| inbox.last).unwrap_or_default();
                Renewed::Kept { inbox }
            }
            _ => Renewed::Lost,
        }
    }

    pub(super) fn release(&mut self, lease: &Lease) {
        if let Some(held) = self.leases.get_mut(&lease.mailbox).filter(|held| held.token == lease.token) {
            held.end = End::Released;
            self.tell(None, &News::Released { mailbox: Arc::clone(&lease.mailbox) });
        }
    }

    /// Whether a lease holds.
    pub(super) fn holds(&self, now: Timestamp, lease: &Lease) -> bool {
        let held = self.leases.get(&lease.mailbox);
        held.is_some_and(|held| held.token == lease.token && held.end == End::Open && held.until > now)
    }

    /// Whether somebody owns a mailbox.
    pub(super) fn is_owned(&self, now: Timestamp, mailbox: &str) -> bool {
        self.leases.get(mailbox).is_some_and(|held| held.end == End::Open && held.until > now)
    }

    /// Whether a mailbox has a lease that may be renewed, run out or not.
    pub(super) fn is_remembered(&self, now: Timestamp, mailbox: &str) -> bool {
        let held = self.leases.get(mailbox);
        held.is_some_and(|held| held.end == End::Open && held.until.after(held.memory) > now)
    }

    pub(super) fn post(&mut self, mailbox: &Arc<str>, letter: Kept) {
        let inbox = self.inboxes.entry(Arc::clone(mailbox)).or_default();
        let posted = match &letter {
            Kept::Order(order) => inbox.has(order),
            Kept::Arrived(_) => false,
        };
        if !posted {
            inbox.last.0 += 1;
            inbox.letters.push_back((inbox.last, letter));
        }
        self.tell(None, &News::Posted { mailbox: Arc::clone(mailbox) });
    }

    /// What is posted, once what was read is forgotten.
    pub(super) fn inbox(&mut self, now: Timestamp, lease: &Lease, read: &[LetterName]) -> Vec<(Place, Kept)> {
        let latest = self.leases.get(&lease.mailbox).is_some_and(|held| held.token == lease.token);
        let Some(inbox) = self.inboxes.get_mut(&lease.mailbox).filter(|_| latest) else { return Vec::new() };
        inbox.letters.retain(|(_, letter)| !read.contains(&letter.name()) && !letter.is_over(now));
        inbox.letters.iter().cloned().collect()
    }

    /// Mailboxes with orders.
    pub(super) fn ordered(&self, now: Timestamp) -> impl Iterator<Item = Arc<str>> {
        let orders = |inbox: &Inbox| {
            inbox.letters.iter().any(|(_, letter)| matches!(letter, Kept::Order(_)) && !letter.is_over(now))
        };
        let with = self.inboxes.iter().filter(move |(_, inbox)| orders(inbox)).map(|(mailbox, _)| Arc::clone(mailbox));
        with.collect::<Vec<_>>().into_iter()
    }

    pub(super) fn cool(&mut self, now: Timestamp, scope: Scope, until: Timestamp) -> Timestamp {
        let kept = self.cooldowns.entry(scope.clone()).or_default();
        let later = until > *kept && until > now;
        *kept = (*kept).max(until);
        let kept = *kept;
        if later {
            self.tell(None, &News::Cooldown { scope, until: kept });
        }
        kept
    }

    pub(super) fn probe(&mut self, now: Timestamp, member: MemberId, scope: Scope, span: Duration) -> Probe {
        match self.probes.get(&scope) {
            Some((other, until)) if *other != member && *until > now => Probe::Theirs { ends_in: until.since(now) },
            _ => {
                self.probes.insert(scope, (member, now.after(span)));
                Probe::Yours
            }
        }
    }

    /// Tells everybody but `from`.
    pub(super) fn tell(&mut self, from: Option<MemberId>, news: &News) {
        for (member, queue) in &mut self.news {
            if Some(*member) == from {
                continue;
            }
            if queue.len() >= NEWS_MAX {
                queue.clear();
                queue.push_back(News::Missed);
            }
            queue.push_back(news.clone());
        }
    }

    /// Another copy took over, which may know less.
    pub(super) fn fail_over(&mut self, now: Timestamp) {
        self.failover_at = Some(now);
        for queue in self.news.values_mut() {
            queue.clear();
            queue.push_back(News::Missed);
        }
    }
}

impl Inbox {
    fn has(&self, order: &Order) -> bool {
        self.letters.iter().any(|(_, letter)| matches!(letter, Kept::Order(other) if other.id == order.id))
    }
}

impl Kept {
    fn name(&self) -> LetterName {
        match self {
            Self::Arrived(key) => LetterName::Arrived(*key),
            Self::Order(order) => LetterName::Order(order.id),
        }
    }

    fn is_over(&self, now: Timestamp) -> bool {
        matches!(self, Self::Order(order) if order.until <= now)
    }
}

impl Letter {
    pub(super) const fn new(place: Place, posted: Posted) -> Self {
        Self { place, posted }
    }
}
