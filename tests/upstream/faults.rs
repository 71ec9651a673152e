//! What goes wrong, and what the client is told.

use std::sync::Arc;
use std::time::Duration;

use mailweir::engine::{Cost, Ratio, Scope, ScopeKind};
use mailweir::upstream::{
    Algorithm, ArrivalRequest, Block, ConcurrencyLimit, Decision, Delivery, Early, Foreign, Model, Origin, Penalty,
    RetryAfter, RetryAfterPolicy, Schedule, Upstream, UpstreamLimit,
};

use crate::{MINUTE, SECOND, at, limit, request, upstream};

fn with(model: impl FnOnce(&mut Model)) -> Upstream {
    let mut faulty = Model::new([UpstreamLimit::requests(100, MINUTE)]);
    faulty.usage_from = Some(Ratio::ZERO);
    model(&mut faulty);
    Upstream::new(faulty, 1)
}

/// One request, and what the next one's usage header says: how much the first was charged.
fn outcome(upstream: &mut Upstream) -> (Decision, u64) {
    let decision = upstream.arrive(at(1.0), &request("one"));
    let charged = upstream.log().iter().filter(|arrival| arrival.status != 503).count() as u64;
    (decision, charged)
}

#[test]
fn a_lost_request_and_one_cut_before_its_body_never_arrive() {
    let always = Schedule::always(Ratio::ONE);
    let (lost, _) = outcome(&mut with(|model| model.faults.request_lost = always.clone()));
    assert_eq!((lost.status, lost.delivery, lost.executed), (None, Delivery::Lost, false));
    let mut upstream = with(|model| model.faults.cut_before_body = always);
    let (cut, _) = outcome(&mut upstream);
    assert_eq!((cut.status, cut.delivery, cut.executed), (None, Delivery::Cut, false));
    assert!(upstream.log().is_empty());
}

#[test]
fn an_error_before_the_charge_costs_nothing_and_one_after_it_does() {
    for (before, used_by_next) in [(true, 10_000), (false, 20_000)] {
        let mut upstream = with(|model| {
            let once = Schedule::always(Ratio::ZERO).between(at(0.0), at(2.0), Ratio::ONE);
            let faults = &mut model.faults;
            *(if before { &mut faults.error_before_charge } else { &mut faults.error_after_charge }) = once;
        });
        let failed = upstream.arrive(at(1.0), &request("one"));
        assert_eq!((failed.status, failed.executed), (Some(503), false));
        let next = upstream.arrive(at(2.0), &request("two"));
        assert_eq!(next.usage, Some(Ratio::ppm(used_by_next)), "before the charge: {before}");
    }
}

#[test]
fn a_504_after_acceptance_took_the_email_and_keeps_its_slot_for_a_while() {
    let mut upstream = with(|model| {
        model.faults.timeout_after_acceptance = Schedule::always(Ratio::ONE);
        model.faults.timeout_lingers = Duration::from_secs(30);
        model.concurrency = vec![ConcurrencyLimit::new(ScopeKind::Mailbox, 1)];
    });
    let (decision, _) = outcome(&mut upstream);
    assert_eq!((decision.status, decision.executed), (Some(504), true));
    upstream.complete(at(2.0), decision.handle);
    assert_eq!(upstream.arrive(at(31.9), &request("two")).status, Some(429));
    assert_eq!(upstream.arrive(at(32.0), &request("two")).status, Some(504));
}

#[test]
fn a_lost_a_cut_and_a_doubled_answer_belong_to_an_email_that_was_taken() {
    type Set = fn(&mut Model) -> &mut Schedule<Ratio>;
    let rows: [(Set, Delivery); 3] = [
        (|model| &mut model.faults.response_lost, Delivery::Lost),
        (|model| &mut model.faults.cut_after_body, Delivery::Cut),
        (|model| &mut model.faults.response_duplicated, Delivery::Twice),
    ];
    for (set, delivery) in rows {
        let mut upstream = with(|model| *set(model) = Schedule::always(Ratio::ONE));
        let (decision, charged) = outcome(&mut upstream);
        assert_eq!((decision.delivery, decision.executed, charged), (delivery, true, 1));
    }
}

#[test]
fn a_202_may_carry_a_retry_after_that_means_nothing() {
    let mut upstream = with(|model| model.faults.accepted_with_retry_after = Schedule::always(Ratio::ONE));
    let (decision, _) = outcome(&mut upstream);
    assert_eq!((decision.status, decision.retry_after), (Some(202), Some(RetryAfter::Seconds(1))));
}

#[test]
fn a_fault_of_thirty_per_cent_hits_three_in_ten() {
    let mut upstream = Upstream::new(Model::new([]), 5);
    let mut model = upstream.model().clone();
    model.faults.error_after_charge = Ratio::percent(30).into();
    model.faults.response_lost = Ratio::percent(30).into();
    upstream = Upstream::new(model, 5);
    let decisions: Vec<_> = (0..10_000).map(|n| upstream.arrive(at(f64::from(n)), &request("k"))).collect();
    let failed = decisions.iter().filter(|decision| decision.status == Some(503)).count();
    let lost = decisions.iter().filter(|decision| decision.delivery == Delivery::Lost).count();
    assert!((2_800..3_200).contains(&failed) && (2_800..3_200).contains(&lost), "{failed} {lost}");
}

