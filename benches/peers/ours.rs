//! The same through mailweir's engine.

use std::num::NonZeroU32;
use std::sync::Arc;

use mailweir::engine::Cost;
use mailweir::engine::mailbox::Outcome;
use mailweir::engine::policy::{LanesMode, MailboxPolicy, ScopePolicy};
use mailweir::simulation::{Load, World};
use mailweir::upstream::{Profile, Upstream};

use crate::report::{Cell, Overhead};
use crate::scenario::{self, START, Scenario};

pub(crate) fn run(scenario: &Scenario, profile: Profile, seed: u64, mode: LanesMode) -> Cell {
    let jobs = scenario.jobs(seed);
    let mut policy = MailboxPolicy {
        scope: ScopePolicy { limits: scenario.limits.clone(), concurrency: NonZeroU32::new(scenario.concurrency) },
        ..MailboxPolicy::default()
    };
    policy.lanes.mode = mode;
    policy.lanes.foreground_expected_per_hour = scenario.foreground_per_hour;
    // Peers repeat until it is taken.
    policy.retry.attempts_max = NonZeroU32::new(1_000).expect("not zero");
    let upstream = Upstream::new(scenario.model(profile, seed), seed);
    let mut world = World::new(scenario.mailboxes, &Arc::new(policy), None, upstream);
    assert_eq!(world.start(), START);
    let mut keys = std::collections::HashMap::new();
    for (number, job) in jobs.iter().enumerate() {
        let mailbox = job.mailbox.trim_start_matches('m').split('@').next().and_then(|n| n.parse().ok());
        let load = Load::new(job.lane).cost(job.cost).mailbox(mailbox.expect("m<number>@"));
        let load = job.tenant.as_ref().map_or(load.clone(), |tenant| load.tenant(tenant));
        keys.insert(world.submit(job.at, &load), number);
    }
    if let Some((after, count)) = scenario.burn {
        world.run_until(START.after(after));
        let cost = Cost { requests: count, ..Cost::ONE_REQUEST };
        let now = world.now();
        world.upstream_mut().burn(now, &scenario::name(0), None, cost);
    }
    world.run_to_end(START.after(scenario.cut_off));
    let mut ended = vec![None; jobs.len()];
    for end in world.ended() {
        if matches!(end.outcome, Outcome::Accepted { .. }) {
            ended[keys[&end.key]] = Some(end.ended_at);
        }
    }
    let store = world.store_use();
    let cost = Overhead { wakes: world.wakes(), store_calls: store.calls, transactions: store.transactions };
    Cell::read(scenario, profile, seed, (&jobs, &ended), world.upstream(), cost)
}
