//! mailweir: an actor-based multi-lane scheduler for outgoing mail.

#[cfg(any(feature = "runtime", feature = "config"))]
pub mod config;
pub mod engine;
#[cfg(feature = "sim")]
pub mod simulation;
pub mod upstream;

#[cfg(feature = "runtime")]
pub mod clock;
#[cfg(feature = "runtime")]
pub mod email;
#[cfg(feature = "http-signals")]
pub mod signals;
#[cfg(feature = "runtime")]
pub mod store;
#[cfg(feature = "runtime")]
pub mod telemetry;
#[cfg(feature = "runtime")]
pub mod transport;
