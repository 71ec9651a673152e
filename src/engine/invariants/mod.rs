//! The named, numbered invariants: pure predicates that tests, simulation and debug builds share.
//!
//! An invariant that only a test knows is checked where the test looks. These take small views of engine values, so
//! whoever holds the values can ask, and a violation names the invariant by the number that ARCHITECTURE.md gives it.

pub mod lanes;
pub mod operation;

use std::fmt;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invariant {id} is broken: {message}")]
pub struct Violation {
    /// Its number, such as `O2`.
    pub id: &'static str,
    /// Which values broke it.
    pub message: String,
}

impl Violation {
    /// A violation of `id`.
    pub fn new(id: &'static str, message: impl fmt::Display) -> Self {
        Self { id, message: message.to_string() }
    }
}
