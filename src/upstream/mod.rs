//! The upstream: what the provider does, as a model that runs in virtual time.
//!
//! Tests, the demo, the simulator and the benchmarks all need a provider with known limits, and all need the *same*
//! one, or their figures cannot be compared. So there is one model, [`Upstream`], pure like the engine: `now` is an
//! argument, every draw comes from one seed, limits are integers. It has three users: a simulator calls it directly,
//! the simulated transport puts it behind the transport trait, and `upstream::http` (feature `upstream`) puts it
//! behind Graph's wire format on a real socket.
//!
//! Whoever checks a run reads the [`Log`] of arrivals, never the client's own account: a client that is wrong about
//! its budget is wrong about its own counts too. [`check`] has the questions to ask of it.
//!
//! What is not promised: that any real provider behaves like one of the [`Profile`]s. Microsoft does not publish its
//! algorithm; report results for all four profiles, none alone. Foreign traffic meets the limits but takes no
//! concurrency slot. Floating point is used for latencies and Poisson gaps alone, with arithmetic that is exact on
//! every machine; no accept or refuse depends on it.

pub mod check;
mod decision;
mod foreign;
#[cfg(feature = "upstream")]
pub mod http;
mod limit;
mod log;
mod model;
mod optimum;
mod profile;
mod random;
mod run;
mod schedule;
mod scopes;
mod window;

pub use check::Counts;
pub use decision::{ArrivalRequest, Decision, Delivery, Handle, Refusal, RetryAfter, RetryAfterText};
pub use foreign::Foreign;
pub use limit::{Algorithm, ConcurrencyLimit, UpstreamLimit};
pub use log::{Arrival, Log, Origin};
pub use model::{Block, Early, Faults, Latency, Model, Penalty, Refusals, RetryAfterPolicy, ScopeHeader};
pub use optimum::{Job, Optimum, optimum};
pub use profile::Profile;
pub use random::{LogNormal, Random};
pub use run::{LatencyPlan, Upstream};
pub use schedule::Schedule;
