//! One probe over all processes: who has the turn sends it, and nobody else.

use super::*;
use crate::engine::shared::Ballot;

/// One of several processes, whose application has rested until 20; a hundred wait.
fn rested() -> Rig {
    let mut rig = Rig::new(scope(&["600 requests / 1m"], 0), ScopePolicy::default());
    rig.shared = rig.shared.one_of_many();
    rig.input(Input::Cooled { scope: Scope::Application, until: at(20) });
    for mailbox in 1..=100 {
        rig.ask(mailbox, u64::from(mailbox) * 1_000, Lane::Foreground, None);
    }
    assert!(rig.granted.is_empty() && rig.elects.is_empty(), "it rests by another one's word");
    rig.now = at(20);
    rig.input(Input::Wake);
    assert_eq!((rig.elects.len(), rig.granted.len()), (1, 0), "it asks first, and once");
    rig
}

fn answer(rig: &mut Rig, ballot: Ballot) {
    rig.input(Input::Elected { scope: Scope::Application, ballot });
}

#[test]
fn who_has_the_turn_sends_one_probe_after_the_other_and_yields_when_they_are_answered() {
    let mut rig = rested();
    answer(&mut rig, Ballot::Ours { until: at(50) });
    assert_eq!(rig.granted.len(), 1, "one probe");
    let probe = rig.granted[0];
    rig.settle(mailbox_of(probe), probe, Verdict::Accepted);
    assert_eq!((rig.granted.len(), rig.elects.len()), (2, 1), "the second is its turn, too");
    assert!(rig.yields.is_empty());
    let probe = rig.granted[1];
    rig.settle(mailbox_of(probe), probe, Verdict::Accepted);
    assert_eq!(rig.yields, [Scope::Application]);
    rig.run_until(at(3_600));
    assert_eq!((rig.granted.len(), rig.elects.len()), (100, 1), "the ramp is everybody's");
}

#[test]
fn who_has_not_the_turn_sends_nothing_until_it_has() {
    let mut rig = rested();
    answer(&mut rig, Ballot::Theirs { until: at(21) });
    assert!(rig.granted.is_empty());
    assert_eq!(rig.shared.poll_deadline(), Some(at(21)));
    rig.ask(101, 101_000, Lane::Foreground, None);
    assert_eq!(rig.waits.last().map(|(_, _, constraint)| constraint.wall), Some(Wall::Probe));
    rig.now = at(21);
    rig.input(Input::Wake);
    assert_eq!((rig.elects.len(), rig.granted.len()), (2, 0), "it asks again");
    answer(&mut rig, Ballot::Theirs { until: at(22) });
    // The other one's probe was refused.
    rig.input(Input::Cooled { scope: Scope::Application, until: at(60) });
    rig.now = at(59);
    rig.input(Input::Wake);
    assert_eq!((rig.elects.len(), rig.granted.len()), (2, 0));
    rig.now = at(60);
    rig.input(Input::Wake);
    assert_eq!(rig.elects.len(), 3);
    answer(&mut rig, Ballot::Ours { until: at(90) });
    assert_eq!(rig.granted.len(), 1);
}

#[test]
fn a_turn_ends_with_its_token_and_a_question_without_an_answer_is_asked_again() {
    let mut rig = rested();
    let until = rig.now.after(SharedPolicy::default().breaker.probe_timeout);
    rig.now = until;
    rig.input(Input::Wake);
    assert_eq!((rig.elects.len(), rig.granted.len()), (2, 0), "nobody answered");
    let short = rig.now.after(Duration::from_secs(5));
    answer(&mut rig, Ballot::Ours { until: short });
    let probe = rig.granted[0];
    rig.now = rig.now.after(Duration::from_secs(6));
    rig.settle(mailbox_of(probe), probe, Verdict::Accepted);
    assert_eq!((rig.elects.len(), rig.granted.len()), (3, 1), "the second probe needs a token that lasts");
    assert!(rig.yields.is_empty());
}

#[test]
fn a_tenant_that_waits_for_its_turn_holds_up_no_other() {
    let mut rig = Rig::new(ScopePolicy::default(), scope(&["600 requests / 1m"], 0));
    rig.shared = rig.shared.one_of_many();
    let acme = Scope::Tenant("acme".into());
    rig.input(Input::Cooled { scope: acme.clone(), until: at(20) });
    rig.ask(1, 1_000, Lane::Foreground, Some("acme"));
    rig.now = at(20);
    rig.input(Input::Wake);
    assert_eq!(rig.elects, std::slice::from_ref(&acme));
    rig.ask(2, 2_000, Lane::Foreground, Some("zenith"));
    assert_eq!(rig.granted, [2_000]);
    rig.input(Input::Elected { scope: acme, ballot: Ballot::Ours { until: at(50) } });
    assert_eq!(rig.granted, [2_000, 1_000]);
}

#[test]
fn a_look_ahead_waits_for_nobody() {
    let mut rig = rested();
    rig.shared = rig.shared.alone();
    rig.input(Input::Wake);
    assert_eq!(rig.granted.len(), 1);
}
