//! Faults that were found, each pinned by what it would do again.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::engine::scope::ScopeKind;

#[test]
fn a_hold_that_expires_does_not_lift_a_suspension() {
    let mut rig = Rig::new(policy(&["50 requests / 1m"], 1));
    rig.submit(1, Lane::Foreground);
    rig.sent.clear();
    rig.answer(1, Verdict::Permanent { of: Subject::Account });
    rig.input(Input::Hold(Hold::new(HoldTarget::Mailbox, at(300))));
    rig.accept_until(at(3_600));
    assert!(rig.sent.is_empty() && rig.outcome(1).is_none());
    rig.input(Input::Resume(HoldTarget::Mailbox));
    assert_eq!(rig.sent, [OperationKey(1)]);
}

#[test]
fn a_refused_account_uses_no_attempt() {
    let mut policy = policy(&["50 requests / 1m"], 1);
    policy.retry.attempts_max = NonZeroU32::new(1).expect("one");
    let mut rig = Rig::new(policy);
    rig.submit(1, Lane::Foreground);
    rig.answer(1, Verdict::Permanent { of: Subject::Account });
    rig.input(Input::Resume(HoldTarget::Mailbox));
    rig.answer(1, Verdict::Accepted);
    assert!(matches!(rig.outcome(1), Some(Outcome::Accepted { .. })));
}

#[test]
fn attempts_of_an_earlier_life_keep_their_connections() {
    let mut rig = Rig::new(policy(&["50 requests / 1m"], 4));
    let (key, lane, cost) = (OperationKey(900), Lane::Foreground, Cost::ONE_REQUEST);
    let live = PastAttempt {
        key,
        lane,
        cost,
        claimed_at: T0,
        finished_at: None,
        kind: OperationKind::Send,
        leaves: Leaves::All,
    };
    rig.mailbox.restore(T0, Vec::new(), &[live; 4]);
    rig.submit(1, Lane::Foreground);
    assert!(rig.sent.is_empty(), "four may still be executed");
    assert_eq!(rig.wall(1), Some(Wall::InFlight));
    rig.now = at(65);
    rig.input(Input::Wake);
    assert_eq!(rig.sent, [OperationKey(1)]);
}

#[test]
fn a_late_answer_frees_the_connection_of_its_attempt() {
    let mut rig = Rig::new(policy(&["50 requests / 1m"], 1));
    rig.submit(1, Lane::Foreground);
    rig.answer(1, Verdict::Unknown);
    rig.submit(2, Lane::Foreground);
    assert_eq!(rig.sent, [OperationKey(1)], "the provider may still be executing it");
    rig.answer(1, Verdict::Accepted);
    assert_eq!(rig.sent, [OperationKey(1), OperationKey(2)]);
}

#[test]
fn a_throttle_of_the_application_is_not_answered_by_sending_again() {
    let mut rig = Rig::new(policy(&["50 requests / 1m"], 4));
    rig.submit(1, Lane::Foreground);
    rig.sent.clear();
    let throttle = Throttle {
        retry_after: Some(Duration::from_secs(20)),
        scope: Some(ScopeKind::Application),
        kind: ThrottleKind::Rate,
    };
    rig.answer(1, Verdict::Throttled(throttle));
    assert!(rig.sent.is_empty());
    let asked = rig.others.iter().any(|effect| matches!(effect, Effect::Reserve { .. }));
    assert!(asked, "it asks the shared scopes first: {:?}", rig.others);
}

#[test]
fn a_head_that_a_lowered_limit_can_never_hold_ends_and_blocks_nobody() {
    let mut rig = Rig::new(policy(&["100 recipients / 1h"], 1));
    rig.submit(1, Lane::Foreground);
    let heavy = Operation { cost: Cost::email(80, 1_000), ..rig.operation(2, Lane::Foreground) };
    rig.input(Input::Enqueue(heavy));
    rig.submit(3, Lane::Foreground);
    rig.input(Input::Reconfigure(Arc::new(policy(&["50 recipients / 1h"], 1))));
    assert!(matches!(rig.outcome(2), Some(Outcome::Exhausted { .. })));
    rig.answer(1, Verdict::Accepted);
    assert_eq!(rig.sent, [OperationKey(1), OperationKey(3)]);
}

