//! What a restart must not forget: cooldowns, ceilings, holds, trips, admission keys, what permits took.

use std::fs;
use std::time::Duration;

use futures::future::FutureExt;
use mailweir::clock::{Clock, TokioClock};
use mailweir::config::Config;
use mailweir::engine::breaker::{BreakerMemory, BreakerState, PhaseMemory};
use mailweir::engine::{Scope, ScopeKind, Throttle, ThrottleKind, Timestamp};
use mailweir::scheduler::{AskError, HoldScope, Order, SchedulerHandle, TryAcquire};
use mailweir::store::{MemoryStore, NoteBody, Store};
use mailweir::transport::{Answer, Verdict};
use mailweir::{Cost, Lane, Outcome};

use crate::faulty::{Faulty, out_of_reach};
use crate::lives::Lives;
use crate::support::*;

const ONE: Cost = Cost::ONE_REQUEST;

fn throttling(scope: Option<ScopeKind>, after: Option<Duration>) -> Scripted {
    let throttle = Throttle { retry_after: after, scope, kind: ThrottleKind::Rate };
    Scripted::new(move |_| async move { Answer::from(Verdict::Throttled(throttle)) }).begin()
}

async fn until_of(handle: &SchedulerHandle, scope: &Scope) -> Timestamp {
    let breakers = handle.breakers().await.expect("an answer");
    let (_, facts) = breakers.into_iter().find(|(of, _)| of == scope).expect("it is open");
    assert_eq!(facts.state, BreakerState::Open);
    facts.until.expect("its end")
}

async fn submit(handle: &SchedulerHandle, ids: &[&str]) {
    for id in ids {
        drop(handle.submit(foreground(id)).await.expect("taken in"));
    }
}

#[test]
fn a_cooldown_outlives_a_kill_nothing_leaves_before_its_end_and_then_one_probe_goes() {
    paused(|| async {
        for (scope, of) in [(Scope::Mailbox(MAILBOX.into()), None), (Scope::Application, Some(ScopeKind::Application))]
        {
            let mut lives = Lives::new();
            let first = throttling(of, Some(Duration::from_secs(60)));
            let handle = lives.begin(unlimited(), &first).await;
            submit(&handle, &["one"]).await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            let until = until_of(&handle, &scope).await;
            assert_eq!(first.count(), 1);

            let second = Scripted::slow(Duration::from_secs(1)).begin();
            let began = lives.now();
            let handle = lives.begin(unlimited(), &second).await;
            assert_eq!(until_of(&handle, &scope).await, until, "{scope}: to the microsecond");
            submit(&handle, &["two", "three"]).await;
            lives.sleep_until(until.before(Duration::from_millis(2))).await;
            assert_eq!(second.count(), 0, "{scope}");
            tokio::time::sleep(Duration::from_secs(120)).await;
            let instants = second.instants();
            assert_eq!(instants.len(), 3, "{scope}");
            assert!(instants[0] >= until.since(began) && instants[0] < until.since(began) + Duration::from_secs(1));
            assert!(instants[1] >= instants[0] + Duration::from_secs(1), "one probe at a time: {instants:?}");
        }
    });
}

#[test]
fn a_cooldown_outlives_the_death_of_its_actor() {
    paused(|| async {
        let mut lives = Lives::new();
        let transport = throttling(None, Some(Duration::from_secs(60)));
        let handle = lives.begin(unlimited(), &transport).await;
        submit(&handle, &["one"]).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let (scope, mailbox) = (Scope::Mailbox(MAILBOX.into()), MAILBOX);
        let until = until_of(&handle, &scope).await;
        handle.sabotage(mailbox).await.expect("ordered");
        drop(handle.mailbox(mailbox).await);
        submit(&handle, &["two"]).await;
        assert_eq!(until_of(&handle, &scope).await, until, "after a panic of the engine");
        handle.sabotage_actor(mailbox).await.expect("ordered");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(until_of(&handle, &scope).await, until, "after the end of the actor");
        handle.sabotage_shared().expect("ordered");
        lives.sleep_until(until.before(Duration::from_millis(2))).await;
        assert_eq!(transport.count(), 1);
    });
}

