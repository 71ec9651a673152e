//! Members over one server: who owns a mailbox, and how the others reach its owner.

use std::sync::Arc;
use std::time::Duration;

use mailweir::clock::{Clock, SystemClock};
use mailweir::engine::operation::Transition as T;
use mailweir::engine::{OperationKey, OperationState as S, Scope, Timestamp};
use mailweir::store::fleet::{
    Acquired, Agreement, Claimed, FencedClaim, Lapsed, Lease, Letter, LetterName, MemberId, News, Order, OrderBody,
    OrderId, Posted, Probe, Renewed, Terms, Token,
};
use mailweir::store::{Fleet, Inserted, RedisStore, Store, StoreError};

use crate::redis_server::RedisServer;
use crate::support::*;

const LONG: Terms = Terms { ttl: Duration::from_secs(60), memory: Duration::from_secs(600), clock: Agreement::Agrees };
const SHORT: Terms =
    Terms { ttl: Duration::from_millis(50), memory: Duration::from_secs(600), clock: Agreement::Agrees };

/// A scheduler's way to the server, joined.
struct Member {
    store: RedisStore,
    fleet: Arc<dyn Fleet>,
    id: MemberId,
}

impl Member {
    async fn of(server: &RedisServer) -> Self {
        let store = open(&server.url());
        let fleet = store.fleet().unwrap();
        let id = fleet.join().await.unwrap().member;
        Self { store, fleet, id }
    }

    async fn acquire(&self, terms: Terms, lapsed: Lapsed) -> Acquired {
        self.fleet.acquire(self.id, terms, lapsed, [Arc::from(MAILBOX)].into()).await.unwrap()[0]
    }

    async fn own(&self, terms: Terms) -> Lease {
        match self.acquire(terms, Lapsed::TakeOver).await {
            Acquired::Owner { token, .. } => Lease { mailbox: MAILBOX.into(), token },
            other => panic!("{other:?}"),
        }
    }

    async fn renew(&self, terms: Terms, lease: &Lease) -> Renewed {
        self.fleet.renew(self.id, terms, [lease.clone()].into()).await.unwrap().answers[0]
    }

    async fn claim(&self, key: u64, attempt: u32, lease: &Lease) -> Claimed {
        let claim = FencedClaim { claim: claim(key, attempt), lease: lease.clone() };
        self.fleet.claim(vec![claim]).await.unwrap().remove(0)
    }

    async fn letters(&self, lease: &Lease, read: &[LetterName]) -> Vec<Letter> {
        self.fleet.inbox(vec![(lease.clone(), read.to_vec())]).await.unwrap().remove(0)
    }

    async fn orphans(&self) -> Vec<String> {
        let found = self.fleet.orphans(10).await.unwrap();
        found.iter().map(ToString::to_string).collect()
    }

    /// Reads news until one is wanted; what comes before is passed over.
    async fn hear(&self, wanted: impl Fn(&News) -> bool) -> News {
        for _ in 0..500 {
            match tokio::time::timeout(Duration::from_secs(5), self.fleet.news(self.id)).await.unwrap() {
                Ok(news) => {
                    if let Some(found) = news.into_iter().find(&wanted) {
                        return found;
                    }
                }
                Err(StoreError::Unavailable { .. }) => tokio::time::sleep(Duration::from_millis(10)).await,
                Err(other) => panic!("{other}"),
            }
        }
        panic!("no such news");
    }
}

fn unclean(acquired: Acquired) -> Option<Duration> {
    match acquired {
        Acquired::Owner { unclean_ago, .. } => unclean_ago,
        Acquired::Elsewhere { .. } => panic!("{acquired:?}"),
    }
}

fn token(acquired: Acquired) -> Token {
    match acquired {
        Acquired::Owner { token, .. } => token,
        Acquired::Elsewhere { .. } => panic!("{acquired:?}"),
    }
}

