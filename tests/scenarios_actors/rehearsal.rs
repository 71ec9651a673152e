//! A scenario through the actors as a library call.

use mailweir::engine::mailbox::Outcome;
use mailweir::scheduler::{RehearsalError, rehearse};
use mailweir::simulation::report::Report;
use mailweir::simulation::scenario::Scenario;

use crate::support::*;

const TEXT: &str = "until = \"20m\"\n[config]\nmailbox = { limits = [\"30 requests / 1m\"] }\n\
    [[load]]\nmailbox = \"a@b.example\"\nlane = \"background\"\ncount = 90\nrecipients = 3\nbytes = \"2MB\"\n\
    [[load]]\nmailbox = \"a@b.example\"\nlane = \"foreground\"\ncount = 40\nat = \"1m\"\ndeadline = \"1ms\"\n";

#[test]
fn a_rehearsal_answers_with_a_world_to_report_on() {
    let scenario = Scenario::from_toml(TEXT, "rehearsal").expect("a scenario");
    let mut steps = Vec::new();
    let world = rehearse(&scenario, 5, |so_far| steps.push((so_far.now, so_far.pending))).expect("it runs");
    let report = Report::of(&scenario, &world, 5);
    assert!(report.is_sound(), "{:?}", report.invariants);
    assert_eq!((report.submitted, report.accepted + report.exhausted, report.pending), (130, 130, 0));
    assert!(report.exhausted > 0 && report.accepted > 90, "some people come too late: {report:?}");
    assert!(steps.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 >= pair[1].1), "{steps:?}");
    // What an email takes is the plan's, not what the stand-in for it counts.
    let cost = world.upstream().log().client().next().expect("an arrival").cost;
    assert_eq!((cost.recipients, cost.bytes), (3, 2_000_000));
    let exhausted = world.ended().iter().find(|ended| matches!(ended.outcome, Outcome::Exhausted { .. }));
    assert_eq!(exhausted.expect("its deadline passed").submitted_at, world.start().after(MINUTE));
}

#[test]
fn inside_a_runtime_it_says_why_it_cannot() {
    let scenario = Scenario::from_toml(TEXT, "rehearsal").expect("a scenario");
    let refused = paused(|| async { rehearse(&scenario, 5, |_| ()) });
    assert!(matches!(refused, Err(RehearsalError::InsideRuntime)), "{refused:?}");
}
