//! The shared scopes' engine, one input at a time.

mod election;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::{Asker, Effect, Input, MailboxKey, Shared};
use crate::engine::breaker::BreakerState;
use crate::engine::constraint::{Constraint, Wall};
use crate::engine::cost::Cost;
use crate::engine::event::{Event, TripReason};
use crate::engine::lane::Lane;
use crate::engine::leaves::Leaves;
use crate::engine::mailbox::{AskShared, PastAttempt};
use crate::engine::operation::{OperationKey, OperationKind};
use crate::engine::policy::{ScopePolicy, SharedPolicy};
use crate::engine::scope::{Scope, ScopeKind};
use crate::engine::time::Timestamp;
use crate::engine::verdict::{Throttle, ThrottleKind, Verdict};

mod doors;
mod floors;
mod turns;

const T0: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

fn at(seconds: u64) -> Timestamp {
    T0.after(Duration::from_secs(seconds))
}

fn scope(limits: &[&str], concurrency: u32) -> ScopePolicy {
    let limits = limits.iter().map(|text| text.parse().expect("a limit")).collect();
    ScopePolicy { limits, concurrency: NonZeroU32::new(concurrency) }
}

struct Rig {
    shared: Shared,
    now: Timestamp,
    granted: Vec<u64>,
    denied: Vec<u64>,
    settled: Vec<u64>,
    waits: Vec<(u64, Timestamp, Constraint)>,
    announced: Vec<AskShared>,
    events: Vec<Event>,
    troubled: Vec<(Scope, TripReason)>,
    elects: Vec<Scope>,
    yields: Vec<Scope>,
}

impl Rig {
    fn new(application: ScopePolicy, tenant: ScopePolicy) -> Self {
        let policy = SharedPolicy { application, tenant, ..SharedPolicy::default() };
        Self {
            shared: Shared::new(Arc::new(policy)),
            now: T0,
            granted: Vec::new(),
            denied: Vec::new(),
            settled: Vec::new(),
            waits: Vec::new(),
            announced: Vec::new(),
            events: Vec::new(),
            troubled: Vec::new(),
            elects: Vec::new(),
            yields: Vec::new(),
        }
    }

    fn input(&mut self, input: Input) {
        self.shared.handle(self.now, input);
        while let Some(effect) = self.shared.poll_effect() {
            match effect {
                Effect::Grant(asker) => self.granted.push(asker.key.0),
                Effect::Wait { asker, until, constraint } => self.waits.push((asker.key.0, until, constraint)),
                Effect::Announce(ask) => self.announced.push(ask),
                Effect::Event(event) => self.events.push(event),
                Effect::Troubled { scope, reason } => self.troubled.push((scope, reason)),
                Effect::Elect { scope } => self.elects.push(scope),
                Effect::Yield { scope } => self.yields.push(scope),
                Effect::Deny(asker) => self.denied.push(asker.key.0),
                Effect::Remember { .. } => {}
            }
        }
    }

    fn ask(&mut self, mailbox: u32, key: u64, lane: Lane, tenant: Option<&str>) {
        let tenant = tenant.map(Arc::from);
        self.input(Input::Reserve { asker: asker(mailbox, key), lane, tenant, cost: Cost::email(1, 1_000) });
    }

    fn settle(&mut self, mailbox: u32, key: u64, verdict: Verdict) {
        let (tenant, sent_at) = (None, self.now);
        self.settled.push(key);
        self.input(Input::Settle { asker: asker(mailbox, key), tenant, sent_at, answer: verdict.into() });
    }

    /// Follows the named deadlines up to and including `until`; answers what is granted with success at once.
    fn run_until(&mut self, until: Timestamp) {
        loop {
            while let Some(key) = self.granted.iter().find(|key| !self.settled.contains(key)).copied() {
                self.settle(mailbox_of(key), key, Verdict::Accepted);
            }
            match self.shared.poll_deadline() {
                Some(next) if next <= until => {
                    self.now = next;
                    self.input(Input::Wake);
                }
                _ => break,
            }
        }
        self.now = until;
    }
}

/// In these tests an operation's key tells its mailbox.
fn mailbox_of(key: u64) -> u32 {
    u32::try_from(key / 1_000).expect("a small number")
}

fn asker(mailbox: u32, key: u64) -> Asker {
    Asker { mailbox: MailboxKey(mailbox), key: OperationKey(key) }
}

