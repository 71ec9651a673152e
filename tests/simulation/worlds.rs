//! Random worlds, each from one number. Every kind of thing is drawn from a stream of its own: one more leaves the others
//! as they were.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use mailweir::engine::ledger::Ledger;
use mailweir::engine::policy::{GuardPolicy, MailboxPolicy, ScopePolicy, SharedPolicy};
use mailweir::engine::{Cost, Lane, Limit, Ratio, ScopeKind, Timestamp, Unit, WindowKind};
use mailweir::simulation::{KeepOutbox, Load, LookUps, START, World};
use mailweir::upstream::{
    Algorithm, ConcurrencyLimit, LogNormal, Model, Random, Refusals, Schedule, Upstream, UpstreamLimit,
};

use crate::shared::{self, TENANTS};
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
    /// What is declared at first, and from each change on.
    pub(crate) declared: Vec<Vec<UpstreamLimit>>,
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
    model.latency.longest = Duration::from_secs(30);
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
    let shared = shared::shared(seed, weighted);
    let mailboxes = if shared.is_some() { 2 } else { 1 };
    let shared = shared.map(|shared| shared.kept_by(&mut model));
    let kept = model.limits.clone();
    let changes = changes(seed, &policy, shared.as_deref(), hours);
    let span = Spell { from: START, until: START.after(Duration::from_secs(hours * 3_600)) };
    let mut random = Random::stream(seed, 11);
    // One in five: what its own pace cannot prevent. The rest has to get along without a single refusal.
    let disturbed = random.below(5) == 0;
    if disturbed {
        troubles::at_the_provider(&mut model, &mut random, span);
    }
    let mut world = World::new(mailboxes, &policy, shared.clone(), Upstream::new(model, seed)).clock_ppm(clock_ppm);
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
    let later = changes.iter().map(|change| limits_of(&change.policy, change.shared.as_deref()));
    let sets: Vec<_> = std::iter::once(limits_of(&policy, shared.as_deref())).chain(later).collect();
    load(&mut world, seed, sets.iter().flatten().map(|(_, limit)| *limit).collect(), weighted, hours);
    let declared = sets.iter().map(|set| set.iter().map(counted).collect()).collect();
    if changes.is_empty() && mailboxes > 1 && seed.is_multiple_of(3) {
        troubles::slow(&mut world, &mut Random::stream(seed, 13), span, mailboxes);
    }
    for Change { at, policy, shared } in changes {
        world.reconfigure(at, vec![policy; mailboxes], shared);
    }
    pauses(&mut world, seed, hours);
    let cancelled = random.below(4) == 0;
    if cancelled {
        troubles::cancels(&mut world, &mut random, span);
    }
    Run {
        world,
        end: span.until,
        kept,
        declared,
        limits,
        faulty: faulty || mortal || store,
        weighted,
        disturbed,
        cancelled,
    }
}

/// What is declared from an instant on.
struct Change {
    at: Timestamp,
    policy: Arc<MailboxPolicy>,
    shared: Option<Arc<SharedPolicy>>,
}

/// A declared limit, to be measured by.
fn counted((kind, limit): &(ScopeKind, Limit)) -> UpstreamLimit {
    UpstreamLimit::declared(*kind, limit, Algorithm::Rolling)
}

/// Every limit that is declared, of all scopes.
fn limits_of(policy: &MailboxPolicy, shared: Option<&SharedPolicy>) -> Vec<(ScopeKind, Limit)> {
    let own = policy.scope.limits.iter().map(|limit| (ScopeKind::Mailbox, *limit));
    own.chain(shared.into_iter().flat_map(shared::limits)).collect()
}

/// A limit with a quarter of its amount to all of it.
pub(crate) fn lowered(random: &mut Random, limit: &Limit) -> Limit {
    let amount = (limit.amount() * (1 + random.below(4)) / 4).max(1);
    // The depth of a bucket and the margin of `paranoid` belong to their amounts.
    if matches!(limit.kind(), WindowKind::Unknown | WindowKind::Fixed) {
        let lower = Limit::new(amount, limit.unit(), limit.window()).and_then(|it| it.with_kind(limit.kind()));
        return lower.expect("a limit");
    }
    *limit
}

