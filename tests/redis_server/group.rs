//! A master, a replica and three sentinels on loopback.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::{RedisServer, free_port, say, wait_for};

/// What the sentinels call the master.
const NAME: &str = "outbox";
/// How often it is asked whether everybody has found everybody: a sentinel says hello every two seconds.
const TRIES: u32 = 3_000;

pub(crate) struct Group {
    pub(crate) master: RedisServer,
    pub(crate) replica: RedisServer,
    pub(crate) sentinels: Vec<Sentinel>,
}

/// One of those who watch.
pub(crate) struct Sentinel {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl Group {
    pub(crate) fn start() -> Self {
        let master = RedisServer::start();
        let of = master.port().to_string();
        let replica = RedisServer::with(&["--appendonly", "no", "--replicaof", "127.0.0.1", &of]);
        until("a replica", || master.say(&["INFO", "replication"]).contains("state=online"));
        let sentinels: Vec<Sentinel> = (0..3).map(|_| Sentinel::start(&of)).collect();
        for sentinel in &sentinels {
            until("sentinels that know each other", || {
                let known = say(sentinel.port, &["SENTINEL", "MASTER", NAME]).unwrap_or_default();
                let known = known.lines().collect::<Vec<_>>();
                let has = |key: &str, value: &str| known.windows(3).any(|pair| pair[0] == key && pair[2] == value);
                has("num-slaves", "1") && has("num-other-sentinels", "2")
            });
        }
        Self { master, replica, sentinels }
    }

    pub(crate) fn url(&self) -> String {
        let hosts: Vec<String> = self.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port)).collect();
        format!("redis+sentinel://{}/{NAME}", hosts.join(","))
    }

    /// Waits until the sentinels have made the replica the master.
    pub(crate) fn until_failed_over(&self) {
        until("failover", || self.replica.say(&["ROLE"]).contains("master"));
    }
}

impl Sentinel {
    fn start(master: &str) -> Self {
        for _ in 0..20 {
            let (port, folder) = (free_port(), tempfile::tempdir().unwrap());
            let file = folder.path().join("sentinel.conf");
            let text = format!(
                "port {port}\nbind 127.0.0.1\ndir {}\nlogfile sentinel.log\n\
                 sentinel monitor {NAME} 127.0.0.1 {master} 2\n\
                 sentinel down-after-milliseconds {NAME} 500\n\
                 sentinel failover-timeout {NAME} 4000\n",
                folder.path().display()
            );
            std::fs::write(&file, text).unwrap();
            let mut process = Command::new("redis-server")
                .arg(&file)
                .arg("--sentinel")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap_or_else(|error| panic!("redis-server: {error}"));
            if wait_for(port, &mut process) {
                return Self { process, port, _folder: folder };
            }
        }
        panic!("no sentinel came up on a free port");
    }

    pub(crate) fn freeze(&self) {
        super::signal(&self.process, "-STOP");
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..TRIES {
        if holds() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("no {what}");
}
