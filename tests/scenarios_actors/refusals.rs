//! Bad input through the front door: the error names the field, what was handed over comes back, nothing is stored.

use std::time::{Duration, SystemTime};

use mailweir::clock::Clock;
use mailweir::config::{Config, MailboxOverride, Mailboxes};
use mailweir::upstream::Model;
use mailweir::{Cost, Email, Lane, Submission, SubmitError};

use crate::support::*;

const LABEL_MAX: usize = mailweir::submission::LABEL_BYTES_MAX;
const MAILBOX_MAX: usize = mailweir::submission::MAILBOX_ID_BYTES_MAX;

fn closed_list() -> Config {
    let mut config = Config::default().mailbox_limits(limits(&["3 requests / 1m", "100 recipients / 1m"]));
    config.submit.mailboxes = Mailboxes::Listed;
    config.submit.recipients_max = 3;
    config.submit.size_max = 1_000;
    config.queue.background_max = 2;
    config.mailbox_override(MAILBOX, MailboxOverride::default())
}

fn plain() -> Submission {
    submission(MAILBOX, "x", Lane::Background)
}

fn long(bytes: usize) -> String {
    "i".repeat(bytes)
}

fn system_time(after: Duration) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(START.as_micros()) + after
}

fn sized(bytes: usize) -> Email {
    let mut mime = b"Subject: Hello\r\n\r\n".to_vec();
    mime.resize(bytes, b'x');
    Email::from_mime(MAILBOX, ["kim@example.org"], mime).expect("an email")
}

fn to(recipients: usize) -> Email {
    let recipients = (0..recipients).map(|n| format!("kim{n}@example.org"));
    Email::from_mime(MAILBOX, recipients, b"Subject: Hello\r\n\r\nHello.\r\n".to_vec()).expect("an email")
}

/// The field that has to be named, and the submission with that one fault.
fn faults() -> Vec<(&'static str, Submission)> {
    let line_break = "one\r\nBcc: everyone@example.org";
    let month = Duration::from_secs(30 * 86_400);
    vec![
        ("mailbox", Submission::new("", email(MAILBOX))),
        ("mailbox", Submission::new(line_break, email(MAILBOX))),
        ("mailbox", Submission::new(long(MAILBOX_MAX + 1), email(MAILBOX))),
        ("mailbox", submission("not-listed@contoso.example", "x", Lane::Background)),
        ("operation_id", plain().operation_id("")),
        ("operation_id", plain().operation_id(line_break)),
        ("operation_id", plain().operation_id(long(256))),
        ("tenant", plain().tenant("a\nb")),
        ("tenant", plain().tenant(long(LABEL_MAX + 1))),
        ("campaign", plain().campaign("\u{85}")),
        ("campaign", plain().campaign(long(LABEL_MAX + 1))),
        ("caller", plain().caller("")),
        ("caller", plain().caller(long(LABEL_MAX + 1))),
        ("admission_key", plain().admission_key("a\u{0}b", MINUTE)),
        ("admission_key", plain().admission_key(long(LABEL_MAX + 1), MINUTE)),
        ("deadline", plain().deadline(Duration::ZERO)),
        ("deadline", plain().deadline_at(system_time(Duration::ZERO))),
        ("not_before", plain().deadline(MINUTE).not_before(system_time(month))),
        ("email.recipients", Submission::new(MAILBOX, to(4)).operation_id("x")),
        ("email.mime", Submission::new(MAILBOX, sized(1_001)).operation_id("x")),
        ("cost", plain().cost(Cost::email(101, 10))),
        ("cost", plain().cost(Cost { requests: 4, ..Cost::ONE_REQUEST })),
        ("cost.requests", plain().cost(Cost { requests: 0, ..Cost::ONE_REQUEST })),
    ]
}

/// The same fields one step inside their bounds.
fn inside() -> Vec<Submission> {
    vec![
        plain().operation_id(long(255)),
        plain().operation_id("labels").tenant(long(LABEL_MAX)).campaign(long(LABEL_MAX)).caller(long(LABEL_MAX)),
        plain().operation_id("key").admission_key(long(LABEL_MAX), MINUTE),
        plain().operation_id("soon").deadline_at(system_time(Duration::from_micros(86_400_000_000))),
        Submission::new(MAILBOX, to(3)).operation_id("recipients"),
        Submission::new(MAILBOX, sized(1_000)).operation_id("bytes"),
        plain().operation_id("cost").cost(Cost::email(90, 10)),
    ]
}

