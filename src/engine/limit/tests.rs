//! The written form of a limit: what reads, what is printed, what is refused and why.

use std::num::NonZeroU64;
use std::time::Duration;

use proptest::prelude::*;

use super::{AMOUNT_MAX, Limit, LimitError, WINDOW_MAX, WindowKind};
use crate::engine::cost::Unit;

fn bucket(depth: u64) -> WindowKind {
    WindowKind::Bucket { depth: NonZeroU64::new(depth).unwrap() }
}

#[test]
fn limits_read_as_people_write_them() {
    let minute = Duration::from_secs(60);
    for (text, amount, unit, window, kind) in [
        ("30 requests / 1m", 30, Unit::Requests, minute, WindowKind::Unknown),
        ("10_000 recipients / 24h", 10_000, Unit::Recipients, 1_440 * minute, WindowKind::Unknown),
        ("150MB / 5m", 150_000_000, Unit::Bytes, 5 * minute, WindowKind::Unknown),
        ("500 external recipients / 1h", 500, Unit::ExternalRecipients, 60 * minute, WindowKind::Unknown),
        ("6000 quota units / 1m", 6_000, Unit::QuotaUnits, minute, WindowKind::Unknown),
        ("130_000 requests / 10s", 130_000, Unit::Requests, Duration::from_secs(10), WindowKind::Unknown),
        ("1 request / 500ms", 1, Unit::Requests, Duration::from_millis(500), WindowKind::Unknown),
        ("30 requests / 1m rolling", 30, Unit::Requests, minute, WindowKind::Rolling),
        ("30 requests / 1m fixed", 30, Unit::Requests, minute, WindowKind::Fixed),
        ("30 requests / 1m bucket(8)", 30, Unit::Requests, minute, bucket(8)),
        ("30 requests / 1m bucket(30)", 30, Unit::Requests, minute, bucket(30)),
        ("150MB / 5m bucket(10MiB)", 150_000_000, Unit::Bytes, 5 * minute, bucket(10 << 20)),
        ("3 requests / 7d paranoid", 3, Unit::Requests, 7 * 1_440 * minute, WindowKind::Paranoid),
    ] {
        let limit: Limit = text.parse().unwrap();
        assert_eq!((limit.amount(), limit.unit(), limit.window(), limit.kind()), (amount, unit, window, kind));
        assert_eq!(limit.to_string(), text);
    }
}

#[test]
fn there_are_more_ways_to_write_a_limit_than_to_print_it() {
    for (text, printed) in [
        ("  30requests/60s  ", "30 requests / 1m"),
        ("30 request /  1m30s  unknown", "30 requests / 90s"),
        ("1_0_0   external   recipients / 1d", "100 external recipients / 24h"),
        ("1 requests / 48h", "1 request / 2d"),
        ("1000 bytes / 1h", "1kB / 1h"),
        ("1024 B / 1h", "1KiB / 1h"),
        ("1500kB / 1h bucket( 100 kB )", "1500kB / 1h bucket(100kB)"),
        ("1001 B / 1h bucket(7)", "1001B / 1h bucket(7B)"),
    ] {
        assert_eq!(text.parse::<Limit>().map(|limit| limit.to_string()).as_deref(), Ok(printed), "{text}");
    }
}

/// The name of the variant, so that each wrong text meets the error meant for it.
fn variant(error: &LimitError) -> String {
    format!("{error:?}").split([' ', '{']).next().unwrap_or_default().to_owned()
}

