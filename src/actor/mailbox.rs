//! The actor of one mailbox: it brings news to the engine and does what the engine says.
//!
//! One turn takes a bounded amount from each queue, hands every item to the engine as one input, performs the effects
//! in order, writes what they produced in one store call, and arms one timer. Between reading and writing engine
//! state nothing is awaited, so no second turn can come in between. No rule about limits lives here.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use actix::{Actor, ActorContext, Context, Handler};

use super::admissions::Admissions;
use super::aside::Origin;
use super::bell::{Stop, Wake};
use super::desk::Desk;
use super::entrance::TurnedAway;
use super::fleet::Owning;
use super::ingress::{Appetite, Rest, Turn};
use super::journal::{Flush, Journal};
use super::orders::Given;
use super::outlet::Job;
use super::question::Drained;
use super::reply::Reply;
use super::restarts::Restarts;
use super::seat::Seat;
use super::shared_item::SharedItem;
use super::supervisor::Errand;
use super::tidy::TIDY_AFTER;
use super::timer::{Timed, Timer};
use super::vigil::Watch;
use super::world::World;
use crate::engine::mailbox::{Effect, Input, Mailbox};
use crate::engine::policy::MailboxPolicy;
use crate::engine::{OperationKey, OperationState, Timestamp};

/// What the actor can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Everything.
    Live,
    /// Waits for the store to tell for the first time what there is of the mailbox. Whoever asks this one waits with it, as
    /// for a start that reads all at once.
    Reading,
    /// Waits for the store to tell what the engine is rebuilt from.
    Rebuilding,
    /// Another process owns the mailbox.
    Remote,
    /// Waits for an operator, after too many rebuilds.
    Held,
}

pub(crate) struct MailboxActor {
    pub(super) world: Arc<World>,
    pub(super) seat: Arc<Seat>,
    pub(super) policy: Arc<MailboxPolicy>,
    pub(super) engine: Option<Mailbox>,
    pub(super) mode: Mode,
    pub(super) desk: Desk,
    pub(super) admissions: Admissions,
    pub(super) journal: Journal,
    pub(super) restarts: Restarts,
    /// Its hold on the mailbox, where several processes share it.
    pub(super) own: Owning,
    pub(super) drain: Option<Drain>,
    /// Submissions handed back because the scheduler stops.
    pub(super) handed_back: u64,
    /// The store is in trouble, and that was reported.
    pub(super) degraded: bool,
    /// A rebuild waits until what is being written is written.
    pub(super) recover_when_written: bool,
    /// A rebuild failed because of the store, and is tried again then.
    pub(super) recover_at: Option<Timestamp>,
    /// The last reading of the store: what an earlier one found, or one that is over, is old.
    pub(super) reading: u64,
    /// What came for the engine while there was none.
    pub(super) postponed: Vec<Reply>,
    /// Deadlines, while there is none.
    pub(super) watch: Watch,
    /// Persons' orders that have not led to a record yet.
    pub(super) given: BTreeMap<OperationKey, Given>,
    /// Where the last record moved its operation.
    pub(super) moved: Option<OperationState>,
    /// The instant of the running turn.
    pub(super) now: Timestamp,
    pub(super) jobs: Vec<Job>,
    pub(super) to_shared: Vec<SharedItem>,
    pub(super) effects: Vec<Effect>,
    pub(super) turn: Turn,
    timer: Timer,
    idle_since: Option<Timestamp>,
    tidied: bool,
    origin: Option<Origin>,
    /// It leaves because it is told to, and the supervisor knows.
    pub(super) departed: bool,
    /// Engine steps that are to panic.
    #[cfg(feature = "test-util")]
    pub(super) sabotaged: u32,
    /// The operation about which every engine step is to panic.
    #[cfg(feature = "test-util")]
    pub(super) poison: Option<Arc<str>>,
}

/// A drain under way.
#[derive(Debug)]
pub(super) struct Drain {
    pub(super) answers: Vec<tokio::sync::oneshot::Sender<Drained>>,
    /// The same after its time, and what they are told when it is written.
    pub(super) last_words: Vec<(tokio::sync::oneshot::Sender<Drained>, Drained)>,
    pub(super) so_far: Drained,
    /// Operations whose last attempt ended unknown meanwhile: they stay at the desk, and are counted once.
    pub(super) unknown: Vec<OperationKey>,
}

