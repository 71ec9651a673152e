//! Who held what, when and why, and how it ended stays where a person can ask for it.

use std::time::Duration;

use futures::FutureExt;
use mailweir::engine::{Scope, Timestamp};
use mailweir::scheduler::{
    AskError, EndedFacts, Events, HoldScope, Order, OrderEnd, OrderScope, Scheduler, SchedulerHandle,
};
use mailweir::store::MemoryStore;
use mailweir::telemetry::{EventKind, HoldEvent};
use tokio::time::sleep;

use crate::faulty::{Faulty, out_of_reach};
use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// `orders.ended_for`.
const ENDED_FOR: Duration = Duration::from_secs(7 * 86_400);

/// No word of a person is in an event.
fn say_nothing(events: &mut Events) {
    let mut heard = 0;
    while let Some(Some(event)) = events.next().now_or_never() {
        let said = format!("{:?}", event.expect("none is missed"));
        assert!(["zebra", "kim", "lee"].iter().all(|word| !said.contains(word)), "{said}");
        heard += 1;
    }
    assert!(heard > 0);
}

/// Why and who, as it is printed here.
fn words(reason: &str, by: Option<&str>) -> String {
    format!("{reason} by {}", by.unwrap_or("nobody"))
}

/// What it was, the order, and the end with its words.
fn told(facts: &EndedFacts) -> (OrderScope, Option<String>, String) {
    let end = match &facts.end {
        OrderEnd::Lifted { reason, by } => format!("lifted: {}", words(reason, by.as_deref())),
        OrderEnd::InPart { reason, by } => format!("part: {}", words(reason, by.as_deref())),
        OrderEnd::Replaced { reason, by } => format!("replaced: {}", words(reason, by.as_deref())),
        OrderEnd::Expired => "expired".to_owned(),
        other => format!("{other:?}"),
    };
    let order = facts.order.as_ref().map(|order| words(&order.reason, order.by.as_deref()));
    (facts.what.clone(), order, end)
}

fn said(what: OrderScope, order: Option<&str>, end: &str) -> (OrderScope, Option<String>, String) {
    (what, order.map(str::to_owned), end.to_owned())
}

/// Holds and trips, then lifts; what must be listed of it.
async fn lift_several(handle: &SchedulerHandle) -> Vec<EndedFacts> {
    let (hold, scope) = (HoldScope::Tenant("acme".into()), Scope::Mailbox(MAILBOX.into()));
    handle.hold(hold.clone(), Order::new("zebra one").by("kim")).await.expect("held");
    handle.trip(scope.clone(), Order::new("zebra two")).await.expect("tripped");
    handle.resume(hold.clone(), Order::new("zebra three")).await.expect("resumed");
    sleep(SECOND).await;
    handle.close(scope.clone(), Order::new("zebra four").by("lee")).await.expect("closed");
    sleep(SECOND).await;
    handle.close(Scope::Application, Order::new("zebra five")).await.expect("closed");
    let listed = handle.ended_orders();
    let expected = [
        said(OrderScope::Hold(hold), Some("zebra one by kim"), "lifted: zebra three by nobody"),
        said(OrderScope::Breaker(scope), Some("zebra two by nobody"), "lifted: zebra four by lee"),
        said(OrderScope::Breaker(Scope::Application), None, "lifted: zebra five by nobody"),
    ];
    assert_eq!(listed.iter().map(told).collect::<Vec<_>>(), expected);
    let at: Vec<Duration> = listed.iter().map(|it| it.ended_at.since(START)).collect();
    assert!(at[1] >= at[0] + SECOND && at[2] >= at[1] + SECOND, "{at:?}");
    listed
}

async fn begin(config: mailweir::Config, store: &MemoryStore) -> Scheduler {
    let built = builder(config, Scripted::accepting()).store(store.clone());
    built.start_on_current_thread().await.expect("starts")
}

/// What events say of ends: the scope, and how.
fn ends(events: &mut Events) -> Vec<(String, &'static str)> {
    let mut ends = Vec::new();
    while let Some(Some(Ok(event))) = events.next().now_or_never() {
        if let EventKind::Hold(HoldEvent::Ended { scope, how, since, until }) = event.kind {
            assert!(since < until, "{scope}");
            ends.push((scope.to_string(), how));
        }
    }
    ends
}

