//! The `mailweir` program. Each command has a file of its own; this one only reads the command line.

mod check;
mod demo;
mod plan;
mod simulate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Checks, plans and rehearses what a scheduler would do with a configuration.
#[derive(Debug, Parser)]
#[command(name = "mailweir", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a configuration and print what its limits come to
    Check(check::Check),
    /// Run the main job on this machine: a local upstream, a campaign, people, one throttle
    ///
    /// Ends by itself in under a minute, with 0 when every invariant held in the upstream's log, else with 1.
    /// RUST_LOG=mailweir=debug shows every send.
    Demo(demo::Demo),
    /// Say when a campaign would finish under a configuration, and what holds it back
    ///
    /// Works from the file alone: a mailbox that has sent nothing yet. Nothing is sent and nothing is drawn by chance.
    Plan(plan::Plan),
    /// Run a scenario in virtual time: the real engines, or the whole scheduler, against a model of the provider
    ///
    /// One seed decides everything. Ends with 0 when every invariant held, with 1 when one broke, with 2 when the
    /// scenario is not valid. `examples/scenarios/` has some to begin with.
    Simulate(simulate::Simulate),
}

/// Ends with 0 when all is well, with 2 when what was handed in is wrong (clap's own answer to a bad command line),
/// with 1 for everything else.
fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Check(check) => check.run(),
        Command::Demo(demo) => demo.run(),
        Command::Plan(plan) => plan.run(),
        Command::Simulate(simulate) => simulate.run(),
    }
}
