//! Random worlds, each from one number. Every kind of thing is drawn from a stream of its own: one more leaves the others
//! as they were.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use mailweir::engine::ledger::Ledger;
use mailweir::engine::policy::{GuardPolicy, MailboxPolicy, ScopePolicy};
use mailweir::engine::{Cost, Lane, Limit, Ratio, ScopeKind, Timestamp, Unit, WindowKind};
use mailweir::simulation::{KeepOutbox, Load, LookUps, START, World};
use mailweir::upstream::{
    Algorithm, ConcurrencyLimit, LogNormal, Model, Random, Refusals, Schedule, Upstream, UpstreamLimit,
};

use crate::troubles::{self, Spell};

/// Amounts and windows from 1/s to 10,000/day. The parameters were chosen on 30/min, 120/min and 400/h alone.
const PAIRS: [(u64, u64); 11] = [
    (1, 1),
    (14, 1),
    (10, 10),
    (2, 60),
    (5, 60),
    (30, 60),
    (120, 60),
    (400, 3_600),
    (60, 600),
    (1_000, 86_400),
    (10_000, 86_400),
];

/// One world before its run, and what may come of it.
pub(crate) struct Run {
    pub(crate) world: World,
    /// Until when.
    pub(crate) end: Timestamp,
    /// Every limit that the upstream keeps.
    pub(crate) kept: Vec<UpstreamLimit>,
    /// As they are declared.
    pub(crate) limits: Vec<Limit>,
    /// Whether requests and answers get lost, processes die, rows are not written.
    pub(crate) faulty: bool,
    /// Whether operations cost different amounts.
    pub(crate) weighted: bool,
    /// Whether the upstream refuses what its limits would let in, or lets others in.
    pub(crate) disturbed: bool,
    /// Whether operations are cancelled.
    pub(crate) cancelled: bool,
}

pub(crate) fn any<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[usize::try_from(random.below(of.len() as u64)).expect("an index")]
}

/// A limit as we declare it, and as the upstream counts it.
pub(crate) fn limit(random: &mut Random, unit: Unit) -> (Limit, UpstreamLimit) {
    let (mut amount, seconds) = any(random, &PAIRS);
    if unit == Unit::Recipients {
        amount = amount.saturating_mul(20);
    }
    let window = Duration::from_secs(seconds);
    let phase = Duration::from_micros(random.below(seconds * 1_000_000));
    let depth = (amount / 3).max(2);
    let (algorithm, kind) = match random.below(6) {
        0 => (Algorithm::Fixed { phase }, WindowKind::Fixed),
        1 => (Algorithm::Anchored, WindowKind::Unknown),
        2 => (Algorithm::Bucket { depth: amount }, WindowKind::Unknown),
        3 if amount >= 5 => (Algorithm::SlidingCounter { phase }, WindowKind::Paranoid),
        4 if amount >= 5 && seconds >= 60 => {
            let depth = NonZeroU64::new(depth).expect("at least 2");
            (Algorithm::Bucket { depth: depth.get() }, WindowKind::Bucket { depth })
        }
        _ => (Algorithm::Rolling, WindowKind::Unknown),
    };
    let declared = Limit::new(amount, unit, window).and_then(|limit| limit.with_kind(kind)).expect("a limit");
    (declared, UpstreamLimit::declared(ScopeKind::Mailbox, &declared, algorithm))
}

/// What a mailbox's provider is, before anything goes wrong with it.
struct Provider {
    limits: Vec<Limit>,
    model: Model,
    faulty: bool,
    weighted: bool,
}

fn provider(seed: u64) -> (Provider, i32) {
    let mut random = Random::stream(seed, 7);
    let weighted = random.below(3) == 0;
    let mut rows = vec![limit(&mut random, Unit::Requests)];
    if random.below(2) == 0 {
        rows.push(limit(&mut random, if weighted { Unit::Recipients } else { Unit::Requests }));
    }
    let (limits, upstream): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    let mut model = Model::new(upstream);
    if random.below(2) == 0 {
        model.refusals = Refusals::Counted;
    }
    model.concurrency = vec![ConcurrencyLimit::new(ScopeKind::Mailbox, 4)];
    let up = Duration::from_millis(1 + random.below(400));
    model.latency.up = LogNormal::new(up, Ratio::percent(50 + u32::try_from(random.below(60)).expect("small")));
    model.latency.service = LogNormal::new(Duration::from_millis(10 + random.below(2_000)), Ratio::percent(80));
    model.latency.longest = Duration::from_secs(20);
    let faulty = random.below(2) == 0;
    if faulty {
        let rare = |ppm| Schedule::always(Ratio::ppm(ppm));
        model.faults.request_lost = rare(2_000);
        model.faults.cut_before_body = rare(2_000);
        model.faults.cut_after_body = rare(3_000);
        model.faults.response_lost = rare(3_000);
        model.faults.response_duplicated = rare(3_000);
        model.faults.error_before_charge = rare(5_000);
        model.faults.error_after_charge = rare(5_000);
        model.faults.timeout_after_acceptance = rare(5_000);
        model.faults.timeout_lingers = Duration::from_secs(5);
        model.faults.accepted_with_retry_after = rare(5_000);
    }
    let clock_ppm = i32::try_from(random.below(1_001)).expect("small") - 500;
    (Provider { limits, model, faulty, weighted }, clock_ppm)
}

