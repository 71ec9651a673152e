//! What every actor and every handle shares. Nothing in it decides.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, broadcast};
use tokio_util::sync::CancellationToken;

use super::bell::{Bell, Rung};
use super::callers::CallerBook;
use super::ended::EndedBook;
use super::fleet::Membership;
use super::holds::{HoldFacts, Holds, TripFacts, Trips};
use super::kept;
use super::outlet::Outlet;
use super::reply::Reply;
use super::seat::{Directory, Seat};
use super::settings::Settings;
use super::shared_item::SharedItem;
use super::supervisor::Errand;
use crate::clock::Clock;
use crate::config;
use crate::engine::crashes::Crashes;
use crate::engine::mailbox::AskShared;
use crate::engine::shared::Standing;
use crate::engine::{Event, OperationKey, Timestamp};
use crate::store::{KeySecret, Recovery, Store};
use crate::telemetry::{Context, EventKind, Redaction, SchedulerEvent, Telemetry};
use crate::transport::Transport;

/// Mailboxes read back at once: enough that neither the store nor the actors wait for the other.
const READINGS_MAX: usize = 4;

pub(crate) struct World {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) store: Arc<dyn Store>,
    /// The others over the same store; `None`: there are none.
    pub(crate) fleet: Option<Arc<Membership>>,
    pub(crate) transport: Arc<dyn Transport>,
    /// Where attempts and slow store calls run.
    pub(crate) host: Handle,
    pub(crate) settings: ArcSwap<Settings>,
    pub(crate) directory: Directory,
    pub(crate) holds: Holds,
    /// Rung when something is known of a hold: how it is lifted in part, or when it ends.
    pub(crate) widened: Notify,
    pub(crate) callers: Arc<CallerBook>,
    pub(crate) trips: Trips,
    pub(crate) ended: EndedBook,
    /// One order about holds and breakers at a time, so that the store and the engines hear them in one order.
    pub(crate) orders: tokio::sync::Mutex<()>,
    /// Under which admission keys are hashed.
    pub(crate) secret: KeySecret,
    pub(crate) outlet: Outlet,
    crashes: Mutex<Crashes>,
    /// Mailboxes that are read back from the store at once: what they are read into is there twice for a while.
    pub(super) readings: Arc<Semaphore>,
    pub(crate) shared: Inbox<SharedItem>,
    pub(crate) supervisor: Inbox<Errand>,
    pub(crate) stop: CancellationToken,
    pub(crate) reporter: Reporter,
    closing: AtomicBool,
    ask_shared: AtomicBool,
    /// What is known of the waits at the shared scopes; they publish it at the end of each turn.
    pub(crate) standing: ArcSwap<Standing>,
    last_key: AtomicU64,
    /// How often a timer woke an actor.
    #[cfg(feature = "test-util")]
    wakes: AtomicU64,
}

/// What a world is made of.
pub(crate) struct Parts<'a> {
    pub(crate) fleet: Option<Arc<Membership>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) host: Handle,
    pub(crate) settings: Settings,
    /// What the store had: the highest key ever given out, operators' orders, the secret.
    pub(crate) recovery: &'a Recovery,
}

impl World {
    pub(crate) fn new(parts: Parts<'_>) -> Self {
        let Parts { fleet, clock, store, transport, host, settings, recovery } = parts;
        let crashes = Mutex::new(Crashes::new(clock.now()));
        let ended = EndedBook::of(clock.now(), &recovery.notes);
        let last_key = recovery.last_key.max(kept::last_permit(&recovery.notes));
        let (holds, trips) = (Holds::default(), Trips::default());
        holds.seed(recovery.notes.iter().filter_map(HoldFacts::read));
        trips.seed(recovery.notes.iter().filter_map(TripFacts::read));
        let actors = &settings.config.actors;
        Self {
            directory: Directory::new(actors.live_max, actors.actor_queue_capacity),
            reporter: Reporter::new(redaction(settings.config.telemetry.mailbox_redaction)),
            clock,
            fleet,
            store,
            transport,
            host,
            settings: ArcSwap::from_pointee(settings),
            outlet: Outlet::default(),
            crashes,
            readings: Arc::new(Semaphore::new(READINGS_MAX)),
            holds,
            widened: Notify::new(),
            callers: Arc::default(),
            trips,
            ended,
            orders: tokio::sync::Mutex::default(),
            secret: recovery.secret.clone(),
            shared: Inbox::default(),
            supervisor: Inbox::default(),
            stop: CancellationToken::new(),
            closing: AtomicBool::new(false),
            ask_shared: AtomicBool::new(true),
            standing: ArcSwap::default(),
            last_key: AtomicU64::new(last_key.map_or(0, |key| key.0)),
            #[cfg(feature = "test-util")]
            wakes: AtomicU64::new(0),
        }
    }

    /// A key above every earlier one.
    /// What has crashed its worker, and how often. One list for the process: neither an engine nor an actor outlives what
    /// is counted in it.
    pub(crate) fn crashes(&self) -> MutexGuard<'_, Crashes> {
        self.crashes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn next_key(&self) -> OperationKey {
        OperationKey(self.last_key.fetch_add(1, Ordering::Relaxed).saturating_add(1))
    }

