//! The upstream, the transport and the scheduler, wired as a service would wire them.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mailweir::clock::{Clock, SystemClock};
use mailweir::config::{Config, ConfigError};
use mailweir::engine::limit::LimitError;
use mailweir::engine::{Limit, Ratio, Scope, ScopeKind, Timestamp};
use mailweir::scheduler::Events;
use mailweir::store::{SqliteStore, Store};
use mailweir::telemetry::EventKind;
use mailweir::transport::graph::{Credentials, GraphOptions, GraphTransport};
use mailweir::upstream::http::{ServerOptions, UpstreamServer};
use mailweir::upstream::{
    Algorithm, Arrival, Block, ConcurrencyLimit, Latency, LogNormal, Model, Refusals, Upstream, UpstreamLimit,
};
use mailweir::{Scheduler, SchedulerHandle};
use tokio::task::JoinHandle;

use super::drive::Run;
use super::plan::Plan;
use super::scratch::Scratch;

/// The upstream's calendar is fixed before it listens, so the start lies this far ahead: enough for a slow machine.
const LEAD: Duration = Duration::from_secs(2);
/// The tenant that the transport signs in at.
const TENANT: &str = "contoso";

/// What runs.
pub(crate) struct Stage {
    pub(crate) clock: Arc<SystemClock>,
    /// When the plan begins.
    pub(crate) start: Timestamp,
    pub(crate) handle: SchedulerHandle,
    pub(crate) url: String,
    config: Config,
    limits: Vec<UpstreamLimit>,
    scheduler: Scheduler,
    store: Arc<SqliteStore>,
    server: UpstreamServer,
    cooldowns: JoinHandle<Cooldowns>,
    /// Last: what lies in it is let go of first.
    scratch: Scratch,
}

/// What is left when everything has stopped.
pub(crate) struct Played {
    pub(crate) run: Run,
    pub(crate) start: Timestamp,
    /// Where the scheduler kept its operations.
    pub(crate) store: &'static str,
    /// The true configuration: the scheduler may have been told another.
    pub(crate) config: Config,
    /// What the upstream enforced.
    pub(crate) limits: Vec<UpstreamLimit>,
    pub(crate) log: Vec<Arrival>,
    pub(crate) cooldowns: Cooldowns,
}

/// The breakers that opened.
#[derive(Debug, Default)]
pub(crate) struct Cooldowns {
    pub(crate) scopes: Vec<Scope>,
    /// Events that came faster than they were read.
    pub(crate) missed: u64,
}

/// The configuration of the demo: the preset that `config/demo.toml` is.
pub(crate) fn config() -> Result<Config, ConfigError> {
    Config::preset("demo")
}

/// The same with the mailbox's limits that the upstream keeps when the scheduler is told `declared` percent of them.
pub(crate) fn kept(told: &Config, declared: u32) -> Result<Config, LimitError> {
    let keep = |limit: &Limit| Limit::new(limit.amount() * 100 / u64::from(declared), limit.unit(), limit.window());
    let limits = told.mailbox.limits.iter().map(keep).collect::<Result<Vec<_>, _>>()?;
    Ok(if declared == 100 { told.clone() } else { told.clone().mailbox_limits(limits) })
}

impl Stage {
    /// Starts everything: a scheduler that was `told` one configuration, an upstream whose limits are those of `kept`.
    pub(crate) async fn open(
        plan: &Plan,
        told: Config,
        kept: Config,
        clock: Arc<SystemClock>,
    ) -> Result<Self, Box<dyn Error>> {
        let start = clock.now().after(LEAD);
        let model = model(plan, &kept, start);
        let limits = model.limits.clone();
        let read = Arc::clone(&clock);
        let server = UpstreamServer::start(Upstream::new(model, plan.seed), move || read.now()).await?;
        let known = ServerOptions::default();
        let credentials = Credentials::new(TENANT, known.client_id, known.client_secret).authority(server.url());
        let options = GraphOptions::default().base_url(server.url());
        let transport = GraphTransport::new(credentials, options, Arc::<SystemClock>::clone(&clock))?;
        transport.check().await?;
        let scratch = Scratch::new()?;
        let store = Arc::new(SqliteStore::open(scratch.outbox())?);
        let builder =
            Scheduler::builder(told, transport).store(Arc::clone(&store)).clock(Arc::<SystemClock>::clone(&clock));
        let scheduler = builder.seeds([plan.seed, 1]).start().await?;
        let handle = scheduler.handle();
        let cooldowns = tokio::spawn(count_cooldowns(handle.events()));
        let url = server.url();
        Ok(Self { url, clock, start, handle, config: kept, limits, scheduler, store, server, cooldowns, scratch })
    }

    /// The file of the outbox.
    pub(crate) fn outbox(&self) -> PathBuf {
        self.scratch.outbox()
    }

    /// What the upstream enforces, for people.
    pub(crate) fn limits(&self) -> impl Iterator<Item = String> {
        self.config.mailbox.limits.iter().map(ToString::to_string)
    }

    /// Stops everything, in order, and reads the log.
    pub(crate) async fn close(self, run: Run) -> Played {
        self.scheduler.shutdown().await;
        drop(self.handle);
        // The file is let go of before its folder is removed. A store that had closed by itself is closed.
        let _ = self.store.close().await;
        let cooldowns = self.cooldowns.await.unwrap_or_default();
        let upstream = self.server.upstream();
        // First the server: what is still on its way to the upstream belongs into the log.
        self.server.shutdown().await;
        let log = upstream.lock().map(|upstream| upstream.log().iter().cloned().collect()).unwrap_or_default();
        let store = self.store.kind();
        Played { run, start: self.start, store, config: self.config, limits: self.limits, log, cooldowns }
    }
}

/// The provider: the declared limits, counted the strictest way that is known (profile A: rolling, refusals count).
fn model(plan: &Plan, config: &Config, start: Timestamp) -> Model {
    let declared = |scope, limits: &[Limit]| {
        let limits = limits.iter().map(|limit| UpstreamLimit::declared(scope, limit, Algorithm::Rolling));
        limits.collect::<Vec<_>>()
    };
    let mut limits = declared(ScopeKind::Mailbox, &config.mailbox.limits);
    limits.extend(declared(ScopeKind::Application, &config.application.limits));
    let mut model = Model::new(limits);
    model.refusals = Refusals::Counted;
    model.concurrency =
        config.mailbox.concurrency.iter().map(|most| ConcurrencyLimit::new(ScopeKind::Mailbox, most.get())).collect();
    let way = LogNormal::new(Duration::from_millis(4), Ratio::percent(50));
    model.latency = Latency {
        up: way,
        service: LogNormal::new(Duration::from_millis(40), Ratio::percent(50)),
        down: way,
        refusal: Duration::from_millis(10),
        longest: Duration::from_secs(1),
    };
    model.blocks = vec![Block {
        scope: Scope::Mailbox(plan.mailboxes[plan.throttle.mailbox].into()),
        from: start.after(plan.throttle.from),
        until: start.after(plan.throttle.until),
    }];
    model
}

async fn count_cooldowns(mut events: Events) -> Cooldowns {
    let mut cooldowns = Cooldowns::default();
    while let Some(event) = events.next().await {
        match event.map(|event| event.kind) {
            Ok(EventKind::BreakerOpened { scope, .. }) => cooldowns.scopes.push(scope),
            Ok(EventKind::ShutdownFinished { .. }) => break,
            Ok(_) => {}
            Err(missed) => cooldowns.missed += missed.0,
        }
    }
    cooldowns
}
