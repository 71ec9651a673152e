//! One happening after the other.

use std::sync::Arc;
use std::time::Duration;

use super::agenda::{Happening, Place};
use super::cost::{Comes, Write};
use super::{Ended, LookUps, World};
use crate::engine::mailbox::{Effect, Input, Outcome};
use crate::engine::operation::Transition;
use crate::engine::shared::{self, Asker, MailboxKey};
use crate::engine::{Answer, OperationKey, Scope, Sent, Throttle, Timestamp, Verdict};
use crate::upstream::{ArrivalRequest, Decision, Delivery, RetryAfter};

/// How long the provider takes to say what became of an unknown.
const LOOK_UP_TAKES: Duration = Duration::from_millis(300);

/// Most inputs that follow from one happening within its instant, per operation and engine that is there: over ten
/// times what random worlds with tight limits have come to (`tests/shared_scopes.rs`).
const WORK_EACH_MAX: usize = 16;

/// Work inside one instant.
#[derive(Clone, Debug)]
pub(super) enum Work {
    Mailbox(usize, Input),
    Shared(shared::Input),
}

impl World {
    /// Lets everything happen up to and including `until`.
    pub fn run_until(&mut self, until: Timestamp) {
        while self.agenda.next_instant().is_some_and(|at| at <= until) {
            self.step();
        }
        self.now = self.now.max(until);
    }

    /// Lets everything happen until no operation is pending or `until` has come.
    pub fn run_to_end(&mut self, until: Timestamp) {
        while self.pending > 0 && self.agenda.next_instant().is_some_and(|at| at <= until) {
            self.step();
        }
    }

    /// Hands an input to one mailbox now.
    pub fn input(&mut self, mailbox: usize, input: Input) {
        self.run(Work::Mailbox(mailbox, input));
    }

    /// Hands an input to the shared scopes now.
    pub fn shared_input(&mut self, input: shared::Input) {
        self.run(Work::Shared(input));
    }

    fn step(&mut self) {
        let Some((place, happening)) = self.agenda.pop() else { return };
        self.now = self.now.max(place.0);
        if !self.put_off(place, happening) {
            self.happen(place, happening);
        }
    }

    pub(super) fn happen(&mut self, place: Place, happening: Happening) {
        match happening {
            Happening::Submit(key) => self.submitted(key),
            Happening::Wake(mailbox) => {
                // A timer that was moved meanwhile is no longer the one that is armed.
                if self.armed[mailbox] == Some(place) {
                    self.armed[mailbox] = None;
                    self.woken();
                    self.run(Work::Mailbox(mailbox, Input::Wake));
                }
            }
            Happening::WakeShared => {
                if self.armed_shared == Some(place) {
                    self.armed_shared = None;
                    self.woken();
                    self.run(Work::Shared(shared::Input::Wake));
                }
            }
            Happening::Arrive { key, row } => self.arrive(key, row),
            Happening::Answer { key, row } => {
                let answer = self.get_mut(key).filter(|traced| traced.row == row).and_then(|it| it.answer.take());
                if let Some(answer) = answer {
                    self.answer_as_delivered(key, row, answer);
                }
            }
            Happening::TimeOut { key, row } => self.answer(key, row, Verdict::Unknown.into()),
            Happening::LookedUp(key) => self.looked_up(key),
            Happening::Change(number) => self.change(number),
            Happening::Burn(number) => {
                if let Some((mailbox, tenant, cost)) = self.burns.get(number) {
                    self.upstream.burn(self.now, mailbox, tenant.as_ref(), *cost);
                }
            }
            Happening::Written { key, row } => self.written(key, row),
            Happening::Tell(number) => self.be_told(number),
            Happening::WallStep(micros) => self.wall.set(micros),
            Happening::Lose(mailbox) => self.lose(mailbox),
            Happening::Crash(back_at) => self.die(back_at),
            Happening::Restart => self.come_back(),
            Happening::Pause(until) => self.stand_still(until),
            Happening::GoOn => self.go_on(),
            Happening::Busy(mailbox, until) => self.be_busy(mailbox, until),
            Happening::Free(mailbox) => self.be_free(mailbox),
        }
    }

    /// An engine names no instant twice, so none is woken twice in one.
    fn woken(&mut self) {
        self.tally.wakes += 1;
        let before = if self.woken.0 == self.now { self.woken.1 } else { 0 };
        self.woken = (self.now, before + 1);
        let most = 2 * (self.mailboxes.len() + 1);
        assert!(before < most, "engines are woken again and again at {:?}", self.now);
    }

    fn submitted(&mut self, key: OperationKey) {
        if let Some(back_at) = self.down_until {
            self.put(back_at, Happening::Submit(key));
            return;
        }
        let shown = self.get(key).map(|traced| self.local(traced.submitted_at));
        let Some(traced) = self.get_mut(key) else { return };
        (traced.submitted, traced.shown_at) = (true, shown);
        self.live += 1;
        let Some(traced) = self.get(key) else { return };
        let (mailbox, operation) = (traced.mailbox, self.operation(key, traced));
        self.tally.write(self.now, Some(mailbox), Write::Insert, Comes::First);
        self.run(Work::Mailbox(mailbox, Input::Enqueue(operation)));
    }

