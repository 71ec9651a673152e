//! From the engine's numbers to public values.
//!
//! The match is exhaustive on purpose: a new engine event does not compile until it has a name in the catalogue.

use super::{Context, EventKind, system_time};
use crate::engine::{Cost, Event, Unit, Wall};

/// The public form of `event`.
pub(super) fn kind(event: &Event, context: &Context<'_>) -> EventKind {
    let (operation_id, mailbox) = (context.operation_id.cloned(), context.mailbox.cloned());
    let oldest_age = context.oldest_age;
    match event.clone() {
        Event::BreakerOpened { scope, reason, cooldown, until, trips, waiting } => {
            EventKind::BreakerOpened { scope, reason, cooldown, until: system_time(until), trips, waiting }
        }
        Event::BreakerExtended { scope, reason, cooldown, until, trips, waiting } => {
            EventKind::BreakerExtended { scope, reason, cooldown, until: system_time(until), trips, waiting }
        }
        Event::BreakerHalfOpened { scope, reason, trips, waiting } => {
            EventKind::BreakerHalfOpened { scope, reason, trips, waiting }
        }
        Event::BreakerClosed { scope, reason, trips } => EventKind::BreakerClosed { scope, reason, trips },
        Event::ReservationDenied { scope, wall, frees_at, lane, cost } => {
            let cost = cost_at(&cost, wall);
            EventKind::ReservationDenied { scope, window: wall, frees_at: system_time(frees_at), lane, cost }
        }
        Event::OperationDeferred { key: _, lane, constraint, until } => {
            let (constraint, until) = (constraint.wall, system_time(until));
            EventKind::OperationDeferred { operation_id, mailbox, lane, constraint, until }
        }
        Event::OperationQuarantined { key: _, lane, cause } => {
            EventKind::OperationQuarantined { operation_id, mailbox, lane, reason: cause }
        }
        Event::OperationExhausted { key: _, lane, cause: reason, attempts, maybe_sent } => {
            EventKind::OperationExhausted { operation_id, mailbox, lane, reason, attempts, maybe_sent }
        }
        Event::OperationReleased { key: _, lane } => EventKind::OperationReleased { operation_id, mailbox, lane },
        Event::BackgroundCapped { scope, share, depth } => {
            EventKind::BackgroundCapped { scope, share, depth, oldest_age }
        }
        Event::QueueFull { scope, lane, depth } => EventKind::QueueFull { scope, lane, depth, oldest_age },
        Event::ResumePlanned { scope, count, spread, first_at, last_at } => {
            let (first_at, last_at) = (system_time(first_at), system_time(last_at));
            EventKind::ResumePlanned { scope, count, spread, first_at, last_at }
        }
        Event::ResumeFinished { scope, count, spread, first_at, last_at } => {
            let (first_at, last_at) = (system_time(first_at), system_time(last_at));
            EventKind::ResumeFinished { scope, count, spread, first_at, last_at }
        }
        Event::MailboxSuspended { scope, of, status } => EventKind::SendsSuspended { scope, of, status },
        Event::AttemptFinished { key: _, lane, outcome, status, attempt, waited } => {
            EventKind::AttemptFinished { operation_id, mailbox, lane, outcome, status, attempt, waited }
        }
    }
}

/// What `cost` takes at `wall`, in the unit that it counts; requests where it counts none.
fn cost_at(cost: &Cost, wall: Wall) -> u64 {
    let unit = match wall {
        Wall::Window { unit, .. }
        | Wall::Reserve { unit, .. }
        | Wall::Pace { unit, .. }
        | Wall::Share { unit, .. }
        | Wall::Part { unit, .. } => unit,
        _ => Unit::Requests,
    };
    cost.of(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_told_in_the_unit_of_the_wall_that_denied_it() {
        let cost = Cost { bytes: 2_048, ..Cost::email(3, 0) };
        assert_eq!(cost_at(&cost, Wall::Window { unit: Unit::Recipients, seconds: 86_400 }), 3);
        assert_eq!(cost_at(&cost, Wall::Pace { unit: Unit::Bytes, seconds: 300 }), 2_048);
        assert_eq!(cost_at(&cost, Wall::InFlight), 1);
    }
}
