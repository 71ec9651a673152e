//! What goes wrong in a span of a world, and no longer.

use std::sync::Arc;
use std::time::Duration;

use mailweir::engine::mailbox::{Hold, HoldTarget, Input};
use mailweir::engine::{Cost, OperationKey, Ratio, Scope, ScopeKind, Timestamp};
use mailweir::simulation::{Step, StoreFaults, World};
use mailweir::upstream::{Block, Faults, Foreign, Model, Random, Schedule};

/// From when to when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spell {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
}

impl Spell {
    /// An instant in it.
    pub(crate) fn instant(self, random: &mut Random) -> Timestamp {
        let micros = self.until.since(self.from).as_micros();
        self.from.after(Duration::from_micros(random.below(u64::try_from(micros).expect("a span"))))
    }

    /// A part of it, at most as long as `longest`.
    fn part(self, random: &mut Random, longest: Duration) -> Self {
        let from = self.instant(random);
        let millis = u64::try_from(longest.as_millis()).expect("a span");
        let until = from.after(Duration::from_millis(1 + random.below(millis))).min(self.until);
        Self { from, until }
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

/// The mailbox of a world that has one; the first of one that has more.
const MAILBOX: &str = "m0@contoso.example";

fn ppm(random: &mut Random, most: u64) -> Ratio {
    Ratio::ppm(u32::try_from(random.below(most + 1)).expect("small"))
}

/// F2 and F3: requests and answers are lost, 5xx before and after the charge.
pub(crate) fn on_the_way(faults: &mut Faults, random: &mut Random, spell: Spell) {
    let mut some = |most| {
        let part = spell.part(random, 2 * HOUR);
        Schedule::always(Ratio::ppm(0)).between(part.from, part.until, ppm(random, most))
    };
    faults.request_lost = some(50_000);
    faults.cut_before_body = some(50_000);
    faults.cut_after_body = some(50_000);
    faults.response_lost = some(50_000);
    faults.response_duplicated = some(50_000);
    faults.error_before_charge = some(400_000);
    faults.error_after_charge = some(200_000);
    faults.timeout_after_acceptance = some(50_000);
    faults.accepted_with_retry_after = some(50_000);
    faults.timeout_lingers = Duration::from_secs(5);
}

/// F5: limits that halve or fall to a quarter, a block, other clients.
pub(crate) fn at_the_provider(model: &mut Model, random: &mut Random, spell: Spell) {
    let mailbox: Arc<str> = Arc::from(MAILBOX);
    if random.below(2) == 0 {
        let part = spell.part(random, HOUR);
        let left = Ratio::percent(if random.below(2) == 0 { 50 } else { 25 });
        let scale = Schedule::always(Ratio::ONE).between(part.from, part.until, left);
        for limit in &mut model.limits {
            limit.scale = scale.clone();
        }
    }
    if random.below(2) == 0 {
        let part = spell.part(random, HOUR);
        let has_shared = model.limits.iter().any(|limit| limit.scope == ScopeKind::Application);
        let scope = match has_shared && random.below(2) == 0 {
            true => Scope::Application,
            false => Scope::Mailbox(Arc::clone(&mailbox)),
        };
        model.blocks.push(Block { scope, from: part.from, until: part.until });
    }
    if random.below(2) == 0 {
        let part = spell.part(random, HOUR);
        let per_hour = u32::try_from(1 + random.below(1_200)).expect("small");
        let per_hour = Schedule::always(0).between(part.from, part.until, per_hour);
        model.foreign.push(Foreign { mailbox, tenant: None, cost: Cost::email(1, 4_096), per_hour });
    }
}

/// F5: somebody else spends a lot at once.
pub(crate) fn burns(world: &mut World, random: &mut Random, spell: Spell) {
    for _ in 0..1 + random.below(2) {
        let requests = u32::try_from(1 + random.below(60)).expect("small");
        let cost = Cost { requests, ..Cost::email(1, 4_096) };
        world.burn(spell.instant(random), Arc::from(MAILBOX), None, cost);
    }
}

/// F7: the process dies, and is back within minutes.
pub(crate) fn deaths(world: &mut World, random: &mut Random, spell: Spell) {
    let mut at = spell.from;
    for _ in 0..1 + random.below(3) {
        // One after the other: nobody dies who is dead.
        let rest = Spell { from: at, until: spell.until };
        let back = rest.part(random, Duration::from_secs(600));
        if back.from >= back.until {
            return;
        }
        world.crash(back.from, back.until.since(back.from));
        at = back.until.after(Duration::from_secs(1));
        if at >= spell.until {
            return;
        }
    }
}

/// F12: actors are lost and made anew.
pub(crate) fn lost_actors(world: &mut World, random: &mut Random, spell: Spell, mailboxes: usize) {
    for _ in 0..1 + random.below(3) {
        let mailbox = usize::try_from(random.below(mailboxes as u64)).expect("small");
        world.lose_actor(spell.instant(random), mailbox);
    }
}

/// F6: the wall clock is set back by up to an hour.
pub(crate) fn clock_set_back(world: &mut World, random: &mut Random, spell: Spell) {
    world.set_wall_clock(spell.instant(random), Step::Back, Duration::from_secs(1 + random.below(3_600)));
}

/// F6: it is set forward.
pub(crate) fn clock_set_forward(world: &mut World, random: &mut Random, spell: Spell) {
    world.set_wall_clock(spell.instant(random), Step::Forward, Duration::from_secs(1 + random.below(3_600)));
}

/// F7: the process stands still, and one actor is slow.
pub(crate) fn pauses(world: &mut World, random: &mut Random, spell: Spell, mailboxes: usize) {
    let still = spell.part(random, Duration::from_secs(600));
    world.pause(still.from, still.until.since(still.from));
    slow(world, random, spell, mailboxes);
}

/// F7: an actor is slow, seconds at a time.
pub(crate) fn slow(world: &mut World, random: &mut Random, spell: Spell, mailboxes: usize) {
    for _ in 0..random.below(20) {
        let slow = spell.part(random, Duration::from_secs(8));
        let mailbox = usize::try_from(random.below(mailboxes as u64)).expect("small");
        world.pause_mailbox(mailbox, slow.from, slow.until.since(slow.from));
    }
}

/// F9: rows that are not written, or nobody knows whether, or late.
pub(crate) fn at_the_store(random: &mut Random, spell: Spell) -> StoreFaults {
    let mut some = |most| {
        let part = spell.part(random, 2 * HOUR);
        Schedule::always(Ratio::ppm(0)).between(part.from, part.until, ppm(random, most))
    };
    let mut faults = StoreFaults::default();
    (faults.fails, faults.in_doubt, faults.slow) = (some(300_000), some(100_000), some(200_000));
    faults.slow_max = Duration::from_secs(20);
    faults
}

/// F10: mail is cancelled, waiting or under way.
pub(crate) fn cancels(world: &mut World, random: &mut Random, spell: Spell) {
    told(world, random, spell, 12, |key| Input::Cancel { key });
}

/// F10: an attempt brings its worker down, or a person sets an operation aside.
pub(crate) fn poison(world: &mut World, random: &mut Random, spell: Spell) {
    told(world, random, spell, 6, |key| Input::Crashed { key, crashes: 1 + u32::from(key.0 % 2 == 0) * 2 });
    told(world, random, spell, 3, |key| Input::Quarantine { key });
}

fn told(world: &mut World, random: &mut Random, spell: Spell, most: u64, what: impl Fn(OperationKey) -> Input) {
    let operations = world.planned();
    for _ in 0..random.below(most + 1).min(operations.len() as u64) {
        let one = &operations[usize::try_from(random.below(operations.len() as u64)).expect("an index")];
        // Soon after its submission, when it is likely to be here.
        let soon = Spell { from: one.at, until: one.at.after(Duration::from_secs(900)) };
        let at = soon.instant(random).min(spell.until);
        let mailbox = if &*one.mailbox == MAILBOX { 0 } else { 1 };
        world.tell(at, mailbox, what(one.key));
    }
}

/// Operators hold a mailbox and open its breaker by hand, for a while.
pub(crate) fn operators(world: &mut World, random: &mut Random, spell: Spell) {
    let held = spell.part(random, HOUR);
    let tripped = spell.part(random, HOUR);
    let (until, later) = (world.local(held.until), world.local(tripped.until));
    world.tell(held.from, 0, Input::Hold(Hold::new(HoldTarget::Mailbox, until)));
    world.tell(tripped.from, 0, Input::Trip { until: later });
}
