//! A Cluster of three masters on loopback: mailboxes are spread over them, and nothing else is different.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mailweir::engine::operation::Transition as T;
use mailweir::engine::{OperationKey, OperationState as S, Timestamp};
use mailweir::store::fleet::{Acquired, Agreement, Claimed, FencedClaim, Lapsed, Lease, Renewed, Terms};
use mailweir::store::{Inserted, NewOperation, RedisStore, Store};

use crate::redis_server::{RedisServer, free_port};
use crate::support::*;

/// How often it is asked whether the nodes have found each other.
const TRIES: u32 = 2_000;

struct Cluster {
    nodes: Vec<RedisServer>,
}

impl Cluster {
    fn start() -> Self {
        let node = |_| {
            let bus = free_port();
            let arguments = ["--cluster-enabled", "yes", "--cluster-port", &bus.to_string(), "--appendonly", "no"];
            (RedisServer::with(&arguments), bus)
        };
        let nodes: Vec<(RedisServer, u16)> = (0..3).map(node).collect();
        let slots = [("0", "5460"), ("5461", "10922"), ("10923", "16383")];
        for ((node, _), (first, last)) in nodes.iter().zip(slots) {
            node.say(&["CLUSTER", "ADDSLOTSRANGE", first, last]);
        }
        for (node, bus) in &nodes[1..] {
            let (port, bus) = (node.port().to_string(), bus.to_string());
            nodes[0].0.say(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        let cluster = Self { nodes: nodes.into_iter().map(|(node, _)| node).collect() };
        for _ in 0..TRIES {
            let knows_all = |node: &RedisServer| {
                let info = node.say(&["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
            };
            if cluster.nodes.iter().all(knows_all) {
                return cluster;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        panic!("the nodes did not find each other");
    }

    fn url(&self) -> String {
        let hosts: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }
}

fn in_mailbox(key: u64) -> NewOperation {
    NewOperation { mailbox: format!("{key}@contoso.example").into(), ..new(key) }
}

#[test]
fn operations_live_their_lives_on_whichever_node_they_are() {
    let cluster = Cluster::start();
    let store = open(&cluster.url());
    block_on(async {
        let batch: Vec<NewOperation> = (1..=60).map(in_mailbox).collect();
        assert_eq!(store.insert(batch.clone()).await, Ok(vec![Inserted::New; 60]));
        let again: Vec<NewOperation> =
            batch.into_iter().map(|new| NewOperation { key: OperationKey(new.key.0 + 100), ..new }).collect();
        let answer = store.insert(again).await.unwrap();
        assert!(answer.iter().all(|inserted| matches!(inserted, Inserted::Existing(_))), "{answer:?}");
        let emails = store.claim((1..=60).map(|key| claim(key, 1)).collect()).await.unwrap();
        assert!(emails.iter().all(Option::is_some));
        store.record((1..=30).flat_map(|key| record(key, T::Accept).to_vec()).collect()).await.unwrap();
        let counts = store.counts().await.unwrap();
        assert_eq!((counts[S::Accepted as usize], counts[S::Attempting as usize]), (30, 30));
        let recovery = open(&cluster.url()).recover(Timestamp::EPOCH, None).await.unwrap();
        assert_eq!((recovery.operations.len(), recovery.attempts.len()), (30, 60));
        for node in &cluster.nodes {
            assert!(!node.say(&["DBSIZE"]).starts_with(":0"), "every node has a part");
        }
        // Scripts that one node forgot are loaded again.
        cluster.nodes[1].say(&["SCRIPT", "FLUSH"]);
        let emails = store.claim((31..=60).map(|key| claim(key, 2)).collect()).await.unwrap();
        assert!(emails.iter().all(Option::is_some));
    });
}

#[test]
fn members_own_mailboxes_on_every_node() {
    let cluster = Cluster::start();
    let (one, two) = (open(&cluster.url()), open(&cluster.url()));
    block_on(async {
        let (first, second) = (one.fleet().unwrap(), two.fleet().unwrap());
        let (me, other) = (first.join().await.unwrap().member, second.join().await.unwrap().member);
        second.submit((1..=30).map(in_mailbox).collect()).await.unwrap();
        let orphans = first.orphans(100).await.unwrap();
        assert_eq!(orphans.iter().collect::<BTreeSet<_>>().len(), 30);
        let mailboxes: Arc<[Arc<str>]> = orphans.into();
        let terms = Terms { ttl: Duration::from_secs(60), memory: Duration::from_secs(600), clock: Agreement::Agrees };
        let acquired = first.acquire(me, terms, Lapsed::TakeOver, Arc::clone(&mailboxes)).await.unwrap();
        let lease = |(mailbox, acquired): (&Arc<str>, &Acquired)| match acquired {
            Acquired::Owner { token, .. } => Lease { mailbox: Arc::clone(mailbox), token: *token },
            Acquired::Elsewhere { .. } => panic!("{acquired:?}"),
        };
        let leases: Vec<Lease> = mailboxes.iter().zip(&acquired).map(lease).collect();
        let theirs = second.acquire(other, terms, Lapsed::TakeOver, mailboxes).await.unwrap();
        assert!(theirs.iter().all(|answer| matches!(answer, Acquired::Elsewhere { .. })), "{theirs:?}");
        let renewed = first.renew(me, terms, leases.clone().into()).await.unwrap();
        assert!(renewed.answers.iter().all(|answer| matches!(answer, Renewed::Kept { .. })), "{renewed:?}");
        second
            .submit(
                (1..=30)
                    .map(|key| NewOperation {
                        key: OperationKey(key + 100),
                        id: format!("second-{key}").into(),
                        ..in_mailbox(key)
                    })
                    .collect(),
            )
            .await
            .unwrap();
        let letters = first.inbox(leases.iter().map(|lease| (lease.clone(), Vec::new())).collect()).await.unwrap();
        assert!(letters.iter().all(|letters| letters.len() == 1), "{letters:?}");
        let claims = leases.iter().map(|lease| {
            let key = lease.mailbox.split('@').next().unwrap().parse().unwrap();
            FencedClaim { claim: claim(key, 1), lease: lease.clone() }
        });
        let claimed = first.claim(claims.collect()).await.unwrap();
        assert!(claimed.iter().all(|claimed| matches!(claimed, Claimed::Written(_))), "{claimed:?}");
        first.release(leases.into()).await.unwrap();
        assert_eq!(second.orphans(100).await.unwrap().len(), 30);
    });
    drop::<RedisStore>(two);
}
