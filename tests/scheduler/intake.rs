//! What is taken in, and what is refused with the email handed back.

use std::time::{Duration, SystemTime};

use mailweir::config::{MailboxOverride, Mailboxes};
use mailweir::engine::OperationState;
use mailweir::engine::mailbox::Refusal;
use mailweir::store::MemoryStore;
use mailweir::submission::InvalidSubmission;
use mailweir::{Outcome, Submission, SubmitError};

use crate::support::*;

/// The longest cooldown of an admission key, unless configured.
const LONGEST: Duration = Duration::from_secs(86_400);

/// The longest deadline, unless configured.
const FARTHEST: Duration = Duration::from_secs(30 * 86_400);

#[test]
fn a_submission_is_stored_sent_and_its_ticket_tells() {
    paused(|| async {
        let transport = Scripted::accepting();
        let scheduler = start(unlimited(), transport.clone()).await;
        let handle = scheduler.handle();
        let ticket = handle.submit(foreground("reset-1")).await.expect("taken in");
        assert_eq!(&*ticket.operation_id(), "reset-1");
        let outcome = ticket.outcome().await.expect("an outcome");
        assert!(matches!(outcome, Outcome::Accepted { attempts: 1, .. }), "{outcome:?}");
        let record = handle.operation("reset-1").await.expect("a store").expect("stored");
        assert_eq!((record.state, record.rows), (OperationState::Accepted, 1));
        assert_eq!(transport.ids(), ["reset-1"]);
    });
}

#[test]
fn a_bad_field_is_named_and_nothing_is_stored() {
    paused(|| async {
        let transport = Scripted::accepting();
        let scheduler = start(unlimited(), transport.clone()).await;
        let handle = scheduler.handle();
        let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        let future = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
        let longest = handle.submit(submission(&"i".repeat(255))).await;
        assert!(longest.is_ok(), "{longest:?}");
        let cases: Vec<(&str, Submission)> = vec![
            ("mailbox", Submission::new("", email())),
            ("mailbox", Submission::new("a\r\nBcc: everyone", email())),
            ("operation_id", submission(&"i".repeat(256))),
            ("operation_id", submission("one\ntwo")),
            ("operation_id", submission("")),
            ("tenant", submission("x").tenant("a\tb")),
            ("campaign", submission("x").campaign("c".repeat(129))),
            ("caller", submission("x").caller("")),
            ("admission_key", submission("x").admission_key("\u{7f}", Duration::from_secs(1))),
            ("admission_key", submission("x").admission_key("for ever", Duration::MAX)),
            ("admission_key", submission("x").admission_key("a day and a bit", LONGEST + Duration::from_nanos(1))),
            ("deadline", submission("x").deadline(Duration::ZERO)),
            ("deadline", submission("x").deadline_at(past)),
            ("deadline", submission("x").deadline(Duration::MAX)),
            ("deadline", submission("x").deadline_at(future)),
            ("not_before", submission("x").deadline(Duration::from_secs(1)).not_before(future)),
        ];
        for (field, bad) in cases {
            let error = handle.submit(bad.clone()).await.expect_err(field);
            assert_eq!(error.field(), Some(field), "{error}");
            assert!(error.to_string().contains(field.split('.').next().expect("a field")), "{error}");
            assert!(!error.is_retryable());
            assert_eq!(error.into_submission(), Some(bad));
        }
        let stored: u64 = handle.counts().await.expect("a store").iter().sum();
        assert_eq!((stored, transport.count()), (1, 1));
    });
}

#[test]
fn the_longest_cooldown_is_taken_and_a_longer_one_named_with_its_bound() {
    paused(|| async {
        let scheduler = start(unlimited(), Scripted::accepting()).await;
        let handle = scheduler.handle();
        drop(handle.submit(submission("longest").admission_key("button", LONGEST)).await.expect("taken in"));
        let longer = submission("longer").admission_key("button", Duration::MAX);
        let error = handle.submit(longer).await.expect_err("it would never end");
        let SubmitError::Invalid { problem, .. } = &error else { panic!("{error}") };
        assert_eq!(*problem, InvalidSubmission::CooldownTooLong { cooldown: Duration::MAX, cooldown_max: LONGEST });
        assert!(problem.to_string().contains("submit.admission_cooldown_max"), "{problem}");
    });
}

