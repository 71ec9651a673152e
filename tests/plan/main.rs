//! Plans: the instant that is named is the instant that comes, and asking changes nothing.
//!
//! The plan runs a copy of the engine with a latency that is assumed. Against a world with exactly that latency its
//! end is exact; against latencies that are drawn around it, it is within two in a hundred.
#![cfg(all(feature = "sim", feature = "test-util"))]

mod live;
mod what_if;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use mailweir::engine::mailbox::{Input, Outcome};
use mailweir::engine::plan::{LATENCY, Method, Plan};
use mailweir::engine::policy::{MailboxPolicy, ScopePolicy, SharedPolicy};
use mailweir::engine::shared::MailboxKey;
use mailweir::engine::{Cost, Lane, Limit, Ratio, ScopeKind, Timestamp, Wall};
use mailweir::simulation::{KeepEvents, Load, World};
use mailweir::upstream::{Latency, LogNormal, Profile, Random, Upstream, UpstreamLimit};

const MINUTE: Duration = Duration::from_secs(60);

fn limits(texts: &[&str]) -> Vec<Limit> {
    texts.iter().map(|text| text.parse().expect("a limit")).collect()
}

fn limit(text: &str) -> Limit {
    text.parse().expect("a limit")
}

fn scope(texts: &[&str], concurrency: u32) -> ScopePolicy {
    ScopePolicy { limits: limits(texts), concurrency: NonZeroU32::new(concurrency) }
}

/// A world whose attempts take exactly what a plan assumes, or draw their latencies around it.
fn world(texts: &[&str], sigma: Ratio, seed: u64) -> World {
    let policy = Arc::new(MailboxPolicy { scope: scope(texts, 4), ..MailboxPolicy::default() });
    World::new(1, &policy, None, upstream(texts, sigma, seed)).keep_events(KeepEvents::Yes)
}

fn upstream(texts: &[&str], sigma: Ratio, seed: u64) -> Upstream {
    let rows = limits(texts);
    let rows = rows
        .iter()
        .map(|limit| UpstreamLimit::declared(ScopeKind::Mailbox, limit, mailweir::upstream::Algorithm::Rolling));
    let mut model = Profile::B.model(rows, seed);
    // The mean of a lognormal is above its median: by e^(σ²/2), 4.6 % at σ = 0.3.
    let scale = if sigma == Ratio::ZERO { 1_000 } else { 1_046 };
    let way = LogNormal::new(Duration::from_micros(45_321) * 1_000 / scale, sigma);
    let service = LogNormal::new(LATENCY * 1_000 / scale - way.median * 2, sigma);
    model.latency = Latency { up: way, service, down: way, ..Latency::default() };
    Upstream::new(model, seed)
}

/// Submits the campaign that was planned, and says when its last email is accepted.
fn truth(mut world: World, count: usize, load: &Load) -> Timestamp {
    let now = world.now();
    let keys: Vec<_> = (0..count).map(|_| world.submit(now, load)).collect();
    world.run_to_end(now.after(Duration::from_secs(400 * 86_400)));
    let mine = world.ended().iter().filter(|ended| keys.contains(&ended.key));
    mine.map(|ended| ended.ended_at).max().expect("it ended")
}

fn plan(world: &World, count: usize, lane: Lane) -> Plan {
    let snapshot = world.mailbox(0).snapshot(world.now());
    Plan::new(snapshot, count as u64, lane).cost(Cost::email(1, 4_096))
}

/// σ of latencies that are drawn.
const DRAWN: Ratio = Ratio::percent(30);

const PAIRS: [(&[&str], usize); 7] = [
    (&["30 requests / 1m"], 200),
    (&["14 requests / 1s"], 700),
    (&["2 requests / 1m"], 31),
    (&["120 requests / 1m", "400 requests / 1h"], 1_000),
    (&["250 requests / 1h"], 900),
    (&["30 requests / 1m", "1_000 recipients / 24h"], 2_500),
    (&["60 requests / 10m bucket(20)"], 150),
];

#[test]
fn the_end_that_is_planned_is_the_end_that_comes() {
    for (texts, count) in PAIRS {
        for lane in Lane::ALL {
            let world = world(texts, Ratio::ZERO, 1);
            let forecast = plan(&world, count, lane).forecast();
            let came = truth(world, count, &Load::new(lane));
            assert_eq!(forecast.finish, Some(came), "{texts:?} {lane:?}: {:?}", forecast.takes());
            assert_eq!(forecast.method, Method::Stepped);
        }
    }
}

