//! Owners that share a mailbox: a part of each window, a part of what waits, and nothing without a lease.

use super::*;
use crate::engine::invariants::lanes::window_holds;
use crate::engine::tenure::{Reach, Tenure};

fn owner(lease_until: Timestamp) -> Tenure {
    Tenure { lease_until, unclean_at: None, failover_at: None, reach: Reach::Reachable, members: 2 }
}

const FAR: u64 = 100_000;

/// Accepts everything up to `until`, and notes when each was sent.
fn drive(rig: &mut Rig, until: Timestamp, arrivals: &mut Vec<(Timestamp, u64)>) {
    loop {
        while let Some(key) = rig.sent.pop() {
            arrivals.push((rig.now, 1));
            rig.input(Input::Finished { key, answer: Verdict::Accepted.into() });
        }
        match rig.mailbox.poll_deadline() {
            Some(next) if next <= until => {
                rig.now = rig.now.max(next);
                rig.input(Input::Wake);
            }
            _ => break,
        }
    }
    rig.now = rig.now.max(until);
}

#[test]
fn nothing_leaves_without_a_lease_and_explain_says_so() {
    let mut rig = Rig::new(policy(&["4 requests / 1m"], 4));
    rig.input(Input::Own(owner(at(10))));
    rig.submit(1, Lane::Foreground);
    assert_eq!(rig.sent.len(), 1);
    rig.now = at(10);
    rig.submit(2, Lane::Foreground);
    assert_eq!(rig.sent.len(), 1, "the lease has run out");
    assert_eq!(rig.wall(2), Some(Wall::Ownership));
    rig.input(Input::Own(owner(at(30))));
    assert_eq!(rig.sent.len(), 2);
}

#[test]
fn a_row_that_was_written_when_the_lease_had_run_out_is_void() {
    let mut engine = Mailbox::new("noreply@contoso.example".into(), Arc::new(policy(&["4 requests / 1m"], 4)));
    engine.handle(T0, Input::AskShared(AskShared::OnTrouble));
    engine.handle(T0, Input::Own(owner(at(10))));
    engine.handle(T0, Input::Enqueue(Rig::new(policy(&[], 1)).operation(1, Lane::Foreground)));
    engine.handle(at(11), Input::Claimed { key: OperationKey(1) });
    let effects: Vec<_> = std::iter::from_fn(|| engine.poll_effect()).collect();
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Send { .. })), "{effects:?}");
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::Record(record) if record.transition == Transition::Void))
    );
}

#[test]
fn two_owners_in_doubt_share_what_waits_and_send_nothing_twice() {
    let fill = |rig: &mut Rig| (1..=40).for_each(|key| rig.submit(key, Lane::Foreground));
    let (mut cut_off, mut successor) = (Rig::new(policy(&[], 1_000)), Rig::new(policy(&[], 1_000)));
    cut_off.input(Input::Own(Tenure { reach: Reach::CutOff, ..owner(at(10)) }));
    successor.now = at(1);
    successor.input(Input::Hold(Hold::new(HoldTarget::Mailbox, at(20))));
    fill(&mut cut_off);
    fill(&mut successor);
    successor.now = at(20);
    successor.input(Input::Own(Tenure { unclean_at: Some(at(20)), ..owner(at(FAR)) }));
    successor.input(Input::Resume(HoldTarget::Mailbox));
    let mut all = [cut_off.sent.clone(), successor.sent.clone()].concat();
    all.sort_unstable();
    assert_eq!(all, (1..=40).map(OperationKey).collect::<Vec<_>>());
    let left = cut_off.sent[0];
    assert_eq!(successor.wall(left.0), Some(Wall::Ownership));
    let later = at(20 + 600 + 65 + 2);
    successor.accept_until(later);
    assert!(successor.outcome(left.0).is_some(), "when nobody can be sending it any more it goes");
}

/// Everything waits, half of it for another owner that may be at work, when the mailbox changes hands at 20.
fn taken_over(policy: MailboxPolicy) -> Rig {
    let mut rig = Rig::new(policy);
    rig.now = at(1);
    rig.input(Input::Hold(Hold::new(HoldTarget::Mailbox, Timestamp::NEVER)));
    (1..=20).for_each(|key| rig.submit(key, Lane::Foreground));
    rig.now = at(20);
    rig.input(Input::Own(Tenure { unclean_at: Some(at(20)), ..owner(at(33)) }));
    rig.input(Input::Resume(HoldTarget::Mailbox));
    assert!((1..20).contains(&rig.sent.len()), "{}", rig.sent.len());
    rig
}

