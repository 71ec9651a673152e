//! Replies that are lost: the call was executed, and nobody was told.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mailweir::engine::OperationState as S;
use mailweir::engine::operation::Transition as T;
use mailweir::store::{Inserted, Store};

use crate::redis_server::RedisServer;
use crate::support::*;

/// Between a store and its server: passes everything on, or swallows replies and breaks the connection.
struct Proxy {
    port: u16,
    swallows: Arc<AtomicBool>,
}

impl Proxy {
    fn before(server: &RedisServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, to) = (listener.local_addr().unwrap().port(), server.port());
        let swallows = Arc::new(AtomicBool::new(false));
        let switch = Arc::clone(&swallows);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                let (up, down) = ((client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client));
                std::thread::spawn(move || pass(up.0, up.1, &AtomicBool::new(false)));
                let switch = Arc::clone(&switch);
                std::thread::spawn(move || pass(down.0, down.1, &switch));
            }
        });
        Self { port, swallows }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The next reply is lost with its connection; those of the connections after it come through.
    fn swallow(&self) {
        self.swallows.store(true, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, swallows: &AtomicBool) {
    let mut bytes = [0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if swallows.swap(false, Ordering::SeqCst) || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    // The other side may have gone first.
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

#[test]
fn every_call_whose_reply_is_lost_ends_as_if_it_had_come() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    block_on(async {
        let store = open(&proxy.url());
        for key in 1..=10 {
            let insert = vec![new(key)];
            proxy.swallow();
            let inserted = until_in_reach(async || store.insert(insert.clone()).await).await;
            assert!(matches!(inserted[0], Inserted::New | Inserted::Existing(_)), "{inserted:?}");
            let claim = vec![claim(key, 1)];
            proxy.swallow();
            let emails = until_in_reach(async || store.claim(claim.clone()).await).await;
            assert_eq!(emails, [Some(new(key).email)]);
            let accept = record(key, T::Accept);
            proxy.swallow();
            until_in_reach(async || store.record(Arc::clone(&accept)).await).await;
            assert_eq!(state(&store, key).await, S::Accepted);
        }
        let counts = store.counts().await.unwrap();
        assert_eq!(counts[S::Accepted as usize], 10);
        assert_eq!(counts.iter().sum::<u64>(), 10, "nothing is there twice");
        let attempts = store.recover(mailweir::engine::Timestamp::EPOCH, None).await.unwrap().attempts;
        assert_eq!(attempts.len(), 10);
        assert!(attempts.iter().all(|attempt| attempt.finished_at.is_some()));
    });
}

#[test]
fn an_id_whose_holder_died_before_its_row_is_taken_over() {
    let server = RedisServer::start();
    block_on(async {
        let store = open(&server.url());
        store.insert(vec![new(1)]).await.unwrap();
        // As a process leaves it that dies between the two steps: an id, a mark that it waits, no row.
        let shard = server.say(&["EVAL", SHARD_OF, "0", "operation-1"]);
        let shard = shard.lines().nth(1).unwrap();
        let (ids, pending) = (format!("{shard}:ids"), format!("{shard}:pending"));
        server.say(&["HSET", &ids, "operation-1", "7|00000000000000ff|noreply@contoso.example"]);
        server.say(&["ZADD", &pending, "1000", "operation-1"]);
        let again = mailweir::store::NewOperation { key: mailweir::engine::OperationKey(9), ..new(1) };
        assert_eq!(store.insert(vec![again.clone()]).await, Ok(vec![Inserted::New]));
        assert_eq!(found(&store, 1).await.unwrap().key.0, 9);
        // The same, but the other one has had no time yet.
        server.say(&["HSET", &ids, "operation-1", "7|00000000000000ee|noreply@contoso.example"]);
        let moment = now().as_micros().to_string();
        server.say(&["ZADD", &pending, &moment, "operation-1"]);
        assert_unavailable(store.insert(vec![again]).await);
    });
}

/// The base of the shard that holds an id.
const SHARD_OF: &str = "for shard = 0, 15 do local base = string.format('mailweir:{i:%02d}', shard) \
     if redis.call('HEXISTS', base .. ':ids', ARGV[1]) == 1 then return base end end";
