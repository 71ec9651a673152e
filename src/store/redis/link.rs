//! The connection: one, multiplexed, with bounds on every wait, and a breaker before it.
//!
//! A call is never repeated by the client library. It is repeated here, once and at once, where the connection turns out
//! to have been lost while it lay idle, and where the server has forgotten the scripts; every call may be executed twice.
//! A server that does not answer costs one response timeout, then calls fail at once for a while.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use redis::{Cmd, RedisError, RedisResult, ServerError, ServerErrorKind, Value};
use tokio::time::timeout;

use super::address::Address;
use super::fault::{broken, refused, unavailable};
use super::instant::Offset;
use super::lease::STEP;
use super::names::Names;
use super::options::RedisOptions;
use super::scripts;
use super::wire::{SLACK, Wire, exchange, open, timed_out};
use crate::clock::{Clock, SystemClock};
use crate::engine::Timestamp;
use crate::store::StoreError;

/// Response timeouts in a row after which a connection is taken for dead. One alone keeps it: what was sent on it is still
/// executed in order when the server goes on.
const SILENCES_MAX: u32 = 4;
/// A round trip that leaves so little to guess about the server's clock that one is enough.
const CLOSE: Duration = Duration::from_micros(400);
/// Otherwise the clock is asked so often when a connection is new.
const ASKED_MAX: u32 = 32;

/// One answer: a value, or what the server said instead.
pub(super) type Answer = Result<Value, StoreError>;

/// Cheap to clone; clones share the connection.
#[derive(Clone)]
pub(super) struct Link {
    state: Rc<RefCell<State>>,
    address: Address,
    options: Rc<RedisOptions>,
    offset: Offset,
    /// For waits; the caller's clock may be anything.
    clock: Rc<SystemClock>,
    /// A key of what belongs to no mailbox.
    anywhere: Rc<str>,
}

#[derive(Default)]
struct State {
    wire: Option<Wire>,
    silences: u32,
    closed_until: Timestamp,
    last: Option<StoreError>,
    /// Which server it was; another one has other data.
    run: Option<String>,
    /// Its clock and ours, when it was last asked.
    seen: Option<(Timestamp, u64)>,
    stepped: bool,
    /// Until then replicas are not waited for: there were too few.
    alone_until: Timestamp,
}

/// Who has to have a write before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// The server that is asked.
    Here,
    /// Replicas, too, as far as the options say.
    Replicas,
}

impl Link {
    pub(super) fn new(address: Address, names: &Names, options: Rc<RedisOptions>, offset: Offset) -> Self {
        let (clock, anywhere) = (Rc::new(SystemClock::new()), names.global("time").into());
        Self { state: Rc::default(), address, options, offset, clock, anywhere }
    }

    /// Sends commands in one go, and answers each in order.
    ///
    /// # Errors
    /// Nothing is known of any of them: each may have been executed.
    pub(super) async fn run(&self, commands: &[Cmd]) -> Result<Vec<Answer>, StoreError> {
        self.run_kept(commands, Keep::Here).await
    }