/// Acquires as soon as the lease of another one has lapsed.
async fn take_over(member: &Member, terms: Terms) -> Acquired {
    for _ in 0..500 {
        match member.acquire(terms, Lapsed::TakeOver).await {
            Acquired::Elsewhere { .. } => tokio::time::sleep(Duration::from_millis(10)).await,
            owner => return owner,
        }
    }
    panic!("it did not lapse");
}

#[test]
fn one_member_owns_a_mailbox_and_its_release_is_clean() {
    let server = RedisServer::start();
    block_on(async {
        let (one, two) = (Member::of(&server).await, Member::of(&server).await);
        assert_ne!(one.id, two.id);
        let first = one.acquire(LONG, Lapsed::TakeOver).await;
        assert!(matches!(first, Acquired::Owner { unclean_ago: None, failover_ago: None, .. }), "{first:?}");
        let elsewhere = two.acquire(LONG, Lapsed::TakeOver).await;
        assert!(
            matches!(elsewhere, Acquired::Elsewhere { ends_in } if ends_in > Duration::from_secs(50)),
            "{elsewhere:?}"
        );
        let lease = Lease { mailbox: MAILBOX.into(), token: token(first) };
        assert!(matches!(one.renew(LONG, &lease).await, Renewed::Kept { .. }));
        one.fleet.release([lease.clone()].into()).await.unwrap();
        let released = two.hear(|news| matches!(news, News::Released { .. })).await;
        assert_eq!(released, News::Released { mailbox: MAILBOX.into() });
        let second = two.acquire(LONG, Lapsed::Leave).await;
        assert_eq!(unclean(second), None);
        assert!(token(second) > lease.token);
        assert_eq!(one.renew(LONG, &lease).await, Renewed::Lost);
        // A late repetition of the release takes nothing from the new owner.
        one.fleet.release([lease].into()).await.unwrap();
        assert!(matches!(one.acquire(LONG, Lapsed::TakeOver).await, Acquired::Elsewhere { .. }));
    });
}

#[test]
fn a_lapsed_lease_is_kept_by_its_owner_left_or_taken_over_uncleanly() {
    let server = RedisServer::start();
    block_on(async {
        let (one, two) = (Member::of(&server).await, Member::of(&server).await);
        let lease = one.own(SHORT).await;
        let until_lapsed = async || {
            for _ in 0..500 {
                match two.acquire(SHORT, Lapsed::Leave).await {
                    Acquired::Elsewhere { ends_in: Duration::ZERO } => return,
                    Acquired::Elsewhere { .. } => tokio::time::sleep(Duration::from_millis(10)).await,
                    owner => panic!("it was to be left: {owner:?}"),
                }
            }
            panic!("it did not lapse");
        };
        until_lapsed().await;
        assert!(matches!(one.renew(SHORT, &lease).await, Renewed::Kept { .. }), "nobody else has owned it");
        let taken = take_over(&two, LONG).await;
        assert_eq!(unclean(taken), Some(Duration::ZERO));
        assert_eq!(one.renew(LONG, &lease).await, Renewed::Lost);
        // A clean release after it does not wipe it out.
        two.fleet.release([Lease { mailbox: MAILBOX.into(), token: token(taken) }].into()).await.unwrap();
        assert!(unclean(one.acquire(LONG, Lapsed::TakeOver).await).is_some());
    });
}

#[test]
fn an_acquisition_whose_reply_was_lost_is_repeated_under_a_new_token_and_unclean() {
    let server = RedisServer::start();
    block_on(async {
        let one = Member::of(&server).await;
        let (lost, found) = (one.acquire(LONG, Lapsed::Leave).await, one.acquire(LONG, Lapsed::Leave).await);
        assert_eq!((unclean(lost), unclean(found)), (None, Some(Duration::ZERO)));
        assert!(token(found) > token(lost));
    });
}

