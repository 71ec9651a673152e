//! Peers of Node (Bottleneck, BullMQ) and mailweir over real HTTP against the local upstream, one after the other.
//!
//! Scenario S0 at twenty times its speed: 200 background emails at once under 30 in 3 s, exact Retry-After, and thirty people, one
//! a second and a half; and the same with another client that spends two windows ten seconds in, as T4. On each
//! profile, all four at once: every one has an upstream and a process of its own, and little to do. Requests take their usual
//! third of a second, which is much for a window of 3 s: the figures are not those of S0, only rows of one table can be
//! compared. `bench/node/run` starts it.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use mailweir::clock::{Clock, SystemClock};
use mailweir::engine::Cost;
use mailweir::transport::graph::{Credentials, GraphOptions, GraphTransport};
use mailweir::upstream::http::{ServerOptions, UpstreamServer};
use mailweir::upstream::{ConcurrencyLimit, Profile, Upstream, UpstreamLimit, check};
use mailweir::{Config, Email, Lane, Outcome, Scheduler, Submission};
use serde_json::Value;

const LIMIT: u64 = 30;
const WINDOW: Duration = Duration::from_secs(3);
const CAMPAIGN: usize = 200;
const PEOPLE: usize = 30;
const GAP: Duration = Duration::from_millis(1_500);
const CUT_OFF: Duration = Duration::from_secs(90);
const MAILBOX: &str = "noreply@contoso.example";
/// When another client spends, and how much.
const BURN_AFTER: Duration = Duration::from_secs(10);
const BURN: u32 = 60;

/// What happens beside the load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scenario {
    Quiet,
    Burned,
}

const SCENARIOS: [(Scenario, &str); 2] =
    [(Scenario::Quiet, "S0 over HTTP, 30 in 3 s"), (Scenario::Burned, "the same; after 10 s another client spends 60")];

struct Figures {
    done: Option<Duration>,
    waits: Vec<Duration>,
    refused: u64,
}

async fn server(profile: Profile, scenario: Scenario) -> (UpstreamServer, Arc<SystemClock>) {
    let mut model = profile.model([UpstreamLimit::requests(LIMIT, WINDOW)], 7);
    model.concurrency = vec![ConcurrencyLimit::new(mailweir::engine::ScopeKind::Mailbox, 4)];
    let clock = Arc::new(SystemClock::new());
    let own = Arc::clone(&clock);
    let server = UpstreamServer::start(Upstream::new(model, 7), move || own.now()).await.expect("a free port");
    if scenario == Scenario::Burned {
        let (upstream, clock) = (server.upstream(), Arc::clone(&clock));
        tokio::spawn(async move {
            // In real time, as all of it.
            tokio::time::sleep(BURN_AFTER).await;
            let cost = Cost { requests: BURN, ..Cost::ONE_REQUEST };
            upstream.lock().expect("not poisoned").burn(clock.now(), &Arc::from(MAILBOX), None, cost);
        });
    }
    (server, clock)
}

async fn token(server: &UpstreamServer) -> String {
    let known = ServerOptions::default();
    let form = [
        ("grant_type", "client_credentials"),
        ("client_id", known.client_id.as_str()),
        ("client_secret", known.client_secret.as_str()),
        ("scope", "x/.default"),
    ];
    let url = format!("{}/contoso/oauth2/v2.0/token", server.url());
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let answer = client.post(url).form(&form).send().await.expect("a token");
    let body: Value = answer.json().await.expect("JSON");
    body["access_token"].as_str().expect("a token").to_owned()
}

async fn of_node(peer: &str, script: &str, profile: Profile, scenario: Scenario) -> Figures {
    let (server, _) = server(profile, scenario).await;
    let millis = |span: Duration| span.as_millis().to_string();
    let mut command = Command::new("node");
    command.arg(script).env("PEER", peer).env("URL", server.url()).env("TOKEN", token(&server).await);
    command.env("LIMIT", LIMIT.to_string()).env("WINDOW", millis(WINDOW)).env("CAMPAIGN", CAMPAIGN.to_string());
    command.env("PEOPLE", PEOPLE.to_string()).env("GAP", millis(GAP)).env("CUT_OFF", millis(CUT_OFF));
    command.stdout(Stdio::piped());
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("it ran").expect("node starts");
    assert!(output.status.success(), "{peer} ended with {}", output.status);
    let said: Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    let span = |value: &Value| Duration::from_millis(value.as_u64().unwrap_or_default());
    let finished = said["finished"].as_bool().unwrap_or_default();
    let done = finished.then(|| span(&said["campaignDone"]));
    let waits = said["waits"].as_array().map(|all| all.iter().map(span).collect()).unwrap_or_default();
    figures(done, waits, server).await
}