#[test]
fn an_arrival_that_a_limit_lowered_meanwhile_can_never_hold_ends_unsent() {
    let mut rig = Rig::new(policy(&["40 recipients / 1m bucket(13)"], 4));
    let heavy = Operation { cost: Cost::email(17, 1_000), ..rig.operation(1, Lane::Background) };
    rig.input(Input::Enqueue(heavy));
    assert!(rig.sent.is_empty(), "an empty window is no reason to send what the provider refuses");
    assert!(matches!(rig.outcome(1), Some(Outcome::Exhausted { attempts: 0, .. })));
    rig.submit(2, Lane::Background);
    assert_eq!(rig.sent, [OperationKey(2)]);
}

#[test]
fn a_changed_window_grants_no_free_one() {
    let mut rig = Rig::new(policy(&["30 requests / 1m"], 40));
    (1..=30).for_each(|key| rig.submit(key, Lane::Foreground));
    (1..=30).for_each(|key| rig.answer(key, Verdict::Accepted));
    rig.input(Input::Reconfigure(Arc::new(policy(&["25 requests / 59s"], 40))));
    rig.submit(31, Lane::Foreground);
    assert_eq!(rig.sent.len(), 30, "30 of 25 are used");
}

/// Found by the liveness worlds: a restart kept one email waiting for as long as the whole backlog took, long after it was gone.
#[test]
fn a_throttled_operation_is_not_put_off_for_the_backlog_behind_it() {
    let mut engine = Mailbox::new("noreply@contoso.example".into(), Arc::new(policy(&["5 requests / 1m"], 4)));
    engine.handle(T0, Input::AskShared(AskShared::OnTrouble));
    let rig = Rig::new(policy(&[], 1));
    let mut next = Vec::new();
    let mut inputs: Vec<_> = (1..=300).map(|key| Input::Enqueue(rig.operation(key, Lane::Foreground))).collect();
    inputs.reverse();
    while let Some(input) = inputs.pop() {
        engine.handle(T0, input);
        while let Some(effect) = engine.poll_effect() {
            match effect {
                Effect::Claim { key, .. } => inputs.push(Input::Claimed { key }),
                Effect::Send { key, .. } => {
                    // Answered when all have come.
                    inputs.insert(0, Input::Finished { key, answer: throttled(Some(10)).into() });
                }
                Effect::Record(record) => next.extend(record.next_at),
                _ => {}
            }
        }
    }
    assert_eq!(next.len(), 4, "as many as were under way");
    assert!(
        next.iter().all(|at| *at >= self::at(10) && *at <= self::at(90)),
        "{next:?}: an hour's backlog is behind them"
    );
}

#[test]
fn the_last_connection_is_not_tried_again_at_once() {
    let mut rig = Rig::new(policy(&["5000 requests / 1m"], 1));
    (1..=5).for_each(|key| rig.submit(key, Lane::Foreground));
    let throttle = |seconds: Option<u64>| {
        let retry_after = seconds.map(Duration::from_secs);
        Verdict::Throttled(Throttle { retry_after, scope: None, kind: ThrottleKind::Concurrency })
    };
    rig.answer(1, throttle(None));
    assert_eq!(rig.sent.len(), 1);
    assert_eq!(rig.mailbox.poll_deadline(), Some(at(1)));
    rig.now = at(1);
    rig.input(Input::Wake);
    assert_eq!(rig.sent.len(), 2);
    rig.answer(1, throttle(Some(7)));
    rig.sent.clear();
    rig.accept_until(at(7));
    assert!(rig.outcomes.is_empty(), "the provider said seven seconds, one second ago at second one");
    rig.accept_until(at(60));
    assert_eq!(rig.outcomes.len(), 5);
}

