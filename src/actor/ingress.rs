//! What waits for one mailbox's actor: four bounded queues, so that no lane and no question can block another.
//!
//! Submissions of each lane and questions have a bound and are refused above it, with what was handed over. Answers
//! (ended attempts, durable writes, grants) have none of their own: there are never more of them than permits in
//! flight. The actor takes a bounded amount per turn from each, so a flood in one lane costs the other nothing.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::bell::{Bell, Rung};
use super::entrance::Admit;
use super::question::Question;
use super::reply::Reply;

/// Most questions that wait for one actor. Above it, asking is refused.
pub(crate) const QUESTIONS_MAX: usize = 1_024;
/// Room beyond that for operators' orders, which are given one at a time: questions keep none of them out.
const ORDERS_MAX: usize = 64;
/// Taken from each queue per turn: long enough to share a commit, short enough that a neighbour waits a millisecond.
const TURN_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct Ingress {
    queues: Mutex<Queues>,
    bell: Bell,
    lane_max: usize,
}

#[derive(Debug, Default)]
struct Queues {
    lanes: [VecDeque<Admit>; 2],
    questions: VecDeque<Question>,
    answers: VecDeque<Reply>,
    state: State,
    actor: Presence,
}

/// Whether somebody looks at answers. An actor that takes nothing new in still waits for those.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Presence {
    /// The actor, now or when it is started.
    #[default]
    There,
    /// Nobody, and nobody will.
    Gone,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Takes things in.
    #[default]
    Open,
    /// Takes things in; its actor has nothing to do and may be passivated.
    Idle,
    /// The actor is leaving, and a new seat must be taken for the same mailbox.
    Retired,
    /// The scheduler is stopping.
    Closed,
    /// The actor has died, and a new seat must be taken for the same mailbox.
    Dead,
}

/// Why something was not taken in. Carries it back.
#[derive(Debug)]
pub(crate) enum NotTaken<T> {
    /// The queue is full.
    Full(T),
    /// The actor is leaving or has died: look the mailbox up again.
    Retired(T),
    /// The scheduler is stopping.
    Closed(T),
}

/// What one turn works on. Kept by the actor, so that its buffers are reused.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    pub(crate) answers: Vec<Reply>,
    pub(crate) questions: Vec<Question>,
    pub(crate) admits: Vec<Admit>,
}

/// Which queues a turn looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Appetite {
    /// All of them.
    All,
    /// Answers alone: nothing is known of the mailbox yet, nor whose it is.
    Answers,
    /// Those, and questions that do not wait until the mailbox is read: whoever asks every mailbox must not wait for one.
    Pressing,
    /// Nothing new: the engine is being rebuilt. Questions are looked at, if only to say so: whoever asks every
    /// mailbox must not wait for the store of one.
    NothingNew,
}

/// Whether a turn left something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing.
    None,
    /// Come back soon.
    More,
}

impl Ingress {
    pub(crate) fn new(lane_max: usize) -> Self {
        Self { queues: Mutex::default(), bell: Bell::default(), lane_max }
    }

    pub(crate) const fn bell(&self) -> &Bell {
        &self.bell
    }