#[test]
fn a_claim_without_the_lease_writes_nothing() {
    let server = RedisServer::start();
    block_on(async {
        let (one, two) = (Member::of(&server).await, Member::of(&server).await);
        one.store.insert(vec![new(1), new(2)]).await.unwrap();
        let lease = one.own(SHORT).await;
        let email = Box::new(new(1).email);
        let first = one.claim(1, 1, &lease).await;
        if first != Claimed::Fenced {
            assert_eq!(first, Claimed::Written(email));
        }
        let mut fenced = Claimed::Gone;
        for attempt in 2..500 {
            fenced = one.claim(2, attempt, &lease).await;
            if fenced == Claimed::Fenced {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(fenced, Claimed::Fenced, "its time was up");
        let mine = Lease { mailbox: MAILBOX.into(), token: token(take_over(&two, LONG).await) };
        let before = found(&two.store, 2).await.unwrap();
        assert_eq!(one.claim(2, 900, &lease).await, Claimed::Fenced);
        assert_eq!(found(&two.store, 2).await.unwrap(), before);
        assert_eq!(two.claim(2, 901, &mine).await, Claimed::Written(Box::new(new(2).email)));
        assert_eq!(two.claim(2, 901, &mine).await, Claimed::Written(Box::new(new(2).email)), "repeated");
        assert_eq!(two.claim(99, 1, &mine).await, Claimed::Gone);
    });
}

#[test]
fn what_is_submitted_elsewhere_reaches_the_owner_soon() {
    let server = RedisServer::start();
    block_on(async {
        let (owner, other) = (Member::of(&server).await, Member::of(&server).await);
        assert_eq!(other.fleet.submit(vec![new(1)]).await, Ok(vec![Inserted::New]), "nobody owns it yet");
        let lease = owner.own(LONG).await;
        assert_eq!(owner.letters(&lease, &[]).await, [], "its owner reads every live row");
        let clock = SystemClock::new();
        let start = clock.now();
        assert_eq!(other.fleet.submit(vec![new(2), new(3)]).await, Ok(vec![Inserted::New, Inserted::New]));
        owner.hear(|news| *news == News::Posted { mailbox: MAILBOX.into() }).await;
        let letters = owner.letters(&lease, &[]).await;
        let took = clock.now().since(start);
        assert!(took < Duration::from_secs(2), "{took:?}");
        let keys: Vec<u64> = letters
            .iter()
            .map(|letter| match letter.posted.name() {
                LetterName::Arrived(key) => key.0,
                LetterName::Order(order) => panic!("{order:?}"),
            })
            .collect();
        assert_eq!(keys, [2, 3]);
        assert!(letters[0].place < letters[1].place);
        assert_eq!(owner.letters(&lease, &[]).await.len(), 2, "nothing was read, the same again");
        assert_eq!(owner.letters(&lease, &[letters[0].posted.name()]).await.len(), 1);
        assert_eq!(owner.letters(&lease, &[]).await.len(), 1, "what was read is forgotten");
        let Renewed::Kept { inbox } = owner.renew(LONG, &lease).await else { panic!("lost") };
        assert_eq!(inbox, letters[1].place);
        // The same submission again is no news.
        other.fleet.submit(vec![new(3)]).await.unwrap();
        assert_eq!(owner.letters(&lease, &[letters[0].posted.name()]).await.len(), 1);
    });
}

#[test]
fn what_is_submitted_when_the_owners_lease_has_run_out_reaches_it_when_it_renews() {
    let server = RedisServer::start();
    block_on(async {
        let (owner, other) = (Member::of(&server).await, Member::of(&server).await);
        let lease = owner.own(SHORT).await;
        while other.orphans().await.is_empty() {
            other.fleet.submit(vec![new(1)]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(other.fleet.submit(vec![new(2)]).await, Ok(vec![Inserted::New]));
        assert!(matches!(owner.renew(LONG, &lease).await, Renewed::Kept { .. }), "nobody has taken over");
        let names: Vec<LetterName> =
            owner.letters(&lease, &[]).await.iter().map(|letter| letter.posted.name()).collect();
        assert_eq!(names, [1, 2].map(|key| LetterName::Arrived(OperationKey(key))));
    });
}

#[test]
fn an_order_is_posted_once_and_kept_until_its_time() {
    let server = RedisServer::start();
    block_on(async {
        let (owner, other) = (Member::of(&server).await, Member::of(&server).await);
        let order = |id, until| Order { id: OrderId(id), mailbox: MAILBOX.into(), until, body: OrderBody::Close };
        let lasting = order(u128::MAX, now().after(Duration::from_secs(60)));
        let over = order(2, now().before(Duration::from_secs(1)));
        for _ in 0..2 {
            other.fleet.post(vec![lasting.clone(), over.clone()]).await.unwrap();
        }
        assert_eq!(owner.orphans().await, [MAILBOX], "an order waits for somebody");
        let lease = owner.own(LONG).await;
        let letters = owner.letters(&lease, &[]).await;
        assert_eq!(letters.iter().map(|letter| letter.posted.clone()).collect::<Vec<_>>(), [Posted::Order(lasting)]);
        let stale = Lease { token: Token(lease.token.0 - 1), ..lease.clone() };
        assert_eq!(owner.letters(&stale, &[letters[0].posted.name()]).await, [], "only for its owner");
        assert_eq!(owner.letters(&lease, &[]).await, letters, "and only its owner forgets");
        assert_eq!(owner.letters(&lease, &[letters[0].posted.name()]).await, []);
        assert_eq!(owner.letters(&lease, &[]).await, []);
    });
}

#[test]
fn mailboxes_that_nobody_owns_are_found_until_somebody_does() {
    let server = RedisServer::start();
    block_on(async {
        let (one, two) = (Member::of(&server).await, Member::of(&server).await);
        assert_eq!(one.orphans().await, [""; 0]);
        two.fleet.submit(vec![new(1)]).await.unwrap();
        assert_eq!(one.orphans().await, [MAILBOX]);
        let lease = one.own(LONG).await;
        assert_eq!(two.orphans().await, [""; 0]);
        one.fleet.release([lease].into()).await.unwrap();
        assert_eq!(two.orphans().await, [MAILBOX]);
        let lease = one.own(SHORT).await;
        let mut found = two.orphans().await;
        for _ in 0..500 {
            if !found.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            found = two.orphans().await;
        }
        assert_eq!(found, [MAILBOX], "its lease has lapsed");
        let mine = Lease { token: token(two.acquire(LONG, Lapsed::TakeOver).await), ..lease };
        two.claim(1, 1, &mine).await;
        two.store.record(record(1, T::Accept)).await.unwrap();
        two.fleet.release([mine].into()).await.unwrap();
        assert_eq!(one.orphans().await, [""; 0], "nothing is left to do");
    });
}

#[test]
fn a_restart_with_or_without_its_data_is_told_to_everybody() {
    for (mut server, keeps) in [(RedisServer::durable(), true), (RedisServer::start(), false)] {
        block_on(async {
            let (one, two) = (Member::of(&server).await, Member::of(&server).await);
            let lease = one.own(LONG).await;
            let before = one.fleet.renew(one.id, LONG, [].into()).await.unwrap();
            assert_eq!((before.failover_ago, before.members), (None, 2));
            server.kill();
            assert_unavailable(one.fleet.renew(one.id, LONG, [lease.clone()].into()).await);
            server.restart();
            let after = until_in_reach(async || one.fleet.renew(one.id, LONG, [lease.clone()].into()).await).await;
            assert!(after.failover_ago.is_some_and(|ago| ago < Duration::from_secs(5)), "{after:?}");
            assert_eq!(matches!(after.answers[0], Renewed::Kept { .. }), keeps);
            let other = until_in_reach(async || two.fleet.renew(two.id, LONG, [].into()).await).await;
            assert!(other.failover_ago.is_some(), "whoever comes second is told too: {other:?}");
            two.hear(|news| *news == News::Missed).await;
            let again = one.acquire(LONG, Lapsed::TakeOver).await;
            assert!(matches!(again, Acquired::Owner { failover_ago: Some(_), .. }), "{again:?}");
            assert!(token(again) > lease.token, "higher across failovers too");
        });
    }
}

#[test]
fn news_reach_every_other_member_and_fail_while_the_server_is_away() {
    let mut server = RedisServer::durable();
    block_on(async {
        let (one, two) = (Member::of(&server).await, Member::of(&server).await);
        // Both listen when the first word has come back.
        one.hear(|news| *news == News::Missed).await;
        two.hear(|news| *news == News::Missed).await;
        one.fleet.publish(one.id, vec![News::Notes, News::Changed { id: "a|b".into() }]).await.unwrap();
        two.hear(|news| *news == News::Changed { id: "a|b".into() }).await;
        two.fleet.publish(two.id, vec![News::Notes]).await.unwrap();
        assert_eq!(one.fleet.news(one.id).await, Ok(vec![News::Notes]), "not what it said itself");
        server.kill();
        let mut away = Ok(Vec::new());
        for _ in 0..500 {
            away = one.fleet.news(one.id).await;
            if away.is_err() {
                break;
            }
        }
        assert_unavailable(away);
        server.restart();
        one.hear(|news| *news == News::Missed).await;
    });
}

#[test]
fn the_latest_cooldown_counts_and_one_member_probes() {
    let server = RedisServer::start();
    block_on(async {
        let (one, two) = (Member::of(&server).await, Member::of(&server).await);
        let scope = Scope::Tenant("acme".into());
        let (soon, late) = (now().after(Duration::from_secs(30)), now().after(Duration::from_secs(60)));
        assert_eq!(one.fleet.cool(scope.clone(), late).await, Ok(late));
        assert_eq!(two.fleet.cool(scope.clone(), soon).await, Ok(late));
        assert_eq!(two.fleet.cool(scope.clone(), Timestamp::EPOCH).await, Ok(late), "only asked");
        assert_eq!(two.fleet.cool(Scope::Application, Timestamp::EPOCH).await, Ok(Timestamp::EPOCH));
        let told = two.hear(|news| matches!(news, News::Cooldown { .. })).await;
        assert_eq!(told, News::Cooldown { scope: scope.clone(), until: late });
        let span = Duration::from_secs(30);
        assert_eq!(one.fleet.probe(one.id, scope.clone(), span).await, Ok(Probe::Yours));
        assert_eq!(one.fleet.probe(one.id, scope.clone(), span).await, Ok(Probe::Yours));
        let theirs = two.fleet.probe(two.id, scope, span).await.unwrap();
        assert!(matches!(theirs, Probe::Theirs { ends_in } if ends_in <= span), "{theirs:?}");
    });
}

#[test]
fn members_whose_clocks_are_wrong_are_told_the_servers_time() {
    let server = RedisServer::start();
    let slow = RedisStore::open_with(&server.url(), options().clock(Skewed::by(-300))).unwrap();
    block_on(async {
        let fleet = slow.fleet().unwrap();
        let joined = fleet.join().await.unwrap();
        let off = now().since(joined.time);
        assert!(off < Duration::from_secs(5), "{off:?}");
        assert_eq!(joined.keys_after.0, joined.member.0 << 32);
        // From then on it speaks in the server's time, as everybody does.
        slow.insert(vec![new(1)]).await.unwrap();
        let there = found(&slow, 1).await.unwrap();
        assert!(now().since(there.submitted_at) < Duration::from_secs(5), "{there:?}");
        assert_eq!(state(&open(&server.url()), 1).await, S::Queued);
    });
}
