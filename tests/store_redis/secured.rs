//! TLS and a user with no right too many, over a real server.

use std::path::PathBuf;
use std::time::Duration;

use mailweir::engine::OperationState as S;
use mailweir::engine::operation::Transition as T;
use mailweir::store::fleet::{Acquired, Agreement, FencedClaim, Lapsed, Lease, News, Terms};
use mailweir::store::{
    Inserted, Note, NoteBody, NoteChange, NoteKey, NoteKind, OrderNote, RedisStore, Store, StoreError,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::redis_server::{RedisServer, free_port};
use crate::support::*;

/// The documented rights of a user.
fn rights() -> Vec<String> {
    let page = include_str!("../../docs/redis.md");
    let (_, rest) = page.split_once("ACL SETUSER mailer on >secret ").expect("docs/redis.md has the rights");
    let (rights, _) = rest.split_once("```").expect("they end");
    rights.replace('\\', " ").split_whitespace().map(str::to_owned).collect()
}

/// A user with these rights, and everything else shut.
fn admit(server: &RedisServer, rights: &[String]) {
    let mut words = vec!["ACL", "SETUSER", "mailer", "reset", "on", ">s3cret"];
    words.extend(rights.iter().map(String::as_str));
    assert!(server.say(&words).starts_with("+OK"), "{}", server.say(&words));
}

fn url_of(server: &RedisServer) -> String {
    server.url().replace("redis://", "redis://mailer:s3cret@")
}

fn refusal(url: &str) -> String {
    let error = RedisStore::open_with(url, options()).unwrap_err();
    assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    error.to_string()
}

/// Everything that a store and its members do, once.
async fn live(store: &RedisStore) {
    let fleet = store.fleet().unwrap();
    let member = fleet.join().await.unwrap().member;
    let terms = Terms { ttl: Duration::from_secs(60), memory: Duration::from_secs(600), clock: Agreement::Agrees };
    let acquired = fleet.acquire(member, terms, Lapsed::TakeOver, [MAILBOX.into()].into()).await.unwrap();
    let Acquired::Owner { token, .. } = acquired[0] else { panic!("{acquired:?}") };
    let lease = Lease { mailbox: MAILBOX.into(), token };
    assert_eq!(store.insert(vec![new(1), new(2)]).await, Ok(vec![Inserted::New; 2]));
    assert_eq!(fleet.submit(vec![new(3)]).await, Ok(vec![Inserted::New]));
    let letters = fleet.inbox(vec![(lease.clone(), Vec::new())]).await.unwrap();
    assert_eq!(letters[0].len(), 1, "{letters:?}");
    let fenced = FencedClaim { claim: claim(1, 1), lease: lease.clone() };
    fleet.claim(vec![fenced]).await.unwrap();
    store.claim(vec![claim(2, 1)]).await.unwrap();
    store.record([record(1, T::Accept), record(2, T::Accept)].concat().into()).await.unwrap();
    assert_eq!((state(store, 1).await, state(store, 3).await), (S::Accepted, S::Queued));
    let key = NoteKey { kind: NoteKind::Hold, mailbox: Some(MAILBOX.into()), name: "all".into() };
    let body = NoteBody::Order(OrderNote::default());
    let note = Note { key, at: now(), until: now().after(Duration::from_secs(60)), body };
    store.keep([NoteChange::Keep(note)].into()).await.unwrap();
    fleet.cool(mailweir::engine::Scope::Application, now().after(Duration::from_secs(5))).await.unwrap();
    fleet.probe(member, mailweir::engine::Scope::Application, Duration::from_secs(5)).await.unwrap();
    fleet.publish(member, vec![News::Missed]).await.unwrap();
    until_in_reach(async || fleet.news(member).await).await;
    fleet.renew(member, terms, [lease.clone()].into()).await.unwrap();
    fleet.notes().await.unwrap();
    store.counts().await.unwrap();
    store.recover(mailweir::engine::Timestamp::EPOCH, None).await.unwrap();
    fleet.release([lease].into()).await.unwrap();
    assert_eq!(fleet.orphans(10).await.unwrap().len(), 1);
}

#[test]
fn a_user_with_the_documented_rights_can_do_everything_and_without_any_of_them_it_is_named() {
    let server = RedisServer::start();
    let rights = rights();
    admit(&server, &rights);
    let store = RedisStore::open_with(&url_of(&server), options()).unwrap();
    block_on(live(&store));
    assert_eq!(store.durability().appendonly, None, "CONFIG is not among them");
    drop(store);
    // What needs no right of its own: a selected database, and words between members, which fail later.
    let later = ["+select", "+subscribe", "+ping", "+wait"];
    for (at, right) in rights.iter().enumerate().filter(|(_, right)| right.starts_with('+')) {
        let others: Vec<String> = [&rights[..at], &rights[at + 1..]].concat();
        admit(&server, &others);
        if later.contains(&right.as_str()) {
            continue;
        }
        let told = refusal(&url_of(&server));
        let command = right.trim_start_matches('+');
        assert!(told.contains(command) && told.contains("ACL SETUSER"), "{right}: {told}");
    }
    let without = |what: char| rights.iter().filter(|right| !right.starts_with(what)).cloned().collect::<Vec<_>>();
    admit(&server, &without('~'));
    assert!(refusal(&url_of(&server)).contains("~PREFIX:*"));
    admit(&server, &without('&'));
    let told = refusal(&url_of(&server));
    assert!(told.contains("&mailweir:news"), "{told}");
}

#[test]
fn a_wrong_password_is_said_and_not_shown() {
    let server = RedisServer::start();
    admit(&server, &rights());
    let told = refusal(&server.url().replace("redis://", "redis://mailer:wrong-s3cret@"));
    assert!(told.contains("user or password are wrong") && told.contains("store.url"), "{told}");
    server.say(&["CONFIG", "SET", "requirepass", "s3cret-of-all"]);
    let told = refusal(&server.url());
    assert!(told.contains("user or password are wrong"), "{told}");
}

/// A CA, and a server's certificate for `localhost` that it has signed.
struct Certificates {
    folder: TempDir,
}

impl Certificates {
    fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let signed = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        for (name, text) in [("ca.pem", ca.pem()), ("server.pem", signed.pem()), ("key.pem", key.serialize_pem())] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A server that speaks TLS at a port of its own, and what that is.
    fn server(&self) -> (RedisServer, String) {
        let port = free_port().to_string();
        let file = |name: &str| self.path(name).to_str().unwrap().to_owned();
        let (ca, certificate, key) = (file("ca.pem"), file("server.pem"), file("key.pem"));
        let arguments = ["--tls-port", &port, "--tls-cert-file", &certificate, "--tls-key-file", &key];
        let more = ["--tls-ca-cert-file", &ca, "--tls-auth-clients", "no"];
        (RedisServer::with(&[&arguments[..], &more[..]].concat()), port)
    }
}

#[test]
fn a_server_is_reached_over_tls_when_its_signer_is_trusted_and_only_then() {
    let (certificates, others) = (Certificates::make(), Certificates::make());
    let (server, port) = certificates.server();
    admit(&server, &rights());
    let url = format!("rediss://mailer:s3cret@localhost:{port}");
    let trusting = |name: &Certificates| options().ca_file(name.path("ca.pem"));
    let store = RedisStore::open_with(&url, trusting(&certificates)).unwrap();
    block_on(live(&store));

    let refused = |url: &str, options| {
        let error = RedisStore::open_with(url, options).unwrap_err();
        assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        error.to_string()
    };
    for options in [options(), trusting(&others)] {
        let told = refused(&url, options);
        assert!(told.contains("nobody who is trusted") && told.contains("store.redis.ca_file"), "{told}");
    }
    let told = refused(&url.replace("localhost", "127.0.0.1"), trusting(&certificates));
    assert!(told.contains("for another name than the host of store.url"), "{told}");
    let told = refused(&url, options().ca_file(certificates.path("nowhere.pem")));
    assert!(told.contains("store.redis.ca_file") && told.contains("nowhere.pem"), "{told}");
    let told = refused(&url, options().ca_file(certificates.path("key.pem")));
    assert!(told.contains("holds no certificate"), "{told}");
    let told = refused(&url_of(&server), trusting(&certificates));
    assert!(told.contains("without TLS no certificate is looked at"), "{told}");
}
