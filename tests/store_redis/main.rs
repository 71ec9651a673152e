//! What the shared outbox does beyond the contract, over real servers: faults of the server, and processes that disagree.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[cfg(feature = "redis-cluster")]
mod cluster;
mod faults;
mod fleet;
#[path = "../redis_server/mod.rs"]
mod redis_server;
mod replies;
#[cfg(feature = "redis-tls")]
mod secured;
#[cfg(feature = "redis-sentinel")]
mod sentinel;
mod sharing;
mod support;
