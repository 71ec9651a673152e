//! Deadlines of an engine that is gone: what is told then is what the next engine makes of it.

use super::*;
use crate::engine::mailbox::Vigil;
use crate::engine::operation::Requested;

const END: u64 = 600;

/// One connection: 1 is attempting, 2 waits in its lane, 3 for its instant, 4 was throttled, 5 is unknown, 6 a permit.
fn busy(policy: MailboxPolicy) -> Rig {
    let mut rig = Rig::new(MailboxPolicy { scope: super::policy(&["100 requests / 1m"], 1).scope, ..policy });
    let submit = |rig: &mut Rig, key: u64, not_before: u64, kind: OperationKind| {
        let operation = rig.operation(key, Lane::Foreground);
        let (not_before, deadline) = (at(not_before), at(END + key));
        rig.input(Input::Enqueue(Operation { not_before, deadline, kind, ..operation }));
    };
    submit(&mut rig, 5, 0, OperationKind::Send);
    rig.answer(5, Verdict::Unknown);
    rig.sent.clear();
    // The lost attempt may still be executed: its connection is free then.
    rig.accept_until(at(66));
    submit(&mut rig, 4, 0, OperationKind::Send);
    rig.answer(4, throttled(Some(10)));
    submit(&mut rig, 3, 500, OperationKind::Send);
    rig.now = at(80);
    rig.input(Input::Wake);
    rig
}

fn all(mut vigil: Vigil) -> Vec<(u64, Outcome)> {
    let mut told = Vec::new();
    while let Some(next) = vigil.next_at() {
        assert_eq!(vigil.pop(next.before(Duration::from_micros(1))), None, "not a microsecond early");
        told.extend(vigil.pop(next).map(|(key, outcome)| (key.0, outcome)));
    }
    told
}

const fn exhausted(throttled: Option<ThrottleKind>, maybe_sent: bool) -> Outcome {
    Outcome::Exhausted { attempts: 0, throttled, maybe_sent }
}

#[test]
fn at_its_deadline_each_operation_has_the_end_that_the_next_engine_gives_it() {
    let mut rig = busy(policy(&[], 1));
    assert_eq!(rig.sent.pop(), Some(OperationKey(4)), "the probe after its throttle is out");
    rig.submit(6, Lane::Foreground);
    let permit = Operation { kind: OperationKind::Permit, ..rig.operation(7, Lane::Foreground) };
    rig.input(Input::Enqueue(permit));
    let mut expected =
        vec![(3, exhausted(None, false)), (4, exhausted(Some(ThrottleKind::Rate), true)), (5, exhausted(None, true))];
    let told = all(rig.mailbox.vigil());
    // 6 has a day, and comes last; the permit ends with its engine.
    assert_eq!(told.last(), Some(&(6, exhausted(None, false))));
    assert_eq!(told[..told.len() - 1], expected);
    // The next engine, built when all of them are over.
    let mut next = Rig::new(policy(&["100 requests / 1m"], 1));
    next.now = at(2_000);
    let restored = [(3, OperationState::Admitted), (4, OperationState::Attempting), (5, OperationState::Unknown)];
    let restored = restored.map(|(key, state)| {
        let operation = Operation { deadline: at(END + key), ..rig.operation(key, Lane::Foreground) };
        let rows = u32::from(state != OperationState::Admitted);
        let (next_at, changed_at, maybe_sent, crashes, requested, accepted) = (None, T0, false, 0, None, None);
        RestoredOperation { operation, state, next_at, rows, changed_at, maybe_sent, crashes, requested, accepted }
    });
    next.mailbox.restore(next.now, restored.to_vec(), &[]);
    next.input(Input::AskShared(AskShared::OnTrouble));
    assert!(next.sent.is_empty(), "nothing is sent after its deadline");
    // What throttled it is not in the store.
    expected[1].1 = exhausted(None, true);
    for (key, outcome) in expected {
        assert_eq!(next.outcome(key), Some(&outcome), "{key}");
    }
}

#[test]
fn where_look_ups_or_a_person_decide_nobody_knows_at_the_deadline() {
    let mut policy = policy(&[], 1);
    policy.retry.duplicates = DuplicatePolicy::AtLeastOnce;
    let rig = busy(policy);
    let told = all(rig.mailbox.vigil());
    assert_eq!(told, [(3, exhausted(None, false)), (4, Outcome::Unknown), (5, Outcome::Unknown)]);
    let mut rig = busy(super::policy(&[], 1));
    rig.input(Input::Cancel { key: OperationKey(5) });
    assert_eq!(all(rig.mailbox.vigil()).last(), Some(&(5, Outcome::Unknown)), "it ends as cancelled");
}

#[test]
fn of_two_vigils_the_later_one_is_believed_and_the_rest_of_both_is_kept() {
    let mut rig = busy(policy(&[], 1));
    let earlier = rig.mailbox.vigil();
    rig.answer(4, throttled(None));
    let later = rig.mailbox.vigil();
    let only = Rig::new(policy(&[], 1)).mailbox.vigil();
    assert_eq!(all(only.after(earlier.clone())).len(), 3);
    let told = all(later.after(earlier));
    assert_eq!(told.len(), 3);
    assert_eq!(told[1], (4, exhausted(Some(ThrottleKind::Rate), false)), "its attempt has ended");
}

#[test]
fn what_was_taken_while_there_was_no_engine_is_accepted_before_anything_else_is_judged() {
    let mut rig = Rig::new(policy(&["100 requests / 1m"], 4));
    let restored = |key: u64, state| RestoredOperation {
        operation: Operation { deadline: at(END), ..rig.operation(key, Lane::Foreground) },
        state,
        next_at: None,
        rows: 2,
        changed_at: T0,
        maybe_sent: false,
        crashes: u32::MAX,
        requested: Some(Requested::Cancel),
        accepted: Some(Answer { provider_id: Some("p".to_owned()), ..Verdict::Accepted.into() }),
    };
    let operations = vec![restored(1, OperationState::Attempting), restored(2, OperationState::Unknown)];
    rig.now = at(END + 1);
    rig.mailbox.restore(rig.now, operations, &[]);
    rig.input(Input::AskShared(AskShared::OnTrouble));
    assert_eq!(rig.outcome(1), Some(&Outcome::Accepted { provider_id: Some("p".to_owned()), attempts: 2 }));
    assert!(!matches!(rig.outcome(2), Some(Outcome::Accepted { .. })), "the answer was another attempt's");
}