#[test]
fn the_longest_deadline_is_taken_and_a_longer_one_named_with_its_bound_and_a_way_out() {
    paused(|| async {
        let transport = Scripted::accepting();
        let scheduler = start(limited("1 requests / 1h"), transport.clone()).await;
        let handle = scheduler.handle();
        drop(handle.submit(submission("sent")).await.expect("taken in"));
        drop(handle.submit(submission("longest").deadline(FARTHEST)).await.expect("taken in"));
        let hour = Duration::from_secs(3_600);
        let far = SystemTime::UNIX_EPOCH + Duration::from_micros(START.as_micros()) + FARTHEST + hour;
        for longer in [submission("x").deadline(FARTHEST + hour), submission("x").deadline_at(far)] {
            let error = handle.submit(longer.clone()).await.expect_err("too far");
            let SubmitError::Invalid { problem, .. } = &error else { panic!("{error}") };
            assert_eq!(*problem, InvalidSubmission::DeadlineTooFar { within: FARTHEST + hour, within_max: FARTHEST });
            for part in ["deadline is 721h away", "at most 720h", "submit.deadline_max", "nearer to its time"] {
                assert!(problem.to_string().contains(part), "{problem}");
            }
            assert_eq!(error.into_submission(), Some(longer));
        }
        assert!(handle.operation("x").await.expect("a store").is_none(), "nothing is stored");
        // Live: a shorter one binds what comes, and leaves what was taken in.
        let mut config = limited("1 requests / 1h");
        config.submit.deadline_max = Duration::from_secs(86_400);
        handle.reconfigure(config).await.expect("it holds together");
        let error = handle.submit(submission("x").deadline(FARTHEST)).await.expect_err("too far now");
        assert_eq!(error.field(), Some("deadline"));
        let kept = handle.operation("longest").await.expect("a store").expect("stored");
        assert_eq!(kept.deadline.since(kept.submitted_at), FARTHEST);
    });
}

#[test]
fn a_mailbox_that_is_not_listed_is_refused_where_the_list_is_closed() {
    paused(|| async {
        let mut config = unlimited();
        config.submit.mailboxes = Mailboxes::Listed;
        let config = config.mailbox_override("listed@example.org", MailboxOverride::default());
        let scheduler = start(config, Scripted::accepting()).await;
        let listed = Submission::new("listed@example.org", email());
        assert!(scheduler.handle().submit(listed).await.is_ok());
        let error = scheduler.handle().submit(submission("x")).await.expect_err("not listed");
        assert!(matches!(error, SubmitError::UnknownMailbox { .. }), "{error}");
        assert_eq!(error.field(), Some("mailbox"));
    });
}

#[test]
fn the_same_id_is_the_same_operation_and_other_content_a_conflict() {
    paused(|| async {
        let transport = Scripted::slow(Duration::from_secs(1));
        let scheduler = start(unlimited(), transport.clone()).await;
        let handle = scheduler.handle();
        let first = handle.submit(submission("once")).await.expect("taken in");
        let again = handle.submit(submission("once")).await.expect("the same operation");
        let other = Submission::new(MAILBOX, email_of("Other")).operation_id("once");
        let error = handle.submit(other).await.expect_err("other content");
        assert!(matches!(error, SubmitError::Conflict { .. }), "{error}");
        for ticket in [first, again] {
            assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
        }
        let late = handle.submit(submission("once")).await.expect("the same operation, over");
        assert!(matches!(late.outcome().await, Ok(Outcome::Accepted { .. })));
        assert_eq!(transport.count(), 1);
    });
}

