//! Holds that are lifted in part: the first go, somebody watches, then the rest; a throttle stops it.

mod stops;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use mailweir::clock::{Clock, TokioClock};
use mailweir::engine::widening::Course;
use mailweir::engine::{OperationState, Scope, Timestamp, Wall};
use mailweir::scheduler::{
    AskError, Events, FIRST_MAX, HoldFacts, HoldScope, Order, OrderEnd, OrderScope, Scheduler, SchedulerHandle,
};
use mailweir::store::MemoryStore;
use mailweir::telemetry::{EventKind, HeldScope, HoldEvent};
use mailweir::{Config, Submission};
use tokio::time::sleep;

use crate::lives::Lives;
use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const OTHER: &str = "alerts@contoso.example";

/// No limits, and nothing is laid out.
fn prompt() -> Config {
    let mut config = unlimited();
    config.resume.spread = Duration::ZERO;
    config
}

fn order() -> Order {
    Order::new("a look").by("kim").expires_in(HOUR)
}

fn part() -> Order {
    Order::new("the first of them").by("lee")
}

fn scopes() -> [HoldScope; 4] {
    let (tenant, campaign) = (HoldScope::Tenant("acme".into()), HoldScope::Campaign("spring".into()));
    [HoldScope::All, HoldScope::Mailbox(MAILBOX.into()), tenant, campaign]
}

/// An outbox that has several lives, in memory or on disk.
enum Outbox {
    Memory(MemoryStore, Arc<TokioClock>, Option<Scheduler>),
    Disk(Lives),
}

impl Outbox {
    fn both() -> [Self; 2] {
        let clock = Arc::new(TokioClock::starting_at(START));
        [Self::Memory(MemoryStore::new(), clock, None), Self::Disk(Lives::new())]
    }

    async fn begin(&mut self, config: Config, transport: &Scripted) -> SchedulerHandle {
        match self {
            Self::Disk(lives) => lives.begin(config, transport).await,
            Self::Memory(store, clock, life) => {
                *life = None;
                let clock: Arc<dyn Clock> = clock.clone();
                let next = builder(config, transport.clone()).clock(clock).store(store.clone());
                let next = life.insert(next.start_on_current_thread().await.expect("it starts"));
                next.handle()
            }
        }
    }
}

/// Operations `1` to `count`, of two mailboxes by turns unless one is named, of one tenant and one campaign.
async fn submit(handle: &SchedulerHandle, scope: &HoldScope, count: u32) {
    for number in 1..=count {
        let alone = matches!(scope, HoldScope::Mailbox(_)) || number % 2 == 1;
        let mailbox = if alone { MAILBOX } else { OTHER };
        let submission = Submission::new(mailbox, email()).operation_id(number.to_string());
        drop(handle.submit(submission.tenant("acme").campaign("spring")).await.expect("taken in"));
    }
}

fn ids(transport: &Scripted) -> Vec<u32> {
    let mut ids: Vec<_> = transport.ids().iter().map(|id| id.parse().expect("a number")).collect();
    ids.sort_unstable();
    ids
}

fn held(handle: &SchedulerHandle) -> HoldFacts {
    let [held] = <[HoldFacts; 1]>::try_from(handle.holds()).expect("one hold");
    held
}

fn course(handle: &SchedulerHandle) -> Course {
    held(handle).widening.expect("it is lifted in part").progress.course().clone()
}

fn heard(events: &mut Events) -> Vec<HoldEvent> {
    let mut heard = Vec::new();
    while let Some(Some(Ok(event))) = events.next().now_or_never() {
        match event.kind {
            EventKind::Hold(HoldEvent::Ended { .. }) => {}
            EventKind::Hold(event) => heard.push(event),
            _ => {}
        }
    }
    heard
}

fn shown(scope: &HoldScope) -> HeldScope {
    let text = scope.to_string();
    match text.split_once(':') {
        None => HeldScope { kind: "all", id: None },
        Some((_, id)) => {
            let kind = match scope {
                HoldScope::Mailbox(_) => "mailbox",
                HoldScope::Tenant(_) => "tenant",
                _ => "campaign",
            };
            HeldScope { kind, id: Some(id.into()) }
        }
    }
}

