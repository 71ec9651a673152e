//! The yardstick, and the four profiles.

use std::time::Duration;

use mailweir::engine::{Cost, Lane, Timestamp};
use mailweir::upstream::{Algorithm, Job, Latency, Profile, Refusals, UpstreamLimit, optimum};

use crate::{MINUTE, at, limit, request, upstream};

fn jobs(count: usize, at: Timestamp, lane: Lane) -> Vec<Job> {
    vec![Job { at, mailbox: "a@x".into(), tenant: None, cost: Cost::ONE_REQUEST, lane }; count]
}

#[test]
fn the_optimum_of_a_campaign_is_what_the_windows_dictate() {
    let campaign = jobs(200, at(5.0), Lane::Background);
    let makespan = |algorithm| optimum(&[limit(30, algorithm)], &campaign).makespan.as_secs();
    assert_eq!(makespan(Algorithm::Rolling), 360); // 30 at once, then 30 a minute
    assert_eq!(makespan(Algorithm::Fixed { phase: Duration::from_secs(25) }), 320); // at 5 s, 25 s, 85 s, …
    assert_eq!(makespan(Algorithm::Bucket { depth: 30 }), 340); // (200 − 30) · 2 s
    let two = [UpstreamLimit::requests(120, MINUTE), UpstreamLimit::requests(400, MINUTE * 60)];
    let migration = optimum(&two, &jobs(1_300, at(0.0), Lane::Background));
    assert_eq!(migration.makespan.as_secs(), 3 * 3_600, "400 an hour bind");
}

#[test]
fn the_optimum_sends_foreground_first_from_its_arrival_on() {
    let mut both = jobs(60, at(0.0), Lane::Background);
    both.extend(jobs(1, at(30.0), Lane::Foreground));
    let best = optimum(&[limit(30, Algorithm::Rolling)], &both);
    assert_eq!(best.accepted_at[60], Some(at(60.0)), "at the first slot that frees");
    assert_eq!(best.accepted_at.iter().flatten().filter(|instant| **instant == at(60.0)).count(), 30);
    assert_eq!(best.makespan, Duration::from_secs(120));
}

#[test]
fn the_optimum_leaves_out_what_can_never_fit_and_no_send_beats_it() {
    let mut some = jobs(3, at(0.0), Lane::Background);
    some[1].cost.requests = 31;
    let best = optimum(&[limit(30, Algorithm::Rolling)], &some);
    assert_eq!(best.accepted_at, [Some(at(0.0)), None, Some(at(0.0))]);
    // A knocking sender that ignores every wait is never earlier than the optimum on the same upstream.
    let target = limit(30, Algorithm::Fixed { phase: Duration::from_secs(11) });
    let best = optimum(std::slice::from_ref(&target), &jobs(100, at(0.0), Lane::Background));
    let mut upstream = upstream([target]);
    let finished = (0..)
        .map(|n| at(f64::from(n) * 0.01))
        .filter(|now| upstream.arrive(*now, &request("k")).status == Some(202))
        .nth(99);
    assert!(finished.is_some_and(|finished| finished.since(at(0.0)) >= best.makespan));
}

#[test]
fn profiles_differ_in_exactly_what_they_are_named_for() {
    let limits = || [UpstreamLimit::requests(30, MINUTE)];
    let [a, b, c, d] = Profile::ALL.map(|profile| profile.model(limits(), 4));
    assert_eq!((a.refusals, a.limits[0].algorithm), (Refusals::Counted, Algorithm::Rolling));
    assert_eq!((b.refusals, b.limits[0].algorithm), (Refusals::NotCounted, Algorithm::Rolling));
    assert_eq!(d.limits[0].algorithm, Algorithm::Bucket { depth: 30 });
    let phases: std::collections::BTreeSet<_> = (0..50)
        .filter_map(|seed| match Profile::C.model(limits(), seed).limits[0].algorithm {
            Algorithm::Fixed { phase } if phase < MINUTE => Some(phase),
            _ => None,
        })
        .collect();
    assert!(phases.len() > 45 && c.refusals == Refusals::NotCounted, "{} phases", phases.len());
    assert_eq!(a.latency, Latency::default());
}
