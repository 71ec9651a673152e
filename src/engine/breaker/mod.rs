//! The circuit breaker of one scope.

mod facts;

pub use facts::{BreakerFacts, BreakerState};
