//! What is refused at the door for what the shared scopes know, what binds after an order, and orders that are heard.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use mailweir::config::{Config, MailboxOverride, Mailboxes, Redaction};
use mailweir::engine::invariants::operation;
use mailweir::engine::mailbox::Refusal;
use mailweir::engine::{Cost, Limit, Scope, ScopeKind, Wall};
use mailweir::scheduler::{AskError, HoldScope, Order, PermitError};
use mailweir::submission::SubmitError;
use mailweir::{Email, Lane, Outcome, Submission};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);

fn application(limits: &[&str]) -> Config {
    let limits: Vec<Limit> = limits.iter().map(|limit| limit.parse().expect("a limit")).collect();
    unlimited().application_limits(limits)
}

fn to(id: &str, recipients: usize, lane: Lane) -> Submission {
    let to: Vec<String> = (0..recipients).map(|n| format!("r{n}@example.org")).collect();
    let mime = b"Subject: Hello\r\n\r\nHello.\r\n".to_vec();
    let email = Email::from_mime(MAILBOX, to, mime).expect("an email");
    Submission::new(MAILBOX, email).operation_id(id).lane(lane)
}

fn at(refusal: &Refusal) -> Option<(ScopeKind, u64)> {
    match refusal {
        Refusal::CostAboveCapacity { constraint, capacity, .. } => Some((constraint.scope, *capacity)),
        _ => None,
    }
}

#[test]
fn a_cost_above_what_the_application_can_ever_hold_is_refused() {
    paused(|| async {
        let transport = Scripted::accepting();
        let scheduler = start(application(&["14 recipients / 1s"]), transport.clone()).await;
        let handle = scheduler.handle();
        for lane in Lane::ALL {
            let error = handle.submit(to("many", 20, lane)).await.expect_err("20 of 14");
            let SubmitError::Refused { refusal, .. } = &error else { panic!("{error:?}") };
            assert_eq!(at(refusal), Some((ScopeKind::Application, 14)), "{lane:?}");
            let refused = handle.acquire(MAILBOX, Cost::email(20, 1), lane).await.expect_err("20 of 14");
            let PermitError::Refused(refusal) = &refused else { panic!("{refused:?}") };
            assert_eq!(at(refusal), Some((ScopeKind::Application, 14)));
        }
        let rows = handle.counts().await.expect("counts").iter().sum();
        let waiting = handle.mailbox(MAILBOX).await.expect("facts").waiting.iter().map(|count| u64::from(*count)).sum();
        operation::refusal_leaves_nothing((0, 0), (rows, waiting)).expect("O11");
        assert_eq!(transport.count(), 0);
    });
}

