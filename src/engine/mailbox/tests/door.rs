//! In at the door, new limits, restarts, permits, and inputs that make no sense.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::engine::mailbox::{ClaimFailure, Coming};

#[test]
fn what_can_never_go_is_refused_at_the_door_and_names_the_limit() {
    let rig = Rig::new(policy(&["100 recipients / 1h"], 4));
    let with = |recipients| Operation { cost: Cost::email(recipients, 0), ..rig.operation(1, Lane::Foreground) };
    assert_eq!(rig.mailbox.check(T0, &with(100), None), Ok(()));
    let refusal = rig.mailbox.check(T0, &with(101), None).expect_err("above the window");
    let Refusal::CostAboveCapacity { constraint, cost: 101, capacity: 100 } = refusal else {
        panic!("{refusal:?}");
    };
    assert_eq!(constraint.wall, Wall::Window { unit: Unit::Recipients, seconds: 3_600 });
    let late = Operation { deadline: T0, ..with(1) };
    assert!(matches!(rig.mailbox.check(T0, &late, None), Err(Refusal::DeadlineTooEarly { .. })));
}

#[test]
fn a_wait_longer_than_the_caller_bears_is_refused_with_the_instant() {
    let mut rig = Rig::new(policy(&["2 requests / 1m"], 4));
    rig.submit(1, Lane::Foreground);
    rig.submit(2, Lane::Foreground);
    rig.answer(1, Verdict::Accepted);
    rig.answer(2, Verdict::Accepted);
    let next = rig.operation(3, Lane::Foreground);
    let enough = GUARDED;
    assert_eq!(rig.mailbox.check(rig.now, &next, Some(enough)), Ok(()));
    let refusal = rig.mailbox.check(rig.now, &next, Some(enough - Duration::from_micros(1)));
    let Err(Refusal::WaitTooLong { retry_after, .. }) = refusal else { panic!("{refusal:?}") };
    assert_eq!(retry_after, enough);
    // Two more ahead of it: a whole window later.
    rig.submit(4, Lane::Foreground);
    rig.submit(5, Lane::Foreground);
    let refusal = rig.mailbox.check(rig.now, &next, Some(enough));
    let Err(Refusal::WaitTooLong { retry_after, .. }) = refusal else { panic!("{refusal:?}") };
    assert!(retry_after >= Duration::from_secs(120), "{retry_after:?}");
}

/// Found by the liveness worlds: the sum of what was ahead was taken for one send, and a bucket never holds that. From then on
/// every submission was refused, whatever its deadline, and nobody could say when those that waited would go.
#[test]
fn a_backlog_beyond_the_depth_of_a_bucket_makes_no_deadline_hopeless() {
    for limit in ["30 requests / 1m paranoid", "30 requests / 1m bucket(3)"] {
        for lane in Lane::ALL {
            let mut rig = Rig::new(policy(&[limit], 4));
            (1..=20).for_each(|key| rig.submit(key, lane));
            let next = rig.operation(21, lane);
            assert_eq!(rig.mailbox.check(rig.now, &next, None), Ok(()), "{limit} {lane:?}");
            let explained = rig.mailbox.explain(rig.now, Some(OperationKey(20)));
            assert!(explained.iter().all(|constraint| constraint.ready_at < at(600)), "{limit} {explained:?}");
        }
    }
}

