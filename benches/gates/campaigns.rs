//! G1 to G5 and G12: nobody interferes, and everything goes as fast as it may.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use mailweir::engine::policy::{MailboxPolicy, ScopePolicy};
use mailweir::engine::{Lane, Limit, Ratio, Timestamp};
use mailweir::simulation::{Load, World};
use mailweir::upstream::{Job, Model, Profile, Random, RetryAfterPolicy, Upstream, UpstreamLimit, check, optimum};

use crate::known::once;
use crate::worst::{Gate, Good, Worst};
use crate::{PAIRS, SEEDS, TWO, limit};

pub(crate) fn policy(limits: &[Limit], concurrency: u32) -> MailboxPolicy {
    MailboxPolicy {
        scope: ScopePolicy { limits: limits.to_vec(), concurrency: NonZeroU32::new(concurrency) },
        ..MailboxPolicy::default()
    }
}

pub(crate) fn model(profile: Profile, limits: &[Limit], seed: u64) -> Model {
    profile.model(limits.iter().map(|limit| UpstreamLimit::requests(limit.amount(), limit.window())), seed)
}

pub(crate) fn refused(world: &World) -> f64 {
    figure(check::counts(world.upstream().log().client()).refused)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn figure(count: u64) -> f64 {
    count as f64
}

pub(crate) fn accepted(world: &World, lane: Lane, from: Timestamp, until: Timestamp) -> f64 {
    let log = world.upstream().log().client();
    let taken = log.filter(|it| it.lane == Some(lane) && it.executed && it.at >= from && it.at < until);
    figure(taken.count() as u64)
}

/// Enough connections for the limit to be what binds: a third of a second each.
pub(crate) fn connections(limit: &Limit) -> u32 {
    let in_a_second = limit.amount() * 1_000 / u64::try_from(limit.window().as_millis()).unwrap_or(u64::MAX).max(1);
    u32::try_from(in_a_second).unwrap_or(64).clamp(4, 64)
}

/// What a campaign came to.
#[derive(Clone, Copy)]
struct Run {
    refused: f64,
    /// The optimum's time over its own; 0 for one that did not end.
    ratio: f64,
    people_p99: f64,
    wakes: f64,
    store_calls: f64,
    commits: f64,
}

/// A campaign of `count` under `limits`, and `size` people at once every `gap`.
fn campaign(profile: Profile, limits: &[Limit], count: u64, people: (Duration, usize), seed: u64) -> Run {
    let mut model = model(profile, limits, seed);
    if limits.len() > 1 {
        model.retry_after = RetryAfterPolicy::None;
    }
    let upstream_limits = model.limits.clone();
    let mut policy = policy(limits, limits.iter().map(connections).max().unwrap_or(4));
    let (gap, size) = people;
    let per_hour = u128::try_from(size).unwrap_or(1) * 3_600_000 / gap.as_millis().max(1);
    policy.lanes.foreground_expected_per_hour =
        (limits.len() > 1).then(|| u32::try_from(per_hour).unwrap_or(u32::MAX).max(1));
    let mut world = World::new(1, &Arc::new(policy), None, Upstream::new(model, seed));
    let start = world.start();
    let slowest = limits.iter().map(|limit| limit.window() * times(count, limit.amount())).max().unwrap_or_default();
    let name = Arc::clone(world.name(0));
    let one = |at, lane| {
        let cost = mailweir::engine::Cost::ONE_REQUEST;
        Job { at, mailbox: Arc::clone(&name), tenant: None, cost, lane }
    };
    let mut jobs = vec![one(start, Lane::Background); usize::try_from(count).expect("small")];
    let mut random = Random::stream(seed, 0x6A7E);
    let mut at = start;
    while at < start.after(slowest) {
        // Between half of the gap and one and a half.
        let micros = u64::try_from(gap.as_micros()).expect("short");
        at = at.after(Duration::from_micros(micros / 2 + random.below(micros.max(1))));
        jobs.extend(std::iter::repeat_n(one(at, Lane::Foreground), size));
    }
    for job in &jobs {
        world.submit(job.at, &Load::new(job.lane));
    }
    world.run_to_end(start.after(slowest * 4 + Duration::from_secs(600)));
    Run::of(&world, &jobs, &upstream_limits)
}

/// Windows that `count` needs, rounded up.
fn times(count: u64, amount: u64) -> u32 {
    u32::try_from(count.div_ceil(amount)).unwrap_or(u32::MAX)
}

impl Run {
    fn of(world: &World, jobs: &[Job], limits: &[UpstreamLimit]) -> Self {
        let start = world.start();
        let best = optimum(limits, jobs);
        let of_background = jobs.iter().zip(best.accepted_at).filter(|(job, _)| job.lane == Lane::Background);
        let best = of_background.filter_map(|(_, at)| at).max().unwrap_or(start).since(start);
        let ends = world.ended().iter().filter(|ended| ended.lane == Lane::Background);
        let makespan = (world.pending() == 0).then(|| ends.map(|it| it.ended_at).max().unwrap_or(start).since(start));
        let people = world.ended().iter().filter(|ended| ended.lane == Lane::Foreground);
        let mut waits: Vec<_> = people.map(|ended| ended.ended_at.since(ended.submitted_at)).collect();
        waits.sort_unstable();
        let p99 = waits.get((waits.len() * 99).div_ceil(100).saturating_sub(1));
        let each = |count: u64| figure(count) / figure(jobs.len() as u64);
        Self {
            refused: refused(world),
            ratio: makespan.map_or(0.0, |makespan| best.as_secs_f64() / makespan.as_secs_f64().max(1e-9)),
            people_p99: p99.map_or(0.0, Duration::as_secs_f64),
            wakes: each(world.wakes()),
            store_calls: each(world.store_use().calls),
            commits: each(world.store_use().transactions),
        }
    }
}

/// Windows that the specification's figures are meant for, the shorter ones, and amounts that no tenth can be taken of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Windows {
    Usual,
    Short,
    Few,
}

