//! `mailweir plan`: when would a campaign finish under this configuration, and what holds it back?
//!
//! Works offline, from mailboxes that have sent nothing yet; a program asks live ones with `handle.plan`. With
//! `--limit`, `--concurrency` or `--also-from`, the same campaign under other limits, or from several mailboxes, is
//! set beside it.

mod shown;
mod what_if;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mailweir::Lane;
use mailweir::config::{Config, MailboxOverride, parse_size, show_duration};
use mailweir::engine::mailbox::Mailbox;
use mailweir::engine::plan::{self, Forecast};
use mailweir::engine::policy::ScopePolicy;
use mailweir::engine::shared::{MailboxKey, Shared};
use mailweir::engine::{Cost, ScopeKind};
use mailweir::simulation::START;
use serde_json::{Value, json};

use self::shown::Row;
use self::what_if::{Concurrency, Limited};
use super::check::mistakes;
use super::simulate::figures::grouped;

/// Most mailboxes beside the first: each step asks all of them.
const BESIDE_MAX: usize = 100;

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
    #[arg(long, default_value = "noreply@contoso.example", value_name = "ID", value_parser = mailbox_id)]
    mailbox: String,
    /// What if this mailbox helped? Whoever may send next takes the next email
    #[arg(long, value_name = "ID", value_parser = mailbox_id)]
    also_from: Vec<String>,
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
    /// What if there were this limit, such as "60 requests / 1m" or "application:200_000 requests / 10s"? It takes the
    /// place of the one of the same unit and window at its scope, or stands beside the others
    #[arg(long = "limit", value_name = "[SCOPE:]LIMIT")]
    limits: Vec<Limited>,
    /// What if so many attempts could be in flight at once, such as 8 or "application:unlimited"?
    #[arg(long, value_name = "[SCOPE:]NUMBER")]
    concurrency: Vec<Concurrency>,
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

/// Whether a row is about what was asked for beside the configuration.
#[derive(Clone, Copy, Debug)]
enum Change {
    None,
    WhatIf,
}

impl LaneName {
    const fn lane(self) -> Lane {
        match self {
            Self::Foreground => Lane::Foreground,
            Self::Background => Lane::Background,
        }
    }
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| "write a size such as 50kB or 3MB".to_owned())
}

