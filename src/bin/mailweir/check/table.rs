//! A configuration's facts for people.

use std::time::Duration;

use mailweir::config::{Binds, Config, LimitFacts, ScopeFacts, Source, show_size};
use mailweir::engine::{Cost, ScopeKind};

use super::facts::SPANS;

/// Most mailboxes with a table of their own that are printed; `--json` has them all.
const MAILBOXES_MAX: usize = 50;

/// Everything that `check` prints.
pub(crate) fn text(file: &str, config: &Config, email: &Cost) -> String {
    let mut out = format!("{file} is valid.\n");
    out.push_str(&format!(
        "Throughput is for emails of {} to {}, {} each, before latency and what the lanes keep back.\n",
        show_size(email.bytes),
        many(email.recipients, "recipient"),
        many(email.requests, "request")
    ));
    let facts = config.facts(email);
    let mut left = MAILBOXES_MAX;
    for facts in &facts {
        if facts.mailbox.is_some() {
            if left == 0 {
                continue;
            }
            left -= 1;
        }
        out.push_str(&scope(facts, email));
    }
    let listed = facts.iter().filter(|facts| facts.mailbox.is_some()).count();
    if listed > MAILBOXES_MAX {
        let more = listed - MAILBOXES_MAX;
        out.push_str(&format!("\n{more} more mailboxes with a table of their own: see --json\n"));
    }
    out.push_str(&changed(config));
    for note in config.notes() {
        out.push_str(&format!("note: {note}\n"));
    }
    out
}

fn scope(facts: &ScopeFacts, email: &Cost) -> String {
    let title = match (&facts.mailbox, facts.kind) {
        (Some(id), _) => format!("mailbox {id}"),
        (None, ScopeKind::Mailbox) => "each mailbox without a table of its own".to_owned(),
        (None, ScopeKind::Tenant) => "each tenant".to_owned(),
        (None, ScopeKind::Application) => "the application".to_owned(),
    };
    let mut rows = vec![["limit", "source", "/minute", "/hour", "/day", "binds"].map(str::to_owned)];
    rows.extend(facts.limits.iter().map(row));
    let concurrency = facts.concurrency.map_or("any number in flight".to_owned(), |most| format!("{most} in flight"));
    rows.push([
        concurrency,
        facts.concurrency_source.to_string(),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
    ]);
    if facts.limits.is_empty() {
        rows.insert(
            1,
            [
                "no limits".to_owned(),
                facts.limits_source.to_string(),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
            ],
        );
    }
    format!("\n{title}\n{}{}", aligned(&rows), sustained(facts, email))
}

fn row(facts: &LimitFacts) -> [String; 6] {
    let [minute, hour, day] =
        SPANS.map(|(_, span)| facts.rate.map_or("-".to_owned(), |rate| number(rate.in_span(span))));
    let binds = match facts.binds {
        Binds::AtOnce => "from the start".to_owned(),
        Binds::After { time, .. } => format!("after {}", duration(time)),
        Binds::Forever => "for good: such an email never fits".to_owned(),
        _ => "never".to_owned(),
    };
    [facts.limit.to_string(), facts.source.to_string(), minute, hour, day, binds]
}

fn sustained(facts: &ScopeFacts, email: &Cost) -> String {
    let (Some(rate), Some(binding)) = (facts.sustained, facts.binding()) else {
        return "  in the long run: not limited here\n".to_owned();
    };
    let [minute, hour, day] = SPANS.map(|(_, span)| number(rate.in_span(span)));
    let why = match binding.binds {
        Binds::After { time, pace } => format!(
            "{} binds after {} at {}/minute, {} each",
            binding.limit,
            duration(time),
            number(pace.in_span(Duration::from_secs(60))),
            many(email.recipients, "recipient")
        ),
        Binds::Forever => format!("{} holds no such email", binding.limit),
        _ => format!("{} binds from the start", binding.limit),
    };
    format!("  in the long run: {minute}/minute, {hour}/hour, {day}/day ({why})\n")
}

/// Every other key that somebody set.
fn changed(config: &Config) -> String {
    let shown = |key: &str| key.ends_with("limits") || key.ends_with("concurrency");
    let settings = config.settings();
    let set = settings.iter().filter(|setting| setting.source != Source::Default && !shown(&setting.key));
    let rows: Vec<[String; 3]> =
        set.map(|setting| [setting.key.clone(), setting.value.clone(), setting.source.to_string()]).collect();
    if rows.is_empty() {
        return "\nNothing else is set.\n".to_owned();
    }
    format!("\nSet besides:\n{}", aligned(&rows))
}

fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect::<Vec<_>>();
        out.push_str(&format!("  {}\n", cells.join("  ").trim_end()));
    }
    out
}

fn many(number: u32, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Three digits that matter, thousands grouped.
fn number(value: f64) -> String {
    let decimals = if value >= 100.0 || value.fract() == 0.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    let plain = format!("{value:.decimals$}");
    let (whole, rest) = plain.split_once('.').map_or((plain.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut out = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    rest.map_or(out.clone(), |rest| format!("{out}.{rest}"))
}

/// Two units at most: `5 h 33 min`.
fn duration(span: Duration) -> String {
    let (seconds, millis) = (span.as_secs(), span.subsec_millis());
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) if millis == 0 => format!("{seconds} s"),
        (0, 0, 0) => format!("{seconds}.{:01} s", millis / 100),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_show_three_digits_that_matter() {
        for (value, shown) in
            [(6.944, "6.94"), (30.0, "30"), (416.67, "417"), (1_123_200_000.0, "1,123,200,000"), (12.34, "12.3")]
        {
            assert_eq!(number(value), shown);
        }
    }

    #[test]
    fn durations_show_two_units() {
        for (seconds, shown) in [(20_000, "5 h 33 min"), (200, "3 min 20 s"), (0, "0 s"), (90_000, "1 d 1 h")] {
            assert_eq!(duration(Duration::from_secs(seconds)), shown);
        }
    }
}