#[test]
fn budgets_that_are_used_and_a_backlog_are_part_of_the_plan() {
    for (seed, (texts, count)) in (1..).zip(PAIRS) {
        let mut world = world(texts, Ratio::ZERO, seed);
        let (start, load) = (world.start(), Load::new(Lane::Background));
        // Half of it two windows ago, some of it waiting, some of it under way at the instant of the question.
        world.burst(start, count / 2, &load);
        world.poisson(seed, 60, 1, start.after(10 * MINUTE), &Load::new(Lane::Foreground));
        world.run_until(start.after(7 * MINUTE + Duration::from_millis(3_123)));
        let forecast = plan(&world, count, Lane::Background).forecast();
        // Nobody else comes after the question: what was to come is not part of the plan.
        let until = forecast.finish.expect("it finishes");
        let came = truth(world, count, &load);
        let (planned, took) = (until.since(start).as_secs_f64(), came.since(start).as_secs_f64());
        assert!((planned / took - 1.0).abs() < 0.02, "{texts:?}: planned {planned} s, took {took} s");
    }
}

#[test]
fn a_quiet_mailbox_with_used_budgets_is_planned_exactly() {
    for (seed, (texts, count)) in (1..).zip(PAIRS) {
        let mut world = world(texts, Ratio::ZERO, seed);
        let (start, load) = (world.start(), Load::new(Lane::Background));
        world.burst(start, count / 2, &load);
        world.run_until(start.after(5 * MINUTE + Duration::from_millis(777)));
        let forecast = plan(&world, count, Lane::Background).forecast();
        let came = truth(world, count, &load);
        assert_eq!(forecast.finish, Some(came), "{texts:?}");
    }
}

#[test]
fn an_open_breaker_its_probes_and_its_ramp_are_part_of_the_plan() {
    for (seed, (texts, count)) in (1..).zip(PAIRS) {
        let mut world = world(texts, Ratio::ZERO, seed);
        let start = world.start();
        world.burst(start, 20, &Load::new(Lane::Background));
        world.run_until(start.after(MINUTE));
        let until = start.after(6 * MINUTE);
        world.input(0, Input::Trip { until });
        let forecast = plan(&world, count, Lane::Background).forecast();
        assert!(forecast.first_send >= Some(until), "{texts:?}: nothing leaves before the breaker's end");
        assert!(forecast.bounds.iter().any(|bound| bound.wall == Wall::Cooldown), "{:?}", forecast.bounds);
        let came = truth(world, count, &Load::new(Lane::Background));
        assert_eq!(forecast.finish, Some(came), "{texts:?}");
    }
}

#[test]
fn latencies_drawn_around_the_assumed_one_move_the_end_by_less_than_two_in_a_hundred() {
    for (seed, (texts, count)) in (1..).zip(PAIRS) {
        let world = world(texts, DRAWN, seed);
        let start = world.start();
        let forecast = plan(&world, count, Lane::Background).forecast();
        let came = truth(world, count, &Load::new(Lane::Background)).since(start).as_secs_f64();
        let planned = forecast.takes().expect("it finishes").as_secs_f64();
        assert!((planned / came - 1.0).abs() < 0.02, "{texts:?}: planned {planned} s, took {came} s");
    }
}

#[test]
fn shared_scopes_bind_a_plan_as_they_bind_the_sends() {
    let texts = ["100 requests / 1m"];
    let policy = Arc::new(MailboxPolicy { scope: scope(&texts, 4), ..MailboxPolicy::default() });
    let shared = SharedPolicy { application: scope(&["40 requests / 1m"], 3), ..SharedPolicy::default() };
    let world = World::new(1, &policy, Some(Arc::new(shared)), upstream(&texts, Ratio::ZERO, 1));
    let scopes = world.shared().expect("there are some").clone();
    let forecast = plan(&world, 300, Lane::Background).with_shared(scopes, MailboxKey(0)).forecast();
    let binding = forecast.binding().expect("something binds");
    assert_eq!(binding.scope, ScopeKind::Application, "{:?}", forecast.bounds);
    assert_eq!(forecast.finish, Some(truth(world, 300, &Load::new(Lane::Background))));
}

#[test]
fn the_binding_limit_is_named_and_a_higher_one_ends_sooner() {
    let world = world(&["30 requests / 1m", "1_000 recipients / 24h"], Ratio::ZERO, 1);
    let plan = plan(&world, 5_000, Lane::Background);
    let as_it_is = plan.forecast();
    let day = as_it_is.binding().expect("something binds").wall;
    assert!(
        matches!(day, Wall::Pace { seconds: 86_400, .. } | Wall::Reserve { seconds: 86_400, .. }),
        "{:?}",
        as_it_is.bounds
    );
    let more = plan.clone().limit(ScopeKind::Mailbox, limit("5_000 recipients / 24h")).forecast();
    assert!(more.takes().expect("an end") * 3 < as_it_is.takes().expect("an end"));
    assert_eq!(plan.forecast(), as_it_is, "a question that is asked again has the same answer");
}