    #[cfg(feature = "test-util")]
    pub(crate) fn count_wake(&self) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
    }

    /// How often a timer woke an actor.
    #[cfg(feature = "test-util")]
    pub(crate) fn wakes(&self) -> u64 {
        self.wakes.load(Ordering::Relaxed)
    }

    /// Whether nothing is taken in any more.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// What the shared scopes last announced.
    pub(crate) fn ask_shared(&self) -> AskShared {
        if self.ask_shared.load(Ordering::Acquire) { AskShared::Always } else { AskShared::OnTrouble }
    }

    pub(crate) fn set_ask_shared(&self, ask: AskShared) {
        self.ask_shared.store(ask == AskShared::Always, Ordering::Release);
    }

    /// Tells the doors of mailboxes what is known of the waits at the shared scopes.
    pub(crate) fn set_standing(&self, standing: Standing) {
        if standing != **self.standing.load() {
            self.standing.store(Arc::new(standing));
        }
    }

    /// Brings an answer to a mailbox's actor.
    pub(crate) fn reply(&self, seat: &Arc<Seat>, reply: Reply) {
        self.heard(seat, seat.ingress().reply(reply));
    }

    /// Has a dead actor replaced.
    pub(crate) fn heard(&self, seat: &Arc<Seat>, rung: Rung) {
        if rung == Rung::Dead {
            self.supervisor.push(Errand::Died(Arc::clone(seat)));
        }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("store", &self.store).field("transport", &self.transport).finish_non_exhaustive()
    }
}

/// The configuration's word in telemetry's terms.
const fn redaction(configured: config::Redaction) -> Redaction {
    match configured {
        config::Redaction::Hash => Redaction::Hashed,
        config::Redaction::Omit => Redaction::Omitted,
        _ => Redaction::AsIs,
    }
}

/// A queue beside an actor that other actors fill: what is in it is bounded by what they have in flight. Callers are
/// refused above a bound. What comes when the actor is gone is dropped, so that who waits for its answer learns of it.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    /// `None`: the actor is gone.
    items: Mutex<Option<Vec<T>>>,
    bell: Bell,
}

/// Most that waits for an actor before callers are refused.
pub(crate) const ASKED_MAX: usize = 65_536;

/// Room beyond that for operators' orders, which are given one at a time.
const ORDERS_MAX: usize = 1_024;

/// A caller was refused.
#[derive(Debug)]
pub(crate) struct Full;

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self { items: Mutex::new(Some(Vec::new())), bell: Bell::default() }
    }
}

impl<T> Inbox<T> {
    pub(crate) const fn bell(&self) -> &Bell {
        &self.bell
    }

    fn items(&self) -> MutexGuard<'_, Option<Vec<T>>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, item: T) {
        let mut items = self.items();
        if let Some(items) = items.as_mut() {
            items.push(item);
        }
        drop(items);
        let (Rung::Heard | Rung::Dead) = self.bell.ring();
    }

    /// Puts something in that a caller asked for, unless so much waits already that no more is taken.
    pub(crate) fn ask(&self, item: T) -> Result<(), Full> {
        self.put(item, ASKED_MAX)
    }

    fn put(&self, item: T, most: usize) -> Result<(), Full> {
        let mut items = self.items();
        if let Some(items) = items.as_mut() {
            if items.len() >= most {
                return Err(Full);
            }
            items.push(item);
        }
        drop(items);
        let (Rung::Heard | Rung::Dead) = self.bell.ring();
        Ok(())
    }

    /// The same of an operator's order, for which there is room when callers are refused already.
    pub(crate) fn order(&self, item: T) -> Result<(), Full> {
        self.put(item, ASKED_MAX + ORDERS_MAX)
    }

    pub(crate) fn push_all(&self, items: &mut Vec<T>) {
        if items.is_empty() {
            return;
        }
        if let Some(waiting) = self.items().as_mut() {
            waiting.append(items);
        }
        items.clear();
        let (Rung::Heard | Rung::Dead) = self.bell.ring();
    }

    pub(crate) fn take(&self) -> Vec<T> {
        self.bell.answer();
        self.items().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The actor is gone: what it has not looked at is dropped, and so is whatever comes.
    pub(crate) fn close(&self) {
        let left = self.items().take();
        drop(left);
    }
}

/// Events that a slow reader may be behind before it loses some, and is told how many.
const EVENTS_MAX: usize = 1_024;

/// Where events go: to `tracing`, and to whoever listens.
#[derive(Debug)]
pub(crate) struct Reporter {
    telemetry: ArcSwap<Telemetry>,
    events: broadcast::Sender<SchedulerEvent>,
}

impl Reporter {
    fn new(redaction: Redaction) -> Self {
        Self { telemetry: ArcSwap::from_pointee(Telemetry::new(redaction)), events: broadcast::Sender::new(EVENTS_MAX) }
    }

    pub(crate) fn emit(&self, now: Timestamp, event: &Event, context: &Context<'_>) {
        if self.events.receiver_count() == 0 && !Telemetry::may_be_wanted(event) {
            return;
        }
        self.outlast(|| self.telemetry.load().emit(now, event, context));
    }

    pub(crate) fn report(&self, now: Timestamp, kind: EventKind) {
        self.outlast(|| self.telemetry.load().report(now, kind));
    }

    /// A subscriber of `tracing` runs in here. One that panics loses its event, and ends no actor.
    fn outlast(&self, emit: impl FnOnce() -> SchedulerEvent) {
        if let Ok(event) = catch_unwind(AssertUnwindSafe(emit)) {
            self.publish(event);
        }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<SchedulerEvent> {
        self.events.subscribe()
    }

    /// Shows ids so from now on.
    pub(crate) fn redact(&self, configured: config::Redaction) {
        self.telemetry.store(Arc::new(Telemetry::new(redaction(configured))));
    }

    pub(crate) fn telemetry(&self) -> Arc<Telemetry> {
        self.telemetry.load_full()
    }

    fn publish(&self, event: SchedulerEvent) {
        // Nobody listens: that is fine.
        if self.events.receiver_count() > 0 {
            drop(self.events.send(event));
        }
    }
}