    fn looked_up(&mut self, key: OperationKey) {
        let Some(traced) = self.get(key).filter(|_| self.down_until.is_none()) else { return };
        let (mailbox, accepted) = (traced.mailbox, traced.taken);
        self.run(Work::Mailbox(mailbox, Input::Resolved { key, accepted }));
    }

    fn change(&mut self, number: usize) {
        let Some(change) = self.changes.get(number) else { return };
        self.changed.push((self.now, number));
        self.policies.clone_from(&change.mailboxes);
        self.shared_policy.clone_from(&change.shared);
        if self.down_until.is_some() {
            return;
        }
        if let Some(policy) = self.shared_policy.clone() {
            self.run(Work::Shared(shared::Input::Reconfigure(policy)));
        }
        for number in 0..self.mailboxes.len() {
            self.run(Work::Mailbox(number, Input::Reconfigure(Arc::clone(&self.policies[number]))));
        }
    }

    pub(super) fn run(&mut self, first: Work) {
        self.work.push_back(first);
        let shown = self.local(self.now);
        let most = WORK_EACH_MAX * (self.live + self.mailboxes.len() + 1);
        let mut done = 0;
        while let Some(work) = self.work.pop_front() {
            self.decisions += 1;
            if let Some(recording) = &mut self.recording {
                recording.push(shown, &work);
            }
            // Told to every mailbox by the way, as often as trouble comes and goes.
            done += usize::from(!matches!(work, Work::Mailbox(_, Input::AskShared(_))));
            assert!(done <= most, "the work of one happening has no end: {work:?} at {:?}", self.now);
            match work {
                Work::Mailbox(number, input) => {
                    let Some(input) = self.busy.keep(number, input) else { continue };
                    self.mailboxes[number].handle(shown, input);
                    while let Some(effect) = self.mailboxes[number].poll_effect() {
                        self.perform(number, effect);
                    }
                    self.arm(number);
                }
                Work::Shared(input) => {
                    let Some(shared) = &mut self.shared else { continue };
                    shared.handle(shown, input);
                    while let Some(effect) = self.shared.as_mut().and_then(shared::Shared::poll_effect) {
                        self.perform_shared(effect);
                    }
                    self.arm_shared();
                }
            }
        }
    }

    fn perform(&mut self, number: usize, effect: Effect) {
        let mailbox = MailboxKey(u32::try_from(number).unwrap_or(u32::MAX));
        let asker = |key| Asker { mailbox, key };
        match effect {
            // Mailboxes built from the outbox ask before they can be told that there is nobody.
            Effect::Reserve { key, .. } if self.shared.is_none() => {
                self.work.push_back(Work::Mailbox(number, Input::Granted { key }));
            }
            Effect::Reserve { key, lane, tenant, cost } => {
                self.work.push_back(Work::Shared(shared::Input::Reserve { asker: asker(key), lane, tenant, cost }));
            }
            Effect::Return { key, .. } => {
                self.work.push_back(Work::Shared(shared::Input::Return { asker: asker(key) }));
            }
            Effect::Settle { key, tenant, sent_at, answer } => {
                let settle = shared::Input::Settle { asker: asker(key), tenant, sent_at, answer };
                self.work.push_back(Work::Shared(settle));
            }
            Effect::Claim { key, attempt, .. } => {
                self.transitions.push((key, Transition::Claim));
                self.claim(number, key, attempt);
            }
            Effect::Record(record) => {
                self.transitions.push((record.key, record.transition));
                self.tally.write(self.now, Some(number), Write::Record, Comes::First);
                self.on_record(&record);
            }
            Effect::Send { key, attempt, deadline } => self.send(key, attempt, deadline),
            Effect::Outcome { key, outcome, .. } => self.end(key, outcome),
            Effect::Event(event) => self.keep(event),
            Effect::Reconcile { key } if self.look_ups == LookUps::Answered => {
                self.put(self.now.after(LOOK_UP_TAKES), Happening::LookedUp(key));
            }
            Effect::Remember(memory) => {
                self.tally.write(self.now, Some(number), Write::Note, Comes::First);
                self.on_breaker(Scope::Mailbox(Arc::clone(&self.names[number])), memory);
            }
            Effect::Reconcile { .. } | Effect::Grant { .. } => {}
            Effect::Passing { .. } | Effect::Failed { .. } | Effect::Troubled { .. } => {}
        }
    }

