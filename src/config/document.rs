//! From TOML to a configuration, with every problem and its line.
//!
//! The text is parsed into toml's own tree of values with their places and walked along the table of keys. A derived
//! deserializer would stop at the first problem and forget where each value stood.

use std::collections::BTreeSet;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Config;
use super::blank::{blanked, names_a_secret};
use super::error::{ConfigError, Invalid, Place, Problem, ProblemKind};
use super::key::Key;
use super::lookup::{Found, Unknown, did_you_mean, find, join, to_value};
use super::mailboxes::{MailboxOverride, TENANT};
use super::source::{Origin, item};
use super::value::{Value, Wrong};
use super::{keys, preset, rules, suggest};
use crate::engine::policy::MailboxPolicy;

/// Largest configuration that is read: some hundred thousand mailboxes with tables of their own.
const BYTES_MAX: u64 = 64 << 20;

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`ConfigError::Unreadable`] when it cannot be read or is larger than 64 MiB, [`ConfigError::Invalid`] with
    /// every problem of its content.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let bytes = read_bounded(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        let name = path.display().to_string();
        match String::from_utf8(bytes) {
            Ok(text) => Self::from_toml(&text, &name),
            Err(error) => Err(not_utf8(&error, &name).into()),
        }
    }

    /// Reads and checks a text; errors call it `name`.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with every problem of its content.
    pub fn from_toml(text: &str, name: &str) -> Result<Self, ConfigError> {
        let mut reader = Reader::new(text, None);
        let config = reader.base_and_tables();
        let failed: BTreeSet<String> = reader.problems.iter().map(|problem| problem.key.clone()).collect();
        if !reader.broken_syntax {
            reader.problems.extend(rules::check_except(&config, &failed));
        }
        let mut problems = reader.problems;
        if problems.is_empty() {
            return Ok(config);
        }
        rules::sort(&mut problems);
        Err(Invalid { name: Arc::from(name), text: Arc::from(blanked(text)), problems }.into())
    }
}

/// A table inside another text, read as a configuration over `base`; what is wrong with it. Spans and lines are those
/// of the whole text.
#[cfg(feature = "sim")]
pub(crate) fn overlay(text: &str, table: &DeTable<'_>, base: Option<&Config>) -> (Config, Vec<Problem>) {
    let mut reader = Reader::new(text, None);
    let mut config = match base {
        Some(base) => base.clone(),
        None => reader.base(table),
    };
    reader.tables(table, &mut config);
    let failed: BTreeSet<String> = reader.problems.iter().map(|problem| problem.key.clone()).collect();
    reader.problems.extend(rules::check_except(&config, &failed));
    (config, reader.problems)
}

/// Reads a whole file of text, of bounded size.
#[cfg(feature = "sim")]
pub(crate) fn text_of(path: &Path) -> Result<String, ConfigError> {
    let bytes = read_bounded(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    String::from_utf8(bytes).map_err(|error| not_utf8(&error, &path.display().to_string()).into())
}

fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len <= BYTES_MAX) {
        return Ok(bytes);
    }
    Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, format!("it is larger than {BYTES_MAX} bytes")))
}

fn not_utf8(error: &std::string::FromUtf8Error, name: &str) -> Invalid {
    let valid = error.utf8_error().valid_up_to();
    let text = String::from_utf8_lossy(error.as_bytes().get(..valid).unwrap_or_default()).into_owned();
    let problem = Problem {
        kind: ProblemKind::Syntax,
        key: String::new(),
        place: Some(Place::of(&text, valid..valid)),
        value: String::new(),
        detail: "the text is not UTF-8 from here on".to_owned(),
        allowed: "TOML in UTF-8".to_owned(),
    };
    Invalid { name: Arc::from(name), text: Arc::from(blanked(&text)), problems: vec![problem] }
}

/// Reads one text over a configuration.
pub(crate) struct Reader<'t> {
    text: &'t str,
    preset: Option<Arc<str>>,
    known: Vec<Key<Config>>,
    own: Vec<Key<MailboxPolicy>>,
    broken_syntax: bool,
    pub(crate) problems: Vec<Problem>,
}

impl<'t> Reader<'t> {
    /// A reader of `text`, which is the file or, with a name, a preset.
    pub(crate) fn new(text: &'t str, preset: Option<Arc<str>>) -> Self {
        let (known, own) = (keys::of_config(), keys::of_mailbox());
        Self { text, preset, known, own, broken_syntax: false, problems: Vec::new() }
    }

