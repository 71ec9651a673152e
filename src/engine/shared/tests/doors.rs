//! What can never be granted, and what is known of waits before anybody asks.

use super::*;
use crate::engine::constraint::Certainty;
use crate::engine::leaves::Leaves;
use crate::engine::mailbox::{PastAttempt, Refusal};
use crate::engine::operation::OperationKind;
use crate::engine::shared::check;

fn reserve(key: u64, lane: Lane, tenant: Option<&str>, recipients: u32) -> Input {
    let asker = asker(mailbox_of(key), key);
    Input::Reserve { asker, lane, tenant: tenant.map(Arc::from), cost: Cost::email(recipients, 1_000) }
}

fn shared(application: &[&str], tenant: &[&str]) -> SharedPolicy {
    SharedPolicy { application: scope(application, 0), tenant: scope(tenant, 0), ..SharedPolicy::default() }
}

#[test]
fn a_cost_above_a_shared_capacity_is_refused_at_the_door() {
    let policy = shared(&["14 recipients / 1s"], &["5 recipients / 1m"]);
    let of = |tenant: Option<&Arc<str>>, recipients| check(&policy, tenant, &Cost::email(recipients, 1_000));
    assert_eq!(of(None, 14), Ok(()));
    let Err(Refusal::CostAboveCapacity { constraint, cost: 20, capacity: 14 }) = of(None, 20) else { panic!() };
    assert_eq!(constraint.scope, ScopeKind::Application);
    let Err(Refusal::CostAboveCapacity { constraint, cost: 6, capacity: 5 }) = of(Some(&Arc::from("acme")), 6) else {
        panic!()
    };
    assert_eq!(constraint.scope, ScopeKind::Tenant);
}

#[test]
fn a_cost_above_a_shared_capacity_is_denied_and_holds_up_nobody() {
    for lane in Lane::ALL {
        for tenant in [None, Some("acme")] {
            // At first use, when no window has a record, and with one.
            let mut rig = Rig::new(scope(&["14 recipients / 1s"], 0), scope(&["14 recipients / 1s"], 0));
            rig.input(reserve(1, lane, tenant, 20));
            rig.input(reserve(2, Lane::Background, tenant, 1));
            rig.input(reserve(3, lane, tenant, 20));
            rig.input(reserve(4, Lane::Foreground, tenant, 1));
            assert_eq!((rig.granted, rig.denied), (vec![2, 4], vec![1, 3]), "{lane:?} {tenant:?}");
            assert!(rig.shared.waiting.is_empty());
        }
    }
}

#[test]
fn what_a_lowered_limit_can_never_hold_is_denied_and_the_rest_goes_on() {
    let mut rig = Rig::new(scope(&["14 recipients / 1s"], 0), ScopePolicy::default());
    rig.input(reserve(1, Lane::Foreground, None, 10));
    rig.input(reserve(2, Lane::Foreground, None, 10));
    rig.input(reserve(3, Lane::Foreground, None, 2));
    assert_eq!(rig.granted, [1]);
    rig.input(Input::Reconfigure(Arc::new(shared(&["9 recipients / 1s"], &[]))));
    assert_eq!(rig.denied, [2]);
    rig.run_until(at(5));
    assert_eq!(rig.granted, [1, 3]);
}

