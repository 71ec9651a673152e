//! What people and programs ask, answered from the engine.

use super::desk::Who;
use super::entrance::TurnedAway;
use super::mailbox::{Drain, MailboxActor, Mode};
use super::question::{Cancellation, Drained, Question};
use crate::engine::mailbox::{Hold, HoldTarget, Input};
use crate::engine::{OperationKey, Timestamp};

impl MailboxActor {
    pub(super) fn on_question(&mut self, question: Question) {
        match question {
            Question::Explain { key, answer } => {
                // Without an engine there is no answer: dropping the sender says so.
                if let Some(engine) = &self.engine {
                    drop(answer.send(engine.explain(self.now, key)));
                }
            }
            Question::Facts { answer } => {
                if let Some(engine) = &self.engine {
                    drop(answer.send(engine.facts(self.now)));
                }
            }
            Question::Cancel { key, answer } => drop(answer.send(self.cancel(key))),
            Question::Subscribe { record, answer } => drop(answer.send(self.ticket_of(&record))),
            Question::Command { input, answer } => {
                self.command(input);
                let _ = answer.send(());
            }
            Question::Drain { answer } => self.begin_drain(answer),
            Question::Remaining { answer } => drop(answer.send(self.remaining())),
            #[cfg(feature = "test-util")]
            Question::Panic { answer } => {
                self.sabotaged = true;
                let _ = answer.send(());
            }
        }
    }

    fn cancel(&mut self, key: OperationKey) -> Cancellation {
        if self.desk.get(key).is_none() {
            return Cancellation::TooLate;
        }
        self.step(Input::Cancel { key });
        if self.desk.get(key).is_some() { Cancellation::Requested } else { Cancellation::Cancelled }
    }

    fn command(&mut self, input: Input) {
        match (&input, self.mode) {
            (Input::Resume(HoldTarget::Mailbox), Mode::Held) => {
                self.restarts.forgive();
                self.recover();
            }
            (Input::Reconfigure(policy), _) => {
                self.policy = std::sync::Arc::clone(policy);
                self.step(input);
            }
            _ => self.step(input),
        }
    }

    /// Starts nothing more: what waits goes back, what is in flight ends.
    fn begin_drain(&mut self, answer: tokio::sync::oneshot::Sender<Drained>) {
        let begin = || Drain { answers: Vec::new(), so_far: Drained::default(), unknown: Vec::new() };
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
            for repeat in self.admissions.failed(newcomer.operation.key) {
                self.handed_back += 1;
                repeat.turn_away(TurnedAway::ShuttingDown);
            }
            self.handed_back += 1;
            newcomer.handed.turn_away(TurnedAway::ShuttingDown);
        }
        self.step(Input::Hold(Hold { target: HoldTarget::Mailbox, until: Timestamp::NEVER }));
        for key in self.desk.waiting_permits() {
            self.step(Input::Cancel { key });
        }
    }

    /// What a drain that ran out of time leaves behind.
    fn remaining(&self) -> Drained {
        let so_far = self.drain.as_ref().map(|drain| drain.so_far).unwrap_or_default();
        let airborne = self.desk.airborne();
        let returned = self.handed_back + self.waiting_at_drain().saturating_sub(airborne);
        Drained { accepted: so_far.accepted, returned, unknown: so_far.unknown + airborne }
    }
}

impl Who {
    /// Whether this is a request for a permit that was not granted.
    pub(super) const fn is_waiting_permit(&self) -> bool {
        matches!(self, Self::Permit(Some(_)))
    }
}
