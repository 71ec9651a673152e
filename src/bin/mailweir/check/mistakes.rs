//! A configuration's problems, with the line underlined or as JSON.

use std::fmt;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use mailweir::config::{ConfigError, Invalid, Problem};
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use serde_json::{Value, json};

/// Most problems that are shown; the rest is counted.
const SHOWN_MAX: usize = 25;

/// For whom an error is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// People.
    Text,
    /// Programs.
    Json,
}

impl Form {
    /// What `--json` says.
    pub(crate) const fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// How text looks.
#[derive(Clone, Copy, Debug)]
enum Look {
    /// For a terminal.
    Colored,
    /// For a file or another program.
    Plain,
}

/// One problem, as miette draws it.
struct Shown<'e> {
    problem: &'e Problem,
    source: Option<&'e NamedSource<String>>,
}

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { key, value, detail, place, .. } = self.problem;
        if let Some(place) = place {
            write!(f, "line {}: ", place.line)?;
        }
        match (key.is_empty(), value.is_empty()) {
            (true, _) => f.write_str(detail),
            (false, true) => write!(f, "{key}: {detail}"),
            (false, false) => write!(f, "{key} = {value}: {detail}"),
        }
    }
}

impl std::error::Error for Shown<'_> {}

impl Diagnostic for Shown<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let allowed = &self.problem.allowed;
        (!allowed.is_empty()).then(|| Box::new(format!("allowed: {allowed}")) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.map(|source| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = self.problem.place.as_ref().filter(|_| self.source.is_some())?.span.clone();
        let label = LabeledSpan::new(Some("here".to_owned()), span.start, span.end.saturating_sub(span.start));
        Some(Box::new(std::iter::once(label)))
    }
}

/// Says what is wrong with a file, on standard error or as JSON on standard output, and answers 2.
pub(crate) fn refuse(file: &str, error: &ConfigError, form: Form) -> ExitCode {
    // Nobody is left to tell when the stream is closed.
    if form == Form::Json {
        let _ = writeln!(std::io::stdout(), "{}", json(file, error));
    } else {
        let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let look = if color { Look::Colored } else { Look::Plain };
        let _ = std::io::stderr().write_all(text(error, look).as_bytes());
    }
    ExitCode::from(2)
}

/// The error for people.
fn text(error: &ConfigError, look: Look) -> String {
    let ConfigError::Invalid(invalid) = error else { return format!("error: {}\n", with_causes(error)) };
    let theme = match look {
        Look::Colored => GraphicalTheme::unicode(),
        Look::Plain => GraphicalTheme::unicode_nocolor(),
    };
    let handler = GraphicalReportHandler::new_themed(theme).with_context_lines(1);
    let source = NamedSource::new(&invalid.name, invalid.text.to_string());
    let source = (!invalid.text.is_empty()).then_some(&source);
    let mut out = String::new();
    for problem in invalid.problems.iter().take(SHOWN_MAX) {
        let drawn = handler.render_report(&mut out, &Shown { problem, source });
        if drawn.is_err() {
            out.push_str(&format!("{problem}\n"));
        }
    }
    out.push_str(&count(invalid));
    out
}

fn count(invalid: &Invalid) -> String {
    let all = invalid.problems.len();
    let rest = all.saturating_sub(SHOWN_MAX);
    let rest = if rest == 0 { String::new() } else { format!(", {rest} of them not shown") };
    format!("{} is not valid: {all} {}{rest}\n", invalid.name, if all == 1 { "problem" } else { "problems" })
}

fn with_causes(error: &ConfigError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// The error as one JSON object.
fn json(file: &str, error: &ConfigError) -> Value {
    let problem = |problem: &Problem| {
        json!({
            "kind": problem.kind.as_str(),
            "key": problem.key,
            "line": problem.place.as_ref().map(|place| place.line),
            "value": problem.value,
            "detail": problem.detail,
            "allowed": problem.allowed,
        })
    };
    let problems: Vec<Value> = error.problems().iter().map(problem).collect();
    let other = if problems.is_empty() { Value::from(with_causes(error)) } else { Value::Null };
    json!({ "file": file, "valid": false, "problems": problems, "error": other })
}
