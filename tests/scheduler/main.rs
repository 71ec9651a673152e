//! The scheduler as a program meets it: real actors, real engines, a scripted transport.
//!
//! Most tests run under paused time on one thread, so that an hour passes in a millisecond and every run is the same.

mod admissions;
mod alone;
mod apart;
mod aside;
mod away;
mod callers;
mod charges;
mod closed;
#[cfg(feature = "sqlite")]
mod damaged;
mod deadly;
mod deaths;
mod doors;
mod doubt;
mod ended;
mod faulty;
mod full;
mod intake;
#[cfg(feature = "sqlite")]
mod lives;
mod lookups;
mod oldest;
mod orders;
mod outcomes;
#[cfg(feature = "sqlite")]
mod outstanding;
mod overtaken;
mod panics;
mod permits;
mod persons;
mod poison;
mod refusing;
#[cfg(feature = "sqlite")]
mod requested;
#[cfg(feature = "sqlite")]
mod restarts;
mod steering;
mod stopping;
mod stores;
mod subscriber;
mod support;
mod threads;
mod unanswered;
#[cfg(feature = "sqlite")]
mod widening;
mod withdrawn;
