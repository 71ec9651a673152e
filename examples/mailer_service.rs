//! A mailer service: HTTP in, Microsoft Graph out, the scheduler between.
//!
//! ```text
//! POST /resets            {"id": "reset-1", "to": "ann@fabrikam.example"}          foreground
//! POST /campaigns/NAME    {"to": ["ann@fabrikam.example", ...]}          background
//! GET  /operations/ID     what became of it
//! GET  /why               what the next email waits for
//! ```
//!
//! Graph is played by the local upstream over real HTTP. By itself the program starts both, makes a few requests as a
//! client would, prints the answers and ends: `cargo run --example mailer_service --features graph,upstream,lettre`.
//! With `-- serve` it goes on until Ctrl-C, for `curl`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use mailweir::clock::{Clock as _, SystemClock};
use mailweir::email::EmailParts;
use mailweir::transport::graph::{Credentials, GraphOptions, GraphTransport};
use mailweir::upstream::http::{ServerOptions, UpstreamServer};
use mailweir::upstream::{Profile, Upstream, UpstreamLimit};
use mailweir::{Config, Email, Lane, Scheduler, SchedulerHandle, Submission, SubmitError};
use serde_json::{Value, json};

const MAILBOX: &str = "noreply@contoso.example";

type Failure = Box<dyn std::error::Error>;
type Reply = (StatusCode, HeaderMap, Json<Value>);

#[derive(serde::Deserialize)]
struct Reset {
    /// The service's own id of this reset.
    id: String,
    to: String,
}

#[derive(serde::Deserialize)]
struct Campaign {
    to: Vec<String>,
}

fn email(to: &str, subject: &str, text: &str) -> EmailParts {
    Email::parts().from(MAILBOX).to(to).subject(subject).text(text)
}

fn reply(status: StatusCode, body: Value) -> Reply {
    (status, HeaderMap::new(), Json(body))
}

