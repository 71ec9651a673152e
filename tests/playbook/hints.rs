//! Each form of a Retry-After, over HTTP from the header to the cooldown.

use std::sync::Arc;
use std::time::Duration;

use mailweir::clock::SystemClock;
use mailweir::engine::{OperationState, Timestamp};
use mailweir::scheduler::Scheduler;
use mailweir::telemetry::EventKind;
use mailweir::transport::graph::{Credentials, GraphOptions, GraphTransport};
use mailweir::upstream::http::UpstreamServer;
use mailweir::upstream::{Block, Latency, Model, RetryAfterPolicy, Upstream};

use crate::support::{MAILBOX, unlimited};

/// "Tue, 14 Nov 2023 22:13:20 GMT": what the server's clock says, and its `Date`.
const SERVER_NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// The cooldown that a 429 with this Retry-After opens, and what became of the operation.
async fn cooldown(hint: RetryAfterPolicy) -> Duration {
    let mut model = Model::new([]);
    let scope = mailweir::engine::Scope::Mailbox(MAILBOX.into());
    model.blocks = vec![Block { scope, from: Timestamp::EPOCH, until: SERVER_NOW.after(Duration::from_secs(120)) }];
    (model.latency, model.retry_after) = (Latency::ZERO, hint.clone());
    let server = UpstreamServer::start(Upstream::new(model, 1), || SERVER_NOW).await.expect("a free port");
    let credentials = Credentials::new("contoso", "mailweir", "upstream-secret").authority(server.url());
    let options = GraphOptions::default().base_url(server.url());
    let transport = GraphTransport::new(credentials, options, Arc::new(SystemClock::new())).expect("valid options");
    let mut config = unlimited();
    config.breaker.cooldown_first = Some(Duration::from_secs(45));
    let spread = config.resume.spread;
    let scheduler = Scheduler::builder(config, transport).start().await.expect("the scheduler starts");
    let handle = scheduler.handle();
    let mut events = handle.events();
    // With recipients in the headers: Graph takes no envelope.
    let mime = b"To: kim@example.org\r\nSubject: Reset your password\r\n\r\nHello.\r\n".to_vec();
    let email = mailweir::Email::from_mime(MAILBOX, ["kim@example.org"], mime).expect("an email");
    let submission = mailweir::Submission::new(MAILBOX, email).operation_id("one");
    let _ticket = handle.submit(submission).await.expect("stored");
    let opened = loop {
        match events.next().await.expect("an event").expect("none missed").kind {
            EventKind::BreakerOpened { cooldown, .. } => break cooldown,
            _ => continue,
        }
    };
    let deferred = async {
        loop {
            let record = handle.operation("one").await.expect("a store").expect("stored");
            if record.state == OperationState::Deferred {
                break record;
            }
            // Written a moment after the event; a real server is waited for in real time.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let record = tokio::time::timeout(Duration::from_secs(10), deferred).await.expect("it is deferred");
    let wait = record.next_at.expect("it goes on").since(record.changed_at);
    let most = opened + spread;
    assert!((opened..=most).contains(&wait), "{hint:?}: {wait:?} after a cooldown of {opened:?}");
    assert_eq!(server.log().len(), 1, "{hint:?}: asked once");
    let report = scheduler.shutdown().await;
    assert_eq!((report.accepted, report.returned, report.unknown), (0, 1, 0), "{hint:?}");
    server.shutdown().await;
    opened
}

fn text(hint: &str) -> RetryAfterPolicy {
    RetryAfterPolicy::Malformed(hint.into())
}

/// The hint, at most 5 % of it and the margin; never below a second.
fn assert_hint(cooldown: Duration, seconds: u64, hint: &str) {
    let least = Duration::from_secs(seconds);
    let most = least + least / 20 + Duration::from_millis(1_200);
    assert!(cooldown >= least && cooldown <= most, "{hint:?}: {cooldown:?} for {seconds} s");
}

#[tokio::test]
async fn seconds_decimals_and_lists_open_a_cooldown_that_is_never_shorter() {
    assert_hint(cooldown(RetryAfterPolicy::Exact).await, 120, "exact");
    for (hint, seconds) in [("120", 120), ("2.128", 3), ("0.249", 1), ("30,120", 120), ("0", 1), ("315", 315)] {
        let cooldown = cooldown(text(hint)).await;
        assert_hint(cooldown, seconds, hint);
        assert!(cooldown >= Duration::from_secs(1), "{hint}: never a hot loop");
    }
}

#[tokio::test]
async fn all_three_forms_of_a_date_are_taken_against_the_servers_own_clock() {
    assert_hint(cooldown(RetryAfterPolicy::Date).await, 120, "date");
    for hint in ["Tue, 14 Nov 2023 22:15:20 GMT", "Tuesday, 14-Nov-23 22:15:20 GMT", "Tue Nov 14 22:15:20 2023"] {
        assert_hint(cooldown(text(hint)).await, 120, hint);
    }
}

#[tokio::test]
async fn what_is_no_hint_leaves_the_cooldown_to_us() {
    assert_eq!(cooldown(RetryAfterPolicy::None).await, Duration::from_secs(45));
    for hint in ["soon", "-5", "1e3", "30, soon", "Tue, 14 Nov 2023 22:15:20 PST", "Tue, 14 Nov 1994 22:15:20 GMT"] {
        assert_eq!(cooldown(text(hint)).await, Duration::from_secs(45), "{hint}");
    }
}

#[tokio::test]
async fn a_day_is_believed_and_an_absurd_wait_is_no_hint() {
    for hint in ["86400", "86401", "604800"] {
        assert_hint(cooldown(text(hint)).await, 86_400, hint);
    }
    for hint in ["99999999", "Thu, 16 Nov 2023 22:15:20 GMT"] {
        assert_eq!(cooldown(text(hint)).await, Duration::from_secs(45), "{hint}");
    }
}
