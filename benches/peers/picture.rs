//! One picture per scenario: who is done when, how long people wait, and how much is refused, on one profile.
//!
//! Bars on a shared scale per column, so that they can be compared with the eye; waits and refusals are drawn by their
//! logarithm, for they differ by factors of thousands.

use mailweir::upstream::Profile;

use crate::report::Row;

const WIDTH: f64 = 960.0;
const NAMES: f64 = 300.0;
const GAP: f64 = 24.0;
const LINE: f64 = 26.0;
const TOP: f64 = 78.0;
const BOTTOM: f64 = 18.0;

/// Colours told apart by every kind of eye, on light and dark paper.
const STYLE: &str = "
.paper{fill:#fff}.ink{fill:#1b1f24}.quiet{fill:#57606a}.other{fill:#8c959f}.own{fill:#0a6ebd}.rule{stroke:#d8dee4}
text{font:13px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}.title{font-size:16px;font-weight:600}
.bold{font-weight:600}
@media (prefers-color-scheme:dark){
.paper{fill:#0d1117}.ink{fill:#e6edf3}.quiet{fill:#9aa4af}.other{fill:#6e7681}.own{fill:#6cb6ff}.rule{stroke:#272e37}}
";

struct Column {
    head: &'static str,
    /// Length of the bar, as a share of the column.
    length: fn(&Row) -> f64,
    label: fn(&Row) -> String,
}

fn columns(has_optimum: bool) -> [Column; 3] {
    [
        Column {
            head: if has_optimum { "share of the optimum" } else { "taken by the cut-off" },
            length: Row::goodput,
            label: |row| format!("{:.0} %", row.goodput() * 100.0),
        },
        Column {
            head: "people's wait, p99 (log)",
            length: |row| logarithm(row.people_p99(), 0.1, 100_000.0),
            label: Row::people_text,
        },
        Column {
            head: "429s per email (log)",
            length: |row| logarithm(row.refused_each(), 0.001, 10_000.0),
            label: |row| match row.refused_each() {
                0.0 => "none".to_owned(),
                each if each < 0.1 => format!("{each:.3}"),
                each if each < 10.0 => format!("{each:.1}"),
                each => format!("{each:.0}"),
            },
        },
    ]
}

fn logarithm(value: f64, low: f64, high: f64) -> f64 {
    if value <= low { 0.0 } else { ((value / low).ln() / (high / low).ln()).min(1.0) }
}

fn escaped(text: &str) -> String {
    text.replace('*', "").replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

pub(crate) fn draw(title: &str, profile: Profile, rows: &[Row]) -> String {
    let lines = f64::from(u32::try_from(rows.len()).unwrap_or(0));
    let height = TOP + LINE * lines + BOTTOM;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\"><style>{STYLE}</style><rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"ink title\" x=\"16\" y=\"28\">{}, profile {profile:?}</text>\n",
        escaped(title)
    );
    let width = (WIDTH - NAMES - 16.0) / 3.0;
    for (number, column) in columns(rows.iter().any(Row::has_optimum)).iter().enumerate() {
        let left = NAMES + width * f64::from(u32::try_from(number).unwrap_or(0));
        out.push_str(&format!("<text class=\"quiet\" x=\"{left:.0}\" y=\"60\">{}</text>\n", column.head));
        for (line, row) in (0_u32..).zip(rows) {
            let y = TOP + LINE * f64::from(line);
            let class = if row.is_ours() { "own" } else { "other" };
            let bar = (column.length)(row).clamp(0.0, 1.0) * (width - GAP - 62.0);
            out.push_str(&format!(
                "<rect class=\"{class}\" x=\"{left:.0}\" y=\"{:.0}\" width=\"{:.1}\" height=\"14\"/>\
                 <text class=\"ink\" x=\"{:.1}\" y=\"{:.0}\">{}</text>\n",
                y - 1.0,
                bar.max(1.0),
                left + bar.max(1.0) + 6.0,
                y + 11.0,
                (column.label)(row)
            ));
        }
    }
    for (line, row) in (0_u32..).zip(rows) {
        let y = TOP + LINE * f64::from(line);
        let bold = if row.is_ours() { "ink bold" } else { "ink" };
        out.push_str(&format!(
            "<line class=\"rule\" x1=\"16\" x2=\"{:.0}\" y1=\"{:.0}\" y2=\"{:.0}\"/>\
             <text class=\"{bold}\" x=\"16\" y=\"{:.0}\">{}</text>\n",
            WIDTH - 16.0,
            y - 6.0,
            y - 6.0,
            y + 11.0,
            escaped(row.name())
        ));
    }
    out.push_str("</svg>\n");
    out
}
