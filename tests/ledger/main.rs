//! Properties of the ledger: what it promises against every provider that it covers, and that its answers are exact.

#![allow(clippy::unwrap_used, reason = "the helpers of a test may panic")]

mod drive;
mod exact;
mod providers;

use std::time::Duration;

use mailweir::engine::policy::GuardPolicy;
use mailweir::engine::{Limit, Ratio, Unit, WindowKind};
use proptest::prelude::*;

use drive::{Lanes, Load, Network, Scenario, Sender, run};
use providers::{Algorithm, Provider, Refusals};

fn provider(limit: &Limit, algorithm: Algorithm, refusals: Refusals) -> Provider {
    Provider::new(algorithm, refusals, limit.amount(), u64::try_from(limit.window().as_micros()).unwrap())
}

fn calm(limit: &str) -> Scenario {
    Scenario {
        limit: limit.parse().unwrap(),
        guard: GuardPolicy::default(),
        sender: Sender::Sound,
        drift: (0, 0),
        load: Load::Saturated,
        lanes: Lanes::Foreground,
        network: Network::CALM,
        concurrency: 4,
        cost_max: 1,
        span: Duration::from_secs(6 * 3_600),
        sends_max: 200_000,
        seed: 1,
    }
}

/// PROPTEST_CASES, or so many.
fn cases(number: u32) -> ProptestConfig {
    if std::env::var_os("PROPTEST_CASES").is_some() {
        ProptestConfig::default()
    } else {
        ProptestConfig::with_cases(number)
    }
}

fn kinds(amount: u64) -> impl Strategy<Value = WindowKind> {
    prop_oneof![
        Just(WindowKind::Unknown),
        Just(WindowKind::Rolling),
        Just(WindowKind::Fixed),
        (1..=amount).prop_map(|depth| WindowKind::Bucket { depth: depth.try_into().unwrap() }),
        Just(if amount > 2 { WindowKind::Paranoid } else { WindowKind::Unknown }),
    ]
}

prop_compose! {
    fn limits(windows: std::ops::Range<u64>)(amount in prop_oneof![1_u64..40, 1_u64..1_000, 1_000_000_u64..150_000_000], seconds in windows)
        (kind in kinds(amount), amount in Just(amount), seconds in Just(seconds)) -> Limit {
        Limit::new(amount, Unit::Recipients, Duration::from_secs(seconds)).unwrap().with_kind(kind).unwrap()
    }
}

/// Every algorithm that a limit of this kind claims to keep.
fn covered(limit: &Limit, phase: u64) -> Vec<Algorithm> {
    let mut all = vec![
        Algorithm::Fixed { phase },
        Algorithm::Anchored,
        Algorithm::Rolling,
        Algorithm::Bucket { depth: limit.amount() },
    ];
    match limit.kind() {
        WindowKind::Bucket { depth } => all.push(Algorithm::Bucket { depth: depth.get() }),
        WindowKind::Paranoid => {
            all.push(Algorithm::SlidingCounter { phase });
            all.push(Algorithm::Bucket { depth: limit.amount().div_ceil(15).max(2) });
        }
        _ => {}
    }
    all
}

prop_compose! {
    fn wild(windows: std::ops::Range<u64>)(
        limit in limits(windows),
        drift in (-500_i64..=500, -500_i64..=500),
        load in prop_oneof![Just(Load::Saturated), (1_u64..300).prop_map(Load::Bursts)],
        concurrency in prop_oneof![1_usize..6, 1_usize..200],
        weight in 1_u64..8,
        exact in any::<bool>(),
        sub_buckets in 2_u32..300,
        seed in any::<u64>(),
    ) -> Scenario {
        let capacity = mailweir::engine::ledger::Ledger::new(limit, &GuardPolicy::default()).capacity();
        let mut guard = GuardPolicy { sub_buckets, ..GuardPolicy::default() };
        if !exact {
            guard.exact_window_max = Duration::ZERO;
        }
        Scenario {
            limit, guard, sender: Sender::Sound, drift, load, lanes: Lanes::Both, network: Network::WILD, concurrency,
            cost_max: (limit.amount() / 40).max(weight).min(capacity), span: Duration::from_secs(30 * 86_400), sends_max: 1_000, seed,
        }
    }
}

proptest! {
    #![proptest_config(cases(16))]

    /// L1, under tails of 30 s, reordering, lost answers, both clocks at their worst, weights and lanes.
    #[test]
    fn no_provider_that_a_kind_covers_ever_refuses(
        scenario in wild(6..7_200),
        phase in any::<u32>(),
        refusals in prop_oneof![Just(Refusals::Counted), Just(Refusals::Free)],
    ) {
        for algorithm in covered(&scenario.limit, u64::from(phase)) {
            let tally = run(&scenario, provider(&scenario.limit, algorithm, refusals));
            prop_assert_eq!(tally.refused, 0, "by {:?}, {:?}: {:?}", algorithm, refusals, tally);
            prop_assert_eq!(tally.phantom_wakes, 0);
            prop_assert!(tally.sends > 0);
        }
    }

    /// The same for windows of seconds, where part of the round trip is won back.
    #[test]
    fn no_provider_refuses_in_a_short_window_either(mut scenario in wild(1..6), phase in any::<u32>()) {
        scenario.sends_max = 3_000;
        for algorithm in covered(&scenario.limit, u64::from(phase)) {
            let tally = run(&scenario, provider(&scenario.limit, algorithm, Refusals::Counted));
            prop_assert_eq!(tally.refused, 0, "by {:?}: {:?}", algorithm, tally);
        }
    }
}

