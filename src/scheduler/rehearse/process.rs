//! One process after the other: started over the same outbox, driven by the script, dead or done.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;

use super::script::{Act, Script};
use super::watched::{Life, Notes, WatchedStore, WatchedTransport};
use super::{DriftingClock, RehearsalError, Rehearsed, caller, locked, told};
use crate::clock::{Clock, TokioClock};
use crate::config::Config;
use crate::email::Email;
use crate::engine::{OperationKey, Timestamp};
use crate::scheduler::{Events, Missed, Scheduler};
use crate::simulation::scenario::{Scenario, Stop};
use crate::simulation::{LookUps, Planned, PlannedBurn, Played, START};
use crate::store::{MemoryStore, OperationQuery, OperationRecord, Store};
use crate::telemetry::SchedulerEvent;
use crate::transport::simulated::SimulatedTransport;
use crate::upstream::{Model, Upstream};

/// So many times a run tells how far it has come.
const PARTS: u32 = 200;
/// Within this a caller has heard of an end that its process knows.
const TOLD: Duration = Duration::from_secs(60);
/// Who sends is nobody's business here: what an email takes is in the plan.
const SENDER: &str = "rehearsal@contoso.example";

/// What callers need.
pub(super) struct Shared {
    pub(super) clock: Arc<DriftingClock>,
    pub(super) notes: Arc<Mutex<Notes>>,
    pub(super) email: Email,
}

impl Shared {
    /// In true time.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.truth.now()
    }
}

/// What outlives a process.
pub(super) struct Stage {
    shared: Arc<Shared>,
    truth: Arc<TokioClock>,
    upstream: Arc<Mutex<Upstream>>,
    wire: Arc<SimulatedTransport>,
    store: Arc<MemoryStore>,
    config: Config,
    seed: u64,
    /// Handed over to an earlier process.
    handed: Vec<Planned>,
    wakes: u64,
    /// When the latest process began.
    born: Timestamp,
}

/// How a process ended.
enum End {
    Done,
    Died(Duration),
}

impl Stage {
    pub(super) fn new(scenario: &Scenario, seed: u64, script: &Script) -> Self {
        let truth = Arc::new(TokioClock::starting_at(START));
        let clock = Arc::new(DriftingClock { truth: TokioClock::starting_at(START), ppm: scenario.clock_ppm });
        let upstream = Arc::new(Mutex::new(scenario.upstream(seed)));
        let known = script.planned.iter();
        let known = known.map(|it| (Arc::from(it.key.0.to_string()), it.cost, it.tenant.clone()));
        let wire = SimulatedTransport::new(Arc::clone(&upstream), Arc::clone(&truth) as Arc<dyn Clock>).known(known);
        let wire = match scenario.look_ups {
            LookUps::Answered => wire,
            LookUps::Unanswered => wire.without_reconciliation(),
        };
        let mime: Arc<[u8]> = Arc::from(&b"Subject: Rehearsal\r\n\r\nNobody reads this.\r\n"[..]);
        #[expect(clippy::expect_used, reason = "one constant email, which a test sends")]
        let email = Email::from_mime(SENDER, ["kim@example.org"], mime).expect("it is well formed");
        Self {
            shared: Arc::new(Shared { clock, notes: Arc::default(), email }),
            truth,
            upstream,
            wire: Arc::new(wire),
            store: Arc::new(MemoryStore::new()),
            config: scenario.config.clone(),
            seed,
            handed: Vec::new(),
            wakes: 0,
            born: START,
        }
    }

    pub(super) async fn play(
        mut self,
        mut script: Script,
        mut progress: impl FnMut(Rehearsed),
    ) -> Result<Played, RehearsalError> {
        while let End::Died(down) = self.live(&mut script, &mut progress).await? {
            self.gone(&mut script, down).await;
        }
        let kept = self.kept(&script).await?;
        let mut notes = std::mem::take(&mut *locked(&self.shared.notes));
        if notes.events_lost > 0 {
            return Err(RehearsalError::EventsLost { count: notes.events_lost });
        }
        let upstream = std::mem::replace(&mut *locked(&self.upstream), Upstream::new(Model::new([]), 0));
        Ok(Played {
            now: self.truth.now(),
            upstream,
            ended: notes.take_ended(),
            events: notes.events,
            transitions: notes.transitions,
            sends: notes.sends,
            kept,
            wakes: self.wakes,
            store: notes.store.used(),
        })
    }

    /// What is not over and is with somebody: live rows of the store, and what no caller has a ticket for.
    async fn kept(&self, script: &Script) -> Result<BTreeSet<OperationKey>, RehearsalError> {
        let query = OperationQuery { limit: usize::MAX, ..OperationQuery::default() };
        let rows = self.store.operations(query).await.map_err(RehearsalError::Store)?;
        // A row that has just become final: its caller is told within its moment, or by a process that has only just begun.
        let now = self.truth.now();
        let told_by = if now.since(self.born) < TOLD { START } else { self.shared.clock.shown(now.before(TOLD)) };
        let goes_on = |row: &OperationRecord| !row.state.is_final() || row.changed_at >= told_by;
        let mut kept: BTreeSet<_> =
            rows.iter().filter(|row| goes_on(row)).filter_map(|row| row.id.parse().ok()).map(OperationKey).collect();
        let taken_in = &locked(&self.shared.notes).taken_in;
        kept.extend(script.planned.iter().map(|planned| planned.key).filter(|key| !taken_in.contains(key)));
        Ok(kept)
    }

