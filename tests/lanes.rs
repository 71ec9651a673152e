//! The lane arithmetic of one limit: reserve, pace, share.

use std::time::Duration;

use proptest::prelude::*;

use mailweir::engine::lanes::Share;
use mailweir::engine::policy::{GuardPolicy, LanesMode, LanesPolicy};
use mailweir::engine::{Limit, Ratio, Timestamp, Unit};

const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3_600 * SECOND;

fn limit(text: &str) -> Limit {
    text.parse().expect("a valid limit")
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// A share with its surroundings, so that a test reads as what happens.
struct Scene {
    share: Share,
    limit: Limit,
    amount: u64,
    lanes: LanesPolicy,
    guard: GuardPolicy,
}

impl Scene {
    fn new(text: &str) -> Self {
        Self::with(text, LanesPolicy::default())
    }

    fn with(text: &str, lanes: LanesPolicy) -> Self {
        let limit = limit(text);
        Self { share: Share::new(), limit, amount: limit.amount(), lanes, guard: GuardPolicy::default() }
    }

    fn arrive(&mut self, now: u64, cost: u64) {
        self.share.on_foreground_arrival(at(now), cost, &self.limit, &self.lanes);
    }

    fn reserve(&self, now: u64) -> u64 {
        self.share.reserve(at(now), self.amount, &self.limit, &self.lanes)
    }

    fn burst(&self, now: u64) -> u64 {
        self.share.burst(at(now), self.amount, &self.limit, &self.lanes)
    }

    fn earliest(&self, now: u64, cost: u64) -> Option<u64> {
        self.share
            .background_earliest(at(now), cost, self.amount, &self.limit, &self.lanes, &self.guard)
            .map(Timestamp::as_micros)
    }

    fn grant(&mut self, now: u64, cost: u64) {
        self.share.on_background_grant(at(now), cost, self.amount, &self.limit, &self.lanes, &self.guard);
    }

    fn undo(&mut self, now: u64, cost: u64) {
        self.share.undo_background_grant(at(now), cost, self.amount, &self.limit, &self.lanes, &self.guard);
    }

    fn share_amount(&self, now: u64) -> Option<u64> {
        self.share.share_amount(at(now), self.amount, &self.limit, &self.lanes)
    }

    /// W(1+ρ)
    fn window(&self) -> u128 {
        self.limit.window().as_micros() * 1_001 / 1_000
    }
}

fn no_reserve() -> LanesPolicy {
    LanesPolicy { reserve_min: Ratio::ZERO, ..LanesPolicy::default() }
}

#[test]
fn the_reserve_is_a_quarter_above_the_burst_that_foreground_needed_and_halves_each_hour() {
    let mut scene = Scene::new("30 requests / 1m");
    assert_eq!(scene.reserve(0), 3);
    for _ in 0..8 {
        scene.arrive(0, 1);
    }
    assert_eq!(scene.reserve(0), 10);
    assert_eq!(scene.reserve(HOUR), 5);
    assert_eq!(scene.reserve(2 * HOUR), 3, "1.25 · 2 is below a tenth of 30");
    // The bucket has drained by 2 for each 4 s: 8 at once and then one per 2 s need no more than 8.
    for n in 1..20 {
        scene.arrive(n * 2 * SECOND, 1);
    }
    assert_eq!(scene.reserve(40 * SECOND), 10);
    scene.arrive(40 * SECOND, 3);
    assert_eq!(scene.reserve(40 * SECOND), 13, "⌈1.25 · 10⌉");
}

#[test]
fn the_reserve_is_zero_without_foreground_need_when_the_policy_asks_for_none() {
    let mut scene = Scene::with("30 requests / 1m", no_reserve());
    assert_eq!(scene.reserve(0), 0);
    scene.arrive(0, 1);
    assert_eq!(scene.reserve(0), 2);
}

#[test]
fn the_reserve_follows_a_learned_ceiling_and_never_takes_the_last_slot() {
    let mut scene = Scene::new("30 requests / 1m");
    scene.arrive(0, 30);
    let by_amount: Vec<u64> = [30, 20, 10, 3, 2, 1, 0]
        .into_iter()
        .map(|amount| {
            scene.amount = amount;
            scene.reserve(0)
        })
        .collect();
    assert_eq!(by_amount, [15, 10, 5, 1, 1, 0, 0]);
}

#[test]
fn the_reserve_leaves_background_its_share_when_the_share_is_above_a_half() {
    let lanes = LanesPolicy { background_share: Ratio::percent(80), ..LanesPolicy::default() };
    let mut scene = Scene::with("100 requests / 1m", lanes);
    scene.arrive(0, 100);
    assert_eq!(scene.reserve(0), 20);
    scene.lanes.background_share = Ratio::ONE;
    assert_eq!(scene.reserve(0), 10, "the least reserve stands");
}

#[test]
fn the_burst_follows_the_formula() {
    let short = Scene::new("30 requests / 1m");
    assert_eq!(short.burst(0), 3);
    assert_eq!(Scene::new("5 requests / 1m").burst(0), 1);
    let mut hour = Scene::new("400 requests / 1h");
    assert_eq!(hour.burst(0), 36, "½ · 40/200 · 360 while nothing is known");
    hour.lanes.foreground_expected_per_hour = Some(60);
    assert_eq!(hour.burst(0), 120, "½ · 40/60 · 360");
    hour.lanes.foreground_expected_per_hour = Some(0);
    assert_eq!(hour.burst(0), 360, "½ · 40/20 · 360: never less than a twentieth of the amount");
    hour.lanes.foreground_expected_per_hour = Some(u32::MAX);
    assert_eq!(hour.burst(0), 1);
}

#[test]
fn the_burst_opens_once_there_is_a_history_and_not_before() {
    let mut scene = Scene::new("400 requests / 1h");
    scene.grant(0, 1);
    assert_eq!(scene.burst(2 * HOUR - 1), 36);
    assert_eq!(scene.burst(2 * HOUR), 360, "two hours without foreground");
    // 40 an hour, one by one: λ̂·W = 40, so ½ · (40 − 2)/60 · 360 = 114.
    for n in 0..6 * 40 {
        scene.arrive(2 * HOUR + n * 90 * SECOND, 1);
    }
    let got = scene.burst(8 * HOUR);
    assert!((110..=125).contains(&got), "{got}");
}

#[test]
fn a_fast_pace_forgives_a_late_timer() {
    // 600 per 600 s behind a tenth: 0.9 a second, below one per quarter second.
    let lanes = LanesPolicy { foreground_expected_per_hour: Some(u32::MAX), ..LanesPolicy::default() };
    assert_eq!(Scene::with("600 requests / 10m", lanes.clone()).burst(0), 1);
    assert_eq!(Scene::with("10_000 requests / 10m", lanes.clone()).burst(0), 4, "15 a second");
    assert_eq!(Scene::with("150MB / 5m", lanes).burst(0), 112_501, "450 kB a second");
}

#[test]
fn a_hard_cap_always_binds_and_needs_no_reserve() {
    let mut scene = Scene::with("30 requests / 1m", LanesPolicy { mode: LanesMode::HardCap, ..LanesPolicy::default() });
    scene.arrive(0, 20);
    assert_eq!(scene.reserve(0), 0);
    assert_eq!(scene.share_amount(0), Some(15));
    assert_eq!(scene.share_amount(100 * HOUR), Some(15));
    scene.amount = 1;
    assert_eq!(scene.share_amount(0), Some(1), "a share nobody can use is a stop");
    scene.lanes.background_share = Ratio::ZERO;
    assert_eq!(scene.share_amount(0), Some(0));
    assert_eq!(scene.earliest(0, 1), Some(u64::MAX));
}

#[test]
fn the_share_binds_for_one_window_after_the_last_foreground_backlog() {
    let mut scene = Scene::new("30 requests / 1m");
    assert_eq!(scene.share_amount(0), None);
    scene.share.on_foreground_backlog(at(5 * SECOND));
    scene.share.on_foreground_backlog(at(SECOND));
    assert_eq!(scene.share_amount(65 * SECOND - 1), Some(15));
    assert_eq!(scene.share_amount(65 * SECOND), None);
    assert_eq!(scene.share.contended_until(&scene.limit), Some(at(65 * SECOND)));
}

#[test]
fn background_waits_for_its_pace_to_the_microsecond() {
    let mut scene = Scene::new("30 requests / 1m");
    for _ in 0..3 {
        assert_eq!(scene.earliest(0, 1), None);
        scene.grant(0, 1);
    }
    let due = 60_060_000_u64.div_ceil(27);
    assert_eq!(scene.earliest(0, 1), Some(due));
    assert_eq!(scene.earliest(due - 1, 1), Some(due));
    assert_eq!(scene.earliest(due, 1), None);
}

#[test]
fn an_undone_grant_owes_nothing() {
    let mut scene = Scene::new("30 requests / 1m");
    (0..3).for_each(|_| scene.grant(0, 1));
    let before = scene.earliest(1, 1);
    scene.grant(1, 1);
    assert!(scene.earliest(1, 1) > before);
    scene.undo(1, 1);
    // A meter rounds against background, by 1/65,536 of a unit: 34 µs at this pace.
    assert!(scene.earliest(1, 1) >= before && scene.earliest(1, 1) <= before.map(|due| due + 34));
    (0..10).for_each(|_| scene.undo(1, 1));
    (0..3).for_each(|_| scene.grant(1, 1));
    assert!(scene.earliest(1, 1).is_some(), "undoing more than was granted gives no credit");
}

#[test]
fn a_raised_limit_pays_off_an_old_debt_at_the_new_pace() {
    let mut scene = Scene::new("4 requests / 1h");
    (0..2).for_each(|_| scene.grant(0, 1));
    assert!(scene.earliest(0, 1) > Some(600 * SECOND));
    scene.limit = limit("4_000 requests / 1h");
    scene.amount = 4_000;
    assert!(scene.earliest(0, 1) < Some(2 * SECOND));
}

#[test]
fn absurd_inputs_neither_panic_nor_stop_background_for_good() {
    let mut scene = Scene::new("30 requests / 1m");
    for now in [0, u64::MAX, 5, u64::MAX / 2] {
        scene.arrive(now, u64::MAX);
        scene.arrive(now, 0);
        scene.share.on_foreground_backlog(at(now));
        for amount in [0, 1, u64::MAX] {
            scene.amount = amount;
            for cost in [0, 1, u64::MAX] {
                scene.grant(now, cost);
                let _ = (scene.earliest(now, cost), scene.burst(now), scene.reserve(now), scene.share_amount(now));
                scene.undo(now, cost);
            }
        }
    }
    let mut scene = Scene::new("30 requests / 1m");
    scene.arrive(0, u64::MAX);
    scene.grant(0, u64::MAX);
    assert!(scene.earliest(0, 1) <= Some(125 * SECOND), "at most two windows at half the rate");
    scene.amount = 0;
    assert_eq!(scene.earliest(0, 1), Some(u64::MAX));
    let zero = Duration::ZERO;
    scene.lanes = LanesPolicy { half_life: zero, history_min: zero, ..LanesPolicy::default() };
    scene.amount = 30;
    assert_eq!((scene.reserve(1), scene.burst(1)), (3, 3));
}

#[test]
fn what_is_remembered_of_a_limit_is_small() {
    assert!(size_of::<Share>() <= 80);
    assert!(Limit::new(30, Unit::Requests, Duration::from_secs(60)).is_ok());
}

/// Foreground arrivals as (pause in ms, cost).
fn arrivals() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let pause = prop_oneof![Just(0), 0..100_u64, 0..60_000_u64, 0..20_000_000_u64];
    proptest::collection::vec((pause, prop_oneof![0..3_u64, 0..50_u64, Just(u64::MAX)]), 0..80)
}

