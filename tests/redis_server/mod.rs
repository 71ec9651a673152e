//! A Redis server of a test's own: on a free port, in a scratch folder, gone with the value.
//!
//! Never the default port, never one that was there before. Where no `redis-server` is found the test fails and says
//! what to install.

#![allow(dead_code, reason = "each test binary uses a part of it")]

#[cfg(feature = "redis-sentinel")]
pub(crate) mod group;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// How long a server may take to answer its first ping.
const START_TRIES: u32 = 1_000;

/// A running server.
pub(crate) struct RedisServer {
    process: Child,
    port: u16,
    folder: TempDir,
    arguments: Vec<String>,
}

impl RedisServer {
    /// A server that keeps nothing on disk.
    pub(crate) fn start() -> Self {
        Self::with(&["--appendonly", "no"])
    }

    /// A server that writes each command to its file before it answers.
    pub(crate) fn durable() -> Self {
        Self::with(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// A server with more arguments.
    pub(crate) fn with(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        // Somebody else may take a port between its choice and its use.
        for _ in 0..20 {
            let port = free_port();
            let mut process = spawn(port, &folder, &arguments);
            if wait_for(port, &mut process) {
                return Self { process, port, folder, arguments };
            }
        }
        panic!("no redis-server came up on a free port");
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// One command of words; what came back, as it came.
    pub(crate) fn say(&self, words: &[&str]) -> String {
        say(self.port, words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Stops it in its tracks: sockets stay open, nothing is answered.
    pub(crate) fn freeze(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn thaw(&self) {
        self.signal("-CONT");
    }

    /// Ends it at once, as a crash does.
    pub(crate) fn kill(&mut self) {
        self.thaw();
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again where it was, with what it had on disk.
    pub(crate) fn restart(&mut self) {
        for _ in 0..20 {
            self.process = spawn(self.port, &self.folder, &self.arguments);
            if wait_for(self.port, &mut self.process) {
                return;
            }
        }
        panic!("redis-server did not come back");
    }

    fn signal(&self, name: &str) {
        signal(&self.process, name);
    }
}

fn signal(process: &Child, name: &str) {
    let status = Command::new("kill").arg(name).arg(process.id().to_string()).status().unwrap();
    assert!(status.success(), "kill {name}");
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn spawn(port: u16, folder: &TempDir, arguments: &[String]) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"])
        .args(["--logfile", "redis.log", "--dir"])
        .arg(folder.path())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| {
            panic!("redis-server: {error}. Install it: apt-get install redis-server, or brew install redis")
        })
}

/// Whether it answers; not, when it has ended.
fn wait_for(port: u16, process: &mut Child) -> bool {
    for _ in 0..START_TRIES {
        if process.try_wait().unwrap().is_some() {
            return false;
        }
        if say(port, &["PING"]).is_ok_and(|pong| pong.contains("PONG") || pong.contains("NOAUTH")) {
            return true;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    false
}

fn say(port: u16, words: &[&str]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    // The answer to the last command ends the conversation; a sentinel does not know it, and goes by the end of ours.
    text.push_str("*1\r\n$4\r\nQUIT\r\n");
    stream.write_all(text.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
