//! One happening after the other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::{Ended, Happening, World};
use crate::engine::mailbox::{Effect, Input, Outcome};
use crate::engine::operation::Transition;
use crate::engine::shared::{self, Asker, MailboxKey};
use crate::engine::{Answer, OperationKey, Sent, Throttle, Timestamp, Verdict};
use crate::upstream::{ArrivalRequest, Decision, Delivery, RetryAfter};

/// Work inside one instant.
enum Work {
    Mailbox(usize, Input),
    Shared(shared::Input),
}

impl World {
    /// Lets everything happen up to and including `until`.
    pub fn run_until(&mut self, until: Timestamp) {
        while let Some((&(at, _), _)) = self.agenda.first_key_value() {
            if at > until {
                break;
            }
            self.step();
        }
        self.now = self.now.max(until);
    }

    /// Lets everything happen until no operation is pending or `until` has come.
    pub fn run_to_end(&mut self, until: Timestamp) {
        while !self.traced.is_empty() {
            match self.agenda.first_key_value() {
                Some((&(at, _), _)) if at <= until => self.step(),
                _ => break,
            }
        }
    }

    /// Hands an input to one mailbox now.
    pub fn input(&mut self, mailbox: usize, input: Input) {
        self.work(Work::Mailbox(mailbox, input));
    }

    /// Hands an input to the shared scopes now.
    pub fn shared_input(&mut self, input: shared::Input) {
        self.work(Work::Shared(input));
    }

    fn step(&mut self) {
        let Some(((at, sequence), happening)) = self.agenda.pop_first() else { return };
        self.now = self.now.max(at);
        match happening {
            Happening::Submit(operation) => {
                let mailbox = self.traced.get(&operation.key).map_or(0, |traced| traced.mailbox);
                self.work(Work::Mailbox(mailbox, Input::Enqueue(operation)));
            }
            Happening::Wake(mailbox) => {
                if self.armed[mailbox].is_some_and(|armed| armed.1 == sequence) {
                    self.armed[mailbox] = None;
                    self.wakes += 1;
                    self.work(Work::Mailbox(mailbox, Input::Wake));
                }
            }
            Happening::WakeShared => {
                if self.armed_shared.is_some_and(|armed| armed.1 == sequence) {
                    self.armed_shared = None;
                    self.wakes += 1;
                    self.work(Work::Shared(shared::Input::Wake));
                }
            }
            Happening::Arrive { key, row } => self.arrive(key, row),
            Happening::Answer { key, row, answer } => self.answer(key, row, answer),
            Happening::TimeOut { key, row } => self.answer(key, row, Verdict::Unknown.into()),
        }
    }

    fn work(&mut self, first: Work) {
        let mut queue = VecDeque::from([first]);
        let shown = self.local(self.now);
        while let Some(work) = queue.pop_front() {
            match work {
                Work::Mailbox(number, input) => {
                    self.mailboxes[number].handle(shown, input);
                    for effect in self.drain(number) {
                        self.perform(number, effect, &mut queue);
                    }
                    self.arm(number);
                }
                Work::Shared(input) => {
                    let Some(shared) = &mut self.shared else { continue };
                    shared.handle(shown, input);
                    let effects: Vec<_> = std::iter::from_fn(|| shared.poll_effect()).collect();
                    for effect in effects {
                        self.perform_shared(effect, &mut queue);
                    }
                    self.arm_shared();
                }
            }
        }
    }

    fn perform(&mut self, number: usize, effect: Effect, queue: &mut VecDeque<Work>) {
        let mailbox = MailboxKey(u32::try_from(number).unwrap_or(u32::MAX));
        let asker = |key| Asker { mailbox, key };
        match effect {
            Effect::Reserve { key, lane, tenant, cost } => {
                queue.push_back(Work::Shared(shared::Input::Reserve { asker: asker(key), lane, tenant, cost }));
            }
            Effect::Return { key, .. } => {
                queue.push_back(Work::Shared(shared::Input::Return { asker: asker(key) }));
            }
            Effect::Settle { key, tenant, sent_at, answer } => {
                let settle = shared::Input::Settle { asker: asker(key), tenant, sent_at, answer };
                queue.push_back(Work::Shared(settle));
            }
            Effect::Claim { key, .. } => {
                self.histories.entry(key).or_default().push(Transition::Claim);
                queue.push_back(Work::Mailbox(number, Input::Claimed { key }));
            }
            Effect::Record(record) => self.histories.entry(record.key).or_default().push(record.transition),
            Effect::Send { key, attempt, deadline } => self.send(key, attempt, deadline),
            Effect::Outcome { key, outcome } => self.end(key, outcome),
            Effect::Event(event) => self.keep(event),
            Effect::Reconcile { .. } | Effect::Grant { .. } | Effect::Remember(_) => {}
        }
    }

