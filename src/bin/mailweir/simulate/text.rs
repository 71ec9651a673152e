//! The summary, for people.

use std::time::Duration;

use mailweir::Lane;
use mailweir::simulation::report::{LaneFigures, Recovery, Report};
use mailweir::simulation::scenario::Scenario;

use super::figures::{Run, grouped, mean, seconds, span};

/// Width of the first column.
const LABEL: usize = 34;
/// Width of a column of figures.
const FIGURE: usize = 15;

/// Everything that is printed. `replay` is the command that runs one seed again.
pub(crate) fn summary(scenario: &Scenario, runs: &[Run], replay: impl Fn(u64) -> String) -> String {
    let mut out = heading(scenario, runs);
    match runs {
        [run] => out.push_str(&one(&run.report)),
        runs => out.push_str(&many(runs)),
    }
    out.push_str(&invariants(runs));
    if let Some(broken) = runs.iter().find(|run| !run.report.is_sound()) {
        out.push_str(&format!("replay: {}\n", replay(broken.report.seed)));
    }
    out.push_str(&speed(runs));
    out
}

fn heading(scenario: &Scenario, runs: &[Run]) -> String {
    let about = if scenario.about.is_empty() { String::new() } else { format!("{}\n", scenario.about) };
    let seeds = match runs {
        [run] => format!("seed {}", run.report.seed),
        runs => {
            let seed = |run: Option<&Run>| run.map_or(0, |run| run.report.seed);
            format!("{} runs, seeds {} to {}", runs.len(), seed(runs.first()), seed(runs.last()))
        }
    };
    let elapsed = mean(runs, |run| Some(run.report.elapsed.as_secs_f64())).unwrap_or_default();
    let profile = scenario.provider.profile;
    format!(
        "{} — profile {profile:?}, {seeds}, {} mailbox{}, {} of virtual time\n{about}\n",
        scenario.name,
        scenario.mailboxes.len(),
        if scenario.mailboxes.len() == 1 { "" } else { "es" },
        seconds(elapsed),
    )
}

fn one(report: &Report) -> String {
    let mut out = line("", ["foreground", "background", "all"].map(str::to_owned));
    let [foreground, background] = report.lanes;
    let lanes = |show: fn(&LaneFigures) -> String, all: String| {
        let shown = |lane: &LaneFigures| if lane.submitted == 0 { "-".to_owned() } else { show(lane) };
        [shown(&foreground), shown(&background), all]
    };
    let empty = String::new;
    let rows = [
        ("submitted", lanes(|lane| grouped(lane.submitted), grouped(report.submitted))),
        ("accepted", lanes(|lane| grouped(lane.accepted), grouped(report.accepted))),
        ("wait, half of them up to", lanes(|lane| span(lane.wait_p50), empty())),
        ("wait, 99 in 100 up to", lanes(|lane| span(lane.wait_p99), empty())),
        ("wait, longest", lanes(|lane| span(lane.wait_max), empty())),
        ("done after", lanes(|lane| span(lane.done), span(report.makespan))),
        ("  at best, by a clairvoyant", lanes(|lane| optional(lane.done_at_best), optional(report.optimum))),
        ("  ratio to that", ["".to_owned(), lane_ratio(&background), ratio(report.ratio())]),
    ];
    rows.into_iter().for_each(|(label, figures)| out.push_str(&line(label, figures)));
    out.push('\n');
    let total = |label: &str, figure: String| line(label, [empty(), empty(), figure]);
    out.push_str(&total("429s", grouped(report.arrivals.refused)));
    out.push_str(&total("5xx", grouped(report.arrivals.failed)));
    out.push_str(&total("sends per accepted", format!("{:.3}", report.sends_per_accepted)));
    out.push_str(&total("cooldowns", grouped(report.cooldowns)));
    out.push_str(&total("longest stall with a backlog", span(report.longest_stall)));
    out.push_str(&total("wake-ups per operation", format!("{:.2}", report.wakes_per_operation)));
    out.push_str(&total("store calls per operation", format!("{:.2}", report.store_calls_per_operation)));
    out.push_str(&total("durable transactions per operation", {
        format!("{:.2}", report.store_transactions_per_operation)
    }));
    out.push_str(&total("exhausted, unknown, not ended", {
        format!("{} {} {}", report.exhausted, report.unknown, report.pending)
    }));
    out.push_str(&fullest(report));
    out.push_str(&recoveries(&report.recoveries));
    out
}

fn fullest(report: &Report) -> String {
    let mut out = String::from("\nfullest window, refused sends included\n");
    for window in &report.windows {
        let label = format!("  {} {}", window.scope.kind(), window.limit);
        out.push_str(&format!("{label:<LABEL$}{:>FIGURE$}\n", grouped(window.most)));
    }
    if report.windows.is_empty() { String::new() } else { out }
}

fn recoveries(recoveries: &[Recovery]) -> String {
    if recoveries.is_empty() {
        return String::new();
    }
    let header = ["429s in it", "first success", "90 % back"].map(str::to_owned);
    let mut out = format!("\n{}", line("what went wrong", header));
    for recovery in recoveries {
        let trouble = &recovery.trouble;
        let figures = [
            grouped(recovery.refused),
            recovery.first_success.map_or("never".to_owned(), |after| format!("+{}", span(after))),
            recovery.rate_back.map_or("-".to_owned(), |after| format!("+{}", span(after))),
        ];
        let when = match trouble.until > trouble.from {
            true => format!("from {} to {}", span(trouble.from), span(trouble.until)),
            false => format!("at {}", span(trouble.from)),
        };
        out.push_str(&format!("  {}\n{}", trouble.name, line(&format!("    {when}"), figures)));
    }
    out
}

