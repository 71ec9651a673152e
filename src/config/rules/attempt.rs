//! What one attempt takes has to fit every limit.

use super::Broken;
use crate::config::settings::TransportConfig;
use crate::engine::ledger::capacity;
use crate::engine::policy::ScopePolicy;
use crate::engine::{Cost, Unit};

/// A limit that holds fewer requests than one attempt makes would refuse every submission.
pub(super) fn of_attempt(scope: &ScopePolicy, limits: &'static str, transport: &TransportConfig) -> Vec<Broken> {
    let needed = transport.cost(Cost::ONE_REQUEST).of(Unit::Requests);
    let too_small = scope.limits.iter().filter(|limit| limit.unit() == Unit::Requests && capacity(limit) < needed);
    let broken = too_small.map(|limit| {
        let held = capacity(limit);
        let detail =
            format!("an attempt takes {needed} requests at once, and \"{limit}\" holds {held}: nothing could be sent");
        let allowed = format!("limits that hold {needed} requests, or transport.graph.mode = \"send-mail\"");
        Broken::conflict(&[limits, "transport.graph.mode"], detail, allowed)
    });
    broken.collect()
}
