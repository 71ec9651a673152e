//! Turns: who waits for its tenant keeps nobody of another tenant waiting.

use std::sync::Arc;

use super::{Rig, T0, asker, at, scope, throttled};
use crate::engine::cost::Cost;
use crate::engine::event::Event;
use crate::engine::lane::Lane;
use crate::engine::policy::{LanesPolicy, ScopePolicy, SharedPolicy};
use crate::engine::scope::{Scope, ScopeKind};
use crate::engine::shared::{Input, Shared};
use crate::engine::time::Timestamp;
use crate::engine::verdict::{Sent, Verdict};

#[test]
fn a_tenant_that_waits_lets_the_others_of_its_mailbox_go_in_both_lanes() {
    for (mailboxes, lane) in
        [(1, Lane::Foreground), (1, Lane::Background), (50, Lane::Foreground), (50, Lane::Background)]
    {
        let mut rig = Rig::new(scope(&["100_000 requests / 1m"], 0), ScopePolicy::default());
        rig.input(Input::Hold { scope: Scope::Tenant("acme".into()), until: at(86_400) });
        for mailbox in 0..mailboxes {
            rig.ask(mailbox, u64::from(mailbox) * 1_000, lane, Some("acme"));
        }
        assert!(rig.granted.is_empty(), "acme waits for a day");
        for number in 1..=10 {
            rig.now = at(number);
            for mailbox in 0..mailboxes {
                let key = u64::from(mailbox) * 1_000 + number;
                rig.ask(mailbox, key, lane, Some("zenith"));
                assert_eq!(rig.granted.last(), Some(&key), "{mailboxes} mailboxes, {lane:?}: number {number} waits");
            }
        }
    }
}

#[test]
fn within_one_tenant_of_a_mailbox_the_configured_number_may_pass_and_a_reload_changes_it() {
    let lanes = LanesPolicy { bypass_max: 2, ..LanesPolicy::default() };
    let policy = SharedPolicy { tenant: scope(&["1000 recipients / 24h"], 0), lanes, ..SharedPolicy::default() };
    let mut rig = Rig::new(ScopePolicy::default(), ScopePolicy::default());
    rig.shared = Shared::new(Arc::new(policy.clone()));
    let ask = |rig: &mut Rig, key, recipients| {
        let (lane, tenant) = (Lane::Foreground, Some(Arc::from("acme")));
        rig.input(Input::Reserve { asker: asker(0, key), lane, tenant, cost: Cost::email(recipients, 1_000) });
    };
    ask(&mut rig, 1, 900);
    ask(&mut rig, 2, 500);
    for key in 3..8 {
        ask(&mut rig, key, 1);
    }
    assert_eq!(rig.granted, [1, 3, 4], "two pass the heavy one");
    let lanes = LanesPolicy { bypass_max: 4, ..LanesPolicy::default() };
    rig.input(Input::Reconfigure(Arc::new(SharedPolicy { lanes, ..policy })));
    assert_eq!(rig.granted, [1, 3, 4, 5, 6], "now four may");
}

#[test]
fn the_names_of_turns_go_with_those_that_waited_under_them() {
    let mut rig = Rig::new(scope(&["100_000 requests / 1m"], 0), ScopePolicy::default());
    for number in 0..10_000 {
        let tenant = Some(Arc::from(format!("tenant-{number}")));
        let asker = asker(0, number);
        rig.now = Timestamp::from_micros(T0.as_micros() + number);
        rig.input(Input::Reserve { asker, lane: Lane::Foreground, tenant, cost: Cost::ONE_REQUEST });
        rig.input(Input::Return { asker });
    }
    assert!(rig.shared.labels.len() <= 1_025, "{} names", rig.shared.labels.len());
}

#[test]
fn an_attempt_granted_before_a_cooldown_opens_no_second_episode_however_late_it_left() {
    let mut rig = Rig::new(scope(&["600 requests / 1m"], 0), ScopePolicy::default());
    rig.ask(0, 1, Lane::Foreground, None);
    rig.ask(1, 1_001, Lane::Foreground, None);
    rig.now = at(2);
    rig.settle(0, 1, throttled(ScopeKind::Application, 20));
    let before = rig.shared.breakers(rig.now)[0].1;
    // Its row took so long to write: it left after the cooldown had begun, and its answer says nothing new.
    rig.now = at(5);
    rig.settle(1, 1_001, throttled(ScopeKind::Application, 10));
    let after = rig.shared.breakers(rig.now)[0].1;
    assert_eq!((before.chain, after.chain), (1, 1));
    assert_eq!(after.until, before.until, "the cooldown is no longer");
}

#[test]
fn limits_that_are_new_count_what_is_in_flight_under_a_reservation() {
    let mut rig = Rig::new(scope(&["600 requests / 1m"], 0), ScopePolicy::default());
    rig.ask(0, 1, Lane::Foreground, Some("acme"));
    let (application, tenant) = (scope(&["600 requests / 1m", "2 recipients / 1h"], 0), scope(&["1 requests / 1m"], 0));
    let policy = SharedPolicy { application, tenant, ..SharedPolicy::default() };
    rig.input(Input::Reconfigure(Arc::new(policy)));
    rig.ask(0, 2, Lane::Foreground, Some("acme"));
    rig.ask(0, 3, Lane::Foreground, Some("zenith"));
    rig.ask(0, 4, Lane::Foreground, Some("other"));
    assert_eq!(rig.granted, [1, 3], "acme's request and one of the recipients are taken");
    rig.input(Input::Return { asker: asker(0, 1) });
    assert_eq!(rig.granted, [1, 3, 2], "what it had comes back, and no more");
}

#[test]
fn connections_that_failed_over_hours_among_successes_that_nobody_reports_open_nothing() {
    for (gap, opens) in [(600, false), (5, true)] {
        let mut rig = Rig::new(ScopePolicy::default(), ScopePolicy::default());
        for number in 0..12 {
            rig.now = at(number * gap);
            let sent_at = rig.now;
            let answer = Verdict::Transient { sent: Sent::No, retry_after: None }.into();
            rig.input(Input::Settle { asker: asker(0, number), tenant: None, sent_at, answer });
        }
        let opened = rig.events.iter().any(|event| matches!(event, Event::BreakerOpened { .. }));
        assert_eq!(opened, opens, "every {gap} s");
    }
}