async fn of_ours(profile: Profile, scenario: Scenario) -> Figures {
    let (server, clock) = server(profile, scenario).await;
    let known = ServerOptions::default();
    let credentials = Credentials::new("contoso", known.client_id, known.client_secret).authority(server.url());
    let options = GraphOptions::default().base_url(server.url());
    let transport =
        GraphTransport::new(credentials, options, Arc::clone(&clock) as Arc<dyn Clock>).expect("a transport");
    transport.check().await.expect("it answers");
    let limit = format!("{LIMIT} requests / {}s", WINDOW.as_secs()).parse().expect("a limit");
    let config = Config::default().mailbox_limits([limit]);
    let scheduler = Scheduler::builder(config, transport).start().await.expect("it starts");
    let handle = scheduler.handle();
    let clock = Arc::new(SystemClock::new());
    let start = clock.now();
    let submit = |number: usize, lane: Lane| {
        let (handle, clock) = (handle.clone(), Arc::clone(&clock));
        async move {
            let asked = clock.now().since(start);
            let email = Email::parts().from(MAILBOX).to("ann@fabrikam.example").subject("s").text("t");
            let email = email.message_id(format!("<{lane:?}{number}@contoso.example>")).build().expect("an email");
            let ticket = handle.submit(Submission::new(MAILBOX, email).lane(lane)).await.expect("it is taken in");
            let taken = matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. }));
            (taken, asked, clock.now().since(start))
        }
    };
    let campaign: Vec<_> = (0..CAMPAIGN).map(|number| tokio::spawn(submit(number, Lane::Background))).collect();
    let mut people = Vec::new();
    for number in 0..PEOPLE {
        // People come one after the other, in real time: the peers of Node know no other.
        tokio::time::sleep(GAP).await;
        people.push(tokio::spawn(submit(number, Lane::Foreground)));
    }
    let mut ends = Vec::new();
    for one in campaign {
        ends.push(one.await.expect("it ran"));
    }
    let mut waits = Vec::new();
    for one in people {
        let (_, asked, ended) = one.await.expect("it ran");
        waits.push(ended - asked);
    }
    let done = ends.iter().all(|end| end.0).then(|| ends.iter().map(|end| end.2).max().unwrap_or_default());
    scheduler.shutdown().await;
    figures(done, waits, server).await
}

async fn figures(done: Option<Duration>, mut waits: Vec<Duration>, server: UpstreamServer) -> Figures {
    waits.sort_unstable();
    let counts = check::counts(&server.log());
    server.shutdown().await;
    Figures { done, waits, refused: counts.refused }
}

impl Figures {
    /// As in the table of the other peers: done, 429s, and how long people waited: half of them, the longest.
    fn cell(&self) -> String {
        let at = |percent: usize| self.waits.get(self.waits.len().saturating_sub(1) * percent / 100);
        let seconds =
            |span: Option<&Duration>| span.map_or("–".to_owned(), |it| format!("{:.1} s", it.as_secs_f64()));
        let done = self.done.as_ref().map_or("not done".to_owned(), |done| seconds(Some(done)));
        format!("{done}; {}; {} / {}", self.refused, seconds(at(50)), seconds(at(100)))
    }
}

fn row(name: &str, figures: &[Figures]) {
    let cells: Vec<String> = figures.iter().map(Figures::cell).collect();
    println!("| {name} | {} |", cells.join(" | "));
}

async fn table(script: &str, scenario: Scenario, head: &str) {
    println!("| {head} | A | B | C | D |");
    println!("|---|---|---|---|---|");
    let node = |peer| Profile::ALL.map(|profile| of_node(peer, script, profile, scenario));
    row("Bottleneck, reservoir and priorities", &join_all(node("bottleneck")).await);
    row("BullMQ, limiter and priorities", &join_all(node("bullmq")).await);
    row("**mailweir**", &join_all(Profile::ALL.map(|profile| of_ours(profile, scenario))).await);
    println!();
}

fn main() {
    let script = std::env::args().find(|word| word.ends_with(".mjs")).expect("start it with bench/node/run");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for (scenario, head) in SCENARIOS {
            table(&script, scenario, head).await;
        }
    });
}