/// What a refused submission means over HTTP. The scheduler says what is wrong and when to come back; this only translates.
fn refused(error: &SubmitError) -> Reply {
    let status = match error {
        SubmitError::Invalid { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        SubmitError::Conflict { .. } => StatusCode::CONFLICT,
        _ if error.is_retryable() => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let mut headers = HeaderMap::new();
    if let Some(wait) = error.retry_after() {
        headers.insert("retry-after", wait.as_secs().max(1).into());
    }
    (status, headers, Json(json!({ "error": error.to_string(), "field": error.field() })))
}

async fn submit(handle: &SchedulerHandle, submission: Submission) -> Reply {
    match handle.submit(submission).await {
        // The ticket is dropped: the send goes on, and whoever wants to know asks by the id.
        Ok(ticket) => reply(StatusCode::ACCEPTED, json!({ "operation": ticket.operation_id().as_ref() })),
        Err(error) => refused(&error),
    }
}

async fn reset(State(handle): State<SchedulerHandle>, Json(reset): Json<Reset>) -> Reply {
    // The id comes from the reset, not from this request: who clicks twice asks for the same email under the same id, and
    // that is one operation.
    let email = match email(&reset.to, "Your password", "Follow the link.").build() {
        Ok(email) => email,
        Err(error) => return reply(StatusCode::UNPROCESSABLE_ENTITY, json!({ "error": error.to_string() })),
    };
    let submission = Submission::new(MAILBOX, email).lane(Lane::Foreground).operation_id(reset.id);
    submit(&handle, submission.deadline(Duration::from_secs(900))).await
}

async fn campaign(
    State(handle): State<SchedulerHandle>,
    Path(name): Path<String>,
    Json(campaign): Json<Campaign>,
) -> Reply {
    let mut submissions = Vec::new();
    for (n, to) in campaign.to.iter().enumerate() {
        match email(to, "News", "Here they are.").build() {
            // The same POST again is the same operations: nobody gets it twice.
            Ok(email) => submissions
                .push(Submission::new(MAILBOX, email).campaign(name.as_str()).operation_id(format!("{name}-{n}"))),
            Err(error) => return reply(StatusCode::UNPROCESSABLE_ENTITY, json!({ "error": error.to_string() })),
        }
    }
    let answers = handle.submit_many(submissions).await;
    if let Some(Err(error)) = answers.iter().find(|answer| answer.is_err()) {
        return refused(error);
    }
    reply(StatusCode::ACCEPTED, json!({ "taken": answers.len() }))
}

async fn operation(State(handle): State<SchedulerHandle>, Path(id): Path<String>) -> Reply {
    match handle.operation(&id).await {
        Ok(Some(record)) => reply(StatusCode::OK, json!({ "state": record.state, "final": record.state.is_final() })),
        Ok(None) => reply(StatusCode::NOT_FOUND, json!({ "error": format!("no operation {id:?}") })),
        Err(error) => reply(StatusCode::SERVICE_UNAVAILABLE, json!({ "error": error.to_string() })),
    }
}

async fn why(State(handle): State<SchedulerHandle>) -> Reply {
    match handle.explain_mailbox(MAILBOX).await {
        Ok(waits) => {
            let shown =
                |wait: &mailweir::engine::Constraint| json!({ "wall": wait.wall.to_string(), "binds": wait.binding });
            reply(StatusCode::OK, waits.iter().map(shown).collect())
        }
        Err(error) => reply(StatusCode::SERVICE_UNAVAILABLE, json!({ "error": error.to_string() })),
    }
}

fn routes(handle: SchedulerHandle) -> Router {
    Router::new()
        .route("/resets", post(reset))
        .route("/campaigns/{name}", post(campaign))
        .route("/operations/{id}", get(operation))
        .route("/why", get(why))
        .with_state(handle)
}

/// Graph's place is taken by a server in this process that takes 20 requests in two seconds from a mailbox.
async fn graph() -> Result<(UpstreamServer, GraphTransport), Failure> {
    let clock = Arc::new(SystemClock::new());
    let limit = UpstreamLimit::requests(20, Duration::from_secs(2));
    let (upstream, own) = (Upstream::new(Profile::A.model([limit], 7), 7), Arc::clone(&clock));
    let server = UpstreamServer::start(upstream, move || own.now()).await?;
    let known = ServerOptions::default();
    let credentials = Credentials::new("contoso", known.client_id, known.client_secret).authority(server.url());
    let transport = GraphTransport::new(credentials, GraphOptions::default().base_url(server.url()), clock)?;
    transport.check().await?;
    Ok((server, transport))
}

/// What a client of the service would do.
async fn drive(base: &str) -> Result<(), Failure> {
    let client = reqwest::Client::new();
    let readers: Vec<_> = (0..40).map(|n| format!("reader{n}@fabrikam.example")).collect();
    let answer = client.post(format!("{base}/campaigns/news")).json(&json!({ "to": readers })).send().await?;
    println!("POST /campaigns/news  {} {}", answer.status(), answer.text().await?);
    let reset = |to: &str| json!({ "id": "reset-1", "to": to });
    for click in ["first", "second"] {
        let request = client.post(format!("{base}/resets")).json(&reset("ann@fabrikam.example"));
        let answer: Value = request.send().await?.json().await?;
        println!("POST /resets          {answer}   ({click} click)");
    }
    let answer = client.post(format!("{base}/resets")).json(&reset("ann\r\nBcc: eve@evil.example")).send().await?;
    println!("POST /resets          {} {}", answer.status(), answer.text().await?);
    println!("GET  /why             {}", client.get(format!("{base}/why")).send().await?.text().await?);
    for _ in 0..100 {
        // As a client that asks over HTTP would: between two looks.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let answer: Value = client.get(format!("{base}/operations/reset-1")).send().await?.json().await?;
        if answer["final"] == true {
            println!("GET  /operations/reset-1  {answer}");
            break;
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (provider, transport) = graph().await?;
    let config = Config::default().mailbox_limits(["20 requests / 2s".parse()?]);
    let scheduler = Scheduler::builder(config, transport).start().await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let base = format!("http://{}", listener.local_addr()?);
    println!("listening on {base}\n");
    let server = tokio::spawn(axum::serve(listener, routes(scheduler.handle())).into_future());

    if std::env::args().nth(1).as_deref() == Some("serve") {
        println!(
            "curl -d '{{\"id\":\"r1\",\"to\":\"ann@fabrikam.example\"}}' -H 'content-type: application/json' {base}/resets"
        );
        server.await??;
    } else {
        drive(&base).await?;
        server.abort();
    }
    println!("\n{:?}", scheduler.shutdown().await);
    provider.shutdown().await;
    Ok(())
}
