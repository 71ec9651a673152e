//! Holds that are lifted in part: the first pass, the rest waits, a throttle stops it.

use super::*;
use crate::engine::event::TripReason;
use crate::engine::mailbox::Pass;
use crate::engine::scope::Scope;

const THROUGH: OperationKey = OperationKey(2);

fn part(target: HoldTarget, until: Timestamp) -> Hold {
    Hold { target, until, pass: Pass::Through(THROUGH) }
}

/// Five operations of a campaign and a tenant, all held, and one of neither that has gone.
fn held(policy: MailboxPolicy, hold: Hold) -> Rig {
    let mut rig = Rig::new(policy);
    rig.input(Input::Hold(hold));
    for key in 1..=5 {
        let (tenant, campaign) = (Some("acme".into()), Some("spring".into()));
        let operation = Operation { tenant, campaign, ..rig.operation(key, Lane::Background) };
        rig.input(Input::Enqueue(operation));
    }
    assert!(rig.sent.is_empty(), "all of them are held");
    rig
}

/// What was told of the part that passes, since this was last asked.
fn told(rig: &mut Rig) -> Vec<u64> {
    let told = rig.others.drain(..).filter_map(|effect| match effect {
        Effect::Passing { through, left, .. } => {
            assert_eq!(through, THROUGH);
            Some(left)
        }
        _ => None,
    });
    told.collect()
}

fn targets() -> [HoldTarget; 4] {
    [HoldTarget::All, HoldTarget::Mailbox, HoldTarget::Tenant("acme".into()), HoldTarget::Campaign("spring".into())]
}

#[test]
fn the_first_go_and_are_counted_down_and_the_rest_stays_until_the_hold_is_lifted() {
    for target in targets() {
        let mut rig = held(policy(&[], 1), Hold::new(target.clone(), at(300)));
        rig.input(Input::Hold(part(target.clone(), at(300))));
        assert_eq!((told(&mut rig), &*rig.sent), (vec![2], &[OperationKey(1)][..]), "{target:?}");
        assert_eq!(rig.wall(3), Some(Wall::Widening), "{target:?}");
        rig.answer(1, Verdict::Accepted);
        assert_eq!((told(&mut rig), rig.sent.len()), (vec![1], 2), "{target:?}");
        rig.submit(6, Lane::Foreground);
        rig.answer(2, Verdict::Accepted);
        let stops_all = matches!(target, HoldTarget::All | HoldTarget::Mailbox);
        assert_eq!(rig.sent.len(), if stops_all { 2 } else { 3 }, "{target:?}: what comes later is among the rest");
        assert_eq!(told(&mut rig), [0]);
        if stops_all {
            rig.input(Input::Cancel { key: OperationKey(6) });
        } else {
            rig.answer(6, Verdict::Accepted);
        }
        rig.input(Input::Resume(target.clone()));
        let planned = rig.events.iter().filter(|event| matches!(event, Event::ResumePlanned { count: 3, .. })).count();
        assert_eq!(planned, 1, "{target:?}: the rest goes on as a wave: {:?}", rig.events);
        rig.accept_until(at(1));
        assert_eq!(rig.outcomes.len(), 6, "{target:?}");
        assert!(rig.mailbox.is_idle(), "{target:?}");
    }
}

#[test]
fn a_throttle_of_one_of_them_or_of_anything_beside_them_stops_the_part_at_once() {
    for target in targets() {
        let mut rig = held(policy(&["30 requests / 1m"], 1), Hold::new(target.clone(), at(300)));
        rig.input(Input::Hold(part(target.clone(), at(300))));
        rig.answer(1, throttled(Some(5)));
        let stopped = rig.others.iter().filter(|effect| {
            matches!(effect, Effect::Troubled { target: of, through: THROUGH, scope: Scope::Mailbox(_), reason: TripReason::Sustained429 } if *of == target)
        });
        assert_eq!(stopped.count(), 1, "{target:?}: {:?}", rig.others);
        rig.accept_until(at(299));
        assert_eq!(rig.sent.len() + rig.outcomes.len(), 0, "{target:?}: none of the first goes either");
        assert_eq!(rig.wall(2), Some(Wall::Hold), "{target:?}");
        rig.accept_until(at(400));
        assert_eq!(rig.outcomes.len(), 5, "{target:?}: the hold's own end is what it was");
    }
}