#[test]
fn what_is_coming_and_what_is_in_flight_count_for_a_caller_who_bears_no_wait() {
    let mut rig = Rig::new(policy(&["2 requests / 1m"], 4));
    let next = rig.operation(3, Lane::Foreground);
    let patient = Some(Duration::from_secs(5));
    let mut coming = [Coming::default(); 2];
    assert_eq!(rig.mailbox.check_behind(T0, &next, patient, &coming, &[]), Ok(()));
    coming[Lane::Background.index()].add(&Cost::ONE_REQUEST);
    (0..2).for_each(|_| coming[Lane::Foreground.index()].add(&Cost::ONE_REQUEST));
    let refusal = rig.mailbox.check_behind(T0, &next, patient, &coming, &[]);
    assert!(matches!(refusal, Err(Refusal::WaitTooLong { retry_after, .. }) if retry_after >= Duration::from_secs(60)));
    coming[Lane::Foreground.index()].remove(&Cost::ONE_REQUEST);
    assert_eq!(rig.mailbox.check_behind(T0, &next, patient, &coming, &[]), Ok(()), "background goes behind it");
    // Both in flight: they leave the window a minute after they end.
    (1..=2).for_each(|key| rig.submit(key, Lane::Foreground));
    let next = Operation { deadline: at(30), ..next };
    let refusal = rig.mailbox.check(rig.now, &next, patient);
    assert!(matches!(refusal, Err(Refusal::WaitTooLong { retry_after, .. }) if retry_after == Duration::from_secs(60)));
    assert_eq!(rig.mailbox.check(rig.now, &next, None), Ok(()), "they may still come back uncharged");
}

#[test]
fn a_full_lane_refuses_and_the_other_lane_does_not() {
    let mut policy = policy(&["1 requests / 1h"], 4);
    policy.queue.background_max = 2;
    let mut rig = Rig::new(policy);
    (1..=3).for_each(|key| rig.submit(key, Lane::Background));
    let refusal = rig.mailbox.check(rig.now, &rig.operation(4, Lane::Background), None);
    assert!(matches!(refusal, Err(Refusal::QueueFull { depth_max: 2, .. })), "{refusal:?}");
    assert_eq!(rig.mailbox.check(rig.now, &rig.operation(4, Lane::Foreground), None), Ok(()));
}

#[test]
fn lowering_a_limit_counts_from_now_and_raising_it_grants_no_free_window() {
    let mut rig = Rig::new(policy(&["10 requests / 1h"], 20));
    (1..=8).for_each(|key| rig.submit(key, Lane::Foreground));
    (1..=8).for_each(|key| rig.answer(key, Verdict::Accepted));
    rig.input(Input::Reconfigure(Arc::new(policy(&["5 requests / 1h"], 20))));
    rig.submit(9, Lane::Foreground);
    assert_eq!(rig.sent.len(), 8, "8 of 5 are used");
    rig.input(Input::Reconfigure(Arc::new(policy(&["10 requests / 1h"], 20))));
    (10..=14).for_each(|key| rig.submit(key, Lane::Foreground));
    assert_eq!(rig.sent.len(), 10, "8 and 2 more");
}

#[test]
fn a_restart_grants_no_free_day() {
    let mut mailbox = Mailbox::new("a@contoso.example".into(), Arc::new(policy(&["3 requests / 24h"], 4)));
    let attempt = |hours_ago: u64, finished: bool| {
        let claimed_at = at(0).before(Duration::from_secs(hours_ago * 3_600));
        PastAttempt {
            key: OperationKey(hours_ago),
            lane: Lane::Foreground,
            cost: Cost::ONE_REQUEST,
            claimed_at,
            finished_at: finished.then(|| claimed_at.after(Duration::from_secs(1))),
            kind: OperationKind::Send,
            leaves: Leaves::All,
        }
    };
    mailbox.restore(T0, Vec::new(), &[attempt(30, true), attempt(20, true), attempt(1, false)]);
    assert_eq!(mailbox.facts(T0).windows[0].used, [2, 0]);
}

