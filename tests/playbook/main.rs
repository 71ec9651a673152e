//! The playbook of a password reset: what a service does when people click, the provider throttles, and answers get
//! lost. Each case is one row of the operation table (algorithms 5), with the state and the events that are to be seen.
//!
//! Time is paused and the upstream is the simulated one, but for the wait hints, whose form matters: those travel over
//! HTTP.

mod clicks;
mod hints;
mod losses;
mod refusals;
mod support;
mod throttles;
