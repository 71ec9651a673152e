//! What comes between a first part and the rest: a throttle, a restart, the hold's own end, a person.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mailweir::Submission;
use mailweir::engine::widening::Course;
use mailweir::engine::{Scope, ScopeKind, Throttle, ThrottleKind, TripReason, Wall};
use mailweir::scheduler::{HoldScope, Order};
use mailweir::telemetry::HoldEvent;
use mailweir::transport::{Answer, Sent, Subject, Verdict};
use tokio::time::sleep;

use super::*;

#[test]
fn a_throttle_in_the_watch_stops_it_and_leaves_the_rest_held_until_the_hold_ends() {
    paused(|| async {
        for scope in scopes() {
            for mut outbox in Outbox::both() {
                let refuses = Arc::new(AtomicBool::new(false));
                let seen = Arc::clone(&refuses);
                let transport = Scripted::new(move |_| {
                    let verdict =
                        if seen.load(Ordering::Relaxed) { throttled(Some(SECOND)) } else { Verdict::Accepted };
                    async move { verdict.into() }
                });
                let handle = outbox.begin(prompt(), &transport).await;
                let mut events = handle.events();
                handle.hold(scope.clone(), order()).await.expect("held");
                submit(&handle, &scope, 6).await;
                // One that is held apart keeps the part from ending; its own resume is what is throttled.
                let apart = HoldScope::Operation("3".into());
                handle.hold(apart.clone(), order()).await.expect("held");
                handle.resume_first(scope.clone(), 3, part()).await.expect("resumed in part");
                sleep(MINUTE * 5).await;
                assert_eq!(ids(&transport), [1, 2], "{scope}");
                let find = || handle.holds().into_iter().find(|hold| hold.scope == scope).expect("it is held");
                let progress = || find().widening.expect("in part").progress;
                assert_eq!(
                    (progress().course(), progress().left()),
                    (&Course::Passing, 1),
                    "{scope}: no watch before the last"
                );
                refuses.store(true, Ordering::Relaxed);
                handle.resume(apart, Order::new("done")).await.expect("resumed");
                sleep(SECOND * 5).await;
                refuses.store(false, Ordering::Relaxed);
                let reason = TripReason::Sustained429;
                let course = Course::Stopped { scope: Scope::Mailbox(MAILBOX.into()), reason };
                assert_eq!(progress().course(), &course, "{scope}");
                let explained = handle.explain("4").await.expect("an answer");
                assert!(explained.iter().any(|it| it.wall == Wall::Hold), "{scope}: {explained:?}");
                sleep(MINUTE * 10).await;
                assert_eq!(ids(&transport), [1, 2, 3], "{scope}: not even the one that was throttled goes again");
                let stopped = HoldEvent::PartStopped {
                    scope: shown(&scope),
                    left: 1,
                    throttled: Scope::Mailbox(MAILBOX.into()),
                    reason,
                };
                assert_eq!(heard(&mut events)[1..], [stopped], "{scope}");
                let until = find().until;

                let handle = outbox.begin(prompt(), &transport).await;
                let mut events = handle.events();
                sleep(MINUTE).await;
                assert_eq!(
                    (held(&handle).until, self::course(&handle)),
                    (until, course),
                    "{scope}: a restart forgets nothing"
                );
                assert_eq!(transport.count(), 3, "{scope}");
                assert!(heard(&mut events).is_empty(), "{scope}: and tells nothing twice");
                sleep(HOUR).await;
                assert_eq!(ids(&transport).len(), 7, "{scope}: the hold's own end is what it was");
            }
        }
    });
}

