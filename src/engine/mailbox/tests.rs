//! The mailbox's engine, one input at a time.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::{AskShared, Effect, Hold, HoldTarget, Input, Mailbox, Outcome, PastAttempt, Refusal, RestoredOperation};
use crate::engine::constraint::Wall;
use crate::engine::cost::{Cost, Unit};
use crate::engine::event::Event;
use crate::engine::lane::Lane;
use crate::engine::leaves::Leaves;
use crate::engine::operation::{Operation, OperationKey, OperationKind, OperationState, Transition};
use crate::engine::policy::{DuplicatePolicy, MailboxPolicy, ScopePolicy};
use crate::engine::time::Timestamp;
use crate::engine::verdict::{Answer, Sent, Subject, Throttle, ThrottleKind, Verdict};

mod door;
mod holds;
mod in_doubt;
mod judged;
mod late;
mod mended;
mod overtaken;
mod standing;
mod tenure;
mod unknown;
mod vigil;
mod waits;
mod widening;

const T0: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// A minute by our clock when both clocks are at their worst: W/(1−ρ), rounded up.
const GUARDED: Duration = Duration::from_micros(60_060_061);

fn at(seconds: u64) -> Timestamp {
    T0.after(Duration::from_secs(seconds))
}

fn policy(limits: &[&str], concurrency: u32) -> MailboxPolicy {
    let limits = limits.iter().map(|text| text.parse().expect("a limit")).collect();
    MailboxPolicy {
        scope: ScopePolicy { limits, concurrency: NonZeroU32::new(concurrency) },
        ..MailboxPolicy::default()
    }
}

/// A mailbox whose claims succeed at once; sends are answered by the test.
struct Rig {
    mailbox: Mailbox,
    now: Timestamp,
    sent: Vec<OperationKey>,
    outcomes: Vec<(OperationKey, Outcome)>,
    records: Vec<(OperationKey, Transition)>,
    others: Vec<Effect>,
    events: Vec<Event>,
}

impl Rig {
    fn new(policy: MailboxPolicy) -> Self {
        let mailbox = Mailbox::new("noreply@contoso.example".into(), Arc::new(policy));
        let mut rig = Self {
            mailbox,
            now: T0,
            sent: Vec::new(),
            outcomes: Vec::new(),
            records: Vec::new(),
            others: Vec::new(),
            events: Vec::new(),
        };
        rig.input(Input::AskShared(AskShared::OnTrouble));
        rig
    }

    fn input(&mut self, input: Input) {
        self.mailbox.handle(self.now, input);
        let mut row = None;
        while let Some(effect) = self.mailbox.poll_effect() {
            match effect {
                Effect::Claim { key, .. } => self.mailbox.handle(self.now, Input::Claimed { key }),
                Effect::Send { key, .. } | Effect::Grant { key } => self.sent.push(key),
                Effect::Outcome { key, outcome, .. } => {
                    let told = match outcome {
                        Outcome::Exhausted { maybe_sent, .. } | Outcome::Cancelled { maybe_sent } => Some(maybe_sent),
                        _ => None,
                    };
                    let kept = row.filter(|(of, _)| told.is_some() && *of == key).map(|(_, maybe_sent)| maybe_sent);
                    assert!(kept.is_none() || kept == told, "{key:?}: told {told:?}, and its row says {kept:?}");
                    self.outcomes.push((key, outcome));
                }
                Effect::Record(record) => {
                    row = Some((record.key, record.maybe_sent));
                    self.records.push((record.key, record.transition));
                }
                Effect::Event(event) => self.events.push(event),
                other => self.others.push(other),
            }
        }
    }

    fn operation(&self, key: u64, lane: Lane) -> Operation {
        Operation {
            key: OperationKey(key),
            id_hash: key.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            lane,
            kind: OperationKind::Send,
            tenant: None,
            campaign: None,
            cost: Cost::email(1, 1_000),
            submitted_at: self.now,
            not_before: self.now,
            deadline: self.now.after(Duration::from_secs(86_400)),
            attempts: 0,
        }
    }

    fn submit(&mut self, key: u64, lane: Lane) {
        let operation = self.operation(key, lane);
        self.input(Input::Enqueue(operation));
    }