#[test]
fn the_first_go_the_rest_is_held_and_watched_and_then_goes_on() {
    paused(|| async {
        for scope in scopes() {
            for mut outbox in Outbox::both() {
                let transport = Scripted::slow(SECOND).begin();
                let handle = outbox.begin(prompt(), &transport).await;
                let mut events = handle.events();
                handle.hold(scope.clone(), order()).await.expect("held");
                submit(&handle, &scope, 7).await;
                let facts = handle.resume_first(scope.clone(), 3, part()).await.expect("resumed in part");
                assert_eq!(handle.holds(), std::slice::from_ref(&facts), "{scope}");
                let widening = facts.widening.expect("in part");
                assert_eq!(
                    (&*facts.reason, &*widening.reason, widening.by.as_deref()),
                    ("a look", "the first of them", Some("lee"))
                );
                assert_eq!((widening.progress.first(), widening.progress.left()), (3, 3));
                sleep(SECOND / 2).await;
                let explained = handle.explain("4").await.expect("an answer");
                assert!(explained.iter().any(|it| it.binding && it.wall == Wall::Widening), "{scope}: {explained:?}");
                drop(handle.submit(submission("8").tenant("acme").campaign("spring")).await.expect("taken in"));
                sleep(SECOND * 59).await;
                assert_eq!(ids(&transport), [1, 2, 3], "{scope}: what was submitted meanwhile is among the rest");
                assert!(matches!(course(&handle), Course::Watching { .. }), "{scope}");
                let watched_until = SECOND * 61;
                sleep(SECOND).await;
                sleep(MINUTE).await;
                assert_eq!(ids(&transport), (1..=8).collect::<Vec<_>>(), "{scope}");
                let first_of_the_rest = transport.instants()[3];
                assert!(
                    first_of_the_rest >= watched_until && first_of_the_rest < watched_until + SECOND,
                    "{scope}: {first_of_the_rest:?}"
                );
                assert!(handle.holds().is_empty(), "{scope}");
                let ended = handle.ended_orders().pop().expect("listed");
                let order = ended.order.expect("a person's");
                let part = order.part.as_ref().map(|part| part.first);
                assert_eq!((&*order.reason, part), ("a look", Some(3)), "{scope}");
                let end = OrderEnd::InPart { reason: "the first of them".into(), by: Some("lee".into()) };
                assert_eq!((ended.what, ended.end), (OrderScope::Hold(scope.clone()), end));
                let scope = shown(&scope);
                let started = HoldEvent::PartStarted { scope: scope.clone(), count: 3, watch: MINUTE };
                assert_eq!(heard(&mut events), [started, HoldEvent::PartFinished { scope, count: 3 }]);
            }
        }
    });
}

#[test]
fn the_rest_of_everything_goes_on_as_a_wave_where_nothing_else_paces_it() {
    paused(|| async {
        let transport = Scripted::accepting().begin();
        let scheduler = start(unlimited(), transport.clone()).await;
        let handle = scheduler.handle();
        handle.hold(HoldScope::All, order()).await.expect("held");
        for number in 0..32 {
            let submission = Submission::new(format!("m{number}@contoso.example"), email());
            drop(handle.submit(submission.operation_id(number.to_string())).await.expect("taken in"));
        }
        handle.resume_first(HoldScope::All, 2, part()).await.expect("resumed in part");
        let mut events = handle.events();
        sleep(MINUTE * 3).await;
        assert_eq!(transport.count(), 32);
        let instants = transport.instants();
        let (first, last) = (instants[2], instants[31]);
        assert!(
            last - first >= SECOND * 28 && last - first <= SECOND * 30,
            "over resume.spread: {first:?} to {last:?}"
        );
        let mut waves = Vec::new();
        while let Some(Some(Ok(event))) = events.next().now_or_never() {
            match event.kind {
                EventKind::ResumePlanned { scope: Scope::Application, count, .. } => waves.push(count),
                EventKind::ResumeFinished { scope: Scope::Application, count, .. } => waves.push(count),
                _ => {}
            }
        }
        assert_eq!(waves[waves.len() - 2..], [30, 30]);
    });
}

#[test]
fn a_part_is_resumed_whole_or_held_whole_at_any_time() {
    paused(|| async {
        for scope in scopes() {
            let transport = Scripted::accepting();
            let scheduler = start(prompt(), transport.clone()).await;
            let handle = scheduler.handle();
            handle.hold(scope.clone(), order()).await.expect("held");
            submit(&handle, &scope, 6).await;
            handle.resume_first(scope.clone(), 2, part().watch(HOUR)).await.expect("resumed in part");
            sleep(SECOND).await;
            handle.hold(scope.clone(), order()).await.expect("held again");
            assert_eq!(held(&handle).widening, None, "{scope}");
            let explained = handle.explain("3").await.expect("an answer");
            assert!(explained.iter().any(|it| it.binding && it.wall == Wall::Hold), "{scope}: {explained:?}");
            sleep(MINUTE).await;
            assert_eq!(ids(&transport), [1, 2], "{scope}");
            let facts = handle.resume_first(scope.clone(), 3, part().watch(HOUR)).await.expect("another part");
            assert_eq!(facts.widening.expect("in part").progress.first(), 3, "{scope}");
            sleep(SECOND).await;
            assert_eq!(ids(&transport), [1, 2, 3, 4, 5], "{scope}: of those that wait now");
            handle.resume(scope.clone(), Order::new("done")).await.expect("resumed");
            sleep(MINUTE).await;
            assert_eq!(ids(&transport), [1, 2, 3, 4, 5, 6], "{scope}");
            assert!(handle.holds().is_empty(), "{scope}");
        }
    });
}

