//! `mailweir simulate SCENARIO.toml`: a scenario in virtual time, with the real engines against the upstream model; with
//! `--actors`, the whole scheduler.
//!
//! Facts go to standard output, progress and mistakes to standard error. The exit code is 0 when every invariant held
//! in every run, 1 when one broke, 2 when the scenario is not valid.
//!
//! Runs are one after the other, each on one core: what is measured here is the engine's own speed too.

pub(crate) mod figures;
mod json;
mod plots;
mod text;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use mailweir::clock::{Clock, SystemClock};
use mailweir::scheduler::{RehearsalError, rehearse};
use mailweir::simulation::report::Report;
use mailweir::simulation::scenario::Scenario;
use mailweir::simulation::{START, World};
use mailweir::upstream::Profile;

use super::check::mistakes;
use figures::Run;

/// What the command line says.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// The scenario
    scenario: PathBuf,
    /// Another seed than the scenario's
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// So many runs, with seeds one after the other, and their means
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// Another kind of provider than the scenario's: A accruing rolling, B mild rolling, C fixed, D bucket
    #[arg(long, value_name = "A|B|C|D")]
    profile: Option<ProfileName>,
    /// Run the whole scheduler, its actors and its outbox in memory, not the engines alone
    #[arg(long)]
    actors: bool,
    /// Print events and figures as JSON lines
    #[arg(long)]
    json: bool,
    /// Draw the (first) run into SVG files in this folder
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
}

/// A profile, as the command line spells it.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "UPPER")]
enum ProfileName {
    A,
    B,
    C,
    D,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::A => Self::A,
            ProfileName::B => Self::B,
            ProfileName::C => Self::C,
            ProfileName::D => Self::D,
        }
    }
}

impl Simulate {
    /// Runs it and prints what it came to.
    pub(crate) fn run(self) -> ExitCode {
        let scenario = match Scenario::from_path(&self.scenario) {
            Ok(scenario) => scenario,
            Err(error) => {
                return mistakes::refuse(&self.scenario.display().to_string(), &error, mistakes::Form::of(self.json));
            }
        };
        let scenario = match self.profile {
            Some(profile) => scenario.on_profile(profile.into()),
            None => scenario,
        };
        let first = self.seed.unwrap_or(scenario.seed);
        let mut runs = Vec::new();
        for seed in (0..u64::from(self.runs)).map(|number| first.wrapping_add(number)) {
            let _told = Told(self.replay(seed));
            let (world, run) = match self.one(&scenario, seed) {
                Ok(one) => one,
                Err(error) => return refuse(&error),
            };
            if self.json {
                print(&json::events(&world, &run));
            }
            if runs.is_empty()
                && let Some(folder) = &self.plots
                && let Err(error) = plots::draw(folder, &scenario, &world)
            {
                let _ = writeln!(std::io::stderr(), "cannot draw into {}: {error}", folder.display());
                return ExitCode::FAILURE;
            }
            runs.push(run);
        }
        let replay = |seed| self.replay(seed);
        print(&if self.json {
            json::summaries(&scenario, &runs, replay)
        } else {
            text::summary(&scenario, &runs, replay)
        });
        if runs.iter().all(|run| run.report.is_sound()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// The command that runs one seed again.
    fn replay(&self, seed: u64) -> String {
        let profile = self.profile.map(|profile| format!(" --profile {profile:?}")).unwrap_or_default();
        let actors = if self.actors { " --actors" } else { "" };
        format!("mailweir simulate {} --seed {seed}{profile}{actors}", self.scenario.display())
    }

    fn one(&self, scenario: &Scenario, seed: u64) -> Result<(World, Run), RehearsalError> {
        let bar = if std::io::stderr().is_terminal() { ProgressBar::new(1_000) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{bar:30} {msg}").map(|style| style.progress_chars("━━╌"));
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let clock = SystemClock::new();
        let start = clock.now();
        let show = |passed: Duration, pending: usize| {
            let (part, text) = (passed.as_secs_f64() / scenario.until.as_secs_f64(), figures::span(passed));
            bar.set_position((part * 1_000.0) as u64);
            bar.set_message(format!("seed {seed}  {text} passed, {pending} pending"));
        };
        let world = if self.actors {
            rehearse(scenario, seed, |so_far| show(so_far.now.since(START), so_far.pending))?
        } else {
            scenario.run(seed, |world| show(world.now().since(world.start()), world.pending()))
        };
        let took = clock.now().since(start).max(Duration::from_micros(1));
        bar.set_message(format!("seed {seed}  reading the log"));
        let report = Report::of(scenario, &world, seed);
        bar.finish_and_clear();
        Ok((world, Run { report, took }))
    }
}

/// A run that panics ends with the command that replays it, as one that breaks an invariant does.
struct Told(String);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "replay: {}", self.0);
        }
    }
}

/// Says why a scenario could not be carried out.
fn refuse(error: &RehearsalError) -> ExitCode {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    let _ = writeln!(std::io::stderr(), "cannot run it through the actors: {text}");
    ExitCode::FAILURE
}

/// Writes to standard output; a reader that went away early (`| head`) is no mistake.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
