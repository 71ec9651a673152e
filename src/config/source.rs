//! Where each value came from.
//!
//! Kept beside the values and not in them, so that a setting stays a plain field. A value that nobody recorded and
//! that differs from its default was set in code.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::error::Place;

/// Where one value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// Nobody set it.
    Default,
    /// A preset.
    Preset {
        /// Its name.
        name: Arc<str>,
        /// The line of the preset's file, from 1.
        line: u32,
    },
    /// The configuration file.
    File {
        /// The line, from 1.
        line: u32,
    },
    /// The mailbox's own table in the configuration file.
    Override {
        /// The line, from 1; `None`: made in code.
        line: Option<u32>,
    },
    /// The program.
    Program,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Preset { name, line } => write!(f, "preset {name}, line {line}"),
            Self::File { line } => write!(f, "line {line}"),
            Self::Override { line: Some(line) } => write!(f, "own table, line {line}"),
            Self::Override { line: None } => f.write_str("own table, set in code"),
            Self::Program => f.write_str("set in code"),
        }
    }
}

/// The key of one item of a list.
pub(crate) fn item(key: &str, index: usize) -> String {
    format!("{key}[{index}]")
}

/// The text that wrote a value.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// Of which preset; `None`: the file.
    pub(crate) preset: Option<Arc<str>>,
    /// Where in it.
    pub(crate) place: Place,
}

/// The origins of all values that a text wrote, by full key.
///
/// Never makes two configurations differ: where a value came from is not what it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins(BTreeMap<String, Origin>);

impl PartialEq for Origins {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Origins {}

impl Origins {
    /// Notes who wrote `key`; the last one wins.
    #[cfg(feature = "config")]
    pub(crate) fn note(&mut self, key: String, origin: Origin) {
        self.0.insert(key, origin);
    }

    /// Who wrote `key`.
    pub(crate) fn of(&self, key: &str) -> Option<&Origin> {
        self.0.get(key)
    }

    /// Where the file (not a preset) wrote `key`.
    pub(crate) fn place_in_file(&self, key: &str) -> Option<Place> {
        self.of(key).filter(|origin| origin.preset.is_none()).map(|origin| origin.place.clone())
    }

    /// The source that this origin stands for.
    pub(crate) fn source(&self, key: &str) -> Option<Source> {
        self.of(key).map(|origin| match &origin.preset {
            Some(name) => Source::Preset { name: Arc::clone(name), line: origin.place.line },
            None => Source::File { line: origin.place.line },
        })
    }
}
