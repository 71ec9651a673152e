//! What waits in one lane: order, turns, bypass, conservation.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use mailweir::engine::lanes::{LaneQueue, Queued, Usable};
use mailweir::engine::{OperationKey, Timestamp};

const BYPASS_MAX: usize = 8;

fn operation(key: u64, tenant: Option<&str>, dominant: u64) -> Queued {
    Queued {
        key: OperationKey(key),
        tenant: tenant.map(Arc::from),
        dominant,
        submitted_at: Timestamp::from_micros(1_000 + key),
    }
}

fn any(_: &Queued) -> Usable {
    Usable::Yes
}

fn take_next(queue: &mut LaneQueue) -> Option<Queued> {
    let key = queue.peek(any)?;
    queue.take(key)
}

fn keys(queue: &mut LaneQueue) -> Vec<u64> {
    std::iter::from_fn(|| take_next(queue)).map(|queued| queued.key.0).collect()
}

#[test]
fn one_tenant_is_served_first_in_first_out_whatever_its_operations_cost() {
    let mut queue = LaneQueue::default();
    for key in 0..100 {
        queue.push_back(operation(key, None, 1 + key * 7_919 % 1_000));
    }
    assert_eq!((queue.len(), queue.oldest()), (100, Some(Timestamp::from_micros(1_000))));
    assert_eq!(queue.iter().map(|queued| queued.key.0).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    assert_eq!(keys(&mut queue), (0..100).collect::<Vec<_>>());
    assert!(queue.is_empty() && queue.oldest().is_none() && queue.peek(any).is_none());
}

#[test]
fn an_empty_queue_is_two_words() {
    assert!(size_of::<LaneQueue>() <= 16);
}

#[test]
fn peeking_changes_nothing() {
    let mut queue = LaneQueue::default();
    for key in 0..6 {
        queue.push_back(operation(key, Some(if key % 2 == 0 { "a" } else { "b" }), 10));
    }
    let first = queue.peek(any);
    for _ in 0..1_000 {
        assert_eq!(queue.peek(any), first);
        let _ = queue.peek(|_| Usable::SkipTenant);
    }
    assert_eq!(keys(&mut queue), [0, 1, 2, 3, 4, 5].map(|n| if first == Some(OperationKey(1)) { n ^ 1 } else { n }));
}

#[test]
fn equal_tenants_take_turns() {
    let mut queue = LaneQueue::default();
    for key in 0..9 {
        queue.push_back(operation(key, Some(["a", "b", "c"][(key / 3) as usize]), 5));
    }
    let mut order = keys(&mut queue);
    for round in order.chunks_mut(3) {
        round.sort_unstable();
    }
    assert_eq!(order, [0, 3, 6, 1, 4, 7, 2, 5, 8]);
}

#[test]
fn a_tenant_of_heavy_operations_sends_as_many_fewer() {
    let mut queue = LaneQueue::default();
    for key in 0..1_000 {
        queue.push_back(operation(key, Some("heavy"), 500));
        queue.push_back(operation(1_000 + key, Some("light"), 10));
    }
    let heavy = (0..510).filter(|_| take_next(&mut queue).is_some_and(|queued| queued.key.0 < 1_000)).count();
    assert!((9..=11).contains(&heavy), "{heavy} of 510");
}

#[test]
fn a_blocked_head_is_passed_eight_times_and_not_a_ninth() {
    let mut queue = LaneQueue::default();
    for key in 0..20 {
        queue.push_back(operation(key, None, 1));
    }
    let blocked = |queued: &Queued| if queued.key.0 == 0 { Usable::SkipOperation } else { Usable::Yes };
    for expected in 1..=8 {
        let key = queue.peek(blocked).unwrap();
        assert_eq!(key, OperationKey(expected));
        assert!(queue.take(key).is_some());
    }
    assert_eq!(queue.peek(blocked), None);
    assert_eq!(queue.peek(any), Some(OperationKey(0)), "the head itself still goes");
}

#[test]
fn at_most_eight_later_ones_are_looked_at() {
    let mut queue = LaneQueue::default();
    for key in 0..20 {
        queue.push_back(operation(key, None, 1));
    }
    let mut seen = Vec::new();
    assert_eq!(
        queue.peek(|queued| {
            seen.push(queued.key.0);
            Usable::SkipOperation
        }),
        None
    );
    assert_eq!(seen, (0..=8).collect::<Vec<_>>());
    queue.set_bypass_max(0);
    assert_eq!(queue.peek(|queued| if queued.key.0 == 0 { Usable::SkipOperation } else { Usable::Yes }), None);
}

#[test]
fn a_held_tenant_does_not_stop_the_others_and_saves_up_nothing() {
    let mut queue = LaneQueue::default();
    for key in 0..200 {
        queue.push_back(operation(key, Some(if key < 100 { "held" } else { "free" }), 10));
    }
    let held = |queued: &Queued| if queued.key.0 < 100 { Usable::SkipTenant } else { Usable::Yes };
    for _ in 0..50 {
        let key = queue.peek(held).unwrap();
        assert!(queue.take(key).unwrap().key.0 >= 100);
    }
    let after: Vec<bool> = (0..20).map(|_| take_next(&mut queue).unwrap().key.0 < 100).collect();
    let gained = after.iter().filter(|held| **held).count();
    assert!((9..=11).contains(&gained), "{after:?}");
}

#[test]
fn a_tenant_whose_turns_are_broken_off_saves_up_at_most_one() {
    let mut queue = LaneQueue::default();
    (0..2_000).for_each(|key| queue.push_back(operation(key, Some("small"), 1)));
    (2_000..2_200).for_each(|key| queue.push_back(operation(key, Some("large"), 100)));
    let small = |queued: &Queued| if queued.key.0 < 2_000 { Usable::Yes } else { Usable::SkipTenant };
    let large = |queued: &Queued| if queued.key.0 < 2_000 { Usable::SkipTenant } else { Usable::Yes };
    for _ in 0..50 {
        // A new turn of 100 that ends after 1.
        assert!(take_next(&mut queue).is_some_and(|queued| queued.key.0 < 2_000));
        let key = queue.peek(large).unwrap();
        assert!(queue.take(key).is_some());
    }
    let run = (0..2_000).take_while(|_| queue.peek(any).is_some_and(|key| key.0 < 2_000 && queue.take(key).is_some()));
    assert!(run.count() <= 200);
    assert!(queue.peek(small).is_some());
}

#[test]
fn several_that_return_from_a_throttle_keep_their_order() {
    let mut queue = LaneQueue::default();
    for key in 0..6 {
        queue.push_back(operation(key, Some("a"), 1));
    }
    let flying: Vec<Queued> = (0..4).map(|_| take_next(&mut queue).unwrap()).collect();
    for n in [2, 0, 3, 1] {
        queue.push_front(flying[n].clone());
    }
    assert_eq!(keys(&mut queue), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn what_returns_unsent_is_next_again_and_its_turn_is_not_lost() {
    for alone in [false, true] {
        let mut queue = LaneQueue::default();
        for key in 0..40 {
            let tenant = if key % 2 == 0 { "a" } else { "b" };
            queue.push_back(operation(key, Some(tenant), 10));
        }
        if alone {
            (2..40).step_by(2).for_each(|key| drop(queue.remove(OperationKey(key))));
        }
        let key = queue.peek(any).unwrap();
        for _ in 0..100 {
            let queued = queue.take(key).unwrap();
            queue.return_unsent(queued);
            assert_eq!(queue.peek(any), Some(key));
        }
        let of_a = (0..2).filter(|_| take_next(&mut queue).unwrap().key.0.is_multiple_of(2)).count();
        assert_eq!(of_a, 1, "returning a hundred times gained or lost a turn");
    }
}

#[test]
fn an_operation_pushed_twice_waits_once() {
    let mut queue = LaneQueue::default();
    (0..3).for_each(|key| queue.push_back(operation(key, None, 1)));
    queue.push_back(operation(0, Some("a"), 1));
    assert_eq!(queue.len(), 3);
    assert!(queue.contains(OperationKey(0)));
    assert_eq!(queue.remove(OperationKey(0)), Some(operation(0, Some("a"), 1)));
    assert_eq!(queue.remove(OperationKey(0)), None);
    assert_eq!(queue.take(OperationKey(7)), None);
}

#[test]
fn absurd_costs_neither_panic_nor_stop_the_turns() {
    let mut queue = LaneQueue::new(u32::MAX);
    for key in 0..40 {
        queue.push_back(operation(
            key,
            Some(if key % 2 == 0 { "a" } else { "b" }),
            if key % 3 == 0 { u64::MAX } else { 0 },
        ));
    }
    for _ in 0..100 {
        let queued = take_next(&mut queue).unwrap();
        queue.return_unsent(queued);
    }
    assert_eq!(keys(&mut queue).len(), 40);
}

/// How many units tenant "x" gets out of `total`, against a rival of unit operations, sending in sizes of `sizes`.
fn units_of_x(sizes: &[u64], total: u64) -> u64 {
    let mut queue = LaneQueue::default();
    let mut mine = 0;
    let mut served = 0;
    let mut next = 0;
    for n in 0..20 {
        queue.push_back(operation(n, Some("rival"), 100));
    }
    let mut waiting = 0;
    while served < total {
        while waiting < 20 {
            queue.push_back(operation(1_000 + next, Some("x"), sizes[next as usize % sizes.len()]));
            next += 1;
            waiting += 1;
        }
        let queued = take_next(&mut queue).expect("both are backlogged");
        served += queued.dominant;
        if queued.key.0 < 1_000 {
            queue.push_back(queued);
        } else {
            mine += queued.dominant;
            waiting -= 1;
        }
    }
    mine
}

#[test]
fn splitting_or_merging_its_traffic_gains_a_tenant_nothing() {
    for sizes in [&[100][..], &[1], &[33, 7], &[500], &[500, 1, 1, 1, 1], &[99, 101]] {
        let mine = units_of_x(sizes, 100_000);
        assert!((49_000..=51_000).contains(&mine), "{sizes:?}: {mine}");
    }
}

#[test]
fn a_tenant_that_trickles_single_operations_gets_no_more_than_one_a_round() {
    let mut queue = LaneQueue::default();
    for key in 0..400 {
        queue.push_back(operation(key, Some(["a", "b", "c", "d"][(key % 4) as usize]), 10));
    }
    queue.push_back(operation(1_000, Some("trickle"), 10));
    let mut trickled = 0;
    for n in 0..200 {
        let queued = take_next(&mut queue).unwrap();
        if queued.key.0 >= 1_000 {
            trickled += 1;
            queue.push_back(operation(1_001 + n, Some("trickle"), 10));
        }
    }
    assert!((38..=41).contains(&trickled), "{trickled} of 200");
}

proptest! {
    /// 2.5, from the instant at which all are backlogged.
    #[test]
    fn backlogged_tenants_stay_within_a_quantum_and_the_largest_cost(
        costs in proptest::collection::vec(proptest::collection::vec(1..10_000_u64, 1..6), 2..7),
        takes in 1..400_usize,
    ) {
        let mut queue = LaneQueue::default();
        let names: Vec<String> = (0..costs.len()).map(|n| format!("tenant-{n}")).collect();
        let mut next = 0;
        let mut push = |queue: &mut LaneQueue, n: usize| {
            queue.push_back(operation(next, Some(&names[n]), costs[n][next as usize % costs[n].len()]));
            next += 1;
        };
        (0..costs.len()).for_each(|n| (0..4).for_each(|_| push(&mut queue, n)));
        let largest = costs.iter().flatten().copied().max().unwrap_or(0);
        let mut served = vec![0_u64; costs.len()];
        for _ in 0..takes {
            let queued = take_next(&mut queue).unwrap();
            let n = names.iter().position(|name| Some(name.as_str()) == queued.tenant.as_deref()).unwrap();
            served[n] += queued.dominant;
            push(&mut queue, n);
            let apart = served.iter().max().unwrap() - served.iter().min().unwrap();
            prop_assert!(apart <= 2 * largest, "{served:?}"); // the quantum is at most the largest cost
        }
    }

    /// L9, and every operation is in exactly one place.
    #[test]
    fn operations_are_conserved_and_none_is_passed_more_than_the_bound(
        steps in proptest::collection::vec((0..7_u8, 0..5_u8, 0..40_u64, 0..64_u64), 1..600),
    ) {
        let mut queue = LaneQueue::new(BYPASS_MAX as u32);
        let mut lists: BTreeMap<Option<Arc<str>>, Vec<(u64, usize)>> = BTreeMap::new();
        let mut flying: Vec<Queued> = Vec::new();
        let mut next = 0;
        for (step, tenant, pick, skip) in steps {
            match step {
                0 | 1 => {
                    let name = (tenant > 0).then(|| format!("t{tenant}"));
                    let queued = operation(next, name.as_deref(), 1 + pick);
                    lists.entry(queued.tenant.clone()).or_default().push((next, 0));
                    queue.push_back(queued);
                    next += 1;
                }
                2 if !flying.is_empty() => {
                    let queued = flying.swap_remove(pick as usize % flying.len());
                    let list = lists.entry(queued.tenant.clone()).or_default();
                    let at = list.iter().position(|(key, _)| *key > queued.key.0).unwrap_or(list.len());
                    if list[..at].iter().all(|(key, _)| *key < queued.key.0) {
                        list.insert(at, (queued.key.0, 0));
                        if skip % 2 == 0 { queue.push_front(queued) } else { queue.return_unsent(queued) }
                    }
                }
                3 => {
                    let removed = queue.remove(OperationKey(pick));
                    let listed = lists.values().flatten().any(|(key, _)| *key == pick);
                    prop_assert_eq!(removed.is_some(), listed);
                    lists.values_mut().for_each(|list| list.retain(|(key, _)| *key != pick));
                }
                _ => {
                    let unusable = |queued: &Queued| match (queued.key.0 ^ skip) % 4 {
                        0 | 1 => Usable::SkipOperation,
                        2 if skip % 3 == 0 => Usable::SkipTenant,
                        _ => Usable::Yes,
                    };
                    if let Some(key) = queue.peek(unusable) {
                        let queued = queue.take(key).unwrap();
                        prop_assert_eq!(unusable(&queued), Usable::Yes);
                        let list = lists.get_mut(&queued.tenant).unwrap();
                        let at = list.iter().position(|(listed, _)| *listed == key.0).unwrap();
                        list[..at].iter_mut().for_each(|(_, passed)| *passed += 1);
                        prop_assert!(list[..at].iter().all(|(_, passed)| *passed <= BYPASS_MAX));
                        list.remove(at);
                        flying.push(queued);
                    }
                }
            }
            lists.retain(|_, list| !list.is_empty());
            let mut waiting: BTreeMap<Option<Arc<str>>, Vec<u64>> = BTreeMap::new();
            queue.iter().for_each(|queued| waiting.entry(queued.tenant.clone()).or_default().push(queued.key.0));
            let listed = lists.iter().map(|(name, list)| (name.clone(), list.iter().map(|(key, _)| *key).collect()));
            prop_assert_eq!(waiting, listed.collect::<BTreeMap<_, Vec<u64>>>());
            prop_assert_eq!(queue.len(), lists.values().map(Vec::len).sum::<usize>());
        }
    }
}