#[test]
fn an_attempt_that_was_live_in_an_earlier_life_is_unknown() {
    let mut rig = Rig::new(policy(&["30 requests / 1m"], 4));
    let restored = |key, state| RestoredOperation {
        operation: rig.operation(key, Lane::Foreground),
        state,
        next_at: None,
        rows: 1,
        changed_at: T0,
        maybe_sent: false,
        crashes: 0,
        requested: None,
        accepted: None,
    };
    let operations = vec![
        restored(2, OperationState::Queued),
        restored(1, OperationState::Attempting),
        restored(3, OperationState::Accepted),
    ];
    rig.mailbox.restore(T0, operations, &[]);
    rig.input(Input::AskShared(AskShared::OnTrouble));
    assert_eq!(rig.outcome(1), Some(&Outcome::Unknown));
    assert_eq!(rig.mailbox.state(OperationKey(3)), None, "what had ended stays ended");
    assert_eq!(rig.mailbox.state(OperationKey(1)), Some(OperationState::Unknown));
    // The answer of the earlier life's attempt arrives after all.
    rig.answer(1, Verdict::Accepted);
    assert!(matches!(rig.outcome(1), Some(Outcome::Accepted { .. })));
}

#[test]
fn a_permit_is_granted_and_settled_and_records_what_became_of_its_charge() {
    let mut rig = Rig::new(policy(&["1 requests / 1m"], 4));
    let permit = |rig: &Rig, key| Operation { kind: OperationKind::Permit, ..rig.operation(key, Lane::Foreground) };
    let (first, second) = (permit(&rig, 1), permit(&rig, 2));
    rig.input(Input::Enqueue(first));
    rig.input(Input::Enqueue(second));
    assert_eq!(rig.sent, [OperationKey(1)]);
    rig.answer(1, Verdict::Accepted);
    rig.input(Input::Cancel { key: OperationKey(2) });
    assert_eq!(rig.outcome(2), Some(&Outcome::Cancelled { maybe_sent: false }));
    assert_eq!(rig.records, [(OperationKey(1), Transition::Accept)], "the one that was never granted has no charge");
    assert_eq!(rig.mailbox.facts(rig.now).windows[0].used, [1, 0]);
    for (key, verdict, recorded) in [
        (3, Verdict::Transient { sent: Sent::No, retry_after: None }, Transition::Void),
        (4, Verdict::Unknown, Transition::Lose),
    ] {
        rig.now = at(1_000 * key);
        let next = permit(&rig, key);
        rig.input(Input::Enqueue(next));
        rig.answer(key, verdict);
        assert_eq!(rig.records.last(), Some(&(OperationKey(key), recorded)));
    }
}

#[test]
fn time_that_runs_backwards_frees_nothing() {
    let mut rig = Rig::new(policy(&["1 requests / 1m"], 4));
    rig.now = at(1_000);
    rig.submit(1, Lane::Foreground);
    rig.answer(1, Verdict::Accepted);
    rig.now = at(0);
    rig.submit(2, Lane::Foreground);
    assert_eq!(rig.sent.len(), 1);
    rig.now = at(1_061);
    rig.input(Input::Wake);
    assert_eq!(rig.sent.len(), 2);
}

#[test]
fn an_input_about_an_operation_that_is_not_here_changes_nothing() {
    let mut rig = Rig::new(policy(&["1 requests / 1m"], 4));
    rig.submit(1, Lane::Foreground);
    let key = OperationKey(9);
    for input in [
        Input::Granted { key },
        Input::Claimed { key },
        Input::ClaimFailed { key, failure: ClaimFailure::Transient },
        Input::Finished { key, answer: Verdict::Accepted.into() },
        Input::Resolved { key, accepted: true },
        Input::Cancel { key },
    ] {
        rig.input(input);
    }
    assert!(rig.outcomes.is_empty());
    rig.answer(1, Verdict::Accepted);
    rig.answer(1, Verdict::Accepted);
    assert_eq!(rig.outcomes.len(), 1, "an answer that comes twice counts once");
}

