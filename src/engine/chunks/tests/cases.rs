//! What holds: nothing above the limit, and nearly all of it used.

use super::*;

/// What was sent since then, as a part of what the limit allows.
fn used(bench: &Bench, since: Timestamp, limit: &str) -> f64 {
    let limit: Limit = limit.parse().expect("a limit");
    let span = bench.now.since(since).as_secs_f64();
    let sent = bench.sent(since, None) as u64 * bench.cost.of(limit.unit());
    sent as f64 * limit.window().as_secs_f64() / span / limit.amount() as f64
}

fn amount(limit: &str) -> u64 {
    limit.parse::<Limit>().expect("a limit").amount()
}

#[test]
fn all_processes_together_use_the_whole_limit_however_many_they_are() {
    let cases =
        [(1, "600 requests / 1m"), (2, "600 requests / 1m"), (4, "120 requests / 1m"), (16, "600 requests / 1m")];
    for (processes, limit) in cases.into_iter().chain([(16, "60 requests / 1m"), (4, "5_000 requests / 1h")]) {
        let mut bench = Bench::new(7, &[limit], processes);
        (0..processes).for_each(|process| bench.want(process, 20, Lane::Foreground));
        bench.run(seconds(300));
        let since = bench.now;
        let hours = if limit.ends_with('h') { 6 } else { 1 };
        bench.run(seconds(3_600 * hours));
        let shares: Vec<usize> = (0..processes).map(|process| bench.sent(since, Some(process))).collect();
        let used = used(&bench, since, limit);
        let exchanges: u64 = bench.processes.iter().map(|process| process.exchanges).sum();
        println!("{processes} processes, {limit}: {used:.3} of the limit, shares {shares:?}, {exchanges} exchanges");
        assert!(bench.most(limit) <= amount(limit), "{}", bench.most(limit));
        assert!(used > 0.98, "{processes} {limit} {used}");
        let fair = bench.sent(since, None) / processes;
        assert!(shares.iter().all(|share| share * 4 > fair * 3 && share * 3 < fair * 4), "{shares:?}");
    }
}

#[test]
fn one_busy_process_among_many_has_nearly_all_of_it_and_the_idle_ones_ask_for_nothing() {
    let limit = "600 requests / 1m";
    let mut bench = Bench::new(3, &[limit], 16);
    bench.want(0, 20, Lane::Foreground);
    bench.run(seconds(200));
    let (since, asked) = (bench.now, bench.processes[0].exchanges);
    bench.run(seconds(3_600));
    assert!(used(&bench, since, limit) > 0.98, "{}", used(&bench, since, limit));
    assert!(bench.most(limit) <= 600);
    // Once in two seconds, and now and then once more where it got all that it wanted.
    let asked = bench.processes[0].exchanges - asked;
    assert!(asked < 3_600 * 11 / 20, "{asked}");
    assert!(bench.processes[1..].iter().all(|process| process.exchanges == 0));
}

#[test]
fn when_the_load_moves_the_limit_moves_with_it() {
    let limit = "600 requests / 1m";
    let mut bench = Bench::new(4, &[limit], 2);
    bench.want(0, 20, Lane::Foreground);
    bench.run(seconds(600));
    bench.want(0, 0, Lane::Foreground);
    bench.want(1, 20, Lane::Foreground);
    let since = bench.now;
    bench.run(seconds(600));
    assert!(used(&bench, since, limit) > 0.97, "{}", used(&bench, since, limit));
    assert_eq!(bench.most(limit), 600);
    assert!(bench.sent(since, Some(1)) > 5_700, "{}", bench.sent(since, Some(1)));
}

#[test]
fn a_newcomer_to_a_limit_that_is_used_up_soon_has_its_part_and_foreground_goes_before_background() {
    let limit = "600 requests / 1m";
    for lane in [Lane::Foreground, Lane::Background] {
        let mut bench = Bench::new(12, &[limit], 3);
        bench.want(0, 60, lane);
        bench.want(1, 60, lane);
        bench.run(seconds(600));
        bench.want(2, 60, Lane::Foreground);
        bench.run(seconds(120));
        let since = bench.now;
        bench.run(seconds(1_200));
        let shares: Vec<usize> = (0..3).map(|process| bench.sent(since, Some(process))).collect();
        println!("{lane:?}: {shares:?}");
        assert!(shares[2] * 10 > bench.sent(since, None) * 3, "{lane:?}: {shares:?}");
        assert!(shares[0] > 60 && shares[1] > 60, "background is not starved: {shares:?}");
        assert!(bench.most(limit) <= 600);
    }
}

#[test]
fn a_process_that_sends_little_asks_little_and_tells_when_it_has_stopped() {
    let limit = "600 requests / 1m";
    let mut bench = Bench::new(5, &[limit], 2);
    for _ in 0..100 {
        bench.one(0);
        bench.run(Duration::from_millis(300));
    }
    let asked = bench.processes[0].exchanges;
    assert!(asked <= 16, "{asked} exchanges for 100 sends in thirty seconds");
    assert_eq!(bench.arrivals.len(), 100);
    bench.run(seconds(30));
    assert!(bench.processes[0].exchanges <= asked + 3, "{}", bench.processes[0].exchanges);
    assert_eq!(bench.table.parts[&0].rows[0].held, 0, "it has handed back what it did not need");
    let shared = bench.processes[0].shared.as_ref().expect("it lives");
    assert_eq!(shared.poll_deadline(), None, "and has nothing more to do");
}

