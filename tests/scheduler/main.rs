//! The scheduler as a program meets it: real actors, real engines, a scripted transport.
//!
//! Most tests run under paused time on one thread, so that an hour passes in a millisecond and every run is the same.

mod aside;
mod deaths;
mod faulty;
mod intake;
mod lookups;
mod orders;
mod outcomes;
mod panics;
mod permits;
mod refusing;
mod steering;
mod stopping;
mod stores;
mod support;
mod threads;