fn throttled(scope: ScopeKind, seconds: u64) -> Verdict {
    let retry_after = Some(Duration::from_secs(seconds));
    Verdict::Throttled(Throttle { retry_after, scope: Some(scope), kind: ThrottleKind::Rate })
}

#[test]
fn who_has_to_wait_is_granted_by_itself_at_the_first_instant_there_is_room() {
    let mut rig = Rig::new(scope(&["2 requests / 1m"], 0), ScopePolicy::default());
    for key in 1..=3 {
        rig.ask(0, key, Lane::Foreground, None);
    }
    assert_eq!(rig.granted, [1, 2]);
    rig.settle(0, 1, Verdict::Accepted);
    rig.settle(0, 2, Verdict::Accepted);
    let named = rig.shared.poll_deadline().expect("a deadline");
    rig.now = named.before(Duration::from_micros(1));
    rig.input(Input::Wake);
    assert_eq!(rig.granted.len(), 2, "not a microsecond early");
    rig.now = named;
    rig.input(Input::Wake);
    assert_eq!(rig.granted, [1, 2, 3]);
    let (key, until, constraint) = rig.waits[0];
    assert!(key == 3 && until >= T0.after(Duration::from_secs(60)) && constraint.scope == ScopeKind::Application);
}

#[test]
fn a_full_tenant_takes_no_slot_of_the_application_and_holds_up_nobody_else() {
    let mut rig = Rig::new(scope(&["3 requests / 1m"], 0), scope(&["1 requests / 1m"], 0));
    rig.ask(0, 1, Lane::Foreground, Some("acme"));
    rig.ask(0, 2, Lane::Foreground, Some("acme"));
    rig.ask(1, 1_001, Lane::Foreground, Some("zenith"));
    rig.ask(2, 2_001, Lane::Foreground, None);
    assert_eq!(rig.granted, [1, 1_001, 2_001], "the second of acme waits and is charged nowhere");
    assert_eq!(rig.waits[0].2.scope, ScopeKind::Tenant);
}

#[test]
fn foreground_of_one_mailbox_goes_before_background_of_another() {
    let mut rig = Rig::new(scope(&["100 requests / 1m"], 1), ScopePolicy::default());
    rig.ask(0, 1, Lane::Foreground, None);
    rig.ask(0, 2, Lane::Background, None);
    rig.ask(1, 1_001, Lane::Foreground, None);
    rig.settle(0, 1, Verdict::Accepted);
    assert_eq!(rig.granted, [1, 1_001]);
}

#[test]
fn a_mailbox_with_many_waiting_does_not_keep_the_others_from_their_turn() {
    let mut rig = Rig::new(scope(&["1000 requests / 1m"], 1), ScopePolicy::default());
    for key in 1..=50 {
        rig.ask(0, key, Lane::Foreground, None);
    }
    rig.ask(1, 1_001, Lane::Foreground, None);
    rig.run_until(at(1));
    let turn = rig.granted.iter().position(|key| *key == 1_001).expect("granted");
    assert!(turn <= 3, "it came as number {turn}");
    assert_eq!(rig.granted.len(), 51);
}

#[test]
fn what_is_returned_is_free_again_and_what_waits_can_be_taken_back() {
    let mut rig = Rig::new(scope(&["1 requests / 1h"], 0), ScopePolicy::default());
    rig.ask(0, 1, Lane::Foreground, None);
    rig.ask(0, 2, Lane::Foreground, None);
    rig.ask(0, 3, Lane::Foreground, None);
    rig.input(Input::Return { asker: asker(0, 2) });
    rig.input(Input::Return { asker: asker(0, 1) });
    assert_eq!(rig.granted, [1, 3]);
}

#[test]
fn what_a_lost_mailbox_held_stays_charged_and_what_it_waited_for_is_dropped() {
    let mut rig = Rig::new(scope(&["2 requests / 1h"], 0), ScopePolicy::default());
    rig.ask(0, 1, Lane::Foreground, None);
    rig.ask(1, 1_001, Lane::Foreground, None);
    rig.ask(0, 2, Lane::Foreground, None);
    rig.ask(1, 1_002, Lane::Foreground, None);
    rig.input(Input::MailboxGone(MailboxKey(0)));
    rig.settled.push(1);
    rig.run_until(at(3_600 + 64));
    assert_eq!(rig.granted, [1, 1_001, 1_002], "the accepted one leaves the window after an hour");
    assert!(rig.shared.in_flight() <= 1);
    let explained = rig.shared.explain(rig.now, Lane::Foreground, None, &Cost::ONE_REQUEST);
    assert!(explained.iter().any(|constraint| matches!(constraint.wall, Wall::Window { .. })), "{explained:?}");
}

