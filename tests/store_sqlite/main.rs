//! The store on disk, where it can go wrong: files, rooms, crashes, company.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod commits;
mod crashes;
mod files;
mod inside;
mod kill;
mod names;
mod notes;
mod permits;
mod room;
mod support;