#[test]
fn words_of_what_was_lifted_outlive_a_restart_and_end_in_time() {
    paused(|| async {
        let store = MemoryStore::default();
        let first = begin(unlimited(), &store).await;
        let mut events = first.handle().events();
        let listed = lift_several(&first.handle()).await;
        say_nothing(&mut events);
        let _report = first.shutdown().await;
        // Its clock begins anew with it.
        let next = begin(unlimited(), &store).await;
        let handle = next.handle();
        sleep(SECOND * 3).await;
        assert_eq!(handle.ended_orders(), listed);
        sleep(listed[0].ended_at.after(ENDED_FOR).since(START) - SECOND * 3).await;
        assert_eq!(handle.ended_orders(), listed[1..]);
        sleep(SECOND * 3).await;
        assert!(handle.ended_orders().is_empty());
    });
}

#[test]
fn a_hold_that_is_replaced_expires_or_ends_in_part_leaves_who_ordered_it_and_how_it_ended() {
    paused(|| async {
        let store = MemoryStore::default();
        let first = begin(unlimited(), &store).await;
        let (handle, mut events) = (first.handle(), first.handle().events());
        let all = || OrderScope::Hold(HoldScope::All);
        handle.hold(HoldScope::All, Order::new("zebra one").by("kim")).await.expect("held");
        sleep(SECOND).await;
        let longer = Order::new("zebra two").by("lee").expires_in(MINUTE);
        handle.hold(HoldScope::All, longer).await.expect("held for longer");
        assert_eq!(
            handle.ended_orders().iter().map(told).collect::<Vec<_>>(),
            [said(all(), Some("zebra one by kim"), "replaced: zebra two by lee")]
        );
        let campaign = HoldScope::Campaign("spring".into());
        handle.hold(campaign.clone(), Order::new("zebra three").expires_in(MINUTE * 30)).await.expect("held");
        let part = Order::new("zebra four").by("kim").watch(SECOND);
        handle.resume_first(campaign.clone(), 5, part).await.expect("lifted in part");
        sleep(MINUTE * 2).await;
        let listed = handle.ended_orders();
        let expected = [
            said(all(), Some("zebra one by kim"), "replaced: zebra two by lee"),
            said(OrderScope::Hold(campaign), Some("zebra three by nobody"), "part: zebra four by kim"),
            said(all(), Some("zebra two by lee"), "expired"),
        ];
        assert_eq!(listed.iter().map(told).collect::<Vec<_>>(), expected);
        let order = listed[2].order.as_ref().expect("somebody's");
        assert_eq!((listed[2].ended_at, order.until.since(order.since)), (order.until, MINUTE));
        assert_eq!(listed[1].order.as_ref().and_then(|order| order.part.as_ref()).map(|part| part.first), Some(0));
        let told = ends(&mut events);
        let expected = [("all", "replaced"), ("campaign:spring", "part"), ("all", "expired")];
        assert_eq!(told, expected.map(|(scope, how)| (scope.to_owned(), how)));
        let _report = first.shutdown().await;
        let next = begin(unlimited(), &store).await;
        sleep(MINUTE * 10).await;
        assert_eq!(next.handle().ended_orders(), listed);
    });
}

#[test]
fn what_expires_while_no_process_is_there_has_its_end_all_the_same() {
    paused(|| async {
        let store = MemoryStore::default();
        let first = begin(unlimited(), &store).await;
        let scope = HoldScope::Mailbox(MAILBOX.into());
        first.handle().hold(scope.clone(), Order::new("a look").by("kim").expires_in(MINUTE)).await.expect("held");
        first.handle().trip(Scope::Application, Order::new("a look").expires_in(MINUTE)).await.expect("tripped");
        let _report = first.shutdown().await;
        let next = begin(unlimited(), &store).await;
        assert!(next.handle().ended_orders().is_empty(), "they are in force");
        sleep(MINUTE * 2).await;
        let listed: Vec<_> = next.handle().ended_orders().iter().map(told).collect();
        let hold = said(OrderScope::Hold(scope), Some("a look by kim"), "expired");
        let trip = said(OrderScope::Breaker(Scope::Application), Some("a look by nobody"), "expired");
        assert!(listed.len() == 2 && listed.contains(&hold) && listed.contains(&trip), "{listed:?}");
    });
}

