//! The part of the catalogue that is about operators' holds.

use tracing::{info, warn};

use super::{RESUME, millis};
use crate::telemetry::instant::Rfc3339;
use crate::telemetry::redaction::{ShownHold, ShownScope};
use crate::telemetry::{HoldEvent, Level, Redaction};

const ENDED: &str = "hold.scope.ended";
const PART_STARTED: &str = "resume.part.started";
const PART_STOPPED: &str = "resume.part.stopped";
const PART_FINISHED: &str = "resume.part.finished";

pub(super) const fn name(event: &HoldEvent) -> &'static str {
    match event {
        HoldEvent::Ended { .. } => ENDED,
        HoldEvent::PartStarted { .. } => PART_STARTED,
        HoldEvent::PartStopped { .. } => PART_STOPPED,
        HoldEvent::PartFinished { .. } => PART_FINISHED,
    }
}

pub(super) const fn level(event: &HoldEvent) -> Level {
    match event {
        HoldEvent::PartStopped { .. } => Level::Warn,
        HoldEvent::Ended { .. } | HoldEvent::PartStarted { .. } | HoldEvent::PartFinished { .. } => Level::Info,
    }
}

pub(super) fn trace(event: &HoldEvent, redaction: Redaction) {
    match event {
        HoldEvent::Ended { scope, how, since, until } => info!(
            name: ENDED, target: RESUME, {
                scope = %ShownHold(scope, redaction),
                hold.ended = how,
                hold.since = %Rfc3339(*since),
                hold.until = %Rfc3339(*until),
            },
            "hold ended"
        ),
        HoldEvent::PartStarted { scope, count, watch } => info!(
            name: PART_STARTED, target: RESUME, {
                scope = %ShownHold(scope, redaction),
                resume.count = count,
                resume.watch_ms = millis(*watch),
            },
            "first part resumed"
        ),
        HoldEvent::PartStopped { scope, left, throttled, reason } => warn!(
            name: PART_STOPPED, target: RESUME, {
                scope = %ShownHold(scope, redaction),
                resume.left = left,
                resume.throttled = %ShownScope(throttled, redaction),
                reason = reason.as_str(),
            },
            "first part stopped"
        ),
        HoldEvent::PartFinished { scope, count } => info!(
            name: PART_FINISHED, target: RESUME, {
                scope = %ShownHold(scope, redaction),
                resume.count = count,
            },
            "first part went well, hold lifted"
        ),
    }
}
