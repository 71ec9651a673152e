//! One key: how it is spelled, read, shown and bounded, and whether it changes live.
//!
//! The keys stand in tables of values instead of in derived deserializers. One table then answers everything that a
//! configuration is asked: is this key known, what did it mean to say, which line set it, what is allowed, what
//! differs from the running one and needs a restart, and how does it print. Derived code would answer the first.

use std::fmt;

use super::codec::Codec;
use super::source::Source;
use super::value::{Value, Wrong};

/// Whether a running scheduler takes a new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reload {
    /// At once.
    Live,
    /// When the process starts again.
    Restart,
}

/// One key and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// The full key.
    pub key: String,
    /// Its value as TOML, without secrets.
    pub value: String,
    /// Where that came from.
    pub source: Source,
    /// Whether a running scheduler takes a new one.
    pub reload: Reload,
}

type Read<R> = Box<dyn Fn(&mut R, &Value) -> Result<(), Wrong>>;
type Show<R> = Box<dyn Fn(&R) -> Value>;

/// One key of a table `R`.
pub(crate) struct Key<R> {
    /// Its path below `R`, joined by dots.
    pub(crate) path: String,
    /// Whether it changes live.
    pub(crate) reload: Reload,
    /// What is allowed, in words.
    pub(crate) allowed: String,
    read: Read<R>,
    show: Show<R>,
}

impl<R> fmt::Debug for Key<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("path", &self.path).field("reload", &self.reload).finish_non_exhaustive()
    }
}

impl<R: 'static> Key<R> {
    /// A key whose value `get` and `set` reach.
    pub(crate) fn new<C: Codec + Clone + 'static>(
        name: &str,
        reload: Reload,
        codec: C,
        get: fn(&R) -> C::Out,
        set: fn(&mut R, C::Out),
    ) -> Self {
        let shower = codec.clone();
        Self {
            path: name.to_owned(),
            reload,
            allowed: codec.allowed(),
            read: Box::new(move |root, value| codec.read(value).map(|out| set(root, out))),
            show: Box::new(move |root| shower.show(&get(root))),
        }
    }

    /// Reads `value` into `root`, or leaves `root` as it was.
    pub(crate) fn read(&self, root: &mut R, value: &Value) -> Result<(), Wrong> {
        (self.read)(root, value)
    }

    /// The value in `root`.
    pub(crate) fn show(&self, root: &R) -> Value {
        (self.show)(root)
    }
}

/// The keys of a part of `R`, as keys of `R`.
pub(crate) fn within<R: 'static, S: 'static>(
    table: &str,
    keys: Vec<Key<S>>,
    part: fn(&R) -> &S,
    part_mut: fn(&mut R) -> &mut S,
) -> Vec<Key<R>> {
    let lift = |key: Key<S>| {
        let Key { path, reload, allowed, read, show } = key;
        Key {
            path: format!("{table}.{path}"),
            reload,
            allowed,
            read: Box::new(move |root: &mut R, value: &Value| read(part_mut(root), value)),
            show: Box::new(move |root: &R| show(part(root))),
        }
    };
    keys.into_iter().map(lift).collect()
}