fn pairs(windows: Windows) -> impl Iterator<Item = Limit> {
    let kind = |(amount, seconds): (u64, u64)| match (amount >= 10, seconds >= 60) {
        (false, _) => Windows::Few,
        (true, true) => Windows::Usual,
        (true, false) => Windows::Short,
    };
    PAIRS.into_iter().filter(move |pair| kind(*pair) == windows).map(limit)
}

/// As S0: a campaign of 20/3 windows, people at a fifteenth of the rate.
fn singles(profile: Profile, windows: Windows, good: Good, figure_of: fn(&Run) -> f64) -> Worst {
    let mut worst = Worst::new(good);
    for limit in pairs(windows) {
        let gap = limit.window() * 15 / u32::try_from(limit.amount()).expect("small");
        for seed in 0..SEEDS {
            let run = || campaign(profile, &[limit], limit.amount() * 20 / 3, (gap, 1), seed);
            worst.see(figure_of(&once((profile, "single", limit.to_string(), seed), run)), &limit);
        }
    }
    worst
}

/// As S2: the long window binds, a campaign of 13/4 of it, four scans in it, as large as the short window's reserve. A scan is
/// no larger than there are connections, as in S2: what more would wait for is the round trip, and not the scheduler.
fn doubles(profile: Profile, good: Good, figure_of: fn(&Run) -> f64) -> Worst {
    let mut worst = Worst::new(good);
    for pair in TWO {
        let limits = pair.map(limit);
        let [short, long] = limits;
        let size = (long.amount() / 80).clamp(1, short.amount() / 10);
        let size = size.min(limits.iter().map(connections).max().unwrap_or(4).into());
        let people = (long.window() / 4, usize::try_from(size).expect("small"));
        let name = format!("{short} and {long}");
        for seed in 0..SEEDS {
            let run = || campaign(profile, &limits, long.amount() * 13 / 4, people, seed);
            worst.see(figure_of(&once((profile, "double", name.clone(), seed), run)), &name);
        }
    }
    worst
}

