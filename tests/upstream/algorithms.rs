//! Who gets in, per algorithm and scope.

use std::time::Duration;

use mailweir::engine::{ScopeKind, ThrottleKind, Unit};
use mailweir::upstream::{
    Algorithm, ArrivalRequest, ConcurrencyLimit, Model, Random, Refusals, RetryAfter, Upstream, UpstreamLimit, check,
};

use crate::{MINUTE, SECOND, at, costing, limit, request, upstream};

/// Sends at each instant (in seconds) and compares who gets in.
fn table(algorithm: Algorithm, amount: u64, rows: &[(f64, bool)]) {
    let mut upstream = upstream([limit(amount, algorithm)]);
    for (n, (seconds, accepted)) in rows.iter().enumerate() {
        let decision = upstream.arrive(at(*seconds), &request("k"));
        assert_eq!(decision.status == Some(202), *accepted, "{algorithm:?}, row {n} at {seconds} s: {decision:?}");
    }
}

#[test]
fn a_rolling_window_takes_n_and_frees_each_slot_exactly_one_window_later() {
    let rows =
        [(0.0, true), (1.0, true), (59.999_999, false), (60.0, true), (60.999_999, false), (61.0, true), (61.5, false)];
    table(Algorithm::Rolling, 2, &rows);
}

#[test]
fn a_fixed_window_counts_from_its_phase_whenever_that_was() {
    let algorithm = Algorithm::Fixed { phase: Duration::from_secs(610) }; // windows begin at 10 s, 70 s, …
    let rows = [(9.0, true), (9.5, true), (9.9, false), (10.0, true), (10.1, true), (69.999_999, false), (70.0, true)];
    table(algorithm, 2, &rows);
}

#[test]
fn an_anchored_window_opens_at_the_first_request_after_the_last_one_expired() {
    let rows = [(7.0, true), (66.0, true), (66.9, false), (67.0, true), (126.9, true), (126.95, false), (127.0, true)];
    table(Algorithm::Anchored, 2, &rows);
}

#[test]
fn a_sliding_counter_weighs_the_previous_window_by_what_is_left_of_it() {
    // Two in the previous window: at 90 s half of them still count, 2 · 0.5 + 1 ≤ 2.
    let rows = [(30.0, true), (31.0, true), (32.0, false), (89.999, false), (90.0, true), (90.1, false), (120.0, true)];
    table(Algorithm::SlidingCounter { phase: Duration::ZERO }, 2, &rows);
}

#[test]
fn a_bucket_starts_full_and_refills_at_n_per_window() {
    let rows = [
        (0.0, true),
        (0.0, true),
        (0.0, true),
        (0.0, false),
        (29.999_999, false),
        (30.0, true),
        (59.0, false),
        (60.0, true),
    ];
    table(Algorithm::Bucket { depth: 3 }, 2, &rows);
}

#[test]
fn every_algorithm_holds_a_weighted_cost_to_the_limit_and_refuses_one_more() {
    for algorithm in [
        Algorithm::Rolling,
        Algorithm::Anchored,
        Algorithm::Fixed { phase: SECOND },
        Algorithm::SlidingCounter { phase: SECOND },
        Algorithm::Bucket { depth: 100 },
    ] {
        let recipients = UpstreamLimit::new(ScopeKind::Mailbox, Unit::Recipients, 100, MINUTE, algorithm);
        let mut upstream = upstream([recipients]);
        assert_eq!(upstream.arrive(at(2.0), &costing(101)).status, Some(429), "{algorithm:?} above its capacity");
        assert_eq!(upstream.arrive(at(2.0), &costing(60)).status, Some(202), "{algorithm:?}");
        assert_eq!(upstream.arrive(at(2.0), &costing(41)).status, Some(429), "{algorithm:?} one above");
        assert_eq!(upstream.arrive(at(2.0), &costing(40)).status, Some(202), "{algorithm:?} at the limit");
    }
}

