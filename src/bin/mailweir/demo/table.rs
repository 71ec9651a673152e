//! The closing table, for people.

use std::time::Duration;

use super::facts::Facts;
use super::measure::Measures;

/// Width of the first column.
const LABEL: usize = 32;
/// Width of a column of figures.
const FIGURE: usize = 11;

type Show = fn(&Measures) -> String;

/// The rows: a label, and what it shows.
const ROWS: [(&str, Show); 17] = [
    ("accepted", |m| m.accepted.to_string()),
    ("  foreground", |m| m.accepted_foreground.to_string()),
    ("  background", |m| m.accepted_background.to_string()),
    ("429s at our own pace", |m| m.refused_at_own_pace.to_string()),
    ("429s in the injected throttle", |m| m.refused_in_throttle.to_string()),
    ("cooldowns", |m| m.cooldowns.to_string()),
    ("duplicates", |m| m.duplicates.to_string()),
    ("lost", |m| m.lost.to_string()),
    ("foreground wait, p50", |m| span(m.foreground_p50)),
    ("foreground wait, p99", |m| span(m.foreground_p99)),
    ("  in the throttle, longest", |m| span(m.foreground_in_throttle_max)),
    ("background wait, p50", |m| span(m.background_p50)),
    ("background wait, p99", |m| span(m.background_p99)),
    ("campaign through after", |m| span(m.campaign)),
    ("  at best", |m| span(m.campaign_optimum)),
    ("  goodput of the optimum", |m| m.goodput_percent.map_or("-".to_owned(), |percent| format!("{percent}%"))),
    ("longest stall", |m| span(m.longest_stall)),
];

/// All of it.
pub(crate) fn text(facts: &Facts) -> String {
    let columns: Vec<(&str, &Measures)> = facts
        .mailboxes
        .iter()
        .map(|facts| (facts.mailbox.split('@').next().unwrap_or_default(), &facts.measures))
        .chain([("all", &facts.all)])
        .collect();
    let mut out = line("", columns.iter().map(|(name, _)| (*name).to_owned()));
    for (label, show) in ROWS {
        out.push_str(&line(label, columns.iter().map(|(_, measures)| show(measures))));
    }
    out.push_str("\nmost in any window, refused ones included\n");
    for window in &facts.windows {
        let label = format!("  {} {}", window.scope, window.limit);
        out.push_str(&line(&label, [window.most.to_string()].into_iter()));
    }
    out.push('\n');
    for invariant in &facts.invariants {
        let word = if invariant.kept { "kept" } else { "BROKEN" };
        out.push_str(&format!("{word:<8}{:<LABEL$}  {}\n", invariant.name, invariant.found));
    }
    out.push_str(&last_word(facts));
    out
}

fn last_word(facts: &Facts) -> String {
    let broken = facts.invariants.iter().filter(|invariant| !invariant.kept).count();
    let found = match broken {
        0 => "every invariant held".to_owned(),
        1 => "1 invariant broke".to_owned(),
        broken => format!("{broken} invariants broke"),
    };
    match facts.ending {
        "interrupted" => format!("\ninterrupted: {found} so far, {} emails were left unsent\n", facts.all.unfinished),
        _ => format!("\n{found}\n"),
    }
}

fn line(label: &str, figures: impl Iterator<Item = String>) -> String {
    let figures: String = figures.map(|figure| format!("{figure:>FIGURE$}")).collect();
    format!("{label:<LABEL$}{figures}\n")
}

/// Three digits that matter: `12 ms`, `1.23 s`, `35.8 s`.
fn span(span: Option<Duration>) -> String {
    match span {
        None => "-".to_owned(),
        Some(span) if span < Duration::from_secs(1) => format!("{} ms", span.as_millis()),
        Some(span) if span < Duration::from_secs(10) => format!("{:.2} s", span.as_secs_f64()),
        Some(span) => format!("{:.1} s", span.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_show_three_digits_that_matter() {
        for (millis, shown) in [(0, "0 ms"), (999, "999 ms"), (1_000, "1.00 s"), (9_990, "9.99 s"), (35_840, "35.8 s")]
        {
            assert_eq!(span(Some(Duration::from_millis(millis))), shown);
        }
        assert_eq!(span(None), "-");
    }
}