#[test]
fn one_throttle_of_the_application_is_one_wait_and_one_probe_for_everybody() {
    let mut rig = Rig::new(scope(&["600 requests / 1m"], 0), ScopePolicy::default());
    rig.ask(0, 1, Lane::Foreground, None);
    rig.settle(0, 1, throttled(ScopeKind::Application, 20));
    for mailbox in 1..=100 {
        rig.ask(mailbox, u64::from(mailbox) * 1_000, Lane::Foreground, None);
    }
    assert_eq!(rig.granted, [1], "nothing leaves in the cooldown");
    assert!(rig.waits.iter().all(|(_, until, constraint)| *until >= at(20) && constraint.wall == Wall::Cooldown));
    let mut instants: Vec<_> = rig.waits.iter().map(|(_, until, _)| *until).collect();
    instants.dedup();
    assert_eq!(instants.len(), 100, "everybody is told an instant of its own");

    rig.now = at(25);
    rig.input(Input::Wake);
    assert_eq!(rig.granted.len(), 2, "one probe");
    assert_eq!(rig.shared.breakers(rig.now)[0].1.state, BreakerState::HalfOpen);
    let planned = rig.events.iter().find(|event| matches!(event, Event::ResumePlanned { count: 100, .. }));
    assert!(planned.is_some(), "{:?}", rig.events);
    let probe = rig.granted[1];
    rig.settle(mailbox_of(probe), probe, Verdict::Accepted);
    assert_eq!(rig.granted.len(), 3, "the second probe");
    rig.run_until(at(3_600));
    assert_eq!(rig.granted.len(), 101);
    assert!(rig.events.iter().any(|event| matches!(event, Event::ResumeFinished { count: 100, .. })));
    assert!(rig.events.iter().any(|event| matches!(event, Event::BreakerClosed { .. })));
}

#[test]
fn a_throttle_that_names_the_mailbox_is_not_held_against_the_application() {
    let mut rig = Rig::new(scope(&["600 requests / 1m"], 0), ScopePolicy::default());
    rig.ask(0, 1, Lane::Foreground, None);
    rig.settle(0, 1, throttled(ScopeKind::Mailbox, 20));
    rig.ask(1, 1_001, Lane::Foreground, None);
    assert_eq!(rig.granted, [1, 1_001]);
    assert!(rig.shared.breakers(rig.now).is_empty());
}

#[test]
fn without_limits_nobody_asks_until_there_is_trouble() {
    let mut rig = Rig::new(ScopePolicy::default(), ScopePolicy::default());
    assert_eq!(rig.shared.ask(), AskShared::OnTrouble);
    // An attempt that needed no reservation meets a throttle of its tenant.
    let asker = asker(0, 1);
    let answer = throttled(ScopeKind::Tenant, 20).into();
    rig.input(Input::Settle { asker, tenant: Some("acme".into()), sent_at: T0, answer });
    assert_eq!(rig.announced, [AskShared::Always]);
    rig.ask(0, 2, Lane::Foreground, Some("acme"));
    rig.ask(1, 1_001, Lane::Foreground, Some("zenith"));
    assert_eq!(rig.granted, [1_001]);
    rig.run_until(at(3_600));
    assert_eq!(rig.granted, [1_001, 2]);
    rig.ask(0, 4, Lane::Foreground, Some("acme"));
    rig.run_until(at(7_200));
    rig.ask(0, 3, Lane::Foreground, None);
    assert_eq!(rig.announced, [AskShared::Always, AskShared::OnTrouble]);
}

#[test]
fn what_a_hold_kept_back_does_not_wake_at_once_where_nothing_paces_it() {
    let mut rig = Rig::new(ScopePolicy::default(), ScopePolicy::default());
    rig.input(Input::Hold { scope: Scope::Application, until: at(300) });
    for key in 0..30 {
        rig.ask(u32::try_from(key).expect("small"), key * 1_000, Lane::Foreground, None);
    }
    assert!(rig.granted.is_empty());
    rig.run_until(at(300));
    assert_eq!(rig.granted.len(), 1, "a hold ends by itself, and the first goes");
    rig.run_until(at(310));
    assert_eq!(rig.granted.len(), 11, "one a second");
    rig.run_until(at(330));
    assert_eq!(rig.granted.len(), 30);
}

