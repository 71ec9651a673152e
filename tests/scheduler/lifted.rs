//! What an order to lift something says stays where a person can ask for it, for a day.

use std::time::Duration;

use futures::FutureExt;
use mailweir::engine::{Scope, Timestamp};
use mailweir::scheduler::{
    AskError, Events, HoldScope, LIFTED_FOR, Lifted, LiftedFacts, LiftedHow, Order, SchedulerHandle, Words,
};
use mailweir::store::MemoryStore;
use tokio::time::sleep;

use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);

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

/// Holds and trips, then lifts; what must be listed of it.
async fn lift_several(handle: &SchedulerHandle) -> Vec<LiftedFacts> {
    let (hold, scope) = (HoldScope::Tenant("acme".into()), Scope::Mailbox(MAILBOX.into()));
    handle.hold(hold.clone(), Order::new("zebra one").by("kim")).await.expect("held");
    handle.trip(scope.clone(), Order::new("zebra two")).await.expect("tripped");
    handle.resume(hold.clone(), Order::new("zebra three")).await.expect("resumed");
    sleep(SECOND).await;
    handle.close(scope.clone(), Order::new("zebra four").by("lee")).await.expect("closed");
    sleep(SECOND).await;
    handle.close(Scope::Application, Order::new("zebra five")).await.expect("closed");
    let listed = handle.lifted();
    let words = |reason: &str, by: Option<&str>| Words { reason: reason.into(), by: by.map(Into::into) };
    let told: Vec<_> = listed.iter().map(|it| (it.what.clone(), it.ordered.clone(), &*it.reason)).collect();
    let expected = [
        (Lifted::Hold(hold), Some(words("zebra one", Some("kim"))), "zebra three"),
        (Lifted::Breaker(scope), Some(words("zebra two", None)), "zebra four"),
        (Lifted::Breaker(Scope::Application), None, "zebra five"),
    ];
    assert_eq!(told, expected);
    let by: Vec<_> = listed.iter().map(|it| it.by.as_deref()).collect();
    assert_eq!(by, [None, Some("lee"), None]);
    assert!(listed.iter().all(|it| it.how == LiftedHow::Order));
    let at: Vec<Duration> = listed.iter().map(|it| it.at.since(START)).collect();
    assert!(at[1] >= at[0] + SECOND && at[2] >= at[1] + SECOND, "{at:?}");
    listed
}

#[test]
fn words_of_what_was_lifted_outlive_a_restart_and_end_after_a_day() {
    paused(|| async {
        let store = MemoryStore::default();
        let begin = async || {
            let built = builder(unlimited(), Scripted::accepting()).store(store.clone());
            built.start_on_current_thread().await.expect("starts")
        };
        let first = begin().await;
        let mut events = first.handle().events();
        let listed = lift_several(&first.handle()).await;
        say_nothing(&mut events);
        let _report = first.shutdown().await;
        // Its clock begins anew with it.
        let next = begin().await;
        let handle = next.handle();
        assert_eq!(handle.lifted(), listed);
        sleep(listed[0].at.after(LIFTED_FOR).since(START)).await;
        assert_eq!(handle.lifted(), listed[1..]);
        sleep(SECOND * 3).await;
        assert!(handle.lifted().is_empty());
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
        assert_eq!(handle.lifted(), listed);
        let ends = listed.last().map_or(Timestamp::EPOCH, |last| last.at).after(LIFTED_FOR);
        lives.sleep_until(ends).await;
        let handle = lives.begin(unlimited(), &Scripted::accepting()).await;
        assert!(handle.lifted().is_empty());
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
        assert!(handle.lifted().is_empty());
    });
}
