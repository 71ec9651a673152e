//! A scenario through the real actors, in virtual time: what a program runs, against the upstream model.
//!
//! [`Scenario::run`] drives the engines alone and costs microseconds per email; this one drives the scheduler, its actors, its
//! outbox in memory and a transport, under tokio's paused time, and costs some tens. Both carry out the same plan and end in the
//! same report, so what differs between them is the shell.
//!
//! Everything runs on one thread and is given by the scenario and its seed. A process that dies takes its scheduler with it: its
//! calls to the store and its answers are heard no more, what was on the wire goes on, and the next process starts over the same
//! store.

mod caller;
mod process;
mod script;
mod told;
mod watched;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Builder, Handle};
use tokio::task::LocalSet;

use super::error::{AskError, StartError};
use crate::clock::{Clock, TokioClock};
use crate::engine::Timestamp;
use crate::simulation::scenario::Scenario;
use crate::simulation::{START, World};
use crate::store::StoreError;
use process::Stage;
use script::Script;

/// Why a scenario could not be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RehearsalError {
    /// It was called inside a runtime, whose time it cannot stop.
    #[error("rehearse() needs a runtime of its own; call it outside of one, for instance on another thread")]
    InsideRuntime,
    /// The system gave no runtime.
    #[error("the runtime could not be started")]
    Runtime(#[source] std::io::Error),
    /// The scheduler did not start.
    #[error("the scheduler did not start")]
    Start(#[source] StartError),
    /// The scheduler did not take a change of configuration.
    #[error("the change of configuration was refused")]
    Change(#[source] AskError),
    /// The store did not say what it holds in the end.
    #[error("the store could not be read")]
    Store(#[source] StoreError),
    /// More happened at one instant than a reader of events can follow: the report would miss some.
    #[error("{count} events were lost; run this scenario on the engines alone, or with fewer mailboxes")]
    EventsLost {
        /// How many.
        count: u64,
    },
}

/// How far a rehearsal has come.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Rehearsed {
    /// The instant it is, in virtual time.
    pub now: Timestamp,
    /// Operations that have not ended.
    pub pending: usize,
}

/// Runs a scenario through the real actors, from its start to its end; `progress` is called now and then.
///
/// The world that is answered is over: it is there to be reported on and drawn. Its engines have decided nothing, so
/// [`World::decisions`] is 0.
///
/// # Errors
/// [`RehearsalError`].
pub fn rehearse(scenario: &Scenario, seed: u64, progress: impl FnMut(Rehearsed)) -> Result<World, RehearsalError> {
    if Handle::try_current().is_ok() {
        return Err(RehearsalError::InsideRuntime);
    }
    let runtime =
        Builder::new_current_thread().enable_time().start_paused(true).build().map_err(RehearsalError::Runtime)?;
    let world = scenario.world(seed);
    let script = Script::of(scenario, &world);
    let played = LocalSet::new().block_on(&runtime, async {
        let stage = Stage::new(scenario, seed, &script);
        stage.play(script, progress).await
    })?;
    // Tasks of processes that died are dropped before what they hold is read.
    drop(runtime);
    Ok(world.played(played))
}

/// Our clock, which may run fast or slow against the upstream's.
#[derive(Debug)]
struct DriftingClock {
    truth: TokioClock,
    ppm: i32,
}

impl DriftingClock {
    fn shown(&self, truth: Timestamp) -> Timestamp {
        let elapsed = i128::from(truth.as_micros()) - i128::from(START.as_micros());
        let shown = i128::from(START.as_micros()) + elapsed + elapsed * i128::from(self.ppm) / 1_000_000;
        Timestamp::from_micros(u64::try_from(shown.max(0)).unwrap_or(u64::MAX))
    }
}

impl Clock for DriftingClock {
    fn now(&self) -> Timestamp {
        self.shown(self.truth.now())
    }
}

fn locked<T>(mutex: &Arc<Mutex<T>>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