type Figure = fn(&Run) -> Option<f64>;

/// What means are given of.
pub(crate) const MEANS: [(&str, &str, Figure); 16] = [
    ("accepted", "accepted", |run| Some(run.report.accepted as f64)),
    ("not ended", "pending", |run| Some(run.report.pending as f64)),
    ("done after", "makespan_s", |run| Some(run.report.makespan.as_secs_f64())),
    ("ratio to the clairvoyant", "ratio", |run| run.report.ratio()),
    ("background done after", "background_done_s", |run| lane_done(run, Lane::Background)),
    ("  ratio to the clairvoyant", "background_ratio", |run| run.report.lanes[1].ratio()),
    ("foreground wait, half up to", "foreground_wait_p50_s", |run| lane_wait(run, Lane::Foreground, 50)),
    ("foreground wait, 99 in 100 up to", "foreground_wait_p99_s", |run| lane_wait(run, Lane::Foreground, 99)),
    ("background wait, 99 in 100 up to", "background_wait_p99_s", |run| lane_wait(run, Lane::Background, 99)),
    ("429s", "refused", |run| Some(run.report.arrivals.refused as f64)),
    ("sends per accepted", "sends_per_accepted", |run| Some(run.report.sends_per_accepted)),
    ("cooldowns", "cooldowns", |run| Some(run.report.cooldowns as f64)),
    ("longest stall with a backlog", "longest_stall_s", |run| Some(run.report.longest_stall.as_secs_f64())),
    ("wake-ups per operation", "wakes_per_operation", |run| Some(run.report.wakes_per_operation)),
    ("store calls per operation", "store_calls_per_operation", |run| Some(run.report.store_calls_per_operation)),
    ("durable transactions per operation", "store_transactions_per_operation", |run| {
        Some(run.report.store_transactions_per_operation)
    }),
];

fn lane_done(run: &Run, lane: Lane) -> Option<f64> {
    let figures = &run.report.lanes[lane as usize];
    (figures.accepted > 0).then_some(figures.done.as_secs_f64())
}

fn lane_wait(run: &Run, lane: Lane, percent: u32) -> Option<f64> {
    let figures = &run.report.lanes[lane as usize];
    let wait = if percent == 50 { figures.wait_p50 } else { figures.wait_p99 };
    (figures.accepted > 0).then_some(wait.as_secs_f64())
}

fn many(runs: &[Run]) -> String {
    let mut out = line("", ["mean", "least", "most"].map(str::to_owned));
    for (label, name, figure) in MEANS {
        let found: Vec<f64> = runs.iter().filter_map(figure).collect();
        let Some(middle) = mean(runs, figure) else { continue };
        let least = found.iter().copied().fold(f64::INFINITY, f64::min);
        let most = found.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let show = |value: f64| match name {
            name if name.ends_with("_s") => seconds(value),
            name if name.contains("ratio") || name.contains("per") => format!("{value:.3}"),
            _ => format!("{value:.1}"),
        };
        out.push_str(&line(label, [show(middle), show(least), show(most)]));
    }
    out
}

fn invariants(runs: &[Run]) -> String {
    let mut out = String::from("\n");
    let mut broken = 0;
    for invariant in runs.first().map(|run| run.report.invariants.as_slice()).unwrap_or_default() {
        let of_runs = runs.iter().filter_map(|run| {
            let found = run.report.invariants.iter().find(|other| other.name == invariant.name)?;
            (!found.kept).then(|| format!("seed {}: {}", run.report.seed, found.found))
        });
        let wrong: Vec<String> = of_runs.collect();
        broken += usize::from(!wrong.is_empty());
        let (word, found) = match wrong.first() {
            None if !invariant.judged => ("-", invariant.found.clone()),
            None if runs.len() == 1 => ("kept", invariant.found.clone()),
            None => ("kept", format!("in {} runs", runs.len())),
            Some(wrong) => ("BROKEN", wrong.clone()),
        };
        out.push_str(&format!("{word:<8}{}: {found}\n", invariant.name));
    }
    out.push_str(&match broken {
        0 => "every invariant held\n".to_owned(),
        1 => "1 invariant broke\n".to_owned(),
        broken => format!("{broken} invariants broke\n"),
    });
    out
}

/// Real time; the only line that differs between two runs of one seed.
fn speed(runs: &[Run]) -> String {
    let decisions: u64 = runs.iter().map(|run| run.report.decisions).sum();
    let took: Duration = runs.iter().map(|run| run.took).sum();
    if decisions == 0 {
        let sent: u64 = runs.iter().map(|run| run.report.arrivals.arrivals).sum();
        return format!("{} sends through the actors in {} of real time\n", grouped(sent), span(took));
    }
    let rate = decisions as f64 / took.as_secs_f64().max(1e-6);
    let rate = if rate >= 1e6 { format!("{:.2} M/s", rate / 1e6) } else { format!("{:.0} k/s", rate / 1e3) };
    format!("{} decisions of the engines in {} of real time ({rate})\n", grouped(decisions), span(took))
}

/// Foreground has none: the clairvoyant keeps nothing free for it.
fn lane_ratio(figures: &LaneFigures) -> String {
    if figures.submitted == 0 { "-".to_owned() } else { ratio(figures.ratio()) }
}

fn optional(value: Option<Duration>) -> String {
    value.map_or("-".to_owned(), span)
}

fn ratio(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"))
}

fn line(label: &str, figures: [String; 3]) -> String {
    let figures: String = figures.map(|figure| format!("{figure:>FIGURE$}")).concat();
    format!("{}\n", format!("{label:<LABEL$}{figures}").trim_end())
}
