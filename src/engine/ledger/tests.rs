//! Sizes and bounds of the ledger, and its rules as number tables. What it keeps against providers' algorithms is in
//! `tests/ledger`.

use std::time::Duration;

use super::{Counted, Earliest, Ledger};
use crate::engine::lane::Lane;
use crate::engine::limit::Limit;
use crate::engine::policy::GuardPolicy;
use crate::engine::time::Timestamp;

const SECOND: u64 = 1_000_000;
const START: u64 = 1_700_000_000 * SECOND;
const FG: Lane = Lane::Foreground;
const BG: Lane = Lane::Background;

fn ledger(limit: &str) -> Ledger {
    Ledger::new(limit.parse().unwrap(), &GuardPolicy::default())
}

/// So many seconds after the start.
fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(START + seconds * SECOND)
}

fn send(ledger: &mut Ledger, lane: Lane, cost: u64, from: u64, to: u64) {
    ledger.reserve(at(from), lane, cost);
    ledger.complete(at(to), lane, cost, at(from), at(to), Counted::Accepted);
}

#[test]
fn an_empty_ledger_is_small_and_owns_no_heap() {
    assert!(size_of::<Ledger>() <= 120, "{}", size_of::<Ledger>());
    for limit in ["30 requests / 1m", "30 requests / 1m bucket(8)", "30 requests / 1m paranoid", "150MB / 5m"] {
        let mut ledger = ledger(limit);
        assert!(ledger.book.is_none());
        send(&mut ledger, FG, 1, 0, 1);
        assert!(ledger.book.is_some());
        ledger.expire(at(1_000));
        assert!(ledger.book.is_none(), "{limit} keeps its heap");
        ledger.reserve(at(1_000), FG, 1);
        ledger.release(at(1_000), FG, 1);
        assert!(ledger.book.is_none(), "{limit} keeps its heap after a release");
    }
}

#[test]
fn a_charge_counts_from_its_completion_for_w_and_the_guard() {
    let mut ledger = ledger("1 request / 1m");
    send(&mut ledger, FG, 1, 0, 10);
    let free = at(10).after(ledger.span());
    assert_eq!(ledger.span().as_micros(), 60_060_061, "60 s / (1 - 0.001), rounded up");
    assert_eq!(ledger.earliest(at(11), 1, 1), Earliest::At(free));
    assert_eq!(ledger.next_release(), Some(free));
    assert_eq!((ledger.used(at(70)), ledger.used(free)), (1, 0));
}

#[test]
fn a_cost_is_told_from_an_amount_that_never_holds_it() {
    let ledger = ledger("10 recipients / 1h");
    assert_eq!(ledger.earliest(at(0), 10, 10), Earliest::Now);
    assert_eq!(ledger.earliest(at(0), 11, 100), Earliest::Never { capacity: 10 });
    assert_eq!(ledger.earliest(at(0), 5, 4), Earliest::Never { capacity: 4 });
    assert_eq!(ledger.earliest(at(0), 0, 0), Earliest::Now);
}

#[test]
fn capacity_follows_the_kind() {
    for (limit, capacity) in [
        ("30 requests / 1m", 30),
        ("30 requests / 1m bucket(8)", 8),
        ("30 requests / 1m bucket(30)", 30),
        ("30 requests / 1m paranoid", 2),
        ("3 requests / 1m paranoid", 2),
        ("31 requests / 1m paranoid", 3),
        ("6_000 quota units / 1m paranoid", 400),
    ] {
        let ledger = ledger(limit);
        assert_eq!(ledger.capacity(), capacity, "{limit}");
        assert_eq!(ledger.earliest(at(0), capacity, u64::MAX), Earliest::Now, "{limit}");
        assert_eq!(ledger.earliest(at(0), capacity + 1, u64::MAX), Earliest::Never { capacity }, "{limit}");
    }
}

#[test]
fn a_lane_is_asked_for_its_own_use() {
    let mut ledger = ledger("4 requests / 1m");
    send(&mut ledger, BG, 2, 0, 1);
    ledger.reserve(at(1), FG, 1);
    assert_eq!((ledger.used_by(FG, at(2)), ledger.used_by(BG, at(2)), ledger.used(at(2))), (1, 2, 3));
    assert_eq!(ledger.earliest_of(FG, at(2), 1, 2), Earliest::Now);
    assert_eq!(ledger.earliest_of(BG, at(2), 1, 2), Earliest::At(at(1).after(ledger.span())));
    assert!(matches!(ledger.earliest_of(FG, at(2), 2, 2), Earliest::AfterCompletion { .. }));
}