#[test]
fn a_learned_ceiling_is_in_force_after_a_kill_and_goes_on_from_its_start() {
    paused(|| async {
        let mut lives = Lives::new();
        // Every tenth is refused: the second chain follows soon after the first.
        let count = std::sync::atomic::AtomicUsize::new(0);
        let transport = Scripted::new(move |_| {
            let refused = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 10 == 9;
            async move { if refused { throttled(Some(Duration::from_secs(1))).into() } else { Verdict::Accepted.into() } }
        });
        let config = || limited("30 requests / 1m");
        let handle = lives.begin(config(), &transport).await;
        let ids: Vec<String> = (0..60).map(|number| format!("op-{number}")).collect();
        submit(&handle, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let effective = async |handle: &SchedulerHandle| {
            handle.mailbox(MAILBOX).await.expect("facts").windows.first().map(|window| window.effective)
        };
        let mut waited = 0;
        while effective(&handle).await.is_none_or(|amount| amount == 30) {
            waited += 1;
            assert!(waited < 600, "no ceiling was learned");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let before = effective(&handle).await;
        let handle = lives.begin(config(), &Scripted::slow(Duration::from_secs(600))).await;
        assert_eq!(effective(&handle).await, before);
        assert!(before < Some(30));
    });
}

#[test]
fn a_hold_with_its_reason_outlives_a_kill_and_ends_at_its_end() {
    paused(|| async {
        let scopes = [
            HoldScope::All,
            HoldScope::Mailbox(MAILBOX.into()),
            HoldScope::Tenant("acme".into()),
            HoldScope::Campaign("spring".into()),
            HoldScope::Operation("held".into()),
        ];
        for scope in scopes {
            let mut lives = Lives::new();
            let handle = lives.begin(unlimited(), &Scripted::slow(Duration::from_secs(9_000))).await;
            if matches!(scope, HoldScope::Operation(_)) {
                // Only what is there can be held by its id.
                handle.hold(HoldScope::All, Order::new("first")).await.expect("held");
                let held = foreground("held").tenant("acme").campaign("spring");
                drop(handle.submit(held).await.expect("taken in"));
            }
            let order = Order::new("a: look, \"twice\"").by("kim").expires_in(Duration::from_secs(90));
            let facts = handle.hold(scope.clone(), order).await.expect("held");
            handle.resume(HoldScope::All, Order::new("done")).await.map(drop).expect("resumed");
            let lasts = scope != HoldScope::All;
            let facts = if lasts {
                facts
            } else {
                handle.hold(scope.clone(), Order::new("again").expires_in(Duration::from_secs(90))).await.expect("held")
            };

            let transport = Scripted::accepting().begin();
            let began = lives.now();
            let handle = lives.begin(unlimited(), &transport).await;
            assert_eq!(handle.holds(), std::slice::from_ref(&facts), "{scope:?}");
            let held = foreground("held").tenant("acme").campaign("spring");
            let ticket = handle.submit(held).await.expect("taken in");
            lives.sleep_until(facts.until.before(Duration::from_millis(2))).await;
            assert_eq!(transport.count(), 0, "{scope:?}");
            assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })), "{scope:?}");
            assert!(transport.instants()[0] >= facts.until.since(began), "{scope:?}");
            assert!(lives.now() < facts.until.after(Duration::from_secs(2)), "{scope:?}");
            assert!(handle.holds().is_empty());
        }
    });
}

#[test]
fn a_breaker_opened_by_hand_stays_open_through_a_kill_and_one_closed_by_hand_closed() {
    paused(|| async {
        for scope in [Scope::Mailbox(MAILBOX.into()), Scope::Tenant("acme".into()), Scope::Application] {
            let mut lives = Lives::new();
            let handle = lives.begin(unlimited(), &Scripted::accepting()).await;
            let order = Order::new("a look").by("kim").expires_in(Duration::from_secs(600));
            let facts = handle.trip(scope.clone(), order).await.expect("tripped");

            let transport = Scripted::accepting().begin();
            let handle = lives.begin(unlimited(), &transport).await;
            assert_eq!(handle.trips(), std::slice::from_ref(&facts), "{scope}");
            assert_eq!(until_of(&handle, &scope).await, facts.until, "{scope}");
            drop(handle.submit(foreground("one").tenant("acme")).await.expect("taken in"));
            lives.sleep_until(facts.until.before(Duration::from_secs(300))).await;
            assert_eq!(transport.count(), 0, "{scope}");
            handle.close(scope.clone(), Order::new("done")).await.expect("closed");

            let transport = Scripted::accepting().begin();
            let handle = lives.begin(unlimited(), &transport).await;
            assert!(handle.trips().is_empty(), "{scope}");
            tokio::time::sleep(Duration::from_secs(5)).await;
            let breakers = handle.breakers().await.expect("an answer");
            assert!(breakers.iter().all(|(_, facts)| facts.state != BreakerState::Open), "{scope}: {breakers:?}");
        }
    });
}