    /// The text over the defaults, or over the preset that it names.
    pub(crate) fn base_and_tables(&mut self) -> Config {
        let (root, errors) = DeTable::parse_recoverable(self.text);
        for error in &errors {
            let place = error.span().map(|span| Place::of(self.text, span));
            self.report(ProblemKind::Syntax, String::new(), place, String::new(), error.message(), "TOML 1.0");
        }
        if !errors.is_empty() {
            self.broken_syntax = true;
            return Config::default();
        }
        let root = root.into_inner();
        let mut config = self.base(&root);
        self.tables(&root, &mut config);
        config
    }

    fn tables(&mut self, root: &DeTable<'_>, config: &mut Config) {
        self.walk(root, "", config);
        if let Some((_, value)) = root.iter().find(|(key, _)| key.get_ref() == "mailboxes") {
            self.mailboxes(value, config);
        }
    }

    fn base(&mut self, root: &DeTable<'_>) -> Config {
        let Some((_, value)) = root.iter().find(|(key, _)| key.get_ref() == "preset") else { return Config::default() };
        let place = Some(self.place(value.span()));
        let names = preset::NAMES.map(|name| format!("\"{name}\"")).join(" or ");
        let shown = to_value(value.get_ref());
        let Value::Text(name) = &shown else {
            let detail = Wrong::type_of(&shown, "the name of a preset").detail;
            self.report(ProblemKind::WrongType, "preset".to_owned(), place, shown.to_string(), &detail, &names);
            return Config::default();
        };
        if self.preset.is_some() {
            let detail = "a preset builds on no other";
            self.report(
                ProblemKind::Conflict,
                "preset".to_owned(),
                place,
                shown.to_string(),
                detail,
                "no such key here",
            );
            return Config::default();
        }
        Config::preset(name).unwrap_or_else(|_| {
            let detail = did_you_mean("no such preset", suggest::closest(name, preset::NAMES));
            self.report(ProblemKind::Malformed, "preset".to_owned(), place, shown.to_string(), &detail, &names);
            Config::default()
        })
    }

