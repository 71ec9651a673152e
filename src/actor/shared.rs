//! The actor of the shared scopes: the application's and the tenants' budgets and breakers.
//!
//! One actor, because a reservation over several shared scopes is one decision, all or nothing. Mailboxes come here
//! only while there is something to ask: the engine announces when that changes. If the engine panics it is rebuilt
//! from the attempt log and what its breakers remembered, and whoever was waiting is asked for again; a reservation that was granted meanwhile counts
//! twice for a while rather than not at all.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use actix::{Actor, ActorContext, Context, Handler};
use futures::FutureExt;
use tokio::sync::oneshot;

use super::bell::{Stop, Wake};
use super::claims::Claims;
use super::holds::HoldScope;
use super::journal::{Flush, Journal, Written, guard};
use super::kept;
use super::news::News;
use super::past;
use super::reply::Reply;
use super::restarts::{Restarts, Verdict};
use super::shared_item::{NAME, SharedItem};
use super::timer::{Timed, Timer};
use super::world::World;
use crate::config::OnPanic;
use crate::engine::breaker::BreakerMemory;
use crate::engine::mailbox;
use crate::engine::shared::{Asker, Effect, Input, Shared};
use crate::engine::{Scope, Timestamp, TripReason};
use crate::store::{Recovery, StoreError};
use crate::telemetry::{self, EventKind};

pub(crate) struct SharedActor {
    world: Arc<World>,
    engine: Option<Shared>,
    timer: Timer,
    restarts: Restarts,
    /// Who waits, and since when who holds a reservation.
    claims: Claims,
    /// What the breakers remember, and its way to the store.
    memories: BTreeMap<Scope, Box<BreakerMemory>>,
    journal: Journal,
    /// What came while there was no engine.
    postponed: Vec<Input>,
    recover_at: Option<Timestamp>,
    /// Who waits until everything is written.
    settling: Vec<oneshot::Sender<()>>,
    #[cfg(feature = "test-util")]
    sabotaged: bool,
}

impl SharedActor {
    /// Begins with what an earlier life left.
    pub(crate) fn restored(world: Arc<World>, recovery: &Recovery) -> Self {
        let memories = kept::breakers(&recovery.notes).filter(|(scope, _)| !matches!(scope, Scope::Mailbox(_)));
        let memories = memories.map(|(scope, memory)| (scope, Box::new(memory.clone()))).collect();
        let mut actor = Self::new(world, memories);
        actor.engine = Some(actor.rebuilt(recovery));
        actor
    }

    fn new(world: Arc<World>, memories: BTreeMap<Scope, Box<BreakerMemory>>) -> Self {
        Self {
            world,
            memories,
            journal: Journal::default(),
            engine: None,
            timer: Timer::default(),
            restarts: Restarts::default(),
            claims: Claims::default(),
            postponed: Vec::new(),
            recover_at: None,
            settling: Vec::new(),
            #[cfg(feature = "test-util")]
            sabotaged: false,
        }
    }

    fn on_item(&mut self, item: SharedItem) {
        match item {
            SharedItem::Input(input) => self.step(input),
            SharedItem::Breakers(answer) => {
                let now = self.world.clock.now();
                // Without an engine there is no answer, and "nothing" would be a wrong one.
                drop(self.engine.as_ref().map(|engine| answer.send(engine.breakers(now))));
            }
            SharedItem::Explain { lane, tenant, cost, answer } => {
                let now = self.world.clock.now();
                let explain = |engine: &Shared| engine.explain(now, lane, tenant.as_ref(), &cost);
                drop(self.engine.as_ref().map(explain).map(|constraints| answer.send(constraints)));
            }
            SharedItem::Close { scope, answer } => self.close(scope, answer),
            SharedItem::Settle(answer) => self.settling.push(answer),
            SharedItem::Snapshot(answer) => {
                drop(self.engine.clone().map(|engine| answer.send(Box::new(engine))));
            }
            SharedItem::Recovered(recovery) => self.on_recovered(*recovery),
            SharedItem::Written(written) => {
                self.journal.landed();
                self.on_written(*written);
            }
            #[cfg(feature = "test-util")]
            SharedItem::Panic => self.sabotaged = true,
            #[cfg(feature = "test-util")]
            SharedItem::Die => panic!("a test asked for a panic outside the engine"),
        }
    }

    /// Closes a breaker and answers when it is written that it is closed. Where nothing can be told or written nothing is
    /// done, and the answer is dropped.
    fn close(&mut self, scope: Scope, answer: oneshot::Sender<()>) {
        if self.engine.is_some() && !self.journal.is_failing() {
            self.step(Input::CloseBreaker(scope));
            if self.engine.is_some() {
                self.journal.tell_when_written(News::Obeyed(answer));
            }
        }
    }