/// The world of one seed, `hours` long.
pub(crate) fn plan(seed: u64, hours: u64) -> Run {
    let (Provider { limits, mut model, faulty, weighted }, clock_ppm) = provider(seed);
    let scope = ScopePolicy { limits: limits.clone(), concurrency: NonZeroU32::new(4) };
    let policy = Arc::new(MailboxPolicy { scope, ..MailboxPolicy::default() });
    let kept = model.limits.clone();
    let changes = changes(seed, &policy, hours);
    let span = Spell { from: START, until: START.after(Duration::from_secs(hours * 3_600)) };
    let mut random = Random::stream(seed, 11);
    // One in five: what its own pace cannot prevent. The rest has to get along without a single refusal.
    let disturbed = random.below(5) == 0;
    if disturbed {
        troubles::at_the_provider(&mut model, &mut random, span);
    }
    let mut world = World::new(1, &policy, None, Upstream::new(model, seed)).clock_ppm(clock_ppm);
    let mortal = random.below(4) == 0;
    if mortal {
        world = world.keep_outbox(KeepOutbox::Yes);
        troubles::deaths(&mut world, &mut random, span);
        if random.below(2) == 0 {
            // Set back, never forward: what was sent an hour ago by the clock may have been sent just now.
            troubles::clock_set_back(&mut world, &mut random, span);
        }
    }
    let store = random.below(4) == 0;
    if store {
        world = world.store_faults(troubles::at_the_store(&mut random, span), seed);
    }
    if random.below(2) == 0 {
        world = world.look_ups(LookUps::Answered);
    }
    let smallest = changes.iter().flat_map(|(_, policy)| policy.scope.limits.clone()).chain(limits.clone());
    load(&mut world, seed, &smallest.collect::<Vec<_>>(), weighted, hours);
    for (at, policy) in changes {
        world.reconfigure(at, vec![policy], None);
    }
    pauses(&mut world, seed, hours);
    let cancelled = random.below(4) == 0;
    if cancelled {
        troubles::cancels(&mut world, &mut random, span);
    }
    Run { world, end: span.until, kept, limits, faulty: faulty || mortal || store, weighted, disturbed, cancelled }
}

/// In one world in three, limits that are lowered and raised again, never above what the upstream keeps, and other
/// connections.
fn changes(seed: u64, policy: &Arc<MailboxPolicy>, hours: u64) -> Vec<(Timestamp, Arc<MailboxPolicy>)> {
    let mut random = Random::stream(seed, 9);
    let count = if random.below(3) == 0 { 1 + random.below(3) } else { 0 };
    let change = |_| {
        let mut next = MailboxPolicy::clone(policy);
        for limit in &mut next.scope.limits {
            let amount = (limit.amount() * (1 + random.below(4)) / 4).max(1);
            // The depth of a bucket and the margin of `paranoid` belong to their amounts.
            if matches!(limit.kind(), WindowKind::Unknown | WindowKind::Fixed) {
                let lower = Limit::new(amount, limit.unit(), limit.window()).and_then(|it| it.with_kind(limit.kind()));
                *limit = lower.expect("a limit");
            }
        }
        next.scope.concurrency = NonZeroU32::new(u32::try_from(1 + random.below(4)).expect("small"));
        (START.after(Duration::from_secs(random.below(hours * 3_600))), Arc::new(next))
    };
    (0..count).map(change).collect()
}

/// In one world in four, the process stands still for up to ten minutes; in another one it is slow for a quarter of an
/// hour: seconds at a time.
fn pauses(world: &mut World, seed: u64, hours: u64) {
    let mut random = Random::stream(seed, 10);
    let mut at = || Duration::from_secs(random.below(hours * 3_600));
    let stops: Vec<_> = match seed % 4 {
        0 => (0..3).map(|_| (at(), 600_000)).collect(),
        1 => {
            let from = at();
            (0..180).map(|number| (from + number * Duration::from_secs(5), 4_000)).collect()
        }
        _ => Vec::new(),
    };
    for (after, most) in stops {
        world.pause(START.after(after), Duration::from_millis(1 + random.below(most)));
    }
}

/// Foreground as a Poisson process at a quarter of the rate, background in bursts above it.
fn load(world: &mut World, seed: u64, limits: &[Limit], weighted: bool, hours: u64) {
    let mut random = Random::stream(seed, 8);
    let (start, span) = (world.start(), Duration::from_secs(hours * 3_600));
    let per_hour = |limit: &Limit| {
        let per_hour = u128::from(limit.amount()) * 3_600_000_000 / limit.window().as_micros();
        let cost = if limit.unit() == Unit::Recipients { 10 } else { 1 };
        u64::try_from(per_hour / cost).unwrap_or(u64::MAX).clamp(1, 1_500)
    };
    let rate = limits.iter().map(per_hour).min().expect("a limit");
    // Heavier ones are refused at submit, which this world does not ask.
    let guard = GuardPolicy::default();
    let of_recipients = limits.iter().filter(|limit| limit.unit() == Unit::Recipients);
    let heaviest = of_recipients.map(|limit| Ledger::new(*limit, &guard).capacity()).min().unwrap_or(19).min(19);
    let recipients = |random: &mut Random| u32::try_from(1 + random.below(heaviest)).expect("small");
    let foreground = u32::try_from((rate / 4).max(1)).expect("small");
    world.poisson(seed, foreground, 1, start.after(span), &Load::new(Lane::Foreground));
    for burst in 0..hours.min(6) {
        let at = start.after(Duration::from_secs(burst * 3_600 + random.below(3_600)));
        let count = usize::try_from(rate.min(1_200)).expect("small");
        for _ in 0..count {
            let heavy = if weighted { recipients(&mut random) } else { 1 };
            world.submit(at, &Load::new(Lane::Background).cost(Cost::email(heavy, 4_096)));
        }
    }
}
