//! One run of a scenario: a process, its death, the next process over what the store then holds, until all has ended.
//!
//! Everything runs on one thread under paused time, so a run is given by its scenario, its seed and its plan.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mailweir::clock::{Clock, TokioClock};
use mailweir::engine::{OperationState, Timestamp};
use mailweir::scheduler::{Scheduler, SchedulerHandle};
use mailweir::store::{OperationQuery, OperationRecord, Store};
use mailweir::transport::simulated::SimulatedTransport;
use mailweir::upstream::Upstream;
use mailweir::{Email, Outcome, Submission};
use tokio::task::JoinSet;

use crate::acts::{Act, COOLDOWN, New, Scenario};
use crate::book::Book;
use crate::caller::Caller;
use crate::mortal::{Fabric, Life, MortalStore, MortalTransport, Plan, UnderWay};
use crate::orders::Orders;
use crate::shelf::Shelf;
use crate::stands::stands;

/// An instant that looks like today.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_764_500_000_000_000);
/// Processes of one run, at most.
const LIVES_MAX: usize = 8;

/// How a run goes.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    pub(crate) seed: u64,
    pub(crate) plan: Arc<dyn Plan>,
    pub(crate) under_way: UnderWay,
    /// From a death to the next process.
    pub(crate) downtime: Duration,
}

/// What callers were told before their process died.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) taken_in: Vec<Arc<str>>,
    pub(crate) outcomes: BTreeMap<Arc<str>, Outcome>,
    pub(crate) orders: Orders,
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) seed: u64,
    pub(crate) lives: usize,
    /// When processes died, and when the next ones began.
    pub(crate) deaths: Vec<(Timestamp, Timestamp)>,
    pub(crate) book: Book,
    pub(crate) upstream: Upstream,
    pub(crate) rows: BTreeMap<Arc<str>, OperationRecord>,
    pub(crate) told: Told,
}

/// What the processes of one run share.
struct World<'a> {
    scenario: &'a Scenario,
    course: &'a Course,
    shelf: &'a Shelf,
    clock: Arc<TokioClock>,
    upstream: Arc<Mutex<Upstream>>,
    fabric: Fabric,
    acts: Vec<(Duration, Act)>,
    /// Which acts are over.
    over: Rc<RefCell<Vec<bool>>>,
    told: Rc<RefCell<Told>>,
}

pub(crate) fn email(mailbox: &str, id: &str) -> Email {
    let mime = format!("Subject: {id}\r\n\r\nHello {id}.\r\n").into_bytes();
    Email::from_mime(mailbox, ["kim@example.org"], mime).expect("an email")
}

pub(crate) fn submission(new: &New) -> Submission {
    let mut submission = Submission::new(&*new.mailbox, email(&new.mailbox, &new.id)).operation_id(&*new.id);
    submission = submission.lane(new.lane);
    if let Some(campaign) = new.campaign {
        submission = submission.campaign(campaign);
    }
    if let Some(key) = &new.key {
        submission = submission.admission_key(Arc::clone(key), COOLDOWN);
    }
    if let Some(at) = new.not_before {
        let at = Duration::from_micros(START.after(at).as_micros());
        submission = submission.not_before(std::time::SystemTime::UNIX_EPOCH + at);
    }
    if let Some(deadline) = new.deadline {
        // An instant, so that a submission that is handed over again is the same one.
        let at = Duration::from_micros(START.after(deadline).as_micros());
        submission = submission.deadline_at(std::time::SystemTime::UNIX_EPOCH + at);
    }
    submission
}

/// Runs a scenario to its end.
pub(crate) fn run(scenario: &Scenario, course: &Course, shelf: &Shelf) -> Result<Run, String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let clock = Arc::new(TokioClock::starting_at(START));
        let model = (scenario.model)(START, course.seed);
        let upstream = Arc::new(Mutex::new(Upstream::new(model, course.seed)));
        let acts = scenario.acts_of(course.seed);
        let fabric = Fabric::new(Arc::clone(&course.plan), scenario.commit(course.seed));
        let over = Rc::new(RefCell::new(vec![false; acts.len()]));
        let told = Rc::default();
        let world = World { scenario, course, shelf, clock, upstream, fabric, acts, over, told };
        world.live().await
    })
}

/// How a life ended.
enum End {
    Died,
    Done(Vec<OperationRecord>),
}

