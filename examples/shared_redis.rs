//! Two schedulers, one mailbox, one Redis: one of them owns the mailbox and keeps its limit, both take emails, and when the
//! owner stops the other one goes on.
//!
//! Both run in this program, each as it would in a process of its own; the provider is simulated and refuses whatever is
//! above its limit. `REDIS_URL` names a server; without it the program starts one of its own (`redis-server`), on a free
//! port, that keeps nothing.
//!
//! `cargo run --example shared_redis --features redis`

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mailweir::clock::SystemClock;
use mailweir::scheduler::Order;
use mailweir::store::{RedisOptions, RedisStore};
use mailweir::transport::simulated::SimulatedTransport;
use mailweir::upstream::{Profile, Upstream, UpstreamLimit, check};
use mailweir::{Config, Email, Lane, Scheduler, Submission, Ticket};

const MAILBOX: &str = "noreply@contoso.example";
const EMAILS: usize = 20;

type Failure = Box<dyn std::error::Error>;

/// A server of our own, gone with the value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn server() -> Result<(Option<Server>, String), Failure> {
    if let Ok(url) = std::env::var("REDIS_URL") {
        return Ok((None, url));
    }
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let arguments = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    let child = Command::new("redis-server").args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let server = Server(child.map_err(|error| {
        format!(
            "redis-server: {error}. Install it (apt-get install redis-server, brew install redis), or name a server: \
             REDIS_URL=redis://127.0.0.1:6379"
        )
    })?);
    for _ in 0..200 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok((Some(server), format!("redis://127.0.0.1:{port}")));
        }
        // Between two looks, until the server listens.
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    Err("redis-server did not come up in five seconds".into())
}

fn submission(id: String) -> Result<Submission, Failure> {
    let mime = format!("From: {MAILBOX}\r\nSubject: {id}\r\n\r\nHello.\r\n");
    let email = Email::from_mime(MAILBOX, ["ann@fabrikam.example"], mime.as_bytes())?;
    Ok(Submission::new(MAILBOX, email).lane(Lane::Foreground).operation_id(id))
}

async fn submit(name: &str, scheduler: &Scheduler) -> Result<Vec<Ticket>, Failure> {
    let mut tickets = Vec::new();
    for number in 0..EMAILS {
        tickets.push(scheduler.handle().submit(submission(format!("{name}-{number}"))?).await?);
    }
    Ok(tickets)
}

/// Waits until this one owns the mailbox.
async fn owns(scheduler: &Scheduler) -> Result<(), Failure> {
    for _ in 0..200 {
        // Elsewhere, this is refused with a word about it.
        if scheduler.handle().mailbox(MAILBOX).await.is_ok() {
            return Ok(());
        }
        // Between two looks, until the mailbox has an owner.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err("nobody took the mailbox over in ten seconds".into())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (_own, url) = server().await?;
    let limit = UpstreamLimit::requests(10, Duration::from_secs(1));
    let provider = Arc::new(Mutex::new(Upstream::new(Profile::A.model([limit.clone()], 1), 1)));
    // No key of ours meets one of an earlier run.
    let options = RedisOptions::new().prefix(format!("example-{}", std::process::id()));
    let config = Config::default().mailbox_limits(["10 requests / 1s".parse()?]).application_limits([]);
    let start = async || -> Result<Scheduler, Failure> {
        let transport = SimulatedTransport::new(Arc::clone(&provider), Arc::new(SystemClock::new()));
        let store = RedisStore::open_with(&url, options.clone())?;
        Ok(Scheduler::builder(config.clone(), transport).store(store).start().await?)
    };
    let (first, second) = (start().await?, start().await?);

    let ours = submit("first", &first).await?;
    owns(&first).await?;
    println!("the first owns {MAILBOX}; it took {} emails", ours.len());
    let theirs = submit("second", &second).await?;
    println!("the second took {} more, and asks: {:?}", theirs.len(), second.handle().mailbox(MAILBOX).await.err());
    let answer = second.handle().cancel(&format!("first-{}", EMAILS - 1), Order::new("a slip")).await?;
    println!("the second orders: cancel the first's last one: {answer:?}");

    println!("the first stops: {:?}", first.shutdown().await);
    owns(&second).await?;
    println!("the second owns {MAILBOX} now");
    for ticket in theirs {
        ticket.outcome().await?;
    }
    let counts = second.handle().counts().await?;
    println!("in the store, by state: {counts:?}");
    println!("{:?}", second.shutdown().await);
    let provider = provider.lock().map_err(|_| "the provider panicked")?;
    let (seen, most) = (check::counts(provider.log().iter()), check::max_in_window(provider.log().iter(), &limit));
    println!("the provider took {}, refused {}, most in a second: {most} of 10", seen.executed, seen.refused);
    Ok(())
}