    /// As [`Link::run`], for writes that replicas should have, too. One at a time: others wait behind it.
    pub(super) async fn run_kept(&self, commands: &[Cmd], keep: Keep) -> Result<Vec<Answer>, StoreError> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        self.pass()?;
        let had_wire = self.state.borrow().wire.is_some();
        let mut answers = match self.attempt(commands, keep).await {
            // It was lost while nobody used it.
            Err(error) if had_wire && !error.is_timeout() => {
                self.state.borrow_mut().wire = None;
                self.attempt(commands, keep).await
            }
            answers => answers,
        }
        .map_err(|error| self.trip(&error))?;
        if let Some(first) = answers.iter().position(is_no_script) {
            answers.truncate(first);
            let again = self.reload(&commands[first..], keep).await.map_err(|error| self.trip(&error))?;
            answers.extend(again);
        }
        self.answered();
        if answers.iter().any(is_elsewhere) {
            // A replica now, or not one yet: the next call connects anew.
            self.state.borrow_mut().wire = None;
        }
        Ok(answers.into_iter().map(|answer| answer.map_err(|error| refused(&error))).collect())
    }

    /// One command.
    pub(super) async fn one(&self, command: Cmd) -> Answer {
        let mut answers = self.run(std::slice::from_ref(&command)).await?;
        answers.pop().unwrap_or(Ok(Value::Nil))
    }

    pub(super) const fn address(&self) -> &Address {
        &self.address
    }

    /// The id that the server gave itself when it started.
    pub(super) fn server(&self) -> Option<String> {
        self.state.borrow().run.clone()
    }

    /// Compares the server's clock with ours: `server` was read between `asked` and now.
    pub(super) fn watch(&self, asked: Timestamp, server: u64) {
        let heard = self.clock.now();
        let mut state = self.state.borrow_mut();
        if let Some((at, before)) = state.seen {
            let earliest = Timestamp::from_micros(before).after(asked.since(at)).before(STEP);
            let latest = Timestamp::from_micros(before).after(heard.since(at)).after(STEP);
            let server = Timestamp::from_micros(server);
            state.stepped |= server < earliest || server > latest;
        }
        state.seen = Some((heard, server));
    }

    /// Whether the server's clock has stepped since this was last asked.
    pub(super) fn take_step(&self) -> bool {
        std::mem::take(&mut self.state.borrow_mut().stepped)
    }

    /// For waits.
    pub(super) fn clock(&self) -> &SystemClock {
        &self.clock
    }

    fn pass(&self) -> Result<(), StoreError> {
        let state = self.state.borrow();
        match &state.last {
            Some(last) if state.closed_until > self.clock.now() => Err(last.clone()),
            _ => Ok(()),
        }
    }

    fn answered(&self) {
        let mut state = self.state.borrow_mut();
        state.silences = 0;
        state.last = None;
    }

    fn trip(&self, error: &RedisError) -> StoreError {
        let told = broken(error);
        let mut state = self.state.borrow_mut();
        state.silences += 1;
        if !error.is_timeout() || state.silences >= SILENCES_MAX {
            state.wire = None;
            state.silences = 0;
        }
        state.closed_until = self.clock.now().after(self.options.retry_after);
        state.last = Some(told.clone());
        told
    }

    async fn attempt(&self, commands: &[Cmd], keep: Keep) -> RedisResult<Vec<Result<Value, ServerError>>> {
        let wire = self.state.borrow().wire.clone();
        let wire = match wire {
            Some(wire) => wire,
            None => {
                let wire = self.connect().await?;
                self.state.borrow_mut().wire = Some(wire.clone());
                wire
            }
        };
        self.send_kept(wire, commands, keep).await
    }

    /// Sends, and waits for replicas where that is asked for and promises something.
    async fn send_kept(
        &self,
        wire: Wire,
        commands: &[Cmd],
        keep: Keep,
    ) -> RedisResult<Vec<Result<Value, ServerError>>> {
        let alone = self.state.borrow().alone_until > self.clock.now();
        // Each node of a Cluster would have to be asked, on the connection that wrote there.
        if keep == Keep::Here || self.options.replicas == 0 || alone || !matches!(wire, Wire::One(_)) {
            return self.send(wire, commands).await;
        }
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.options.replicas).arg(u64::try_from(self.options.replica_wait.as_millis()).unwrap_or(u64::MAX));
        let mut answers = self.send(wire, &[commands, &[wait]].concat()).await?;
        let replicas = answers.pop().and_then(Result::ok).and_then(|count| redis::from_redis_value::<u32>(count).ok());
        if replicas.is_none_or(|replicas| replicas < self.options.replicas) {
            // What was written is written, and a failover may lose it. The next writes need not wait for that.
            self.state.borrow_mut().alone_until = self.clock.now().after(self.options.clock_refresh);
        }
        Ok(answers)
    }

    async fn send(&self, wire: Wire, commands: &[Cmd]) -> RedisResult<Vec<Result<Value, ServerError>>> {
        let wait = self.options.response_timeout + SLACK;
        timeout(wait, exchange(wire, commands)).await.unwrap_or_else(|_| Err(timed_out()))
    }

    /// Loads the scripts again and sends what is left.
    async fn reload(&self, commands: &[Cmd], keep: Keep) -> RedisResult<Vec<Result<Value, ServerError>>> {
        let wire = self.state.borrow().wire.clone();
        let Some(wire) = wire else { return Err(timed_out()) };
        load(self.send(wire.clone(), &loads()).await?)?;
        self.send_kept(wire, commands, keep).await
    }

    async fn connect(&self) -> RedisResult<Wire> {
        let wire = open(&self.address, &self.options).await?;
        let answers = self.send(wire.clone(), &loads()).await?;
        load(answers)?;
        self.meet(&wire).await?;
        Ok(wire)
    }

    /// Asks which server it is, and what time it is there.
    async fn meet(&self, wire: &Wire) -> RedisResult<()> {
        let mut info = redis::cmd("INFO");
        info.arg("server");
        let answers = self.send(wire.clone(), &[info]).await?;
        let answer = answers.into_iter().next();
        if let Some(Err(error)) = &answer
            && error.kind() == Some(ServerErrorKind::NoPerm)
        {
            // Without it a failover would go unseen.
            return Err(error.clone().into());
        }
        let run = answer.and_then(Result::ok).as_ref().and_then(run_id);
        let changed = self.state.borrow().run.is_some() && self.state.borrow().run != run;
        if changed {
            self.offset.forget();
        }
        self.state.borrow_mut().run = run;
        for _ in 0..ASKED_MAX {
            let asked = self.options.clock.now();
            let answers = self.send(wire.clone(), &[self.ask_time()]).await?;
            self.note_time(asked, answers.first().and_then(|answer| answer.as_ref().ok()));
            if self.options.clock.now().since(asked) < CLOSE {
                break;
            }
        }
        Ok(())
    }

    /// Asks the node that keeps what belongs to no mailbox.
    fn ask_time(&self) -> Cmd {
        scripts::call(&scripts::TIME, &[&self.anywhere])
    }

    /// Looks at the server's clock again.
    pub(super) async fn refresh(&self) -> Result<(), StoreError> {
        let asked = self.options.clock.now();
        let answer = self.one(self.ask_time()).await?;
        self.note_time(asked, Some(&answer));
        Ok(())
    }

    fn note_time(&self, asked: Timestamp, answer: Option<&Value>) {
        if let Some(server) = answer.and_then(time) {
            self.offset.measured(asked, server, self.options.clock.now());
        }
    }
}

