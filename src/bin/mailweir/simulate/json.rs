//! JSON lines: the events of each run as they came, then one line of figures for each run, then the means.

use std::time::Duration;

use mailweir::simulation::World;
use mailweir::simulation::report::{LaneFigures, Report};
use mailweir::simulation::scenario::Scenario;
use mailweir::telemetry::{Context, Telemetry};
use serde_json::{Value, json};

use super::figures::{Run, mean};
use super::text::MEANS;

/// The events of one run, in the form of the handle's own, with seed and seconds from the start.
pub(crate) fn events(world: &World, run: &Run) -> String {
    let telemetry = Telemetry::default();
    let mut out = String::new();
    for (at, event) in world.events() {
        let event = telemetry.emit(*at, event, &Context::default());
        let mut value = serde_json::to_value(&event).unwrap_or_default();
        if let Value::Object(fields) = &mut value {
            fields.insert("type".to_owned(), json!("event"));
            fields.insert("seed".to_owned(), json!(run.report.seed));
            fields.insert("at_s".to_owned(), json!(at.since(world.start()).as_secs_f64()));
        }
        out.push_str(&format!("{value}\n"));
    }
    out
}

/// One line for each run, and one for the means of several.
pub(crate) fn summaries(scenario: &Scenario, runs: &[Run], replay: impl Fn(u64) -> String) -> String {
    let mut out: String = runs.iter().map(|run| format!("{}\n", summary(scenario, run, &replay))).collect();
    if runs.len() > 1 {
        let means = MEANS.into_iter().map(|(_, name, figure)| (name.to_owned(), json!(mean(runs, figure))));
        let means: serde_json::Map<String, Value> = means.collect();
        out.push_str(&format!("{}\n", json!({ "type": "means", "runs": runs.len(), "means": means })));
    }
    out
}

fn summary(scenario: &Scenario, run: &Run, replay: impl Fn(u64) -> String) -> Value {
    let report = &run.report;
    json!({
        "type": "summary",
        "scenario": scenario.name,
        "profile": format!("{:?}", scenario.provider.profile),
        "seed": report.seed,
        "elapsed_s": report.elapsed.as_secs_f64(),
        "submitted": report.submitted,
        "accepted": report.accepted,
        "pending": report.pending,
        "unknown": report.unknown,
        "exhausted": report.exhausted,
        "arrivals": report.arrivals,
        "sends_per_accepted": report.sends_per_accepted,
        "foreground": lane(&report.lanes[0]),
        "background": lane(&report.lanes[1]),
        "makespan_s": report.makespan.as_secs_f64(),
        "optimum_s": seconds(report.optimum),
        "ratio": report.ratio(),
        "longest_stall_s": report.longest_stall.as_secs_f64(),
        "wakes_per_operation": report.wakes_per_operation,
        "store_calls_per_operation": report.store_calls_per_operation,
        "store_transactions_per_operation": report.store_transactions_per_operation,
        "cooldowns": report.cooldowns,
        "recoveries": recoveries(report),
        "windows": report.windows.iter().map(|window| json!({
            "scope": window.scope.to_string(),
            "limit": window.limit.to_string(),
            "most": window.most,
        })).collect::<Vec<_>>(),
        "invariants": report.invariants.iter().map(|invariant| json!({
            "name": invariant.name,
            "kept": invariant.kept,
            "judged": invariant.judged,
            "found": invariant.found,
        })).collect::<Vec<_>>(),
        "sound": report.is_sound(),
        "replay": (!report.is_sound()).then(|| replay(report.seed)),
        "decisions": report.decisions,
        "took_s": run.took.as_secs_f64(),
        "decisions_per_second": run.decisions_per_second(),
    })
}

fn recoveries(report: &Report) -> Vec<Value> {
    let one = |recovery: &mailweir::simulation::report::Recovery| {
        json!({
            "what": recovery.trouble.name,
            "from_s": recovery.trouble.from.as_secs_f64(),
            "until_s": recovery.trouble.until.as_secs_f64(),
            "refused": recovery.refused,
            "first_success_s": seconds(recovery.first_success),
            "rate_back_s": seconds(recovery.rate_back),
        })
    };
    report.recoveries.iter().map(one).collect()
}

fn lane(figures: &LaneFigures) -> Value {
    json!({
        "submitted": figures.submitted,
        "accepted": figures.accepted,
        "wait_p50_s": figures.wait_p50.as_secs_f64(),
        "wait_p99_s": figures.wait_p99.as_secs_f64(),
        "wait_max_s": figures.wait_max.as_secs_f64(),
        "done_s": figures.done.as_secs_f64(),
        "done_at_best_s": seconds(figures.done_at_best),
        "ratio": figures.ratio(),
    })
}

fn seconds(span: Option<Duration>) -> Option<f64> {
    span.map(|span| span.as_secs_f64())
}