    fn perform_shared(&mut self, effect: shared::Effect, queue: &mut VecDeque<Work>) {
        let number = |asker: Asker| asker.mailbox.0 as usize;
        match effect {
            shared::Effect::Grant(asker) => {
                queue.push_back(Work::Mailbox(number(asker), Input::Granted { key: asker.key }));
            }
            shared::Effect::Wait { asker, until, constraint } => {
                let waiting = Input::Waiting { key: asker.key, until, constraint };
                queue.push_back(Work::Mailbox(number(asker), waiting));
            }
            shared::Effect::Announce(ask) => {
                for mailbox in 0..self.mailboxes.len() {
                    queue.push_back(Work::Mailbox(mailbox, Input::AskShared(ask)));
                }
            }
            shared::Effect::Event(event) => self.keep(event),
            shared::Effect::Remember { .. } => {}
        }
    }

    fn arm(&mut self, number: usize) {
        let wanted = self.mailboxes[number].poll_deadline().map(|at| self.true_instant(at).max(self.now));
        if self.armed[number].map(|armed| armed.0) == wanted {
            return;
        }
        if let Some(armed) = self.armed[number].take() {
            self.agenda.remove(&armed);
        }
        self.armed[number] = wanted.map(|at| self.put(at, Happening::Wake(number)));
    }

    fn arm_shared(&mut self) {
        let deadline = self.shared.as_ref().and_then(shared::Shared::poll_deadline);
        let wanted = deadline.map(|at| self.true_instant(at).max(self.now));
        if self.armed_shared.map(|armed| armed.0) == wanted {
            return;
        }
        if let Some(armed) = self.armed_shared.take() {
            self.agenda.remove(&armed);
        }
        self.armed_shared = wanted.map(|at| self.put(at, Happening::WakeShared));
    }

    fn send(&mut self, key: OperationKey, row: u32, deadline: Timestamp) {
        let plan = self.upstream.plan_latency();
        let Some(traced) = self.traced.get_mut(&key) else { return };
        (traced.row, traced.live, traced.down) = (row, true, plan.down);
        let (mailbox, lane) = (traced.mailbox, traced.lane);
        *self.sends.entry(key).or_default() += 1;
        if row == 1 {
            self.order.push((mailbox, lane, key));
        }
        let arrival = self.now.after(plan.up);
        self.put(arrival, Happening::Arrive { key, row });
        let time_out = self.true_instant(deadline);
        self.put(time_out, Happening::TimeOut { key, row });
    }

    fn arrive(&mut self, key: OperationKey, row: u32) {
        let plan = self.upstream.plan_latency();
        let Some(traced) = self.traced.get(&key) else { return };
        let request = ArrivalRequest {
            mailbox: Arc::clone(&self.names[traced.mailbox]),
            tenant: traced.tenant.clone(),
            cost: traced.cost,
            key: Arc::from(key.0.to_string()),
            lane: Some(traced.lane),
        };
        let down = traced.down;
        let decision = self.upstream.arrive(self.now, &request);
        let answered_at = self.now.after(decision.service_or(plan.service));
        self.upstream.complete(answered_at, decision.handle);
        let heard = matches!(decision.delivery, Delivery::Once | Delivery::Twice);
        let answer = match decision.delivery {
            Delivery::Lost => return,
            Delivery::Cut => Verdict::Unknown.into(),
            _ => judge(&decision, answered_at),
        };
        let at = answered_at.after(if heard { down } else { Duration::ZERO });
        self.put(at, Happening::Answer { key, row, answer });
    }

    fn answer(&mut self, key: OperationKey, row: u32, answer: Answer) {
        let Some(traced) = self.traced.get_mut(&key) else { return };
        if traced.row != row || !std::mem::replace(&mut traced.live, false) {
            return;
        }
        let mailbox = traced.mailbox;
        self.work(Work::Mailbox(mailbox, Input::Finished { key, answer }));
    }

    fn end(&mut self, key: OperationKey, outcome: Outcome) {
        let Some(traced) = self.traced.remove(&key) else { return };
        self.ended.push(Ended {
            key,
            mailbox: traced.mailbox,
            lane: traced.lane,
            submitted_at: traced.submitted_at,
            ended_at: self.now,
            outcome,
        });
    }
}

/// What a parser makes of the upstream's answer.
fn judge(decision: &Decision, now: Timestamp) -> Answer {
    let verdict = match decision.status {
        Some(202) => Verdict::Accepted,
        Some(429) => {
            let refusal = decision.refusal;
            Verdict::Throttled(Throttle {
                retry_after: decision.retry_after.as_ref().and_then(|value| wait(value, now)),
                scope: refusal.map(|refusal| refusal.scope),
                kind: refusal.map_or(crate::engine::ThrottleKind::Rate, |refusal| refusal.kind),
            })
        }
        Some(503) => Verdict::Transient { sent: Sent::Maybe, retry_after: None },
        _ => Verdict::Unknown,
    };
    Answer { verdict, usage: decision.usage, status: decision.status, provider_id: None }
}

fn wait(value: &RetryAfter, now: Timestamp) -> Option<Duration> {
    match value {
        RetryAfter::Seconds(seconds) => Some(Duration::from_secs(*seconds)),
        RetryAfter::Date(at) => Some(at.since(now)),
        RetryAfter::Text(_) => None,
    }
}
