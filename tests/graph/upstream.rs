//! The transport and the local upstream, each as the other's check: same wire format, verdicts that agree with the log.

use std::sync::Arc;
use std::time::Duration;

use mailweir::clock::{Clock, SystemClock};
use mailweir::engine::{Ratio, Sent, Subject, Verdict};
use mailweir::transport::graph::{Credentials, GraphMode, GraphOptions, GraphTransport};
use mailweir::transport::{Attempt, Transport};
use mailweir::upstream::http::{ServerOptions, UpstreamServer};
use mailweir::upstream::{Latency, Model, RetryAfterPolicy, Schedule, Upstream, UpstreamLimit, check};

use super::{HandClock, attempt};

const MINUTE: Duration = Duration::from_secs(60);

struct World {
    server: UpstreamServer,
    clock: Arc<HandClock>,
    transport: GraphTransport,
}

impl World {
    async fn new(model: Model) -> Self {
        Self::with_secret(model, "upstream-secret").await
    }

    async fn with_secret(model: Model, secret: &str) -> Self {
        let options = GraphOptions::default().batch_max(20);
        Self::with(model, secret, options, ServerOptions::default()).await
    }

    async fn of_drafts(model: Model) -> Self {
        let options = GraphOptions::default().mode(GraphMode::DraftThenSend);
        let mut server = ServerOptions::default();
        server.sent_items_lag = MINUTE;
        Self::with(model, "upstream-secret", options, server).await
    }

    async fn with(mut model: Model, secret: &str, options: GraphOptions, server: ServerOptions) -> Self {
        model.latency = Latency::ZERO;
        let clock = Arc::<HandClock>::default();
        clock.advance(1_700_000_000);
        let read = Arc::clone(&clock);
        let server = UpstreamServer::start_with(Upstream::new(model, 1), move || read.now(), server);
        let server = server.await.expect("a free port");
        let credentials = Credentials::new("contoso", "mailweir", secret).authority(server.url());
        let options = options.base_url(server.url());
        let transport = GraphTransport::new(credentials, options, Arc::new(SystemClock::new())).expect("valid options");
        Self { server, clock, transport }
    }

    /// Puts the attempt's email into Drafts, as an attempt did whose answer was lost.
    async fn create_draft(&self) -> String {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let form =
            [("grant_type", "client_credentials"), ("client_id", "mailweir"), ("client_secret", "upstream-secret")];
        let url = format!("{}/contoso/oauth2/v2.0/token", self.server.url());
        let text = client.post(url).form(&form).send().await.expect("an answer").text().await.expect("a token");
        let token: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let url = format!("{}/v1.0/users/noreply@contoso.example/messages", self.server.url());
        let body = base64::Engine::encode(&super::STANDARD, super::MIME);
        let request = client.post(url).bearer_auth(token["access_token"].as_str().expect("a token"));
        let answer = request.header("content-type", "text/plain").body(body).send().await.expect("an answer");
        assert_eq!(answer.status(), 201);
        answer.text().await.expect("a draft")
    }

    async fn verdict(&self) -> Verdict {
        self.transport.send(attempt()).await.verdict
    }

    fn executed(&self) -> u64 {
        check::counts(&self.server.log()).executed
    }
}

fn limited(requests: u64) -> Model {
    Model::new([UpstreamLimit::requests(requests, MINUTE)])
}

#[tokio::test]
async fn a_send_is_accepted_counted_and_found_again() {
    let world = World::new(limited(30)).await;
    assert_eq!(world.verdict().await, Verdict::Accepted);
    assert_eq!(world.executed(), 1);
    assert_eq!(world.transport.reconcile(attempt()).await, Some(false), "Sent Items lags behind");
    world.clock.advance(2);
    assert_eq!(world.transport.reconcile(attempt()).await, Some(true));
}

#[tokio::test]
async fn a_throttle_names_the_wait_as_seconds_or_as_a_date_and_as_nothing_when_it_cannot_be_read() {
    for (policy, expected) in [
        (RetryAfterPolicy::Exact, Some(60)),
        (RetryAfterPolicy::Date, Some(60)),
        (RetryAfterPolicy::Constant(1), Some(1)),
        (RetryAfterPolicy::Malformed("soon".into()), None),
        (RetryAfterPolicy::None, None),
    ] {
        let mut model = limited(1);
        model.retry_after = policy.clone();
        let world = World::new(model).await;
        assert_eq!(world.verdict().await, Verdict::Accepted);
        let Verdict::Throttled(throttle) = world.verdict().await else { panic!("{policy:?}: not throttled") };
        assert_eq!(throttle.retry_after.map(|wait| wait.as_secs()), expected, "{policy:?}");
        assert_eq!(world.executed(), 1);
    }
}

