//! Random worlds under shared scopes, with connections so tight that mailboxes, tenants and the application are full
//! at once. The world itself counts the work of each instant; here everything has to end, and within its limits.
//!
//! A failure prints the command that replays its seed.
#![cfg(feature = "sim")]

mod replay;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use mailweir::engine::mailbox::Outcome;
use mailweir::engine::policy::{MailboxPolicy, ScopePolicy, SharedPolicy};
use mailweir::engine::{Lane, Limit, Ratio, ScopeKind};
use mailweir::simulation::{Load, World};
use mailweir::upstream::{Algorithm, ConcurrencyLimit, LogNormal, Model, Random, Upstream, UpstreamLimit, check};

use replay::Replay;

const TENANTS: [&str; 5] = ["acme", "zenith", "globex", "initech", "umbrella"];
const OPERATIONS: usize = 60;

fn small(random: &mut Random, below: u64) -> usize {
    usize::try_from(random.below(below)).expect("a small number")
}

fn scope(random: &mut Random, limits: &[&str], connections_max: u64) -> ScopePolicy {
    let limits: Vec<Limit> = limits.iter().map(|text| text.parse().expect("a limit")).collect();
    let limits = if random.below(2) == 0 { limits } else { Vec::new() };
    ScopePolicy {
        limits,
        concurrency: NonZeroU32::new(u32::try_from(1 + random.below(connections_max)).expect("small")),
    }
}

fn run(seed: u64) {
    let mut random = Random::stream(seed, 21);
    let mailbox = MailboxPolicy { scope: scope(&mut random, &["30 requests / 1m"], 3), ..MailboxPolicy::default() };
    let application = scope(&mut random, &["20 requests / 10s"], 3);
    let mut shared = SharedPolicy { application, ..SharedPolicy::default() };
    if random.below(2) == 0 {
        shared.tenant = scope(&mut random, &["6 requests / 10s"], 2);
    }
    // The upstream keeps at every scope what is declared there.
    let scopes = [
        (ScopeKind::Mailbox, &mailbox.scope),
        (ScopeKind::Tenant, &shared.tenant),
        (ScopeKind::Application, &shared.application),
    ];
    let rolling = |kind, limit: &Limit| UpstreamLimit::declared(kind, limit, Algorithm::Rolling);
    let kept = scopes.map(|(kind, scope)| scope.limits.iter().map(|limit| rolling(kind, limit)).collect::<Vec<_>>());
    let kept = kept.concat();
    let bound = |(kind, scope): (_, &ScopePolicy)| Some(ConcurrencyLimit::new(kind, scope.concurrency?.get()));
    let mut model = Model::new(kept.clone());
    model.concurrency = scopes.into_iter().filter_map(bound).collect();
    model.latency.up = LogNormal::new(Duration::from_millis(1 + random.below(50)), Ratio::percent(50));
    model.latency.service = LogNormal::new(Duration::from_millis(10 + random.below(900)), Ratio::percent(80));
    model.latency.longest = Duration::from_secs(30);
    let mailboxes = 1 + small(&mut random, 3);
    let mut world = World::new(mailboxes, &Arc::new(mailbox), Some(Arc::new(shared)), Upstream::new(model, seed));
    for _ in 0..OPERATIONS {
        // Some together, some while others are on their way.
        let at = world.start().after(Duration::from_millis(random.below(20) * 100));
        let lane = if random.below(3) == 0 { Lane::Background } else { Lane::Foreground };
        let mut load = Load::new(lane).mailbox(small(&mut random, mailboxes as u64));
        if random.below(6) > 0 {
            load = load.tenant(TENANTS[small(&mut random, 5)]);
        }
        world.submit(at, &load);
    }
    // In every second world one mailbox's actor is slow: seconds at a time, in the middle of everything.
    if seed.is_multiple_of(2) {
        let slow = small(&mut random, mailboxes as u64);
        for number in 0..12 {
            let at = world.start().after(Duration::from_millis(number * 5_000 + random.below(3_000)));
            world.pause_mailbox(slow, at, Duration::from_millis(1 + random.below(8_000)));
        }
    }
    world.run_to_end(world.start().after(Duration::from_secs(86_400)));
    assert_eq!(world.pending(), 0, "everything ends");
    let ended = world.ended();
    assert!(ended.iter().all(|ended| matches!(ended.outcome, Outcome::Accepted { .. })), "{ended:?}");
    let counts = check::counts(world.upstream().log().client());
    assert_eq!(counts.refused, 0, "{kept:?}");
    for limit in &kept {
        let most = check::max_in_window(world.upstream().log().client(), limit);
        assert!(most <= limit.amount, "L1: {most} in one window of {limit:?}");
    }
}

#[test]
fn however_tight_the_limits_of_all_scopes_an_instant_has_an_end() {
    let here = Replay { features: "sim", test: "shared_scopes", name: "however_tight" };
    Replay::seeds(400).for_each(|seed| here.run(seed, run));
}

#[test]
fn an_actor_that_is_slow_is_late_alone() {
    let limits = |text: &str| vec![text.parse::<Limit>().expect("a limit")];
    let scope = |text, most| ScopePolicy { limits: limits(text), concurrency: NonZeroU32::new(most) };
    let mailbox = MailboxPolicy { scope: scope("30 requests / 1m", 4), ..MailboxPolicy::default() };
    let shared = SharedPolicy { application: scope("60 requests / 1m", 8), ..SharedPolicy::default() };
    let slowest = |slow: bool| {
        let upstream = Upstream::new(Model::new(Vec::new()), 3);
        let mut world = World::new(2, &Arc::new(mailbox.clone()), Some(Arc::new(shared.clone())), upstream);
        if slow {
            // Ten minutes, beginning while some of its requests are on their way and some wait for the application.
            world.pause_mailbox(0, world.start().after(Duration::from_millis(100)), Duration::from_secs(600));
        }
        for number in 0..2 {
            world.burst(world.start(), 40, &Load::new(Lane::Background).mailbox(number));
            for second in 0..20 {
                let at = world.start().after(Duration::from_secs(second * 7));
                world.submit(at, &Load::new(Lane::Foreground).mailbox(number));
            }
        }
        world.run_to_end(world.start().after(Duration::from_secs(3_600)));
        assert_eq!(world.pending(), 0, "everything ends");
        let wait = |number| {
            let people = world.ended().iter().filter(move |it| it.mailbox == number && it.lane == Lane::Foreground);
            people.map(|ended| ended.ended_at.since(ended.submitted_at)).max().expect("some")
        };
        (wait(0), wait(1))
    };
    let (undisturbed, disturbed) = (slowest(false), slowest(true));
    assert!(disturbed.0 > Duration::from_secs(400), "it is late: {disturbed:?}");
    assert!(disturbed.1 <= undisturbed.1.max(Duration::from_secs(2)), "{undisturbed:?} {disturbed:?}");
}