#[test]
fn who_dies_costs_what_it_held_and_nobody_above_the_limit() {
    let limit = "600 requests / 1m";
    let mut bench = Bench::new(6, &[limit], 3);
    (0..3).for_each(|process| bench.want(process, 30, Lane::Foreground));
    bench.run(seconds(301));
    bench.die(0);
    let since = bench.now;
    bench.run(seconds(135));
    assert!(used(&bench, since, limit) > 0.93, "{}", used(&bench, since, limit));
    let since = bench.now;
    bench.run(seconds(1_200));
    assert!(used(&bench, since, limit) > 0.98, "{}", used(&bench, since, limit));
    assert_eq!(bench.most(limit), 600);
}

#[test]
fn after_a_failover_that_forgot_nothing_is_taken_until_nothing_forgotten_counts() {
    let limit = "600 requests / 1m";
    let mut bench = Bench::new(8, &[limit], 3);
    (0..3).for_each(|process| bench.want(process, 30, Lane::Foreground));
    bench.run(seconds(300));
    let before = bench.table.clone();
    bench.run(seconds(3));
    bench.die(0);
    bench.fail_over(before);
    let since = bench.now;
    bench.run(seconds(131));
    let silent = bench.sent(since.after(seconds(6)), None);
    assert_eq!(silent, 0, "quarantine");
    let since = bench.now;
    bench.run(seconds(600));
    assert!(used(&bench, since, limit) > 0.95, "{}", used(&bench, since, limit));
    assert!(bench.most(limit) <= 600);
}

#[test]
fn a_day_is_not_silent_after_a_failover_for_the_living_tell_what_they_used() {
    let limit = "5_000 requests / 24h";
    let mut bench = Bench::new(9, &[limit], 2);
    bench.want(0, 20, Lane::Foreground);
    bench.run(seconds(60));
    bench.want(0, 0, Lane::Foreground);
    bench.run(seconds(60));
    let used = bench.arrivals.len();
    assert!(used > 3_000, "{used}");
    // All that was written is gone, and the one that used it is idle.
    bench.fail_over(Table::default());
    bench.want(1, 20, Lane::Foreground);
    bench.run(seconds(3_600));
    let now = bench.arrivals.len();
    assert!(now > 4_900 && now <= 5_000, "{used} {now}");
}

#[test]
fn bytes_and_several_windows_hold_at_once_and_a_large_one_does_not_starve() {
    let limits = ["600 requests / 1m", "30MB / 5m", "9_000 requests / 1h"];
    let mut bench = Bench::new(10, &limits, 4);
    bench.sizes = vec![20_000, 4_000_000];
    bench.cost = Cost::email(1, 20_000);
    (0..4).for_each(|process| bench.want(process, 10, Lane::Foreground));
    bench.run(seconds(7_200));
    for limit in limits {
        assert!(bench.most(limit) <= amount(limit), "{limit} {}", bench.most(limit));
    }
    let large = bench.bytes.values().filter(|bytes| **bytes == 4_000_000).count();
    assert!(large > 50, "{large}");
    let late = bench.arrivals.iter().filter(|(at, _)| bench.now.since(*at) < seconds(900)).count();
    assert!(late > 20, "{late}");
}

#[test]
fn background_leaves_the_reserve_to_the_foreground_of_any_process() {
    let limit = "600 requests / 1m";
    let mut bench = Bench::new(11, &[limit], 2);
    bench.want(0, 50, Lane::Background);
    bench.run(seconds(600));
    let since = bench.now;
    bench.want(1, 30, Lane::Foreground);
    bench.run(seconds(3));
    assert!(bench.sent(since, Some(1)) >= 30, "{}", bench.sent(since, Some(1)));
    bench.run(seconds(600));
    assert!(bench.most(limit) <= 600);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_no_window_holds_more_than_its_limit(
        seed in 1_u64..1 << 40,
        processes in 1_usize..6,
        limit in prop::sample::select(vec!["5 requests / 10s", "30 requests / 1m", "100 requests / 20s", "7 requests / 4m"]),
    ) {
        let mut bench = Bench::new(seed, &[limit], processes);
        bench.faults = Faults { reply_lost: 20, call_lost: 20, unknown: 30 };
        bench.latency = 1 + bench.dice.below(8_000);
        let mut image = bench.table.clone();
        for _ in 0..60 {
            let process = usize::try_from(bench.dice.below(bench.processes.len() as u64)).expect("few");
            match bench.dice.below(12) {
                0 => bench.die(process),
                1 => image = bench.table.clone(),
                2 if bench.dice.one_in(4) => bench.fail_over(image.clone()),
                3 => bench.join(),
                4 => bench.rebuild(process),
                5 => bench.pause(process, seconds(30)),
                lane => {
                    let count = usize::try_from(bench.dice.below(15)).expect("few");
                    bench.want(process, count, if lane % 2 == 0 { Lane::Foreground } else { Lane::Background });
                }
            }
            let span = bench.dice.below(20_000);
            bench.run(Duration::from_millis(span));
        }
        prop_assert!(bench.most(limit) <= amount(limit), "{} of {limit}", bench.most(limit));
    }
}