#[test]
fn an_admission_key_answers_with_the_first_operation_after_a_kill_and_is_nowhere_in_the_file() {
    paused(|| async {
        const KEY: &str = "password-reset-of-ann@fabrikam.example";
        let mut lives = Lives::new();
        let transport = Scripted::accepting();
        let handle = lives.begin(unlimited(), &transport).await;
        let press = || submission_of(KEY);
        let first = handle.submit(press()).await.expect("taken in");
        let id = first.operation_id().to_string();
        assert!(matches!(first.outcome().await, Ok(Outcome::Accepted { .. })));
        handle.hold(HoldScope::All, Order::new("a look").expires_in(Duration::from_secs(60))).await.expect("held");
        let live = handle.submit(submission_of("live")).await.expect("taken in").operation_id().to_string();

        let handle = lives.begin(unlimited(), &transport).await;
        for _ in 0..3 {
            let again = handle.submit(press()).await.expect("taken in");
            assert_eq!(*again.operation_id(), *id, "it came to an end before");
            assert!(matches!(again.outcome().await, Ok(Outcome::Accepted { .. })));
            assert_eq!(handle.submit(submission_of("live")).await.expect("taken in").operation_id().to_string(), live);
        }
        tokio::time::sleep(Duration::from_secs(70)).await;
        assert_eq!(transport.count(), 2, "one send per key");
        assert_eq!(handle.submit(submission_of("live")).await.expect("taken in").operation_id().to_string(), live);
        let mut bytes = 0;
        for entry in fs::read_dir(lives.folder.path()).expect("a folder") {
            let content = fs::read(entry.expect("an entry").path()).expect("a file");
            bytes += content.len();
            assert!(!content.windows(KEY.len()).any(|window| window == KEY.as_bytes()));
        }
        assert!(bytes > 10_000, "there was something to look through");
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_ne!(
            handle.submit(press()).await.expect("taken in").operation_id().to_string(),
            id,
            "its cooldown is over"
        );
    });
}

fn submission_of(key: &str) -> mailweir::Submission {
    mailweir::Submission::new(MAILBOX, email()).lane(Lane::Foreground).admission_key(key, Duration::from_secs(600))
}