#[test]
fn what_a_shared_scope_says_stops_the_part_where_that_scope_is_concerned() {
    let reason = TripReason::Health;
    let (acme, other) = (Scope::Tenant("acme".into()), Scope::Tenant("umbrella".into()));
    for (target, scope, stops) in [
        (HoldTarget::Mailbox, Scope::Application, true),
        (HoldTarget::Campaign("spring".into()), Scope::Application, true),
        (HoldTarget::Campaign("spring".into()), acme.clone(), true),
        (HoldTarget::Tenant("acme".into()), acme.clone(), true),
        (HoldTarget::Mailbox, acme, true),
        (HoldTarget::All, other.clone(), true),
        (HoldTarget::Mailbox, other.clone(), false),
        (HoldTarget::Tenant("acme".into()), other.clone(), false),
        (HoldTarget::Campaign("spring".into()), other, false),
        (HoldTarget::Campaign("summer".into()), Scope::Application, false),
    ] {
        let mut rig = held(policy(&[], 1), Hold::new(HoldTarget::Mailbox, at(300)));
        rig.input(Input::Hold(part(target.clone(), at(300))));
        rig.input(Input::Troubled { scope: scope.clone(), reason });
        let stopped = rig.others.iter().any(|effect| matches!(effect, Effect::Troubled { .. }));
        assert_eq!(stopped, stops, "{target:?} {scope}");
    }
}

#[test]
fn a_provider_that_fails_in_a_row_stops_the_part_and_a_persons_trip_does_not() {
    let failing = Verdict::Transient { sent: Sent::Maybe, retry_after: None };
    let mut rig = held(policy(&[], 4), Hold::new(HoldTarget::Mailbox, at(3_000)));
    rig.input(Input::Hold(Hold { pass: Pass::Through(OperationKey(5)), ..part(HoldTarget::Mailbox, at(3_000)) }));
    rig.input(Input::Trip { until: at(10) });
    assert!(!rig.others.iter().any(|effect| matches!(effect, Effect::Troubled { .. })));
    rig.input(Input::CloseBreaker);
    for _ in 0..20 {
        let Some(key) = rig.sent.pop() else {
            let next = rig.mailbox.poll_deadline().expect("retries");
            rig.now = next;
            rig.input(Input::Wake);
            continue;
        };
        rig.answer(key.0, failing.clone());
    }
    let health = |effect: &Effect| matches!(effect, Effect::Troubled { reason: TripReason::Health, .. });
    assert!(rig.others.iter().any(health), "{:?}", rig.others);
}

#[test]
fn one_that_is_cancelled_set_aside_or_out_of_time_waits_no_longer_and_an_unknown_neither() {
    let mut rig = held(policy(&[], 4), Hold::new(HoldTarget::Mailbox, at(300)));
    rig.input(Input::Hold(Hold { pass: Pass::Nothing, ..part(HoldTarget::Campaign("spring".into()), at(300)) }));
    rig.input(Input::Hold(Hold { pass: Pass::Through(OperationKey(4)), ..part(HoldTarget::Mailbox, at(300)) }));
    let left = |rig: &mut Rig| {
        let told = rig.others.drain(..).filter_map(|effect| match effect {
            Effect::Passing { left, .. } => Some(left),
            _ => None,
        });
        told.collect::<Vec<_>>().pop()
    };
    assert_eq!(left(&mut rig), Some(4), "another hold stands before them");
    rig.input(Input::Cancel { key: OperationKey(1) });
    assert_eq!(left(&mut rig), Some(3));
    rig.input(Input::Quarantine { key: OperationKey(2) });
    assert_eq!(left(&mut rig), Some(2));
    rig.input(Input::Resume(HoldTarget::Campaign("spring".into())));
    assert_eq!(rig.sent, [OperationKey(3), OperationKey(4)]);
    rig.answer(3, Verdict::Unknown);
    assert_eq!(left(&mut rig), Some(1), "nobody waits for what its look-ups find");
    rig.answer(4, Verdict::Permanent { of: Subject::Message });
    assert_eq!(left(&mut rig), Some(0));
}

