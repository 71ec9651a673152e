//! Who is judged by what: only the provider's word, and the way to it, feeds a breaker.

use super::*;

fn settled(rig: &Rig) -> usize {
    rig.others.iter().filter(|effect| matches!(effect, Effect::Settle { .. })).count()
}

fn opened(rig: &Rig) -> bool {
    rig.events.iter().any(|event| matches!(event, Event::BreakerOpened { .. }))
}

fn unsent() -> Verdict {
    Verdict::Transient { sent: Sent::No, retry_after: None }
}

#[test]
fn what_ended_on_our_side_judges_nobody() {
    for kind in [OperationKind::Permit, OperationKind::Send] {
        let mut rig = Rig::new(policy(&["50 requests / 1m"], 0));
        for key in 1..=20 {
            rig.now = at(key * 100);
            let mut operation = rig.operation(key, Lane::Foreground);
            operation.kind = kind;
            rig.input(Input::Enqueue(operation));
            assert_eq!(rig.sent.last(), Some(&OperationKey(key)), "{kind:?}");
            // The second half of the permits is dropped unsettled.
            if kind == OperationKind::Permit && key > 10 {
                rig.input(Input::Abandoned { key: OperationKey(key) });
            } else {
                rig.input(Input::Unsent { key: OperationKey(key) });
            }
            if kind == OperationKind::Send {
                rig.input(Input::Cancel { key: OperationKey(key) });
            }
        }
        assert!(!opened(&rig), "{kind:?}: {:?}", rig.events);
        assert_eq!(settled(&rig), 0, "{kind:?}: the application hears nothing of it");
        let kept = rig.records.iter().filter(|(_, transition)| *transition == Transition::Lose).count();
        assert_eq!(kept, if kind == OperationKind::Permit { 10 } else { 0 }, "what was dropped stays charged");
    }
}

#[test]
fn what_ended_unsent_on_our_side_gives_a_shared_reservation_back() {
    let mut rig = Rig::new(policy(&["1 requests / 1h"], 1));
    rig.input(Input::AskShared(AskShared::Always));
    rig.submit(1, Lane::Foreground);
    rig.input(Input::Granted { key: OperationKey(1) });
    rig.others.clear();
    rig.input(Input::Unsent { key: OperationKey(1) });
    assert!(matches!(rig.others[..], [Effect::Return { key: OperationKey(1), .. }]), "{:?}", rig.others);
    assert_eq!(rig.records.last(), Some(&(OperationKey(1), Transition::Void)));
    // One an hour, and it may go again: the charge came back here, too.
    rig.now = at(120);
    rig.input(Input::Wake);
    assert!(matches!(rig.others[..], [_, Effect::Reserve { .. }]), "{:?}", rig.others);
}

#[test]
fn five_connections_in_a_row_that_failed_are_the_providers() {
    let mut rig = Rig::new(policy(&["50 requests / 1m"], 0));
    for key in 1..=5 {
        rig.submit(key, Lane::Foreground);
        rig.answer(key, unsent());
    }
    assert!(opened(&rig));
    assert_eq!(settled(&rig), 5);
}

#[test]
fn the_success_after_a_connection_that_failed_is_told_and_no_other() {
    let mut rig = Rig::new(policy(&["50 requests / 1m"], 0));
    for (key, verdict, told) in
        [(1, Verdict::Accepted, 0), (2, unsent(), 1), (3, Verdict::Accepted, 2), (4, Verdict::Accepted, 2)]
    {
        rig.submit(key, Lane::Foreground);
        rig.answer(key, verdict);
        assert_eq!(settled(&rig), told, "after {key}");
    }
}

#[test]
fn credentials_without_a_token_give_the_charge_back_and_everything_resumed_reaches_the_mailbox() {
    let mut rig = Rig::new(policy(&["1 requests / 24h"], 1));
    rig.submit(1, Lane::Foreground);
    rig.answer(1, Verdict::Permanent { of: Subject::Credentials });
    assert!(rig.outcome(1).is_none(), "it waits for a person");
    assert_eq!(rig.records.last(), Some(&(OperationKey(1), Transition::Void)));
    rig.now = at(3_600);
    rig.input(Input::Wake);
    assert_eq!(rig.sent.len(), 1, "suspended");
    rig.input(Input::Unsuspend);
    assert_eq!(rig.sent.len(), 2, "and the one request of the day was not spent");
}

#[test]
fn an_attempt_from_before_the_cooldown_that_never_left_frees_no_probe() {
    let mut rig = Rig::new(policy(&["50 requests / 1m"], 0));
    rig.input(Input::AskShared(AskShared::Always));
    for key in 1..=2 {
        rig.submit(key, Lane::Foreground);
    }
    // The second one is still asked for when the first is throttled.
    rig.input(Input::Granted { key: OperationKey(1) });
    rig.answer(1, Verdict::Throttled(Throttle { retry_after: None, scope: None, kind: ThrottleKind::Rate }));
    rig.submit(3, Lane::Foreground);
    rig.now = at(120);
    rig.input(Input::Wake);
    rig.others.clear();
    rig.input(Input::Cancel { key: OperationKey(2) });
    let asked = |rig: &Rig| rig.others.iter().filter(|effect| matches!(effect, Effect::Reserve { .. })).count();
    assert_eq!(asked(&rig), 0, "one probes already, and is not over");
}
