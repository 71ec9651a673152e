//! The bound on admission keys: what it refuses, and what it leaves as it was.

use std::time::Duration;

use mailweir::store::OperationQuery;
use mailweir::{Submission, SubmitError};
use tokio::time::sleep;

use crate::support::*;

const MINUTE: Duration = Duration::from_secs(60);

fn click(key: &str, cooldown: Duration) -> Submission {
    Submission::new(MAILBOX, email()).caller("billing").admission_key(key, cooldown)
}

#[test]
fn a_key_too_many_is_refused_with_when_to_come_back_and_none_that_counts_is_forgotten() {
    paused(|| async {
        let mut config = unlimited();
        config.submit.admission_keys_max = 2;
        config.callers.ceiling = Some("3 emails / 1h".parse().expect("a ceiling"));
        let transport = Scripted::accepting();
        let scheduler = start(config, transport.clone()).await;
        let handle = scheduler.handle();
        let first = handle.submit(click("kim", MINUTE)).await.expect("room").operation_id();
        drop(handle.submit(click("lee", MINUTE * 5)).await.expect("room"));
        for _ in 0..3 {
            let error = handle.submit(click("max", MINUTE)).await.expect_err("two keys count");
            let wait = error.retry_after().expect("when the first one ends");
            assert!(wait <= MINUTE && wait > MINUTE - Duration::from_secs(1), "{wait:?}");
            assert_eq!((error.field(), error.is_retryable()), (Some("admission_key"), true));
            for word in ["2 admission keys", "submit.admission_keys_max", "operation_id"] {
                assert!(error.to_string().contains(word), "{error}");
            }
            assert!(matches!(error, SubmitError::TooManyAdmissionKeys { keys_max: 2, .. }), "{error}");
            assert!(error.into_submission().is_some(), "handed back");
        }
        let again = handle.submit(click("kim", MINUTE)).await.expect("it counts still");
        assert_eq!((again.operation_id(), transport.count()), (first, 2), "no second email");
        let query = OperationQuery { limit: 10, ..OperationQuery::default() };
        assert_eq!(handle.operations(query).await.expect("a store").len(), 2, "nothing was stored");
        sleep(MINUTE).await;
        drop(handle.submit(click("max", MINUTE)).await.expect("one has ended; what was refused was not charged"));
        drop(handle.submit(submission("named")).await.expect("without a key there is no bound"));
    });
}