    fn start(&self, life: &Arc<Life>) -> impl Future<Output = Result<Scheduler, RehearsalError>> + use<> {
        let notes = || Arc::clone(&self.shared.notes);
        let transport = WatchedTransport { inner: Arc::clone(&self.wire), life: Arc::clone(life), notes: notes() };
        let store = WatchedStore {
            inner: Arc::clone(&self.store),
            life: Arc::clone(life),
            notes: notes(),
            truth: Arc::clone(&self.truth) as Arc<dyn Clock>,
        };
        let builder = Scheduler::builder(self.config.clone(), transport)
            .store(store)
            .clock(Arc::clone(&self.shared.clock) as Arc<dyn Clock>)
            .seeds([self.seed, 0]);
        async move { builder.start_on_current_thread().await.map_err(RehearsalError::Start) }
    }

    /// One process, until it dies or all is over.
    async fn live(&mut self, script: &mut Script, progress: &mut impl FnMut(Rehearsed)) -> Result<End, RehearsalError> {
        self.born = self.truth.now();
        let life = Arc::new(Life::default());
        let scheduler = self.start(&life).await?;
        let handle = scheduler.handle();
        let mut events = handle.events();
        let mut callers: FuturesUnordered<LocalBoxFuture<'static, ()>> = FuturesUnordered::new();
        let call = |group| Box::pin(caller::submit(Arc::clone(&self.shared), handle.clone(), group));
        self.handed.retain(|planned| !locked(&self.shared.notes).has_ended(planned.key));
        if !self.handed.is_empty() {
            callers.push(call(self.handed.clone()));
        }
        let mut part = script.start;
        let end = loop {
            let now = self.truth.now();
            if part <= now {
                part = now.after(script.end.since(script.start) / PARTS);
                progress(Rehearsed { now, pending: script.planned.len() - locked(&self.shared.notes).ended() });
            }
            if now >= script.end || script.stop == Stop::WhenDone && self.all_ended(script) {
                break End::Done;
            }
            match script.due(now) {
                Some(Act::Submit(group)) => {
                    self.handed.extend_from_slice(&group);
                    callers.push(call(group));
                }
                Some(Act::Burn(burn)) => self.burn(&burn),
                Some(Act::Change(config)) => {
                    self.config = *config;
                    handle.reconfigure(self.config.clone()).await.map_err(RehearsalError::Change)?;
                }
                Some(Act::Die(down)) => break End::Died(down),
                None => {
                    let wait = script.next_at().min(part).since(now);
                    self.wait(wait, &mut events, &mut callers).await;
                }
            }
        };
        life.end();
        self.wakes += handle.timer_wakes();
        drop((callers, scheduler));
        Ok(end)
    }

    /// Lets things happen until the next act, or until some caller has its answers.
    async fn wait(
        &self,
        wait: Duration,
        events: &mut Events,
        callers: &mut FuturesUnordered<LocalBoxFuture<'static, ()>>,
    ) {
        let mut wake = std::pin::pin!(tokio::time::sleep(wait));
        loop {
            tokio::select! {
                biased;
                Some(event) = events.next() => self.note(event),
                Some(()) = callers.next(), if !callers.is_empty() => return,
                () = &mut wake => return,
            }
        }
    }

    fn note(&self, event: Result<SchedulerEvent, Missed>) {
        let mut notes = locked(&self.shared.notes);
        match event {
            Ok(event) => {
                let known = told::event(event.kind);
                notes.events.extend(known.map(|event| (self.truth.now(), event)));
            }
            Err(missed) => notes.events_lost += missed.0,
        }
    }

    fn all_ended(&self, script: &Script) -> bool {
        locked(&self.shared.notes).ended() == script.planned.len()
    }

    fn burn(&self, burn: &PlannedBurn) {
        locked(&self.upstream).burn(self.truth.now(), &burn.mailbox, burn.tenant.as_ref(), burn.cost);
    }

    /// No process is there; what is submitted meanwhile waits for the next one.
    async fn gone(&mut self, script: &mut Script, down: Duration) {
        let mut back_at = self.truth.now().after(down);
        loop {
            let now = self.truth.now();
            match script.due(now.min(back_at)) {
                Some(Act::Submit(group)) => self.handed.extend(group),
                Some(Act::Burn(burn)) => self.burn(&burn),
                Some(Act::Change(config)) => self.config = *config,
                Some(Act::Die(down)) => back_at = back_at.max(now.after(down)),
                None if now >= back_at => return,
                None => tokio::time::sleep(script.next_at().min(back_at).since(now)).await,
            }
            if now >= script.end {
                return;
            }
        }
    }
}