    /// The most submissions that wait in one lane.
    pub(crate) const fn lane_max(&self) -> usize {
        self.lane_max
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        // Nothing panics between two changes of a queue, so a poisoned lock is still good.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts one submission or permit request into its lane.
    pub(crate) fn admit(&self, admit: Admit) -> Result<Rung, NotTaken<Admit>> {
        let mut queues = self.queues();
        match queues.state {
            State::Retired | State::Dead => return Err(NotTaken::Retired(admit)),
            State::Closed => return Err(NotTaken::Closed(admit)),
            State::Open | State::Idle => {}
        }
        let lane = &mut queues.lanes[admit.lane().index()];
        if lane.len() >= self.lane_max {
            return Err(NotTaken::Full(admit));
        }
        lane.push_back(admit);
        queues.state = State::Open;
        drop(queues);
        Ok(self.bell.ring())
    }

    /// Puts several in, in order, and leaves in `batch` those that did not fit.
    pub(crate) fn admit_many(&self, batch: &mut VecDeque<Admit>) -> Result<Rung, NotTaken<()>> {
        let mut queues = self.queues();
        match queues.state {
            State::Retired | State::Dead => return Err(NotTaken::Retired(())),
            State::Closed => return Err(NotTaken::Closed(())),
            State::Open | State::Idle => {}
        }
        let mut left = VecDeque::new();
        for admit in batch.drain(..) {
            let lane = &mut queues.lanes[admit.lane().index()];
            if lane.len() < self.lane_max { lane.push_back(admit) } else { left.push_back(admit) }
        }
        *batch = left;
        queues.state = State::Open;
        drop(queues);
        Ok(self.bell.ring())
    }

    /// Puts a question in.
    pub(crate) fn ask(&self, question: Question) -> Result<Rung, NotTaken<Question>> {
        let mut queues = self.queues();
        match queues.state {
            State::Retired | State::Dead => return Err(NotTaken::Retired(question)),
            State::Closed => return Err(NotTaken::Closed(question)),
            State::Open | State::Idle => {}
        }
        let orders = if matches!(question, Question::Command { .. }) { ORDERS_MAX } else { 0 };
        if queues.questions.len() >= QUESTIONS_MAX + orders {
            return Err(NotTaken::Full(question));
        }
        queues.questions.push_back(question);
        queues.state = State::Open;
        drop(queues);
        Ok(self.bell.ring())
    }

    /// Puts an order of the scheduler itself in, which is stopping: no bound keeps it out, only that nobody is there.
    pub(crate) fn order(&self, order: Question) -> Result<Rung, NotTaken<Question>> {
        let mut queues = self.queues();
        if matches!(queues.state, State::Retired | State::Dead) || queues.actor == Presence::Gone {
            return Err(NotTaken::Retired(order));
        }
        queues.questions.push_back(order);
        drop(queues);
        Ok(self.bell.ring())
    }

    /// Puts an answer in. Never refused: what was started has to end, even while the scheduler stops. When the actor is
    /// gone it is dropped, and with it whoever waits for what it brings.
    pub(crate) fn reply(&self, reply: Reply) -> Rung {
        let mut queues = self.queues();
        if queues.actor == Presence::Gone {
            drop(queues);
            drop(reply);
        } else {
            queues.answers.push_back(reply);
            drop(queues);
        }
        self.bell.ring()
    }

    /// Takes the next turn's work.
    pub(crate) fn take(&self, turn: &mut Turn, appetite: Appetite) -> Rest {
        self.bell.answer();
        let mut queues = self.queues();
        let mut rest = take(&mut queues.answers, &mut turn.answers);
        match appetite {
            Appetite::Answers => {}
            Appetite::Pressing => take_pressing(&mut queues.questions, &mut turn.questions),
            Appetite::NothingNew | Appetite::All => rest |= take(&mut queues.questions, &mut turn.questions),
        }
        if appetite == Appetite::All {
            for lane in &mut queues.lanes {
                rest |= take(lane, &mut turn.admits);
            }
        }
        if rest { Rest::More } else { Rest::None }
    }

    /// Says that the actor has nothing to do; false when something has come in meanwhile.
    pub(crate) fn set_idle(&self) -> bool {
        let mut queues = self.queues();
        let idle = queues.is_empty() && matches!(queues.state, State::Open | State::Idle);
        if idle {
            queues.state = State::Idle;
        }
        idle
    }

    /// Gives back room that nothing needs.
    pub(crate) fn shrink(&self) {
        let mut queues = self.queues();
        queues.lanes.iter_mut().for_each(VecDeque::shrink_to_fit);
        queues.questions.shrink_to_fit();
        queues.answers.shrink_to_fit();
    }

    /// Whether the actor said that it has nothing to do, and nothing has come in since.
    pub(crate) fn is_idle(&self) -> bool {
        self.queues().state == State::Idle
    }

    /// Retires the seat if its actor is idle. From then on the mailbox needs a new one.
    pub(crate) fn retire_if_idle(&self) -> bool {
        let mut queues = self.queues();
        let retired = queues.state == State::Idle && queues.is_empty();
        if retired {
            queues.state = State::Retired;
        }
        retired
    }

    /// Whether the seat was retired.
    pub(crate) fn is_retired(&self) -> bool {
        self.queues().state == State::Retired
    }

    /// Takes nothing more in, and returns what was not looked at yet: submissions first, then questions.
    pub(crate) fn close(&self) -> (Vec<Admit>, Vec<Question>) {
        let mut queues = self.queues();
        if matches!(queues.state, State::Open | State::Idle) {
            queues.state = State::Closed;
        }
        queues.empty()
    }

    /// The actor is gone: nobody looks at answers any more. Returns those that it has not looked at, to be dropped.
    pub(crate) fn end_answers(&self) -> VecDeque<Reply> {
        let mut queues = self.queues();
        queues.actor = Presence::Gone;
        std::mem::take(&mut queues.answers)
    }

    /// The actor is gone: as [`Ingress::close`], and where it was not expected to go, its mailbox needs a new seat.
    pub(crate) fn abandon(&self) -> (Vec<Admit>, Vec<Question>) {
        let mut queues = self.queues();
        if matches!(queues.state, State::Open | State::Idle) {
            queues.state = State::Dead;
        }
        queues.empty()
    }
}

impl Queues {
    fn empty(&mut self) -> (Vec<Admit>, Vec<Question>) {
        let admits = self.lanes.iter_mut().flat_map(std::mem::take).collect();
        (admits, std::mem::take(&mut self.questions).into())
    }

    fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.questions.is_empty() && self.lanes.iter().all(VecDeque::is_empty)
    }
}

/// Moves questions that do not wait; the others stay in order.
fn take_pressing(from: &mut VecDeque<Question>, into: &mut Vec<Question>) {
    if from.iter().any(Question::is_pressing) {
        let (pressing, others): (Vec<_>, Vec<_>) = std::mem::take(from).into_iter().partition(Question::is_pressing);
        into.extend(pressing);
        *from = others.into();
    }
}

/// Moves up to [`TURN_MAX`] items; true when some are left.
fn take<T>(from: &mut VecDeque<T>, into: &mut Vec<T>) -> bool {
    let count = from.len().min(TURN_MAX);
    into.extend(from.drain(..count));
    !from.is_empty()
}