#[test]
fn an_unknown_is_looked_up_after_a_downtime_before_it_is_given_up() {
    for minutes_down in [10, 40] {
        let mut rig = Rig::new(policy(&["30 requests / 1m"], 4));
        let restored = RestoredOperation {
            operation: rig.operation(1, Lane::Foreground),
            state: OperationState::Unknown,
            next_at: None,
            rows: 1,
            changed_at: T0,
            maybe_sent: false,
            crashes: 0,
            requested: None,
            accepted: None,
        };
        rig.now = at(minutes_down * 60);
        rig.mailbox.restore(rig.now, vec![restored], &[]);
        rig.input(Input::Wake);
        let looks = rig.others.iter().filter(|effect| matches!(effect, Effect::Reconcile { .. })).count();
        assert_eq!(looks, 1, "one look at one moment");
        assert_eq!(rig.outcome(1), None);
        rig.input(Input::Resolved { key: OperationKey(1), accepted: true });
        assert!(matches!(rig.outcome(1), Some(Outcome::Accepted { .. })));
    }
}

#[test]
fn what_waits_for_the_word_of_the_shared_scopes_has_a_deadline_and_can_be_cancelled() {
    let mut rig = Rig::new(policy(&["30 requests / 1m"], 4));
    rig.input(Input::AskShared(AskShared::Always));
    let mut operation = rig.operation(1, Lane::Foreground);
    operation.deadline = at(10);
    rig.input(Input::Enqueue(operation));
    rig.submit(2, Lane::Foreground);
    rig.input(Input::Cancel { key: OperationKey(2) });
    assert_eq!(rig.outcome(2), Some(&Outcome::Cancelled { maybe_sent: false }));
    rig.now = at(10);
    rig.input(Input::Wake);
    assert!(matches!(rig.outcome(1), Some(Outcome::Exhausted { .. })));
    let returned = rig.others.iter().filter(|effect| matches!(effect, Effect::Return { .. })).count();
    assert_eq!(returned, 2);
    assert_eq!(rig.mailbox.facts(rig.now).windows[0].used, [0, 0]);
    // The grant comes after all: it goes back.
    rig.input(Input::Granted { key: OperationKey(1) });
    let returned = rig.others.iter().filter(|effect| matches!(effect, Effect::Return { .. })).count();
    assert_eq!(returned, 3);
}

#[test]
fn what_waits_for_an_instant_of_its_own_counts_against_the_bound_of_its_lane() {
    let mut policy = policy(&["30 requests / 1m"], 4);
    policy.queue.background_max = 2;
    let mut rig = Rig::new(policy);
    for key in 1..=2 {
        let mut operation = rig.operation(key, Lane::Background);
        operation.not_before = at(600);
        rig.input(Input::Enqueue(operation));
    }
    let refusal = rig.mailbox.check(rig.now, &rig.operation(3, Lane::Background), None);
    assert!(matches!(refusal, Err(Refusal::QueueFull { depth_max: 2, .. })), "{refusal:?}");
}

/// An operation of an earlier life that has used `attempts` of them.
fn tried(rig: &Rig, key: u64, attempts: u32, state: OperationState) -> RestoredOperation {
    let mut operation = rig.operation(key, Lane::Foreground);
    operation.attempts = attempts;
    RestoredOperation {
        operation,
        state,
        next_at: None,
        rows: attempts,
        changed_at: rig.now,
        maybe_sent: false,
        crashes: 0,
        requested: None,
        accepted: None,
    }
}

#[test]
fn an_operation_that_comes_back_with_all_its_attempts_used_is_exhausted_and_not_sent() {
    let mut policy = policy(&["50 requests / 1m"], 4);
    policy.retry.attempts_max = NonZeroU32::new(3).expect("three");
    let mut rig = Rig::new(policy);
    let restored = [
        tried(&rig, 1, 2, OperationState::Deferred),
        tried(&rig, 2, 3, OperationState::Deferred),
        tried(&rig, 3, 4, OperationState::Queued),
        tried(&rig, 4, 3, OperationState::Unknown),
    ];
    rig.mailbox.restore(T0, restored.to_vec(), &[]);
    rig.input(Input::Wake);
    assert_eq!(rig.sent, [OperationKey(1)]);
    assert_eq!(rig.records, [(OperationKey(2), Transition::Exhaust), (OperationKey(3), Transition::Exhaust)]);
    assert_eq!(rig.outcome(2), Some(&Outcome::Exhausted { attempts: 3, throttled: None, maybe_sent: false }));
    assert_eq!(rig.mailbox.state(OperationKey(4)), Some(OperationState::Unknown), "its look-ups decide");
}