fn limits() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "30 requests / 1m",
        "1 requests / 1m",
        "400 requests / 1h",
        "10_000 recipients / 24h",
        "130_000 requests / 10s",
        "150MB / 5m",
    ])
}

proptest! {
    /// L7.
    #[test]
    fn the_reserve_stays_in_its_clamp_and_never_falls_faster_than_its_half_life(
        text in limits(), arrivals in arrivals(), amount in 0..=1_000_u64,
    ) {
        let mut scene = Scene::new(text);
        scene.amount = scene.limit.amount() * amount / 1_000;
        let low = (scene.amount).div_ceil(10).min(scene.amount / 2);
        let (mut now, mut last) = (0, (0, scene.reserve(0)));
        for (pause, cost) in arrivals {
            now += pause * 1_000;
            for step in [false, true] {
                if step { scene.arrive(now, cost) }
                let reserve = scene.reserve(now);
                prop_assert!((low..=scene.amount / 2).contains(&reserve));
                let kept = last.1.saturating_sub(1) as f64 * (-((now - last.0) as f64) / HOUR as f64).exp2();
                prop_assert!(reserve as f64 >= kept - 1e-3, "{} at {:?}, then {reserve} at {now}", last.1, last.0);
                last = (now, reserve);
            }
        }
    }

    #[test]
    fn background_never_gets_more_than_its_burst_and_its_pace(
        text in limits(),
        steps in proptest::collection::vec((0..2_000_000_u64, 1..2_000_u64), 1..120),
        unit_costs in any::<bool>(),
    ) {
        let mut scene = Scene::new(text);
        let (rate, window) = (u128::from(scene.amount - scene.reserve(0)), scene.window());
        let burst = scene.burst(0);
        let mut grants: Vec<(u64, u64)> = Vec::new();
        let mut now = 0;
        for (pause, cost) in steps {
            let cost = if unit_costs { 1 } else { cost.min(scene.amount) };
            now = scene.earliest(now, cost).unwrap_or(now + pause * u64::from(pause % 3 == 0)).max(now);
            if now >= 2 * HOUR - 1 { break } // from here on the burst is another
            if scene.earliest(now, cost).is_some() { continue }
            scene.grant(now, cost);
            grants.push((now, cost));
            for from in 0..grants.len() {
                let taken: u128 = grants[from..].iter().map(|(_, cost)| u128::from(*cost)).sum();
                let most = grants[from..].iter().map(|(_, cost)| *cost).max().unwrap_or(0).max(burst);
                let span = u128::from(now - grants[from].0);
                prop_assert!((taken.saturating_sub(u128::from(most))) * window <= rate * span, "{taken} in {span}");
            }
        }
    }

    /// L8: nobody wakes in vain, and nobody could have gone earlier.
    #[test]
    fn background_is_denied_until_exactly_the_instant_named_and_granted_at_it(
        text in limits(), arrivals in arrivals(), grants in 1..200_u64, cost in 1..500_u64, early in 1..10_000_000_u64,
    ) {
        let mut scene = Scene::new(text);
        let mut now = 0;
        for (pause, cost) in arrivals {
            now += pause * 1_000;
            scene.arrive(now, cost);
        }
        let cost = cost.min(scene.amount);
        for _ in 0..grants { scene.grant(now, cost) }
        if let Some(due) = scene.earliest(now, cost) {
            prop_assert!(due > now);
            // While the foreground estimate decays, the instant may come nearer, never move away.
            prop_assert_eq!(scene.earliest(due, cost), None);
            let before = due.saturating_sub(early).max(now);
            if let Some(named) = scene.earliest(before, cost) { prop_assert!(named <= due && named > before) }
        }
        let mut quiet = Scene::new(text);
        for _ in 0..grants { quiet.grant(HOUR, cost) }
        if let Some(due) = quiet.earliest(HOUR, cost).filter(|due| *due < 3 * HOUR) {
            for before in [HOUR, due - 1, due.saturating_sub(early).max(HOUR)] {
                prop_assert_eq!(quiet.earliest(before, cost), Some(due));
            }
            prop_assert_eq!(quiet.earliest(due, cost), None);
        }
    }
}
