//! A configuration's facts as JSON.

use std::time::Duration;

use mailweir::config::{Binds, Config, LimitFacts, Rate, ScopeFacts, Source};
use mailweir::engine::Cost;
use serde_json::{Value, json};

/// Minute, hour, day: what rates are given for.
pub(crate) const SPANS: [(&str, Duration); 3] =
    [("minute", Duration::from_secs(60)), ("hour", Duration::from_secs(3_600)), ("day", Duration::from_secs(86_400))];

/// Everything that `check` prints, as one object.
pub(crate) fn json(file: &str, config: &Config, email: &Cost) -> Value {
    let settings: Vec<Value> = config
        .settings()
        .iter()
        .map(|setting| json!({ "key": setting.key, "value": setting.value, "source": source(&setting.source) }))
        .collect();
    json!({
        "file": file,
        "valid": true,
        "email": { "requests": email.requests, "recipients": email.recipients, "bytes": email.bytes },
        "scopes": config.facts(email).iter().map(scope).collect::<Vec<_>>(),
        "settings": settings,
        "notes": config.notes(),
    })
}

fn scope(facts: &ScopeFacts) -> Value {
    json!({
        "scope": facts.kind.to_string(),
        "mailbox": facts.mailbox,
        "limits": facts.limits.iter().map(limit).collect::<Vec<_>>(),
        "limits_source": source(&facts.limits_source),
        "concurrency": facts.concurrency,
        "concurrency_source": source(&facts.concurrency_source),
        "sustained": facts.sustained.map(rates),
        "binding": facts.binding().map(|facts| facts.limit.to_string()),
    })
}

fn limit(facts: &LimitFacts) -> Value {
    let (binds, after) = match facts.binds {
        Binds::AtOnce => ("at-once", None),
        Binds::After { time, .. } => ("after", Some(time.as_secs_f64())),
        Binds::Forever => ("forever", None),
        _ => ("never", None),
    };
    json!({
        "limit": facts.limit.to_string(),
        "source": source(&facts.source),
        "alone": facts.rate.map(rates),
        "binds": binds,
        "binds_after_seconds": after,
    })
}

fn rates(rate: Rate) -> Value {
    SPANS
        .iter()
        .map(|(name, span)| (format!("per_{name}"), Value::from(rate.in_span(*span))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn source(source: &Source) -> Value {
    match source {
        Source::Default => json!({ "kind": "default" }),
        Source::Preset { name, line } => json!({ "kind": "preset", "preset": name, "line": line }),
        Source::File { line } => json!({ "kind": "file", "line": line }),
        Source::Override { line } => json!({ "kind": "override", "line": line }),
        _ => json!({ "kind": "program" }),
    }
}