    /// Does one piece of a turn. Everybody waits for this actor, so a panic outside the engine must not end it: the
    /// engine is not to be trusted then either, and is rebuilt.
    fn outlast(&mut self, work: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| work(self))).is_err() {
            self.on_panic(self.world.clock.now());
        }
    }

    fn step(&mut self, input: Input) {
        let world = &self.world;
        self.claims.note(&input, || world.settings.load().horizon(world.clock.now()));
        let Some(engine) = &mut self.engine else {
            if matches!(input, Input::Resume(Scope::Application)) && self.recover_at.is_none() {
                self.restarts.forgive();
                self.recover();
            }
            return self.postponed.push(input);
        };
        let now = self.world.clock.now();
        #[cfg(feature = "test-util")]
        let sabotaged = std::mem::take(&mut self.sabotaged);
        let mut effects = Vec::new();
        let run = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(feature = "test-util")]
            assert!(!sabotaged, "a test asked for this panic");
            engine.handle(now, input);
            effects.extend(std::iter::from_fn(|| engine.poll_effect()));
        }));
        effects.into_iter().for_each(|effect| self.perform(effect, now));
        if run.is_err() {
            self.on_panic(now);
        }
    }

    fn perform(&mut self, effect: Effect, now: Timestamp) {
        match effect {
            Effect::Grant(asker) => {
                self.claims.grant(asker.key, now);
                self.answer(asker, mailbox::Input::Granted { key: asker.key });
            }
            Effect::Wait { asker, until, constraint } => {
                self.answer(asker, mailbox::Input::Waiting { key: asker.key, until, constraint });
            }
            Effect::Deny(asker) => self.answer(asker, mailbox::Input::Denied { key: asker.key }),
            Effect::Announce(ask) => self.announce(ask),
            Effect::Troubled { scope, reason } => self.tell_trouble(now, &scope, reason),
            Effect::Elect { scope } => {
                if let Some(fleet) = &self.world.fleet {
                    let span = self.world.settings.load().shared().breaker.probe_timeout;
                    fleet.elect(&self.world, scope, span);
                }
            }
            Effect::Yield { scope } => drop(self.world.fleet.as_ref().map(|fleet| fleet.yield_turn(scope))),
            Effect::Remember { scope, memory } => self.remember(now, scope, memory),
            Effect::Event(event) => self.world.reporter.emit(now, &event, &telemetry::Context::default()),
        }
    }

    fn answer(&self, asker: Asker, input: mailbox::Input) {
        // A mailbox that is gone has said so, or is about to: its reservations are dropped then.
        if let Some(seat) = self.world.directory.by_key(asker.mailbox) {
            self.world.reply(&seat, Reply::Shared(input));
        }
    }

    fn announce(&self, ask: mailbox::AskShared) {
        self.world.set_ask_shared(ask);
        for seat in self.world.directory.all() {
            self.world.reply(&seat, Reply::Shared(mailbox::Input::AskShared(ask)));
        }
    }

    /// Mailboxes have to hear of it where somebody watches what passes a hold.
    fn tell_trouble(&self, now: Timestamp, scope: &Scope, reason: TripReason) {
        if self.world.holds.are_widening(now) {
            for seat in self.world.directory.all() {
                let troubled = mailbox::Input::Troubled { scope: scope.clone(), reason };
                self.world.reply(&seat, Reply::Shared(troubled));
            }
        }
    }

    fn on_panic(&mut self, now: Timestamp) {
        self.engine = None;
        let settings = self.world.settings.load();
        let (mailbox, reason) = (Arc::from(NAME), "panicked");
        match self.restarts.count(now, &settings.config.actors) {
            Verdict::Rebuild(restarts) => {
                self.world.reporter.report(now, EventKind::ActorRestarted { mailbox, restarts, reason });
                self.recover();
            }
            Verdict::Hold(restarts) => {
                self.world.reporter.report(now, EventKind::ActorHeld { mailbox, restarts, reason });
            }
        }
        if settings.config.actors.on_panic == OnPanic::Abort {
            std::process::abort();
        }
    }

    fn recover(&mut self) {
        self.recover_at = None;
        let world = Arc::clone(&self.world);
        let since = world.settings.load().horizons(world.clock.now());
        let mut reading = Box::pin(async move {
            let outline = guard(|| world.store.outline(since)).await;
            world.shared.push(SharedItem::Recovered(Box::new(outline.map(|outline| outline.recovery))));
        });
        if reading.as_mut().now_or_never().is_none() {
            self.world.host.spawn(reading);
        }
    }

    fn on_recovered(&mut self, recovery: Result<Recovery, StoreError>) {
        let now = self.world.clock.now();
        let Ok(recovery) = recovery else {
            self.recover_at = Some(now.after(super::rebuild::RECOVER_RETRY));
            return;
        };
        let engine = self.rebuilt(&recovery);
        self.announce(engine.ask());
        self.engine = Some(engine);
        self.take_orders(now);
        let waiting = self.claims.waiting();
        let postponed = std::mem::take(&mut self.postponed);
        waiting.into_iter().chain(postponed).for_each(|input| self.step(input));
    }

    fn rebuilt(&mut self, recovery: &Recovery) -> Shared {
        let now = self.world.clock.now();
        let settings = self.world.settings.load();
        let horizon = settings.shared_horizon(now);
        let mut engine = Shared::new(settings.shared());
        if self.world.fleet.is_some() {
            engine = engine.one_of_many();
        }
        for (scope, memory) in &self.memories {
            engine.restore_breaker(now, scope, memory);
        }
        self.claims.forget(horizon);
        let sent = kept::charges(recovery, horizon).map(|record| (record.tenant.clone(), past::attempt(&record)));
        engine.restore(now, sent.chain(self.claims.reserved()));
        engine
    }

    /// The operators' holds and trips that are in force.
    fn take_orders(&mut self, now: Timestamp) {
        // What passes in part is held in the mailboxes.
        for hold in self.world.holds.all(now).into_iter().filter(|hold| hold.widening.is_none()) {
            let scope = match hold.scope {
                HoldScope::All => Scope::Application,
                HoldScope::Tenant(tenant) => Scope::Tenant(tenant),
                _ => continue,
            };
            self.step(Input::Hold { scope, until: hold.until });
        }
        for trip in self.world.trips.all(now) {
            if !matches!(trip.scope, Scope::Mailbox(_)) {
                self.step(Input::Trip { scope: trip.scope, until: trip.until });
            }
        }
    }

    fn remember(&mut self, now: Timestamp, scope: Scope, memory: Option<Box<BreakerMemory>>) {
        self.journal.note(kept::breaker(now, &scope, memory.clone()));
        let rest = memory.as_ref().and_then(|memory| memory.cooldown.as_ref()).map(|cooldown| cooldown.until);
        if let (Some(fleet), Some(until)) = (&self.world.fleet, rest.filter(|until| *until > now)) {
            fleet.cool(scope.clone(), until);
        }
        self.memories.retain(|_, memory| memory.ends_at() > now);
        match memory {
            Some(memory) => drop(self.memories.insert(scope, memory)),
            None => drop(self.memories.remove(&scope)),
        }
    }

    /// Writes what the breakers have to remember. Only who closes one by hand waits for it.
    fn write(&mut self) {
        while let flush @ (Flush::Done(_) | Flush::Waiting(_)) =
            self.journal.flush(&self.world.store, self.world.clock.now())
        {
            match flush {
                Flush::Done(written) => self.on_written(*written),
                Flush::Waiting(call) => {
                    let world = Arc::clone(&self.world);
                    self.world.host.spawn(async move {
                        let written = Box::new(call.0.await);
                        world.shared.push(SharedItem::Written(written));
                    });
                    return;
                }
                Flush::Nothing => {}
            }
        }
    }

    fn on_written(&mut self, written: Written) {
        match written.notes {
            // Mailboxes tell of a store in trouble: whatever it does to these, it does to their records.
            Some((notes, Err(error))) if !matches!(error, StoreError::Full { .. }) => {
                self.journal.keep_notes(&notes, self.world.clock.now());
            }
            _ => self.journal.tell(),
        }
    }
}