#[test]
fn mailboxes_that_begin_panic_or_have_nothing_meanwhile_keep_to_it() {
    paused(|| async {
        let mut config = prompt();
        config.actors.passivate_after = SECOND * 5;
        let transport = Scripted::accepting();
        let scheduler = start(config, transport.clone()).await;
        let handle = scheduler.handle();
        handle.hold(HoldScope::All, order()).await.expect("held");
        submit(&handle, &HoldScope::All, 2).await;
        handle.resume_first(HoldScope::All, 1, part().watch(MINUTE * 2)).await.expect("resumed in part");
        sleep(MINUTE).await;
        let late = Submission::new("late@contoso.example", email()).operation_id("3");
        drop(handle.submit(late).await.expect("taken in"));
        handle.sabotage(OTHER).await.expect("told");
        drop(handle.mailbox(OTHER).await);
        sleep(SECOND * 55).await;
        assert_eq!(ids(&transport), [1]);
        sleep(SECOND * 40).await;
        assert_eq!(ids(&transport), [1, 2, 3]);
    });
}

#[test]
fn a_part_of_more_than_waits_or_of_nothing_is_watched_all_the_same() {
    paused(|| async {
        let transport = Scripted::accepting();
        let scheduler = start(prompt(), transport.clone()).await;
        let handle = scheduler.handle();
        let scope = HoldScope::Campaign("spring".into());
        handle.hold(scope.clone(), order()).await.expect("held");
        let facts = handle.resume_first(scope.clone(), 5, part()).await.expect("resumed in part");
        let progress = facts.widening.expect("in part").progress;
        assert_eq!((progress.first(), progress.left()), (0, 0));
        submit(&handle, &scope, 2).await;
        sleep(SECOND * 59).await;
        assert_eq!(transport.count(), 0, "they came later");
        sleep(SECOND * 2).await;
        assert_eq!(ids(&transport), [1, 2]);
    });
}

#[test]
fn what_cannot_be_resumed_in_part_is_refused_with_its_reason() {
    paused(|| async {
        let scheduler = start(prompt(), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let error = handle.resume_first(HoldScope::All, 1, part()).await.expect_err("nothing is held");
        assert!(matches!(error, AskError::NoHold { .. }) && !error.is_retryable(), "{error}");
        let before = handle.hold(HoldScope::All, order()).await.expect("held");
        for (first, order, word) in [
            (0, part(), "first"),
            (FIRST_MAX + 1, part(), "first"),
            (1, part().watch(SECOND - Duration::from_millis(1)), "watch"),
            (1, part().deadline(HOUR), "deadline"),
            (1, Order::new(""), "reason"),
        ] {
            let error = handle.resume_first(HoldScope::All, first, order).await.expect_err("a bad order");
            assert!(matches!(error, AskError::Invalid(_)) && error.to_string().contains(word), "{error}");
        }
        let scope = HoldScope::Mailbox(OTHER.into());
        let error = handle.resume_first(scope, 1, part()).await.expect_err("another one is held");
        assert!(error.to_string().contains(OTHER), "{error}");
        let scope = HoldScope::Operation("1".into());
        assert!(matches!(handle.resume_first(scope, 1, part()).await, Err(AskError::Invalid(_))));
        let error = handle.hold(HoldScope::All, part().watch(MINUTE)).await.expect_err("a hold has no watch");
        assert!(error.to_string().contains("watch"), "{error}");
        assert_eq!(handle.holds(), [before], "it is as it was");
        assert!(handle.resume_first(HoldScope::All, FIRST_MAX, part().watch(SECOND)).await.is_ok(), "at the limits");
    });
}

#[test]
fn an_operation_for_tomorrow_is_not_among_the_first_and_does_not_keep_them_waiting() {
    paused(|| async {
        let transport = Scripted::accepting();
        let scheduler = start(prompt(), transport.clone()).await;
        let handle = scheduler.handle();
        let scope = HoldScope::Mailbox(MAILBOX.into());
        handle.hold(scope.clone(), order()).await.expect("held");
        let tomorrow = std::time::SystemTime::UNIX_EPOCH + START.since(Timestamp::EPOCH) + HOUR * 20;
        drop(handle.submit(submission("9").not_before(tomorrow)).await.expect("taken in"));
        submit(&handle, &scope, 3).await;
        handle.resume_first(scope.clone(), 2, part()).await.expect("resumed in part");
        sleep(SECOND).await;
        assert_eq!(ids(&transport), [1, 2]);
        sleep(SECOND * 61).await;
        assert_eq!(ids(&transport), [1, 2, 3]);
        let record = handle.operation("9").await.expect("a store").expect("stored");
        assert_eq!(record.state, OperationState::Admitted);
    });
}