#[test]
fn refused_charges_count_but_are_not_accepted() {
    let mut ledger = ledger("4 requests / 1m");
    for kind in [Counted::Accepted, Counted::Refused, Counted::Accepted] {
        ledger.reserve(at(0), FG, 1);
        ledger.complete(at(1), FG, 1, at(0), at(1), kind);
    }
    assert_eq!((ledger.used(at(2)), ledger.accepted(at(2))), (3, 2));
    assert_eq!((ledger.used(at(100)), ledger.accepted(at(100))), (0, 0));
}

#[test]
fn paranoid_spaces_its_sends_evenly() {
    let mut ledger = ledger("32 requests / 1m paranoid"); // 29 per minute after a depth of 3
    ledger.reserve(at(0), FG, 1);
    let gap = 60_060_061_u64.div_ceil(29);
    assert_eq!(ledger.earliest(at(0), 1, 32), Earliest::At(Timestamp::from_micros(START + gap)));
    ledger.release(at(1), FG, 1);
    assert_eq!(ledger.earliest(at(1), 1, 32), Earliest::Now);
}

#[test]
fn a_rate_that_does_not_divide_does_not_drift() {
    let mut ledger = ledger("7 requests / 1m bucket(1)");
    let mut now = at(0);
    for _ in 0..7_000 {
        if let Earliest::At(ready) = ledger.earliest(now, 1, 7) {
            now = ready;
        }
        assert_eq!(ledger.earliest(now, 1, 7), Earliest::Now);
        ledger.reserve(now, FG, 1);
        ledger.complete(now, FG, 1, now, now, Counted::Accepted);
    }
    // The last of 7,000 goes 6,999 gaps after the first: 999 windows and 6/7, each rounded up once at most.
    let exact = 6_999 * 60_060_061 / 7;
    let spent = now.as_micros() - START;
    assert!((exact..=exact + 7_000).contains(&spent), "{spent} for {exact}");
}

#[test]
fn a_log_keeps_no_more_entries_than_its_bound() {
    let guard = GuardPolicy { exact_entries_max: 64, sub_buckets: 8, ..GuardPolicy::default() };
    let mut ledger = Ledger::new("64 requests / 1h".parse().unwrap(), &guard);
    for k in 0..1_000 {
        ledger.restore(Lane::ALL[k as usize % 2], 1, at(k));
    }
    assert_eq!(ledger.used(at(1_000)), 1_000);
    let entries = ledger.book.as_ref().map_or(0, |book| book.log.iter().count());
    assert!(entries <= 64 + 3, "{entries}");
    for k in 0..1_000 {
        let counting = ledger.used(at(3_600 + k));
        assert!(counting >= 1_000 - k, "{counting} at {k}");
    }
    assert_eq!(ledger.used(at(1_000 + 3_604)), 0);
}

#[test]
fn a_long_window_keeps_one_entry_a_sub_bucket_and_lane() {
    let mut ledger = ledger("10_000 recipients / 24h");
    for k in 0..10_000 {
        send(&mut ledger, Lane::ALL[k as usize % 2], 1, 8 * k, 8 * k + 1);
    }
    let entries = ledger.book.as_ref().map_or(0, |book| book.log.iter().count());
    assert!(entries <= 2 * 289, "{entries}");
    assert_eq!(ledger.used(at(80_000)), 10_000);
}

#[test]
fn a_burst_does_not_keep_its_room() {
    let mut ledger = ledger("4_000 requests / 1h");
    (0..2_000).for_each(|k| send(&mut ledger, FG, 1, k, k + 1));
    let room = |ledger: &Ledger| ledger.book.as_ref().map_or(0, |book| book.log.room());
    assert!(room(&ledger) >= 2_000);
    send(&mut ledger, FG, 1, 5_500, 5_600);
    assert!(room(&ledger) <= 512, "{}", room(&ledger));
    assert_eq!(ledger.used(at(5_600)), 5, "four of the burst, completed after 1,996.4 s, and the last");
}

#[test]
fn no_input_panics() {
    for limit in ["30 requests / 1m", "3 requests / 1ms bucket(2)", "1_000_000_000_000_000 B / 366d paranoid"] {
        let mut ledger = ledger(limit);
        for now in [0, 1, START, u64::MAX - 1, u64::MAX, 5] {
            let now = Timestamp::from_micros(now);
            for cost in [0, 1, u64::MAX] {
                ledger.reserve(now, FG, cost);
                let _ = (ledger.earliest(now, 1, u64::MAX), ledger.earliest_of(BG, now, cost, 0));
                ledger.complete(now, FG, cost, now, Timestamp::NEVER, Counted::Refused);
                ledger.restore(BG, cost, Timestamp::EPOCH);
                ledger.release(now, BG, cost);
                ledger.set_limit(now, "4 requests / 7d paranoid".parse::<Limit>().unwrap(), &GuardPolicy::default());
                let _ = (ledger.used(now), ledger.accepted(now), ledger.earliest(now, 1, 4));
                ledger.expire(now);
            }
        }
    }
}