#[test]
fn one_that_is_rejected_lost_or_exhausted_is_told_once_and_one_that_is_cancelled_or_was_lost_before_is_not() {
    let mut rig = Rig::new(policy(&[], 8));
    rig.submit(1, Lane::Background);
    rig.answer(1, Verdict::Unknown);
    rig.input(Input::Hold(Hold::new(HoldTarget::Mailbox, at(90_000))));
    for key in 2..=6 {
        rig.submit(key, Lane::Background);
    }
    rig.input(Input::Hold(Hold { pass: Pass::Through(OperationKey(5)), ..part(HoldTarget::Mailbox, at(90_000)) }));
    let failed = |rig: &mut Rig| {
        let told = rig.others.drain(..).filter_map(|effect| match effect {
            Effect::Failed { target: HoldTarget::Mailbox, through: OperationKey(5), key } => Some(key.0),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    rig.answer(2, Verdict::Accepted);
    rig.input(Input::Cancel { key: OperationKey(5) });
    assert!(failed(&mut rig).is_empty());
    rig.answer(3, Verdict::Permanent { of: Subject::Message });
    rig.answer(4, Verdict::Unknown);
    assert_eq!(failed(&mut rig), [3, 4]);
    // The unknown from before is given up, and the last one, which is not of the part, runs out of time.
    rig.accept_until(at(89_999));
    assert!(failed(&mut rig).is_empty(), "an unknown has counted, or is not of the part");
}

#[test]
fn a_part_of_a_hold_ends_with_the_hold() {
    let target = HoldTarget::Campaign("spring".into());
    let mut rig = held(policy(&[], 1), Hold::new(target.clone(), at(300)));
    rig.input(Input::Hold(part(target, at(300))));
    rig.accept_until(at(300).before(Duration::from_micros(1)));
    assert_eq!(rig.outcomes.len(), 2, "denied until exactly then");
    rig.accept_until(at(300));
    assert_eq!(rig.outcomes.len(), 5);
}

#[test]
fn a_restored_mailbox_counts_those_that_still_wait_and_not_those_that_are_due_later() {
    let mut rig = Rig::new(policy(&[], 1));
    rig.input(Input::Hold(Hold { pass: Pass::Through(OperationKey(3)), ..part(HoldTarget::Mailbox, at(300)) }));
    rig.others.clear();
    let restored = |key: u64, state, not_before: Timestamp| {
        let operation = Operation { not_before, ..rig.operation(key, Lane::Background) };
        RestoredOperation {
            operation,
            state,
            next_at: None,
            rows: 0,
            changed_at: T0,
            maybe_sent: false,
            crashes: 0,
            requested: None,
            accepted: None,
        }
    };
    let operations = vec![
        restored(1, OperationState::Queued, T0),
        restored(2, OperationState::Attempting, T0),
        restored(3, OperationState::Admitted, at(9_000)),
        restored(4, OperationState::Queued, T0),
    ];
    rig.mailbox.restore(T0, operations, &[]);
    rig.input(Input::Wake);
    let told: Vec<_> = rig.others.iter().filter(|effect| matches!(effect, Effect::Passing { left: 1, .. })).collect();
    assert_eq!(told.len(), 1, "{:?}", rig.others);
    assert_eq!(rig.sent, [OperationKey(1)]);
}

#[test]
fn what_the_shared_scopes_are_asked_for_when_a_hold_comes_does_not_slip_past_it() {
    let mut rig = Rig::new(policy(&[], 4));
    rig.input(Input::AskShared(AskShared::Always));
    for key in 1..=3 {
        rig.submit(key, Lane::Background);
    }
    let scope = crate::engine::scope::ScopeKind::Application;
    let constraint = crate::engine::constraint::Constraint::exact(Wall::Hold, scope, at(300)).as_binding();
    rig.input(Input::Waiting { key: OperationKey(1), until: at(300), constraint });
    let hold = Hold { pass: Pass::Through(OperationKey(1)), ..part(HoldTarget::All, at(300)) };
    rig.input(Input::Hold(hold));
    rig.input(Input::Waiting { key: OperationKey(2), until: at(300), constraint });
    rig.input(Input::Granted { key: OperationKey(3) });
    assert!(rig.sent.is_empty());
    let returned = rig.others.iter().filter(|effect| matches!(effect, Effect::Return { .. })).count();
    assert_eq!(returned, 2, "both give back what they asked for");
    rig.input(Input::Granted { key: OperationKey(1) });
    assert_eq!(rig.sent, [OperationKey(1)]);
    rig.answer(1, Verdict::Accepted);
    assert_eq!(rig.mailbox.facts(rig.now).in_flight, [0, 0]);
}