#[test]
fn each_wrong_limit_has_its_own_error() {
    for (text, name) in [
        ("", "Form"),
        ("30 requests per minute", "Form"),
        ("requests / 1m", "Amount"),
        ("-3 requests / 1m", "Amount"),
        ("3__0 requests / 1m", "Amount"),
        ("_30 requests / 1m", "Amount"),
        ("30", "Form"),
        ("0 requests / 1m", "ZeroAmount"),
        ("0GB / 1m", "ZeroAmount"),
        ("1_000_000_000_000_001 B / 1m", "AmountTooLarge"),
        ("99999999999999999999 requests / 1m", "AmountTooLarge"),
        ("18446744073709551615 GB / 1m", "AmountTooLarge"),
        ("30 mails / 1m", "Unit"),
        ("30 / 1m", "Unit"),
        ("1.5MB / 1m", "Unit"),
        ("30 KB / 1m", "Unit"),
        ("30 requests / ", "Window"),
        ("30 requests / 60", "Window"),
        ("30 requests / 1 m", "Window"),
        ("30 requests / 1w", "Window"),
        ("30 requests / m", "Window"),
        ("30 requests / 1s1m", "Window"),
        ("30 requests / 1m1m", "Window"),
        ("30 requests / 1.5h", "Window"),
        ("30 requests / 0s", "ZeroWindow"),
        ("30 requests / 366d1ms", "WindowTooLong"),
        ("30 requests / 99999999999999999999d", "WindowTooLong"),
        ("30 requests / 1m sliding", "Kind"),
        ("30 requests / 1m bucket", "Kind"),
        ("30 requests / 1m bucket()", "Kind"),
        ("30 requests / 1m bucket(8", "Kind"),
        ("30 requests / 1m bucket(8MB)", "Kind"),
        ("30 requests / 1m rolling fixed", "Kind"),
        ("30 requests / 1m bucket(0)", "ZeroDepth"),
        ("30 requests / 1m bucket(31)", "DepthAboveAmount"),
        ("30 requests / 1m bucket(99999999999999999999)", "DepthAboveAmount"),
        ("2 requests / 1m paranoid", "ParanoidTooSmall"),
    ] {
        let error = text.parse::<Limit>().unwrap_err();
        assert_eq!(variant(&error), name, "{text}");
        assert!(error.to_string().contains(&format!("{text:?}")), "{error} does not name {text}");
    }
}

#[test]
fn the_largest_and_the_smallest_limit_are_limits() {
    for (amount, window) in [(1, Duration::from_millis(1)), (AMOUNT_MAX, WINDOW_MAX)] {
        let limit = Limit::new(amount, Unit::Bytes, window).unwrap();
        assert_eq!(limit.to_string().parse(), Ok(limit));
    }
    let new = |amount, window| variant(&Limit::new(amount, Unit::Requests, window).unwrap_err());
    assert_eq!(new(0, WINDOW_MAX), "ZeroAmount");
    assert_eq!(new(AMOUNT_MAX + 1, WINDOW_MAX), "AmountTooLarge");
    assert_eq!(new(1, Duration::ZERO), "ZeroWindow");
    assert_eq!(new(1, WINDOW_MAX + Duration::from_millis(1)), "WindowTooLong");
    assert_eq!(new(1, Duration::from_micros(1_500)), "WindowTooFine");
}

#[test]
fn an_error_repeats_no_more_than_a_line() {
    let error = format!("30 {} / 1m", "x".repeat(10_000)).parse::<Limit>().unwrap_err();
    assert!(error.to_string().chars().count() < 400, "{error}");
}

prop_compose! {
    fn limits()(
        amount in prop_oneof![1..=5_u64, 1..=1_000_000_u64, (1..=1_000_u64).prop_map(|k| k * 1_000_000), 1..=AMOUNT_MAX],
        unit in prop::sample::select(&Unit::ALL[..]),
        millis in prop_oneof![1..=5_000_u64, (1..=366_u64).prop_map(|d| d * 86_400_000), 1..=31_622_400_000_u64],
    )(
        kind in prop_oneof![
            Just(WindowKind::Unknown),
            Just(WindowKind::Rolling),
            Just(WindowKind::Fixed),
            Just(if amount > 2 { WindowKind::Paranoid } else { WindowKind::Fixed }),
            (1..=amount).prop_map(bucket),
        ],
        amount in Just(amount), unit in Just(unit), millis in Just(millis),
    ) -> Limit {
        Limit::new(amount, unit, Duration::from_millis(millis)).unwrap().with_kind(kind).unwrap()
    }
}

proptest! {
    #[test]
    fn what_is_printed_reads_as_the_same_limit(limit in limits()) {
        let text = limit.to_string();
        let read: Limit = text.parse().unwrap();
        prop_assert_eq!(read, limit);
        prop_assert_eq!(read.to_string(), text);
    }

    #[test]
    fn no_text_panics_and_what_reads_prints_what_reads_again(
        text in prop_oneof![any::<String>(), "[0-9_]{0,22} ?[a-zA-Z ]{0,22} ?/ ?[0-9dhms]{0,9} ?[a-z()0-9]{0,12}"],
    ) {
        if let Ok(limit) = text.parse::<Limit>() {
            prop_assert_eq!(limit.to_string().parse(), Ok(limit));
        }
    }
}