#[test]
fn a_part_that_is_rejected_lost_or_spent_stops_it_and_the_rest_stays_held() {
    let rejected = Verdict::Permanent { of: Subject::Message };
    let transient = Verdict::Transient { sent: Sent::Maybe, retry_after: None };
    for bad in [rejected, Verdict::Unknown, transient] {
        for scope in scopes() {
            let bad = bad.clone();
            paused(|| async move {
                let named = format!("{bad:?} {scope}");
                let transport = Scripted::new(move |_| {
                    let verdict = bad.clone();
                    async move { verdict.into() }
                });
                let mut config = prompt();
                config.retry.attempts_max = std::num::NonZeroU32::MIN;
                let scheduler = start(config, transport.clone()).await;
                let handle = scheduler.handle();
                let mut events = handle.events();
                handle.hold(scope.clone(), order()).await.expect("held");
                submit(&handle, &scope, 8).await;
                handle.resume_first(scope.clone(), 3, part()).await.expect("resumed in part");
                sleep(MINUTE * 10).await;
                let sent = transport.count();
                assert!((1..=3).contains(&sent), "{named}: {sent} of the first three and none of the rest");
                assert!(matches!(course(&handle), Course::Stopped { .. }), "{named}");
                let stops = heard(&mut events).into_iter().filter_map(|event| match event {
                    HoldEvent::PartStopped { scope, throttled: Scope::Mailbox(_), reason, .. } => Some((scope, reason)),
                    _ => None,
                });
                assert_eq!(stops.collect::<Vec<_>>(), [(shown(&scope), TripReason::FailedOperations)], "{named}");
            });
        }
    }
}

#[test]
fn a_few_bad_ones_among_many_do_not_stop_it() {
    paused(|| async {
        let transport = Scripted::new(|attempt| {
            let bad = &*attempt.operation_id == "7";
            let rejected = Verdict::Permanent { of: Subject::Message };
            async move { if bad { rejected.into() } else { Verdict::Accepted.into() } }
        });
        let scheduler = start(prompt(), transport.clone()).await;
        let (handle, scope) = (scheduler.handle(), HoldScope::Campaign("spring".into()));
        handle.hold(scope.clone(), order()).await.expect("held");
        submit(&handle, &scope, 14).await;
        handle.resume_first(scope.clone(), 10, part()).await.expect("resumed in part");
        sleep(SECOND * 30).await;
        assert_eq!(held(&handle).widening.expect("in part").progress.failed(), 1);
        sleep(MINUTE).await;
        assert_eq!(transport.count(), 14, "one of ten is a tenth, and no more");
        assert!(handle.holds().is_empty());
    });
}

#[test]
fn a_restart_in_the_middle_goes_on_and_watches_anew() {
    paused(|| async {
        for scope in scopes() {
            for mut outbox in Outbox::both() {
                let first = Scripted::accepting();
                let handle = outbox.begin(prompt(), &first).await;
                handle.hold(scope.clone(), order()).await.expect("held");
                submit(&handle, &scope, 6).await;
                handle.hold(HoldScope::Operation("2".into()), order()).await.expect("held");
                handle.resume_first(scope.clone(), 3, part().watch(MINUTE * 2)).await.expect("resumed in part");
                sleep(MINUTE).await;
                assert_eq!(ids(&first), [1, 3], "{scope}");

                let second = Scripted::accepting();
                let handle = outbox.begin(prompt(), &second).await;
                sleep(MINUTE * 5).await;
                assert_eq!(second.count(), 0, "{scope}: one of the first is held apart");
                handle.resume(HoldScope::Operation("2".into()), Order::new("done")).await.expect("resumed");
                sleep(MINUTE).await;
                assert_eq!(ids(&second), [2], "{scope}");
                assert!(matches!(course(&handle), Course::Watching { .. }), "{scope}");

                let third = Scripted::accepting().begin();
                let handle = outbox.begin(prompt(), &third).await;
                sleep(MINUTE * 4).await;
                assert_eq!(ids(&third), [4, 5, 6], "{scope}");
                assert!(third.instants()[0] >= MINUTE * 2, "{scope}: nobody has watched while it was down");
                assert!(handle.holds().is_empty(), "{scope}");

                let handle = outbox.begin(prompt(), &third).await;
                assert!(handle.holds().is_empty(), "{scope}: the store has forgotten it too");
            }
        }
    });
}

