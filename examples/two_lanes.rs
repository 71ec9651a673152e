//! A campaign and a person share one mailbox.
//!
//! Sixty emails of a campaign lie in the background lane of a mailbox that may send 30 in 3 seconds. Every half second
//! somebody asks for a password reset in the foreground lane. The campaign uses what the limit leaves; no reset waits
//! for it.
//!
//! `cargo run --example two_lanes`

use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use mailweir::clock::{Clock as _, SystemClock};
use mailweir::transport::{Answer, Attempt, Transport, Verdict};
use mailweir::{Config, Email, Lane, Scheduler, SchedulerHandle, Submission};

const MAILBOX: &str = "noreply@contoso.example";
const CAMPAIGN: usize = 60;
const RESETS: usize = 10;

/// A provider that takes everything after 40 ms.
#[derive(Debug)]
struct Patient;

impl Transport for Patient {
    fn send(&self, _attempt: Attempt) -> BoxFuture<'_, Answer> {
        Box::pin(async {
            // What a provider takes for a request.
            tokio::time::sleep(Duration::from_millis(40)).await;
            Verdict::Accepted.into()
        })
    }
}

fn email(recipient: &str) -> Email {
    let mime = "From: noreply@contoso.example\r\nSubject: Hello\r\n\r\nHello.\r\n";
    Email::from_mime(MAILBOX, [recipient], mime.as_bytes()).expect("a fixed email")
}

/// Sends one email and returns how long it took from submit to accepted.
async fn send(handle: SchedulerHandle, clock: &SystemClock, lane: Lane, recipient: String) -> Duration {
    let submitted = clock.now();
    let submission = Submission::new(MAILBOX, email(&recipient)).lane(lane);
    let ticket = handle.submit(submission).await.expect("the queue has room");
    ticket.outcome().await.expect("the scheduler lives");
    clock.now().since(submitted)
}

fn show(lane: Lane, mut waits: Vec<Duration>) {
    waits.sort_unstable();
    let at = |percent: usize| waits[(waits.len() - 1) * percent / 100].as_millis();
    println!("{lane:<11} {:>3} accepted   p50 {:>5} ms   p99 {:>5} ms", waits.len(), at(50), at(99));
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = Config::default().mailbox_limits(["30 requests / 3s".parse()?]);
    let scheduler = Scheduler::builder(config, Patient).start().await?;
    let handle = scheduler.handle();
    let clock = SystemClock::new();

    println!("{CAMPAIGN} emails of a campaign, 30 in 3 s allowed, and a password reset every half second\n");
    let campaign =
        (0..CAMPAIGN).map(|n| send(handle.clone(), &clock, Lane::Background, format!("reader{n}@fabrikam.example")));
    let resets = (0..RESETS).map(|n| {
        let (handle, clock) = (handle.clone(), &clock);
        async move {
            // People come one after the other, while the campaign runs.
            tokio::time::sleep(Duration::from_millis(500) * n as u32).await;
            let sent = send(handle, clock, Lane::Foreground, format!("ann{n}@contoso.example")).await;
            println!("  reset {n:>2}: accepted after {:>4} ms", sent.as_millis());
            sent
        }
    });
    let (campaign, resets) = futures::join!(join_all(campaign), join_all(resets));

    println!();
    show(Lane::Foreground, resets);
    show(Lane::Background, campaign);
    scheduler.shutdown().await;
    Ok(())
}
