//! Where the server is, from a URL.
//!
//! `redis://`, `redis+cluster://` and `redis+sentinel://` (several hosts with commas between them), and the same with
//! `rediss` for TLS, each with `user:password@` before the host and, without a Cluster, a database number at the end.

use std::fmt;
use std::path::Path;

use redis::{Client, ConnectionInfo, IntoConnectionInfo};

#[cfg(feature = "redis-sentinel")]
use super::sentinel::Sentinels;
use super::trust::Trust;
use crate::store::StoreError;

/// A server, the master of some sentinels, or a Cluster.
#[derive(Clone)]
pub(super) enum Address {
    One(Box<Client>),
    #[cfg(feature = "redis-sentinel")]
    Sentinel(Box<Sentinels>),
    #[cfg(feature = "redis-cluster")]
    Cluster(Vec<ConnectionInfo>, Trust),
}

/// Never with user or password.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(client) => write!(f, "{}", client.get_connection_info().addr()),
            #[cfg(feature = "redis-sentinel")]
            Self::Sentinel(sentinels) => sentinels.fmt(f),
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(nodes, _) => {
                f.debug_list().entries(nodes.iter().map(|node| node.addr().to_string())).finish()
            }
        }
    }
}

impl Address {
    /// Reads a URL.
    ///
    /// # Errors
    /// What is wrong with it, without repeating it.
    pub(super) fn parse(url: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = url.split_once("://").ok_or("it needs a host: redis://HOST:PORT/DATABASE")?;
        match scheme {
            "redis" => one(url),
            "rediss" if cfg!(feature = "redis-tls") => one(url),
            "rediss" | "rediss+cluster" | "rediss+sentinel" if !cfg!(feature = "redis-tls") => {
                Err("this build has no TLS for Redis; build it with the feature redis-tls")
            }
            "redis+cluster" => cluster("redis", rest),
            "rediss+cluster" => cluster("rediss", rest),
            "redis+sentinel" => sentinel("redis", rest),
            "rediss+sentinel" => sentinel("rediss", rest),
            _ => Err("no store has this scheme"),
        }
    }

    /// With the certificates of a file, where there is one, for a URL that may ask for TLS.
    ///
    /// # Errors
    /// The file, and what is wrong with it.
    pub(super) fn secured(self, is_tls: bool, ca_file: Option<&Path>) -> Result<Self, StoreError> {
        let Some(path) = ca_file else {
            #[cfg(feature = "redis-tls")]
            if is_tls {
                super::tls::choose_cryptography();
            }
            return Ok(self);
        };
        if !is_tls {
            let reason = format!(
                "store.redis.ca_file = {path:?}: without TLS no certificate is looked at; leave it out, or let \
                 store.url begin with rediss"
            );
            return Err(StoreError::Unusable { reason });
        }
        self.trusting(path)
    }

    #[cfg(feature = "redis-tls")]
    fn trusting(self, path: &Path) -> Result<Self, StoreError> {
        super::tls::choose_cryptography();
        let trust = Trust::only(super::tls::read(path)?);
        match self {
            Self::One(one) => trust
                .client(one.get_connection_info().clone())
                .map(|client| Self::One(Box::new(client)))
                .map_err(|_| StoreError::Unusable {
                    reason: format!(
                        "store.redis.ca_file = {path:?}: its certificates cannot be read; they are to be PEM"
                    ),
                }),
            #[cfg(feature = "redis-sentinel")]
            Self::Sentinel(mut sentinels) => {
                sentinels.trust = trust;
                Ok(Self::Sentinel(sentinels))
            }
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(nodes, _) => Ok(Self::Cluster(nodes, trust)),
        }
    }

    /// A URL that asks for TLS is refused before.
    #[cfg(not(feature = "redis-tls"))]
    fn trusting(self, _: &Path) -> Result<Self, StoreError> {
        Ok(self)
    }
}

pub(super) fn info(url: &str) -> Result<ConnectionInfo, &'static str> {
    let info =
        url.into_connection_info().map_err(|_| "it cannot be read; write redis://USER:PASSWORD@HOST:PORT/DATABASE")?;
    if info.redis_settings().db() < 0 {
        return Err("the number of its database is below 0");
    }
    Ok(info)
}

fn one(url: &str) -> Result<Address, &'static str> {
    Trust::default().client(info(url)?).map(|client| Address::One(Box::new(client))).map_err(|_| "it cannot be used")
}

#[cfg(feature = "redis-cluster")]
fn cluster(scheme: &str, rest: &str) -> Result<Address, &'static str> {
    let (login, hosts) = rest.rsplit_once('@').map_or(("", rest), |(login, hosts)| (login, hosts));
    let hosts = hosts.trim_end_matches('/');
    if hosts.contains('/') {
        return Err("a Cluster has one database: nothing follows its hosts");
    }
    let at = if login.is_empty() { "" } else { "@" };
    let nodes = hosts.split(',').map(|host| info(&format!("{scheme}://{login}{at}{host}")));
    nodes.collect::<Result<_, _>>().map(|nodes| Address::Cluster(nodes, Trust::default()))
}

#[cfg(not(feature = "redis-cluster"))]
fn cluster(_: &str, _: &str) -> Result<Address, &'static str> {
    Err("this build has no Redis Cluster; build it with the feature redis-cluster")
}

#[cfg(feature = "redis-sentinel")]
fn sentinel(scheme: &str, rest: &str) -> Result<Address, &'static str> {
    Sentinels::parse(scheme, rest).map(|sentinels| Address::Sentinel(Box::new(sentinels)))
}

#[cfg(not(feature = "redis-sentinel"))]
fn sentinel(_: &str, _: &str) -> Result<Address, &'static str> {
    Err("this build has no Sentinel for Redis; build it with the feature redis-sentinel")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_its_secrets_do_not_show() {
        let address = Address::parse("redis://ann:hunter2@cache.example:6380/3").expect("a URL");
        assert_eq!(format!("{address:?}"), "cache.example:6380");
        let Address::One(client) = address else { panic!("one server") };
        let settings = client.get_connection_info().redis_settings();
        assert_eq!((settings.username(), settings.password(), settings.db()), (Some("ann"), Some("hunter2"), 3));
    }

    #[cfg(feature = "redis-cluster")]
    #[test]
    fn the_nodes_of_a_cluster_share_one_login() {
        let address = Address::parse("redis+cluster://ann:hunter2@one:7000,two:7001").expect("a URL");
        assert_eq!(format!("{address:?}"), "[\"one:7000\", \"two:7001\"]");
        assert!(Address::parse("redis+cluster://one:7000/1").is_err());
    }

    #[test]
    fn what_cannot_be_read_is_refused_without_repeating_it() {
        for url in ["redis:", "redis://:hunter2@", "redis://host:port", "redis://host/hunter2", "http://hunter2"] {
            let reason = Address::parse(url).expect_err(url);
            assert!(!reason.contains("hunter2"), "{reason}");
        }
    }
}
