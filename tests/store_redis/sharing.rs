//! Processes that share an outbox: their clocks may disagree, their facts may not.

use std::time::Duration;

use mailweir::engine::operation::Transition as T;
use mailweir::engine::{OperationKey, OperationState as S, Timestamp};
use mailweir::store::{Inserted, NewOperation, RedisStore, Store};

use crate::redis_server::RedisServer;
use crate::support::*;

/// The same instant by clocks that are five minutes slow and five minutes fast, to a few milliseconds.
#[track_caller]
fn assert_apart(slow: Timestamp, fast: Timestamp) {
    let apart = fast.since(slow);
    let (least, most) = (Duration::from_millis(599_950), Duration::from_millis(600_050));
    assert!((least..most).contains(&apart), "{apart:?}");
}

#[test]
fn clocks_that_are_five_minutes_off_see_the_same_facts() {
    let server = RedisServer::start();
    let slow = RedisStore::open_with(&server.url(), options().clock(Skewed::by(-300))).unwrap();
    let fast = RedisStore::open_with(&server.url(), options().clock(Skewed::by(300))).unwrap();
    block_on(async {
        // Submitted now, by the slow clock; to be sent in a minute.
        let by_slow = |instant: Timestamp| instant.before(Duration::from_secs(300));
        let operation = new(1);
        let operation = NewOperation {
            submitted_at: by_slow(operation.submitted_at),
            not_before: by_slow(operation.not_before).after(Duration::from_secs(60)),
            deadline: by_slow(operation.deadline),
            ..operation
        };
        slow.insert(vec![operation.clone()]).await.unwrap();
        let (mine, theirs) = (found(&slow, 1).await.unwrap(), found(&fast, 1).await.unwrap());
        assert_eq!(mine, operation.first_row());
        assert_apart(mine.submitted_at, theirs.submitted_at);
        assert_apart(mine.not_before, theirs.not_before);
        assert_apart(mine.deadline, theirs.deadline);
        assert_eq!((theirs.state, &theirs.id), (S::Admitted, &mine.id));
        // The fast one claims it: an attempt is when the server says it is.
        let late = mailweir::store::Claim { at: now().after(Duration::from_secs(300)), ..claim(1, 1) };
        fast.claim(vec![late]).await.unwrap();
        let attempt = |recovery: mailweir::store::Recovery| recovery.attempts[0].claimed_at;
        let mine = attempt(slow.recover(Timestamp::EPOCH, None).await.unwrap());
        let theirs = attempt(fast.recover(Timestamp::EPOCH, None).await.unwrap());
        assert_apart(mine, theirs);
        let off = by_slow(now()).since(mine);
        assert!(off < Duration::from_secs(5), "{off:?}");
        // What is past for one is past for the other.
        for (store, seconds) in [(&slow, -300_i64), (&fast, 300)] {
            let now = Timestamp::from_micros(now().as_micros().saturating_add_signed(seconds * 1_000_000));
            let since = |seconds| now.before(Duration::from_secs(seconds));
            assert_eq!(store.recover(since(60), None).await.unwrap().attempts.len(), 1);
            let later = now.after(Duration::from_secs(60));
            assert_eq!(store.recover(later, None).await.unwrap().attempts.len(), 0);
        }
    });
}

#[test]
fn a_record_is_repeated_by_another_process_without_harm() {
    let server = RedisServer::start();
    let (one, two) = (open(&server.url()), open(&server.url()));
    block_on(async {
        one.insert(vec![new(1)]).await.unwrap();
        one.claim(vec![claim(1, 1)]).await.unwrap();
        let accept = record(1, T::Accept);
        one.record(accept.clone()).await.unwrap();
        two.record(accept).await.unwrap();
        assert_eq!(state(&two, 1).await, S::Accepted);
        assert_eq!(two.counts().await.unwrap()[S::Accepted as usize], 1);
    });
}

#[test]
fn of_many_who_submit_an_id_at_once_one_stores_it() {
    let server = RedisServer::start();
    let stores: Vec<RedisStore> = (0..8).map(|_| open(&server.url())).collect();
    block_on(async {
        for round in 0..20_u64 {
            let calls = stores.iter().zip(1..).map(|(store, process)| {
                let key = OperationKey(process << 32 | round);
                let same = NewOperation { key, id: format!("shared-{round}").into(), fingerprint: 1, ..new(1) };
                until_in_reach(async move || store.insert(vec![same.clone()]).await)
            });
            let answers = futures::future::join_all(calls).await;
            let fresh = answers.iter().filter(|answer| answer[0] == Inserted::New).count();
            assert_eq!(fresh, 1, "{answers:?}");
            assert!(answers.iter().all(|answer| answer[0] != Inserted::Conflict), "{answers:?}");
        }
        let operations = stores[0].recover(Timestamp::EPOCH, None).await.unwrap().operations;
        assert_eq!(operations.len(), 20, "each id once");
    });
}

#[test]
fn each_start_has_keys_of_its_own() {
    let server = RedisServer::start();
    block_on(async {
        let mut keys = Vec::new();
        for _ in 0..5 {
            let last = open(&server.url()).recover(now(), None).await.unwrap().last_key.unwrap();
            keys.push(last.0 >> 32);
        }
        keys.dedup();
        assert_eq!(keys.len(), 5);
        assert!(keys.is_sorted());
    });
}

#[test]
fn prefixes_share_a_server_and_nothing_else() {
    let server = RedisServer::start();
    let one = RedisStore::open_with(&server.url(), options().prefix("one")).unwrap();
    let two = RedisStore::open_with(&server.url(), options().prefix("two")).unwrap();
    block_on(async {
        assert_eq!(one.insert(vec![new(1)]).await, Ok(vec![Inserted::New]));
        assert_eq!(found(&two, 1).await, None);
        assert_eq!(two.insert(vec![new(1)]).await, Ok(vec![Inserted::New]));
    });
    let keys = server.say(&["KEYS", "*"]);
    let foreign = keys
        .lines()
        .filter(|line| line.contains('{'))
        .find(|line| !line.starts_with("one:") && !line.starts_with("two:"));
    assert_eq!(foreign, None, "every key starts with a prefix");
}

#[test]
fn what_is_over_leaves_no_key_behind() {
    let server = RedisServer::start();
    let options = options().ended_max(0).attempts_for(Duration::ZERO).clock_refresh(Duration::from_millis(10));
    let store = RedisStore::open_with(&server.url(), options).unwrap();
    block_on(async {
        for key in 1..=20 {
            store
                .insert(vec![NewOperation { mailbox: format!("{key}@contoso.example").into(), ..new(key) }])
                .await
                .unwrap();
            store.claim(vec![claim(key, 1)]).await.unwrap();
            store.record(record(key, T::Accept)).await.unwrap();
        }
        assert_eq!(store.counts().await.unwrap(), [0; 10]);
        for _ in 0..500 {
            let keys = server.say(&["KEYS", "mailweir:*"]);
            let left: Vec<&str> =
                keys.lines().filter(|line| line.contains('{') && !line.contains("generation")).collect();
            if left.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("left behind: {}", server.say(&["KEYS", "mailweir:*"]));
    });
}