#[test]
fn the_exact_retry_after_is_when_the_same_cost_fits_and_a_second_earlier_it_does_not() {
    for algorithm in [
        Algorithm::Rolling,
        Algorithm::Anchored,
        Algorithm::Fixed { phase: Duration::from_secs(17) },
        Algorithm::SlidingCounter { phase: Duration::from_secs(17) },
        Algorithm::Bucket { depth: 8 },
    ] {
        let mut upstream = upstream([limit(30, algorithm)]);
        let refused = (0..200).map(|n| at(f64::from(n) * 0.25)).find_map(|now| {
            let decision = upstream.arrive(now, &request("k"));
            decision.retry_after.map(|retry_after| (now, retry_after))
        });
        let Some((now, RetryAfter::Seconds(seconds))) = refused else { panic!("{algorithm:?}: {refused:?}") };
        let ready = now.after(Duration::from_secs(seconds));
        if seconds > 1 {
            let mut early = upstream.clone();
            assert_eq!(early.arrive(ready.before(SECOND), &request("k")).status, Some(429), "{algorithm:?} early");
        }
        assert_eq!(upstream.arrive(ready, &request("k")).status, Some(202), "{algorithm:?} after {seconds} s");
    }
}

#[test]
fn a_refusal_charges_nothing_at_any_scope() {
    let mailbox = UpstreamLimit::requests(1, MINUTE);
    let application = UpstreamLimit::requests(2, MINUTE).at_scope(ScopeKind::Application);
    let mut upstream = upstream([application, mailbox]);
    let from = |mailbox: &str| ArrivalRequest { mailbox: mailbox.into(), ..request("k") };
    assert_eq!(upstream.arrive(at(0.0), &from("a")).status, Some(202));
    let refused = upstream.arrive(at(0.1), &from("a"));
    assert_eq!(refused.refusal.map(|refusal| refusal.scope), Some(ScopeKind::Mailbox));
    assert_eq!(upstream.arrive(at(0.2), &from("b")).status, Some(202), "the refusal took no application slot");
    let refused = upstream.arrive(at(0.3), &from("c"));
    assert_eq!(refused.refusal.map(|refusal| refusal.scope), Some(ScopeKind::Application));
}

#[test]
fn a_tenant_limit_counts_its_mailboxes_together_and_leaves_other_tenants_alone() {
    let mut upstream = upstream([UpstreamLimit::requests(2, MINUTE).at_scope(ScopeKind::Tenant)]);
    let from = |mailbox: &str, tenant: Option<&str>| ArrivalRequest {
        mailbox: mailbox.into(),
        tenant: tenant.map(Into::into),
        ..request("k")
    };
    let statuses: Vec<_> = [("a", Some("t")), ("b", Some("t")), ("c", Some("t")), ("d", Some("u")), ("e", None)]
        .into_iter()
        .map(|(mailbox, tenant)| upstream.arrive(at(0.0), &from(mailbox, tenant)).status.unwrap_or(0))
        .collect();
    assert_eq!(statuses, [202, 202, 429, 202, 202]);
}

#[test]
fn counted_refusals_keep_a_rolling_window_shut_for_as_long_as_somebody_knocks() {
    let mut model = Model::new([UpstreamLimit::requests(1, MINUTE)]);
    model.refusals = Refusals::Counted;
    let mut upstream = Upstream::new(model, 1);
    assert_eq!(upstream.arrive(at(0.0), &request("k")).status, Some(202));
    for n in 1..=20 {
        let knock = upstream.arrive(at(f64::from(n) * 30.0), &request("k"));
        assert_eq!(knock.retry_after, Some(RetryAfter::Seconds(60)), "the refusal itself counts");
    }
    assert_eq!(upstream.arrive(at(660.0), &request("k")).status, Some(202));
}

#[test]
fn counted_refusals_drive_a_bucket_no_lower_than_four_fifths_of_its_depth() {
    let mut model = Model::new([limit(10, Algorithm::Bucket { depth: 10 })]);
    model.refusals = Refusals::Counted;
    let mut upstream = Upstream::new(model, 1);
    let last = (0..1_000).map(|_| upstream.arrive(at(0.0), &request("k"))).last();
    // From −8 tokens to 1 at one token per 6 s.
    assert_eq!(last.and_then(|decision| decision.retry_after), Some(RetryAfter::Seconds(54)));
}

#[test]
fn t1_a_burst_that_every_phase_takes_is_a_burst_that_the_rolling_log_takes() {
    // 30 in the last second of one window and 30 in the first of the next: fixed(0) takes 60, another phase does not.
    let burst = |algorithm| {
        let mut upstream = upstream([limit(30, algorithm)]);
        (0..60).filter(|n| upstream.arrive(at(59.0 + f64::from(*n) / 30.0), &request("k")).status == Some(202)).count()
    };
    assert_eq!(burst(Algorithm::Fixed { phase: Duration::ZERO }), 60);
    assert_eq!(burst(Algorithm::Fixed { phase: Duration::from_secs(30) }), 30);
    assert_eq!(burst(Algorithm::Rolling), 30);
}

