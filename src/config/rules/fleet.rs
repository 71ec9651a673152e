//! A lease has to be renewed while it still counts.

use super::Broken;
use super::show_duration;
use crate::engine::policy::FleetPolicy;

pub(super) fn of_fleet(fleet: &FleetPolicy) -> Vec<Broken> {
    let needed = fleet.renew_every.saturating_add(fleet.lease_margin);
    let mut broken = of_chunks(fleet);
    if needed < fleet.lease_ttl {
        return broken;
    }
    let (ttl, needed) = (show_duration(fleet.lease_ttl), show_duration(needed));
    broken.push(Broken::conflict(
        &["fleet.lease_ttl", "fleet.renew_every", "fleet.lease_margin"],
        format!("a lease of {ttl} has run out by the time it is renewed, {needed} after its beginning"),
        "fleet.lease_ttl above fleet.renew_every and fleet.lease_margin together".to_owned(),
    ));
    broken
}

/// What was taken has to last until more is taken.
fn of_chunks(fleet: &FleetPolicy) -> Vec<Broken> {
    if fleet.chunk < fleet.chunk_ttl {
        return Vec::new();
    }
    let (chunk, ttl) = (show_duration(fleet.chunk), show_duration(fleet.chunk_ttl));
    vec![Broken::conflict(
        &["fleet.chunk", "fleet.chunk_ttl"],
        format!("a chunk may be used for {ttl}, and the next one is asked for after {chunk}"),
        "fleet.chunk_ttl above fleet.chunk".to_owned(),
    )]
}
