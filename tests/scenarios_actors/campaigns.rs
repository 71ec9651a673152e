//! S0 and S2 (algorithms 7.3 and 7.4): a campaign, and a migration under two windows, on all four upstreams.

use std::sync::Arc;
use std::time::Duration;

use mailweir::Lane;
use mailweir::clock::Clock;
use mailweir::config::Config;
use mailweir::upstream::{Model, Profile, Random, RetryAfterPolicy, UpstreamLimit, check};

use crate::support::*;

struct Report {
    background_done: Duration,
    refused: u64,
    foreground_p99: Duration,
    wakes_per_message: f64,
}

impl Report {
    /// The gates that hold for every single run.
    fn hold(&self, name: &str) {
        let Self { background_done, refused, foreground_p99, wakes_per_message } = self;
        println!(
            "{name}: done {background_done:?}, 429s {refused}, fg p99 {foreground_p99:?}, \
             wakes/message {wakes_per_message:.2}"
        );
        assert_eq!(*refused, 0, "{name}: G1");
        assert!(*foreground_p99 <= millis(1_500), "{name}: G5, {foreground_p99:?}");
        assert!(*wakes_per_message <= 3.0, "{name}: G12, {wakes_per_message}");
    }
}

/// A campaign at once, and foreground at the given instants after it.
async fn run(config: Config, model: Model, seed: u64, background: usize, foreground: Vec<Duration>) -> Report {
    let bench = Bench::start(config, model, seed).await;
    let start = bench.clock.now();
    let messages = background + foreground.len();
    let arrivals: Vec<_> = foreground
        .into_iter()
        .enumerate()
        .map(|(n, at)| {
            let (handle, clock) = (bench.handle.clone(), Arc::clone(&bench.clock));
            tokio::task::spawn_local(async move {
                tokio::time::sleep(at).await;
                let submitted = clock.now();
                let foreground = submission(MAILBOX, &format!("fg-{n}"), Lane::Foreground);
                accepted(handle.submit(foreground).await.expect("taken in")).await;
                clock.now().since(submitted)
            })
        })
        .collect();
    let campaign = (0..background).map(|n| submission(MAILBOX, &format!("bg-{n}"), Lane::Background));
    for ticket in bench.handle.submit_many(campaign).await {
        accepted(ticket.expect("taken in")).await;
    }
    let background_done = bench.clock.now().since(start);
    let mut waits = Vec::new();
    for arrival in arrivals {
        waits.push(arrival.await.expect("no panic"));
    }
    waits.sort_unstable();
    let counts = check::counts(bench.upstream().log().client());
    assert_eq!((counts.executed, counts.duplicates), (messages as u64, 0), "each is sent once");
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    let wakes_per_message = bench.handle.timer_wakes() as f64 / messages as f64;
    Report {
        background_done,
        refused: counts.refused,
        foreground_p99: waits.get((waits.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default(),
        wakes_per_message,
    }
}

fn config(mailbox: &[&str], concurrency: u32) -> Config {
    let mut config = Config::default().mailbox_limits(limits(mailbox));
    config.mailbox.concurrency = concurrency.try_into().ok();
    config
}

#[test]
fn s0_a_campaign_through_the_actors_ends_in_time_without_one_refusal() {
    for profile in Profile::ALL {
        let mut total = Duration::ZERO;
        for seed in 0..8 {
            let report = paused(|| {
                let mut random = Random::stream(seed, 0x10AD);
                let mut at = Duration::ZERO;
                let arrivals = std::iter::from_fn(|| {
                    at += random.poisson_gap(120)?;
                    (at < seconds(600)).then_some(at)
                });
                let model = profile.model([UpstreamLimit::requests(30, MINUTE)], seed);
                run(config(&["30 requests / 1m"], 4), model, seed, 200, arrivals.collect())
            });
            report.hold(&format!("S0 {profile:?} seed {seed}"));
            total += report.background_done;
        }
        println!("S0 {profile:?}: mean {:?}", total / 8);
        assert!(total / 8 <= seconds(480), "{profile:?}: G2, mean {:?}", total / 8);
    }
}

#[test]
fn s2_a_migration_through_the_actors_ends_in_time_without_one_refusal() {
    for profile in Profile::ALL {
        let mut total = Duration::ZERO;
        for seed in 0..3 {
            let report = paused(|| {
                let windows =
                    [UpstreamLimit::requests(120, MINUTE), UpstreamLimit::requests(400, Duration::from_secs(3_600))];
                let mut model = profile.model(windows, seed);
                model.retry_after = RetryAfterPolicy::None;
                let mut config = config(&["120 requests / 1m", "400 requests / 1h"], 5);
                // Four scans an hour of five messages, as the operator declares them.
                config.lanes.foreground_expected_per_hour = Some(20);
                let scans = (0..16).map(|scan| seconds(300 * seed + 120 + scan * 900));
                run(config, model, seed, 1_300, scans.flat_map(|at| [at; 5]).collect())
            });
            report.hold(&format!("S2 {profile:?} seed {seed}"));
            total += report.background_done;
        }
        println!("S2 {profile:?}: mean {:?}", total / 3);
        assert!(total / 3 <= seconds(11_520), "{profile:?}: G3, mean {:?}", total / 3);
    }
}
