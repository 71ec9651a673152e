//! `mailweir check FILE`: is this configuration valid, and what do its limits come to?
//!
//! Facts go to standard output, mistakes to standard error with the line underlined; with `--json` both are one
//! object on standard output.

mod facts;
pub(crate) mod mistakes;
mod table;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use mailweir::config::{Config, parse_size};
use mailweir::engine::Cost;

/// What the command line says.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The configuration file
    file: PathBuf,
    /// Print the facts as JSON
    #[arg(long)]
    json: bool,
    /// Recipients of the email that throughput is given for
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    recipients: u32,
    /// Size of that email as sent
    #[arg(long, default_value = "50kB", value_name = "SIZE", value_parser = size)]
    size: u64,
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| "write a size such as 50kB or 3MB".to_owned())
}

impl Check {
    /// Checks, prints, and answers 0 for valid and 2 for anything else.
    pub(crate) fn run(self) -> ExitCode {
        let file = self.file.display().to_string();
        match Config::from_path(&self.file) {
            Ok(config) => {
                // All recipients as external ones: the stricter reading.
                let email = Cost { external_recipients: self.recipients, ..Cost::email(self.recipients, self.size) };
                let email = config.transport.cost(email);
                let facts = || format!("{}\n", facts::json(&file, &config, &email));
                print(&if self.json { facts() } else { table::text(&file, &config, &email) });
                ExitCode::SUCCESS
            }
            Err(error) => mistakes::refuse(&file, &error, mistakes::Form::of(self.json)),
        }
    }
}

/// Writes to standard output; a reader that went away early (`| head`) is no mistake.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
