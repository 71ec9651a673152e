//! An operation that crashes its worker again and again is set aside, and its mailbox goes on.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use mailweir::engine::OperationState;
use mailweir::engine::operation::QuarantineCause;
use mailweir::engine::policy::DuplicatePolicy;
use mailweir::scheduler::{AskError, Events, Order, OrderAnswer};
use mailweir::telemetry::EventKind;
use mailweir::transport::{Answer, Attempt, Transport, Verdict};
use mailweir::{Config, Outcome};
use tokio::time::sleep;

use crate::support::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Panics on the operation `bad`, which the provider never has; accepts the others.
#[derive(Clone, Debug)]
struct Brittle(Scripted);

fn brittle() -> Brittle {
    Brittle(Scripted::new(|attempt| {
        let bad = &*attempt.operation_id == "bad";
        async move {
            assert!(!bad, "a test wants this panic");
            Verdict::Accepted.into()
        }
    }))
}

impl Transport for Brittle {
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Answer> {
        self.0.send(attempt)
    }

    fn reconcile(&self, _: Attempt) -> BoxFuture<'_, Option<bool>> {
        async { Some(false) }.boxed()
    }
}

fn config(duplicates: DuplicatePolicy) -> Config {
    let mut config = unlimited();
    config.retry.duplicates = duplicates;
    config
}

fn causes(events: &mut Events) -> Vec<QuarantineCause> {
    let mut causes = Vec::new();
    while let Some(Some(Ok(event))) = events.next().now_or_never() {
        if let EventKind::OperationQuarantined { reason, .. } = event.kind {
            causes.push(reason);
        }
    }
    causes
}

#[test]
fn a_transport_that_panics_on_one_operation_gets_it_three_times_at_most() {
    paused(|| async {
        let transport = brittle();
        let scheduler = start(config(DuplicatePolicy::AtLeastOnce), transport.clone()).await;
        let handle = scheduler.handle();
        let mut events = handle.events();
        let bad = handle.submit(foreground("bad")).await.expect("taken in");
        assert_eq!(bad.outcome().await, Ok(Outcome::Unknown), "the first time is an unknown like any other");
        sleep(MINUTE * 120).await;
        assert_eq!(transport.0.ids(), ["bad"; 3]);
        let row = handle.operation("bad").await.expect("a store").expect("stored");
        assert_eq!((row.state, row.rows), (OperationState::Quarantined, 3));
        assert_eq!(causes(&mut events), [QuarantineCause::Poison]);
        let good = handle.submit(foreground("good")).await.expect("taken in");
        assert!(matches!(good.outcome().await, Ok(Outcome::Accepted { .. })));
    });
}

#[test]
fn crashes_count_on_over_releases() {
    paused(|| async {
        let mut config = config(DuplicatePolicy::AtMostOnce);
        config.retry.crashes_max = 2.try_into().expect("not zero");
        let transport = brittle();
        let scheduler = start(config, transport.clone()).await;
        let handle = scheduler.handle();
        let mut events = handle.events();
        drop(handle.submit(foreground("bad")).await.expect("taken in"));
        sleep(MINUTE * 60).await;
        assert_eq!(causes(&mut events), [QuarantineCause::Unknown], "nobody could tell in time");
        for _ in 0..2 {
            let released = handle.release("bad", Order::new("once more")).await;
            assert!(matches!(released, Ok(OrderAnswer::Done { .. })), "{released:?}");
            sleep(Duration::from_secs(1)).await;
            assert_eq!(causes(&mut events), [QuarantineCause::Poison], "at once");
        }
        assert_eq!(transport.0.count(), 3);
    });
}

#[test]
fn an_operation_on_which_the_engine_breaks_is_set_aside_before_its_mailbox_is_held() {
    paused(|| async {
        // It breaks when it comes in, and when it is to be sent if it is; then when somebody wants it set aside.
        for (config, sends) in [(unlimited(), 5), (limited("1 requests / 1h"), 1)] {
            let transport = Scripted::slow(Duration::from_millis(200));
            let scheduler = start(config, transport.clone()).await;
            let handle = scheduler.handle();
            let mut events = handle.events();
            let good = handle.submit_many((0..5).map(|n| foreground(&format!("good-{n}")))).await;
            handle.sabotage_operation(MAILBOX, "bad").await.expect("told");
            let bad = handle.submit(foreground("bad")).await.expect("taken in");
            for _ in 0..2 {
                sleep(Duration::from_secs(1)).await;
                let aside = handle.quarantine("bad", Order::new("it breaks")).await;
                if matches!(aside, Ok(OrderAnswer::TooLate { state: OperationState::Quarantined })) {
                    break;
                }
                assert!(matches!(aside, Err(AskError::NotNow { .. })), "{aside:?}");
            }
            assert!(matches!(bad.outcome().await, Ok(Outcome::Quarantined | Outcome::Unknown)));
            let row = handle.operation("bad").await.expect("a store").expect("stored");
            assert_eq!(row.state, OperationState::Quarantined);
            assert_eq!(transport.count(), sends, "{:?}", transport.ids());
            let (mut restarts, mut quarantined) = (0, Vec::new());
            while let Some(Some(Ok(event))) = events.next().now_or_never() {
                match event.kind {
                    EventKind::ActorRestarted { .. } => restarts += 1,
                    EventKind::ActorHeld { .. } => panic!("the mailbox is held"),
                    EventKind::OperationQuarantined { operation_id, reason, .. } => {
                        quarantined.push((operation_id, reason));
                    }
                    _ => {}
                }
            }
            assert_eq!((restarts, quarantined), (3, vec![(Some("bad".into()), QuarantineCause::Poison)]));
            drop(good);
        }
    });
}
