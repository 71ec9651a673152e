//! One run's figures, and how figures are written.

use std::time::Duration;

use mailweir::simulation::report::Report;

/// A run and how long it took in real time.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) report: Report,
    pub(crate) took: Duration,
}

impl Run {
    /// Decisions of the engines per second of real time; the upstream's and the agenda's work counts against them.
    pub(crate) fn decisions_per_second(&self) -> f64 {
        self.report.decisions as f64 / self.took.as_secs_f64()
    }
}

/// The mean of what `of` finds; `None` when it finds nothing.
pub(crate) fn mean(runs: &[Run], of: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
    let found: Vec<f64> = runs.iter().filter_map(of).collect();
    (!found.is_empty()).then(|| found.iter().sum::<f64>() / found.len() as f64)
}

/// Three digits that matter: `12 ms`, `1.23 s`, `7.9 min`, `3.13 h`, `2.1 d`.
pub(crate) fn span(span: Duration) -> String {
    seconds(span.as_secs_f64())
}

/// The same for a number of seconds.
pub(crate) fn seconds(seconds: f64) -> String {
    match seconds {
        0.0 => "0".to_owned(),
        s if s < 0.9995 => format!("{:.0} ms", s * 1_000.0),
        s if s < 9.995 => format!("{s:.2} s"),
        s if s < 600.0 => format!("{s:.1} s"),
        s if s < 3_600.0 => format!("{:.1} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.2} h", s / 3_600.0),
        s => format!("{:.2} d", s / 86_400.0),
    }
}

/// `1_234_567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