#[test]
fn asking_twice_counts_once_and_strangers_change_nothing() {
    let mut rig = Rig::new(scope(&["2 requests / 1h"], 0), ScopePolicy::default());
    rig.ask(0, 1, Lane::Foreground, None);
    rig.ask(0, 1, Lane::Foreground, None);
    rig.input(Input::Return { asker: asker(7, 7_000) });
    rig.input(Input::MailboxGone(MailboxKey(9)));
    assert_eq!(rig.granted, [1]);
    assert_eq!(rig.shared.in_flight(), 1);
}

#[test]
fn a_tenants_cooldown_resumes_as_a_wave_of_its_own() {
    let mut rig = Rig::new(scope(&["130_000 requests / 10s"], 0), ScopePolicy::default());
    rig.ask(0, 1, Lane::Foreground, Some("acme"));
    let asker = asker(0, 1);
    let answer = throttled(ScopeKind::Tenant, 20).into();
    rig.settled.push(1);
    rig.input(Input::Settle { asker, tenant: Some("acme".into()), sent_at: T0, answer });
    for mailbox in 1..=30 {
        rig.ask(mailbox, u64::from(mailbox) * 1_000, Lane::Foreground, Some("acme"));
    }
    rig.run_until(at(19));
    assert_eq!(rig.granted, [1]);
    rig.run_until(at(30));
    assert_eq!(rig.troubled, [(Scope::Tenant("acme".into()), TripReason::Sustained429)], "every mailbox hears of it");
    let planned = rig.events.iter().find(|event| matches!(event, Event::ResumePlanned { count: 30, .. }));
    assert!(planned.is_some(), "{:?}", rig.events);
    assert!(rig.granted.len() <= 12, "one a second, not {} at once", rig.granted.len());
    rig.run_until(at(120));
    assert_eq!(rig.granted.len(), 31);
}

#[test]
fn tenants_that_are_done_leave_nothing_behind() {
    let mut rig = Rig::new(ScopePolicy::default(), scope(&["10 requests / 1s"], 0));
    for key in 0..500_u64 {
        rig.now = at(key * 10);
        rig.ask(0, key, Lane::Foreground, Some(&format!("tenant-{key}")));
        rig.settle(0, key, Verdict::Accepted);
    }
    assert_eq!(rig.granted.len(), 500);
    assert!(rig.shared.tenants.len() <= 4, "{} budgets", rig.shared.tenants.len());
}

#[test]
fn what_was_sent_on_a_stale_grant_does_not_wait_for_another() {
    let mut rig = Rig::new(scope(&["1 requests / 1h"], 0), ScopePolicy::default());
    rig.ask(0, 1, Lane::Foreground, None);
    rig.input(Input::MailboxGone(MailboxKey(0)));
    rig.ask(0, 1, Lane::Foreground, None);
    rig.settle(0, 1, Verdict::Accepted);
    rig.run_until(at(2 * 3_600));
    assert_eq!(rig.granted, [1]);
    assert_eq!(rig.shared.in_flight(), 0);
}

/// A slot that lingered over a restart was never looked at again, and its end, long over, was named as the next deadline.
#[test]
fn a_slot_of_a_tenant_that_lingers_over_a_restart_ends_at_its_instant() {
    let mut rig = Rig::new(ScopePolicy::default(), scope(&[], 1));
    let (key, lane, cost) = (OperationKey(9), Lane::Foreground, Cost::email(1, 1_000));
    let (kind, leaves) = (OperationKind::Send, Leaves::All);
    let lost = PastAttempt { key, lane, cost, claimed_at: T0, finished_at: None, leaves, kind };
    rig.shared.restore(T0, [(Some(Arc::from("acme")), lost)]);
    rig.ask(0, 1, Lane::Foreground, Some("acme"));
    assert_eq!((rig.granted.len(), rig.shared.poll_deadline()), (0, Some(at(65))));
    rig.now = at(65);
    rig.input(Input::Wake);
    assert_eq!(rig.granted, [1]);
    rig.now = at(70);
    rig.ask(0, 2, Lane::Foreground, Some("acme"));
    assert!(rig.shared.poll_deadline() > Some(at(70)), "{:?}", rig.shared.poll_deadline());
}
