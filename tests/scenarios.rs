//! S0 and S2 of the specification, on the engine alone in virtual time. The same through the real actors:
//! tests/scenarios_actors.rs.
#![cfg(feature = "sim")]

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use mailweir::engine::policy::{MailboxPolicy, ScopePolicy};
use mailweir::engine::{Lane, Limit, Timestamp};
use mailweir::simulation::{Load, World};
use mailweir::upstream::{Profile, Upstream, UpstreamLimit, check};

fn policy(limits: &[&str], concurrency: u32) -> Arc<MailboxPolicy> {
    let limits = limits.iter().map(|text| text.parse::<Limit>().expect("a limit")).collect();
    Arc::new(MailboxPolicy {
        scope: ScopePolicy { limits, concurrency: NonZeroU32::new(concurrency) },
        ..MailboxPolicy::default()
    })
}

struct Report {
    background_done: Duration,
    refused: u64,
    foreground_p99: Duration,
    wakes_per_message: f64,
}

fn report(world: &World) -> Report {
    let start = world.start();
    let background = world.ended().iter().filter(|ended| ended.lane == Lane::Background);
    let done = background.map(|ended| ended.ended_at).max().unwrap_or(start);
    let mut waits: Vec<_> = world
        .ended()
        .iter()
        .filter(|ended| ended.lane == Lane::Foreground)
        .map(|ended| ended.ended_at.since(ended.submitted_at))
        .collect();
    waits.sort_unstable();
    let p99 = waits.get((waits.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    let wakes_per_message = world.wakes() as f64 / world.ended().len().max(1) as f64;
    Report {
        background_done: done.since(start),
        refused: check::counts(world.upstream().log().client()).refused,
        foreground_p99: p99,
        wakes_per_message,
    }
}

fn s0(profile: Profile, seed: u64) -> Report {
    let minute = Duration::from_secs(60);
    let upstream = Upstream::new(profile.model([UpstreamLimit::requests(30, minute)], seed), seed);
    let mut world = World::new(1, &policy(&["30 requests / 1m"], 4), None, upstream);
    let start = world.start();
    world.burst(start, 200, &Load::new(Lane::Background));
    world.poisson(seed, 120, 1, start.after(Duration::from_secs(600)), &Load::new(Lane::Foreground));
    world.run_to_end(start.after(Duration::from_secs(7_200)));
    assert_eq!(world.pending(), 0, "seed {seed}: everything ends");
    report(&world)
}

#[test]
fn s0_a_campaign_ends_in_time_without_one_refusal_on_every_profile() {
    for profile in Profile::ALL {
        for seed in 0..8 {
            let report = s0(profile, seed);
            let done = report.background_done;
            println!(
                "S0 {profile:?} seed {seed}: done {done:?}, 429s {}, fg p99 {:?}, wakes/message {:.2}",
                report.refused, report.foreground_p99, report.wakes_per_message
            );
            assert_eq!(report.refused, 0, "{profile:?} seed {seed}");
            assert!(
                report.foreground_p99 <= Duration::from_millis(1_500),
                "{profile:?} {seed} {:?}",
                report.foreground_p99
            );
            assert!(report.wakes_per_message <= 3.0);
        }
        let mean: Duration = (0..8).map(|seed| s0(profile, seed).background_done).sum::<Duration>() / 8;
        println!("S0 {profile:?}: mean {mean:?}");
        assert!(mean <= Duration::from_secs(480), "{profile:?}: {mean:?}");
    }
}

fn s2(profile: Profile, seed: u64) -> Report {
    let limits = [
        UpstreamLimit::requests(120, Duration::from_secs(60)),
        UpstreamLimit::requests(400, Duration::from_secs(3_600)),
    ];
    let mut model = profile.model(limits, seed);
    model.retry_after = mailweir::upstream::RetryAfterPolicy::None;
    let mut policy = Arc::unwrap_or_clone(policy(&["120 requests / 1m", "400 requests / 1h"], 5));
    // What the operator declares: 4 scans an hour of 5 messages. Without it the background burst of the hour window is
    // 1 for the first two hours, and the migration takes 3.8 h.
    policy.lanes.foreground_expected_per_hour = Some(20);
    let mut world = World::new(1, &Arc::new(policy), None, Upstream::new(model, seed));
    let start: Timestamp = world.start();
    world.burst(start, 1_300, &Load::new(Lane::Background));
    // A scan every quarter of an hour, at a phase of its own.
    let phase = Duration::from_secs(300 * seed + 120);
    for scan in 0..16 {
        world.burst(start.after(phase + scan * Duration::from_secs(900)), 5, &Load::new(Lane::Foreground));
    }
    world.run_to_end(start.after(Duration::from_secs(8 * 3_600)));
    report(&world)
}

#[test]
fn s2_a_migration_under_two_windows_ends_in_time_without_one_refusal() {
    for profile in Profile::ALL {
        let mut total = Duration::ZERO;
        for seed in 0..3 {
            let report = s2(profile, seed);
            println!(
                "S2 {profile:?} seed {seed}: done {:?}, 429s {}, fg p99 {:?}, wakes/message {:.2}",
                report.background_done, report.refused, report.foreground_p99, report.wakes_per_message
            );
            assert_eq!(report.refused, 0);
            assert!(report.foreground_p99 <= Duration::from_millis(1_500), "{:?}", report.foreground_p99);
            assert!(report.wakes_per_message <= 3.0);
            total += report.background_done;
        }
        assert!(total / 3 <= Duration::from_secs(11_520), "{profile:?}: {:?}", total / 3);
    }
}

#[test]
fn the_engines_alone_do_the_same_when_they_are_told_what_they_were_told_in_a_run() {
    let minute = Duration::from_secs(60);
    let upstream = Upstream::new(Profile::A.model([UpstreamLimit::requests(30, minute)], 5), 5);
    let mut world = World::new(1, &policy(&["30 requests / 1m"], 4), None, upstream).record();
    let start = world.start();
    world.burst(start, 50, &Load::new(Lane::Background));
    world.poisson(5, 120, 1, start.after(Duration::from_secs(600)), &Load::new(Lane::Foreground));
    world.run_to_end(start.after(Duration::from_secs(7_200)));
    let recording = world.recording().expect("it was recorded");
    let played = recording.play(usize::MAX);
    assert_eq!((played.decisions, recording.decisions() as u64), (world.decisions(), world.decisions()));
    assert_eq!(played.sends, world.order().len() as u64, "one attempt each");
    assert!(played.effects > 3 * played.sends, "claimed, sent, recorded and told");
    assert_eq!(recording.play(10).decisions, 10);
}
