//! What one key holds, apart from where it was written.
//!
//! TOML has more kinds of value than a setting needs. Settings are texts, whole numbers and lists; anything else is
//! carried as its name so that an error can say what was found. There are no booleans on purpose: `mailboxes =
//! "listed"` says what it does where a flag would not.

use std::fmt;

use super::secret::Secret;
use crate::redact::without_credentials;

/// What a key was given, or holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// A string.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// An array.
    List(Vec<Value>),
    /// A string that no output shows.
    Secret(Secret),
    /// Anything else, by its TOML name and as it was written.
    #[cfg_attr(not(feature = "config"), allow(dead_code, reason = "only a text can hold it"))]
    Other(&'static str, String),
}

impl Value {
    /// What people call this kind of value.
    pub(crate) const fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) | Self::Secret(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::List(_) => "an array",
            Self::Other(name, _) => name,
        }
    }
}

impl Value {
    /// As TOML that reads back, except that a secret shows nothing of itself.
    pub(crate) fn toml(&self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::Integer(number) => number.to_string(),
            Self::List(items) => format!("[{}]", items.iter().map(Self::toml).collect::<Vec<_>>().join(", ")),
            Self::Secret(secret) => if secret.is_empty() { "\"\"" } else { "\"(secret)\"" }.to_owned(),
            Self::Other(_, text) => text.clone(),
        }
    }
}

/// For people and logs: as TOML, cut to a length, without secrets and without what stands before `@` in an address.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = without_credentials(&self.toml());
        let end = shown.char_indices().nth(SHOWN_CHARS_MAX).map_or(shown.len(), |(end, _)| end);
        f.write_str(&shown[..end])?;
        f.write_str(if end < shown.len() { "…" } else { "" })
    }
}

/// Longest value that an error shows, in characters.
const SHOWN_CHARS_MAX: usize = 120;

/// `text` as a basic TOML string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Why a value does not fit its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// In which way.
    pub(crate) kind: super::error::ProblemKind,
    /// What is wrong, in words.
    pub(crate) detail: String,
    /// Which item of an array it is.
    pub(crate) item: Option<usize>,
}

impl Wrong {
    /// The value has the wrong type.
    pub(crate) fn type_of(value: &Value, wanted: &str) -> Self {
        Self::new(super::error::ProblemKind::WrongType, format!("{} where {wanted} belongs", value.type_name()))
    }

    /// The value has the right type and cannot be read.
    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(super::error::ProblemKind::Malformed, detail.into())
    }

    /// The value can be read and is outside what is allowed.
    pub(crate) fn out_of_range(detail: impl Into<String>) -> Self {
        Self::new(super::error::ProblemKind::OutOfRange, detail.into())
    }

    fn new(kind: super::error::ProblemKind, detail: String) -> Self {
        Self { kind, detail, item: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_show_no_credentials() {
        let shown = |text: &str| Value::Text(text.to_owned()).to_string();
        assert_eq!(shown("redis://user:pa@ss@host:6379/0"), "\"redis://…@host:6379/0\"");
        // Up to the last `@`, wherever that is: see `redact`.
        assert_eq!(shown("redis://host/a@b"), "\"redis://…@b\"");
        assert_eq!(Value::Text("redis://u:p@h".to_owned()).toml(), "\"redis://u:p@h\"");
    }

    #[test]
    fn long_values_are_cut_where_a_character_ends() {
        let shown = Value::Text("é".repeat(500)).to_string();
        assert_eq!(shown.chars().count(), SHOWN_CHARS_MAX + 1);
        assert!(shown.ends_with('…'));
    }

    #[test]
    fn strings_print_as_toml_reads_them() {
        assert_eq!(quoted("a\"b\\c\n\u{7}"), "\"a\\\"b\\\\c\\n\\u0007\"");
    }
}
