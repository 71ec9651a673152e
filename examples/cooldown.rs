//! One throttle, one cooldown, one probe.
//!
//! The provider refuses the third email with `Retry-After: 1`. Everything in the mailbox waits for the same instant, one
//! probe goes first, then the rest. The events of the breaker come through `tracing`; while it is open, `explain`
//! says why the next email waits.
//!
//! `cargo run --example cooldown`

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use mailweir::engine::Wall;
use mailweir::transport::{Answer, Attempt, Throttle, ThrottleKind, Transport, Verdict};
use mailweir::{Config, Email, Lane, Outcome, Scheduler, Submission};

const MAILBOX: &str = "alerts@contoso.example";

/// A provider that has had enough at the third request, once.
#[derive(Debug, Default)]
struct Moody {
    requests: AtomicU32,
}

impl Transport for Moody {
    fn send(&self, _attempt: Attempt) -> BoxFuture<'_, Answer> {
        Box::pin(async {
            // What a provider takes for a request.
            tokio::time::sleep(Duration::from_millis(30)).await;
            if self.requests.fetch_add(1, Ordering::Relaxed) != 2 {
                return Verdict::Accepted.into();
            }
            let retry_after = Some(Duration::from_secs(1));
            let throttle = Throttle { retry_after, scope: None, kind: ThrottleKind::Rate };
            Answer { status: Some(429), ..Verdict::Throttled(throttle).into() }
        })
    }
}

fn email(n: usize) -> Email {
    let mime = format!("From: {MAILBOX}\r\nTo: ops@contoso.example\r\nSubject: Alert {n}\r\n\r\nLook at it.\r\n");
    Email::from_mime(MAILBOX, ["ops@contoso.example"], mime.into_bytes()).expect("a fixed email")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let subscriber = tracing_subscriber::fmt().with_env_filter("mailweir=info").with_ansi(false).finish();
    tracing::subscriber::set_global_default(subscriber)?;

    let mut config = Config::default();
    config.breaker.ramp = Duration::from_secs(1); // 30 s by default: long for an example
    let scheduler = Scheduler::builder(config, Moody::default()).start().await?;
    let handle = scheduler.handle();

    let mut tickets = Vec::new();
    for n in 0..12 {
        tickets.push(handle.submit(Submission::new(MAILBOX, email(n)).lane(Lane::Foreground)).await?);
    }
    // The third request is refused some round trips from now.
    let mut why = handle.explain_mailbox(MAILBOX).await?;
    for _ in 0..500 {
        if why.iter().any(|constraint| constraint.binding && constraint.wall == Wall::Cooldown) {
            break;
        }
        // Between two looks: the condition ends the loop, and the bound if it never comes.
        tokio::time::sleep(Duration::from_millis(10)).await;
        why = handle.explain_mailbox(MAILBOX).await?;
    }
    println!("\nWhy does the next email wait?");
    for constraint in why {
        println!("  {}{}", constraint.wall, if constraint.binding { "   <- binds" } else { "" });
    }
    println!();

    let outcomes = join_all(tickets.into_iter().map(|ticket| ticket.outcome())).await;
    let accepted = outcomes.iter().filter(|outcome| matches!(outcome, Ok(Outcome::Accepted { .. }))).count();
    println!("\n{accepted} of {} accepted; the throttle cost nobody an attempt", outcomes.len());
    scheduler.shutdown().await;
    Ok(())
}
