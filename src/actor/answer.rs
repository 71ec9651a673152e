//! What people and programs ask, answered from the engine.

use tokio::sync::oneshot::Sender;

use super::entrance::TurnedAway;
use super::journal::Newcomer;
use super::mailbox::{Drain, MailboxActor, Mode};
use super::news::News;
use super::question::{Drained, Explained, Question};
use crate::engine::mailbox::{Hold, HoldTarget, Input};
use crate::engine::{Timestamp, Verdict};

impl MailboxActor {
    pub(super) fn on_question(&mut self, question: Question) {
        match question {
            // Without an engine there is no answer: dropping the sender says so.
            Question::Explain { key, answer } => {
                if let Some(engine) = &self.engine {
                    let constraints = engine.explain(self.now, key);
                    let asks_shared = key.is_none_or(|key| engine.asks_shared(key));
                    drop(answer.send(Explained { constraints, asks_shared }));
                }
            }
            Question::Facts { answer } | Question::Survey { answer } => {
                if let Some(engine) = &self.engine {
                    drop(answer.send(engine.facts(self.now)));
                }
            }
            Question::Snapshot { answer } => {
                if let Some(engine) = &self.engine {
                    drop(answer.send(Box::new(engine.snapshot(self.now))));
                }
            }
            Question::Order(order) if self.mode == Mode::Remote => self.order_remote(*order),
            Question::Order(order) => self.on_order(*order),
            Question::Subscribe { record, answer } if self.mode == Mode::Remote => {
                drop(answer.send(self.remote_ticket(&record)));
            }
            Question::Subscribe { record, answer } => drop(answer.send(self.ticket_of(&record))),
            Question::Command { input, answer } if self.mode == Mode::Remote => self.command_remote(input, answer),
            Question::Command { input: Input::CloseBreaker, answer } => self.close(answer),
            Question::Command { input, answer } => {
                if self.command(input) {
                    let _ = answer.send(());
                }
            }
            Question::Drain { answer } => self.begin_drain(answer),
            Question::Remaining { answer } => self.give_up_drain(answer),
            #[cfg(feature = "test-util")]
            Question::Panic { answer } => {
                self.sabotaged += 1;
                let _ = answer.send(());
            }
            #[cfg(feature = "test-util")]
            Question::Poison { id, answer } => {
                self.poison = Some(id);
                let _ = answer.send(());
            }
            #[cfg(feature = "test-util")]
            Question::Die { answer } => {
                let _ = answer.send(());
                panic!("a test asked for this actor's end");
            }
        }
    }

    /// Closes the breaker and answers when it is written that it is closed. Where nothing can be told or written nothing is
    /// done, and the answer is dropped.
    fn close(&mut self, answer: Sender<()>) {
        if !self.journal.is_failing() && self.command(Input::CloseBreaker) {
            self.journal.tell_when_written(News::Obeyed(answer));
        }
    }

    /// False when there is no engine to obey, or none any more, and the next one will not have heard of it.
    fn command(&mut self, input: Input) -> bool {
        // A rebuilt engine starts from the policy and the operators' holds that are in force then.
        let lasts = match &input {
            Input::Reconfigure(_) | Input::Unsuspend => true,
            Input::Hold(hold) => is_noted(&hold.target),
            Input::Resume(target) => is_noted(target),
            _ => false,
        };
        match (&input, self.mode) {
            (Input::Resume(HoldTarget::Mailbox), Mode::Held) => {
                self.restarts.forgive();
                self.journal.retry_now();
                self.recover();
            }
            (Input::Reconfigure(policy), _) => {
                self.policy = std::sync::Arc::clone(policy);
                self.step(input);
            }
            _ => self.step(input),
        }
        lasts || self.engine.is_some()
    }

    /// Starts nothing more: what waits goes back, what is in flight ends.
    fn begin_drain(&mut self, answer: Sender<Drained>) {
        let begin =
            || Drain { answers: Vec::new(), last_words: Vec::new(), so_far: Drained::default(), unknown: Vec::new() };
        let drain = self.drain.get_or_insert_with(begin);
        drain.answers.push(answer);
        let (admits, questions) = self.seat.ingress().close();
        for admit in admits {
            self.hand_back(admit);
        }
        for question in questions {
            self.on_question(question);
        }
        for newcomer in self.journal.drain_inserts() {
            self.handed_back += self.turn_away(newcomer, TurnedAway::ShuttingDown);
        }
        self.step(Input::Hold(Hold::new(HoldTarget::Mailbox, Timestamp::NEVER)));
        for key in self.desk.waiting_permits() {
            self.step(Input::Cancel { key });
        }
    }

    /// Hands a submission back that was not stored, with those that repeat it; says how many.
    pub(super) fn turn_away(&mut self, newcomer: Newcomer, why: TurnedAway) -> u64 {
        let repeats = self.admissions.failed(newcomer.operation.key);
        let count = 1 + repeats.len() as u64;
        newcomer.handed.turn_away(why);
        repeats.into_iter().for_each(|repeat| repeat.turn_away(why));
        count
    }

    /// Ends the drain when nothing is in flight any more.
    pub(super) fn end_drain(&mut self) {
        let written = self.journal.is_settled() || self.journal.is_failing();
        if let Some(drain) = self.drain.as_mut().filter(|_| written) {
            for (answer, drained) in drain.last_words.drain(..) {
                let _ = answer.send(drained);
            }
        }
        let settled = self.desk.airborne() == 0 && written;
        let settled = settled && (self.own.late.is_empty() || self.own.lease.is_none());
        if self.drain.is_none() || !settled {
            return;
        }
        if self.journal.is_settled()
            && let (Some(fleet), Some(lease)) = (&self.world.fleet, &self.own.lease)
        {
            fleet.is_drained(lease);
        }
        let returned = self.handed_back + self.waiting_at_drain();
        if let Some(drain) = &mut self.drain {
            let drained = Drained { returned, ..drain.so_far };
            for answer in drain.answers.drain(..) {
                let _ = answer.send(drained);
            }
        }
    }

    /// The drain has run out of time. What is still out may have been sent; that is written before the process ends, so that
    /// the next one does not think that this one died of it.
    fn give_up_drain(&mut self, answer: Sender<Drained>) {
        let drained = self.remaining();
        if self.engine.is_some() {
            for (key, attempt) in self.desk.out() {
                self.on_finished(key, attempt, Verdict::Unknown.into());
            }
        }
        match &mut self.drain {
            Some(drain) => drain.last_words.push((answer, drained)),
            None => drop(answer.send(drained)),
        }
    }

    /// Operations at the desk, without those that the drain has counted as unknown.
    pub(super) fn waiting_at_drain(&self) -> u64 {
        let Some(drain) = &self.drain else { return 0 };
        let unknown = drain.unknown.iter().filter(|key| self.desk.get(**key).is_some()).count() as u64;
        self.desk.operations().saturating_sub(unknown)
    }

    /// What a drain that ran out of time leaves behind.
    fn remaining(&self) -> Drained {
        let so_far = self.drain.as_ref().map(|drain| drain.so_far).unwrap_or_default();
        let airborne = self.desk.airborne();
        let returned = self.handed_back + self.waiting_at_drain().saturating_sub(airborne);
        Drained { accepted: so_far.accepted, returned, unknown: so_far.unknown + airborne }
    }
}

/// Whether a hold of this target is told to every engine of the mailbox from the start.
const fn is_noted(target: &HoldTarget) -> bool {
    !matches!(target, HoldTarget::Operation(_))
}
