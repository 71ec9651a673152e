//! Sentinels: they watch a group of servers and know which of them is the master now.
//!
//! They are asked whenever a connection is made, all at once, and the first answer counts: one that is frozen or gone
//! costs nothing while another one lives. What they name is asked for its role before it is believed. Nothing is
//! remembered between two connections, so after a failover the next connection leads to the new master.

use std::fmt;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{Client, ConnectionAddr, ErrorKind, RedisConnectionInfo, RedisResult, TlsMode};

use super::address::info;
use super::trust::Trust;

/// What a URL looks like.
const FORM: &str = "write redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER/DATABASE";
/// Where a sentinel listens unless told otherwise.
const PORT: u16 = 26_379;

/// Some sentinels, and which of their masters is meant.
#[derive(Clone)]
pub(super) struct Sentinels {
    nodes: Vec<ConnectionAddr>,
    master: String,
    /// How to log in at the servers.
    server: RedisConnectionInfo,
    /// How to log in at the sentinels.
    user: Option<String>,
    password: Option<String>,
    pub(super) trust: Trust,
}

/// Never with user or password.
impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of ", self.master)?;
        f.debug_list().entries(self.nodes.iter().map(ToString::to_string)).finish()
    }
}

impl Sentinels {
    /// Reads what follows the scheme of a URL; `scheme` is that of one server.
    ///
    /// # Errors
    /// What is wrong with it, without repeating it.
    pub(super) fn parse(scheme: &str, rest: &str) -> Result<Self, &'static str> {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (login, rest) = rest.rsplit_once('@').map_or(("", rest), |(login, rest)| (login, rest));
        let (hosts, path) = rest.split_once('/').ok_or(FORM)?;
        let (master, database) = path.split_once('/').unwrap_or((path, ""));
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if master.is_empty() || !master.bytes().all(plain) {
            return Err("the name of the master is missing, or not of letters, digits, '-', '_' and '.'; \
                        write redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER/DATABASE");
        }
        let at = if login.is_empty() { "" } else { "@" };
        let infos = hosts.split(',').map(|host| info(&format!("{scheme}://{login}{at}{}/{database}", with_port(host))));
        let infos = infos.collect::<Result<Vec<_>, _>>().map_err(|_| FORM)?;
        let server = infos.first().ok_or(FORM)?.redis_settings().clone();
        let nodes = infos.into_iter().map(|info| info.addr().clone()).collect();
        let (master, trust) = (master.to_owned(), Trust::default());
        let mut sentinels = Self { nodes, master, server, user: None, password: None, trust };
        let query = redis::parse_redis_url(&format!("redis://host/?{query}")).ok_or(FORM)?;
        for (key, value) in query.query_pairs() {
            match &*key {
                "sentinel_user" => sentinels.user = Some(value.into_owned()),
                "sentinel_password" => sentinels.password = Some(value.into_owned()),
                _ => return Err("after its ? stands something other than sentinel_user and sentinel_password"),
            }
        }
        Ok(sentinels)
    }

    /// The way to the master.
    ///
    /// # Errors
    /// No sentinel answered, or none names a master that says it is one.
    pub(super) async fn master(&self) -> RedisResult<Client> {
        let mut asked: FuturesUnordered<_> = self.nodes.iter().map(|node| self.ask(node)).collect();
        let mut told = None;
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(client) => return Ok(client),
                // One that is away says less than one that answers.
                Err(error) if told.is_none() || !error.is_io_error() => told = Some(error),
                Err(_) => {}
            }
        }
        Err(told.unwrap_or_else(|| (ErrorKind::EmptySentinelList, "no sentinel").into()))
    }

    /// One of them: the library takes the answers of several in their order, and waits for one that is frozen.
    async fn ask(&self, node: &ConnectionAddr) -> RedisResult<Client> {
        let mut builder = SentinelClientBuilder::new([node.clone()], &self.master, SentinelServerType::Master)?;
        builder = builder.set_client_to_redis_db(self.server.db());
        if let Some(user) = self.server.username() {
            builder = builder.set_client_to_redis_username(user);
        }
        if let Some(password) = self.server.password() {
            builder = builder.set_client_to_redis_password(password);
        }
        if let Some(user) = &self.user {
            builder = builder.set_client_to_sentinel_username(user);
        }
        if let Some(password) = &self.password {
            builder = builder.set_client_to_sentinel_password(password);
        }
        if matches!(node, ConnectionAddr::TcpTls { .. }) {
            builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
        }
        self.trust.sentinel(builder).build()?.async_get_client().await
    }
}

fn with_port(host: &str) -> String {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    if has_port { host.to_owned() } else { format!("{host}:{PORT}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_sentinels_a_master_and_both_logins_and_shows_none() {
        let url = "ann:hun%40ter2@one,two:7001,[::1]/orders/3?sentinel_user=eve&sentinel_password=s%26cret";
        let sentinels = Sentinels::parse("redis", url).expect("a URL");
        assert_eq!(format!("{sentinels:?}"), "orders of [\"one:26379\", \"two:7001\", \"::1:26379\"]");
        let server = &sentinels.server;
        assert_eq!((server.username(), server.password(), server.db()), (Some("ann"), Some("hun@ter2"), 3));
        assert_eq!((sentinels.user.as_deref(), sentinels.password.as_deref()), (Some("eve"), Some("s&cret")));
        assert_eq!(Sentinels::parse("redis", "one/orders").expect("a URL").server.db(), 0);
    }

    #[test]
    fn what_is_missing_or_odd_is_refused_without_repeating_it() {
        for (url, reason) in [
            ("hunter2:1,two:2", "/MASTER"),
            ("one:1/", "the name of the master"),
            ("one:1/hunter2%20/0", "the name of the master"),
            ("one:hunter2/orders", "write redis+sentinel"),
            ("/orders", "write redis+sentinel"),
            ("one:1/orders/-1", "write redis+sentinel"),
            ("one:1/orders?hunter2=1", "sentinel_user"),
        ] {
            let told = Sentinels::parse("redis", url).expect_err(url);
            assert!(told.contains(reason) && !told.contains("hunter2"), "{url}: {told}");
        }
    }
}