    fn answer(&mut self, key: u64, verdict: Verdict) {
        self.input(Input::Finished { key: OperationKey(key), answer: verdict.into() });
    }

    /// Follows the named deadlines up to and including `until`, and answers every send with success at once.
    fn accept_until(&mut self, until: Timestamp) {
        loop {
            while let Some(key) = self.sent.pop() {
                self.input(Input::Finished { key, answer: Verdict::Accepted.into() });
            }
            match self.mailbox.poll_deadline() {
                Some(next) if next <= until => {
                    self.now = self.now.max(next);
                    self.input(Input::Wake);
                }
                _ => break,
            }
        }
        self.now = self.now.max(until);
    }

    fn wall(&self, key: u64) -> Option<Wall> {
        let found = self.mailbox.explain(self.now, Some(OperationKey(key)));
        assert_eq!(found.iter().filter(|constraint| constraint.binding).count(), usize::from(!found.is_empty()));
        found.iter().find(|constraint| constraint.binding).map(|constraint| constraint.wall)
    }

    fn outcome(&self, key: u64) -> Option<&Outcome> {
        self.outcomes.iter().rev().find(|(other, _)| *other == OperationKey(key)).map(|(_, outcome)| outcome)
    }
}

fn throttled(retry_after: Option<u64>) -> Verdict {
    Verdict::Throttled(Throttle {
        retry_after: retry_after.map(Duration::from_secs),
        scope: None,
        kind: ThrottleKind::Rate,
    })
}

#[test]
fn an_operation_goes_at_once_and_its_ticket_hears_of_it() {
    let mut rig = Rig::new(policy(&["30 requests / 1m"], 4));
    rig.submit(1, Lane::Foreground);
    assert_eq!(rig.sent, [OperationKey(1)]);
    rig.answer(1, Verdict::Accepted);
    assert_eq!(rig.outcome(1), Some(&Outcome::Accepted { provider_id: None, attempts: 1 }));
    assert_eq!(rig.records, [(OperationKey(1), Transition::Accept)]);
    assert!(rig.mailbox.is_idle());
    assert!(!rig.mailbox.is_blank(rig.now), "its charge still counts");
    assert!(rig.mailbox.is_blank(at(61)), "until the window and its guard are over");
}

#[test]
fn the_send_beyond_the_window_goes_exactly_when_the_first_leaves_it() {
    let mut rig = Rig::new(policy(&["2 requests / 1m"], 4));
    for key in 1..=3 {
        rig.submit(key, Lane::Foreground);
    }
    assert_eq!(rig.sent.len(), 2);
    rig.answer(1, Verdict::Accepted);
    rig.answer(2, Verdict::Accepted);
    assert_eq!(rig.wall(3), Some(Wall::Window { unit: Unit::Requests, seconds: 60 }));
    let named = rig.mailbox.poll_deadline().expect("a deadline");
    rig.now = named.before(Duration::from_micros(1));
    rig.input(Input::Wake);
    assert_eq!(rig.sent.len(), 2, "not a microsecond early");
    rig.now = named;
    rig.input(Input::Wake);
    assert_eq!(rig.sent.len(), 3);
    assert_eq!(named, T0.after(GUARDED), "a window and its guard after the completion");
}

#[test]
fn foreground_goes_before_background_that_has_not_started() {
    let mut rig = Rig::new(policy(&["100 requests / 1m"], 1));
    rig.submit(1, Lane::Background);
    rig.submit(2, Lane::Background);
    rig.submit(3, Lane::Foreground);
    rig.answer(1, Verdict::Accepted);
    assert_eq!(rig.sent, [OperationKey(1), OperationKey(3)]);
}

#[test]
fn one_connection_stays_free_for_foreground() {
    let mut rig = Rig::new(policy(&["1000 requests / 1m"], 4));
    (1..=10).for_each(|key| rig.submit(key, Lane::Background));
    assert_eq!(rig.sent.len(), 3);
    assert_eq!(rig.wall(4), Some(Wall::InFlight));
    rig.submit(11, Lane::Foreground);
    assert_eq!(rig.sent.last(), Some(&OperationKey(11)));
}

