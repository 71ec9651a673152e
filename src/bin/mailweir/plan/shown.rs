//! What a plan answers, as text and as JSON.

use std::time::Duration;

use mailweir::config::show_duration;
use mailweir::engine::ScopeKind;
use mailweir::engine::plan::{self, Bound, Forecast, Method};
use mailweir::engine::policy::ScopePolicy;
use mailweir::engine::{Limit, Timestamp, Unit, Wall};
use serde_json::{Value, json};

use crate::simulate::figures::{grouped, span};

/// Most constraints that the text shows.
const BOUNDS_MAX: usize = 6;

/// One way to carry the campaign out, and what comes of it.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// The mailboxes it leaves from, in the order of [`Forecast::senders`], with what holds for each.
    pub(super) mailboxes: Vec<ScopePolicy>,
    /// What they share, where that is limited.
    pub(super) shared: Vec<(ScopeKind, ScopePolicy)>,
    pub(super) forecast: Forecast,
}

impl Row {
    /// Its limits, its end, and what holds it back.
    pub(super) fn text(&self) -> String {
        let mut out = format!("\n{}: ", self.name);
        match &self.mailboxes[..] {
            [only] => out.push_str(&in_words(only)),
            several => out.push_str(&format!("from {} mailboxes", several.len())),
        }
        for (kind, policy) in &self.shared {
            out.push_str(&format!("; {kind}: {}", in_words(policy)));
        }
        out.push('\n');
        out.push_str(&outcome(&self.forecast));
        if self.mailboxes.len() > 1 {
            for (sender, policy) in self.forecast.senders.iter().zip(&self.mailboxes) {
                out.push_str(&format!("  {} from {}: {}\n", grouped(sender.count), sender.mailbox, in_words(policy)));
            }
        }
        out
    }

    pub(super) fn json(&self) -> Value {
        let forecast = &self.forecast;
        let seconds = |at: Option<Timestamp>| at.map(|at| at.since(forecast.at).as_secs_f64());
        let scope = |policy: &ScopePolicy| {
            json!({
                "limits": policy.limits.iter().map(Limit::to_string).collect::<Vec<_>>(),
                "concurrency": policy.concurrency,
            })
        };
        let senders = forecast.senders.iter().zip(&self.mailboxes).map(|(sender, policy)| {
            let mut facts = scope(policy);
            facts["mailbox"] = json!(&*sender.mailbox);
            facts["count"] = json!(sender.count);
            facts
        });
        let shared = self.shared.iter().map(|(kind, policy)| (kind.to_string(), scope(policy)));
        json!({
            "name": self.name,
            "senders": senders.collect::<Vec<_>>(),
            "shared": shared.collect::<serde_json::Map<_, _>>(),
            "first_send_s": seconds(forecast.first_send),
            "finish_s": seconds(forecast.finish),
            "deadline_s": seconds(Some(forecast.deadline)),
            "past_deadline": forecast.past_deadline,
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
    }
}

/// The limits of a scope, and how many attempts at once.
fn in_words(policy: &ScopePolicy) -> String {
    let mut words: Vec<String> = policy.limits.iter().map(Limit::to_string).collect();
    words.extend(policy.concurrency.map(|most| format!("{most} at once")));
    if words.is_empty() { "no limits".to_owned() } else { words.join(", ") }
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
    if forecast.past_deadline > 0 {
        let (past, deadline) = (grouped(forecast.past_deadline), show_duration(forecast.deadline.since(forecast.at)));
        out.push_str(&format!(
            "  but {past} of them are not sent within their deadline of {deadline}, and are given up then: submit them \
             later, with a longer deadline (retry.deadline), or get more room\n"
        ));
    }
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
