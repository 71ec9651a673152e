//! Reads a table of TOML key by key, for files other than the configuration: a scenario has lists of tables, which the
//! table of keys does not know.
//!
//! Refusals are the configuration's own: line, key, value, what is allowed, and what a misspelled key was meant to be.
//! What is allowed is what was asked for, so a key cannot be read and forgotten in the list.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::blank::blanked;
use super::codec::Codec;
use super::error::{Invalid, Place, Problem, ProblemKind};
use super::lookup::{did_you_mean, join, to_value};
use super::suggest;
use super::value::Wrong;

/// One text and what is wrong with it.
pub(crate) struct Sheet<'t> {
    pub(crate) text: &'t str,
    problems: RefCell<Vec<Problem>>,
}

impl<'t> Sheet<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, problems: RefCell::default() }
    }

    /// The text's tables; `None` when it is no TOML.
    pub(crate) fn parse(&self) -> Option<DeTable<'t>> {
        let (root, errors) = DeTable::parse_recoverable(self.text);
        for error in &errors {
            let place = error.span().map(|span| Place::of(self.text, span));
            self.report(ProblemKind::Syntax, String::new(), place, String::new(), error.message(), "TOML 1.0");
        }
        errors.is_empty().then(|| root.into_inner())
    }

    pub(crate) fn add(&self, problems: impl IntoIterator<Item = Problem>) {
        self.problems.borrow_mut().extend(problems);
    }

    fn report(&self, kind: ProblemKind, key: String, place: Option<Place>, value: String, detail: &str, allowed: &str) {
        let (detail, allowed) = (detail.to_owned(), allowed.to_owned());
        self.problems.borrow_mut().push(Problem { kind, key, place, value, detail, allowed });
    }

    /// `value`, unless something is wrong.
    ///
    /// # Errors
    /// Everything that is wrong, in order of appearance.
    pub(crate) fn conclude<T>(self, name: &str, value: Option<T>) -> Result<T, Invalid> {
        let mut problems = self.problems.into_inner();
        super::rules::sort(&mut problems);
        match value {
            Some(value) if problems.is_empty() => Ok(value),
            _ => Err(Invalid { name: Arc::from(name), text: Arc::from(blanked(self.text)), problems }),
        }
    }
}

/// One table of it.
pub(crate) struct Fields<'a, 't> {
    sheet: &'a Sheet<'t>,
    table: &'a DeTable<'t>,
    path: String,
    span: Range<usize>,
    asked: Vec<&'static str>,
}

impl<'a, 't> Fields<'a, 't> {
    pub(crate) fn root(sheet: &'a Sheet<'t>, table: &'a DeTable<'t>) -> Self {
        Self { sheet, table, path: String::new(), span: 0..0, asked: Vec::new() }
    }

    /// The value of a key, as it stands.
    pub(crate) fn raw(&mut self, name: &'static str) -> Option<&'a Spanned<DeValue<'t>>> {
        self.asked.push(name);
        self.table.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)
    }

    /// The value of a key; `None` when it is not there, or wrong.
    pub(crate) fn get<C: Codec>(&mut self, name: &'static str, codec: &C) -> Option<C::Out> {
        let value = self.raw(name)?;
        codec.read(&to_value(value.get_ref())).map_err(|wrong| self.wrong(name, value, &wrong, &codec.allowed())).ok()
    }

    /// The value of a key, or what holds without it.
    pub(crate) fn or<C: Codec>(&mut self, name: &'static str, codec: &C, otherwise: C::Out) -> C::Out {
        self.get(name, codec).unwrap_or(otherwise)
    }

    /// The value of a key that has to be there.
    pub(crate) fn need<C: Codec>(&mut self, name: &'static str, codec: &C) -> Option<C::Out> {
        if self.raw(name).is_none() {
            let key = join(&self.path, name);
            let place = Some(Place::of(self.sheet.text, self.span.clone()));
            self.sheet.report(ProblemKind::Missing, key, place, String::new(), "needed here", &codec.allowed());
            return None;
        }
        self.asked.pop();
        self.get(name, codec)
    }

    /// A table below this one.
    pub(crate) fn table(&mut self, name: &'static str) -> Option<Fields<'a, 't>> {
        let value = self.raw(name)?;
        let path = join(&self.path, name);
        self.below(path, value)
    }

    /// The tables of a list `[[name]]`.
    pub(crate) fn tables(&mut self, name: &'static str) -> Vec<Fields<'a, 't>> {
        let Some(value) = self.raw(name) else { return Vec::new() };
        let path = join(&self.path, name);
        let Some(items) = value.get_ref().as_array() else {
            let wrong = Wrong::type_of(&to_value(value.get_ref()), "a list of tables");
            self.wrong(name, value, &wrong, &format!("[[{path}]] and its keys"));
            return Vec::new();
        };
        let each = items.iter().enumerate().filter_map(|(at, item)| self.below(format!("{path}[{}]", at + 1), item));
        each.collect()
    }

    fn below(&self, path: String, value: &'a Spanned<DeValue<'t>>) -> Option<Fields<'a, 't>> {
        let span = value.span();
        if let DeValue::Table(table) = value.get_ref() {
            return Some(Fields { sheet: self.sheet, table, path, span, asked: Vec::new() });
        }
        let shown = to_value(value.get_ref());
        let detail = Wrong::type_of(&shown, "a table").detail;
        let place = Some(Place::of(self.sheet.text, span));
        let allowed = format!("[{path}] and its keys");
        self.sheet.report(ProblemKind::WrongType, path, place, shown.to_string(), &detail, &allowed);
        None
    }

    /// Says what is wrong with a value that is there, or with the table.
    pub(crate) fn conflict(&self, name: &str, detail: &str, allowed: &str) {
        let found = self.table.iter().find(|(key, _)| key.get_ref() == name);
        let (span, value) = match found {
            Some((_, value)) => (value.span(), to_value(value.get_ref()).to_string()),
            None => (self.span.clone(), String::new()),
        };
        let place = Some(Place::of(self.sheet.text, span));
        self.sheet.report(ProblemKind::Conflict, join(&self.path, name), place, value, detail, allowed);
    }

    fn wrong(&self, name: &str, value: &Spanned<DeValue<'t>>, wrong: &Wrong, allowed: &str) {
        let item = wrong.item.and_then(|index| value.get_ref().as_array()?.get(index));
        let at = item.unwrap_or(value);
        let shown = to_value(at.get_ref()).to_string();
        let place = Some(Place::of(self.sheet.text, at.span()));
        self.sheet.report(wrong.kind, join(&self.path, name), place, shown, &wrong.detail, allowed);
    }

    /// Refuses every key that was not asked for.
    pub(crate) fn close(self) {
        for (key, value) in self.table {
            let name = key.get_ref().as_ref();
            if self.asked.contains(&name) {
                continue;
            }
            let detail = did_you_mean("no such key", suggest::closest(name, self.asked.iter().copied()));
            let place = Some(Place::of(self.sheet.text, key.span()));
            let (key, shown) = (join(&self.path, name), to_value(value.get_ref()).to_string());
            self.sheet.report(ProblemKind::UnknownKey, key, place, shown, &detail, &self.asked.join(", "));
        }
    }
}
