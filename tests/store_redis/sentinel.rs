//! A store that finds its server through sentinels.

use std::time::Duration;

use mailweir::engine::OperationState as S;
use mailweir::store::fleet::{Agreement, Lapsed, Lease, Terms};
use mailweir::store::{Inserted, RedisOptions, RedisStore, Store};

use crate::redis_server::group::Group;
use crate::support::*;

#[test]
fn a_store_follows_the_master_and_its_members_are_told_of_the_failover() {
    let mut group = Group::start();
    // The first of the URL says nothing any more: it costs nothing.
    group.sentinels[0].freeze();
    let store = RedisStore::open_with(&group.url(), options().replicas(1)).unwrap();
    block_on(async {
        let fleet = store.fleet().unwrap();
        let member = fleet.join().await.unwrap().member;
        let terms = Terms { ttl: Duration::from_secs(60), memory: Duration::from_secs(600), clock: Agreement::Agrees };
        let mailboxes = [MAILBOX.into()];
        let acquired = fleet.acquire(member, terms, Lapsed::TakeOver, mailboxes.into()).await.unwrap();
        let mailweir::store::fleet::Acquired::Owner { token, failover_ago: None, .. } = acquired[0] else {
            panic!("{acquired:?}")
        };
        let lease = Lease { mailbox: MAILBOX.into(), token };
        assert_eq!(store.insert(vec![new(1), new(2)]).await, Ok(vec![Inserted::New; 2]));
        assert_eq!(store.claim(vec![claim(1, 1)]).await, Ok(vec![Some(new(1).email)]));
        group.master.kill();
        assert_unavailable(store.counts().await);
        group.until_failed_over();
        let renewed = until_in_reach(async || fleet.renew(member, terms, [lease.clone()].into()).await).await;
        assert!(renewed.failover_ago.is_some(), "{renewed:?}");
        assert_eq!((state(&store, 1).await, state(&store, 2).await), (S::Attempting, S::Queued));
        assert_eq!(store.insert(vec![new(3)]).await, Ok(vec![Inserted::New]), "without a replica too");
    });
}

#[test]
fn what_is_wrong_with_a_group_is_said() {
    let group = Group::start();
    let url = group.url();
    let wrong_name = RedisStore::open(&url.replace("/outbox", "/inbox")).unwrap_err().to_string();
    assert!(wrong_name.contains("the name after the hosts"), "{wrong_name}");
    let no_sentinel = format!("redis+sentinel://127.0.0.1:{}/outbox", group.master.port());
    let no_sentinel = RedisStore::open(&no_sentinel).unwrap_err().to_string();
    assert!(no_sentinel.contains("name sentinels, or write redis://"), "{no_sentinel}");
    let long = RedisOptions::new().replicas(1).replica_wait(Duration::from_millis(250));
    let long = RedisStore::open_with(&url, long).unwrap_err().to_string();
    assert!(long.contains("replica_wait") && long.contains("response_timeout"), "{long}");
}