    fn perform_shared(&mut self, effect: shared::Effect) {
        let number = |asker: Asker| asker.mailbox.0 as usize;
        match effect {
            shared::Effect::Grant(asker) => {
                self.work.push_back(Work::Mailbox(number(asker), Input::Granted { key: asker.key }));
            }
            shared::Effect::Wait { asker, until, constraint } => {
                let waiting = Input::Waiting { key: asker.key, until, constraint };
                self.work.push_back(Work::Mailbox(number(asker), waiting));
            }
            shared::Effect::Deny(asker) => {
                self.work.push_back(Work::Mailbox(number(asker), Input::Denied { key: asker.key }));
            }
            shared::Effect::Announce(ask) => {
                for mailbox in 0..self.mailboxes.len() {
                    self.work.push_back(Work::Mailbox(mailbox, Input::AskShared(ask)));
                }
            }
            shared::Effect::Troubled { scope, reason } => {
                for mailbox in 0..self.mailboxes.len() {
                    let troubled = Input::Troubled { scope: scope.clone(), reason };
                    self.work.push_back(Work::Mailbox(mailbox, troubled));
                }
            }
            shared::Effect::Event(event) => self.keep(event),
            // There is one process.
            shared::Effect::Elect { .. } | shared::Effect::Yield { .. } => {}
            shared::Effect::Remember { scope, memory } => {
                self.tally.write(self.now, None, Write::Note, Comes::First);
                self.on_breaker(scope, memory);
            }
        }
    }

    fn arm(&mut self, number: usize) {
        let wanted = self.mailboxes[number].poll_deadline().map(|at| self.true_instant(at).max(self.now));
        if self.armed[number].map(|armed| armed.0) == wanted {
            return;
        }
        self.armed[number] = wanted.map(|at| self.put(at, Happening::Wake(number)));
    }

    fn arm_shared(&mut self) {
        let deadline = self.shared.as_ref().and_then(shared::Shared::poll_deadline);
        let wanted = deadline.map(|at| self.true_instant(at).max(self.now));
        if self.armed_shared.map(|armed| armed.0) == wanted {
            return;
        }
        self.armed_shared = wanted.map(|at| self.put(at, Happening::WakeShared));
    }

    fn send(&mut self, key: OperationKey, row: u32, deadline: Timestamp) {
        let plan = self.upstream.plan_latency();
        let Some(traced) = self.get_mut(key) else { return };
        (traced.row, traced.live, traced.down) = (row, true, plan.down);
        (traced.answer, traced.sends) = (None, traced.sends + 1);
        if row == 1 {
            let first = (traced.mailbox, traced.lane, key);
            self.order.push(first);
        }
        let arrival = self.now.after(plan.up);
        self.put(arrival, Happening::Arrive { key, row });
        let time_out = self.true_instant(deadline);
        self.put(time_out, Happening::TimeOut { key, row });
    }

    fn arrive(&mut self, key: OperationKey, row: u32) {
        let plan = self.upstream.plan_latency();
        let Some(traced) = self.get(key) else { return };
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
            Delivery::Lost => None,
            Delivery::Cut => Some(Verdict::Unknown.into()),
            _ => Some(judge(&decision, answered_at)),
        };
        let Some(traced) = self.get_mut(key) else { return };
        traced.taken |= decision.executed;
        traced.twice = decision.delivery == Delivery::Twice;
        if traced.row == row && answer.is_some() {
            traced.answer = answer;
            let at = answered_at.after(if heard { down } else { Duration::ZERO });
            self.put(at, Happening::Answer { key, row });
        }
    }

    fn answer(&mut self, key: OperationKey, row: u32, answer: Answer) {
        let Some(traced) = self.get_mut(key) else { return };
        if traced.row != row || !std::mem::replace(&mut traced.live, false) {
            return;
        }
        let mailbox = traced.mailbox;
        self.run(Work::Mailbox(mailbox, Input::Finished { key, answer }));
    }

    /// An answer, and at once the same again where it comes twice, unless the next attempt is under way by then: a transport
    /// tells answers of two attempts apart.
    fn answer_as_delivered(&mut self, key: OperationKey, row: u32, answer: Answer) {
        let is_heard = self.get(key).is_some_and(|traced| traced.live);
        self.answer(key, row, answer.clone());
        let again = self.get(key).filter(|traced| is_heard && traced.twice && traced.row == row && !traced.live);
        if let Some(mailbox) = again.map(|traced| traced.mailbox) {
            self.run(Work::Mailbox(mailbox, Input::Finished { key, answer }));
        }
    }

    /// An operation has ended, or one that had ended as unknown is settled after all.
    fn end(&mut self, key: OperationKey, outcome: Outcome) {
        let (now, place) = (self.now, self.ended.len());
        let Some(traced) = self.get_mut(key) else { return };
        let is_over = !matches!(outcome, Outcome::Unknown) && !std::mem::replace(&mut traced.over, true);
        self.live -= usize::from(is_over);
        let Some(traced) = self.get_mut(key) else { return };
        if let Some(place) = traced.ended {
            if let Some(ended) = self.ended.get_mut(place) {
                (ended.outcome, ended.ended_at) = (outcome, now);
            }
            return;
        }
        traced.ended = Some(place);
        let (mailbox, lane, submitted_at) = (traced.mailbox, traced.lane, traced.submitted_at);
        self.pending -= 1;
        self.ended.push(Ended { key, mailbox, lane, submitted_at, ended_at: now, outcome });
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