impl Timed for SharedActor {
    fn timer(&mut self) -> &mut Timer {
        &mut self.timer
    }

    #[cfg(feature = "test-util")]
    fn world(&self) -> &World {
        &self.world
    }

    fn turn(&mut self, ctx: &mut Context<Self>) {
        for item in self.world.shared.take() {
            self.outlast(|actor| actor.on_item(item));
        }
        let due = |actor: &Self| actor.engine.as_ref().and_then(Shared::poll_deadline);
        self.outlast(|actor| {
            let now = actor.world.clock.now();
            if actor.recover_at.is_some_and(|at| at <= now) {
                actor.recover();
            }
            if due(actor).is_some_and(|at| at <= now) {
                actor.step(Input::Wake);
            }
            if let Some(engine) = &mut actor.engine {
                actor.world.set_standing(engine.standing(now));
            }
        });
        self.outlast(Self::write);
        if self.journal.is_settled() || self.journal.is_failing() {
            self.settling.drain(..).for_each(|answer| answer.send(()).unwrap_or_default());
        }
        let next = [due(self), self.recover_at, self.journal.retry_at()].into_iter().flatten().min();
        Timer::arm(self, ctx, self.world.clock.now(), next);
    }
}

impl Actor for SharedActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if let Some(engine) = &self.engine {
            self.announce(engine.ask());
        }
        self.outlast(|actor| actor.take_orders(actor.world.clock.now()));
        self.turn(ctx);
    }
}

/// Whoever still waits in the queue learns that nobody will come.
impl Drop for SharedActor {
    fn drop(&mut self) {
        self.world.shared.close();
    }
}

impl Handler<Stop> for SharedActor {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

impl Handler<Wake> for SharedActor {
    type Result = ();

    fn handle(&mut self, _: Wake, ctx: &mut Self::Context) {
        self.turn(ctx);
    }
}
