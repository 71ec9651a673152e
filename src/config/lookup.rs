//! Finds a key by its path, or says what the path was meant to be.

use toml::de::DeValue;

use super::key::Key;
use super::suggest;
use super::value::{Value, quoted};

/// What a path leads to.
pub(crate) enum Found {
    /// The key at this index.
    Key(usize),
    /// A table with keys in it.
    Table,
    /// Nothing that is known.
    Nothing,
}

/// Looks up `path`, whose last part is `name`. A dot inside a quoted part is no separator, so it finds nothing.
pub(crate) fn find<R>(known: &[Key<R>], path: &str, name: &str) -> Found {
    if name.contains('.') {
        return Found::Nothing;
    }
    if let Some(index) = known.iter().position(|key| key.path == path) {
        return Found::Key(index);
    }
    let inside = |key: &Key<R>| key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    if known.iter().any(inside) { Found::Table } else { Found::Nothing }
}

/// What to say of a key that is not known.
pub(crate) struct Unknown {
    /// The full key.
    pub(crate) full: String,
    /// What is wrong with it.
    pub(crate) detail: String,
    /// The keys that exist there.
    pub(crate) allowed: String,
}

impl Unknown {
    /// `name` below `path`, where besides `known` the keys `extra` exist at the top.
    pub(crate) fn of<R>(known: &[Key<R>], path: &str, name: &str, extra: &[&str]) -> Self {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
        let below = known.iter().filter_map(|key| key.path.strip_prefix(&prefix)).map(first_part);
        let mut here: Vec<&str> = below.collect();
        if path.is_empty() {
            here.extend(extra);
        }
        here.dedup();
        let elsewhere = || known.iter().map(|key| key.path.as_str()).find(|path| path.rsplit('.').next() == Some(name));
        let detail = match suggest::closest(name, here.iter().copied()) {
            Some(meant) => did_you_mean("no such key", Some(meant)),
            None => did_you_mean("no such key", elsewhere()),
        };
        let full = if name.contains('.') { join(path, &quoted(name)) } else { join(path, name) };
        Self { full, detail, allowed: here.join(", ") }
    }
}

fn first_part(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

/// `what`, and what was meant, if anything comes near.
pub(crate) fn did_you_mean(what: &str, meant: Option<&str>) -> String {
    meant.map_or_else(|| what.to_owned(), |meant| format!("{what}; did you mean `{meant}`?"))
}

/// `path.name`.
pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// A value of toml's tree as one of ours.
pub(crate) fn to_value(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.clone().into_owned()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::Other("a very large integer", number.to_string()), Value::Integer),
        DeValue::Float(number) => Value::Other("a float", number.to_string()),
        DeValue::Boolean(flag) => Value::Other("a boolean", flag.to_string()),
        DeValue::Datetime(at) => Value::Other("a date", at.to_string()),
        DeValue::Array(items) => Value::List(items.iter().map(|item| to_value(item.get_ref())).collect()),
        DeValue::Table(_) => Value::Other("a table", "{…}".to_owned()),
    }
}