fn mailbox_id(text: &str) -> Result<String, String> {
    // What a configuration may name.
    let trial = Config::default().mailbox_override(text, MailboxOverride::default());
    trial.validate().map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

impl Plan {
    /// Answers 0, or 2 when the configuration or the question is not valid.
    pub(crate) fn run(self) -> ExitCode {
        let config = match self.config.as_ref().map_or_else(|| Ok(Config::default()), Config::from_path) {
            Ok(config) => config,
            Err(error) => {
                let file = self.config.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
                return mistakes::refuse(&file, &error, mistakes::Form::of(self.json));
            }
        };
        if let Err(mistake) = self.check(&config) {
            let _ = writeln!(std::io::stderr(), "error: {mistake}");
            return ExitCode::from(2);
        }
        let cost = self.cost(&config);
        let plan = self.plan(&config, 0, &self.mailbox, self.count);
        let mut rows = vec![self.row(&config, "as configured", plan.forecast(), Change::None)];
        if self.asks_what_if() {
            rows.push(self.row(&config, "what if", self.what_if(&config, plan).forecast(), Change::WhatIf));
        }
        let shown = if self.json { self.json(&rows, cost) } else { self.text(&rows, cost) };
        // A reader that went away early (`| head`) is no mistake.
        let _ = std::io::stdout().write_all(shown.as_bytes());
        ExitCode::SUCCESS
    }
    /// Whether the question fits the configuration; otherwise what is wrong and the way out.
    fn check(&self, config: &Config) -> Result<(), String> {
        let mailboxes = || [&self.mailbox].into_iter().chain(&self.also_from);
        if self.also_from.len() > BESIDE_MAX {
            return Err(format!("--also-from names {} mailboxes: at most {BESIDE_MAX}", self.also_from.len()));
        }
        for (place, mailbox) in mailboxes().enumerate() {
            config.permit_mailbox(mailbox).map_err(|error| error.to_string())?;
            if mailboxes().take(place).any(|earlier| earlier == mailbox) {
                return Err(format!("--also-from {mailbox:?} is part of the plan already: name each mailbox once"));
            }
        }
        let of_tenant = |kind: ScopeKind| kind == ScopeKind::Tenant;
        let is_asked = self.limits.iter().any(|limited| of_tenant(limited.scope))
            || self.concurrency.iter().any(|concurrency| of_tenant(concurrency.scope));
        if is_asked && mailboxes().all(|mailbox| config.tenant_of(mailbox).is_none()) {
            let mailbox = &self.mailbox;
            return Err(format!(
                "\"tenant:\" changes nothing, as {mailbox:?} has no tenant: give it one in the configuration \
                 ([mailboxes.{mailbox:?}] tenant = \"…\")"
            ));
        }
        Ok(())
    }

    /// What each email takes, by way of the configured transport.
    fn cost(&self, config: &Config) -> Cost {
        // All recipients as external ones: the stricter reading.
        let counted = Cost { external_recipients: self.recipients, ..Cost::email(self.recipients, self.bytes) };
        config.transport.cost(counted)
    }

    /// The question about a mailbox that has sent nothing yet, one of several by its number.
    fn plan(&self, config: &Config, number: u32, mailbox: &str, count: u64) -> plan::Plan {
        let id: Arc<str> = Arc::from(mailbox);
        let mailbox = Mailbox::new(Arc::clone(&id), config.mailbox_policy(&id));
        plan::Plan::new(mailbox.snapshot(START), count, self.lane.lane())
            .with_shared(Shared::new(config.shared_policy()), MailboxKey(number))
            .cost(self.cost(config))
            .tenant(config.tenant_of(&id).cloned())
            .latency(Duration::from_millis(self.latency.into()))
    }

    fn asks_what_if(&self) -> bool {
        !(self.limits.is_empty() && self.concurrency.is_empty() && self.also_from.is_empty())
    }

    fn what_if(&self, config: &Config, plan: plan::Plan) -> plan::Plan {
        let others = (1..).zip(&self.also_from).map(|(number, id)| self.plan(config, number, id, 0));
        let plan = others.fold(plan, plan::Plan::also_from);
        let plan = self.limits.iter().fold(plan, |plan, limited| plan.limit(limited.scope, limited.limit));
        self.concurrency.iter().fold(plan, |plan, asked| plan.concurrency(asked.scope, asked.most))
    }

    /// What comes of it, with the limits that it goes by.
    fn row(&self, config: &Config, name: &'static str, forecast: Forecast, change: Change) -> Row {
        let changed = |kind, policy: &ScopePolicy| match change {
            Change::None => policy.clone(),
            Change::WhatIf => what_if::changed(policy.clone(), kind, &self.limits, &self.concurrency),
        };
        let of_mailbox = |id: &str| changed(ScopeKind::Mailbox, &config.mailbox_policy(id).scope);
        let mailboxes = forecast.senders.iter().map(|sender| of_mailbox(&sender.mailbox)).collect();
        let shared = config.shared_policy();
        let shared = [(ScopeKind::Tenant, &shared.tenant), (ScopeKind::Application, &shared.application)];
        let shared = shared.map(|(kind, policy)| (kind, changed(kind, policy)));
        let shared = shared.into_iter().filter(|(_, policy)| policy.is_limited()).collect();
        Row { name, mailboxes, shared, forecast }
    }

    fn text(&self, rows: &[Row], cost: Cost) -> String {
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
        rows.iter().for_each(|row| out.push_str(&row.text()));
        out.push_str(&format!(
            "\nAssumed: nobody else submits anything, every email is accepted at the first attempt after {}, nothing has \
             been sent before.\n",
            show_duration(Duration::from_millis(self.latency.into()))
        ));
        out
    }

    fn json(&self, rows: &[Row], cost: Cost) -> String {
        let plans: Vec<Value> = rows.iter().map(Row::json).collect();
        let assumed = json!({ "latency_ms": self.latency, "others": "none", "failures": "none" });
        format!(
            "{}\n",
            json!({ "count": self.count, "mailbox": self.mailbox, "requests_each": cost.requests, "plans": plans, "assumed": assumed })
        )
    }
}
