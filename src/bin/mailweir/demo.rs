//! `mailweir demo`: the main job, on this machine alone.
//!
//! A local upstream with Graph-like limits listens on the loopback address; the scheduler sends through the real Graph
//! transport, over real HTTP, in real time, with its outbox in a SQLite file of the moment. A campaign waits in the background of several mailboxes, people arrive in
//! the foreground, and for a while the upstream refuses one mailbox outright. Everything is scaled so that it ends in
//! well under a minute.
//!
//! Nothing in the closing table is the scheduler's own word but the number of cooldowns: the rest is read from the
//! upstream's log. The exit code is 0 only when every invariant holds in it, 1 when one broke or the demo could not
//! start, 130 after Ctrl-C.

mod drive;
mod facts;
mod invariants;
mod measure;
mod plan;
mod scratch;
mod stage;
mod table;
mod watch;

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use mailweir::clock::SystemClock;

use drive::Ending;
use facts::Facts;
use plan::Plan;
use stage::Stage;
use watch::Watch;

/// Ended by Ctrl-C: 128 + SIGINT, as shells have it.
const INTERRUPTED: u8 = 130;

/// What the command line says.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Print the closing facts as JSON
    #[arg(long)]
    json: bool,
    /// Seed of people's arrivals and of the upstream's latencies
    #[arg(long, default_value_t = 7, value_name = "NUMBER")]
    seed: u64,
    /// How long people arrive, in seconds; the campaign grows with it
    #[arg(long, default_value_t = 36, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(12..=600))]
    seconds: u32,
    /// The limits that the scheduler is told, in percent of those that the upstream keeps. For tests: well above 100
    /// the invariants have to break.
    #[arg(long, default_value_t = 100, value_name = "PERCENT", hide = true, value_parser = clap::value_parser!(u32).range(100..=1_000))]
    declared: u32,
}

impl Demo {
    /// Runs it to its end.
    pub(crate) fn run(self) -> ExitCode {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let ended = match runtime {
            Ok(runtime) => runtime.block_on(self.play()),
            Err(error) => Err(error.into()),
        };
        ended.unwrap_or_else(|error| {
            let _ = writeln!(std::io::stderr(), "the demo could not run: {error}");
            ExitCode::FAILURE
        })
    }

    async fn play(self) -> Result<ExitCode, Box<dyn Error>> {
        let clock = Arc::new(SystemClock::new());
        let told = stage::config()?;
        let kept = stage::kept(&told, self.declared)?;
        let plan = Plan::new(&kept, self.seed, self.seconds)?;
        let stage = Stage::open(&plan, told, kept, Arc::clone(&clock)).await?;
        let watch = Watch::start(&plan, &stage)?;
        let run = drive::run(&plan, &stage, &watch).await;
        let played = stage.close(run).await;
        watch.finish();
        let facts = Facts::new(&plan, &played);
        let shown = if self.json { facts.json() } else { table::text(&facts) };
        // A reader that went away early (`| head`) is no mistake.
        let _ = std::io::stdout().write_all(shown.as_bytes());
        Ok(match played.run.ending {
            Ending::Interrupted => ExitCode::from(INTERRUPTED),
            _ if facts.invariants.iter().all(|invariant| invariant.kept) => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        })
    }
}
