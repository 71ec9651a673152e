//! Presets: overlays with the numbers of one provider, each with its date and source in the file.

use std::sync::Arc;

use super::Config;
use super::document::Reader;
use super::error::{ConfigError, Invalid, Problem, ProblemKind};
use super::suggest;

/// The presets of this version.
pub(crate) const NAMES: [&str; 3] = ["graph", "onenote-like", "demo"];

const TEXTS: [&str; 3] = [
    include_str!("../../config/graph.toml"),
    include_str!("../../config/onenote-like.toml"),
    include_str!("../../config/demo.toml"),
];

impl Config {
    /// The names that [`Config::preset`] and the key `preset` know.
    #[must_use]
    pub fn presets() -> &'static [&'static str] {
        &NAMES
    }

    /// The defaults with a preset over them.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] when there is no preset of this name.
    pub fn preset(name: &str) -> Result<Self, ConfigError> {
        let Some((known, text)) = NAMES.iter().zip(TEXTS).find(|(known, _)| **known == name) else {
            let meant = suggest::closest(name, NAMES).map(|meant| format!("; did you mean `{meant}`?"));
            return Err(Invalid::in_code(vec![Problem {
                kind: ProblemKind::Malformed,
                key: "preset".to_owned(),
                place: None,
                value: super::value::quoted(name),
                detail: format!("no such preset{}", meant.unwrap_or_default()),
                allowed: NAMES.join(", "),
            }])
            .into());
        };
        let mut reader = Reader::new(text, Some(Arc::from(*known)));
        let config = reader.base_and_tables();
        if reader.problems.is_empty() {
            return Ok(config);
        }
        let name = Arc::from(format!("preset {known}"));
        Err(Invalid { name, text: Arc::from(text), problems: reader.problems }.into())
    }
}