#[test]
fn a_wait_that_is_known_is_told_before_anybody_asks() {
    let mut rig = Rig::new(scope(&["1 requests / 1h"], 0), ScopePolicy::default());
    let nothing = |rig: &mut Rig, lane, cost: &Cost| rig.shared.standing(rig.now).of(lane, None, cost).is_empty();
    assert!(nothing(&mut rig, Lane::Foreground, &Cost::ONE_REQUEST));
    rig.ask(0, 1, Lane::Foreground, None);
    assert!(nothing(&mut rig, Lane::Foreground, &Cost::ONE_REQUEST), "who knows when that will have ended");
    rig.settle(0, 1, throttled(ScopeKind::Application, 600));
    for lane in Lane::ALL {
        let known = rig.shared.standing(rig.now).of(lane, None, &Cost::email(1, 1));
        let of = |wall: fn(Wall) -> bool| known.iter().find(|known| wall(known.wall)).map(|known| known.ready_at);
        assert!(of(|wall| wall == Wall::Cooldown).is_some_and(|until| until >= at(600)), "{known:?}");
        assert!(of(|wall| matches!(wall, Wall::Window { .. })).is_some_and(|until| until >= at(3_600)), "{known:?}");
        assert!(known.iter().all(|known| known.certainty == Certainty::Exact));
        let bytes = Cost { requests: 0, ..Cost::email(1, 1) };
        let walls: Vec<_> =
            rig.shared.standing(rig.now).of(lane, None, &bytes).iter().map(|known| known.wall).collect();
        assert_eq!(walls, [Wall::Cooldown], "a window of requests is no matter to what takes none");
    }
}

#[test]
fn a_full_window_of_a_tenant_is_known_although_nobody_waits_for_it_and_while_it_is_full() {
    let mut rig = Rig::new(ScopePolicy::default(), scope(&["2 requests / 1h"], 0));
    let known = |rig: &mut Rig, tenant: &str| {
        let standing = rig.shared.standing(rig.now);
        standing.of(Lane::Foreground, Some(&Arc::from(tenant)), &Cost::ONE_REQUEST)
    };
    rig.ask(0, 1, Lane::Foreground, Some("acme"));
    rig.settle(0, 1, Verdict::Accepted);
    assert_eq!(known(&mut rig, "acme"), [], "there is room");
    rig.ask(0, 2, Lane::Foreground, Some("acme"));
    rig.settle(0, 2, Verdict::Accepted);
    let full = known(&mut rig, "acme");
    assert!(matches!(full[..], [one] if one.ready_at >= at(3_600) && one.scope == ScopeKind::Tenant), "{full:?}");
    assert_eq!(known(&mut rig, "other"), []);
    assert_eq!(known(&mut rig, "acme"), full, "it is looked at again while it is full");
    // A restart knows it as well.
    let attempt = |key| PastAttempt {
        key: OperationKey(key),
        lane: Lane::Foreground,
        cost: Cost::ONE_REQUEST,
        claimed_at: T0,
        finished_at: Some(T0),
        kind: OperationKind::Send,
        leaves: Leaves::All,
    };
    let mut next = Rig::new(ScopePolicy::default(), scope(&["2 requests / 1h"], 0));
    next.shared.restore(next.now, [1, 2].map(|key| (Some(Arc::from("acme")), attempt(key))));
    assert!(!known(&mut next, "acme").is_empty());
    rig.now = at(3_700);
    rig.input(Input::Wake);
    assert_eq!(known(&mut rig, "acme"), []);
    assert!(rig.shared.used.is_empty(), "and not any longer");
    rig.ask(0, 3, Lane::Foreground, Some("acme"));
    rig.settle(0, 3, Verdict::Accepted);
    assert_eq!(known(&mut rig, "acme"), [], "half full");
    rig.input(Input::Reconfigure(Arc::new(shared(&[], &["1 requests / 1h"]))));
    assert!(!known(&mut rig, "acme").is_empty(), "full by a lowered limit");
}

#[test]
fn a_tenants_wait_is_known_to_its_own() {
    let mut rig = Rig::new(ScopePolicy::default(), scope(&["1 requests / 1h"], 0));
    rig.ask(0, 1, Lane::Background, Some("acme"));
    rig.settle(0, 1, Verdict::Accepted);
    rig.ask(0, 2, Lane::Background, Some("acme"));
    let mut known = |tenant: &str| {
        let standing = rig.shared.standing(rig.now);
        standing.of(Lane::Background, Some(&Arc::from(tenant)), &Cost::ONE_REQUEST)
    };
    assert!(known("acme").iter().any(|known| known.ready_at >= at(3_600)));
    assert_eq!(known("other"), []);
}