impl MailboxActor {
    pub(super) fn new(world: Arc<World>, seat: Arc<Seat>, origin: Origin) -> Self {
        Self {
            policy: world.settings.load().mailbox(seat.id()),
            now: world.clock.now(),
            own: Owning::new(&world),
            world,
            seat,
            engine: None,
            mode: Mode::Rebuilding,
            desk: Desk::default(),
            admissions: Admissions::default(),
            journal: Journal::default(),
            restarts: Restarts::default(),
            drain: None,
            handed_back: 0,
            degraded: false,
            recover_when_written: false,
            recover_at: None,
            reading: 0,
            postponed: Vec::new(),
            watch: Watch::default(),
            given: BTreeMap::new(),
            moved: None,
            jobs: Vec::new(),
            to_shared: Vec::new(),
            effects: Vec::new(),
            turn: Turn::default(),
            timer: Timer::default(),
            idle_since: None,
            tidied: false,
            origin: Some(origin),
            departed: false,
            #[cfg(feature = "test-util")]
            sabotaged: 0,
            #[cfg(feature = "test-util")]
            poison: None,
        }
    }

    /// Hands one input to the engine and performs what follows from it.
    pub(super) fn step(&mut self, input: Input) {
        let now = self.now;
        let about = input.key();
        self.guarded(about, |engine| engine.handle(now, input));
    }

    /// Runs the engine where a panic of it ends here, and performs its effects. A panic is put down to the operation
    /// that the engine was dealing with, or to the one that the call is `about`.
    pub(super) fn guarded(&mut self, about: Option<OperationKey>, call: impl FnOnce(&mut Mailbox)) {
        #[cfg(feature = "test-util")]
        let sabotaged = self.engine.is_some() && self.is_sabotaged(about);
        let Some(engine) = &mut self.engine else { return };
        let mut effects = std::mem::take(&mut self.effects);
        let run = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(feature = "test-util")]
            assert!(!sabotaged, "a test asked for this panic");
            call(engine);
            while let Some(effect) = engine.poll_effect() {
                effects.push(effect);
            }
        }));
        if run.is_err() {
            // What the engine had decided before still holds; what it holds now cannot be trusted.
            let culprit = self.lose_engine().or(about);
            self.count_panic(culprit);
        }
        for effect in effects.drain(..) {
            self.perform(effect);
        }
        self.effects = effects;
    }

    /// Whether a test wants this step to panic.
    #[cfg(feature = "test-util")]
    fn is_sabotaged(&mut self, about: Option<OperationKey>) -> bool {
        let id = about.and_then(|key| self.desk.id(key));
        let poisoned = id.is_some() && id == self.poison;
        let sabotaged = self.sabotaged > 0;
        self.sabotaged = self.sabotaged.saturating_sub(1);
        poisoned || sabotaged
    }

    fn take_turn(&mut self) -> Rest {
        self.now = self.world.clock.now();
        let appetite = match self.mode {
            Mode::Reading if self.own.is_acquiring() => Appetite::Answers,
            Mode::Reading => Appetite::Pressing,
            Mode::Rebuilding => Appetite::NothingNew,
            Mode::Live | Mode::Held | Mode::Remote => Appetite::All,
        };
        let mut turn = std::mem::take(&mut self.turn);
        let mut rest = self.seat.ingress().take(&mut turn, appetite);
        self.look_at_tenure();
        for reply in turn.answers.drain(..) {
            self.on_reply(reply);
        }
        for question in turn.questions.drain(..) {
            self.on_question(question);
        }
        for admit in turn.admits.drain(..) {
            self.on_admit(admit);
        }
        if appetite != Appetite::All && !matches!(self.mode, Mode::Reading | Mode::Rebuilding) {
            // What was left alone has rung, and rings no more.
            rest = Rest::More;
        }
        // Whatever the store says of what they waited for: their key ended before.
        for repeat in self.admissions.take_released() {
            self.take_in_repeat(repeat);
        }
        self.turn = turn;
        self.wake_if_due();
        self.keep_vigil();
        self.write();
        self.journal.tell_overdue(self.now);
        self.mend();
        self.recover_if_due();
        self.write();
        // A store that answers without waiting may have brought an engine back that panicked at once.
        self.mend();
        self.hand_over();
        rest
    }

    /// Has a panicked engine rebuilt. As often as it panics on the way: the bound on restarts ends it.
    fn mend(&mut self) {
        while self.engine.is_none() && self.mode == Mode::Live {
            self.on_panic();
            self.write();
        }
    }

    fn wake_if_due(&mut self) {
        let due = self.engine.as_ref().and_then(Mailbox::poll_deadline);
        if due.is_some_and(|due| due <= self.now) {
            self.step(Input::Wake);
        }
    }

    /// Writes what has gathered, again and again while the store answers without waiting.
    pub(super) fn write(&mut self) {
        if !self.own.late.is_empty() {
            return self.write_late();
        }
        loop {
            self.leave_out_withdrawn();
            match self.journal.flush(&self.own.store, self.now) {
                Flush::Nothing => return,
                Flush::Done(written) => self.on_written(*written),
                Flush::Waiting(call) => {
                    let (world, seat) = (Arc::clone(&self.world), Arc::clone(&self.seat));
                    self.world.host.spawn(async move {
                        let written = Box::new(call.0.await);
                        world.reply(&seat, Reply::Written(written));
                    });
                    return;
                }
            }
        }
    }

    /// Hands over what the turn has for others.
    fn hand_over(&mut self) {
        self.world.shared.push_all(&mut self.to_shared);
        self.world.outlet.put(&mut self.jobs);
    }

    /// Whether the actor has nothing to do, and since when.
    fn idle_since(&mut self) -> Option<Timestamp> {
        let engine = self.engine.as_ref().map_or(self.mode == Mode::Remote, Mailbox::is_idle);
        let idle = self.drain.is_none()
            && engine
            && self.own.late.is_empty()
            && self.desk.is_empty()
            && self.admissions.is_empty(self.now)
            && self.journal.is_settled()
            && self.seat.ingress().set_idle();
        self.idle_since = idle.then(|| self.idle_since.unwrap_or(self.now));
        self.idle_since
    }
}

