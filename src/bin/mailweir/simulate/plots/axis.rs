//! From values to places on the paper, and the numbers beside them.

/// How values lie along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// Evenly, from 0 to the number.
    Linear(f64),
    /// Each tenfold the same way on, between two numbers above zero.
    Log(f64, f64),
}

impl Scale {
    /// Evenly up to a number that `most` fits under, with some air.
    pub(super) fn up_to(most: f64) -> Self {
        Self::Linear(if most > 0.0 { most * 1.06 } else { 1.0 })
    }

    /// Whole tenfolds around these.
    pub(super) fn decades(least: f64, most: f64) -> Self {
        let low = least.max(1e-3).log10().floor();
        let high = most.max(1e-2).log10().ceil().max(low + 1.0);
        Self::Log(10_f64.powf(low), 10_f64.powf(high))
    }

    /// Where `value` lies, from 0 to 1.
    pub(super) fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear(most) => (value / most).clamp(0.0, 1.0),
            Self::Log(low, high) => ((value.max(low) / low).log10() / (high / low).log10()).clamp(0.0, 1.0),
        }
    }

    /// Values to be written beside the axis, at most about `wanted` of them.
    pub(super) fn ticks(self, wanted: usize, steps: &[f64]) -> Vec<f64> {
        match self {
            Self::Linear(most) => {
                let step = step_of(most / wanted as f64, steps);
                let count = (most / step).floor() as usize;
                (0..=count).map(|number| number as f64 * step).collect()
            }
            Self::Log(low, high) => {
                let decades = (high / low).log10().round() as i32;
                (0..=decades).map(|power| low * 10_f64.powi(power)).collect()
            }
        }
    }
}

/// The first step that is at least `least`: one that is listed, or else 1, 2 or 5 times a power of ten.
fn step_of(least: f64, steps: &[f64]) -> f64 {
    if let Some(step) = steps.iter().find(|step| **step >= least) {
        return *step;
    }
    let power = 10_f64.powf(least.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| *step >= least).unwrap_or(10.0 * power)
}

/// Steps that people count time in, in seconds.
pub(super) const TIME_STEPS: [f64; 20] = [
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0, 7_200.0, 10_800.0, 21_600.0,
    43_200.0, 86_400.0, 172_800.0, 604_800.0,
];

/// The unit of a time axis of this length in seconds: its name and its length.
pub(super) fn time_unit(length: f64) -> (&'static str, f64) {
    match length {
        length if length <= 180.0 => ("s", 1.0),
        length if length <= 3.0 * 3_600.0 => ("min", 60.0),
        length if length <= 96.0 * 3_600.0 => ("h", 3_600.0),
        _ => ("days", 86_400.0),
    }
}

/// A number as short as it can be told: `0.25`, `30`, `1.2k`, `150M`.
pub(super) fn number(value: f64) -> String {
    let (scaled, unit) = match value {
        value if value >= 1e9 => (value / 1e9, "G"),
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e4 => (value / 1e3, "k"),
        value => (value, ""),
    };
    let text = format!("{scaled:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{unit}")
}