#[test]
fn the_holds_own_end_in_the_middle_lets_everything_go() {
    paused(|| async {
        for scope in scopes() {
            let transport = Scripted::accepting().begin();
            let scheduler = start(prompt(), transport.clone()).await;
            let handle = scheduler.handle();
            handle.hold(scope.clone(), order()).await.expect("held");
            submit(&handle, &scope, 5).await;
            let order = part().watch(HOUR).expires_in(MINUTE * 3);
            let facts = handle.resume_first(scope.clone(), 2, order).await.expect("resumed in part");
            assert_eq!(facts.until.since(START), MINUTE * 3, "{scope}: an order may name another end");
            sleep(MINUTE * 3 - SECOND).await;
            assert_eq!(ids(&transport), [1, 2], "{scope}");
            sleep(SECOND * 2).await;
            assert_eq!(ids(&transport), [1, 2, 3, 4, 5], "{scope}");
            assert!(handle.holds().is_empty(), "{scope}");
        }
    });
}

#[test]
fn one_of_the_first_that_is_cancelled_or_set_aside_waits_no_longer() {
    paused(|| async {
        let transport = Scripted::accepting();
        let scheduler = start(prompt(), transport.clone()).await;
        let handle = scheduler.handle();
        let scope = HoldScope::Campaign("spring".into());
        handle.hold(scope.clone(), order()).await.expect("held");
        submit(&handle, &scope, 4).await;
        for id in ["1", "2"] {
            handle.hold(HoldScope::Operation(id.into()), order()).await.expect("held");
        }
        handle.resume_first(scope.clone(), 2, part()).await.expect("resumed in part");
        sleep(MINUTE * 5).await;
        assert_eq!(transport.count(), 0, "they wait, so there is no watch");
        handle.cancel("1", Order::new("not this one")).await.expect("cancelled");
        handle.quarantine("2", Order::new("nor this one")).await.expect("set aside");
        sleep(SECOND * 59).await;
        assert_eq!(transport.count(), 0);
        sleep(SECOND * 2).await;
        assert_eq!(ids(&transport), [3, 4]);
    });
}

#[test]
fn a_throttle_of_a_shared_scope_by_somebody_elses_send_stops_it() {
    paused(|| async {
        let throttle = Throttle { retry_after: None, scope: Some(ScopeKind::Application), kind: ThrottleKind::Rate };
        let transport = Scripted::new(move |attempt| {
            let bad = &*attempt.operation_id == "bad";
            async move { if bad { Answer::from(Verdict::Throttled(throttle)) } else { Verdict::Accepted.into() } }
        });
        let scheduler = start(prompt(), transport.clone()).await;
        let handle = scheduler.handle();
        let scope = HoldScope::Mailbox(MAILBOX.into());
        handle.hold(scope.clone(), order()).await.expect("held");
        submit(&handle, &scope, 3).await;
        handle.resume_first(scope.clone(), 1, part()).await.expect("resumed in part");
        sleep(SECOND).await;
        drop(handle.submit(Submission::new(OTHER, email()).operation_id("bad")).await.expect("taken in"));
        sleep(MINUTE * 10).await;
        let reason = TripReason::Sustained429;
        assert_eq!(course(&handle), Course::Stopped { scope: Scope::Application, reason });
        let again = handle.resume_first(scope.clone(), 1, part()).await.expect("a person decides to go on");
        assert_eq!(again.widening.expect("in part").progress.left(), 1);
        handle.cancel("bad", Order::new("enough")).await.expect("an answer");
        sleep(MINUTE * 15).await;
        let ids = transport.ids();
        assert!(ids.iter().any(|id| id == "3"), "the rest went: {ids:?}");
    });
}