#[test]
fn a_renewal_that_comes_when_what_was_left_to_another_owner_is_due_does_not_forget_it() {
    // To the instant, before it and after it: the timer may be late, and the renewal is told first.
    for renewed in [685_751, 685_752, 686_000, 690_000].map(|millis| at(0).after(Duration::from_millis(millis))) {
        let mut rig = taken_over(policy(&[], 1_000));
        let unclean_at = Some(at(20));
        rig.now = renewed;
        rig.input(Input::Own(Tenure { unclean_at, ..owner(renewed.after(Duration::from_secs(13))) }));
        if let Some(next) = rig.mailbox.poll_deadline().filter(|next| *next < at(687)) {
            rig.now = next;
            rig.input(Input::Wake);
        }
        assert_eq!(rig.sent.len(), 20, "renewed at {renewed}");
    }
}

#[test]
fn a_shorter_grace_frees_what_waits_for_its_end() {
    let mut rig = taken_over(policy(&[], 1_000));
    let mut shorter = policy(&[], 1_000);
    shorter.fleet.grace = Duration::from_secs(1);
    rig.input(Input::Own(Tenure { unclean_at: Some(at(20)), ..owner(at(FAR)) }));
    rig.now = at(20 + 1 + 65 + 1);
    rig.input(Input::Reconfigure(Arc::new(shorter)));
    assert_eq!(rig.sent.len(), 20);
}

#[test]
fn who_comes_back_to_its_lease_sends_what_it_had_ceded() {
    let mut rig = Rig::new(policy(&[], 1_000));
    rig.input(Input::Own(Tenure { reach: Reach::CutOff, ..owner(at(10)) }));
    (1..=20).for_each(|key| rig.submit(key, Lane::Foreground));
    assert!(rig.sent.len() < 20);
    rig.input(Input::Own(owner(at(FAR))));
    assert_eq!(rig.sent.len(), 20);
}

proptest::proptest! {
    #[test]
    fn nothing_that_waits_for_another_owner_waits_for_ever(
        steps in proptest::collection::vec((1_u64..40_000, 0_u8..3), 1..400),
    ) {
        let mut rig = taken_over(policy(&[], 1_000));
        for (millis, what) in steps {
            rig.now = rig.now.after(Duration::from_millis(millis));
            let tenure = Tenure { unclean_at: Some(at(20)), ..owner(rig.now.after(Duration::from_secs(13))) };
            match what {
                0 => rig.input(Input::Wake),
                1 => rig.input(Input::Own(tenure)),
                _ => rig.input(Input::CloseBreaker),
            }
            // A shell comes back at the latest with the next renewal.
            if rig.now > at(20 + 600 + 65 + 2) {
                rig.input(Input::Own(tenure));
                proptest::prop_assert_eq!(rig.sent.len(), 20, "at {}", rig.now);
            }
        }
    }

    #[test]
    fn half_is_half_of_any_window_with_what_was_sent_before(
        amount in 2_u64..40, before in 0_u64..60, when in 0_u64..90, lanes in proptest::collection::vec(0_u8..2, 60..120),
        unclean in 0_u8..2,
    ) {
        let mut rig = Rig::new(policy(&[&format!("{amount} requests / 1m")], 100));
        rig.input(Input::Own(owner(at(FAR))));
        let lane = |at: usize| if lanes[at % lanes.len()] == 0 { Lane::Foreground } else { Lane::Background };
        let mut arrivals = Vec::new();
        for key in 0..before {
            rig.submit(key, lane(key as usize));
            drive(&mut rig, at(key * when / before.max(1)), &mut arrivals);
        }
        let (changed_at, sent_before) = (rig.now, arrivals.len());
        let tenure = match unclean {
            0 => Tenure { reach: Reach::CutOff, ..owner(rig.now) },
            _ => Tenure { unclean_at: Some(rig.now), ..owner(at(FAR)) },
        };
        rig.input(Input::Own(tenure));
        (1_000..1_200).for_each(|key| rig.submit(key, lane(key as usize)));
        drive(&mut rig, changed_at.after(Duration::from_secs(599)), &mut arrivals);
        // Every window that something was sent in after the change, with all that it holds.
        for at in sent_before..arrivals.len() {
            let window: Vec<_> = arrivals[..=at].iter().rev().take_while(|(then, _)| {
                then.after(Duration::from_secs(60)) > arrivals[at].0
            }).collect();
            proptest::prop_assert!(window.len() as u64 <= amount / 2, "{} of {amount}", window.len());
        }
        proptest::prop_assert!(window_holds(&arrivals, amount, Duration::from_secs(60)).is_ok());
        proptest::prop_assert!(arrivals.len() > sent_before, "it goes on");
    }
}