/// Background alone, saturated: the part of N/W that it gets over the last windows.
fn steady(profile: Profile, windows: Windows, reserve: Ratio) -> Worst {
    let mut worst = Worst::new(Good::AtLeast);
    for limit in pairs(windows) {
        let spans = 12_u32;
        let mut policy = policy(&[limit], connections(&limit));
        policy.lanes.reserve_min = reserve;
        let mut world = World::new(1, &Arc::new(policy), None, Upstream::new(model(profile, &[limit], 1), 1));
        let start = world.start();
        let count = usize::try_from(limit.amount() * u64::from(spans + 2)).expect("small");
        world.burst(start, count, &Load::new(Lane::Background));
        let (from, until) = (start.after(limit.window() * 2), start.after(limit.window() * spans));
        world.run_until(until);
        let share = accepted(&world, Lane::Background, from, until) / figure(limit.amount() * u64::from(spans - 2));
        worst.see(share, &limit);
    }
    worst
}

/// Every pair, with people at a quarter of the rate.
fn refusals(profile: Profile) -> Worst {
    let mut worst = Worst::new(Good::AtMost);
    for limit in PAIRS.map(limit) {
        let gap = limit.window() * 4 / u32::try_from(limit.amount()).expect("small");
        let run = campaign(profile, &[limit], limit.amount() * 3, (gap, 1), 7);
        worst.see(run.refused, &limit);
    }
    worst.worse(doubles(profile, Good::AtMost, |run| run.refused))
}

pub(crate) fn gates() -> Vec<Gate> {
    use Good::{AtLeast, AtMost};
    use Windows::{Few, Short, Usual};
    let gate = |name, target, bound, good, unit, judge| Gate { name, target, bound, good, unit, judge };
    vec![
        gate("G1 429s, nothing injected", "0", 0.0, AtMost, "", refusals),
        gate("G2 a campaign: ratio to the optimum", "0.84 on A", 0.84, AtLeast, "", |profile| {
            // What a known phase or the depth of a bucket is worth, the specification leaves.
            singles(profile, Usual, AtLeast, |run| run.ratio).judged(profile == Profile::A)
        }),
        gate("the same, windows below a minute", "–", 0.0, AtLeast, "", |profile| {
            singles(profile, Short, AtLeast, |run| run.ratio)
        }),
        gate("the same, 1 a second and 5 a minute", "–", 0.0, AtLeast, "", |profile| {
            singles(profile, Few, AtLeast, |run| run.ratio)
        }),
        gate("G3 a campaign under two windows: ratio", "0.94 on A and B", 0.94, AtLeast, "", |profile| {
            doubles(profile, AtLeast, |run| run.ratio).judged(matches!(profile, Profile::A | Profile::B))
        }),
        gate("G4 background alone, part of N/W", "0.89", 0.89, AtLeast, "", |profile| {
            steady(profile, Usual, Ratio::percent(10))
        }),
        gate("G4 the same without a reserve", "0.99", 0.99, AtLeast, "", |profile| steady(profile, Usual, Ratio::ZERO)),
        gate("the same, windows below a minute", "–", 0.0, AtLeast, "", |profile| {
            steady(profile, Short, Ratio::ZERO)
        }),
        gate("the same, 1 a second and 5 a minute", "–", 0.0, AtLeast, "", |profile| {
            steady(profile, Few, Ratio::ZERO)
        }),
        gate("G5 people's p99 beside G3", "1.5 s", 1.5, AtMost, " s", |profile| {
            doubles(profile, AtMost, |run| run.people_p99)
        }),
        gate("G12 wake-ups per message", "3", 3.0, AtMost, "", |profile| {
            singles(profile, Usual, AtMost, |run| run.wakes)
        }),
        gate("calls of the store per message", "–", f64::INFINITY, AtMost, "", |profile| {
            singles(profile, Usual, AtMost, |run| run.store_calls)
        }),
        gate("durable transactions per message", "–", f64::INFINITY, AtMost, "", |profile| {
            singles(profile, Usual, AtMost, |run| run.commits)
        }),
    ]
}