#[test]
fn a_suspended_mailbox_still_takes_operations_in() {
    let mut rig = Rig::new(policy(&["50 requests / 1m"], 1));
    rig.submit(1, Lane::Foreground);
    rig.answer(1, Verdict::Permanent { of: Subject::Account });
    let next = rig.operation(2, Lane::Foreground);
    assert_eq!(rig.mailbox.check(rig.now, &next, None), Ok(()), "a person may resume it before the deadline");
    let impatient = rig.mailbox.check(rig.now, &next, Some(Duration::from_secs(60)));
    assert!(matches!(impatient, Err(Refusal::WaitTooLong { .. })), "{impatient:?}");
}

#[test]
fn a_lane_that_fills_up_is_told_once_until_it_has_emptied_by_a_tenth() {
    let mut policy = policy(&["1 requests / 1h"], 4);
    policy.queue.foreground_max = 10;
    let mut rig = Rig::new(policy);
    for key in 1..=11 {
        rig.submit(key, Lane::Foreground);
    }
    rig.input(Input::Cancel { key: OperationKey(11) });
    rig.submit(12, Lane::Foreground);
    let full =
        |rig: &Rig| rig.events.iter().filter(|event| matches!(event, Event::QueueFull { depth: 10, .. })).count();
    assert_eq!(full(&rig), 1);
    for key in [12, 10, 9, 8] {
        rig.input(Input::Cancel { key: OperationKey(key) });
    }
    (20..=22).for_each(|key| rig.submit(key, Lane::Foreground));
    assert_eq!(full(&rig), 2);
}

#[test]
fn plain_sends_have_nothing_to_remember_and_a_cooldown_is_told_when_it_changes_and_not_per_send() {
    let mut rig = Rig::new(policy(&["1000 requests / 1m"], 0));
    let told = |rig: &mut Rig| {
        let told = std::mem::take(&mut rig.others).into_iter().filter(|effect| matches!(effect, Effect::Remember(_)));
        told.count()
    };
    for key in 1..=50 {
        rig.submit(key, Lane::Foreground);
        rig.answer(key, Verdict::Accepted);
    }
    assert_eq!(told(&mut rig), 0);
    rig.submit(51, Lane::Foreground);
    let throttle = Throttle { retry_after: Some(Duration::from_secs(10)), scope: None, kind: ThrottleKind::Rate };
    rig.answer(51, Verdict::Throttled(throttle));
    assert_eq!(told(&mut rig), 1, "it has opened");
    rig.sent.clear();
    (52..=300).for_each(|key| rig.submit(key, Lane::Foreground));
    assert_eq!(told(&mut rig), 0);
    rig.accept_until(at(200));
    assert_eq!(rig.outcomes.len(), 300);
    assert_eq!(told(&mut rig), 3, "its chain has ended, the ramp begins, and ends");
    rig.accept_until(at(10_000));
    assert_eq!(told(&mut rig), 0, "what ends by itself is forgotten by itself");
}

#[test]
fn what_ends_with_an_attempt_in_flight_is_no_known_wait() {
    let mut rig = Rig::new(policy(&["100 requests / 1m"], 4));
    (1..=4).for_each(|key| rig.submit(key, Lane::Foreground));
    let soon = Operation { deadline: at(30), ..rig.operation(5, Lane::Foreground) };
    assert_eq!(rig.mailbox.check(T0, &soon, Some(Duration::from_secs(5))), Ok(()), "a slot may be free at any moment");
    // The window is full of what is in flight: nothing is known of its end either.
    let mut rig = Rig::new(policy(&["2 requests / 1s"], 4));
    (1..=2).for_each(|key| rig.submit(key, Lane::Foreground));
    let soon = Operation { deadline: at(30), ..rig.operation(5, Lane::Foreground) };
    assert_eq!(rig.mailbox.check(T0, &soon, Some(Duration::from_secs(5))), Ok(()));
    // A probe's token is no wait.
    let mut rig = Rig::new(policy(&["100 requests / 1m"], 4));
    rig.submit(1, Lane::Foreground);
    rig.answer(1, throttled(Some(60)));
    rig.submit(2, Lane::Foreground);
    rig.now = rig.mailbox.poll_deadline().expect("the cooldown ends");
    rig.input(Input::Wake);
    assert_eq!(rig.mailbox.explain(rig.now, Some(OperationKey(2)))[0].wall, Wall::Probe);
    let next = Operation { deadline: rig.now.after(Duration::from_secs(5)), ..rig.operation(3, Lane::Foreground) };
    assert_eq!(rig.mailbox.check(rig.now, &next, Some(Duration::from_secs(1))), Ok(()));
}

