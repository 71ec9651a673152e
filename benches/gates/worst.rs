//! The worst figure of a gate, and where it was.

use std::collections::BTreeMap;

use mailweir::upstream::Profile;

/// Which side of the target is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Good {
    AtLeast,
    AtMost,
}

/// One gate.
pub(crate) struct Gate {
    pub(crate) name: &'static str,
    /// The target as text.
    pub(crate) target: &'static str,
    pub(crate) bound: f64,
    pub(crate) good: Good,
    pub(crate) unit: &'static str,
    pub(crate) judge: fn(Profile) -> Worst,
}

impl Gate {
    /// A figure with its unit.
    pub(crate) fn figure(&self, value: f64) -> String {
        match value.fract() == 0.0 {
            true => format!("{value:.0}{}", self.unit),
            false => format!("{value:.2}{}", self.unit),
        }
    }
}

/// The worst of many figures.
#[derive(Clone, Debug)]
pub(crate) struct Worst {
    value: Option<f64>,
    good: Good,
    /// The specification sets a target on this profile.
    judged: bool,
    /// Every pair that was looked at, with the worst figure it was seen with.
    pairs: BTreeMap<String, f64>,
}

impl Worst {
    pub(crate) fn new(good: Good) -> Self {
        Self { value: None, good, judged: true, pairs: BTreeMap::new() }
    }

    pub(crate) fn see(&mut self, value: f64, at: &dyn std::fmt::Display) {
        let good = self.good;
        let worse = |known: f64| match good {
            Good::AtLeast => value.min(known),
            Good::AtMost => value.max(known),
        };
        self.value = Some(self.value.map_or(value, worse));
        self.pairs.entry(at.to_string()).and_modify(|known| *known = worse(*known)).or_insert(value);
    }

    /// Held to the target only where the specification sets one.
    pub(crate) fn judged(self, judged: bool) -> Self {
        Self { judged, ..self }
    }

    /// The worse of two.
    pub(crate) fn worse(mut self, other: Self) -> Self {
        other.pairs.iter().for_each(|(at, value)| self.see(*value, at));
        self
    }

    pub(crate) fn value(&self) -> Option<f64> {
        self.value
    }

    /// How many pairs were looked at.
    pub(crate) fn pairs(&self) -> usize {
        self.pairs.len()
    }

    pub(crate) fn met(&self, gate: &Gate) -> bool {
        self.missed(gate).is_empty()
    }

    /// The pairs that miss the gate, with their figures.
    pub(crate) fn missed(&self, gate: &Gate) -> Vec<(String, f64)> {
        let is_missed = |value: f64| match gate.good {
            Good::AtLeast => value < gate.bound,
            Good::AtMost => value > gate.bound,
        };
        let all = self.pairs.iter().filter(|(_, value)| self.judged && is_missed(**value));
        all.map(|(at, value)| (at.clone(), *value)).collect()
    }

    /// The cell: the figure, and bold where the gate is missed.
    pub(crate) fn shown(&self, gate: &Gate) -> String {
        let figure = self.value.map_or_else(|| "–".to_owned(), |value| gate.figure(value));
        if self.met(gate) { figure } else { format!("**{figure}**") }
    }
}