impl Timed for MailboxActor {
    fn timer(&mut self) -> &mut Timer {
        &mut self.timer
    }

    #[cfg(feature = "test-util")]
    fn world(&self) -> &World {
        &self.world
    }

    fn turn(&mut self, ctx: &mut Context<Self>) {
        let rest = self.take_turn();
        self.end_drain();
        if rest == Rest::More {
            return Timer::soon(ctx);
        }
        if self.seat.ingress().is_retired() {
            return self.depart(ctx);
        }
        let idle_since = self.idle_since();
        self.tidied &= idle_since.is_some();
        let tidy_at = idle_since.filter(|_| !self.tidied).map(|since| since.after(TIDY_AFTER));
        if tidy_at.is_some_and(|at| at <= self.now) {
            self.tidied = true;
            self.tidy();
        }
        let passivate_at = idle_since.map(|since| {
            let after = self.world.settings.load().config.actors.passivate_after;
            since.after(after)
        });
        if passivate_at.is_some_and(|at| at <= self.now) && self.seat.ingress().retire_if_idle() {
            return self.depart(ctx);
        }
        let due = self.engine.as_ref().and_then(Mailbox::poll_deadline);
        let due = [
            due,
            tidy_at.filter(|_| !self.tidied),
            passivate_at,
            self.journal.retry_at(),
            self.recover_at,
            self.own.late.retry_at(),
            self.watch.next_at(),
            self.journal.tell_by(),
        ]
        .into_iter()
        .flatten()
        .min();
        Timer::arm(self, ctx, self.world.clock.now(), due);
    }
}

impl Actor for MailboxActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if let Some(origin) = self.origin.take() {
            self.begin(origin);
        }
        self.turn(ctx);
    }
}

impl Handler<Stop> for MailboxActor {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

impl Handler<Wake> for MailboxActor {
    type Result = ();

    fn handle(&mut self, _: Wake, ctx: &mut Self::Context) {
        self.turn(ctx);
    }
}

/// Whoever still waits in the queue, or for a store call under way, learns that nobody will come. An actor that was not to go is replaced: a panic
/// outside the engine ends it, and then no ring is sure to notice.
impl Drop for MailboxActor {
    fn drop(&mut self) {
        let closing = self.world.is_closing();
        let ingress = self.seat.ingress();
        let (admits, questions) = if closing { ingress.close() } else { ingress.abandon() };
        drop(questions);
        drop(ingress.end_answers());
        let why = if closing { TurnedAway::ShuttingDown } else { TurnedAway::MailboxHeld };
        admits.into_iter().for_each(|admit| admit.turn_away(why));
        if !closing && !self.departed {
            self.world.supervisor.push(Errand::Died(Arc::clone(&self.seat)));
        }
    }
}
