//! What the scheduler tells its readers, as the engine's events again: reports and pictures read those.

use std::time::SystemTime;

use crate::engine::{Event, Timestamp};
use crate::telemetry::EventKind;

/// The engine's form of a change of state; `None` for single operations and for what only the shell tells.
pub(super) fn event(kind: EventKind) -> Option<Event> {
    Some(match kind {
        EventKind::BreakerOpened { scope, reason, cooldown, until, trips, waiting } => {
            Event::BreakerOpened { scope, reason, cooldown, until: instant(until), trips, waiting }
        }
        EventKind::BreakerExtended { scope, reason, cooldown, until, trips, waiting } => {
            Event::BreakerExtended { scope, reason, cooldown, until: instant(until), trips, waiting }
        }
        EventKind::BreakerHalfOpened { scope, reason, trips, waiting } => {
            Event::BreakerHalfOpened { scope, reason, trips, waiting }
        }
        EventKind::BreakerClosed { scope, reason, trips } => Event::BreakerClosed { scope, reason, trips },
        EventKind::QueueFull { scope, lane, depth, .. } => Event::QueueFull { scope, lane, depth },
        EventKind::ResumePlanned { scope, count, spread, first_at, last_at } => {
            let (first_at, last_at) = (instant(first_at), instant(last_at));
            Event::ResumePlanned { scope, count, spread, first_at, last_at }
        }
        EventKind::ResumeFinished { scope, count, spread, first_at, last_at } => {
            let (first_at, last_at) = (instant(first_at), instant(last_at));
            Event::ResumeFinished { scope, count, spread, first_at, last_at }
        }
        EventKind::SendsSuspended { scope, of, status } => Event::MailboxSuspended { scope, of, status },
        _ => return None,
    })
}

fn instant(at: Option<SystemTime>) -> Timestamp {
    let since = at.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    since.map_or(Timestamp::NEVER, |since| Timestamp::EPOCH.after(since))
}
