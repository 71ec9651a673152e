//! A world whose faults end: everything that goes wrong in it, until one instant.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use mailweir::engine::policy::{BreakerPolicy, DuplicatePolicy, MailboxPolicy, ScopePolicy, SharedPolicy};
use mailweir::engine::{Cost, Lane, Limit, Ratio, ScopeKind, Timestamp, Unit};
use mailweir::simulation::{KeepOutbox, Load, LookUps, START, World};
use mailweir::upstream::{
    ConcurrencyLimit, Early, LogNormal, Model, Penalty, Random, Refusals, RetryAfterPolicy, Upstream, UpstreamLimit,
};

use crate::troubles::{self, Spell};
use crate::worlds::{connections, limit, lowered};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

/// The longest Retry-After that a constant one says here.
const RETRY_AFTER_S: u64 = 30;

/// One world whose faults end.
pub(crate) struct Course {
    pub(crate) world: World,
    /// When the last fault ends.
    pub(crate) over_at: Timestamp,
    pub(crate) limits: Vec<Limit>,
    pub(crate) upstream: Vec<UpstreamLimit>,
    pub(crate) policy: Arc<MailboxPolicy>,
    /// The longest that a breaker of its own accord, a Retry-After or a backoff holds anything.
    pub(crate) hold_max: Duration,
    /// By how much the clock was set.
    pub(crate) clock_set: Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
/// By whom the wall clock was set, if it was.
pub(crate) enum Set {
    No,
    Back,
    Forward,
}

fn half(random: &mut Random) -> bool {
    random.below(2) == 0
}

/// Declared limits, as the upstream keeps them.
fn limits(random: &mut Random) -> (Vec<Limit>, Vec<UpstreamLimit>) {
    let mut rows = vec![limit(random, Unit::Requests)];
    if half(random) {
        let unit = if half(random) { Unit::Recipients } else { Unit::Requests };
        rows.push(limit(random, unit));
    }
    rows.into_iter().unzip()
}

fn model(random: &mut Random, upstream: Vec<UpstreamLimit>, spell: Spell) -> Model {
    let mut model = Model::new(upstream);
    model.refusals = if half(random) { Refusals::Counted } else { Refusals::NotCounted };
    model.retry_after = match random.below(5) {
        0 => RetryAfterPolicy::None,
        1 => RetryAfterPolicy::Date,
        2 => RetryAfterPolicy::Constant(1 + random.below(RETRY_AFTER_S)),
        3 => RetryAfterPolicy::Malformed(Arc::from("soon")),
        _ => RetryAfterPolicy::Exact,
    };
    model.concurrency = vec![ConcurrencyLimit::new(ScopeKind::Mailbox, 4)];
    model.latency.up = LogNormal::new(Duration::from_millis(1 + random.below(400)), Ratio::percent(80));
    model.latency.service = LogNormal::new(Duration::from_millis(10 + random.below(1_500)), Ratio::percent(80));
    model.latency.longest = Duration::from_secs(30);
    if half(random) {
        troubles::on_the_way(&mut model.faults, random, spell);
    }
    if half(random) {
        troubles::at_the_provider(&mut model, random, spell);
    }
    if random.below(4) == 0 {
        let early = if half(random) { Early::Restarts } else { Early::Ignored };
        model.penalty = Some(Penalty { refusals: 3, within: 10 * MINUTE, lasts: 5 * MINUTE, early });
    }
    model
}

fn policy(random: &mut Random, limits: &[Limit]) -> Arc<MailboxPolicy> {
    let scope = ScopePolicy { limits: limits.to_vec(), concurrency: NonZeroU32::new(4) };
    let mut policy = MailboxPolicy { scope, ..MailboxPolicy::default() };
    if random.below(3) == 0 {
        policy.retry.duplicates = DuplicatePolicy::AtLeastOnce;
    }
    Arc::new(policy)
}

/// What tenants and the application may do, in every second world: no less than what its mailboxes need in the end.
fn shared(random: &mut Random) -> Option<Arc<SharedPolicy>> {
    let application = ScopePolicy { limits: Vec::new(), concurrency: NonZeroU32::new(3) };
    half(random).then(|| Arc::new(SharedPolicy { application, ..SharedPolicy::default() }))
}

/// People, and bursts above what the limits let through; a third of all has to be there within minutes or hours.
fn load(world: &mut World, random: &mut Random, limits: &[Limit], spell: Spell, mailboxes: usize) {
    let per_hour = |limit: &Limit| {
        let per_hour = u128::from(limit.amount()) * 3_600_000_000 / limit.window().as_micros();
        u64::try_from(per_hour).expect("small") / if limit.unit() == Unit::Recipients { 3 } else { 1 }
    };
    let rate = limits.iter().map(per_hour).min().expect("a limit").clamp(4, 240);
    let heaviest = limits.iter().filter(|limit| limit.unit() == Unit::Recipients).map(Limit::amount).min();
    for mailbox in 0..mailboxes {
        let of = |random: &mut Random, lane| {
            let deadline = match random.below(3) {
                0 => Duration::from_secs(300 + random.below(7_200)),
                _ => 30 * 24 * HOUR,
            };
            let recipients = heaviest.map_or(1, |most| 1 + random.below(most.min(6)));
            let cost = Cost::email(u32::try_from(recipients).expect("small"), 4_096);
            Load::new(lane).mailbox(mailbox).cost(cost).deadline(deadline)
        };
        for _ in 0..1 + random.below(rate) {
            let load = of(random, Lane::Foreground);
            world.submit(spell.instant(random), &load);
        }
        for _ in 0..1 + random.below(2) {
            let at = spell.instant(random);
            for _ in 0..random.below(rate) {
                let load = of(random, Lane::Background);
                world.submit(at, &load);
            }
        }
    }
}

/// F11: limits are lowered, and are as they were when everything is over.
fn changes(
    world: &mut World,
    random: &mut Random,
    policy: &Arc<MailboxPolicy>,
    shared: Option<&Arc<SharedPolicy>>,
    run: (Spell, usize),
) {
    let (spell, mailboxes) = run;
    for _ in 0..1 + random.below(2) {
        let mut next = MailboxPolicy::clone(policy);
        next.scope.concurrency = connections(random, 4);
        next.scope.limits.iter_mut().for_each(|limit| *limit = lowered(random, limit));
        let next = Arc::new(next);
        let lower = shared.map(|shared| crate::shared::lower(random, shared));
        world.reconfigure(spell.instant(random), vec![next; mailboxes], lower);
    }
    world.reconfigure(spell.until, vec![Arc::clone(policy); mailboxes], shared.cloned());
}

/// The world of one seed.
pub(crate) fn course(seed: u64) -> Course {
    let mut random = Random::stream(seed, 30);
    let over_at = START.after(Duration::from_secs(1_200 + random.below(9_600)));
    let spell = Spell { from: START, until: over_at };
    let (limits, upstream) = limits(&mut random);
    let model = model(&mut random, upstream.clone(), spell);
    let hold_max = hold_max(&limits, &model);
    let (policy, shared) = (policy(&mut random, &limits), shared(&mut random));
    let mailboxes = if half(&mut random) { 1 } else { 2 };
    let clock_ppm = i32::try_from(random.below(1_001)).expect("small") - 500;
    let mut world = World::new(mailboxes, &policy, shared.clone(), Upstream::new(model, seed))
        .clock_ppm(clock_ppm)
        .keep_outbox(KeepOutbox::Yes);
    if half(&mut random) {
        world = world.store_faults(troubles::at_the_store(&mut random, spell), seed);
    }
    if half(&mut random) {
        world = world.look_ups(LookUps::Answered);
    }
    load(&mut world, &mut random, &limits, spell, mailboxes);
    if half(&mut random) {
        changes(&mut world, &mut random, &policy, shared.as_ref(), (spell, mailboxes));
    }
    let clock_set = interfere(&mut world, &mut random, spell, mailboxes);
    Course { world, over_at, limits, upstream, policy, hold_max, clock_set }
}

/// What is done to the process, by people and by others.
fn interfere(world: &mut World, random: &mut Random, spell: Spell, mailboxes: usize) -> Set {
    let mut clock_set = Set::No;
    if half(random) {
        troubles::deaths(world, random, spell);
        if half(random) {
            clock_set = if half(random) { Set::Back } else { Set::Forward };
            match clock_set {
                Set::Back => troubles::clock_set_back(world, random, spell),
                _ => troubles::clock_set_forward(world, random, spell),
            }
        }
    }
    if half(random) {
        troubles::lost_actors(world, random, spell, mailboxes);
    }
    if half(random) {
        troubles::pauses(world, random, spell, mailboxes);
    }
    if half(random) {
        troubles::cancels(world, random, spell);
    }
    if half(random) {
        troubles::poison(world, random, spell);
    }
    if half(random) {
        troubles::operators(world, random, spell);
    }
    if half(random) {
        troubles::burns(world, random, spell);
    }
    clock_set
}

pub(crate) fn longest(limits: &[Limit]) -> Duration {
    limits.iter().map(Limit::window).max().expect("a limit")
}

fn hold_max(limits: &[Limit], model: &Model) -> Duration {
    let breaker = BreakerPolicy::default();
    let own = if longest(limits) <= MINUTE { breaker.cooldown_short_max } else { breaker.cooldown_long_max };
    let told = match model.retry_after {
        RetryAfterPolicy::Exact | RetryAfterPolicy::Date => longest(limits),
        _ => Duration::from_secs(RETRY_AFTER_S),
    };
    let penalty = match model.penalty.map(|penalty| penalty.early) {
        // Left by the long cooldown alone, which comes once in so many episodes.
        Some(Early::Restarts) => own * breaker.penalty_chain + breaker.penalty,
        Some(Early::Ignored) => breaker.penalty,
        None => Duration::ZERO,
    };
    own.max(told).max(penalty).max(breaker.health_cooldown_max)
}
