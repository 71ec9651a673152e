//! `mailweir plan`: when would a campaign finish under this configuration, and what holds it back?
//!
//! Works offline, from a mailbox that has sent nothing yet; a program asks a live one with `handle.plan`. With
//! `--limit`, the same campaign under other limits of the mailbox is set beside it.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mailweir::config::{Config, parse_size, show_duration};
use mailweir::engine::mailbox::Mailbox;
use mailweir::engine::plan::{self, Bound, Forecast, Method};
use mailweir::engine::shared::{MailboxKey, Shared};
use mailweir::engine::{Cost, Limit, Timestamp, Unit, Wall};
use mailweir::simulation::START;
use mailweir::{Lane, engine::ScopeKind};
use serde_json::{Value, json};

use super::check::mistakes;
use super::simulate::figures::{grouped, span};

/// Most constraints that the text shows.
const BOUNDS_MAX: usize = 6;

/// What the command line says.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// The configuration file; without one, the defaults
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Emails of the campaign
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    count: u64,
    /// The mailbox it leaves from
    #[arg(long, default_value = "noreply@contoso.example", value_name = "ID")]
    mailbox: String,
    /// Its lane
    #[arg(long, default_value = "background")]
    lane: LaneName,
    /// Recipients of each email
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    recipients: u32,
    /// Size of each email as sent
    #[arg(long, default_value = "50kB", value_name = "SIZE", value_parser = size)]
    bytes: u64,
    /// What one attempt is assumed to take
    #[arg(long, default_value_t = u32::try_from(plan::LATENCY.as_millis()).unwrap_or(0), value_name = "MILLISECONDS")]
    latency: u32,
    /// What if the mailbox had this limit, such as "60 requests / 1m"? Together they replace all of its limits
    #[arg(long = "limit", value_name = "LIMIT", value_parser = limit)]
    limits: Vec<Limit>,
    /// Print the facts as JSON
    #[arg(long)]
    json: bool,
}

/// A lane, as the command line spells it.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum LaneName {
    Foreground,
    Background,
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| "write a size such as 50kB or 3MB".to_owned())
}

fn limit(text: &str) -> Result<Limit, String> {
    text.parse().map_err(|error: mailweir::engine::limit::LimitError| error.to_string())
}

impl Plan {
    /// Answers 0, or 2 when the configuration is not valid.
    pub(crate) fn run(self) -> ExitCode {
        let config = match self.config.as_ref().map_or_else(|| Ok(Config::default()), Config::from_path) {
            Ok(config) => config,
            Err(error) => {
                let file = self.config.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
                return mistakes::refuse(&file, &error, mistakes::Form::of(self.json));
            }
        };
        let limits = config.mailbox_policy(&self.mailbox).scope.limits.clone();
        let (plan, cost) = (self.plan(&config), self.cost(&config));
        let mut rows = vec![("as configured", limits, plan.forecast())];
        if !self.limits.is_empty() {
            rows.push(("what if", self.limits.clone(), plan.with_limits(self.limits.clone()).forecast()));
        }
        let shown = if self.json { self.json(&rows, cost) } else { self.text(&rows, cost) };
        // A reader that went away early (`| head`) is no mistake.
        let _ = std::io::stdout().write_all(shown.as_bytes());
        ExitCode::SUCCESS
    }

    /// What each email takes, by way of the configured transport.
    fn cost(&self, config: &Config) -> Cost {
        // All recipients as external ones: the stricter reading.
        let counted = Cost { external_recipients: self.recipients, ..Cost::email(self.recipients, self.bytes) };
        config.transport.cost(counted)
    }

    /// The question about a mailbox that has sent nothing yet.
    fn plan(&self, config: &Config) -> plan::Plan {
        let id: Arc<str> = Arc::from(self.mailbox.as_str());
        let mailbox = Mailbox::new(Arc::clone(&id), config.mailbox_policy(&id));
        let lane = match self.lane {
            LaneName::Foreground => Lane::Foreground,
            LaneName::Background => Lane::Background,
        };
        plan::Plan::new(mailbox.snapshot(START), self.count, lane)
            .with_shared(Shared::new(config.shared_policy()), MailboxKey(0))
            .cost(self.cost(config))
            .tenant(config.tenant_of(&id).cloned())
            .latency(Duration::from_millis(self.latency.into()))
    }