impl World<'_> {
    async fn live(&self) -> Result<Run, String> {
        let mut deaths = Vec::new();
        for lives in 1..=LIVES_MAX {
            match self.life().await? {
                End::Done(rows) => return Ok(self.end(lives, deaths, rows)),
                End::Died => {
                    let died = self.clock.now();
                    tokio::time::sleep(self.course.downtime).await;
                    deaths.push((died, self.clock.now()));
                }
            }
        }
        Err(format!("{LIVES_MAX} processes, and it has not ended"))
    }

    async fn life(&self) -> Result<End, String> {
        let life = Arc::new(Life::default());
        let (inner, omen) = self.shelf.open();
        let fabric = self.fabric.clone();
        let store = MortalStore { inner, omen, life: Arc::clone(&life), fabric, turn: tokio::sync::Mutex::default() };
        let store = Arc::new(store);
        let inner = SimulatedTransport::new(Arc::clone(&self.upstream), Arc::clone(&self.clock) as Arc<dyn Clock>);
        let inner = if self.scenario.looks_up { inner } else { inner.without_reconciliation() };
        let inner = Arc::new(inner.visible_after((self.scenario.shows_after)(self.course.seed)));
        let transport = || MortalTransport {
            inner: Arc::clone(&inner),
            life: Arc::clone(&life),
            fabric: self.fabric.clone(),
            clock: Arc::clone(&self.clock),
            under_way: self.course.under_way,
        };
        let builder = Scheduler::builder((self.scenario.config)(), transport())
            .clock(Arc::clone(&self.clock) as Arc<dyn Clock>)
            .store(Arc::clone(&store))
            .seeds([self.course.seed, 2]);
        // It may die while it starts.
        let scheduler = tokio::select! {
            started = builder.start_on_current_thread() => started.map_err(|error| format!("it does not start: {error}"))?,
            () = life.died() => return Ok(End::Died),
        };
        let handle = scheduler.handle();
        tokio::select! {
            stands = stands(&self.told, &handle, &*self.clock) => stands?,
            () = life.died() => return Ok(End::Died),
        }
        let callers = self.callers(&handle, &life, &Arc::new(transport()));
        let end = tokio::select! {
            () = life.died() => Ok(End::Died),
            ended = self.settled(&*store.inner) => ended.map(End::Done),
        };
        drop((callers, scheduler));
        end
    }

    /// Those who have something left to do.
    fn callers(&self, handle: &SchedulerHandle, life: &Arc<Life>, transport: &Arc<MortalTransport>) -> JoinSet<()> {
        let (mut callers, mut in_turn) = (JoinSet::new(), Vec::new());
        let caller = Caller {
            handle: handle.clone(),
            life: Arc::clone(life),
            transport: Arc::clone(transport),
            upstream: Arc::clone(&self.upstream),
            told: Rc::clone(&self.told),
            over: Rc::clone(&self.over),
        };
        for (place, (at, act)) in self.acts.iter().enumerate() {
            if self.over.borrow()[place] {
                continue;
            }
            let what = (place, START.after(*at), act.clone());
            if act.is_in_turn() {
                in_turn.push(what);
            } else {
                callers.spawn_local(one_after_the_other(caller.clone(), Arc::clone(&self.clock), vec![what]));
            }
        }
        in_turn.sort_by_key(|(_, at, _)| *at);
        callers.spawn_local(one_after_the_other(caller, Arc::clone(&self.clock), in_turn));
        callers
    }

    /// Waits until all callers are through and every operation has come to an end.
    async fn settled(&self, store: &dyn Store) -> Result<Vec<OperationRecord>, String> {
        let is_final = |place: usize| OperationState::ALL[place].is_final();
        let everything = || store.operations(OperationQuery { limit: usize::MAX, ..OperationQuery::default() });
        while self.clock.now().since(START) < self.scenario.ends_by {
            let counts = store.counts().await.map_err(|error| error.to_string())?;
            let live: u64 = counts.iter().enumerate().filter(|(place, _)| !is_final(*place)).map(|(_, n)| n).sum();
            if live == 0 && self.over.borrow().iter().all(|over| *over) {
                return everything().await.map_err(|error| error.to_string());
            }
            tokio::time::sleep(Duration::from_secs(20)).await;
        }
        let over = self.over.borrow().clone();
        let acts: Vec<_> = self.acts.iter().zip(over).filter(|(_, over)| !over).map(|(act, _)| act).collect();
        let rows = everything().await.map_err(|error| error.to_string())?;
        let live: Vec<_> = rows.iter().filter(|row| !row.state.is_final()).take(3).collect();
        let ends_by = self.scenario.ends_by;
        Err(format!("after {ends_by:?} it has not come to its end: {live:?}; callers still at work: {acts:?}"))
    }

    fn end(&self, lives: usize, deaths: Vec<(Timestamp, Timestamp)>, rows: Vec<OperationRecord>) -> Run {
        Run {
            seed: self.course.seed,
            lives,
            deaths,
            book: std::mem::take(&mut *self.fabric.book()),
            upstream: self.upstream.lock().expect("not poisoned").clone(),
            rows: rows.into_iter().map(|row| (Arc::clone(&row.id), row)).collect(),
            told: self.told.take(),
        }
    }
}

async fn one_after_the_other(caller: Caller, clock: Arc<TokioClock>, acts: Vec<(usize, Timestamp, Act)>) {
    for (place, at, act) in acts {
        tokio::time::sleep(at.since(clock.now())).await;
        if !caller.does(&act).await {
            return;
        }
        caller.over.borrow_mut()[place] = true;
    }
}