#[test]
fn a_throttle_costs_no_attempt_and_the_operation_goes_first_again() {
    let mut rig = Rig::new(policy(&["100 requests / 1m"], 1));
    rig.submit(1, Lane::Foreground);
    rig.submit(2, Lane::Foreground);
    rig.answer(1, throttled(Some(10)));
    assert_eq!(rig.wall(1), Some(Wall::Cooldown));
    assert_eq!(rig.mailbox.state(OperationKey(1)), Some(OperationState::Deferred));
    rig.sent.clear();
    rig.now = at(12);
    rig.input(Input::Wake);
    assert_eq!(rig.sent, [OperationKey(1)], "the probe is the head of the lane");
    rig.answer(1, Verdict::Accepted);
    assert_eq!(rig.outcome(1), Some(&Outcome::Accepted { provider_id: None, attempts: 2 }));
}

#[test]
fn a_throttle_never_exhausts_attempts_only_time_does() {
    let mut rig = Rig::new(policy(&["1000 requests / 1s"], 1));
    let mut operation = rig.operation(1, Lane::Foreground);
    operation.deadline = at(7_200);
    rig.input(Input::Enqueue(operation));
    while rig.outcome(1).is_none() {
        if rig.sent.pop().is_some() {
            rig.answer(1, throttled(Some(30)));
        } else {
            rig.now = rig.mailbox.poll_deadline().expect("it waits for something");
            rig.input(Input::Wake);
        }
    }
    assert_eq!(
        rig.outcome(1),
        Some(&Outcome::Exhausted { attempts: 0, throttled: Some(ThrottleKind::Rate), maybe_sent: false })
    );
    assert!(rig.now >= at(7_200));
}

#[test]
fn a_failure_with_an_answer_costs_an_attempt_until_they_are_used_up() {
    let mut rig = Rig::new(policy(&["1000 requests / 1s"], 1));
    rig.submit(1, Lane::Foreground);
    let mut sends = 0;
    while rig.outcome(1).is_none() {
        if rig.sent.pop().is_some() {
            sends += 1;
            rig.answer(1, Verdict::Transient { sent: Sent::Maybe, retry_after: None });
        } else {
            rig.now = rig.mailbox.poll_deadline().expect("it waits for something");
            rig.input(Input::Wake);
        }
    }
    assert_eq!(sends, 8);
    assert_eq!(rig.outcome(1), Some(&Outcome::Exhausted { attempts: 8, throttled: None, maybe_sent: false }));
}

#[test]
fn what_never_left_the_machine_gives_its_slot_back_and_costs_no_attempt() {
    let mut rig = Rig::new(policy(&["1 requests / 1h"], 1));
    rig.submit(1, Lane::Foreground);
    rig.sent.clear();
    rig.answer(1, Verdict::Transient { sent: Sent::No, retry_after: None });
    assert_eq!(rig.mailbox.facts(rig.now).windows[0].used, [0, 0]);
    rig.now = at(5);
    rig.input(Input::Wake);
    assert_eq!(rig.sent, [OperationKey(1)], "again within its backoff, in the same hour");
}

#[test]
fn a_lost_answer_is_unknown_keeps_its_charge_and_is_never_repeated() {
    let mut rig = Rig::new(policy(&["5 requests / 1h"], 4));
    rig.submit(1, Lane::Foreground);
    rig.answer(1, Verdict::Unknown);
    assert_eq!(rig.outcome(1), Some(&Outcome::Unknown));
    rig.sent.clear();
    rig.accept_until(at(3_000));
    assert!(rig.sent.is_empty());
    assert_eq!(rig.outcome(1), Some(&Outcome::Quarantined));
    assert_eq!(rig.mailbox.facts(rig.now).windows[0].used, [1, 0]);
    let looks = rig.others.iter().filter(|effect| matches!(effect, Effect::Reconcile { .. })).count();
    assert_eq!(looks, 3, "at one, five and thirty minutes; then it is given up");
}

#[test]
fn an_unknown_that_is_found_is_accepted() {
    let mut rig = Rig::new(policy(&["5 requests / 1h"], 4));
    rig.submit(1, Lane::Foreground);
    rig.answer(1, Verdict::Unknown);
    rig.now = at(61);
    rig.input(Input::Wake);
    rig.input(Input::Resolved { key: OperationKey(1), accepted: true });
    assert!(matches!(rig.outcome(1), Some(Outcome::Accepted { .. })));
    assert_eq!(rig.records.last(), Some(&(OperationKey(1), Transition::Find)));
}