#[test]
fn fewer_attempts_by_a_new_policy_hold_for_what_waits_and_for_what_is_under_way() {
    let generous = policy(&["50 requests / 1m"], 1);
    let mut strict = generous.clone();
    strict.retry.attempts_max = NonZeroU32::new(1).expect("one");
    let mut rig = Rig::new(generous);
    let restored = [1, 2].map(|key| tried(&rig, key, 1, OperationState::Deferred));
    rig.mailbox.restore(T0, restored.to_vec(), &[]);
    rig.input(Input::Wake);
    assert_eq!(rig.sent, [OperationKey(1)], "2 waits for the connection");
    rig.input(Input::Reconfigure(Arc::new(strict)));
    assert_eq!(rig.outcome(2), Some(&Outcome::Exhausted { attempts: 1, throttled: None, maybe_sent: false }));
    let kind = ThrottleKind::Rate;
    rig.answer(1, Verdict::Throttled(Throttle { retry_after: None, scope: None, kind }));
    assert_eq!(rig.outcome(1), Some(&Outcome::Exhausted { attempts: 1, throttled: Some(kind), maybe_sent: false }));
    assert_eq!(rig.sent, [OperationKey(1)]);
}

#[test]
fn fewer_attempts_hold_for_what_the_shared_scopes_are_asked_for() {
    let generous = policy(&["50 requests / 1m"], 1);
    let mut strict = generous.clone();
    strict.retry.attempts_max = NonZeroU32::new(1).expect("one");
    let mut rig = Rig::new(generous);
    rig.input(Input::AskShared(AskShared::Always));
    let restored = tried(&rig, 1, 1, OperationState::Deferred);
    rig.mailbox.restore(T0, vec![restored], &[]);
    rig.input(Input::Reconfigure(Arc::new(strict)));
    assert_eq!(rig.outcome(1), Some(&Outcome::Exhausted { attempts: 1, throttled: None, maybe_sent: false }));
    assert!(matches!(rig.others.last(), Some(Effect::Return { .. })), "{:?}", rig.others);
    rig.input(Input::Granted { key: OperationKey(1) });
    assert!(rig.sent.is_empty());
}

#[test]
fn of_two_limits_with_one_window_each_keeps_its_own_bucket_over_a_change() {
    // Found by seed 172211 of tests/simulation: the slow one went on with the level of the fast one.
    let limits = ["30 requests / 1m bucket(10)", "6 requests / 1m bucket(2)"];
    for order in [[0, 1], [1, 0]] {
        let limits = order.map(|index| limits[index]);
        let mut rig = Rig::new(policy(&limits, 4));
        for key in 1..=2 {
            rig.submit(key, Lane::Foreground);
            rig.answer(key, Verdict::Accepted);
        }
        rig.submit(3, Lane::Foreground);
        let before = rig.mailbox.poll_deadline();
        rig.now = at(3);
        rig.input(Input::Reconfigure(Arc::new(policy(&limits, 2))));
        assert_eq!((rig.sent.len(), rig.mailbox.poll_deadline()), (2, before), "{limits:?}");
        rig.accept_until(at(9));
        assert!(rig.outcome(3).is_none(), "not before ten seconds have drained one");
        // Another limit takes over from the one that drains slowest.
        rig.input(Input::Reconfigure(Arc::new(policy(&["7 requests / 1m bucket(2)"], 2))));
        rig.accept_until(at(9));
        assert!(rig.outcome(3).is_none());
    }
}
