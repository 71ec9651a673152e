//! A lease has to be renewed while it still counts.

use super::Broken;
use super::show_duration;
use crate::engine::policy::FleetPolicy;

pub(super) fn of_fleet(fleet: &FleetPolicy) -> Vec<Broken> {
    let needed = fleet.renew_every.saturating_add(fleet.lease_margin);
    if needed < fleet.lease_ttl {
        return Vec::new();
    }
    let (ttl, needed) = (show_duration(fleet.lease_ttl), show_duration(needed));
    vec![Broken::conflict(
        &["fleet.lease_ttl", "fleet.renew_every", "fleet.lease_margin"],
        format!("a lease of {ttl} has run out by the time it is renewed, {needed} after its beginning"),
        "fleet.lease_ttl above fleet.renew_every and fleet.lease_margin together".to_owned(),
    )]
}