#[test]
fn what_a_lowered_limit_of_the_application_can_never_hold_ends_and_blocks_nobody() {
    paused(|| async {
        let scheduler = start(application(&["14 recipients / 1h"]), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let first = handle.submit(to("first", 10, Lane::Foreground)).await.expect("taken in");
        assert!(matches!(first.outcome().await, Ok(Outcome::Accepted { .. })));
        let second = handle.submit(to("second", 10, Lane::Foreground)).await.expect("taken in");
        let third = handle.submit(to("third", 4, Lane::Foreground)).await.expect("taken in");
        tokio::time::sleep(SECOND).await;
        handle.reconfigure(application(&["9 recipients / 1m"])).await.expect("in force");
        assert_eq!(second.outcome().await, Ok(Outcome::Exhausted { attempts: 0, throttled: None, maybe_sent: false }));
        assert!(matches!(third.outcome().await, Ok(Outcome::Accepted { .. })));
    });
}

#[test]
fn a_known_wait_at_the_application_counts_at_the_door() {
    paused(|| async {
        let scheduler = start(unlimited(), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let order = Order::new("a look").expires_in(600 * SECOND);
        handle.trip(Scope::Application, order).await.expect("tripped");
        handle.breakers().await.expect("it has heard");
        let error = handle.submit(foreground("one").max_wait(5 * SECOND)).await.expect_err("ten minutes");
        let SubmitError::Refused { refusal: Refusal::WaitTooLong { retry_after, constraint }, .. } = &error else {
            panic!("{error:?}")
        };
        assert!(*retry_after > 590 * SECOND && constraint.scope == ScopeKind::Application, "{error:?}");
        let error = handle.submit(foreground("two").deadline(60 * SECOND)).await.expect_err("too early");
        assert!(matches!(&error, SubmitError::Refused { refusal: Refusal::DeadlineTooEarly { .. }, .. }), "{error:?}");
        handle.close(Scope::Application, Order::new("done")).await.expect("closed");
        let ticket = handle.submit(foreground("three").max_wait(5 * SECOND)).await.expect("nothing to wait for");
        assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
    });
}

#[test]
fn a_full_window_of_a_tenant_counts_at_the_door_of_a_mailbox_where_nobody_waits() {
    paused(|| async {
        let mut config = unlimited();
        config.tenant.limits = vec!["1 requests / 1h".parse().expect("a limit")];
        let scheduler = start(config, Scripted::accepting()).await;
        let handle = scheduler.handle();
        let from = |mailbox: &str, id: &str| {
            Submission::new(mailbox, email())
                .operation_id(id)
                .tenant("acme")
                .lane(Lane::Foreground)
                .max_wait(60 * SECOND)
        };
        let first = handle.submit(from("a@contoso.example", "first")).await.expect("taken in");
        assert!(matches!(first.outcome().await, Ok(Outcome::Accepted { .. })));
        tokio::time::sleep(SECOND).await;
        let error = handle.submit(from("b@contoso.example", "second")).await.expect_err("an hour");
        let SubmitError::Refused { refusal: Refusal::WaitTooLong { retry_after, constraint }, .. } = &error else {
            panic!("{error:?}")
        };
        assert!(*retry_after > 3_500 * SECOND && constraint.scope == ScopeKind::Tenant, "{error:?}");
        assert!(handle.submit(from("b@contoso.example", "third").tenant("other")).await.is_ok());
    });
}

#[test]
fn what_the_shared_scopes_said_before_gives_way_to_what_they_say_now() {
    paused(|| async {
        let transport = Scripted::slow(10 * SECOND);
        let scheduler = start(application(&["1 requests / 1m"]), transport.clone()).await;
        let handle = scheduler.handle();
        let first = handle.submit(foreground("first")).await.expect("taken in");
        tokio::time::sleep(SECOND).await;
        let hold = Order::new("a look").expires_in(3_600 * SECOND);
        handle.hold(HoldScope::All, hold).await.expect("held");
        assert_eq!(handle.explain("first").await.expect("an answer"), [], "it is on its way");
        assert!(matches!(first.outcome().await, Ok(Outcome::Accepted { .. })));
        let _second = handle.submit(foreground("second")).await.expect("taken in");
        let binding =
            |found: Vec<mailweir::engine::Constraint>| found.iter().find(|one| one.binding).map(|one| one.wall);
        assert_eq!(binding(handle.explain("second").await.expect("an answer")), Some(Wall::Hold));
        handle.resume(HoldScope::All, Order::new("done")).await.expect("resumed");
        let found = handle.explain("second").await.expect("an answer");
        assert!(!found.iter().any(|one| one.wall == Wall::Hold), "{found:?}");
        assert!(matches!(binding(found), Some(Wall::Window { .. })));
    });
}

#[test]
fn a_mailbox_that_is_taken_off_a_closed_list_takes_nothing_new_in_and_keeps_what_it_has() {
    paused(|| async {
        let listed = |id: &str| {
            let mut config = limited("1 requests / 1h").mailbox_override(id, MailboxOverride::default());
            config.submit.mailboxes = Mailboxes::Listed;
            config
        };
        let scheduler = start(listed(MAILBOX), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let _first = handle.submit(foreground("first")).await.expect("taken in");
        let waits = handle.submit(foreground("waits")).await.expect("taken in");
        handle.reconfigure(listed("other@contoso.example")).await.expect("in force");
        let error = handle.submit(foreground("new")).await.expect_err("it is not on the list");
        assert!(matches!(error, SubmitError::UnknownMailbox { .. }), "{error:?}");
        let many = handle.submit_many([foreground("new")]).await;
        assert!(matches!(&many[..], [Err(SubmitError::UnknownMailbox { .. })]), "{many:?}");
        let permit = handle.acquire(MAILBOX, Cost::ONE_REQUEST, Lane::Foreground).await;
        assert!(permit.is_err(), "{permit:?}");
        assert!(!handle.explain("waits").await.expect("its operations are still there").is_empty());
        handle.cancel("waits", Order::new("gone")).await.expect("done");
        assert_eq!(waits.outcome().await, Ok(Outcome::Cancelled { maybe_sent: false }));
    });
}

#[test]
fn orders_reach_a_mailbox_whose_questions_are_too_many() {
    paused(|| async {
        let scheduler = start(limited("1 requests / 1h"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        handle.mailbox(MAILBOX).await.expect("live");
        let mut asked = Vec::new();
        let full = loop {
            let mut question = Box::pin(handle.mailbox(MAILBOX));
            match (&mut question).now_or_never() {
                None => asked.push(question),
                Some(answer) => break answer,
            }
        };
        assert!(matches!(full, Err(AskError::Busy { .. })), "{full:?}");
        handle.reconfigure(limited("7 requests / 1h")).await.expect("in force");
        let facts = handle.mailbox(MAILBOX).await.expect("facts");
        assert_eq!(facts.windows[0].limit.amount(), 7);
        drop(asked);
    });
}

#[test]
fn of_two_configurations_at_once_the_last_one_is_in_force_everywhere() {
    paused(|| async {
        let scheduler = start(limited("1 requests / 1h"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        handle.mailbox(MAILBOX).await.expect("live");
        let both = (handle.reconfigure(limited("2 requests / 1h")), handle.reconfigure(limited("3 requests / 1h")));
        let (one, two) = futures::join!(both.0, both.1);
        one.and(two).expect("in force");
        assert_eq!(handle.mailbox(MAILBOX).await.expect("facts").windows[0].limit.amount(), 3);
        assert_eq!(handle.mailbox("new@contoso.example").await.expect("facts").windows[0].limit.amount(), 3);
    });
}

/// Every field of every event, in its debug form.
#[derive(Clone, Debug, Default)]
struct Heard(Arc<Mutex<String>>);

impl tracing::field::Visit for Heard {
    fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn Debug) {
        self.0.lock().expect("not poisoned").push_str(&format!("{value:?} "));
    }
}

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Heard {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        event.record(&mut self.clone());
    }
}

#[test]
fn another_redaction_is_in_force_from_the_reload_on() {
    paused(|| async {
        let heard = Heard::default();
        let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(heard.clone()));
        let scheduler = start(unlimited(), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let trip = || handle.trip(Scope::Mailbox(MAILBOX.into()), Order::new("a look"));
        trip().await.expect("tripped");
        assert!(heard.0.lock().expect("not poisoned").contains(MAILBOX));
        handle.close(Scope::Mailbox(MAILBOX.into()), Order::new("done")).await.expect("closed");
        let mut config = unlimited();
        config.telemetry.mailbox_redaction = Redaction::Omit;
        handle.reconfigure(config).await.expect("in force");
        heard.0.lock().expect("not poisoned").clear();
        trip().await.expect("tripped");
        let heard = heard.0.lock().expect("not poisoned").clone();
        assert!(!heard.is_empty() && !heard.contains("contoso"), "{heard}");
    });
}