fn loads() -> Vec<Cmd> {
    let load = |code: &str| {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(code);
        command
    };
    scripts::all().into_iter().map(|(_, code)| load(code)).collect()
}

/// All of them were loaded, or why not.
fn load(answers: Vec<Result<Value, ServerError>>) -> RedisResult<()> {
    answers.into_iter().try_for_each(|answer| answer.map(drop).map_err(RedisError::from))
}

fn is_no_script(answer: &Result<Value, ServerError>) -> bool {
    matches!(answer, Err(error) if error.kind() == Some(ServerErrorKind::NoScript))
}

fn is_elsewhere(answer: &Result<Value, ServerError>) -> bool {
    let kind = answer.as_ref().err().and_then(ServerError::kind);
    matches!(kind, Some(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown))
}

fn run_id(info: &Value) -> Option<String> {
    let text: String = redis::from_redis_value_ref(info).ok()?;
    text.lines().find_map(|line| line.strip_prefix("run_id:").map(|run| run.trim().to_owned()))
}

fn time(answer: &Value) -> Option<u64> {
    let (seconds, micros): (u64, u64) = redis::from_redis_value_ref(answer).ok()?;
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

/// Nothing was asked yet that could not be asked again.
pub(super) fn closed() -> StoreError {
    unavailable("redis: the store's thread is gone: open it again")
}
