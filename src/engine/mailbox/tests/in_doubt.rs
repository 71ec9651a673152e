//! What may have been sent ends in time, and says so for good.

use std::num::NonZeroU32;

use super::*;
use crate::engine::mailbox::RestoredOperation;
use crate::engine::policy::{DuplicatePolicy, GuardPolicy};

fn at_least_once() -> MailboxPolicy {
    let mut policy = policy(&["50 requests / 1h"], 4);
    policy.retry.duplicates = DuplicatePolicy::AtLeastOnce;
    policy
}

#[test]
fn an_attempt_that_outlasts_the_deadline_ends_at_its_own_end_where_nothing_may_follow() {
    let outlast = |policy: MailboxPolicy, cancelled: bool| {
        let mut rig = Rig::new(policy);
        let operation = Operation { deadline: at(30), ..rig.operation(1, Lane::Foreground) };
        rig.input(Input::Enqueue(operation));
        rig.now = at(60);
        rig.input(Input::Wake);
        if cancelled {
            rig.input(Input::Cancel { key: OperationKey(1) });
        }
        assert_eq!(rig.outcome(1), None, "it is under way");
        rig.answer(1, Verdict::Unknown);
        let outcomes: Vec<_> = rig.outcomes.iter().map(|(_, outcome)| outcome.clone()).collect();
        (outcomes, rig.mailbox.poll_deadline())
    };
    let exhausted = Outcome::Exhausted { attempts: 0, throttled: None, maybe_sent: true };
    assert_eq!(outlast(policy(&["50 requests / 1h"], 4), false).0, [exhausted]);
    let (outcomes, next) = outlast(at_least_once(), false);
    assert_eq!(outcomes, [Outcome::Unknown], "the look-ups decide");
    assert!(next.is_some(), "and are made");
    assert_eq!(outlast(at_least_once(), true).0, [Outcome::Cancelled { maybe_sent: true }]);
}

#[test]
fn what_may_have_been_sent_says_so_after_a_person_let_it_go_on() {
    let mut policy = policy(&["50 requests / 1h"], 4);
    policy.retry.attempts_max = NonZeroU32::new(1).expect("one");
    for maybe_sent in [false, true] {
        let mut rig = Rig::new(policy.clone());
        let restored = RestoredOperation {
            operation: rig.operation(1, Lane::Foreground),
            state: OperationState::Quarantined,
            next_at: None,
            rows: 1,
            changed_at: T0,
            maybe_sent,
            crashes: 0,
            requested: None,
            accepted: None,
        };
        rig.input(Input::Release(Box::new(restored)));
        rig.answer(1, Verdict::Transient { sent: Sent::Maybe, retry_after: None });
        rig.run_until(at(7_200));
        let Some(Outcome::Exhausted { maybe_sent: told, .. }) = rig.outcome(1) else { panic!("{:?}", rig.outcome(1)) };
        assert_eq!(*told, maybe_sent);
    }
}

#[test]
fn a_cancelled_operation_says_whether_it_may_have_been_sent() {
    // How its attempt ended that was under way, and whether that leaves a doubt.
    let no_answer = |seconds| (Verdict::Unknown, seconds);
    let refused = Verdict::Transient { sent: Sent::Maybe, retry_after: None };
    let unsent = Verdict::Transient { sent: Sent::No, retry_after: None };
    let cases =
        [(no_answer(7_200), true), ((refused, 60), false), ((unsent, 60), false), ((throttled(None), 60), false)];
    for ((verdict, seconds), maybe_sent) in cases {
        let mut rig = Rig::new(policy(&["50 requests / 1h"], 4));
        rig.submit(1, Lane::Foreground);
        rig.input(Input::Cancel { key: OperationKey(1) });
        rig.answer(1, verdict.clone());
        rig.run_until(at(seconds));
        assert_eq!(rig.outcome(1), Some(&Outcome::Cancelled { maybe_sent }), "{verdict:?}");
    }
    let mut rig = Rig::new(policy(&["1 requests / 1h"], 4));
    rig.submit(1, Lane::Foreground);
    rig.submit(2, Lane::Foreground);
    rig.input(Input::Cancel { key: OperationKey(2) });
    assert_eq!(rig.outcome(2), Some(&Outcome::Cancelled { maybe_sent: false }), "it waited");
}

#[test]
fn what_a_person_gives_up_for_good_says_what_it_was_set_aside_with() {
    for maybe_sent in [false, true] {
        let mut rig = Rig::new(at_least_once());
        let restored = RestoredOperation {
            operation: rig.operation(1, Lane::Foreground),
            state: OperationState::Quarantined,
            next_at: None,
            rows: 1,
            changed_at: T0,
            maybe_sent,
            crashes: 0,
            requested: None,
            accepted: None,
        };
        rig.input(Input::Discard(Box::new(restored)));
        assert_eq!(rig.outcome(1), Some(&Outcome::Cancelled { maybe_sent }));
    }
}

#[test]
fn what_a_process_died_with_is_not_sent_again_by_a_person_while_its_attempt_may_be_on_its_way() {
    let live_until = at(5).after(GuardPolicy::default().request_deadline_max);
    for (state, crashes) in
        [(OperationState::Attempting, 3), (OperationState::Attempting, 0), (OperationState::Unknown, 0)]
    {
        let mut rig = Rig::new(policy(&["30 requests / 1m"], 4));
        let restored = RestoredOperation {
            operation: rig.operation(1, Lane::Foreground),
            state,
            next_at: None,
            rows: 1,
            changed_at: at(5),
            maybe_sent: false,
            crashes,
            requested: None,
            accepted: None,
        };
        rig.now = at(10);
        rig.mailbox.restore(rig.now, vec![restored.clone()], &[]);
        if crashes == 0 {
            rig.mailbox.handle(rig.now, Input::Quarantine { key: OperationKey(1) });
        }
        let records = std::iter::from_fn(|| rig.mailbox.poll_effect()).filter_map(|effect| match effect {
            Effect::Record(record) => Some(record),
            _ => None,
        });
        let set_aside = records.last().expect("it was set aside");
        assert_eq!((set_aside.state, set_aside.next_at), (OperationState::Quarantined, Some(live_until)), "{state}");
        let (state, maybe_sent) = (set_aside.state, set_aside.maybe_sent);
        let next_at = set_aside.next_at;
        rig.input(Input::Release(Box::new(RestoredOperation { state, next_at, maybe_sent, ..restored })));
        rig.run_until(live_until.before(Duration::from_millis(1)));
        assert!(rig.sent.is_empty(), "one at a time");
        rig.run_until(live_until.after(Duration::from_secs(1)));
        assert_eq!(rig.sent.len(), 1);
    }
}
