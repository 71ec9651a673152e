//! The pure engine: a deterministic state machine that takes `now` as an argument.

pub mod breaker;
pub(crate) mod budget;
pub mod callers;
pub mod constraint;
pub mod cost;
pub mod event;
pub mod invariants;
pub mod lane;
pub mod lanes;
pub mod ledger;
pub mod limit;
pub mod mailbox;
pub mod operation;
pub mod plan;
pub mod policy;
pub mod ratio;
pub(crate) mod resume;
pub mod retry;
pub mod scope;
pub mod settlement;
pub mod shared;
pub mod spread;
pub mod tenure;
pub mod time;
pub mod verdict;

pub use constraint::{Constraint, Wall};
pub use cost::{Cost, Unit};
pub use event::{Event, TripReason};
pub use lane::Lane;
pub use limit::{Limit, WindowKind};
pub use operation::{Operation, OperationKey, OperationState, Resolution};
pub use ratio::Ratio;
pub use scope::{Scope, ScopeKind};
pub use tenure::Tenure;
pub use time::Timestamp;
pub use verdict::{Answer, Sent, Subject, Throttle, ThrottleKind, Verdict};