#[test]
fn a_ledger_keyed_on_send_is_refused_so_these_tests_can_fail() {
    let mut scenario = calm("30 requests / 1m");
    scenario.sender = Sender::KeyedOnSend;
    scenario.network.up = (20_000, 400_000);
    let tally = run(&scenario, provider(&scenario.limit, Algorithm::Rolling, Refusals::Counted));
    assert!(tally.refused * 5 > tally.sends, "{tally:?}");
    scenario.sender = Sender::Sound;
    let tally = run(&scenario, provider(&scenario.limit, Algorithm::Rolling, Refusals::Counted));
    assert_eq!(tally.refused, 0, "{tally:?}");
}

#[test]
fn a_bucket_keyed_on_send_is_refused_under_tails_even_when_its_depth_is_lowered() {
    let mut scenario = calm("30 requests / 1m bucket(7)");
    scenario.network = Network { lost: 0, unsent: 0, ..Network::WILD };
    let depth = Algorithm::Bucket { depth: 8 };
    scenario.sender = Sender::KeyedOnSend;
    let keyed_on_send = run(&scenario, provider(&scenario.limit, depth, Refusals::Counted));
    assert!(keyed_on_send.refused > 0, "{keyed_on_send:?}");
    scenario.sender = Sender::Sound;
    scenario.limit = "30 requests / 1m bucket(8)".parse().unwrap();
    let sound = run(&scenario, provider(&scenario.limit, depth, Refusals::Counted));
    assert_eq!(sound.refused, 0, "{sound:?}");
}

#[test]
fn without_a_guard_for_the_clocks_a_long_window_is_refused() {
    let mut scenario = calm("30 requests / 1h");
    scenario.drift = (500, -500);
    scenario.span = Duration::from_secs(30 * 86_400);
    let tally = run(&scenario, provider(&scenario.limit, Algorithm::Rolling, Refusals::Counted));
    assert_eq!(tally.refused, 0, "{tally:?}");
    scenario.guard.clock_error = Ratio::ZERO;
    let tally = run(&scenario, provider(&scenario.limit, Algorithm::Rolling, Refusals::Counted));
    assert!(tally.refused > 0, "{tally:?}");
}

#[test]
fn taking_unknown_charges_back_is_refused() {
    let mut scenario = calm("30 requests / 1m");
    scenario.network.lost = 50;
    let tally = run(&scenario, provider(&scenario.limit, Algorithm::Rolling, Refusals::Counted));
    assert_eq!(tally.refused, 0, "{tally:?}");
    scenario.sender = Sender::ReleasesUnknowns;
    let tally = run(&scenario, provider(&scenario.limit, Algorithm::Rolling, Refusals::Counted));
    assert!(tally.refused > 0, "{tally:?}");
}

#[test]
fn an_unknown_window_is_not_enough_for_a_sliding_counter_but_paranoid_is() {
    let algorithm = Algorithm::SlidingCounter { phase: 12_345_678 };
    let mut scenario = calm("30 requests / 1m");
    assert!(run(&scenario, provider(&scenario.limit, algorithm, Refusals::Counted)).refused > 0);
    scenario.limit = "30 requests / 1m paranoid".parse().unwrap();
    assert_eq!(run(&scenario, provider(&scenario.limit, algorithm, Refusals::Counted)).refused, 0);
}

/// Accepted in six saturated hours, in parts per 1,000 of N/W.
fn utilisation(limit: &str, concurrency: usize) -> u64 {
    let mut scenario = calm(limit);
    scenario.concurrency = concurrency;
    let tally = run(&scenario, provider(&scenario.limit, Algorithm::Rolling, Refusals::Counted));
    assert_eq!(tally.refused, 0);
    let windows = scenario.span.as_millis() / scenario.limit.window().as_millis();
    tally.accepted_cost * 1_000 / (scenario.limit.amount() * u64::try_from(windows).unwrap())
}

#[test]
fn safety_costs_less_than_one_hundredth_of_a_minute_limit_and_paranoid_two_of_thirty() {
    for (limit, concurrency, least) in [
        ("30 requests / 1m", 4, 990),
        ("30 requests / 1m rolling", 4, 990),
        ("30 requests / 1m bucket(8)", 4, 990),
        ("30 requests / 1m bucket(2)", 4, 985),
        ("30 requests / 1m paranoid", 4, 930),
        ("6_000 requests / 1h", 4, 990),
        ("50 requests / 10s", 20, 960),
    ] {
        let got = utilisation(limit, concurrency);
        println!("{limit}: {got} of 1,000");
        assert!(got >= least, "{limit}: {got} of 1,000, at least {least} expected");
    }
}

#[test]
fn a_short_window_wins_back_half_of_the_shortest_round_trip() {
    // L = 330 ms: W/(W + L) is 751 of 1,000, W/(W + L/2) is 858.
    let (plain, interval) = {
        let mut scenario = calm("5 requests / 1s");
        scenario.concurrency = 10;
        let rolling = || provider(&scenario.limit, Algorithm::Rolling, Refusals::Counted);
        let plain = run(&scenario, rolling());
        scenario.guard.interval_window_max = Duration::from_secs(5);
        (plain, run(&scenario, rolling()))
    };
    let full = 5 * 6 * 3_600;
    let parts = |accepted: u64| accepted * 1_000 / full;
    println!("completion {} interval {}", parts(plain.accepted_cost), parts(interval.accepted_cost));
    assert!((740..=755).contains(&parts(plain.accepted_cost)), "{plain:?}");
    assert!((840..=860).contains(&parts(interval.accepted_cost)), "{interval:?}");
    assert_eq!((plain.refused, interval.refused), (0, 0));
}