async fn deferred_until(handle: &SchedulerHandle) -> Timestamp {
    match handle.try_acquire(MAILBOX, ONE, Lane::Foreground).await.expect("an answer") {
        TryAcquire::Deferred { until, .. } => until,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_permit_took_counts_after_a_kill_until_exactly_when_it_would_have() {
    paused(|| async {
        let mut lives = Lives::new();
        let config = || {
            let mut config = limited("1 requests / 1h");
            config.application.limits = vec!["10 requests / 2h".parse().expect("a limit")];
            config
        };
        let handle = lives.begin(config(), &Scripted::accepting()).await;
        let permit = handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("room");
        tokio::time::sleep(Duration::from_secs(7)).await;
        permit.settle(Verdict::Accepted);
        let until = deferred_until(&handle).await;

        let handle = lives.begin(config(), &Scripted::accepting()).await;
        assert_eq!(deferred_until(&handle).await, until);
        let next = handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("in the end");
        assert!(lives.now() >= until && lives.now() < until.after(Duration::from_secs(1)), "{}", lives.now());
        // The next number is not that of the first: neither charge hides the other.
        next.settle(Verdict::Accepted);
        let handle = lives.begin(config(), &Scripted::accepting()).await;
        assert!(deferred_until(&handle).await > until.after(Duration::from_secs(3_599)));
    });
}

#[test]
fn a_permit_that_was_out_at_a_kill_counts_like_an_attempt_without_an_end_and_one_given_back_not_at_all() {
    paused(|| async {
        let mut lives = Lives::new();
        let config = || limited("1 requests / 1h");
        let handle = lives.begin(config(), &Scripted::accepting()).await;
        let permit = handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("room");
        permit.settle(Verdict::Transient { sent: mailweir::engine::Sent::No, retry_after: None });
        drop(handle.mailbox(MAILBOX).await);

        let handle = lives.begin(config(), &Scripted::accepting()).await;
        let claimed_at = lives.now();
        let out = handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("nothing was sent on the first");
        let handle = lives.begin(config(), &Scripted::accepting()).await;
        let until = deferred_until(&handle).await;
        let lingers = claimed_at.after(Config::default().guard.request_deadline_max);
        assert!(until >= lingers.after(Duration::from_secs(3_600)), "{until}");
        assert!(until < lingers.after(Duration::from_secs(3_660)), "{until}");
        drop(out);
    });
}

#[test]
fn a_permit_is_handed_over_only_when_its_charge_is_kept() {
    paused(|| async {
        let store = Faulty::late(Duration::from_secs(2));
        let built = builder(limited("1 requests / 1h"), Scripted::accepting()).store(store.clone());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        let (handle, clock) = (scheduler.handle(), TokioClock::starting_at(START));
        let permit = handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("room");
        assert_eq!(clock.now().since(START), Duration::from_secs(2));
        permit.settle(Verdict::Transient { sent: mailweir::engine::Sent::No, retry_after: None });
        store.faults().keep = Some(out_of_reach());
        let answer = handle.try_acquire(MAILBOX, ONE, Lane::Foreground).await.expect("an answer");
        assert!(matches!(answer, TryAcquire::Deferred { .. }), "{answer:?}");
        store.faults().keep = None;
        let permit = handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("nothing stayed charged");
        permit.settle(Verdict::Accepted);
    });
}

#[test]
fn an_order_that_the_store_does_not_take_is_refused_and_leaves_everything_as_it_was() {
    paused(|| async {
        let (store, transport) = (Faulty::default(), Scripted::accepting());
        let built = builder(unlimited(), transport.clone()).store(store.clone());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        let kept = handle.hold(HoldScope::All, Order::new("kept")).await.expect("held");
        store.faults().keep = Some(out_of_reach());
        let refused = |answer: Option<AskError>| assert!(matches!(answer, Some(AskError::Store(_))), "{answer:?}");
        refused(handle.hold(HoldScope::All, Order::new("not kept")).await.err());
        refused(handle.resume(HoldScope::All, Order::new("done")).await.err());
        refused(handle.trip(Scope::Application, Order::new("not kept")).await.err());
        refused(handle.close(Scope::Application, Order::new("done")).await.err());
        assert_eq!(handle.holds(), [kept]);
        assert!(handle.trips().is_empty() && handle.ended_orders().is_empty());
        store.faults().keep = None;
        handle.resume(HoldScope::All, Order::new("done")).await.expect("resumed");
        assert!(handle.submit(foreground("one")).now_or_never().is_none());
        assert!(handle.holds().is_empty());
    });
}

#[test]
fn an_order_that_failed_leaves_what_was_held_and_open_for_the_next_life() {
    paused(|| async {
        let store = MemoryStore::default();
        let scopes = [HoldScope::All, HoldScope::Tenant("acme".into()), HoldScope::Mailbox(MAILBOX.into())];
        let open = [Scope::Application, Scope::Tenant("acme".into()), Scope::Mailbox(MAILBOX.into())];
        let built = builder(unlimited(), Scripted::accepting()).store(store.clone());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        for scope in scopes.clone() {
            handle.hold(scope, Order::new("a look")).await.expect("held");
        }
        for scope in open.clone() {
            handle.trip(scope, Order::new("a look")).await.expect("tripped");
        }
        scheduler.shutdown().await;
        for scope in scopes {
            let refused = handle.resume(scope.clone(), Order::new("done")).await;
            assert!(matches!(refused, Err(AskError::ShuttingDown)), "{scope:?}: {refused:?}");
        }
        for scope in open {
            let refused = handle.close(scope.clone(), Order::new("done")).await;
            assert!(matches!(refused, Err(AskError::ShuttingDown)), "{scope}: {refused:?}");
        }
        assert_eq!((handle.holds().len(), handle.trips().len()), (3, 3));

        let built = builder(unlimited(), Scripted::accepting()).store(store.clone());
        let next = built.start_on_current_thread().await.expect("starts");
        let (holds, trips) = (next.handle().holds(), next.handle().trips());
        assert!(handle.ended_orders().is_empty() && next.handle().ended_orders().is_empty(), "nothing was lifted");
        assert!(handle.holds().iter().all(|hold| holds.contains(hold)), "{holds:?}");
        assert!(handle.trips().iter().all(|trip| trips.contains(trip)), "{trips:?}");
    });
}

#[test]
fn a_cooldown_that_could_not_be_closed_outlives_a_kill_and_one_that_was_closed_does_not() {
    paused(|| async {
        let (store, mailbox) = (Faulty::default(), Scope::Mailbox(MAILBOX.into()));
        let transport = throttling(None, Some(Duration::from_secs(600)));
        let built = builder(unlimited(), transport.clone()).store(store.clone());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        submit(&handle, &["one"]).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let until = until_of(&handle, &mailbox).await;
        store.faults().recover = Some(out_of_reach());
        handle.sabotage(MAILBOX).await.expect("ordered");
        tokio::time::sleep(Duration::from_millis(10)).await;
        let refused = handle.close(mailbox.clone(), Order::new("done")).await;
        assert!(matches!(refused, Err(AskError::NotNow { .. })), "{refused:?}");
        store.faults().recover = None;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(until_of(&handle, &mailbox).await, until);
        handle.close(mailbox.clone(), Order::new("done")).await.expect("closed");
        let recovery = store.recover(START, None).await.expect("a store");
        let open = |memory: &BreakerMemory| memory.cooldown.is_some_and(|one| one.phase == PhaseMemory::Shut);
        let bodies = recovery.notes.iter().map(|note| &note.body);
        assert!(!bodies.into_iter().any(|body| matches!(body, NoteBody::Breaker(memory) if open(memory))));
    });
}