#[test]
fn absent_once_is_not_believed_and_absent_twice_is_repeated_only_where_that_is_the_policy() {
    for (duplicates, repeats) in [(DuplicatePolicy::AtMostOnce, 0), (DuplicatePolicy::AtLeastOnce, 1)] {
        let mut policy = policy(&["50 requests / 1h"], 4);
        policy.retry.duplicates = duplicates;
        let mut rig = Rig::new(policy);
        rig.submit(1, Lane::Foreground);
        rig.answer(1, Verdict::Unknown);
        rig.sent.clear();
        for seconds in [61, 301] {
            rig.now = at(seconds);
            rig.input(Input::Wake);
            rig.input(Input::Resolved { key: OperationKey(1), accepted: false });
            assert!(seconds == 301 || rig.sent.is_empty());
        }
        rig.now = at(400);
        rig.input(Input::Wake);
        assert_eq!(rig.sent.len(), repeats, "{duplicates:?}");
    }
}

#[test]
fn a_refused_account_stops_the_mailbox_until_a_person_resumes_it() {
    let mut rig = Rig::new(policy(&["50 requests / 1m"], 1));
    rig.submit(1, Lane::Foreground);
    rig.submit(2, Lane::Foreground);
    rig.sent.clear();
    rig.answer(1, Verdict::Permanent { of: Subject::Account });
    assert!(rig.sent.is_empty());
    assert_eq!(rig.wall(2), Some(Wall::Hold));
    rig.input(Input::Resume(HoldTarget::Mailbox));
    assert_eq!(rig.sent, [OperationKey(1)]);
}

#[test]
fn a_bad_email_is_rejected_alone() {
    let mut rig = Rig::new(policy(&["50 requests / 1m"], 1));
    rig.submit(1, Lane::Foreground);
    rig.submit(2, Lane::Foreground);
    let answer = Answer { status: Some(400), ..Verdict::Permanent { of: Subject::Message }.into() };
    rig.input(Input::Finished { key: OperationKey(1), answer });
    assert_eq!(rig.outcome(1), Some(&Outcome::Rejected { of: Subject::Message, status: Some(400) }));
    assert_eq!(rig.sent.last(), Some(&OperationKey(2)));
}

#[test]
fn cancelling_a_live_attempt_waits_for_its_end() {
    let mut rig = Rig::new(policy(&["50 requests / 1m"], 1));
    rig.submit(1, Lane::Foreground);
    rig.submit(2, Lane::Foreground);
    rig.input(Input::Cancel { key: OperationKey(2) });
    assert_eq!(rig.outcome(2), Some(&Outcome::Cancelled { maybe_sent: false }));
    rig.input(Input::Cancel { key: OperationKey(1) });
    assert_eq!(rig.outcome(1), None);
    rig.answer(1, throttled(None));
    assert_eq!(rig.outcome(1), Some(&Outcome::Cancelled { maybe_sent: false }));
    assert_eq!(rig.mailbox.state(OperationKey(1)), None);
}

#[test]
fn a_light_follower_passes_a_heavy_head_only_where_it_does_not_postpone_it() {
    let mut rig = Rig::new(policy(&["100 recipients / 1h"], 4));
    let heavy = |rig: &Rig, key, recipients| Operation {
        cost: Cost::email(recipients, 1_000),
        ..rig.operation(key, Lane::Foreground)
    };
    let first = heavy(&rig, 1, 60);
    rig.input(Input::Enqueue(first));
    rig.answer(1, Verdict::Accepted);
    // 40 free; the head wants 50 and fits when the 60 leave: then 100 are free, so up to 50 may pass.
    for (key, recipients) in [(2, 50), (3, 30), (4, 30)] {
        let operation = heavy(&rig, key, recipients);
        rig.input(Input::Enqueue(operation));
    }
    assert_eq!(rig.sent, [OperationKey(1), OperationKey(3)], "30 pass; another 30 do not fit");
    let named = rig.mailbox.poll_deadline().expect("the head's instant");
    rig.answer(3, Verdict::Accepted);
    rig.now = named;
    rig.input(Input::Wake);
    assert_eq!(rig.sent.get(2), Some(&OperationKey(2)), "the head goes at the instant it was named before");
}
