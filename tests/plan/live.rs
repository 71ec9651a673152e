//! Plans of a running scheduler.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mailweir::clock::{Clock, TokioClock};
use mailweir::engine::Timestamp;
use mailweir::transport::simulated::SimulatedTransport;
use mailweir::{Config, Email, Lane, Scheduler, Submission};

use super::{LATENCY, Ratio, limits, upstream};

const MAILBOX: &str = "noreply@contoso.example";

fn submission(number: usize) -> Submission {
    let mime = b"Subject: Hello\r\n\r\nHello.\r\n".to_vec();
    let email = Email::from_mime(MAILBOX, ["kim@example.org"], mime).expect("an email");
    Submission::new(MAILBOX, email).operation_id(number.to_string())
}

async fn a_running_scheduler_keeps_its_plan() {
    let clock = Arc::new(TokioClock::starting_at(Timestamp::from_micros(1_764_500_000_000_000)));
    let texts = ["30 requests / 1m"];
    let upstream = Arc::new(Mutex::new(upstream(&texts, Ratio::ZERO, 1)));
    let transport = SimulatedTransport::new(upstream, Arc::clone(&clock) as Arc<dyn Clock>);
    let config = Config::default().mailbox_limits(limits(&texts));
    let builder = Scheduler::builder(config, transport).clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let scheduler = builder.start_on_current_thread().await.expect("it starts");
    let handle = scheduler.handle();
    let mut tickets = Vec::new();
    for number in 0..40 {
        tickets.push(handle.submit(submission(number)).await.expect("it is taken"));
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    let before = handle.mailbox(MAILBOX).await.expect("facts");
    let plan = handle.plan(100, MAILBOX, Lane::Background).await.expect("a plan").latency(LATENCY);
    let (forecast, asked_at) = (plan.forecast(), clock.now());
    assert_eq!(handle.mailbox(MAILBOX).await.expect("facts"), before, "asking changes nothing");
    assert!(forecast.ahead > 0, "some of the forty wait");
    let second = handle.plan(0, "second@contoso.example", Lane::Background).await.expect("a plan");
    let both = plan.also_from(second).forecast();
    let counts: Vec<_> = both.senders.iter().map(|sender| (&*sender.mailbox, sender.count)).collect();
    assert!(
        counts.len() == 2 && counts[0].0 == MAILBOX && counts[1].1 > counts[0].1,
        "the first has a backlog: {counts:?}"
    );
    assert!(both.finish < forecast.finish, "{:?} {:?}", both.takes(), forecast.takes());
    for number in 40..140 {
        tickets.push(handle.submit(submission(number)).await.expect("it is taken"));
    }
    for ticket in tickets {
        let _ = ticket.outcome().await.expect("an outcome");
    }
    let (took, planned) = (clock.now().since(asked_at), forecast.takes().expect("an end"));
    let apart = took.abs_diff(planned);
    assert!(apart < Duration::from_millis(500), "planned {planned:?}, took {took:?}");
}

#[test]
fn a_live_mailbox_keeps_its_plan() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, a_running_scheduler_keeps_its_plan());
}
