//! Recorded runs, played through engines alone: what a decision costs in the mixture in which a simulation asks for it.
//!
//! Inputs arrive, are claimed, answered and woken as they were in the run, so most of them find a window, a pace or a
//! connection in the way, and few a mailbox with nothing to do.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use mailweir::engine::policy::{MailboxPolicy, ScopePolicy, SharedPolicy};
use mailweir::engine::{Lane, Limit, Timestamp};
use mailweir::simulation::{Load, Recording, World};
use mailweir::upstream::{Profile, Upstream, UpstreamLimit};

const SEED: u64 = 7;
const HOUR: Duration = Duration::from_secs(3_600);

/// Name, and what to record.
pub(crate) type Replay = (&'static str, fn() -> Recording);

pub(crate) const REPLAYS: [Replay; 5] = [
    ("replay/s0", s0),
    ("replay/s2", s2),
    ("replay/4-limits", four_limits),
    ("replay/20000-waiting", waiting),
    ("replay/100-mailboxes-shared-limit", mailboxes),
];

fn scope(limits: &[&str], connections: u32) -> ScopePolicy {
    let limits = limits.iter().map(|text| text.parse().expect("a limit")).collect();
    ScopePolicy { limits, concurrency: NonZeroU32::new(connections) }
}

fn world(count: usize, limits: &[&str], shared: Option<SharedPolicy>) -> World {
    let policy = Arc::new(MailboxPolicy { scope: scope(limits, 5), ..MailboxPolicy::default() });
    let kept = limits.iter().map(|text| text.parse::<Limit>().expect("a limit"));
    let kept = kept.map(|limit| UpstreamLimit::declared(mailweir::engine::ScopeKind::Mailbox, &limit, ROLLING));
    let model = Profile::A.model(kept, SEED);
    World::new(count, &policy, shared.map(Arc::new), Upstream::new(model, SEED)).record()
}

const ROLLING: mailweir::upstream::Algorithm = mailweir::upstream::Algorithm::Rolling;

fn recorded(mut world: World, until: Timestamp) -> Recording {
    world.run_to_end(until);
    world.recording().expect("it was recorded").clone()
}

/// 200 at once under 30 a minute, two people a minute.
fn s0() -> Recording {
    let mut world = world(1, &["30 requests / 1m"], None);
    let start = world.start();
    world.burst(start, 200, &Load::new(Lane::Background));
    world.poisson(SEED, 120, 1, start.after(HOUR / 6), &Load::new(Lane::Foreground));
    recorded(world, start.after(2 * HOUR))
}

/// 1,300 at once under 120 a minute and 400 an hour, four scans an hour of five emails each.
fn s2() -> Recording {
    let mut world = world(1, &["120 requests / 1m", "400 requests / 1h"], None);
    let start = world.start();
    world.burst(start, 1_300, &Load::new(Lane::Background));
    world.poisson(SEED, 4, 5, start.after(3 * HOUR), &Load::new(Lane::Foreground));
    recorded(world, start.after(8 * HOUR))
}

/// Graph's limits of a mailbox, at a rate that binds, people beside it.
fn four_limits() -> Recording {
    let limits = ["30 requests / 1m", "10_000 recipients / 24h", "10_000 requests / 10m", "150MB / 5m"];
    let mut world = world(1, &limits, None);
    let start = world.start();
    world.burst(start, 3_000, &Load::new(Lane::Background));
    world.poisson(SEED, 300, 1, start.after(2 * HOUR), &Load::new(Lane::Foreground));
    recorded(world, start.after(2 * HOUR))
}

/// A queue longer than the caches.
fn waiting() -> Recording {
    let mut world = world(1, &["600 requests / 1m"], None);
    let start = world.start();
    world.burst(start, 20_000, &Load::new(Lane::Background));
    recorded(world, start.after(HOUR))
}

/// Both kinds of engine: every send is asked for at the mailbox and at the application.
fn mailboxes() -> Recording {
    let shared = SharedPolicy { application: scope(&["500 requests / 10s"], 64), ..SharedPolicy::default() };
    let mut world = world(100, &["30 requests / 1m"], Some(shared));
    let start = world.start();
    for mailbox in 0..100 {
        world.burst(start, 100, &Load::new(Lane::Background).mailbox(mailbox));
        world.poisson(
            SEED + mailbox as u64,
            60,
            1,
            start.after(HOUR / 6),
            &Load::new(Lane::Foreground).mailbox(mailbox),
        );
    }
    recorded(world, start.after(HOUR / 6))
}

/// Plays a recording until `count` inputs were decided on.
pub(crate) fn play(recording: &Recording, count: u64) {
    let mut left = usize::try_from(count).expect("a number of inputs");
    while left > 0 {
        let played = recording.play(left);
        assert!(played.sends > 0 || played.decisions < 100, "a run sends");
        left -= usize::try_from(played.decisions).expect("as many as were asked for");
    }
}