#[test]
fn t2_what_a_rolling_log_takes_an_anchored_window_and_a_bucket_of_n_take_too() {
    let mut rolling = upstream([limit(30, Algorithm::Rolling)]);
    let mut others =
        [Algorithm::Anchored, Algorithm::Bucket { depth: 30 }, Algorithm::Fixed { phase: Duration::from_secs(23) }]
            .map(|algorithm| upstream([limit(30, algorithm)]));
    let mut random = Random::new(9);
    let mut now = at(0.0);
    for _ in 0..5_000 {
        now = now.after(Duration::from_micros(random.below(2_500_000)));
        if rolling.arrive(now, &request("k")).status == Some(202) {
            for other in &mut others {
                assert_eq!(other.arrive(now, &request("k")).status, Some(202), "{:?}", other.model().limits);
            }
        }
    }
    assert!(check::counts(others[0].log().iter()).accepted > 2_000);
}

#[test]
fn t3_a_bucket_as_deep_as_the_limit_lets_almost_twice_the_limit_through_one_window() {
    let bucket = limit(30, Algorithm::Bucket { depth: 30 });
    let mut upstream = upstream([bucket.clone()]);
    let eager = (0..600).map(|n| at(f64::from(n) * 0.1)); // [0, 60): a knock every 100 ms
    let accepted = eager.filter(|now| upstream.arrive(*now, &request("k")).status == Some(202)).count();
    assert_eq!(accepted, 59);
    let taken = upstream.log().iter().filter(|arrival| arrival.executed);
    assert_eq!(check::max_in_window(taken, &bucket), 59);
}

#[test]
fn t4_bursts_that_a_rolling_log_takes_break_on_a_sliding_counter() {
    let sliding = || upstream([limit(30, Algorithm::SlidingCounter { phase: Duration::ZERO })]);
    let (mut rolling, mut counter) = (upstream([limit(30, Algorithm::Rolling)]), sliding());
    // 30 at the end of a window and 30 again just over a minute later.
    let late = [59.0, 119.5].into_iter().flat_map(|start| (0..30).map(move |n| at(start + f64::from(n) * 0.001)));
    let statuses: Vec<_> = late
        .map(|now| [&mut rolling, &mut counter].map(|upstream| upstream.arrive(now, &request("k")).status))
        .collect();
    assert!(statuses.iter().all(|[rolling, _]| *rolling == Some(202)));
    assert!(statuses.iter().any(|[_, counter]| *counter == Some(429)));
    // Even pacing at (N−2)/W passes it for an hour.
    let mut paced = sliding();
    assert!((0..1_680).all(|n| paced.arrive(at(f64::from(n) * 60.0 / 28.0), &request("k")).status == Some(202)));
}

#[test]
fn concurrency_counts_from_arrival_to_completion_and_its_refusal_says_so() {
    let mut model = Model::new([]);
    model.concurrency = vec![ConcurrencyLimit::new(ScopeKind::Mailbox, 2)];
    let mut upstream = Upstream::new(model, 1);
    let first = upstream.arrive(at(0.0), &request("1"));
    let second = upstream.arrive(at(0.0), &request("2"));
    assert_eq!((first.status, second.status), (Some(202), Some(202)));
    let third = upstream.arrive(at(0.1), &request("3"));
    assert_eq!(third.refusal.map(|refusal| refusal.kind), Some(ThrottleKind::Concurrency));
    assert_eq!(third.retry_after, Some(RetryAfter::Seconds(1)));
    upstream.complete(at(0.5), first.handle); // announced before its instant
    assert_eq!(upstream.arrive(at(0.499_999), &request("4")).status, Some(429));
    assert_eq!(upstream.arrive(at(0.5), &request("5")).status, Some(202));
    assert_eq!(upstream.arrive(at(0.5), &request("6")).status, Some(429));
    upstream.complete(at(0.6), first.handle); // a second completion of the same frees nothing
    assert_eq!(upstream.arrive(at(0.7), &request("7")).status, Some(429));
}
