//! The worst figure of a gate, and where it was.

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

/// The worst of many figures.
#[derive(Clone, Debug)]
pub(crate) struct Worst {
    value: Option<f64>,
    good: Good,
    /// The specification sets a target on this profile.
    judged: bool,
    /// The pair it was seen with.
    pub(crate) at: String,
}

impl Worst {
    pub(crate) fn new(good: Good) -> Self {
        Self { value: None, good, judged: true, at: String::new() }
    }

    pub(crate) fn see(&mut self, value: f64, at: &dyn std::fmt::Display) {
        let worse = self.value.is_none_or(|worst| match self.good {
            Good::AtLeast => value < worst,
            Good::AtMost => value > worst,
        });
        if worse {
            self.value = Some(value);
            self.at = at.to_string();
        }
    }

    /// Held to the target only where the specification sets one.
    pub(crate) fn judged(self, judged: bool) -> Self {
        Self { judged, ..self }
    }

    /// The worse of two.
    pub(crate) fn worse(mut self, other: Self) -> Self {
        if let Some(value) = other.value {
            self.see(value, &other.at);
        }
        self
    }

    pub(crate) fn met(&self, gate: &Gate) -> bool {
        !self.judged
            || self.value.is_none_or(|value| match gate.good {
                Good::AtLeast => value >= gate.bound,
                Good::AtMost => value <= gate.bound,
            })
    }

    pub(crate) fn figure(&self, gate: &Gate) -> String {
        match self.value {
            None => "–".to_owned(),
            Some(value) if value.fract() == 0.0 => format!("{value:.0}{}", gate.unit),
            Some(value) => format!("{value:.2}{}", gate.unit),
        }
    }

    /// The cell: the figure, and bold where the gate is missed.
    pub(crate) fn shown(&self, gate: &Gate) -> String {
        let figure = self.figure(gate);
        if self.met(gate) { figure } else { format!("**{figure}**") }
    }
}