#[test]
fn every_bad_field_is_named_and_the_store_is_as_it_was() {
    paused(|| async {
        let bench = Bench::start(closed_list(), Model::default(), 1).await;
        let handle = &bench.handle;
        let ticket = handle.submit(plain().operation_id("first")).await.expect("taken in");
        accepted(ticket).await;
        let before = handle.counts().await.expect("a store");
        let faults = faults();
        let total = faults.len();
        for (field, bad) in faults.clone() {
            let error = handle.submit(bad.clone()).await.expect_err(field);
            assert_eq!(error.field(), Some(field), "{error}");
            assert!(!error.is_retryable(), "{error}");
            assert!(error.to_string().len() > 20, "{error}");
            assert_eq!(error.into_submission(), Some(bad), "it comes back as it was");
            assert_eq!(handle.counts().await.expect("a store"), before, "{field}: nothing is stored");
        }
        // The same as one batch: each item has its own answer.
        let (fields, batch): (Vec<_>, Vec<_>) = faults.into_iter().unzip();
        for (field, answer) in fields.into_iter().zip(handle.submit_many(batch).await) {
            assert_eq!(answer.expect_err(field).field(), Some(field));
        }
        assert_eq!((handle.counts().await.expect("a store"), bench.record.count()), (before, 1), "{total} refusals");
    });
}

#[test]
fn the_same_fields_at_their_bounds_are_taken_in() {
    paused(|| async {
        for good in inside() {
            let bench = Bench::start(closed_list(), Model::default(), 1).await;
            let id = format!("{good:?}");
            let ticket = bench.handle.submit(good).await.unwrap_or_else(|error| panic!("{id}: {error}"));
            accepted(ticket).await;
        }
    });
}

#[test]
fn an_email_that_could_smuggle_a_header_is_not_made() {
    let mime = || b"Subject: Hello\r\n\r\nHello.\r\n".to_vec();
    let none: [&str; 0] = [];
    let error = Email::from_mime(MAILBOX, none, mime()).expect_err("nobody");
    assert!(error.to_string().contains("recipient"), "{error}");
    for (field, sender, recipient) in [
        ("sender", "noreply@contoso.example\r\nBcc: all@example.org", "kim@example.org"),
        ("recipients[0]", MAILBOX, "kim@example.org\r\nBcc: all@example.org"),
        ("recipients[0]", MAILBOX, "kim@example.org\n"),
    ] {
        let error = Email::from_mime(sender, [recipient], mime()).expect_err(field);
        assert_eq!(error.field().map(|field| field.to_string()).as_deref(), Some(field), "{error}");
        assert!(!error.to_string().contains("all@example.org"), "{error}");
    }
}

#[test]
fn a_full_queue_hands_the_email_back_and_stores_nothing() {
    paused(|| async {
        let bench = Bench::start(closed_list(), Model::default(), 1).await;
        let handle = &bench.handle;
        let mut taken = 0;
        let (before, bad, error) = loop {
            let before = handle.counts().await.expect("a store");
            let next = plain().operation_id(format!("bg-{taken}"));
            match handle.submit(next.clone()).await {
                Ok(_detached) => taken += 1,
                Err(error) => break (before, next, error),
            }
        };
        assert!((2..=3).contains(&taken), "{taken}");
        assert!(matches!(error, SubmitError::Refused { .. }), "{error}");
        assert!(error.is_retryable() && error.retry_after().is_some_and(|after| after > Duration::ZERO), "{error}");
        let back = error.into_submission().expect("it comes back");
        assert_eq!(back, bad);
        assert_eq!(back.into_email(), email(MAILBOX));
        assert_eq!(handle.counts().await.expect("a store"), before);
        assert_eq!(handle.operation(&format!("bg-{taken}")).await.expect("a store"), None);
        assert!(bench.clock.now() < START.after(seconds(1)));
    });
}