#[test]
fn a_longer_window_keeps_its_charges_longer_and_a_shorter_one_no_shorter() {
    let guard = GuardPolicy::default();
    let long = at(1).after(ledger("1 request / 1h").span());
    for (from, to) in [("1 request / 1m", "1 request / 1h"), ("1 request / 1h", "1 request / 1m")] {
        let mut ledger = ledger(from);
        send(&mut ledger, FG, 1, 0, 1);
        ledger.set_limit(at(2), to.parse().unwrap(), &guard);
        assert_eq!(ledger.earliest(at(2), 1, 1), Earliest::At(long), "{from} to {to}");
    }
}

#[test]
fn a_bucket_that_comes_later_is_as_full_as_if_it_had_been_there() {
    let bucket = "30 requests / 1m bucket(8)";
    let (mut there, mut later) = (ledger(bucket), ledger("30 requests / 1m"));
    for ledger in [&mut there, &mut later] {
        for k in 0..8 {
            send(ledger, FG, 1, k, k + 1);
        }
        ledger.reserve(at(8), FG, 1);
    }
    later.set_limit(at(9), bucket.parse().unwrap(), &GuardPolicy::default());
    for cost in 1..=8 {
        assert_eq!(later.earliest(at(9), cost, 30), there.earliest(at(9), cost, 30));
    }
    assert!(matches!(later.earliest(at(9), 5, 30), Earliest::At(_)), "eight sent and four drained of eight");
}

#[test]
fn another_rate_keeps_the_level_of_the_bucket() {
    let mut ledger = ledger("30 requests / 1m bucket(8)");
    for _ in 0..8 {
        send(&mut ledger, FG, 1, 0, 0);
    }
    ledger.set_limit(at(0), "60 requests / 1m bucket(8)".parse().unwrap(), &GuardPolicy::default());
    let drained = 60_060_061_u64.div_ceil(60);
    assert_eq!(ledger.earliest(at(0), 1, 60), Earliest::At(Timestamp::from_micros(START + drained)));
}

#[test]
fn a_bucket_counts_an_unknown_as_in_flight_until_it_can_no_longer_arrive() {
    let mut ledger = ledger("30 requests / 1m bucket(1)");
    ledger.reserve(at(0), FG, 1);
    ledger.complete(at(1), FG, 1, at(0), at(65), Counted::Accepted);
    let drained = 60_060_061_u64.div_ceil(30);
    let ready = Timestamp::from_micros(START + 65 * SECOND + drained);
    assert_eq!(ledger.earliest(at(1), 1, 30), Earliest::At(ready));
}

#[test]
fn spacing_comes_back_only_with_a_reservation_that_was_alone() {
    let mut ledger = ledger("32 requests / 1m paranoid"); // 29 per minute, one per 2.07 s
    ledger.reserve(at(0), FG, 1);
    ledger.reserve(at(3), FG, 1);
    let spaced = Earliest::At(Timestamp::from_micros(START + 3 * SECOND + 60_060_061_u64.div_ceil(29)));
    assert_eq!(ledger.earliest(at(4), 1, 32), spaced);
    ledger.release(at(4), FG, 1); // which of the two it was is not known, so the later one still spaces
    assert_eq!(ledger.earliest(at(4), 1, 32), spaced);
}

#[test]
fn a_short_window_frees_no_unknown_earlier() {
    let guard = GuardPolicy { interval_window_max: Duration::from_secs(5), ..GuardPolicy::default() };
    let mut ledger = Ledger::new("1 request / 1s".parse().unwrap(), &guard);
    for k in 0..2_000 {
        send(&mut ledger, FG, 1, 2 * k, 2 * k + 1);
    }
    let advance = Timestamp::from_micros(START + 4_000 * SECOND + SECOND / 2).after(ledger.span());
    send(&mut ledger, FG, 1, 4_000, 4_001);
    assert_eq!(ledger.next_release(), Some(advance), "half of a round trip of 1 s is won back");
    ledger.expire(at(4_010));
    ledger.reserve(at(4_010), FG, 1);
    ledger.complete(at(4_011), FG, 1, at(4_010), at(4_075), Counted::Accepted);
    assert_eq!(ledger.next_release(), Some(at(4_075).after(ledger.span())));
}