#[test]
fn an_instant_that_is_known_binds_before_one_that_is_only_a_bound() {
    let mut rig = Rig::new(policy(&["4 requests / 1m", "1000 requests / 1h"], 2));
    (1..=2).for_each(|key| rig.submit(key, Lane::Foreground));
    (1..=2).for_each(|key| rig.answer(key, Verdict::Accepted));
    rig.now = at(20);
    (3..=5).for_each(|key| rig.submit(key, Lane::Foreground));
    let found = rig.mailbox.explain(rig.now, Some(OperationKey(5)));
    let of = |wall| found.iter().find(|constraint| constraint.wall == wall).expect("it waits for that");
    let window = of(Wall::Window { unit: Unit::Requests, seconds: 60 });
    assert!(of(Wall::InFlight).ready_at > window.ready_at, "the bound is later: {found:?}");
    assert!(window.binding && found.iter().filter(|constraint| constraint.binding).count() == 1, "{found:?}");
}

#[test]
fn a_wait_at_the_shared_scopes_counts_at_the_door() {
    let rig = Rig::new(policy(&["100 requests / 1m"], 4));
    let scope = crate::engine::scope::ScopeKind::Application;
    let cooldown = [crate::engine::constraint::Constraint::exact(Wall::Cooldown, scope, at(600))];
    let next = rig.operation(1, Lane::Foreground);
    let check =
        |operation: &Operation, most| rig.mailbox.check_behind(T0, operation, most, &[Coming::default(); 2], &cooldown);
    assert_eq!(check(&next, None), Ok(()));
    let refusal = check(&next, Some(Duration::from_secs(5)));
    let Err(Refusal::WaitTooLong { retry_after, constraint }) = refusal else { panic!("{refusal:?}") };
    assert_eq!((retry_after, constraint.scope), (Duration::from_secs(600), scope));
    let late = Operation { deadline: at(60), ..next };
    assert!(matches!(check(&late, None), Err(Refusal::DeadlineTooEarly { .. })));
}

#[test]
fn what_the_shared_scopes_can_never_grant_ends_wherever_it_waits_for_them() {
    let mut rig = Rig::new(policy(&["100 requests / 1m"], 4));
    rig.input(Input::AskShared(AskShared::Always));
    (1..=3).for_each(|key| rig.submit(key, Lane::Foreground));
    let scope = crate::engine::scope::ScopeKind::Application;
    let constraint = crate::engine::constraint::Constraint::exact(Wall::Cooldown, scope, at(600));
    rig.input(Input::Waiting { key: OperationKey(2), until: at(600), constraint });
    rig.input(Input::Denied { key: OperationKey(1) });
    rig.input(Input::Denied { key: OperationKey(2) });
    let ended: Vec<_> = rig.outcomes.iter().map(|(key, outcome)| (key.0, outcome.clone())).collect();
    let exhausted = Outcome::Exhausted { attempts: 0, throttled: None, maybe_sent: false };
    assert_eq!(ended, [(1, exhausted.clone()), (2, exhausted)]);
    rig.input(Input::Granted { key: OperationKey(3) });
    assert_eq!(rig.sent, [OperationKey(3)]);
    assert_eq!(rig.mailbox.facts(rig.now).windows[0].used, [1, 0], "nothing stays charged for the others");
    rig.input(Input::Denied { key: OperationKey(3) });
    assert_eq!(rig.outcomes.len(), 2, "what is under way is judged by its answer");
}