/// From one to `most`.
pub(crate) fn connections(random: &mut Random, most: u64) -> Option<NonZeroU32> {
    NonZeroU32::new(u32::try_from(1 + random.below(most)).expect("small"))
}

/// In one world in three, limits that are lowered and raised again, never above what the upstream keeps, and other
/// connections.
fn changes(seed: u64, policy: &Arc<MailboxPolicy>, shared: Option<&SharedPolicy>, hours: u64) -> Vec<Change> {
    let mut random = Random::stream(seed, 9);
    let mut of_shared = Random::stream(seed, 14);
    let count = if random.below(3) == 0 { 1 + random.below(3) } else { 0 };
    let change = |_| {
        let mut next = MailboxPolicy::clone(policy);
        next.scope.limits.iter_mut().for_each(|limit| *limit = lowered(&mut random, limit));
        next.scope.concurrency = connections(&mut random, 4);
        let at = START.after(Duration::from_secs(random.below(hours * 3_600)));
        Change { at, policy: Arc::new(next), shared: shared.map(|shared| shared::lower(&mut of_shared, shared)) }
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

/// Foreground as a Poisson process at a quarter of the rate, background in bursts above it, of each mailbox.
fn load(world: &mut World, seed: u64, limits: Vec<Limit>, weighted: bool, hours: u64) {
    let per_hour = |limit: &Limit| {
        let per_hour = u128::from(limit.amount()) * 3_600_000_000 / limit.window().as_micros();
        let cost = if limit.unit() == Unit::Recipients { 10 } else { 1 };
        u64::try_from(per_hour / cost).unwrap_or(u64::MAX).clamp(1, 1_500)
    };
    let rate = limits.iter().map(per_hour).min().expect("a limit");
    // Heavier ones are refused at submit, which this world does not ask.
    let guard = GuardPolicy::default();
    let capacity = |limit: &Limit| Ledger::new(*limit, &guard).capacity();
    let of_recipients = limits.iter().filter(|limit| limit.unit() == Unit::Recipients);
    let heaviest = if weighted { of_recipients.map(capacity).min().unwrap_or(19).min(19) } else { 1 };
    for mailbox in 0..world.mailboxes() {
        // The first one's draws are those of a world that has no other.
        let seed = seed ^ ((mailbox as u64) << 40);
        let of_one = Campaigns { seed, rate, heaviest, hours };
        of_one.submit(world, mailbox);
    }
}

/// What one mailbox sends.
struct Campaigns {
    seed: u64,
    rate: u64,
    heaviest: u64,
    hours: u64,
}

impl Campaigns {
    fn submit(&self, world: &mut World, mailbox: usize) {
        let &Self { seed, rate, heaviest, hours } = self;
        let mut random = Random::stream(seed, 8);
        let (start, span) = (world.start(), Duration::from_secs(hours * 3_600));
        // Tenants in turn, where there is more than one mailbox.
        let tenants = if world.mailboxes() > 1 { &TENANTS[..] } else { &TENANTS[..1] };
        let of = |lane, number: usize| {
            let load = Load::new(lane).mailbox(mailbox);
            tenants[number % tenants.len()].map_or_else(|| load.clone(), |tenant| load.clone().tenant(tenant))
        };
        let foreground = u32::try_from((rate / 4 / tenants.len() as u64).max(1)).expect("small");
        for number in 0..tenants.len() {
            let stream = seed ^ ((number as u64) << 48);
            world.poisson(stream, foreground, 1, start.after(span), &of(Lane::Foreground, number));
        }
        for burst in 0..hours.min(6) {
            let at = start.after(Duration::from_secs(burst * 3_600 + random.below(3_600)));
            let count = usize::try_from(rate.min(1_200)).expect("small");
            for number in 0..count {
                let heavy = if heaviest > 1 { u32::try_from(1 + random.below(heaviest)).expect("small") } else { 1 };
                world.submit(at, &of(Lane::Background, number).cost(Cost::email(heavy, 4_096)));
            }
        }
    }
}
