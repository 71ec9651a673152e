//! Ceilings per caller: what is charged, what is not, and what a refusal leaves behind.

use std::time::Duration;

use mailweir::config::Config;
use mailweir::engine::callers::{CallerRefusal, CallerUnit};
use mailweir::store::{MemoryStore, OperationQuery, StoreError};
use mailweir::{Email, Outcome, SchedulerHandle, Submission, SubmitError};

use crate::faulty::{Faulty, out_of_reach};
use crate::support::*;

fn with_ceiling(ceiling: &str) -> Config {
    let mut config = unlimited();
    config.callers.ceiling = Some(ceiling.parse().expect("a ceiling"));
    config
}

fn of(caller: &str, id: &str) -> Submission {
    submission(id).caller(caller)
}

/// How many operations the store has.
async fn stored(handle: &SchedulerHandle) -> usize {
    let query = OperationQuery { limit: 100, ..OperationQuery::default() };
    handle.operations(query).await.expect("a store").len()
}

#[test]
fn a_caller_at_its_ceiling_is_refused_with_when_to_come_back_and_nothing_is_stored() {
    paused(|| async {
        let scheduler = start(with_ceiling("2 emails / 1h"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        for id in ["one", "two"] {
            let _sent = handle.submit(of("billing", id)).await.expect("below the ceiling");
        }
        let before = stored(&handle).await;
        let error = handle.submit(of("billing", "three")).await.expect_err("at the ceiling");
        let refusal = match &error {
            SubmitError::Caller { refusal, .. } => *refusal,
            other => panic!("{other}"),
        };
        assert!(matches!(refusal, CallerRefusal::Ceiling { unit: CallerUnit::Emails, used: 2, most: 2, .. }));
        assert_eq!((error.field(), error.is_retryable()), (Some("caller"), true));
        assert!(error.to_string().contains("\"billing\""), "{error}");
        let wait = error.retry_after().expect("when");
        assert_eq!((before, stored(&handle).await), (2, 2), "O11");
        assert!(handle.operation("three").await.expect("a store").is_none(), "O11");
        let _other = handle.submit(of("reports", "four")).await.expect("another caller");
        let _nobody = handle.submit(submission("five")).await.expect("no caller, no ceiling");
        let again = error.into_submission().expect("handed back");
        tokio::time::sleep(wait - Duration::from_micros(2_000)).await;
        assert!(handle.submit(again.clone()).await.is_err(), "not a moment before");
        tokio::time::sleep(Duration::from_micros(2_000)).await;
        let _sent = handle.submit(again).await.expect("a new period");
    });
}

#[test]
fn repeats_and_clicks_under_one_key_are_charged_once() {
    paused(|| async {
        let scheduler = start(with_ceiling("2 emails / 1h"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        for _ in 0..4 {
            let _same = handle.submit(of("billing", "one")).await.expect("the same one");
        }
        let click =
            || Submission::new(MAILBOX, email()).caller("billing").admission_key("reset", Duration::from_secs(60));
        for _ in 0..4 {
            let _same = handle.submit(click()).await.expect("the first one's ticket");
        }
        assert!(matches!(handle.submit(of("billing", "two")).await, Err(SubmitError::Caller { .. })));
        let _same = handle.submit(click()).await.expect("a repeat is no new email, even at the ceiling");
    });
}

#[test]
fn an_operation_of_an_earlier_period_is_not_charged_again() {
    paused(|| async {
        let scheduler = start(with_ceiling("1 emails / 1m"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let _first = handle.submit(of("billing", "one")).await.expect("room");
        tokio::time::sleep(Duration::from_secs(61)).await;
        let _again = handle.submit(of("billing", "one")).await.expect("the store has it already");
        let _other = handle.submit(of("billing", "next")).await.expect("the charge of the repeat came back");
        let _again = handle.submit(of("billing", "one")).await.expect("a repeat, at the ceiling of a later period");
        tokio::time::sleep(Duration::from_secs(61)).await;
        let _other = handle.submit(of("billing", "two")).await.expect("the charge of the repeat came back");
        let conflict = handle.submit(of("reports", "two").campaign("other")).await.expect_err("other content");
        assert!(matches!(conflict, SubmitError::Conflict { .. }), "{conflict}");
        let _room = handle.submit(of("reports", "three")).await.expect("a conflict is not charged");
    });
}

#[test]
fn an_insert_that_stored_nothing_gives_its_charge_back_and_one_in_doubt_keeps_it() {
    paused(|| async {
        let full = MemoryStore::with_bounds(1, 10);
        let mut config = limited("1 requests / 1h");
        config.callers.ceiling = Some("2 emails / 1h".parse().expect("a ceiling"));
        let scheduler = builder(config.clone(), Scripted::accepting()).store(full);
        let scheduler = scheduler.start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        let sent = handle.submit(of("billing", "sent")).await.expect("room");
        assert!(matches!(sent.outcome().await, Ok(Outcome::Accepted { .. })));
        let _waits = handle.submit(submission("waits")).await.expect("room");
        for _ in 0..3 {
            let error = handle.submit(of("billing", "more")).await.expect_err("the store is full");
            assert!(
                matches!(error, SubmitError::Store { source: StoreError::Full { .. }, .. }),
                "not the ceiling: {error}"
            );
        }

        let doubtful = Faulty::late(Duration::ZERO);
        let scheduler = builder(with_ceiling("1 emails / 1h"), Scripted::accepting()).store(doubtful.clone());
        let scheduler = scheduler.start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        doubtful.faults().inserted = Some(out_of_reach());
        let error = handle.submit(of("billing", "one")).await.expect_err("the answer was lost");
        assert!(matches!(error, SubmitError::Store { .. }), "{error}");
        assert!(
            matches!(handle.submit(of("billing", "two")).await, Err(SubmitError::Caller { .. })),
            "it may be stored"
        );
        let _same = handle.submit(of("billing", "one")).await.expect("the same one is not charged again");
    });
}

#[test]
fn a_conflict_costs_nothing_however_many_recipients_it_names() {
    paused(|| async {
        let scheduler = start(with_ceiling("6 recipients / 1h"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let to = |id: &str, count: u32| {
            let recipients = (0..count).map(|n| format!("r{n}@example.org"));
            let email = Email::from_mime(MAILBOX, recipients, b"Subject: many\r\n\r\nHello.\r\n".to_vec());
            Submission::new(MAILBOX, email.expect("an email")).caller("billing").operation_id(id)
        };
        let _stored = handle.submit(to("one", 1)).await.expect("room");
        for _ in 0..3 {
            let conflict = handle.submit(to("one", 6)).await.expect_err("other content");
            assert!(matches!(conflict, SubmitError::Conflict { .. }), "{conflict}");
        }
        let _stored = handle.submit(to("two", 5)).await.expect("one of six is used");
        let full = handle.submit(to("three", 1)).await.expect_err("all six are");
        assert!(matches!(full, SubmitError::Caller { .. }), "{full}");
    });
}

#[test]
fn an_email_above_the_whole_ceiling_is_refused_for_good() {
    paused(|| async {
        let scheduler = start(with_ceiling("2 recipients / 1h"), Scripted::accepting()).await;
        let mime = b"Subject: many\r\n\r\nHello.\r\n".to_vec();
        let three = ["a@example.org", "b@example.org", "c@example.org"];
        let many = Email::from_mime(MAILBOX, three, mime).expect("an email");
        let error = scheduler.handle().submit(Submission::new(MAILBOX, many).caller("billing")).await;
        let error = error.expect_err("three recipients");
        assert_eq!((error.field(), error.is_retryable(), error.retry_after()), (Some("email.recipients"), false, None));
    });
}

#[test]
fn a_submission_that_is_refused_for_another_reason_is_not_charged() {
    paused(|| async {
        let mut config = limited("1 requests / 1h");
        config.callers.ceiling = Some("2 emails / 1h".parse().expect("a ceiling"));
        let scheduler = start(config, Scripted::accepting()).await;
        let handle = scheduler.handle();
        let sent = handle.submit(of("billing", "one")).await.expect("room");
        assert!(matches!(sent.outcome().await, Ok(Outcome::Accepted { .. })));
        for n in 0..3 {
            let hurried = of("billing", &format!("hurried-{n}")).max_wait(Duration::from_secs(1));
            let error = handle.submit(hurried).await.expect_err("it would wait");
            assert!(matches!(error, SubmitError::Refused { .. }), "{error}");
        }
        let _second = handle.submit(of("billing", "two")).await.expect("one place is left");
    });
}
