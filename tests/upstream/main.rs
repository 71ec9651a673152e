//! The model of the upstream, from outside: each algorithm at its limit and one above it, at the edges of its
//! windows; the theorems that the scheduler's ledger rests on; each fault; replay from a seed; the optimum.

mod algorithms;
mod faults;
mod log;
mod optimum;
#[cfg(feature = "test-util")]
mod transport;

use std::time::Duration;

use mailweir::engine::{Cost, Timestamp};
use mailweir::upstream::{Algorithm, ArrivalRequest, Model, Upstream, UpstreamLimit};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn at(seconds: f64) -> Timestamp {
    Timestamp::EPOCH.after(Duration::from_secs_f64(seconds))
}

pub(crate) fn request(key: &str) -> ArrivalRequest {
    ArrivalRequest {
        mailbox: "a@x".into(),
        tenant: Some("x".into()),
        cost: Cost::email(1, 100),
        key: key.into(),
        lane: None,
    }
}

pub(crate) fn costing(recipients: u32) -> ArrivalRequest {
    ArrivalRequest { cost: Cost::email(recipients, 0), ..request("k") }
}

pub(crate) fn limit(amount: u64, algorithm: Algorithm) -> UpstreamLimit {
    UpstreamLimit::requests(amount, MINUTE).counted_by(algorithm)
}

pub(crate) fn upstream(limits: impl IntoIterator<Item = UpstreamLimit>) -> Upstream {
    Upstream::new(Model::new(limits), 1)
}
