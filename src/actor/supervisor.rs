//! Starts the actors of mailboxes on demand, keeps the engines of those that left, replaces those that died.
//!
//! It is the only owner of actors.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, Addr, Context, Handler};

use super::aside::{Aside, Origin};
use super::bell::{Stop, Wake};
use super::entrance::TurnedAway;
use super::host::Before;
use super::mailbox::MailboxActor;
use super::restarts::{Restarts, Verdict};
use super::seat::Seat;
use super::shared_item::SharedItem;
use super::world::World;
use crate::engine::Timestamp;
use crate::engine::mailbox::Rested;
use crate::engine::shared::Input as SharedInput;
use crate::telemetry::EventKind;

/// As many mailboxes lie aside as may be live, and at least this many.
const ASIDE_MIN: usize = 1_024;

/// What is asked of the supervisor.
#[derive(Debug)]
pub(crate) enum Errand {
    /// Start the actor of this new seat.
    Start(Arc<Seat>),
    /// This actor has left; what its engine was charged may still count.
    Departed { seat: Arc<Seat>, rested: Option<Rested> },
    /// This actor has died.
    Died(Arc<Seat>),
}

pub(crate) struct Supervisor {
    world: Arc<World>,
    live: HashMap<Arc<str>, Live>,
    /// Seats that wait for the actor before them to leave.
    waiting: HashMap<Arc<str>, Arc<Seat>>,
    aside: Aside,
    /// How often actors have died, of mailboxes where one has and none has left in peace since.
    deaths: HashMap<Arc<str>, Restarts>,
}

struct Live {
    seat: Arc<Seat>,
    actor: Addr<MailboxActor>,
}

impl Supervisor {
    /// A supervisor that knows what each mailbox starts from of which the store had something.
    pub(super) fn new(world: Arc<World>, before: Before) -> Self {
        let live_max = world.settings.load().config.actors.live_max;
        // Never fewer than the store had: those with operations start at once.
        let aside = Aside::new(live_max.max(ASIDE_MIN).max(before.len()));
        let mut supervisor =
            Self { world, live: HashMap::new(), waiting: HashMap::new(), aside, deaths: HashMap::new() };
        for (id, (origin, notes_until)) in before {
            supervisor.lay_aside(&id, origin, notes_until);
        }
        supervisor
    }

    fn run(&mut self) {
        for errand in self.world.supervisor.take() {
            match errand {
                // It took the place of one that had died before its caller's errand came.
                Errand::Start(seat) if self.is_live(&seat) => {}
                Errand::Start(seat) if self.live.contains_key(seat.id()) => {
                    self.waiting.insert(Arc::clone(seat.id()), seat);
                }
                Errand::Start(seat) => {
                    let origin = self.aside.take(self.world.clock.now(), seat.id());
                    self.start(seat, origin);
                }
                Errand::Departed { seat, rested } => self.departed(&seat, rested),
                Errand::Died(seat) => self.died(&seat),
            }
        }
    }

    fn start(&mut self, seat: Arc<Seat>, origin: Origin) {
        let actor = MailboxActor::new(Arc::clone(&self.world), Arc::clone(&seat), origin).start();
        seat.ingress().bell().attach(actor.clone().recipient());
        self.live.insert(Arc::clone(seat.id()), Live { seat, actor });
    }

    fn departed(&mut self, seat: &Arc<Seat>, rested: Option<Rested>) {
        if !self.is_live(seat) {
            return;
        }
        self.live.remove(seat.id());
        self.deaths.remove(seat.id());
        let now = self.world.clock.now();
        let is_new = rested.as_ref().is_some_and(Rested::is_new);
        let origin = rested.map_or(Origin::Lost, Origin::Passivated);
        match self.waiting.remove(seat.id()) {
            Some(next) => self.start(next, origin),
            None if is_new => {}
            None => self.lay_aside(seat.id(), origin, Timestamp::EPOCH),
        }
        let world = &self.world;
        self.aside.look_at_some(now, || reach(world, now));
    }

    fn lay_aside(&mut self, id: &Arc<str>, origin: Origin, notes_until: Timestamp) {
        let (now, world) = (self.world.clock.now(), &self.world);
        self.aside.lay(now, id, origin, notes_until, || reach(world, now));
    }

    fn died(&mut self, seat: &Arc<Seat>) {
        if !self.is_live(seat) {
            return;
        }
        self.live.remove(seat.id());
        let origin = self.after_death(seat.id());
        self.world.shared.push(SharedItem::Input(SharedInput::MailboxGone(seat.key())));
        self.world.directory.leave(seat);
        let (admits, questions) = seat.ingress().close();
        drop(questions);
        admits.into_iter().for_each(|admit| admit.turn_away(TurnedAway::MailboxHeld));
        match (self.waiting.remove(seat.id()), origin) {
            // Started when somebody asks for it: one that dies at every start must not keep the thread busy.
            (None, Origin::Held) => self.lay_aside(seat.id(), Origin::Held, Timestamp::EPOCH),
            (next, origin) => {
                let next = next.unwrap_or_else(|| self.world.directory.enter_recovered(seat.id()));
                self.start(next, origin);
            }
        }
    }

    /// What the next actor of a mailbox starts from whose last one has died.
    fn after_death(&mut self, id: &Arc<str>) -> Origin {
        let (now, settings) = (self.world.clock.now(), self.world.settings.load());
        let verdict = self.deaths.entry(Arc::clone(id)).or_default().count(now, &settings.config.actors);
        let (mailbox, reason) = (Arc::clone(id), "stopped");
        match verdict {
            Verdict::Rebuild(restarts) => {
                self.world.reporter.report(now, EventKind::ActorRestarted { mailbox, restarts, reason });
                Origin::Lost
            }
            Verdict::Hold(restarts) => {
                self.world.reporter.report(now, EventKind::ActorHeld { mailbox, restarts, reason });
                Origin::Held
            }
        }
    }

    fn is_live(&self, seat: &Arc<Seat>) -> bool {
        self.live.get(seat.id()).is_some_and(|live| Arc::ptr_eq(&live.seat, seat))
    }
}

/// How long a charge can count anywhere.
fn reach(world: &World, now: Timestamp) -> Duration {
    now.since(world.settings.load().horizon(now))
}

impl Actor for Supervisor {
    type Context = Context<Self>;

    fn started(&mut self, _: &mut Self::Context) {
        self.run();
    }
}

impl Handler<Stop> for Supervisor {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Self::Context) {
        for live in self.live.values() {
            // An actor whose queue is full has wake-ups to work off first, and ends with its thread.
            drop(live.actor.try_send(Stop));
        }
        ctx.stop();
    }
}

impl Handler<Wake> for Supervisor {
    type Result = ();

    fn handle(&mut self, _: Wake, _: &mut Self::Context) {
        self.run();
    }
}

/// Callers whose actor was never started learn that nobody will come, and so do those who wait for another process.
impl Drop for Supervisor {
    fn drop(&mut self) {
        self.world.close();
        if let Some(fleet) = &self.world.fleet {
            fleet.stop_telling();
        }
        for seat in self.world.directory.all() {
            let (admits, questions) = seat.ingress().close();
            drop(questions);
            admits.into_iter().for_each(|admit| admit.turn_away(TurnedAway::ShuttingDown));
        }
    }
}
