//! A breaker's life.

use tracing::{info, warn};

use super::{BREAKER, BREAKER_CLOSED, BREAKER_EXTENDED, BREAKER_HALF_OPENED, BREAKER_OPENED, millis};
use crate::telemetry::instant::Rfc3339;
use crate::telemetry::redaction::ShownScope;
use crate::telemetry::{EventKind, Redaction};

pub(super) fn trace(kind: &EventKind, redaction: Redaction) {
    match kind {
        EventKind::BreakerOpened { scope, reason, cooldown, until, trips, waiting } => warn!(
            name: BREAKER_OPENED, target: BREAKER, {
                breaker.scope = %ShownScope(scope, redaction),
                breaker.reason = reason.as_str(),
                breaker.cooldown_ms = millis(*cooldown),
                breaker.until = %Rfc3339(*until),
                breaker.trips = trips,
                breaker.waiting = waiting,
            },
            "breaker opened"
        ),
        EventKind::BreakerExtended { scope, reason, cooldown, until, trips, waiting } => warn!(
            name: BREAKER_EXTENDED, target: BREAKER, {
                breaker.scope = %ShownScope(scope, redaction),
                breaker.reason = reason.as_str(),
                breaker.cooldown_ms = millis(*cooldown),
                breaker.until = %Rfc3339(*until),
                breaker.trips = trips,
                breaker.waiting = waiting,
            },
            "breaker extended"
        ),
        EventKind::BreakerHalfOpened { scope, reason, trips, waiting } => info!(
            name: BREAKER_HALF_OPENED, target: BREAKER, {
                breaker.scope = %ShownScope(scope, redaction),
                breaker.reason = reason.as_str(),
                breaker.trips = trips,
                breaker.waiting = waiting,
            },
            "breaker half-opened"
        ),
        EventKind::BreakerClosed { scope, reason, trips } => info!(
            name: BREAKER_CLOSED, target: BREAKER, {
                breaker.scope = %ShownScope(scope, redaction),
                breaker.reason = reason.as_str(),
                breaker.trips = trips,
            },
            "breaker closed"
        ),
        _ => {}
    }
}
