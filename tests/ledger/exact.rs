//! Random histories: the answers against a model that recomputes everything, and each instant named against the one
//! before it.

use std::time::Duration;

use mailweir::engine::ledger::{Counted, Earliest, Ledger};
use mailweir::engine::policy::GuardPolicy;
use mailweir::engine::{Lane, Limit, Timestamp, Unit, WindowKind};
use proptest::prelude::*;

use crate::drive::{Dice, SECOND, START};

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// A charge as the model keeps it.
#[derive(Clone, Copy, Debug)]
struct Charge {
    lane: Lane,
    cost: u64,
    /// `None`: in flight.
    free_at: Option<u64>,
    counted: Counted,
}

/// A ledger, the same history in a plain list, and what is in flight.
#[derive(Clone, Debug)]
struct World {
    ledger: Ledger,
    charges: Vec<Charge>,
    flying: Vec<(u64, Lane, u64)>,
    now: u64,
    dice: Dice,
}

impl World {
    fn new(limit: Limit, guard: &GuardPolicy, seed: u64) -> Self {
        let ledger = Ledger::new(limit, guard);
        Self { ledger, charges: Vec::new(), flying: Vec::new(), now: START, dice: Dice(seed) }
    }

    fn amount(&self) -> u64 {
        self.ledger.limit().amount()
    }

    fn step(&mut self) {
        let window = u64::try_from(self.ledger.limit().window().as_micros()).unwrap();
        match self.dice.below(10) {
            0..4 => self.send(),
            4..7 => self.land(),
            7 if self.dice.below(4) == 0 => self.restore(window),
            7 => self.take_back(),
            8 => self.now += self.dice.below(window / 3),
            _ => self.now += self.dice.below(window / self.amount() + 1),
        }
        if self.dice.below(3) == 0 {
            self.ledger.expire(at(self.now));
        }
    }

    fn send(&mut self) {
        let cost = 1 + self.dice.below(self.ledger.capacity().min(5));
        if self.ledger.earliest(at(self.now), cost, self.amount()) == Earliest::Now {
            let lane = Lane::ALL[usize::try_from(self.dice.below(2)).unwrap()];
            self.ledger.reserve(at(self.now), lane, cost);
            self.flying.push((self.now, lane, cost));
            self.charges.push(Charge { lane, cost, free_at: None, counted: Counted::Accepted });
        }
    }

    fn pick(&mut self) -> Option<(u64, Lane, u64)> {
        let place = usize::try_from(self.dice.below(self.flying.len() as u64)).unwrap();
        if self.flying.is_empty() { None } else { Some(self.flying.swap_remove(place)) }
    }

    fn model_of(&mut self, lane: Lane, cost: u64) -> usize {
        let open = |charge: &Charge| charge.free_at.is_none() && charge.lane == lane && charge.cost == cost;
        self.charges.iter().position(open).unwrap()
    }

    fn land(&mut self) {
        let Some((sent_at, lane, cost)) = self.pick() else { return };
        // One in eight is unknown, and counts from an instant still to come.
        let until = if self.dice.below(8) == 0 { (sent_at + 65 * SECOND).max(self.now) } else { self.now };
        let counted = if self.dice.below(5) == 0 { Counted::Refused } else { Counted::Accepted };
        self.ledger.complete(at(self.now), lane, cost, at(sent_at), at(until), counted);
        let (place, span) = (self.model_of(lane, cost), u64::try_from(self.ledger.span().as_micros()).unwrap());
        self.charges[place].free_at = Some(until + span);
        self.charges[place].counted = counted;
    }

    fn take_back(&mut self) {
        let Some((_, lane, cost)) = self.pick() else { return };
        self.ledger.release(at(self.now), lane, cost);
        let place = self.model_of(lane, cost);
        self.charges.remove(place);
    }

    /// A charge of an attempt log, up to what an unknown can reach into the future.
    fn restore(&mut self, window: u64) {
        let (lane, cost) = (Lane::Background, 1 + self.dice.below(3));
        let until = self.now - window + self.dice.below(window + 65 * SECOND);
        self.ledger.restore(lane, cost, at(until));
        let span = u64::try_from(self.ledger.span().as_micros()).unwrap();
        self.charges.push(Charge { lane, cost, free_at: Some(until + span), counted: Counted::Accepted });
    }

    fn counting(&self, now: u64) -> impl Iterator<Item = &Charge> {
        self.charges.iter().filter(move |charge| charge.free_at.is_none_or(|free_at| free_at > now))
    }