#[test]
fn what_never_fits_and_what_is_held_for_ever_is_said_so() {
    let mut world = world(&["30 requests / 1m", "20 recipients / 1h"], Ratio::ZERO, 1);
    let above = plan(&world, 10, Lane::Background).cost(Cost::email(21, 1_000)).forecast();
    assert_eq!(
        (above.finish, above.never_fits.map(|limit| limit.to_string())),
        (None, Some("20 recipients / 1h".into()))
    );
    let target = mailweir::engine::mailbox::HoldTarget::Mailbox;
    world.input(0, Input::Hold(mailweir::engine::mailbox::Hold::new(target, Timestamp::NEVER)));
    let held = plan(&world, 10, Lane::Background).forecast();
    assert_eq!((held.finish, held.blocked_by.map(|constraint| constraint.wall)), (None, Some(Wall::Hold)));
    let none = plan(&world, 0, Lane::Background).forecast();
    assert_eq!(none.takes(), Some(Duration::ZERO), "no email is done at once");
}

#[test]
fn asking_changes_nothing() {
    for seed in 0..40 {
        let mut random = Random::stream(seed, 3);
        let (texts, _) = PAIRS[usize::try_from(random.below(PAIRS.len() as u64)).expect("an index")];
        let mut world = world(texts, DRAWN, seed);
        let start = world.start();
        world.burst(start, usize::try_from(random.below(400)).expect("small"), &Load::new(Lane::Background));
        world.poisson(seed, 240, 2, start.after(10 * MINUTE), &Load::new(Lane::Foreground));
        world.run_until(start.after(Duration::from_millis(random.below(900_000))));
        if random.below(3) == 0 {
            world.input(0, Input::Trip { until: world.now().after(2 * MINUTE) });
        }
        let (now, mailbox) = (world.now(), world.mailbox(0));
        let before = (mailbox.facts(now), mailbox.poll_deadline(), mailbox.explain(now, None));
        for lane in Lane::ALL {
            let _ = plan(&world, 100, lane).limit(ScopeKind::Mailbox, limit("5 requests / 1m")).forecast();
        }
        assert_eq!((mailbox.facts(now), mailbox.poll_deadline(), mailbox.explain(now, None)), before, "seed {seed}");
    }
}

#[test]
fn what_is_past_its_deadline_is_counted_as_it_comes() {
    let day = Duration::from_secs(86_400);
    for (texts, count, span) in [
        (&["30 requests / 1m", "500 recipients / 24h"][..], 1_200, day),
        (&["2 requests / 1m"][..], 100, 20 * MINUTE),
        (&["30 requests / 1m"][..], 90, 20 * MINUTE),
        (&["14 requests / 1s"][..], 700, Duration::from_micros(20_123_456)),
    ] {
        let retry = mailweir::engine::policy::RetryPolicy { deadline: span, ..Default::default() };
        let policy = Arc::new(MailboxPolicy { scope: scope(texts, 4), retry, ..MailboxPolicy::default() });
        let mut world = World::new(1, &policy, None, upstream(texts, Ratio::ZERO, 1));
        let forecast = plan(&world, count, Lane::Background).forecast();
        let (start, load) = (world.now(), Load::new(Lane::Background).deadline(span));
        assert_eq!(forecast.deadline, start.after(span));
        world.burst(start, count, &load);
        world.run_to_end(start.after(10 * day));
        let accepted = world.ended().iter().filter(|ended| matches!(ended.outcome, Outcome::Accepted { .. })).count();
        assert_eq!(forecast.past_deadline, (count - accepted) as u64, "{texts:?}");
    }
}

#[test]
fn a_campaign_too_large_to_step_through_counts_what_is_past_its_deadline_at_its_later_rate() {
    let texts = ["1_000_000 requests / 24h"];
    let policy = Arc::new(MailboxPolicy { scope: scope(&texts, 40), ..MailboxPolicy::default() });
    let world = World::new(2, &policy, None, upstream(&texts, Ratio::ZERO, 1));
    let second = Plan::new(world.mailbox(1).snapshot(world.now()), 0, Lane::Background);
    let forecast = plan(&world, 10_000_000, Lane::Background).also_from(second).forecast();
    assert_eq!(forecast.method, Method::Extrapolated);
    assert_eq!(forecast.senders.iter().map(|sender| sender.count).sum::<u64>(), 10_000_000);
    assert!((7_500_000..9_000_000).contains(&forecast.past_deadline), "{forecast:?}");
}