#[test]
fn ids_are_minted_when_absent_and_distinct() {
    paused(|| async {
        let scheduler = start(unlimited(), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let one = handle.submit(Submission::new(MAILBOX, email())).await.expect("taken in");
        let two = handle.submit(Submission::new(MAILBOX, email())).await.expect("taken in");
        assert_ne!(one.operation_id(), two.operation_id());
        assert_eq!(one.operation_id().len(), 36);
    });
}

#[test]
fn a_batch_is_answered_item_by_item_in_order_and_sent_in_order() {
    paused(|| async {
        let transport = Scripted::accepting();
        let scheduler = start(unlimited(), transport.clone()).await;
        let handle = scheduler.handle();
        let mut batch: Vec<Submission> = (0..2_000).map(|n| submission(&format!("item-{n:04}"))).collect();
        batch[7] = submission("");
        let answers = handle.submit_many(batch).await;
        assert_eq!(answers.len(), 2_000);
        for (n, answer) in answers.into_iter().enumerate() {
            match answer {
                Err(error) => assert_eq!((n, error.field()), (7, Some("operation_id"))),
                Ok(ticket) => {
                    assert_eq!(*ticket.operation_id(), format!("item-{n:04}"));
                    assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
                }
            }
        }
        let ids = transport.ids();
        assert_eq!(ids.len(), 1_999);
        assert!(ids.is_sorted(), "sent in order of submission");
    });
}

#[test]
fn a_wait_longer_than_allowed_is_refused_with_when_to_come_back() {
    paused(|| async {
        let scheduler = start(limited("2 requests / 1m"), Scripted::accepting()).await;
        let handle = scheduler.handle();
        for id in ["one", "two"] {
            let ticket = handle.submit(foreground(id)).await.expect("room");
            assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
        }
        let impatient = foreground("three").max_wait(Duration::from_secs(5));
        let error = handle.submit(impatient.clone()).await.expect_err("the window is full");
        assert!(matches!(error, SubmitError::Refused { refusal: Refusal::WaitTooLong { .. }, .. }), "{error}");
        assert!(error.is_retryable());
        assert!(error.retry_after().is_some_and(|after| after > Duration::from_secs(30)), "{error}");
        assert_eq!(error.into_submission(), Some(impatient));
        assert_eq!(handle.operation("three").await.expect("a store"), None);
    });
}

/// The answer to the first submission may have been lost: its own repeat must not be told that nothing was stored.
#[test]
fn a_repeat_is_the_same_operation_even_where_a_new_one_would_be_refused() {
    paused(|| async {
        let mut config = limited("1 requests / 1m");
        config.queue.background_max = 2;
        let scheduler = start(config, Scripted::accepting()).await;
        let handle = scheduler.handle();
        let impatient = || foreground("now").max_wait(Duration::from_secs(5));
        let _sent = handle.submit(impatient()).await.expect("room");
        let _same = handle.submit(impatient()).await.expect("its predecessor is what fills the window");
        let _waits = handle.submit(submission("one")).await.expect("room");
        let _waits = handle.submit(submission("two")).await.expect("room");
        for id in ["one", "two"] {
            let _same = handle.submit(submission(id)).await.expect("its predecessor is in the queue");
        }
        let error = handle.submit(submission("two").campaign("other")).await.expect_err("other content");
        assert!(matches!(error, SubmitError::Conflict { .. }), "{error}");
        for new in [submission("three"), foreground("four").max_wait(Duration::from_secs(5))] {
            let error = handle.submit(new.clone()).await.expect_err("it is new");
            assert!(matches!(error, SubmitError::Refused { .. }), "{error}");
            assert_eq!(error.into_submission(), Some(new));
        }
        assert_eq!(handle.counts().await.expect("a store").iter().sum::<u64>(), 3);
    });
}

/// A tenant that the configuration gives is no part of what the caller asked for.
#[test]
fn a_repeat_after_the_mailbox_has_got_a_tenant_is_the_same_operation() {
    paused(|| async {
        let scheduler = start(unlimited(), Scripted::accepting()).await;
        let handle = scheduler.handle();
        let _first = handle.submit(submission("once")).await.expect("taken in");
        let mut own = MailboxOverride::default();
        own.tenant = Some("contoso".into());
        handle.reconfigure(unlimited().mailbox_override(MAILBOX, own)).await.expect("live");
        let _same = handle.submit(submission("once")).await.expect("the same operation");
        let error = handle.submit(submission("once").tenant("fabrikam")).await.expect_err("another");
        assert!(matches!(error, SubmitError::Conflict { .. }), "{error}");
    });
}

#[test]
fn what_no_window_can_ever_hold_is_refused_for_good() {
    paused(|| async {
        let scheduler = start(limited("1_000 bytes / 1m"), Scripted::accepting()).await;
        let large = Submission::new(MAILBOX, email_of(&"x".repeat(2_000)));
        let error = scheduler.handle().submit(large).await.expect_err("too large");
        assert!(matches!(error, SubmitError::Refused { refusal: Refusal::CostAboveCapacity { .. }, .. }), "{error}");
        assert!(!error.is_retryable());
    });
}

#[test]
fn a_full_lane_refuses_and_hands_back_while_the_other_lane_takes_in() {
    paused(|| async {
        let mut config = limited("1 requests / 1h");
        (config.queue.background_max, config.queue.foreground_max) = (3, 3);
        let scheduler = start(config, Scripted::accepting()).await;
        let handle = scheduler.handle();
        let mut refused = 0;
        for n in 0..8 {
            match handle.submit(submission(&format!("bg-{n}"))).await {
                Ok(_detached) => {}
                Err(error) => {
                    assert!(
                        matches!(error, SubmitError::Refused { refusal: Refusal::QueueFull { .. }, .. }),
                        "{error}"
                    );
                    assert!(error.is_retryable() && error.retry_after().is_some());
                    refused += 1;
                }
            }
        }
        // One of the eight was sent at once; three wait.
        assert_eq!(refused, 4);
        let _ticket = handle.submit(foreground("fg")).await.expect("the other lane has room");
    });
}

#[test]
fn a_dropped_submission_never_happened_unless_it_was_stored() {
    paused(|| async {
        let transport = Scripted::accepting();
        let scheduler = start(unlimited(), transport.clone()).await;
        let handle = scheduler.handle();
        // Polled once, the submission lies in the queue; the actor finds it withdrawn.
        {
            let mut never = Box::pin(handle.submit(submission("never")));
            assert!(futures::poll!(&mut never).is_pending());
        }
        let detached = handle.submit(submission("kept")).await.expect("taken in");
        drop(detached);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(transport.ids(), ["kept"]);
        assert_eq!(handle.operation("never").await.expect("a store"), None);
    });
}

#[test]
fn mailboxes_above_the_bound_are_refused_until_one_is_idle() {
    paused(|| async {
        let mut config = unlimited();
        config.actors.live_max = 2;
        let scheduler = start(config, Scripted::slow(Duration::from_secs(5))).await;
        let handle = scheduler.handle();
        let from = |mailbox: &str| Submission::new(mailbox, email());
        let _a = handle.submit(from("a@example.org")).await.expect("room");
        let _b = handle.submit(from("b@example.org")).await.expect("room");
        let error = handle.submit(from("c@example.org")).await.expect_err("no room");
        assert!(matches!(error, SubmitError::TooManyMailboxes { mailboxes_max: 2, .. }), "{error}");
        assert!(error.is_retryable());
        tokio::time::sleep(Duration::from_secs(6)).await;
        let ticket = handle.submit(from("c@example.org")).await.expect("an idle one made room");
        assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
    });
}

#[test]
fn a_full_store_refuses_with_its_bound_and_keeps_what_it_has() {
    paused(|| async {
        let builder = builder(limited("1 requests / 1h"), Scripted::accepting());
        let scheduler = builder.store(MemoryStore::with_bounds(2, 10)).start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        let sent = handle.submit(submission("sent")).await.expect("room");
        assert!(matches!(sent.outcome().await, Ok(Outcome::Accepted { .. })));
        for id in ["one", "two"] {
            let _waits = handle.submit(submission(id)).await.expect("room");
        }
        let error = handle.submit(submission("three")).await.expect_err("full");
        assert!(matches!(&error, SubmitError::Store { id, .. } if &**id == "three"), "{error}");
        assert!(error.is_retryable());
        assert!(handle.operation("two").await.expect("a store").is_some());
    });
}

#[test]
fn a_batch_of_any_size_fits_the_smallest_queue() {
    paused(|| async {
        let mut config = unlimited();
        config.actors.actor_queue_capacity = 8;
        let transport = Scripted::accepting();
        let scheduler = start(config, transport.clone()).await;
        let answers = scheduler.handle().submit_many((0..100).map(|n| submission(&format!("item-{n:03}")))).await;
        for answer in answers {
            let outcome = answer.expect("taken in").outcome().await;
            assert!(matches!(outcome, Ok(Outcome::Accepted { .. })), "{outcome:?}");
        }
        assert!(transport.ids().is_sorted());
    });
}
