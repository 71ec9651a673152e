//! What is wrong with a configuration, in words that say how to mend it.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a configuration was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read the configuration {}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It was read, and says something that is not allowed. Every problem is listed, not only the first.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A running scheduler cannot take it: these keys need a restart.
    #[error("these keys change only with a restart: {}; restart, or set them back", keys.join(", "))]
    NeedsRestart {
        /// The full keys.
        keys: Vec<String>,
    },
    /// A secret is kept outside the file and is not there.
    #[error("{key} = {value:?}: {reason}; put the secret there, or name another place")]
    SecretMissing {
        /// The key that names the place.
        key: &'static str,
        /// The place.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The list of mailboxes is closed, and this one is not on it.
    #[error(
        "unknown mailbox {mailbox:?}: submit.mailboxes is \"listed\"; add a table [mailboxes.{mailbox:?}] or set submit.mailboxes = \"any\""
    )]
    UnknownMailbox {
        /// Which mailbox.
        mailbox: String,
    },
}

impl ConfigError {
    /// The problems of an invalid configuration; none for other errors.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Invalid(invalid) => &invalid.problems,
            _ => &[],
        }
    }

    /// Whether the same call may work later: never; a person has to change something first.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        false
    }
}

/// Everything that is wrong with one configuration, in order of appearance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invalid {
    /// The file, preset or "configuration" that was read.
    pub name: Arc<str>,
    /// Its text, which the spans of the problems point into; empty for a configuration made in code.
    pub text: Arc<str>,
    /// At least one.
    pub problems: Vec<Problem>,
}

impl std::error::Error for Invalid {}

impl Invalid {
    /// Problems of a configuration that was made in code.
    pub(crate) fn in_code(problems: Vec<Problem>) -> Self {
        Self { name: Arc::from("configuration"), text: Arc::from(""), problems }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "\n" })?;
            match problem.place {
                Some(Place { line, .. }) => write!(f, "{}:{line}: {problem}", self.name)?,
                None => write!(f, "{}: {problem}", self.name)?,
            }
        }
        Ok(())
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// In which way.
    pub kind: ProblemKind,
    /// The full key, such as `lanes.background_share`; empty when the text is no TOML.
    pub key: String,
    /// Where it stands, if it stands in a text.
    pub place: Option<Place>,
    /// The value as TOML; secrets are left out.
    pub value: String,
    /// What is wrong with it.
    pub detail: String,
    /// What is allowed there.
    pub allowed: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.key.is_empty() {
            f.write_str(&self.key)?;
            if !self.value.is_empty() {
                write!(f, " = {}", self.value)?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.detail)?;
        if self.allowed.is_empty() { Ok(()) } else { write!(f, "; allowed: {}", self.allowed) }
    }
}

/// The ways in which a configuration is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The text is no TOML.
    Syntax,
    /// No such key.
    UnknownKey,
    /// A value of another type belongs there.
    WrongType,
    /// The right type, and not readable as what belongs there.
    Malformed,
    /// Readable, and outside what is allowed.
    OutOfRange,
    /// Allowed by itself, and impossible together with another key.
    Conflict,
    /// Needed because of another key, and not there.
    Missing,
}

impl ProblemKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Syntax,
        Self::UnknownKey,
        Self::WrongType,
        Self::Malformed,
        Self::OutOfRange,
        Self::Conflict,
        Self::Missing,
    ];

    /// Its name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::UnknownKey => "unknown-key",
            Self::WrongType => "wrong-type",
            Self::Malformed => "malformed",
            Self::OutOfRange => "out-of-range",
            Self::Conflict => "conflict",
            Self::Missing => "missing",
        }
    }
}

/// Where something stands in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The line, from 1.
    pub line: u32,
    /// The bytes.
    pub span: Range<usize>,
}

impl Place {
    /// The place of `span` in `text`.
    #[cfg(feature = "config")]
    pub(crate) fn of(text: &str, span: Range<usize>) -> Self {
        let before = text.as_bytes().get(..span.start).unwrap_or(text.as_bytes());
        let breaks = before.iter().filter(|byte| **byte == b'\n').count();
        Self { line: u32::try_from(breaks).unwrap_or(u32::MAX).saturating_add(1), span }
    }
}
