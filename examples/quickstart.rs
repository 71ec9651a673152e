//! The smallest program that sends: a scheduler, an email, an answer.
//!
//! Nothing leaves the machine: the transport goes to a simulated provider that keeps real limits.
//!
//! `cargo run --example quickstart`

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mailweir::clock::SystemClock;
use mailweir::transport::simulated::SimulatedTransport;
use mailweir::upstream::{Profile, Upstream, UpstreamLimit};
use mailweir::{Config, Email, Lane, Scheduler, Submission};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scheduler = Scheduler::builder(Config::default(), provider()).start().await?;
    let handle = scheduler.handle();

    let mime = "From: noreply@contoso.example\r\nTo: ann@fabrikam.example\r\nSubject: Your code\r\n\r\n123 456\r\n";
    let email = Email::from_mime("noreply@contoso.example", ["ann@fabrikam.example"], mime.as_bytes())?;
    let submission = Submission::new("noreply@contoso.example", email)
        .lane(Lane::Foreground)
        .operation_id("code-for-ann-1")
        .deadline(Duration::from_secs(60));

    let ticket = handle.submit(submission.clone()).await?;
    println!("submitted as {}", ticket.operation_id());
    println!("outcome: {:?}", ticket.outcome().await?);

    // A second click, a retry after a lost answer: the same id is the same operation, and nothing is sent twice.
    let again = handle.submit(submission).await?;
    println!("submitted again as {}: {:?}", again.operation_id(), again.outcome().await?);

    let record = handle.operation("code-for-ann-1").await?.ok_or("it was just sent")?;
    println!("in the store: {}, leaving from {}", record.state, record.mailbox);
    println!("{:?}", scheduler.shutdown().await);
    Ok(())
}

/// A provider in this process that takes 30 requests a minute from each mailbox.
fn provider() -> SimulatedTransport {
    let limit = UpstreamLimit::requests(30, Duration::from_secs(60));
    let upstream = Upstream::new(Profile::A.model([limit], 1), 1);
    SimulatedTransport::new(Arc::new(Mutex::new(upstream)), Arc::new(SystemClock::new()))
}