    fn model_used(&self, lane: Option<Lane>, now: u64) -> u64 {
        self.counting(now).filter(|charge| lane.is_none_or(|lane| charge.lane == lane)).map(|charge| charge.cost).sum()
    }

    /// What a window alone must answer: `Ok` with the first instant that allows it, `Err` if a completion must come.
    fn model_earliest(&self, lane: Option<Lane>, cost: u64, amount: u64) -> Result<u64, ()> {
        let mut instants: Vec<u64> = self.charges.iter().filter_map(|charge| charge.free_at).collect();
        instants.push(self.now);
        instants.sort_unstable();
        let fits = |now: &u64| *now >= self.now && self.model_used(lane, *now) + cost <= amount;
        instants.into_iter().find(fits).ok_or(())
    }
}

fn plain(answer: Earliest, now: u64) -> Result<u64, ()> {
    match answer {
        Earliest::Now => Ok(now),
        Earliest::At(ready) => Ok(ready.as_micros()),
        Earliest::AfterCompletion { .. } => Err(()),
        Earliest::Never { capacity } => panic!("never, at most {capacity}"),
    }
}

prop_compose! {
    fn limits()(amount in prop_oneof![1_u64..12, 1_u64..200], seconds in 6_u64..200)
        (kind in super::kinds(amount), amount in Just(amount), seconds in Just(seconds)) -> Limit {
        Limit::new(amount, Unit::Requests, Duration::from_secs(seconds)).unwrap().with_kind(kind).unwrap()
    }
}

fn coarse() -> GuardPolicy {
    GuardPolicy { exact_window_max: Duration::ZERO, sub_buckets: 17, ..GuardPolicy::default() }
}

/// Denied at every instant before the one it names and granted at it, whatever the kind.
fn names_the_first_instant(world: &World, cost: u64, amount: u64) {
    let ask = |now: u64| world.ledger.earliest(at(now), cost, amount);
    match ask(world.now) {
        Earliest::Now => {}
        Earliest::At(ready) => {
            let ready = ready.as_micros();
            assert_eq!(ask(ready), Earliest::Now);
            let probes = (1..40).map(|k| world.now + (ready - 1 - world.now) * k / 40);
            for before in probes.chain([world.now + 1, ready - 1]).filter(|before| *before < ready) {
                assert_eq!(ask(before), Earliest::At(at(ready)), "asked at {before}");
            }
        }
        Earliest::AfterCompletion { at_most } => {
            let far = at_most.as_micros() + 1_000 * SECOND;
            assert!(!matches!(ask(far), Earliest::Now | Earliest::At(_)), "went on without a completion");
            let mut all_done = world.clone();
            let ends_at = at(world.now + 65 * SECOND);
            while let Some((sent_at, lane, cost)) = all_done.flying.pop() {
                all_done.ledger.complete(ends_at, lane, cost, at(sent_at), ends_at, Counted::Accepted);
            }
            assert_eq!(all_done.ledger.earliest(at_most, cost, amount), Earliest::Now);
        }
        Earliest::Never { capacity } => {
            assert!(cost > capacity && capacity == amount.min(world.ledger.capacity()));
        }
    }
}

