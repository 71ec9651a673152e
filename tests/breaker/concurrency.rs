//! Attempts in flight.

use std::num::NonZeroU32;

use mailweir::engine::breaker::Concurrency;
use mailweir::engine::lane::Lane::{Background, Foreground};

use super::*;

fn of(limit: u32) -> Concurrency {
    Concurrency::new(NonZeroU32::new(limit))
}

fn policy() -> BreakerPolicy {
    BreakerPolicy::default()
}

#[test]
fn it_is_small_and_unlimited_means_unlimited() {
    assert!(std::mem::size_of::<Concurrency>() <= 24);
    let mut unlimited = Concurrency::new(None);
    for _ in 0..1_000 {
        assert!(unlimited.may_start(Background, at(0)));
        unlimited.on_start(Background);
    }
    assert_eq!((unlimited.limit(), unlimited.total(), unlimited.deadline()), (None, 1_000, None));
}

#[test]
fn background_leaves_one_slot_to_foreground() {
    let mut four = of(4);
    for _ in 0..3 {
        assert!(four.may_start(Background, at(0)));
        four.on_start(Background);
    }
    assert!(!four.may_start(Background, at(0)));
    assert!(four.may_start(Foreground, at(0)));
    four.on_start(Foreground);
    assert!(!four.may_start(Foreground, at(0)));
    four.on_finish(Background);
    assert!(four.may_start(Background, at(0)));
    assert_eq!(four.in_flight(), [1, 2]);
}

#[test]
fn with_one_slot_both_lanes_use_it() {
    let mut one = of(1);
    assert!(one.may_start(Background, at(0)));
    one.on_start(Background);
    assert!(!one.may_start(Foreground, at(0)) && !one.may_start(Background, at(0)));
}

#[test]
fn a_lingering_slot_stays_taken_until_exactly_its_end() {
    let mut two = of(2);
    two.on_start(Background);
    two.on_linger(Background, at(5), at(65));
    assert_eq!(two.in_flight(), [0, 0]);
    assert!(!two.may_start(Background, just_before(at(65))), "it counts in its lane");
    assert!(two.may_start(Foreground, at(5)));
    assert_eq!(two.deadline(), Some(at(65)));
    assert!(two.may_start(Background, at(65)), "without a wake-up");
    two.on_wake(at(65), &policy());
    assert!(two.is_quiet(at(65)));
    assert_eq!(two.deadline(), None);
}

#[test]
fn a_slot_whose_linger_is_over_is_free_at_once() {
    let mut one = of(1);
    one.on_start(Foreground);
    one.on_linger(Foreground, at(70), at(65));
    assert!(one.may_start(Foreground, at(70)) && one.is_quiet(at(70)));
}

#[test]
fn one_wave_of_refusals_lowers_it_once_and_the_next_once_more_down_to_one() {
    let mut four = of(4);
    for second in 0..3 {
        four.on_start(Background);
        four.on_concurrency_throttle(at(10 + second), at(9), &policy());
        four.on_finish(Background);
    }
    assert_eq!(four.limit(), Some(3));
    for wave in 2..9 {
        four.on_concurrency_throttle(at(wave * 10), at(wave * 10), &policy());
    }
    assert_eq!(four.limit(), Some(1));
}

#[test]
fn it_rises_by_one_after_each_ten_clean_minutes_up_to_what_is_declared() {
    let mut four = of(4);
    four.on_concurrency_throttle(at(0), at(0), &policy());
    four.on_concurrency_throttle(at(2), at(1), &policy());
    assert_eq!((four.limit(), four.deadline()), (Some(2), Some(at(602))));
    four.on_wake(just_before(at(602)), &policy());
    assert_eq!(four.limit(), Some(2));
    four.on_wake(at(602), &policy());
    assert_eq!((four.limit(), four.deadline()), (Some(3), Some(at(1_202))));
    four.on_wake(at(1_202), &policy());
    assert_eq!((four.limit(), four.deadline()), (Some(4), None));
    assert!(four.is_quiet(at(1_202)));
}

#[test]
fn a_refusal_within_the_ten_minutes_puts_the_rise_off() {
    let mut four = of(4);
    four.on_concurrency_throttle(at(0), at(0), &policy());
    four.on_concurrency_throttle(at(500), at(0), &policy());
    assert_eq!((four.limit(), four.deadline()), (Some(3), Some(at(1_100))));
}

#[test]
fn without_a_declared_limit_it_is_learned_from_what_is_in_flight_and_forgotten() {
    let mut unlimited = Concurrency::new(None);
    for _ in 0..6 {
        unlimited.on_start(Foreground);
    }
    unlimited.on_concurrency_throttle(at(0), at(0), &policy());
    assert_eq!(unlimited.limit(), Some(5));
    unlimited.on_wake(at(600), &policy());
    assert_eq!(unlimited.limit(), None);
}

#[test]
fn a_new_limit_counts_from_now_and_keeps_what_the_provider_taught_where_it_is_lower() {
    let mut four = of(4);
    for _ in 0..4 {
        four.on_start(Foreground);
    }
    four.set_limit(NonZeroU32::new(2));
    four.on_finish(Foreground);
    four.on_finish(Foreground);
    assert!(!four.may_start(Foreground, at(0)));
    four.on_finish(Foreground);
    assert!(four.may_start(Foreground, at(0)));
    four.on_concurrency_throttle(at(0), at(0), &policy());
    four.set_limit(NonZeroU32::new(8));
    assert_eq!(four.limit(), Some(1));
}

#[test]
fn counts_saturate() {
    let mut one = of(1);
    one.on_finish(Foreground);
    one.on_concurrency_throttle(Timestamp::NEVER, Timestamp::NEVER, &policy());
    one.on_linger(Foreground, at(0), Timestamp::NEVER);
    one.on_wake(Timestamp::NEVER, &policy());
    assert_eq!((one.limit(), one.deadline()), (Some(1), None));
}
