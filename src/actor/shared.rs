//! The actor of the shared scopes: the application's and the tenants' budgets and breakers.
//!
//! One actor, because a reservation over several shared scopes is one decision, all or nothing. Mailboxes come here
//! only while there is something to ask: the engine announces when that changes.

use std::sync::Arc;

use actix::{Actor, ActorContext, Context, Handler};
use tokio::sync::oneshot;

use super::bell::{Stop, Wake};
use super::reply::Reply;
use super::timer::{Timed, Timer};
use super::world::World;
use crate::engine::breaker::BreakerFacts;
use crate::engine::mailbox;
use crate::engine::shared::{Asker, Effect, Input, Shared};
use crate::engine::{Constraint, Cost, Lane, Scope};
use crate::telemetry;

/// What mailboxes and operators bring to the shared scopes.
#[derive(Debug)]
pub(crate) enum SharedItem {
    Input(Input),
    Breakers(oneshot::Sender<Vec<(Scope, BreakerFacts)>>),
    Explain { lane: Lane, tenant: Option<Arc<str>>, cost: Cost, answer: oneshot::Sender<Vec<Constraint>> },
}

pub(crate) struct SharedActor {
    world: Arc<World>,
    engine: Shared,
    timer: Timer,
}

impl SharedActor {
    pub(crate) fn new(world: Arc<World>, engine: Shared) -> Self {
        Self { world, engine, timer: Timer::default() }
    }

    fn step(&mut self, input: Input) {
        self.engine.handle(self.world.clock.now(), input);
        self.perform();
    }

    fn perform(&mut self) {
        while let Some(effect) = self.engine.poll_effect() {
            match effect {
                Effect::Grant(asker) => self.answer(asker, mailbox::Input::Granted { key: asker.key }),
                Effect::Wait { asker, until, constraint } => {
                    self.answer(asker, mailbox::Input::Waiting { key: asker.key, until, constraint });
                }
                Effect::Announce(ask) => self.announce(ask),
                Effect::Event(event) => {
                    self.world.reporter.emit(self.world.clock.now(), &event, &telemetry::Context::default());
                }
            }
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
}

impl Timed for SharedActor {
    fn timer(&mut self) -> &mut Timer {
        &mut self.timer
    }

    fn turn(&mut self, ctx: &mut Context<Self>) {
        for item in self.world.shared.take() {
            match item {
                SharedItem::Input(input) => self.step(input),
                SharedItem::Explain { lane, tenant, cost, answer } => {
                    let now = self.world.clock.now();
                    drop(answer.send(self.engine.explain(now, lane, tenant.as_ref(), &cost)));
                }
                SharedItem::Breakers(answer) => drop(answer.send(self.engine.breakers(self.world.clock.now()))),
            }
        }
        let now = self.world.clock.now();
        if self.engine.poll_deadline().is_some_and(|due| due <= now) {
            self.step(Input::Wake);
        }
        let due = self.engine.poll_deadline();
        Timer::arm(self, ctx, self.world.clock.now(), due);
    }
}

impl Actor for SharedActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.perform();
        self.turn(ctx);
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
