//! What is held waits, and comes back.

use super::*;

#[test]
fn a_held_campaign_waits_and_returns_in_its_old_order() {
    let mut rig = Rig::new(policy(&["1000 requests / 1m"], 1));
    for key in 1..=6 {
        let mut operation = rig.operation(key, Lane::Foreground);
        operation.campaign = (key % 2 == 0).then(|| "spring".into());
        rig.input(Input::Enqueue(operation));
    }
    let target = HoldTarget::Campaign("spring".into());
    rig.input(Input::Hold(Hold::new(target.clone(), at(300))));
    assert_eq!(rig.wall(4), Some(Wall::Hold));
    rig.answer(1, Verdict::Accepted);
    assert_eq!(rig.sent, [OperationKey(1), OperationKey(3)]);
    rig.input(Input::Resume(target));
    for key in [3, 2, 4, 5, 6] {
        rig.answer(key, Verdict::Accepted);
    }
    assert_eq!(rig.sent, [1, 3, 2, 4, 5, 6].map(OperationKey));
}

#[test]
fn a_hold_ends_by_itself() {
    let mut rig = Rig::new(policy(&["1000 requests / 1m"], 1));
    rig.input(Input::Hold(Hold::new(HoldTarget::Mailbox, at(300))));
    rig.submit(1, Lane::Foreground);
    assert_eq!(rig.mailbox.poll_deadline(), Some(at(300)));
    rig.accept_until(at(299));
    assert!(rig.outcome(1).is_none());
    rig.accept_until(at(300));
    assert!(matches!(rig.outcome(1), Some(Outcome::Accepted { .. })));
}
