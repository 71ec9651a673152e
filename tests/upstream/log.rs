//! The record, its checkers, and replay.

use mailweir::engine::{Cost, Ratio};
use mailweir::upstream::{Foreign, Model, Profile, Schedule, Upstream, UpstreamLimit, check};

use crate::{MINUTE, at, request, upstream};

#[test]
fn the_same_seed_gives_the_same_log_and_another_seed_another() {
    let run = |seed: u64| {
        let limits = [UpstreamLimit::requests(30, MINUTE), UpstreamLimit::requests(400, MINUTE * 60)];
        let mut model = Profile::C.model(limits, seed);
        model.faults.error_after_charge = Ratio::percent(10).into();
        model.faults.response_lost = Ratio::percent(5).into();
        model.foreign =
            vec![Foreign { mailbox: "a@x".into(), tenant: None, cost: Cost::ONE_REQUEST, per_hour: 300.into() }];
        let (mut upstream, mut now) = (Upstream::new(model, seed), at(0.0));
        for n in 0..3_000 {
            let plan = upstream.plan_latency();
            now = now.after(plan.up);
            let decision = upstream.arrive(now, &request(&n.to_string()));
            now = now.after(decision.service_or(plan.service));
            upstream.complete(now, decision.handle);
            now = now.after(plan.down);
        }
        upstream.log().iter().cloned().collect::<Vec<_>>()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn time_never_runs_back() {
    let mut upstream = upstream([UpstreamLimit::requests(1, MINUTE)]);
    assert_eq!(upstream.arrive(at(100.0), &request("k")).status, Some(202));
    assert_eq!(upstream.arrive(at(0.0), &request("k")).status, Some(429));
    assert_eq!(upstream.log().iter().map(|arrival| arrival.at).max(), Some(at(100.0)));
}

#[test]
fn the_log_is_bounded_and_says_what_it_dropped() {
    let mut model = Model::new([]);
    model.log_entries_max = 10;
    let mut upstream = Upstream::new(model, 1);
    for n in 0..11 {
        let _ = upstream.arrive(at(f64::from(n)), &request("k"));
    }
    assert_eq!((upstream.log().len(), upstream.log().dropped()), (10, 1));
    assert_eq!(upstream.log().iter().next().map(|arrival| arrival.at), Some(at(1.0)));
}

#[test]
fn the_checker_sees_the_fullest_window_and_every_duplicate() {
    let mut model = Model::new([]);
    model.faults.timeout_after_acceptance = Schedule::always(Ratio::ZERO).then(at(61.0), Ratio::ONE);
    let mut upstream = Upstream::new(model, 1);
    for (second, key) in [(0.0, "a"), (1.0, "b"), (60.0, "c"), (60.9, "d"), (61.0, "a")] {
        let _ = upstream.arrive(at(second), &request(key));
    }
    let window = UpstreamLimit::requests(1, MINUTE);
    assert_eq!(check::max_in_window(upstream.log().iter(), &window), 3, "b, c, d; a and c are a whole window apart");
    let counts = check::counts(upstream.log().iter());
    assert_eq!((counts.arrivals, counts.accepted, counts.failed, counts.executed, counts.duplicates), (5, 4, 1, 5, 1));
    assert_eq!(check::executions(upstream.log().iter())["a"], 2);
}
