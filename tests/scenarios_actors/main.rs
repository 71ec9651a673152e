//! The scenarios of the specification through the real actors, in virtual time.
//!
//! What a program has is under test: [`mailweir::Scheduler`], its handle, its mailbox actors, the simulated transport.
//! Each test runs on one thread under paused time and is given by its seed. What the checkers read is the upstream's
//! log and the transport's own record of starts and ends, never the scheduler's opinion. The same scenarios on the
//! bare engine: `tests/scenarios.rs`.

mod application;
mod campaigns;
mod cooldown;
mod panics;
mod refusals;
mod rehearsal;
mod reload;
mod stopping;
mod support;
