//! Settings that only scenarios have: numbers and sizes that may be a range, and what a 429 says.

use std::time::Duration;

use crate::config::{Codec, Value, Wrong, parse_duration, parse_size, show_size};
use crate::upstream::{Random, RetryAfterPolicy};

/// From one number to another, both possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The least.
    pub least: u64,
    /// The most.
    pub most: u64,
}

impl Range {
    /// Always the same.
    #[must_use]
    pub const fn always(number: u64) -> Self {
        Self { least: number, most: number }
    }

    /// One number of it; all are equally likely.
    pub fn draw(self, random: &mut Random) -> u64 {
        match self.most - self.least {
            0 => self.least,
            width => self.least + random.below(width + 1),
        }
    }
}

/// A number or a range of numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers(pub(super) u64, pub(super) u64);

/// A size or a range of sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes(pub(super) u64, pub(super) u64);

fn range(
    value: &Value,
    (least, most): (u64, u64),
    read: impl Fn(&str) -> Option<u64>,
    what: &str,
) -> Result<Range, Wrong> {
    let text = match value {
        Value::Text(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        other => return Err(Wrong::type_of(other, what)),
    };
    let (low, high) = text.split_once("..").unwrap_or((&text, &text));
    let (Some(low), Some(high)) = (read(low.trim()), read(high.trim())) else {
        return Err(Wrong::malformed(format!("not {what}")));
    };
    if low > high {
        return Err(Wrong::out_of_range("its lower end is above its upper end"));
    }
    if low < least || high > most {
        return Err(Wrong::out_of_range("outside what is allowed"));
    }
    Ok(Range { least: low, most: high })
}

impl Codec for Numbers {
    type Out = Range;

    fn read(&self, value: &Value) -> Result<Range, Wrong> {
        range(value, (self.0, self.1), |text| text.replace('_', "").parse().ok(), "a whole number, or a range of them")
    }

    fn show(&self, out: &Range) -> Value {
        Value::Text(format!("{}..{}", out.least, out.most))
    }

    fn allowed(&self) -> String {
        format!("a whole number such as 3, or a range such as \"1..200\", from {} to {}", self.0, self.1)
    }
}

impl Codec for Sizes {
    type Out = Range;

    fn read(&self, value: &Value) -> Result<Range, Wrong> {
        if let Value::Integer(_) = value {
            return Err(Wrong::type_of(value, "a size in quotes"));
        }
        range(value, (self.0, self.1), parse_size, "a size, or a range of sizes")
    }

    fn show(&self, out: &Range) -> Value {
        Value::Text(format!("{}..{}", show_size(out.least), show_size(out.most)))
    }

    fn allowed(&self) -> String {
        let (least, most) = (show_size(self.0), show_size(self.1));
        format!("a size such as \"50kB\", or a range such as \"4kB..3MB\", from {least} to {most}")
    }
}

/// What a 429 says about the wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryAfterForm;

impl Codec for RetryAfterForm {
    type Out = RetryAfterPolicy;

    fn read(&self, value: &Value) -> Result<RetryAfterPolicy, Wrong> {
        let Value::Text(text) = value else { return Err(Wrong::type_of(value, "a word or a duration in quotes")) };
        Ok(match text.as_str() {
            "none" => RetryAfterPolicy::None,
            "exact" => RetryAfterPolicy::Exact,
            "date" => RetryAfterPolicy::Date,
            "malformed" => RetryAfterPolicy::Malformed("soon".into()),
            constant => match parse_duration(constant) {
                Some(span) if span >= Duration::from_secs(1) => RetryAfterPolicy::Constant(span.as_secs()),
                _ => return Err(Wrong::malformed("neither a word that is known nor a duration of a second or more")),
            },
        })
    }

    fn show(&self, _: &RetryAfterPolicy) -> Value {
        Value::Text("exact".to_owned())
    }

    fn allowed(&self) -> String {
        "\"exact\", \"none\", \"date\", \"malformed\", or always the same, such as \"30s\"".to_owned()
    }
}
