//! The server freezes, dies, comes back with and without what it had, forgets scripts, fills up.

use std::time::Duration;

use mailweir::clock::{Clock, SystemClock};
use mailweir::engine::OperationState as S;
use mailweir::engine::operation::Transition as T;
use mailweir::store::{Inserted, RedisOptions, RedisStore, Store, StoreError};

use crate::redis_server::RedisServer;
use crate::support::*;

#[test]
fn a_frozen_server_costs_one_wait_and_not_one_per_call() {
    let server = RedisServer::start();
    block_on(async {
        let options = RedisOptions::new().retry_after(Duration::from_secs(60));
        let store = RedisStore::open_with(&server.url(), options).unwrap();
        store.insert(vec![new(1)]).await.unwrap();
        server.freeze();
        let clock = SystemClock::new();
        let start = clock.now();
        assert_unavailable(store.counts().await);
        let first = clock.now().since(start);
        assert!(first >= Duration::from_millis(200) && first < Duration::from_secs(2), "{first:?}");
        let start = clock.now();
        for _ in 0..1_000 {
            assert_unavailable(store.claim(vec![claim(1, 1)]).await);
        }
        let thousand = clock.now().since(start);
        assert!(thousand < Duration::from_secs(1), "a thousand calls took {thousand:?}");
        server.thaw();
    });
}

#[test]
fn after_a_thaw_everything_goes_on_and_what_had_been_executed_counts_once() {
    let server = RedisServer::start();
    block_on(async {
        let store = open(&server.url());
        store.insert(vec![new(1), new(2)]).await.unwrap();
        server.freeze();
        // Both are executed by and by: the server has them in its socket.
        assert_unavailable(store.claim(vec![claim(1, 1)]).await);
        let insert = vec![new(3)];
        assert_unavailable(store.insert(insert.clone()).await);
        server.thaw();
        let email = until_in_reach(async || store.claim(vec![claim(1, 1)]).await).await;
        assert_eq!(email, [Some(new(1).email)]);
        let inserted = until_in_reach(async || store.insert(insert.clone()).await).await;
        assert!(matches!(inserted[0], Inserted::New | Inserted::Existing(_)), "{inserted:?}");
        let recovery = store.recover(mailweir::engine::Timestamp::EPOCH, None).await.unwrap();
        assert_eq!(recovery.operations.iter().map(|found| found.key.0).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(recovery.attempts.len(), 1, "one row");
    });
}

#[test]
fn a_server_that_was_killed_comes_back_with_what_it_had_promised() {
    let mut server = RedisServer::durable();
    block_on(async {
        let store = open(&server.url());
        store.insert((1..=20).map(new).collect()).await.unwrap();
        store.claim(vec![claim(1, 1), claim(2, 1)]).await.unwrap();
        store.record(record(1, T::Accept)).await.unwrap();
        server.kill();
        assert_unavailable(store.insert(vec![new(21)]).await);
        server.restart();
        let counts = until_in_reach(async || store.counts().await).await;
        assert_eq!(counts[S::Queued as usize] + counts[S::Attempting as usize] + counts[S::Accepted as usize], 20);
        assert_eq!((state(&store, 1).await, state(&store, 2).await), (S::Accepted, S::Attempting));
        assert_eq!(store.email(new(2).key).await, Ok(Some(new(2).email)));
        store.insert(vec![new(21)]).await.unwrap();
    });
}

#[test]
fn a_server_that_comes_back_empty_is_filled_anew_and_keys_are_not_given_out_twice() {
    let mut server = RedisServer::start();
    block_on(async {
        let store = open(&server.url());
        let before = store.recover(now(), None).await.unwrap().last_key.unwrap();
        store.insert(vec![new(1)]).await.unwrap();
        server.kill();
        server.restart();
        let counts = until_in_reach(async || store.counts().await).await;
        assert_eq!(counts, [0; 10], "that is how it came back");
        assert_eq!(store.claim(vec![claim(1, 1)]).await, Ok(vec![None]));
        assert_eq!(store.insert(vec![new(1)]).await, Ok(vec![Inserted::New]));
        // A number that was forgotten is not given out again in a later second.
        let second = || server.say(&["TIME"]).lines().nth(2).map(str::to_owned);
        let start = second();
        while second() == start {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let other = open(&server.url()).recover(now(), None).await.unwrap().last_key.unwrap();
        assert!(other > before, "{other:?} after {before:?}");
    });
}

#[test]
fn a_connection_that_was_lost_while_idle_is_no_outage() {
    let mut server = RedisServer::durable();
    block_on(async {
        let store = open(&server.url());
        store.insert(vec![new(1)]).await.unwrap();
        server.kill();
        server.restart();
        assert_eq!(store.claim(vec![claim(1, 1)]).await, Ok(vec![Some(new(1).email)]), "the very first call");
    });
}

#[test]
fn scripts_that_the_server_forgot_are_loaded_again() {
    let server = RedisServer::start();
    block_on(async {
        let store = open(&server.url());
        for key in 1..=5 {
            server.say(&["SCRIPT", "FLUSH"]);
            assert_eq!(store.insert(vec![new(key)]).await, Ok(vec![Inserted::New]));
            server.say(&["SCRIPT", "FLUSH"]);
            assert_eq!(store.claim(vec![claim(key, 1)]).await, Ok(vec![Some(new(key).email)]));
        }
    });
}

#[test]
fn a_full_server_is_a_full_store_and_what_it_had_can_still_be_ended() {
    let server = RedisServer::start();
    block_on(async {
        let store = open(&server.url());
        store.insert(vec![new(1)]).await.unwrap();
        server.say(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        server.say(&["CONFIG", "SET", "maxmemory", "1"]);
        let full = store.insert(vec![new(2)]).await.unwrap_err();
        assert!(matches!(&full, StoreError::Full { bound } if bound.contains("maxmemory")), "{full}");
        server.say(&["CONFIG", "SET", "maxmemory", "0"]);
        assert_eq!(store.insert(vec![new(2)]).await, Ok(vec![Inserted::New]));
    });
}

#[test]
fn a_wrong_password_is_said_and_never_shown() {
    let server = RedisServer::with(&["--requirepass", "hunter2"]);
    let url = |login: &str| format!("redis://{login}127.0.0.1:{}", server.port());
    for login in ["", ":hunter3@", "ann:hunter2@"] {
        let error = RedisStore::open(&url(login)).unwrap_err();
        assert!(matches!(error, StoreError::Unusable { .. }), "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");
    }
    let store = RedisStore::open(&url(":hunter2@")).unwrap();
    assert!(!format!("{store:?}").contains("hunter"), "{store:?}");
    assert!(format!("{store:?}").contains(&server.port().to_string()));
}

#[test]
fn a_server_that_forgets_says_so_at_the_start() {
    let server = RedisServer::start();
    server.say(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let warnings = open(&server.url()).durability().warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert_eq!(open(&RedisServer::durable().url()).durability().warnings(), Vec::<String>::new());
}

#[test]
fn a_user_who_may_not_read_the_configuration_is_served_all_the_same() {
    let server = RedisServer::start();
    server.say(&["ACL", "SETUSER", "mailer", "on", ">hunter2", "~mailweir:*", "&mailweir:*", "+@all", "-config"]);
    let store = RedisStore::open(&format!("redis://mailer:hunter2@127.0.0.1:{}/0", server.port())).unwrap();
    assert_eq!(store.durability().appendonly, None);
    assert_eq!(store.durability().warnings(), Vec::<String>::new());
    block_on(async { assert_eq!(store.insert(vec![new(1)]).await, Ok(vec![Inserted::New])) });
}
