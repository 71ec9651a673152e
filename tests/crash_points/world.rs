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
use mailweir::scheduler::{AskError, Order, OrderAnswer, Scheduler, SchedulerHandle};
use mailweir::store::{OperationQuery, OperationRecord, Store};
use mailweir::transport::simulated::SimulatedTransport;
use mailweir::transport::{Attempt, Transport, Verdict};
use mailweir::upstream::Upstream;
use mailweir::{Cost, Email, Lane, Outcome, Submission};
use tokio::task::JoinSet;

use crate::book::Book;
use crate::mortal::{Fabric, Life, MortalStore, MortalTransport, Plan, UnderWay};
use crate::scenarios::{Act, COOLDOWN, NEWS, New, Scenario};
use crate::shelf::Shelf;

/// An instant that looks like today.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_764_500_000_000_000);
/// When everything has to have ended.
const END: Duration = Duration::from_secs(6 * 3_600);
/// A caller whose call failed tries again after this.
const AGAIN: Duration = Duration::from_secs(1);
/// Who sends by itself waits this long for an answer, as the scheduler does.
const PATIENCE: Duration = Duration::from_secs(60);
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
    pub(crate) cancelled: Vec<Arc<str>>,
    /// Whose cancellation was to follow the end of the attempt, and when that was said.
    pub(crate) requested: BTreeMap<Arc<str>, Timestamp>,
    pub(crate) outcomes: BTreeMap<Arc<str>, Outcome>,
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) seed: u64,
    pub(crate) lives: usize,
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

