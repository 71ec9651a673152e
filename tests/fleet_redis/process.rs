//! A process as its parent sees it: what it is told, and what it says.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use mailweir::clock::{Clock, SystemClock};

use crate::child::{REDIS, TEST, UPSTREAM};

/// Longest wait for anything.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Said {
    lines: Mutex<Vec<String>>,
    more: Condvar,
}

pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    said: Arc<Said>,
    questions: u64,
}

impl Process {
    pub(crate) fn start(redis: &str, upstream: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([TEST, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env(REDIS, redis)
            .env(UPSTREAM, upstream)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, out) = (child.stdin.take(), child.stdout.take().unwrap());
        let said = Arc::new(Said::default());
        let heard = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                heard.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                heard.more.notify_all();
            }
        });
        let process = Self { child, input, said, questions: 0 };
        process.wait("ready", |lines| lines.iter().any(|line| line == "ready").then_some(()));
        process
    }

    pub(crate) fn tell(&mut self, words: &str) {
        writeln!(self.input.as_mut().unwrap(), "{words}").unwrap();
    }

    pub(crate) fn submit(&mut self, numbers: impl IntoIterator<Item = u64>) {
        numbers.into_iter().for_each(|number| self.tell(&format!("submit {number}")));
    }

    /// Waits until what it said yields something.
    pub(crate) fn wait<T>(&self, what: &str, found: impl Fn(&[String]) -> Option<T>) -> T {
        let clock = SystemClock::new();
        let until = clock.now().after(WAIT_MAX);
        let mut lines = self.said.lines.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(found) = found(&lines) {
                return found;
            }
            assert!(!lines.iter().any(|line| line.contains("FAILED")), "no {what}: it has failed; it said {lines:#?}");
            let left = until.since(clock.now());
            assert!(!left.is_zero(), "no {what} in {WAIT_MAX:?}; it said {lines:#?}");
            lines = self.said.more.wait_timeout(lines, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The line that begins with these words, without them.
    pub(crate) fn answer(&self, words: &str) -> String {
        self.wait(words, |lines| {
            lines.iter().find_map(|line| line.strip_prefix(words)?.strip_suffix('.').map(Into::into))
        })
    }

    pub(crate) fn is_owner(&mut self) -> bool {
        self.questions += 1;
        let question = self.questions;
        self.tell(&format!("owner {question}"));
        self.answer(&format!("owner {question} ")) == "yes"
    }

    /// What it says is kept so far.
    pub(crate) fn kept(&self) -> Vec<u64> {
        let lines = self.said.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().filter_map(|line| line.strip_prefix("kept ")?.strip_suffix('.')?.parse().ok()).collect()
    }

    /// Waits for its tickets.
    pub(crate) fn wait_for_outcomes(&self, numbers: &[u64]) -> BTreeMap<u64, String> {
        self.wait("outcomes", |lines| {
            let told = outcomes(lines);
            numbers.iter().all(|number| told.contains_key(number)).then_some(told)
        })
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// `-STOP` and `-CONT`.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(name).arg(self.child.id().to_string()).status().unwrap();
        assert!(status.success(), "kill {name}");
    }

    /// Ends it as it should end.
    pub(crate) fn end(mut self) {
        self.tell("end");
        self.wait("end", |lines| lines.iter().any(|line| line.starts_with("ended ")).then_some(()));
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

fn outcomes(lines: &[String]) -> BTreeMap<u64, String> {
    let outcome = |line: &String| {
        let (number, state) = line.strip_prefix("outcome ")?.strip_suffix('.')?.split_once(' ')?;
        Some((number.parse().ok()?, state.to_owned()))
    };
    lines.iter().filter_map(outcome).collect()
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
