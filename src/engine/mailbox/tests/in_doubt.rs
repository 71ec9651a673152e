//! What may have been sent ends in time, and says so for good.

use std::num::NonZeroU32;

use super::*;
use crate::engine::mailbox::RestoredOperation;
use crate::engine::policy::DuplicatePolicy;

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
    assert_eq!(outlast(at_least_once(), true).0, [Outcome::Cancelled]);
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