proptest! {
    #![proptest_config(super::cases(64))]

    #[test]
    fn each_instant_named_is_the_first(
        limit in limits(),
        others in prop::collection::vec(limits(), 3),
        exact in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let guard = if exact { GuardPolicy::default() } else { coarse() };
        let mut world = World::new(limit, &guard, seed);
        for step in 0..160 {
            world.step();
            if step % 40 == 39 {
                let other = others.get(step / 40).copied().unwrap_or(limit);
                world.ledger.set_limit(at(world.now), other, &guard);
            }
            let amount = world.amount() - world.dice.below(world.amount() / 2 + 1);
            let cost = 1 + world.dice.below(world.amount() + 1);
            names_the_first_instant(&world, cost, amount);
            names_the_first_instant(&world, 1, amount);
        }
    }

    #[test]
    fn an_exact_window_agrees_with_a_plain_list(mut limit in limits(), seed in any::<u64>()) {
        limit = limit.with_kind(WindowKind::Unknown).unwrap();
        let mut world = World::new(limit, &GuardPolicy::default(), seed);
        for _ in 0..200 {
            world.step();
            let now = world.now;
            let amount = limit.amount() - world.dice.below(limit.amount() / 2 + 1);
            let cost = 1 + world.dice.below(amount);
            prop_assert_eq!(world.ledger.used(at(now)), world.model_used(None, now));
            let answer = world.ledger.earliest(at(now), cost, amount);
            prop_assert_eq!(plain(answer, now), world.model_earliest(None, cost, amount));
            for lane in Lane::ALL {
                prop_assert_eq!(world.ledger.used_by(lane, at(now)), world.model_used(Some(lane), now));
                let answer = world.ledger.earliest_of(lane, at(now), cost, amount);
                prop_assert_eq!(plain(answer, now), world.model_earliest(Some(lane), cost, amount));
            }
            let accepted = world.counting(now).filter(|charge| charge.free_at.is_some());
            let accepted = accepted.filter(|charge| charge.counted == Counted::Accepted).map(|charge| charge.cost);
            prop_assert_eq!(world.ledger.accepted(at(now)), accepted.sum::<u64>());
            prop_assert_eq!(world.ledger.in_flight(), world.flying.iter().map(|flight| flight.2).sum::<u64>());
        }
    }

    #[test]
    fn sub_buckets_count_at_least_what_an_exact_window_counts(mut limit in limits(), seed in any::<u64>()) {
        limit = limit.with_kind(WindowKind::Unknown).unwrap();
        let mut world = World::new(limit, &coarse(), seed);
        for _ in 0..200 {
            world.step();
            let (now, amount) = (world.now, limit.amount());
            prop_assert!(world.ledger.used(at(now)) >= world.model_used(None, now));
            if let Ok(ready) = plain(world.ledger.earliest(at(now), 1, amount), now) {
                let exact = world.model_earliest(None, 1, amount);
                let longest = u64::try_from(limit.window().as_micros()).unwrap().div_ceil(17);
                prop_assert!(exact.is_ok_and(|exact| exact <= ready && ready <= exact + longest));
            }
        }
    }

    #[test]
    fn a_release_leaves_the_ledger_as_it_was_before_the_reservation(limit in limits(), seed in any::<u64>()) {
        let mut world = World::new(limit, &GuardPolicy::default(), seed);
        for _ in 0..100 {
            world.step();
            let (now, amount, capacity) = (at(world.now), limit.amount(), world.ledger.capacity());
            let answers = |ledger: &Ledger| -> Vec<Earliest> {
                (1..=capacity.min(6)).map(|cost| ledger.earliest(now, cost, amount)).collect()
            };
            let mut ledger = world.ledger.clone();
            ledger.expire(now);
            let before = (answers(&ledger), ledger.used(now), ledger.next_release());
            ledger.reserve(now, Lane::Background, 1);
            ledger.release(now, Lane::Background, 1);
            let after = (answers(&ledger), ledger.used(now), ledger.next_release());
            if limit.kind() == WindowKind::Paranoid && ledger.in_flight() > 0 {
                // With others in flight the even spacing stays charged: later, never earlier.
                prop_assert_eq!((before.1, before.2), (after.1, after.2));
                for (before, after) in before.0.into_iter().zip(after.0) {
                    prop_assert_eq!(before.and(after), after);
                }
            } else {
                prop_assert_eq!(before, after);
            }
        }
    }

    #[test]
    fn another_limit_frees_nothing(limit in limits(), other in limits(), seed in any::<u64>()) {
        let mut world = World::new(limit, &GuardPolicy::default(), seed);
        (0..100).for_each(|_| world.step());
        let mut ledger = world.ledger.clone();
        ledger.set_limit(at(world.now), other, &GuardPolicy::default());
        prop_assert_eq!(ledger.limit(), other);
        let window = u64::try_from(other.window().as_micros()).unwrap();
        for k in 0..60 {
            let now = at(world.now + window * k / 20);
            prop_assert!(ledger.used(now) >= world.ledger.used(now));
        }
        // The same limit once more answers no earlier, its bucket included.
        let mut same = world.ledger.clone();
        same.set_limit(at(world.now), limit, &GuardPolicy::default());
        for cost in 1..=limit.amount().min(5) {
            let old = world.ledger.earliest(at(world.now), cost, limit.amount());
            let new = same.earliest(at(world.now), cost, limit.amount());
            prop_assert_eq!(old.and(new), new);
        }
        // A limit that is tighter in every way answers no earlier.
        let tighter = Limit::new(limit.amount().div_ceil(2), Unit::Requests, limit.window()).unwrap();
        let mut ledger = world.ledger.clone();
        ledger.set_limit(at(world.now), tighter, &GuardPolicy::default());
        let old = world.ledger.earliest_of(Lane::Background, at(world.now), 1, limit.amount());
        let new = ledger.earliest_of(Lane::Background, at(world.now), 1, tighter.amount());
        prop_assert_eq!(plain(old.and(new), 0), plain(new, 0));
    }
}