#[tokio::test]
async fn every_item_of_a_batch_agrees_with_the_log() {
    let world = World::new(limited(3)).await;
    let attempts = (1..=5).map(|number| Attempt { operation_id: format!("op-{number}").into(), number, ..attempt() });
    let answers = world.transport.send_many(attempts.collect()).await;
    let accepted = answers.iter().filter(|answer| answer.verdict == Verdict::Accepted).count();
    let throttled = answers.iter().filter(|answer| matches!(answer.verdict, Verdict::Throttled(_))).count();
    assert_eq!((accepted, throttled, world.executed()), (3, 2, 3));
}

#[tokio::test]
async fn no_fault_is_taken_for_more_or_less_than_it_was() {
    type Set = fn(&mut Model) -> &mut Schedule<Ratio>;
    let not_done = Verdict::Transient { sent: Sent::Maybe, retry_after: None };
    let rows: [(Set, Verdict); 5] = [
        (|model| &mut model.faults.error_before_charge, not_done.clone()),
        (|model| &mut model.faults.error_after_charge, not_done),
        (|model| &mut model.faults.timeout_after_acceptance, Verdict::Unknown),
        (|model| &mut model.faults.cut_before_body, Verdict::Unknown),
        (|model| &mut model.faults.cut_after_body, Verdict::Unknown),
    ];
    for (row, (set, expected)) in rows.into_iter().enumerate() {
        let mut model = Model::new([]);
        *set(&mut model) = Schedule::always(Ratio::ONE);
        let world = World::new(model).await;
        assert_eq!(world.verdict().await, expected, "row {row}");
        assert!(expected == Verdict::Unknown || world.executed() == 0, "row {row}: never a taken email as not taken");
    }
}

#[tokio::test]
async fn an_expired_token_costs_no_send() {
    let world = World::new(limited(30)).await;
    assert_eq!(world.verdict().await, Verdict::Accepted);
    world.clock.advance(3_600); // at the server only: the transport still believes in its token
    assert_eq!(world.verdict().await, Verdict::Accepted);
    assert_eq!(world.executed(), 2);
}

#[tokio::test]
async fn a_wrong_secret_is_told_as_such_and_known_before_the_first_email() {
    let world = World::with_secret(limited(30), "wrong").await;
    assert!(!world.transport.check().await.expect_err("refused").is_retryable());
    assert_eq!(world.verdict().await, Verdict::Permanent { of: Subject::Credentials });
    assert!(world.server.log().is_empty());
}

#[tokio::test]
async fn a_draft_and_its_send_are_two_requests_at_the_upstream_and_one_email() {
    let world = World::of_drafts(limited(2)).await;
    assert_eq!(world.verdict().await, Verdict::Accepted);
    let log = world.server.log();
    let facts: Vec<_> = log.iter().map(|one| (one.status, one.executed, one.cost.recipients)).collect();
    assert_eq!(facts, [(201, false, 0), (202, true, 1)]);
    assert!(log[0].cost.bytes > 0 && log[1].cost.bytes == 0 && log[0].key == log[1].key);
    let full = world.transport.send(Attempt { operation_id: "two".into(), ..attempt() }).await.verdict;
    assert!(matches!(full, Verdict::Throttled(_)), "both counted");
    // Accepted, so its draft is forgotten; gone from Drafts, and Sent Items shows it after its delay.
    assert_eq!(world.transport.reconcile(attempt()).await, Some(false), "not visible yet");
    world.clock.advance(59);
    assert_eq!(world.transport.reconcile(attempt()).await, Some(false));
    world.clock.advance(1);
    assert_eq!(world.transport.reconcile(attempt()).await, Some(true));
}

#[tokio::test]
async fn a_draft_whose_send_was_lost_counts_as_sent_once_sent_items_show_it() {
    for fault in [true, false] {
        let mut model = Model::new([]);
        // From the second second on: the draft is created before, its send meets the fault.
        let from = mailweir::engine::Timestamp::from_micros(1_700_000_001_000_000);
        let always = Schedule::always(Ratio::ZERO).then(from, Ratio::ONE);
        let faults = &mut model.faults;
        *if fault { &mut faults.timeout_after_acceptance } else { &mut faults.cut_before_body } = always;
        let world = World::of_drafts(model).await;
        // A throttled first attempt would do the same: it leaves a draft for the second.
        let created = world.create_draft().await;
        world.clock.advance(1);
        assert_eq!(world.transport.send(Attempt { number: 2, ..attempt() }).await.verdict, Verdict::Unknown);
        assert_eq!(world.transport.reconcile(attempt()).await, Some(false), "{created}: nowhere, or still a draft");
        world.clock.advance(60);
        assert_eq!(world.transport.reconcile(attempt()).await, Some(fault), "{created}");
        assert_eq!(world.executed(), u64::from(fault));
        let drafts = world.server.log().iter().filter(|one| one.status == 201).count();
        assert_eq!(drafts, 1, "the draft that was there was taken");
    }
}
