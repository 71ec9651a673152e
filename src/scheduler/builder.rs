//! Building and starting a scheduler.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::runtime::Handle;

use super::error::StartError;
use super::handle::SchedulerHandle;
use super::mint::Mint;
use super::widen::watch;
use crate::actor::{Membership, Parts, Settings, World, on_own_thread};
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::store::{Attachment, MemoryStore, Outline, Recovery, Store};
use crate::telemetry::EventKind;
use crate::transport::Transport;

/// A running scheduler. Dropping it stops it without waiting; [`Scheduler::shutdown`] waits for what is in flight.
#[must_use = "a scheduler stops when it is dropped"]
pub struct Scheduler {
    pub(super) handle: SchedulerHandle,
    /// Its store is its own as long as it lives.
    _attachment: Attachment,
}

/// Collects what a scheduler is made of. Made by [`Scheduler::builder`].
#[must_use = "a builder does nothing until start()"]
pub struct SchedulerBuilder {
    config: Config,
    transport: Arc<dyn Transport>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    seeds: [u64; 2],
}

impl Scheduler {
    /// Begins a scheduler that keeps `config`'s limits and sends through `transport`. Operations live in a
    /// [`MemoryStore`] unless another store is given: what `config.store` names is for the program to open, with
    /// [`store::open`](crate::store::open).
    pub fn builder(config: Config, transport: impl Transport) -> SchedulerBuilder {
        SchedulerBuilder {
            config,
            transport: Arc::new(transport),
            store: Arc::new(MemoryStore::new()),
            clock: Arc::new(SystemClock::new()),
            seeds: [fastrand::u64(..), fastrand::u64(..)],
        }
    }

    /// What submits, asks and steers. Clone it as you like.
    #[must_use]
    pub fn handle(&self) -> SchedulerHandle {
        self.handle.clone()
    }

    /// Holds that are lifted in part are seen to from now on.
    fn watched(self) -> Self {
        self.handle.world.host.spawn(watch(self.handle()));
        self
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("handle", &self.handle).finish()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.handle.world.close();
        self.handle.world.stop.cancel();
    }
}

impl fmt::Debug for SchedulerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchedulerBuilder")
            .field("transport", &self.transport)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl SchedulerBuilder {
    /// Where operations live.
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Arc::new(store);
        self
    }

    /// Where instants come from. Drive it from the same source as the runtime's timers.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Seeds of the ids that are minted; the same seeds give the same ids.
    pub fn seeds(mut self, seeds: [u64; 2]) -> Self {
        self.seeds = seeds;
        self
    }

    /// Starts it: reads the store, brings back what it holds, and begins to send. The actors get a thread of their
    /// own; the transport runs on the runtime that this is called in; a store in a file or on a server has its own threads.
    ///
    /// # Errors
    /// [`StartError`], also where there is no runtime: never a panic; and where another scheduler lives over a store that
    /// one alone may use.
    ///
    /// # Cancel safety
    /// Dropped before it is done, nothing runs and nothing was sent.
    pub async fn start(self) -> Result<Scheduler, StartError> {
        let host = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let (scheduler, outline) = self.prepare(host).await?;
        on_own_thread(Arc::clone(&scheduler.handle.world), outline).await.map_err(StartError::Thread)?;
        Ok(scheduler.watched())
    }

    /// Starts it on the caller's thread: for tests under paused time, where one clock drives everything.
    ///
    /// # Errors
    /// [`StartError::NoLocalSet`] outside a `LocalSet`; the others as [`SchedulerBuilder::start`].
    ///
    /// # Cancel safety
    /// As [`SchedulerBuilder::start`].
    #[cfg(feature = "test-util")]
    pub async fn start_on_current_thread(self) -> Result<Scheduler, StartError> {
        let host = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let local = catch_unwind(|| tokio::task::spawn_local(async {}));
        local.map_err(|_| StartError::NoLocalSet)?;
        let (scheduler, outline) = self.prepare(host).await?;
        let world = Arc::clone(&scheduler.handle.world);
        crate::actor::on_current_thread(world, outline).await.map_err(StartError::Thread)?;
        Ok(scheduler.watched())
    }

    async fn prepare(self, host: Handle) -> Result<(Scheduler, Outline), StartError> {
        let Self { config, transport, store, clock, seeds } = self;
        // Making a sleep panics in a runtime without a timer, and tokio has no other way to ask. None is waited for.
        let timer = catch_unwind(AssertUnwindSafe(|| drop(tokio::time::sleep(std::time::Duration::ZERO))));
        timer.map_err(|_| StartError::NoTimer)?;
        let mut settings = Settings::new(config).map_err(StartError::Config)?;
        settings.judge_store(&*store).map_err(StartError::Retention)?;
        if store.fleet().is_some() {
            settings = settings.in_parts().map_err(StartError::SharedLimit)?;
        }
        let attachment = store.attach().map_err(StartError::Store)?;
        let fleet = join(&store, &settings, &clock, &host).await?;
        let (fleet, clock, outline) = match fleet {
            Some((fleet, recovery)) => {
                let clock: Arc<dyn Clock> = fleet.clock();
                (Some(Arc::new(fleet)), clock, Outline { recovery, apart: None })
            }
            None => {
                let outline = store.outline(settings.horizons(clock.now())).await.map_err(StartError::Store)?;
                (None, clock, outline)
            }
        };
        let parts = Parts { fleet, clock, store, transport, host, settings, recovery: &outline.recovery };
        let world = Arc::new(World::new(parts));
        for (kind, count) in &outline.recovery.unreadable {
            let (store, note, count) = (world.store.kind(), kind.as_str(), *count);
            world.reporter.report(world.clock.now(), EventKind::NoteUnreadable { store, note, count });
        }
        // From here on dropping it stops whatever has been started.
        let handle = SchedulerHandle { world, mint: Arc::new(Mint::new(seeds)) };
        handle.count_anew().await.map_err(StartError::Store)?;
        Ok((Scheduler { handle, _attachment: attachment }, outline))
    }
}

/// Joins the others over the store, if it is one that several schedulers share.
async fn join(
    store: &Arc<dyn Store>,
    settings: &Settings,
    clock: &Arc<dyn Clock>,
    host: &Handle,
) -> Result<Option<(Membership, Recovery)>, StartError> {
    let Some(api) = store.fleet() else { return Ok(None) };
    let now = clock.now();
    let reach_back = now.since(settings.horizon(now));
    let spans = (reach_back, settings.config.guard.clock_error);
    let policy = settings.config.fleet.clone();
    let joined = Membership::join(api, Arc::clone(clock), host.clone(), policy, spans).await;
    let (fleet, recovery) = joined.map_err(StartError::Store)?;
    let (members, processes_max) = (fleet.members(), settings.config.fleet.processes_max.get());
    if members > processes_max {
        return Err(StartError::TooManyProcesses { members, processes_max });
    }
    Ok(Some((fleet, recovery)))
}