    fn walk(&mut self, table: &DeTable<'_>, path: &str, config: &mut Config) {
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            if path.is_empty() && matches!(name, "preset" | "mailboxes") {
                continue;
            }
            let full = join(path, name);
            match find(&self.known, &full, name) {
                Found::Key(index) => self.read_base(index, value, config),
                Found::Table => match value.get_ref() {
                    DeValue::Table(inner) => self.walk(inner, &full, config),
                    other => self.no_table(&full, value.span(), &to_value(other)),
                },
                Found::Nothing => {
                    self.unknown(Unknown::of(&self.known, path, name, &["preset", "mailboxes"]), key.span(), value)
                }
            }
        }
    }

    fn read_base(&mut self, index: usize, value: &Spanned<DeValue<'_>>, config: &mut Config) {
        let key = &self.known[index];
        let (path, allowed, hidden) =
            (key.path.clone(), key.allowed.clone(), matches!(key.show(config), Value::Secret(_)));
        match key.read(config, &to_value(value.get_ref())) {
            Ok(()) => self.note(path, value, config),
            Err(wrong) => self.wrong(path, &allowed, wrong, value, if hidden { Show::Nothing } else { Show::Value }),
        }
    }

    fn mailboxes(&mut self, value: &Spanned<DeValue<'_>>, config: &mut Config) {
        let DeValue::Table(table) = value.get_ref() else {
            return self.no_table("mailboxes", value.span(), &to_value(value.get_ref()));
        };
        for (id, value) in table {
            let full = format!("mailboxes.{}", super::value::quoted(id.get_ref()));
            let DeValue::Table(inner) = value.get_ref() else {
                self.no_table(&full, value.span(), &to_value(value.get_ref()));
                continue;
            };
            let origin = Origin { preset: self.preset.clone(), place: self.place(id.span()) };
            config.origins.note(full.clone(), origin);
            let mut own = MailboxOverride::default();
            self.walk_mailbox(inner, &full, "", &mut own, config);
            config.mailboxes.insert(Arc::from(id.get_ref().as_ref()), own);
        }
    }

    fn walk_mailbox(
        &mut self,
        table: &DeTable<'_>,
        id: &str,
        path: &str,
        own: &mut MailboxOverride,
        config: &mut Config,
    ) {
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let below = join(path, name);
            let full = format!("{id}.{below}");
            let read = match find(&self.own, &below, name) {
                Found::Key(index) => self.read_own(index, value, &full, own),
                Found::Table => {
                    match value.get_ref() {
                        DeValue::Table(inner) => self.walk_mailbox(inner, id, &below, own, config),
                        other => self.no_table(&full, value.span(), &to_value(other)),
                    }
                    false
                }
                Found::Nothing if below == TENANT => self.read_tenant(value, full.clone(), own),
                Found::Nothing => {
                    let unknown = Unknown::of(&self.own, path, name, &[TENANT]);
                    self.unknown(Unknown { full: full.clone(), ..unknown }, key.span(), value);
                    false
                }
            };
            if read {
                self.note(full, value, config);
            }
        }
    }

    fn read_own(&mut self, index: usize, value: &Spanned<DeValue<'_>>, full: &str, own: &mut MailboxOverride) -> bool {
        let key = &self.own[index];
        let mut trial = MailboxPolicy::default();
        match key.read(&mut trial, &to_value(value.get_ref())) {
            Ok(()) => {
                own.put(&key.path, key.show(&trial));
                true
            }
            Err(wrong) => {
                let allowed = key.allowed.clone();
                self.wrong(full.to_owned(), &allowed, wrong, value, Show::Value);
                false
            }
        }
    }

    fn read_tenant(&mut self, value: &Spanned<DeValue<'_>>, full: String, own: &mut MailboxOverride) -> bool {
        let shown = to_value(value.get_ref());
        if let Value::Text(text) = &shown {
            // What it may be is one of the rules, which a tenant that is set in code meets as well.
            own.tenant = Some(Arc::from(text.as_str()));
            return true;
        }
        self.wrong(full, "a tenant in quotes", Wrong::type_of(&shown, "a string"), value, Show::Value);
        false
    }

    /// Notes where a value and, for a list, its items were written.
    fn note(&self, key: String, value: &Spanned<DeValue<'_>>, config: &mut Config) {
        let origin = |span| Origin { preset: self.preset.clone(), place: self.place(span) };
        for (index, inner) in value.get_ref().as_array().into_iter().flatten().enumerate() {
            config.origins.note(item(&key, index), origin(inner.span()));
        }
        config.origins.note(key, origin(value.span()));
    }

    fn wrong(&mut self, key: String, allowed: &str, wrong: Wrong, value: &Spanned<DeValue<'_>>, show: Show) {
        let item = wrong.item.and_then(|index| value.get_ref().as_array()?.get(index));
        let at = item.unwrap_or(value);
        let shown = match show {
            Show::Value => to_value(at.get_ref()).to_string(),
            Show::Nothing => "(secret)".to_owned(),
        };
        let place = Some(self.place(at.span()));
        self.report(wrong.kind, key, place, shown, &wrong.detail, allowed);
    }

    fn no_table(&mut self, key: &str, span: Range<usize>, value: &Value) {
        let detail = Wrong::type_of(value, "a table").detail;
        let place = Some(self.place(span));
        self.report(
            ProblemKind::WrongType,
            key.to_owned(),
            place,
            value.to_string(),
            &detail,
            &format!("[{key}] and its keys"),
        );
    }

    fn unknown(&mut self, unknown: Unknown, span: Range<usize>, value: &Spanned<DeValue<'_>>) {
        let secret = names_a_secret(&unknown.full);
        let shown = if secret { "(secret)".to_owned() } else { to_value(value.get_ref()).to_string() };
        let place = Some(self.place(span));
        self.report(ProblemKind::UnknownKey, unknown.full, place, shown, &unknown.detail, &unknown.allowed);
    }

    fn report(
        &mut self,
        kind: ProblemKind,
        key: String,
        place: Option<Place>,
        value: String,
        detail: &str,
        allowed: &str,
    ) {
        self.problems.push(Problem { kind, key, place, value, detail: detail.to_owned(), allowed: allowed.to_owned() });
    }

    fn place(&self, span: Range<usize>) -> Place {
        Place::of(self.text, span)
    }
}

/// Whether an error may show the value.
#[derive(Clone, Copy)]
enum Show {
    Value,
    Nothing,
}
