//! mailweir: an actor-based multi-lane scheduler for outgoing mail.
#![cfg_attr(feature = "sqlite", doc = "\n", doc = include_str!("../README.md"))]

#[cfg(feature = "runtime")]
mod actor;
#[cfg(any(feature = "runtime", feature = "config"))]
pub mod config;
pub mod engine;
#[cfg(any(feature = "runtime", feature = "config"))]
mod redact;
#[cfg(feature = "sim")]
pub mod simulation;
pub mod upstream;

#[cfg(feature = "runtime")]
pub mod clock;
#[cfg(feature = "runtime")]
pub mod email;
#[cfg(feature = "runtime")]
pub mod scheduler;
#[cfg(feature = "http-signals")]
pub mod signals;
#[cfg(feature = "runtime")]
pub mod store;
#[cfg(feature = "runtime")]
pub mod submission;
#[cfg(feature = "runtime")]
pub mod telemetry;
#[cfg(feature = "runtime")]
pub mod transport;

#[cfg(any(feature = "runtime", feature = "config"))]
pub use config::Config;
#[cfg(feature = "runtime")]
pub use email::Email;
pub use engine::mailbox::Outcome;
pub use engine::{Cost, Lane};
#[cfg(feature = "runtime")]
pub use scheduler::{Permit, Scheduler, SchedulerHandle, Ticket};
#[cfg(feature = "runtime")]
pub use submission::{Submission, SubmitError};
