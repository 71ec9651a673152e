//! Charts, and how they become SVG.

use super::axis::{Scale, TIME_STEPS, number, time_unit};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 62.0;
const BOTTOM: f64 = 46.0;

/// Colours: of Okabe and Ito, told apart by every kind of eye, a little lighter on dark paper.
const STYLE: &str = "
.paper{fill:#fff}.ink{fill:#1b1f24}.quiet{fill:#57606a}.axis{stroke:#8c959f}.grid{stroke:#d8dee4}
.foreground{stroke:#c2410c;fill:#c2410c}.background{stroke:#0a6ebd;fill:#0a6ebd}.limit{stroke:#1b1f24;fill:none}
.refused{stroke:#b3261e;fill:#b3261e}.open{fill:#c2410c}.half{fill:#e0a100}.closed{fill:#3b8f5a}.trouble{fill:#8c959f}
text{font:13px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}.title{font-size:16px;font-weight:600}
@media (prefers-color-scheme:dark){
.paper{fill:#0d1117}.ink{fill:#e6edf3}.quiet{fill:#9aa4af}.axis{stroke:#6e7681}.grid{stroke:#272e37}
.foreground{stroke:#ff9257;fill:#ff9257}.background{stroke:#6cb6ff;fill:#6cb6ff}.limit{stroke:#e6edf3}
.refused{stroke:#ff7b72;fill:#ff7b72}.open{fill:#ff9257}.half{fill:#e3b341}.closed{fill:#57ab5a}.trouble{fill:#6e7681}}
";

/// What is drawn.
#[derive(Clone, Debug)]
pub(super) enum Mark {
    /// A line that steps from one point to the next, with the area under it.
    Steps(Vec<(f64, f64)>),
    /// The area between two such lines, and the upper one: place, lower, upper.
    Band(Vec<(f64, f64, f64)>),
    /// A cloud.
    Dots(Vec<(f64, f64)>),
    /// A dashed level over the whole width.
    Level(Vec<(f64, f64)>),
    /// Spans of time in a row of their own.
    Spans { row: usize, spans: Vec<(f64, f64)> },
    /// Instants in a row of their own.
    Instants { row: usize, at: Vec<f64> },
}

/// Marks of one kind, as the legend names them.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) class: &'static str,
    pub(super) mark: Mark,
}

/// The vertical axis.
#[derive(Clone, Debug)]
pub(super) enum Vertical {
    /// Values, and what they are.
    Values(Scale, String),
    /// Rows with names.
    Rows(Vec<String>),
}

/// One chart.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) note: String,
    /// The length of the time axis, in seconds.
    pub(super) length: f64,
    pub(super) vertical: Vertical,
    pub(super) series: Vec<Series>,
    /// Spans in which something goes wrong on purpose.
    pub(super) troubles: Vec<(f64, f64)>,
}

/// Charts below each other.
pub(super) fn picture(charts: &[Chart]) -> String {
    let heights: Vec<f64> = charts.iter().map(Chart::height).collect();
    let height: f64 = heights.iter().sum();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\"><style>{STYLE}</style><rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    let mut top = 0.0;
    for (chart, height) in charts.iter().zip(heights) {
        out.push_str(&format!("<g transform=\"translate(0 {top})\">\n{}</g>\n", chart.drawn()));
        top += height;
    }
    out.push_str("</svg>\n");
    out
}

impl Chart {
    fn height(&self) -> f64 {
        TOP + self.inner() + BOTTOM
    }

    fn inner(&self) -> f64 {
        match &self.vertical {
            Vertical::Values(..) => 210.0,
            Vertical::Rows(rows) => 34.0 * rows.len().max(1) as f64,
        }
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + Scale::Linear(self.length).place(seconds) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let place = match &self.vertical {
            Vertical::Values(scale, _) => 1.0 - scale.place(value),
            Vertical::Rows(rows) => (value + 0.5) / rows.len().max(1) as f64,
        };
        TOP + place * self.inner()
    }

    fn drawn(&self) -> String {
        let mut out = String::new();
        for (from, until) in &self.troubles {
            let (from, until) = (self.x(*from), self.x(*until));
            let (width, inner) = ((until - from).max(1.5), self.inner());
            out.push_str(&format!(
                "<rect class=\"trouble\" opacity=\"0.16\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{inner}\"/>\n"
            ));
        }
        out.push_str(&self.time_axis());
        out.push_str(&self.vertical_axis());
        self.series.iter().for_each(|series| out.push_str(&self.series(series)));
        out.push_str(&self.heading());
        out
    }

    fn heading(&self) -> String {
        let mut out = format!("<text class=\"ink title\" x=\"16\" y=\"24\">{}</text>\n", escaped(&self.title));
        let mut x = LEFT;
        let mut entries: Vec<(&str, &str)> =
            self.series.iter().map(|series| (series.name.as_str(), series.class)).collect();
        entries.dedup();
        if !self.troubles.is_empty() {
            entries.push(("wrong on purpose", "trouble"));
        }
        for (name, class) in entries {
            let swatch = match class {
                "limit" => format!(
                    "<line class=\"limit\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\" x1=\"{x}\" x2=\"{}\" y1=\"44\" y2=\"44\"/>",
                    x + 16.0
                ),
                "trouble" => {
                    format!("<rect class=\"trouble\" opacity=\"0.3\" x=\"{x}\" y=\"38\" width=\"14\" height=\"11\"/>")
                }
                _ => format!("<rect class=\"{class}\" stroke=\"none\" x=\"{x}\" y=\"38\" width=\"14\" height=\"11\"/>"),
            };
            out.push_str(&format!(
                "{swatch}<text class=\"ink\" x=\"{}\" y=\"48\">{}</text>\n",
                x + 21.0,
                escaped(name)
            ));
            x += 21.0 + 7.2 * name.chars().count() as f64 + 22.0;
        }
        if !self.note.is_empty() {
            let at = WIDTH - RIGHT;
            let note = escaped(&self.note);
            out.push_str(&format!("<text class=\"quiet\" text-anchor=\"end\" x=\"{at}\" y=\"24\">{note}</text>\n"));
        }
        out
    }

    fn time_axis(&self) -> String {
        let (unit, seconds) = time_unit(self.length);
        let (top, bottom) = (TOP, TOP + self.inner());
        let mut out = String::new();
        for tick in Scale::Linear(self.length).ticks(9, &TIME_STEPS) {
            let (x, below) = (self.x(tick), bottom + 18.0);
            let label = number(tick / seconds);
            out.push_str(&format!(
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom}\"/>\
                 <text class=\"quiet\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{below}\">{label}</text>\n"
            ));
        }
        let (middle, below, right) = ((LEFT + WIDTH - RIGHT) / 2.0, bottom + 36.0, WIDTH - RIGHT);
        out.push_str(&format!(
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
             <text class=\"quiet\" text-anchor=\"middle\" x=\"{middle}\" y=\"{below}\">time from the start, {unit}</text>\n"
        ));
        out
    }

    fn vertical_axis(&self) -> String {
        let (right, beside) = (WIDTH - RIGHT, LEFT - 8.0);
        let mut out = String::new();
        match &self.vertical {
            Vertical::Values(scale, label) => {
                for tick in scale.ticks(5, &[]) {
                    let y = self.y(tick);
                    let (text, down) = (number(tick), y + 4.5);
                    out.push_str(&format!(
                        "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                         <text class=\"quiet\" text-anchor=\"end\" x=\"{beside}\" y=\"{down:.1}\">{text}</text>\n"
                    ));
                }
                let middle = TOP + self.inner() / 2.0;
                out.push_str(&format!(
                    "<text class=\"quiet\" text-anchor=\"middle\" transform=\"translate(18 {middle}) rotate(-90)\">{}</text>\n",
                    escaped(label)
                ));
            }
            Vertical::Rows(rows) => {
                for (row, name) in rows.iter().enumerate() {
                    let y = self.y(row as f64) + 4.5;
                    let name = escaped(&shortened(name));
                    out.push_str(&format!(
                        "<text class=\"quiet\" text-anchor=\"end\" x=\"{beside}\" y=\"{y:.1}\">{name}</text>\n"
                    ));
                }
            }
        }
        out
    }

    fn series(&self, series: &Series) -> String {
        let class = series.class;
        match &series.mark {
            Mark::Steps(points) => {
                let line = self.steps(points);
                let (Some(first), Some(last)) = (points.first(), points.last()) else { return String::new() };
                let floor = TOP + self.inner();
                format!(
                    "<path class=\"{class}\" stroke=\"none\" style=\"stroke:none\" fill-opacity=\"0.18\" d=\"{line}V{floor:.1}H{:.1}Z\"/>\
                     <path class=\"{class}\" style=\"fill:none\" stroke-width=\"1.6\" stroke-linejoin=\"round\" d=\"{line}\"/>\n",
                    self.x(first.0).min(self.x(last.0))
                )
            }
            Mark::Band(points) => {
                let upper: Vec<_> = points.iter().map(|(x, _, high)| (*x, *high)).collect();
                let line = self.steps(&upper);
                let back = points.iter().rev().map(|(x, low, _)| format!("V{:.1}H{:.1}", self.y(*low), self.x(*x)));
                let back: String = back.collect();
                format!(
                    "<path class=\"{class}\" style=\"stroke:none\" fill-opacity=\"0.3\" d=\"{line}{back}Z\"/>\
                     <path class=\"{class}\" style=\"fill:none\" stroke-width=\"1.2\" stroke-linejoin=\"round\" d=\"{line}\"/>\n"
                )
            }
            Mark::Level(points) => {
                let line = self.steps(points);
                format!("<path class=\"{class}\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\" d=\"{line}\"/>\n")
            }
            Mark::Dots(points) => {
                let dot = |(x, y): &(f64, f64)| format!("M{:.1} {:.1}h0", self.x(*x), self.y(*y));
                let path: String = points.iter().map(dot).collect();
                format!(
                    "<path class=\"{class}\" style=\"fill:none\" stroke-width=\"3.6\" stroke-linecap=\"round\" stroke-opacity=\"0.55\" d=\"{path}\"/>\n"
                )
            }
            Mark::Spans { row, spans } => {
                let y = self.y(*row as f64) - 9.0;
                let span = |(from, until): &(f64, f64)| {
                    let (from, until) = (self.x(*from), self.x(*until));
                    format!(
                        "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"18\"/>",
                        (until - from).max(0.8)
                    )
                };
                format!("{}\n", spans.iter().map(span).collect::<String>())
            }
            Mark::Instants { row, at } => {
                let y = self.y(*row as f64) - 13.0;
                let path: String = at.iter().map(|at| format!("M{:.1} {y:.1}v26", self.x(*at))).collect();
                format!("<path class=\"{class}\" stroke-width=\"1.4\" d=\"{path}\"/>\n")
            }
        }
    }

    fn steps(&self, points: &[(f64, f64)]) -> String {
        let mut path = String::new();
        for (place, (x, y)) in points.iter().enumerate() {
            let (x, y) = (self.x(*x), self.y(*y));
            path.push_str(&if place == 0 { format!("M{x:.1} {y:.1}") } else { format!("H{x:.1}V{y:.1}") });
        }
        path
    }
}

fn shortened(name: &str) -> String {
    match name.chars().count() {
        0..=10 => name.to_owned(),
        _ => format!("{}…", name.chars().take(9).collect::<String>()),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