fn submission(new: &New) -> Submission {
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
        for lives in 1..=LIVES_MAX {
            match self.life().await? {
                End::Done(rows) => return Ok(self.end(lives, rows)),
                End::Died => tokio::time::sleep(self.course.downtime).await,
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
        let inner = Arc::new(inner);
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
        let callers = self.callers(&scheduler.handle(), &life, &Arc::new(transport()));
        let end = tokio::select! {
            () = life.died() => Ok(End::Died),
            ended = self.settled(&*store.inner) => ended.map(End::Done),
        };
        drop((callers, scheduler));
        end
    }

    /// Those who have something left to do.
    fn callers(&self, handle: &SchedulerHandle, life: &Arc<Life>, transport: &Arc<MortalTransport>) -> JoinSet<()> {
        let mut callers = JoinSet::new();
        for (place, (at, act)) in self.acts.iter().enumerate() {
            if self.over.borrow()[place] {
                continue;
            }
            let (handle, life, transport) = (handle.clone(), Arc::clone(life), Arc::clone(transport));
            let caller = Caller { handle, life, transport, told: Rc::clone(&self.told) };
            let (over, act, wait) = (Rc::clone(&self.over), act.clone(), START.after(*at).since(self.clock.now()));
            callers.spawn_local(async move {
                tokio::time::sleep(wait).await;
                if caller.does(&act).await {
                    over.borrow_mut()[place] = true;
                }
            });
        }
        callers
    }

    /// Waits until all callers are through and every operation has come to an end.
    async fn settled(&self, store: &dyn Store) -> Result<Vec<OperationRecord>, String> {
        let is_final = |place: usize| OperationState::ALL[place].is_final();
        let everything = || store.operations(OperationQuery { limit: usize::MAX, ..OperationQuery::default() });
        while self.clock.now().since(START) < END {
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
        Err(format!("after {END:?} it has not come to its end: {live:?}; callers still at work: {acts:?}"))
    }

    fn end(&self, lives: usize, rows: Vec<OperationRecord>) -> Run {
        Run {
            seed: self.course.seed,
            lives,
            book: std::mem::take(&mut *self.fabric.book()),
            upstream: self.upstream.lock().expect("not poisoned").clone(),
            rows: rows.into_iter().map(|row| (Arc::clone(&row.id), row)).collect(),
            told: self.told.take(),
        }
    }
}

/// One part of the program that uses the scheduler. What it hears after the death of its process it has not heard.
struct Caller {
    handle: SchedulerHandle,
    life: Arc<Life>,
    /// For those who send by themselves.
    transport: Arc<MortalTransport>,
    told: Rc<RefCell<Told>>,
}

impl Caller {
    /// Does it until it is done; false when the process died meanwhile.
    async fn does(&self, act: &Act) -> bool {
        loop {
            let done = match act {
                Act::Submit(new) => self.submits(new).await,
                Act::SubmitMany(several) => {
                    let answers = self.handle.submit_many(several.iter().map(submission)).await;
                    let mut done = true;
                    for (answer, new) in answers.into_iter().zip(several) {
                        done &= self.is_taken(new, answer);
                    }
                    done
                }
                Act::Cancel(id) => self.cancels(id).await,
                Act::Hold(scope, lasts) => {
                    self.handle.hold(scope.clone(), Order::new("a test").expires_in(*lasts)).await.is_ok()
                }
                Act::Resume(scope) => self.handle.resume(scope.clone(), Order::new("done")).await.is_ok(),
                Act::ResumeFirst(scope, first, watch) => {
                    let order = Order::new("a test").watch(*watch);
                    let resumed = self.handle.resume_first(scope.clone(), *first, order).await;
                    matches!(resumed, Ok(_) | Err(AskError::NoHold { .. }))
                }
                Act::Permit(id) => self.sends(id).await,
            };
            if self.life.is_dead() || done {
                return !self.life.is_dead();
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Sends by itself what no operation is, under the limits that all of them share.
    async fn sends(&self, id: &Arc<str>) -> bool {
        let email = email(NEWS, id);
        let cost = Cost::email(1, email.mime().len() as u64);
        let Ok(permit) = self.handle.acquire(NEWS, cost, Lane::Background).await else { return false };
        let (operation_id, mailbox) = (Arc::clone(id), Arc::from(NEWS));
        let attempt = Attempt { operation_id, mailbox, lane: Lane::Background, number: 1, email, timeout: PATIENCE };
        match tokio::time::timeout(PATIENCE, self.transport.send(attempt)).await {
            Ok(answer) => permit.settle(answer),
            Err(_) => permit.settle(Verdict::Unknown),
        }
        true
    }

    async fn submits(&self, new: &New) -> bool {
        let answer = self.handle.submit(submission(new)).await;
        self.is_taken(new, answer)
    }

    fn is_taken(&self, new: &New, answer: Result<mailweir::Ticket, mailweir::SubmitError>) -> bool {
        if self.life.is_dead() {
            return false;
        }
        let ticket = match answer {
            Ok(ticket) => ticket,
            // Its deadline passed while the process was down: nobody will send it, and nobody has it.
            Err(error) => return matches!(error, mailweir::SubmitError::Invalid { .. }) && new.deadline.is_some(),
        };
        // Under an admission key it may be the operation of an earlier click.
        let id = ticket.operation_id();
        self.told.borrow_mut().taken_in.push(Arc::clone(&id));
        let (life, told) = (Arc::clone(&self.life), Rc::clone(&self.told));
        tokio::task::spawn_local(async move {
            if let Ok(outcome) = ticket.outcome().await
                && !life.is_dead()
            {
                told.borrow_mut().outcomes.insert(id, outcome);
            }
        });
        true
    }

    async fn cancels(&self, id: &Arc<str>) -> bool {
        let answer = self.handle.cancel(id, Order::new("a test")).await;
        if self.life.is_dead() {
            return false;
        }
        match answer {
            Ok(OrderAnswer::Done { .. }) => self.told.borrow_mut().cancelled.push(Arc::clone(id)),
            Ok(OrderAnswer::Requested { .. }) => {
                self.told.borrow_mut().requested.insert(Arc::clone(id), self.transport.clock.now());
            }
            _ => {}
        }
        answer.is_ok()
    }
}