    fn text(&self, rows: &[(&str, Vec<Limit>, Forecast)], cost: Cost) -> String {
        let lane = self.lane.to_possible_value().map(|name| name.get_name().to_owned()).unwrap_or_default();
        let mut out = format!(
            "{} emails from {}, {lane}, {} request{}, {} recipient{} and {} each\n",
            grouped(self.count),
            self.mailbox,
            cost.requests,
            if cost.requests == 1 { "" } else { "s" },
            self.recipients,
            if self.recipients == 1 { "" } else { "s" },
            mailweir::config::show_size(self.bytes),
        );
        for (name, limits, forecast) in rows {
            let shown: Vec<String> = limits.iter().map(Limit::to_string).collect();
            let shown = if shown.is_empty() { "no limits".to_owned() } else { shown.join(", ") };
            out.push_str(&format!("\n{name}: {shown}\n{}", outcome(forecast)));
        }
        out.push_str(&format!(
            "\nAssumed: nobody else submits anything, every email is accepted at the first attempt after {}, nothing has \
             been sent before.\n",
            show_duration(Duration::from_millis(self.latency.into()))
        ));
        out
    }

    fn json(&self, rows: &[(&str, Vec<Limit>, Forecast)], cost: Cost) -> String {
        let plans: Vec<Value> = rows
            .iter()
            .map(|(name, limits, forecast)| {
                let seconds = |at: Option<Timestamp>| at.map(|at| at.since(forecast.at).as_secs_f64());
                json!({
                    "name": name,
                    "limits": limits.iter().map(Limit::to_string).collect::<Vec<_>>(),
                    "first_send_s": seconds(forecast.first_send),
                    "finish_s": seconds(forecast.finish),
                    "per_minute": per_minute(forecast),
                    "method": match forecast.method { Method::Stepped => "stepped", Method::Extrapolated => "extrapolated" },
                    "never_fits": forecast.never_fits.map(|limit| limit.to_string()),
                    "bounds": forecast.bounds.iter().map(|bound| json!({
                        "constraint": bound.wall.to_string(),
                        "scope": bound.scope,
                        "total_s": bound.total.as_secs_f64(),
                        "from_s": bound.from.since(forecast.at).as_secs_f64(),
                        "until_s": bound.until.since(forecast.at).as_secs_f64(),
                    })).collect::<Vec<_>>(),
                })
            })
            .collect();
        let assumed = json!({ "latency_ms": self.latency, "others": "none", "failures": "none" });
        format!(
            "{}\n",
            json!({ "count": self.count, "mailbox": self.mailbox, "requests_each": cost.requests, "plans": plans, "assumed": assumed })
        )
    }
}

fn per_minute(forecast: &Forecast) -> Option<f64> {
    let minutes = forecast.takes()?.as_secs_f64() / 60.0;
    (minutes > 0.0).then(|| forecast.count as f64 / minutes)
}

fn outcome(forecast: &Forecast) -> String {
    let Some(takes) = forecast.takes() else {
        return match (forecast.never_fits, forecast.blocked_by) {
            (Some(limit), _) => format!("  never: such an email is above what {limit} can hold\n"),
            (None, Some(constraint)) => {
                format!("  never by itself: held by {}\n", wall(constraint.wall, constraint.scope))
            }
            (None, None) => "  never by itself\n".to_owned(),
        };
    };
    let first = forecast.first_send.map(|at| at.since(forecast.at)).unwrap_or_default();
    let mut out = format!("  done after {}, the first at {}", span(takes), span(first));
    if let Some(rate) = per_minute(forecast) {
        out.push_str(&format!(", {rate:.1} a minute on average"));
    }
    out.push('\n');
    for bound in forecast.bounds.iter().take(BOUNDS_MAX) {
        out.push_str(&format!("  {:<46}{}\n", wall(bound.wall, bound.scope), held(bound, forecast)));
    }
    if forecast.method == Method::Extrapolated {
        let stepped = grouped(plan::STEPS_MAX);
        out.push_str(&format!("  the first {stepped} were stepped through, the rest is taken at their later rate\n"));
    }
    out
}

fn held(bound: &Bound, forecast: &Forecast) -> String {
    let part = forecast.takes().map_or(0.0, |takes| bound.total.as_secs_f64() / takes.as_secs_f64().max(1e-9));
    let (from, until) = (bound.from.since(forecast.at), bound.until.since(forecast.at));
    format!("binds for {} ({:.0} %), from {} to {}", span(bound.total), part * 100.0, span(from), span(until))
}

/// A constraint in words.
fn wall(wall: Wall, scope: ScopeKind) -> String {
    let window = |what: &str, unit: Unit, seconds: u32| {
        format!("{what} of {unit} per {}", show_duration(Duration::from_secs(seconds.into())))
    };
    let what = match wall {
        Wall::Window { unit, seconds } => window("the window", unit, seconds),
        Wall::Reserve { unit, seconds } => window("the reserve", unit, seconds),
        Wall::Pace { unit, seconds } => window("the pace", unit, seconds),
        Wall::Share { unit, seconds } => window("the share", unit, seconds),
        other => other.to_string(),
    };
    format!("{scope}: {what}")
}