#[test]
fn every_form_of_retry_after_comes_as_it_was_asked_for() {
    let rows = [
        (RetryAfterPolicy::None, None),
        (RetryAfterPolicy::Exact, Some(RetryAfter::Seconds(58))),
        (RetryAfterPolicy::Date, Some(RetryAfter::Date(at(60.5)))),
        (RetryAfterPolicy::Constant(1), Some(RetryAfter::Seconds(1))),
        (RetryAfterPolicy::Malformed("30,120".into()), Some(RetryAfter::Text("30,120".into()))),
    ];
    for (policy, expected) in rows {
        let mut model = Model::new([UpstreamLimit::requests(1, MINUTE)]);
        model.retry_after = policy;
        let mut upstream = Upstream::new(model, 1);
        let _ = upstream.arrive(at(0.0), &request("k"));
        assert_eq!(upstream.arrive(at(2.5), &request("k")).retry_after, expected);
    }
}

#[test]
fn the_usage_header_begins_at_its_threshold() {
    let mut model = Model::new([UpstreamLimit::requests(10, MINUTE)]);
    model.usage_from = Some(Ratio::percent(80));
    let mut upstream = Upstream::new(model, 1);
    let usages: Vec<_> = (0..10).map(|_| upstream.arrive(at(0.0), &request("k")).usage).collect();
    assert_eq!(usages[6], None);
    assert_eq!(usages[7..], [80, 90, 100].map(|percent| Some(Ratio::percent(percent))));
}

#[test]
fn a_limit_follows_its_factor_and_a_limit_of_nothing_says_when_it_returns() {
    let scale = Schedule::always(Ratio::ONE)
        .then(at(100.0), Ratio::percent(50))
        .then(at(200.0), Ratio::ZERO)
        .then(at(300.0), Ratio::ONE);
    let mut upstream = upstream([UpstreamLimit::requests(4, SECOND).scaled(scale)]);
    let mut taken =
        |second: f64| (0..9).filter(|_| upstream.arrive(at(second), &request("k")).status == Some(202)).count();
    assert_eq!([99.0, 100.0, 199.0, 200.0, 299.0, 300.0].map(&mut taken), [4, 2, 2, 0, 0, 4]);
    let mut blocked = Upstream::new(upstream.model().clone(), 1);
    assert_eq!(blocked.arrive(at(250.0), &request("k")).retry_after, Some(RetryAfter::Seconds(50)));
}

#[test]
fn a_block_refuses_its_scope_until_it_ends() {
    let mut model = Model::new([]);
    model.blocks = vec![Block { scope: Scope::Mailbox("a@x".into()), from: at(10.0), until: at(20.0) }];
    let mut upstream = Upstream::new(model, 1);
    let other = ArrivalRequest { mailbox: "b@x".into(), ..request("k") };
    assert_eq!(upstream.arrive(at(9.999), &request("k")).status, Some(202));
    assert_eq!(upstream.arrive(at(10.0), &request("k")).retry_after, Some(RetryAfter::Seconds(10)));
    assert_eq!(upstream.arrive(at(15.0), &other).status, Some(202));
    assert_eq!(upstream.arrive(at(20.0), &request("k")).status, Some(202));
}

#[test]
fn the_penalty_box_shuts_after_too_many_refusals_and_knocking_may_start_it_anew() {
    for (early, free_at) in [(Early::Ignored, 912.0), (Early::Restarts, 1_400.0)] {
        let mut model = Model::new([limit(1, Algorithm::Fixed { phase: Duration::ZERO })]);
        model.penalty = Some(Penalty { refusals: 3, within: MINUTE, lasts: Duration::from_secs(900), early });
        let mut upstream = Upstream::new(model, 1);
        for second in [0.0, 10.0, 11.0, 12.0] {
            let _ = upstream.arrive(at(second), &request("k"));
        }
        assert_eq!(upstream.arrive(at(500.0), &request("k")).status, Some(429));
        assert_eq!(upstream.arrive(at(free_at - 0.001), &request("k")).status, Some(429), "{early:?}");
        if early == Early::Ignored {
            assert_eq!(upstream.arrive(at(free_at), &request("k")).status, Some(202));
        } else {
            assert_eq!(upstream.arrive(at(free_at - 0.001 + 900.0), &request("k")).status, Some(202));
        }
    }
}

#[test]
fn foreign_traffic_has_its_rate_and_spends_the_budget() {
    let mut model = Model::new([UpstreamLimit::requests(1_000, Duration::from_secs(3_600))]);
    let per_hour = Schedule::always(0).between(at(0.0), at(36_000.0), 600);
    model.foreign = vec![Foreign { mailbox: "a@x".into(), tenant: None, cost: Cost::ONE_REQUEST, per_hour }];
    let mut upstream = Upstream::new(model, 3);
    upstream.advance(at(0.0)); // foreign traffic begins at the first look
    upstream.advance(at(36_000.0));
    // About 600 of the last hour are taken: of 1,000, some 400 are left.
    let ours = (0..1_000).filter(|_| upstream.arrive(at(36_000.0), &request("k")).status == Some(202)).count();
    assert!((300..500).contains(&ours), "{ours} left");
    upstream.advance(at(72_000.0));
    let foreign: Vec<_> = upstream.log().iter().filter(|arrival| arrival.origin == Origin::Foreign).collect();
    assert!((5_700..6_300).contains(&foreign.len()), "{} in ten hours of 600", foreign.len());
    assert!(foreign.iter().all(|arrival| arrival.at < at(36_000.0)), "none after its end");
    assert_eq!(upstream.log().client().count(), 1_000);
}

#[test]
fn a_burned_budget_is_gone_for_a_window() {
    let mut upstream = upstream([UpstreamLimit::requests(30, MINUTE)]);
    let mailbox: Arc<str> = "a@x".into();
    upstream.burn(at(0.0), &mailbox, None, Cost { requests: 30, ..Cost::ONE_REQUEST });
    assert_eq!(upstream.arrive(at(59.999), &request("k")).status, Some(429));
    assert_eq!(upstream.arrive(at(60.0), &request("k")).status, Some(202));
}
