//! One part of the program that uses the scheduler, or a person. What it hears after the death of its process it has not
//! heard.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mailweir::clock::Clock;
use mailweir::engine::{OperationState, Resolution, Timestamp};
use mailweir::scheduler::{AskError, Order, OrderAnswer, SchedulerHandle};
use mailweir::store::{OperationQuery, OperationRecord};
use mailweir::transport::{Attempt, Transport, Verdict};
use mailweir::upstream::{Upstream, check};
use mailweir::{Cost, Lane, SubmitError, Ticket};

use crate::acts::{Act, NEWS, New};
use crate::mortal::{Life, MortalTransport};
use crate::orders::{MORE_TIME, Said, Verb, WHO, Word};
use crate::world::{START, Told, email, submission};

/// A caller whose call failed tries again after this.
const AGAIN: Duration = Duration::from_secs(1);
/// Who sends by itself waits this long for an answer, as the scheduler does.
const PATIENCE: Duration = Duration::from_secs(60);
/// Who waits for an attempt looks this often.
const LOOK: Duration = Duration::from_millis(100);
/// From one round to the next.
const ROUND: Duration = Duration::from_secs(40);
/// What was not submitted by then, from the start, will not be: its deadline passed while the process was down.
const TOO_LATE: Duration = Duration::from_secs(1_200);
/// Whoever says that an email did not arrive has waited until it cannot be on its way any more.
const SURELY_LOST: Duration = Duration::from_secs(66);

#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) handle: SchedulerHandle,
    pub(crate) life: Arc<Life>,
    /// For those who send by themselves.
    pub(crate) transport: Arc<MortalTransport>,
    pub(crate) upstream: Arc<Mutex<Upstream>>,
    pub(crate) told: Rc<RefCell<Told>>,
    /// Which acts are over.
    pub(crate) over: Rc<RefCell<Vec<bool>>>,
}

impl Caller {
    /// Does it until it is done; false when the process died meanwhile.
    pub(crate) async fn does(&self, act: &Act) -> bool {
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
                Act::Permit(id) => self.sends(id).await,
                Act::Order(word) => self.orders(word).await,
                Act::Midway(word) => self.waits_for_an_attempt(word).await,
                Act::Rounds => self.makes_rounds().await,
            };
            if self.life.is_dead() || done {
                return !self.life.is_dead();
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    fn now(&self) -> Timestamp {
        self.transport.clock.now()
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

    fn is_taken(&self, new: &New, answer: Result<Ticket, SubmitError>) -> bool {
        if self.life.is_dead() {
            return false;
        }
        let ticket = match answer {
            Ok(ticket) => ticket,
            // Its deadline passed while the process was down: nobody will send it, and nobody has it.
            Err(error) => return matches!(error, SubmitError::Invalid { .. }) && new.deadline.is_some(),
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

    async fn orders(&self, word: &Word) -> bool {
        let begun = self.now();
        let number = self.told.borrow_mut().orders.begin(word.clone(), begun);
        let order = Order::new(format!("order {number}")).by(WHO);
        let said = match word {
            Word::Hold(scope, lasts) => {
                self.handle.hold(scope.clone(), order.expires_in(*lasts)).await.map(|_| Said::Done)
            }
            Word::Resume(scope) => self.handle.resume(scope.clone(), order).await.map(|()| Said::Done),
            Word::ResumeFirst(scope, first, watch) => {
                let resumed = self.handle.resume_first(scope.clone(), *first, order.watch(*watch)).await;
                resumed.map(|_| Said::Done)
            }
            Word::Trip(scope, lasts) => {
                self.handle.trip(scope.clone(), order.expires_in(*lasts)).await.map(|_| Said::Done)
            }
            Word::Close(scope) => self.handle.close(scope.clone(), order).await.map(|()| Said::Done),
            Word::About(id, verb) => self.orders_about(id, *verb, order).await.map(Said::Answer),
        };
        if self.life.is_dead() {
            return false;
        }
        match said {
            Ok(said) => {
                self.told.borrow_mut().orders.acknowledge(number, self.now(), said);
                true
            }
            Err(AskError::NoHold { .. }) => true,
            Err(error) => self.is_too_late() && matches!(error, AskError::NoOperation { .. }),
        }
    }

    async fn orders_about(&self, id: &Arc<str>, verb: Verb, order: Order) -> Result<OrderAnswer, AskError> {
        match verb {
            Verb::Cancel => self.handle.cancel(id, order).await,
            Verb::Quarantine => self.handle.quarantine(id, order).await,
            Verb::Release => self.handle.release(id, order.deadline(MORE_TIME)).await,
            Verb::Resolve(resolution) => self.handle.resolve(id, resolution, order).await,
        }
    }

    fn is_too_late(&self) -> bool {
        self.now().since(START) > TOO_LATE
    }

    async fn waits_for_an_attempt(&self, word: &Word) -> bool {
        let Word::About(id, _) = word else { return true };
        loop {
            if self.life.is_dead() {
                return false;
            }
            let state = self.transport.fabric.book().state_in_flight(id);
            match state {
                Some((OperationState::Attempting, true)) => return self.orders(word).await,
                Some((state, _)) if state.is_final() => return true,
                None if self.is_too_late() => return true,
                _ => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Sees to what waits for a person, until nothing does and nothing comes any more.
    async fn makes_rounds(&self) -> bool {
        loop {
            tokio::time::sleep(ROUND).await;
            let everything = OperationQuery { limit: usize::MAX, ..OperationQuery::default() };
            let Ok(rows) = self.handle.operations(everything).await else { continue };
            if self.life.is_dead() {
                return false;
            }
            let is_over = |row: &OperationRecord| row.state.is_final() && row.state != OperationState::Quarantined;
            if rows.iter().all(is_over) && self.over.borrow().iter().filter(|over| !**over).count() == 1 {
                return true;
            }
            for row in &rows {
                if let Some(verb) = self.sees_to(row) {
                    self.orders(&Word::About(Arc::clone(&row.id), verb)).await;
                }
                if self.life.is_dead() {
                    return false;
                }
            }
        }
    }

    /// What a careful person says of it, and now and then a careless one.
    fn sees_to(&self, row: &OperationRecord) -> Option<Verb> {
        let is_taken = || {
            let upstream = self.upstream.lock().expect("not poisoned");
            check::executions(upstream.log().client()).contains_key(&row.id)
        };
        let waited = self.now().since(row.changed_at) > SURELY_LOST;
        match row.state {
            OperationState::Unknown if !waited => None,
            OperationState::Unknown if is_taken() => Some(Verb::Resolve(Resolution::Accepted)),
            OperationState::Unknown => Some(Verb::Resolve(Resolution::Absent)),
            // One in three is released unseen.
            OperationState::Quarantined if row.key.0.is_multiple_of(3) => Some(Verb::Release),
            OperationState::Quarantined if !waited => None,
            OperationState::Quarantined if is_taken() => Some(Verb::Cancel),
            OperationState::Quarantined => Some(Verb::Release),
            _ => None,
        }
    }
}