#[test]
fn the_oldest_give_way_above_the_bound_and_none_is_kept_where_that_is_ordered() {
    paused(|| async {
        for ended_max in [0, 2] {
            let store = MemoryStore::default();
            let mut config = unlimited();
            config.orders.ended_max = ended_max;
            let scheduler = begin(config, &store).await;
            let handle = scheduler.handle();
            for number in 0..5 {
                let order = Order::new(format!("number {number}")).expires_in(MINUTE);
                handle.hold(HoldScope::All, order).await.expect("held");
                sleep(SECOND).await;
            }
            sleep(MINUTE).await;
            let listed = handle.ended_orders();
            let reasons: Vec<_> = listed.iter().filter_map(|it| it.order.as_ref()).map(|it| &*it.reason).collect();
            assert_eq!(reasons, ["number 3", "number 4"][..ended_max]);
            handle.resume(HoldScope::All, Order::new("done")).await.expect("resumed");
            assert_eq!(handle.ended_orders().len(), ended_max);
        }
    });
}

#[test]
fn an_order_that_the_store_did_not_take_ends_none() {
    paused(|| async {
        let store = Faulty::default();
        let built = builder(unlimited(), Scripted::accepting()).store(store.clone());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        handle.hold(HoldScope::All, Order::new("a look").expires_in(MINUTE)).await.expect("held");
        store.faults().keep = Some(out_of_reach());
        assert!(handle.hold(HoldScope::All, Order::new("longer")).await.is_err());
        assert!(handle.resume(HoldScope::All, Order::new("done")).await.is_err());
        store.faults().keep = None;
        assert!(handle.ended_orders().is_empty());
        sleep(MINUTE * 10).await;
        let listed: Vec<_> = handle.ended_orders().iter().map(told).collect();
        assert_eq!(listed, [said(OrderScope::Hold(HoldScope::All), Some("a look by nobody"), "expired")]);
    });
}

#[cfg(feature = "sqlite")]
#[test]
fn words_of_what_was_lifted_outlive_a_kill() {
    paused(|| async {
        let mut lives = crate::lives::Lives::new();
        let handle = lives.begin(unlimited(), &Scripted::accepting()).await;
        let listed = lift_several(&handle).await;
        let handle = lives.begin(unlimited(), &Scripted::accepting()).await;
        assert_eq!(handle.ended_orders(), listed);
        let ends = listed.last().map_or(Timestamp::EPOCH, |last| last.ended_at).after(ENDED_FOR);
        lives.sleep_until(ends).await;
        let handle = lives.begin(unlimited(), &Scripted::accepting()).await;
        assert!(handle.ended_orders().is_empty());
    });
}

#[test]
fn an_order_to_lift_with_a_bad_word_or_a_useless_field_changes_nothing() {
    paused(|| async {
        let scheduler = start(unlimited(), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let held = handle.hold(HoldScope::All, Order::new("a look")).await.expect("held");
        let tripped = handle.trip(Scope::Application, Order::new("a look")).await.expect("tripped");
        let good = || Order::new("done");
        let bad = [
            ("reason", Order::new("")),
            ("reason", Order::new("two\nlines")),
            ("reason", Order::new("r".repeat(513))),
            ("by", good().by("")),
            ("expires_in", good().expires_in(SECOND)),
            ("deadline", good().deadline(SECOND)),
            ("watch", good().watch(SECOND)),
        ];
        for (field, order) in bad {
            let answers =
                [handle.resume(HoldScope::All, order.clone()).await, handle.close(Scope::Application, order).await];
            for answer in answers {
                let error = answer.expect_err("refused");
                assert!(matches!(error, AskError::Invalid(_)) && error.to_string().contains(field), "{field}: {error}");
            }
        }
        assert_eq!((handle.holds(), handle.trips()), (vec![held], vec![tripped]));
        assert!(handle.ended_orders().is_empty());
    });
}
